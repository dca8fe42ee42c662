//! Repeatable random numbers.

/// A small generator: tests need repeatable numbers, not good ones.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The sequence that belongs to `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng((seed ^ 0x5DEE_CE66_D1CE_4E5B).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..4 {
            rng.draw();
        }
        rng
    }

    /// 53 random bits.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    /// A number below `n`, which is not zero.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.draw() % n as u64).unwrap()
    }

    /// An element of a list.
    pub fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// An element of a matrix.
    pub fn element(&mut self) -> f64 {
        self.of(&[-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
    }

    /// alpha or beta: the values that routines treat specially, and others.
    pub fn scalar(&mut self) -> f64 {
        self.of(&[0.0, 1.0, 1.0, -1.0, 2.0])
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}
