//! What the BLAS is told by letters.

macro_rules! flags {
    ($($(#[$doc:meta])* $flag:ident { $($(#[$value_doc:meta])* $value:ident = $letter:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $flag {
            $($(#[$value_doc])* $value,)*
        }

        impl $flag {
            pub(crate) fn letter(self) -> &'static u8 {
                match self {
                    $($flag::$value => &$letter,)*
                }
            }
        }
    )*};
}

flags! {
    /// Whether an operand is transposed.
    Transpose {
        /// As it is.
        No = b'N',
        /// Transposed.
        Yes = b'T',
        /// Transposed, and its elements conjugated.
        Conjugate = b'C',
    }
    /// On which side of the product the symmetric or triangular matrix stands.
    Side {
        /// Left.
        Left = b'L',
        /// Right.
        Right = b'R',
    }
    /// Which triangle of a matrix is used.
    Uplo {
        /// The diagonal and what is above it.
        Upper = b'U',
        /// The diagonal and what is below it.
        Lower = b'L',
    }
    /// The diagonal of a triangular matrix.
    Diag {
        /// As it is in memory.
        NonUnit = b'N',
        /// All ones, whatever is in memory.
        Unit = b'U',
    }
}
