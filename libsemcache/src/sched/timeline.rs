//! The timeline of a plan as a predictor.

use super::memory::{Devices, in_core, out_of_core};
use crate::model::predictor::{Answer, Case, Predictor};
use crate::model::timeline::{Schedule, Watch, watched};
use crate::plan::{self, Plan, Problem, Resources};

/// Predicts a call by its plan: each copy and each kernel, on lanes that are busy one operation at a time.
#[derive(Clone, Copy, Debug)]
pub struct Timeline<'a> {
    problem: &'a Problem,
    resources: &'a Resources,
    on: &'a Devices,
}

impl<'a> Timeline<'a> {
    /// The timeline of a problem on these devices. If `resources` has a tiling for operands that exceed the memory, devices hold
    /// nothing before the call, and everything moves; else they hold all that the case does not move.
    #[must_use]
    pub fn new(problem: &'a Problem, resources: &'a Resources, on: &'a Devices) -> Timeline<'a> {
        Timeline {
            problem,
            resources,
            on,
        }
    }

    /// The plan of a case and its schedule; `watch` is told when each copy and kernel runs. `None` if the devices have no room
    /// for the call.
    pub fn plan(&self, case: &Case<'_>, watch: &mut impl Watch) -> Option<(Plan, Schedule)> {
        let resources = Resources {
            tile: case.tile,
            ..*self.resources
        };
        let plan = plan::lower(self.problem, &resources);
        if !plan.fits {
            return None;
        }
        let (load, devices) = match resources.tiling {
            Some(_) => out_of_core(self.problem, &plan, self.on, resources.memory),
            None => in_core(self.problem, &plan, self.on, case.moved),
        };
        let schedule = watched(&load, &devices, watch)?;
        Some((plan, schedule))
    }
}

impl Predictor for Timeline<'_> {
    fn name(&self) -> &'static str {
        "timeline of the plan"
    }

    fn source(&self) -> &'static str {
        "semcache, ARCHITECTURE.md (The planner)"
    }

    fn answer(&self, case: &Case<'_>) -> Option<Answer> {
        let (plan, schedule) = self.plan(case, &mut ())?;
        Some(Answer {
            seconds: schedule.seconds,
            pieces: plan.tasks.len(),
        })
    }
}
