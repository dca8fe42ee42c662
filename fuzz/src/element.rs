//! Element types, as the oracle sees them: complex numbers of which some have no imaginary part.

use num_complex::Complex64;

/// An element type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// float
    S,
    /// double
    D,
    /// complex float
    C,
    /// complex double
    Z,
    /// `int32_t`: row offsets and column indices of sparse matrices
    I,
    /// `int64_t`: the same
    L,
}

impl Type {
    /// Those that the BLAS has.
    pub const ALL: [Type; 4] = [Type::S, Type::D, Type::C, Type::Z];

    /// Bytes of an element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Type::S | Type::I => 4,
            Type::D | Type::C | Type::L => 8,
            Type::Z => 16,
        }
    }

    /// Whether elements have an imaginary part.
    #[must_use]
    pub fn complex(self) -> bool {
        matches!(self, Type::C | Type::Z)
    }

    /// Whether elements are integers.
    #[must_use]
    pub fn whole(self) -> bool {
        matches!(self, Type::I | Type::L)
    }

    /// Whether parts are floats.
    #[must_use]
    pub fn single(self) -> bool {
        matches!(self, Type::S | Type::C)
    }

    /// Up to which magnitude all integers are exact, with room for what a product adds up on its way.
    #[must_use]
    pub fn exact(self) -> f64 {
        if self.single() {
            2097152.0
        } else {
            1125899906842624.0
        }
    }

    /// The element that begins at the first byte.
    #[must_use]
    pub fn load(self, bytes: &[u8]) -> Complex64 {
        let s = |i: usize| f64::from(f32::from_ne_bytes(bytes[i..i + 4].try_into().unwrap()));
        let d = |i: usize| f64::from_ne_bytes(bytes[i..i + 8].try_into().unwrap());
        match self {
            Type::S => Complex64::new(s(0), 0.0),
            Type::D => Complex64::new(d(0), 0.0),
            Type::C => Complex64::new(s(0), s(4)),
            Type::Z => Complex64::new(d(0), d(8)),
            Type::I => f64::from(i32::from_ne_bytes(bytes[..4].try_into().unwrap())).into(),
            Type::L => (i64::from_ne_bytes(bytes[..8].try_into().unwrap()) as f64).into(),
        }
    }

    /// Stores an element whose parts are exact in this type.
    #[expect(clippy::cast_possible_truncation, reason = "small integers")]
    pub fn store(self, bytes: &mut [u8], value: Complex64) {
        match self {
            Type::S => bytes[..4].copy_from_slice(&(value.re as f32).to_ne_bytes()),
            Type::D => bytes[..8].copy_from_slice(&value.re.to_ne_bytes()),
            Type::C => {
                bytes[..4].copy_from_slice(&(value.re as f32).to_ne_bytes());
                bytes[4..8].copy_from_slice(&(value.im as f32).to_ne_bytes());
            }
            Type::Z => {
                bytes[..8].copy_from_slice(&value.re.to_ne_bytes());
                bytes[8..16].copy_from_slice(&value.im.to_ne_bytes());
            }
            Type::I => bytes[..4].copy_from_slice(&(value.re as i32).to_ne_bytes()),
            Type::L => bytes[..8].copy_from_slice(&(value.re as i64).to_ne_bytes()),
        }
    }
}
