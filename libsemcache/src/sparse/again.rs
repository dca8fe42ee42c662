//! Products that repeat: a solver multiplies the same vectors by the same matrix in each step, and devices hold all of them.
//!
//! The first such product leaves its tasks with the link of the matrix ([`Again`]). A later one queues them again, with the scalars of its
//! own, and needs no check of its arguments, no decision, and nothing of the protocol but the steps of the tasks themselves: these copy
//! what a device lacks of X. That holds as long as the link does, the blocks of the operands are the same, devices hold all bytes of them
//! that the product reads, and no page of these needs an announcement ([`Cache::has_on_devices`]). Otherwise the product takes the ordinary
//! path: so it does if row offsets or column indices share an accessible page with other data whose writes nobody notices, as devices
//! drop what lies there at the end of each product.

use super::pattern::Pattern;
use super::product::Product;
use super::task::Task;
use crate::base::Op;
use crate::cache::{Cache, CacheError};
use crate::hints::view::View;
use crate::host::{self, Block};

/// One in this many products of a kind takes the ordinary path, which decides anew whether devices are to compute it.
const ASKED: u32 = 32;

/// The tasks of a product.
#[derive(Debug)]
pub struct Again {
    op: Op,
    x: View,
    y: View,
    /// Whether Y is only written.
    overwrites: bool,
    /// The program's blocks that the tasks use.
    blocks: Vec<Block>,
    pub(super) tasks: Vec<Task>,
    products: u32,
}

impl Again {
    /// Of a product that was queued whole, and uses these blocks of the program.
    pub(super) fn new(product: &Product, blocks: Vec<Block>, tasks: Vec<Task>) -> Again {
        Again {
            op: product.op,
            x: product.x,
            y: product.y,
            overwrites: product.beta.is_zero(),
            blocks,
            tasks,
            products: 0,
        }
    }

    /// Whether these are the tasks of a product of the same matrix.
    #[must_use]
    pub fn serves(&self, product: &Product) -> bool {
        let Product { op, x, y, .. } = product;
        let scalars = !product.alpha.is_zero() && self.overwrites == product.beta.is_zero();
        scalars && (*op, *x, *y) == (self.op, self.x, self.y)
    }

    /// Whether devices have all that the tasks read.
    pub(super) fn stands(&mut self, cache: &Cache, pattern: &Pattern) -> Result<bool, CacheError> {
        self.products += 1;
        if self.products.is_multiple_of(ASKED)
            || !self.blocks.iter().all(host::stands)
            || !pattern.holds(cache)
        {
            return Ok(false);
        }
        cache.has_on_devices(self.tasks.iter().flat_map(Task::of_program))
    }
}
