//! The four BLAS element types.

use num_complex::Complex;

/// Element type of a BLAS operand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dtype {
    /// `f32`
    S,
    /// `f64`
    D,
    /// complex `f32`
    C,
    /// complex `f64`
    Z,
}

impl Dtype {
    /// All four, in BLAS order.
    pub const ALL: [Dtype; 4] = [Dtype::S, Dtype::D, Dtype::C, Dtype::Z];

    /// Bytes of one element.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Dtype::S => 4,
            Dtype::D | Dtype::C => 8,
            Dtype::Z => 16,
        }
    }

    /// Whether the element is complex.
    #[must_use]
    pub const fn is_complex(self) -> bool {
        matches!(self, Dtype::C | Dtype::Z)
    }

    /// The type of the parts of an element; of a real one, its own.
    #[must_use]
    pub const fn real(self) -> Dtype {
        match self {
            Dtype::S | Dtype::C => Dtype::S,
            Dtype::D | Dtype::Z => Dtype::D,
        }
    }

    /// The routine prefix: `s`, `d`, `c` or `z`.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Dtype::S => 's',
            Dtype::D => 'd',
            Dtype::C => 'c',
            Dtype::Z => 'z',
        }
    }

    /// Floating point operations of one multiply-add of this type, over those of a real one.
    #[must_use]
    pub const fn flop_factor(self) -> f64 {
        if self.is_complex() { 4.0 } else { 1.0 }
    }
}

/// A scalar argument or result of any element type. `f64` holds every `f32` exactly, so nothing is lost;
/// the imaginary part is zero for real types.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Value {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

impl Value {
    /// Zero.
    pub const ZERO: Value = Value { re: 0.0, im: 0.0 };
    /// One.
    pub const ONE: Value = Value { re: 1.0, im: 0.0 };

    /// Whether the scalar is exactly zero (either sign): then the BLAS does not read the operand that the scalar
    /// multiplies.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.re == 0.0 && self.im == 0.0
    }

    /// Whether the scalar is exactly one.
    #[must_use]
    pub fn is_one(self) -> bool {
        self.re == 1.0 && self.im == 0.0
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for num_complex::Complex<f32> {}
    impl Sealed for num_complex::Complex<f64> {}
}

/// A BLAS element type, so that one generic routine serves all four.
pub trait Scalar:
    sealed::Sealed
    + Copy
    + Send
    + Sync
    + PartialEq
    + core::fmt::Debug
    + core::ops::Add<Output = Self>
    + core::ops::Sub<Output = Self>
    + core::ops::Mul<Output = Self>
    + 'static
{
    /// The tag of this type.
    const DTYPE: Dtype;
    /// Narrows a [`Value`]; the imaginary part of a real type is dropped.
    fn from_value(v: Value) -> Self;
    /// Widens to a [`Value`], exactly.
    fn to_value(self) -> Value;
    /// Complex conjugate; identity for real types.
    #[must_use]
    fn conj(self) -> Self;
}

macro_rules! real {
    ($t:ty, $d:ident) => {
        impl Scalar for $t {
            const DTYPE: Dtype = Dtype::$d;
            #[allow(clippy::unnecessary_cast, reason = "one macro serves f32 and f64")]
            fn from_value(v: Value) -> Self {
                v.re as $t
            }
            fn to_value(self) -> Value {
                Value {
                    re: self.into(),
                    im: 0.0,
                }
            }
            fn conj(self) -> Self {
                self
            }
        }
        impl Scalar for Complex<$t> {
            const DTYPE: Dtype = complex_of!($d);
            #[allow(clippy::unnecessary_cast, reason = "one macro serves f32 and f64")]
            fn from_value(v: Value) -> Self {
                Complex::new(v.re as $t, v.im as $t)
            }
            fn to_value(self) -> Value {
                Value {
                    re: self.re.into(),
                    im: self.im.into(),
                }
            }
            fn conj(self) -> Self {
                Complex::conj(&self)
            }
        }
    };
}
macro_rules! complex_of {
    (S) => {
        Dtype::C
    };
    (D) => {
        Dtype::Z
    };
}
real!(f32, S);
real!(f64, D);

/// Runs `$body` with `$t` bound to the Rust type of a [`Dtype`].
#[macro_export]
macro_rules! with_dtype {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            $crate::base::Dtype::S => {
                type $t = f32;
                $body
            }
            $crate::base::Dtype::D => {
                type $t = f64;
                $body
            }
            $crate::base::Dtype::C => {
                type $t = num_complex::Complex<f32>;
                $body
            }
            $crate::base::Dtype::Z => {
                type $t = num_complex::Complex<f64>;
                $body
            }
        }
    };
}
