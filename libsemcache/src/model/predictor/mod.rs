//! Predictors of a call's seconds on devices: one trait, and the published models that implement it.
//!
//! A [`Case`] is a call with what of its operands has to move, a tile size, and the rates of the devices. Each [`Predictor`]
//! answers for it: [`Overlap`] has the models of van Werkhoven et al. (CCGrid 2014), [`Equation`] those of CoCoPeLia
//! (Anastasiadis et al., ISPASS 2021), and [`Roofline`] the bound that no other can be below. The timeline of a plan
//! (`sched::timeline`) implements the trait, too, on the floor that knows plans.

mod case;
mod cocopelia;
pub mod pipeline;
mod roofline;
pub mod streams;

#[cfg(test)]
mod tests;

pub use case::{Answer, Case, Predictor};
pub use cocopelia::Equation;
pub use roofline::Roofline;
pub use streams::Overlap;

/// The closed forms, in the order of their papers.
pub const CLOSED_FORMS: &[&dyn Predictor] = &[
    &Roofline,
    &Overlap::Explicit,
    &Overlap::ImplicitSync,
    &Overlap::OneEngine,
    &Overlap::TwoEngines,
    &Overlap::Mapped,
    &Equation::Baseline,
    &Equation::DataLocation,
    &Equation::Bidirectional,
    &Equation::Reuse,
];
