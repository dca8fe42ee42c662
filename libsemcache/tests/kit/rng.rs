//! Repeatable numbers.

use semcache::base::Value;

/// A small generator: the interleaving is the test, not the numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..8).for_each(|_| {
            rng.next();
        });
        rng
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }
    /// An element.
    pub fn value(&mut self) -> f64 {
        [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0][self.below(7)]
    }
    /// alpha or beta.
    pub fn scalar(&mut self) -> Value {
        Value {
            re: [0.0, 1.0, 1.0, -1.0, 2.0][self.below(5)],
            im: 0.0,
        }
    }
}
