//! What the host BLAS would take, or takes, for the call that the calling thread makes: for the report, which says what a program would
//! have taken without devices. Decisions note it ([`set`]), the end of a call takes it ([`take`]).

use core::cell::Cell;

/// Nanoseconds of the host BLAS for one call, or for the products of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Plain {
    /// As measured on calls of the same kind, or predicted by rates that the user gave.
    pub known: u64,
    /// As predicted by rates that nobody measured, or that were corrected by other calls.
    pub predicted: u64,
    /// How many products.
    pub products: u64,
}

impl Plain {
    /// From seconds.
    #[must_use]
    pub fn new(seconds: f64, is_known: bool, products: usize) -> Plain {
        // A number that is too large, or none, is cut off.
        let ns = (seconds * 1e9) as u64;
        let (known, predicted) = if is_known { (ns, 0) } else { (0, ns) };
        Plain {
            known,
            predicted,
            products: products as u64,
        }
    }

    /// Of a call of which nothing is known, and will not be.
    pub const UNKNOWN: Plain = Plain {
        known: 0,
        predicted: 1,
        products: 1,
    };

    /// For one of the products.
    #[must_use]
    pub fn each(&self) -> Plain {
        let products = self.products.max(1);
        Plain {
            known: self.known / products,
            predicted: self.predicted / products,
            products: 1,
        }
    }
}

/// A [`Plain`] in two words, as the library has little thread-local memory: of its times one is 0.
#[derive(Clone, Copy)]
struct Packed {
    ns: u64,
    products: u32,
    is_known: bool,
}

std::thread_local! {
    static PLAIN: Cell<Packed> = const { Cell::new(Packed { ns: 0, products: 0, is_known: false }) };
}

impl Packed {
    fn of(plain: Plain) -> Packed {
        Packed {
            ns: plain.known + plain.predicted,
            products: u32::try_from(plain.products).unwrap_or(u32::MAX),
            is_known: plain.known > 0,
        }
    }

    fn get(self) -> Plain {
        let (known, predicted) = if self.is_known {
            (self.ns, 0)
        } else {
            (0, self.ns)
        };
        Plain {
            known,
            predicted,
            products: u64::from(self.products),
        }
    }
}

/// Notes it for the call of this thread.
pub fn set(plain: Plain) {
    PLAIN.set(Packed::of(plain));
}

/// What was noted.
#[must_use]
pub fn get() -> Plain {
    PLAIN.get().get()
}

/// What was noted, in the place of which `before` comes: that of a call around this one.
#[must_use]
pub fn take(before: Plain) -> Plain {
    PLAIN.replace(Packed::of(before)).get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_within_a_call_leaves_the_outer_one_alone() {
        let outer = Plain::new(2e-6, false, 4);
        set(outer);
        let before = get();
        set(Plain::new(1e-6, true, 1));
        assert_eq!((take(before).known, get()), (1000, outer));
        assert_eq!((outer.each().predicted, outer.each().known), (500, 0));
        assert_eq!(Plain::new(f64::NAN, true, 1).known, 0);
        assert_eq!(take(Plain::default()), outer);
    }
}
