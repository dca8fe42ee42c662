//! No other type can be an element.
use semcache_api::{Scalar, View};

#[derive(Clone, Copy, PartialEq, Debug)]
struct Half(u16);

impl Scalar for Half {}

fn main() {
    View::new(&[1_i32], 1, 1, 1);
}
