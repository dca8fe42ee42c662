//! The tilings that were chosen for operands that exceed the devices' memory, by the shape of the call.

use std::collections::HashMap;

use crate::base::{Dtype, Form, Op, Routine};
use crate::plan::{Problem, Tiling};

/// Choices that are kept; when there are more, all are forgotten.
const MOST_KEPT: usize = 256;

/// What a choice depends on, besides the rates.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    routine: Routine,
    dtype: Dtype,
    form: Form,
    ops: (Op, Op),
    sizes: [usize; 3],
    overwrites: bool,
    devices: usize,
}

impl Key {
    pub(super) fn new(problem: &Problem, devices: usize) -> Key {
        Key {
            routine: problem.routine,
            dtype: problem.dtype,
            form: problem.form,
            ops: (problem.op_a, problem.op_b),
            sizes: [problem.m, problem.n, problem.k],
            overwrites: problem.beta.is_zero(),
            devices,
        }
    }
}

/// The choices made so far, each with the predicted seconds; `None` where the memory is too small.
#[derive(Debug, Default)]
pub(super) struct Tilings(HashMap<Key, Option<(Tiling, f64)>>);

impl Tilings {
    pub(super) fn get(&self, key: &Key) -> Option<Option<(Tiling, f64)>> {
        self.0.get(key).copied()
    }

    pub(super) fn put(&mut self, key: Key, chosen: Option<(Tiling, f64)>) {
        if self.0.len() >= MOST_KEPT {
            self.0.clear();
        }
        self.0.insert(key, chosen);
    }
}
