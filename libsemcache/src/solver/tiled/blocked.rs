//! What a factorization by columns of tiles queues for each task.

use super::order::{Task, tasks};
use super::tiling::Tiling;
use crate::solver::queue::Refused;

/// Queues the tasks of a factorization.
pub(super) trait Blocked {
    fn load(&mut self, column: usize) -> Result<(), Refused>;
    fn factor(&mut self, panel: usize) -> Result<(), Refused>;
    fn spread(&mut self, panel: usize) -> Result<(), Refused>;
    fn update(&mut self, column: usize, by: usize) -> Result<(), Refused>;
}

/// Queues all tasks, in order.
pub(super) fn all(tiling: &Tiling, blocked: &mut impl Blocked) -> Result<(), Refused> {
    for task in tasks(tiling.columns(), tiling.panels(), &tiling.spans) {
        match task {
            Task::Load(column) => blocked.load(column),
            Task::Factor(panel) => blocked.factor(panel),
            Task::Spread(panel) => blocked.spread(panel),
            Task::Update { column, by } => blocked.update(column, by),
        }?;
    }
    Ok(())
}
