//! What a factorization by columns of tiles queues for each task.

use super::order::{Task, tasks};
use super::tiling::Tiling;
use crate::solver::compute::info;
use crate::solver::queue::{Queueing, Refused};

/// Queues the tasks of a factorization.
pub(super) trait Blocked {
    fn load(&mut self, column: usize) -> Result<(), Refused>;
    fn factor(&mut self, panel: usize) -> Result<(), Refused>;
    fn spread(&mut self, panel: usize) -> Result<(), Refused>;
    fn update(&mut self, column: usize, by: usize) -> Result<(), Refused>;
    /// Waits for the panels before this one, and says whether INFO of each is 0.
    fn is_regular(&self, end: usize) -> Result<bool, Refused>;
}

/// Queues all tasks, in order. Returns false, with no more queued, once INFO of a panel is known not to be 0.
pub(super) fn all(tiling: &Tiling, blocked: &mut impl Blocked) -> Result<bool, Refused> {
    for task in tasks(tiling.columns(), tiling.panels(), &tiling.spans) {
        match task {
            Task::Load(column) => blocked.load(column),
            Task::Factor(panel) => blocked.factor(panel),
            Task::Spread(panel) => blocked.spread(panel),
            Task::Update { column, by } => blocked.update(column, by),
            Task::Check(end) => match blocked.is_regular(end)? {
                true => Ok(()),
                false => return Ok(false),
            },
        }?;
    }
    Ok(true)
}

/// Whether INFO is 0 in these answers, once devices have given them.
pub(super) fn regular(
    queueing: &Queueing<'_>,
    answers: impl Iterator<Item = usize>,
) -> Result<bool, Refused> {
    for answer in answers {
        if info(queueing.answer(answer)?) != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}
