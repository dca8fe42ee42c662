//! Whether devices compute a product sooner than the host.
//!
//! A product reads the matrix once, so memory bandwidth is what counts. Sending a matrix for its first product takes longer than the
//! product itself; whether more products follow is not known. So the host computes until that took about as long as the matrix would
//! take to be sent: the decision is at most twice as slow as the best one in hindsight (the ski-rental problem; Karlin et al., Competitive
//! Snoopy Caching, 1988).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::csr::Csr;

/// Bytes per second.
#[derive(Clone, Copy, Debug)]
pub struct Speeds {
    /// Memory of all devices.
    pub devices: f64,
    /// Copies to all devices.
    pub to_devices: f64,
    /// Copies to the host.
    pub home: f64,
}

/// What a product moves, in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Moved {
    /// The matrix.
    pub matrix: usize,
    /// X and Y.
    pub vectors: usize,
    /// What devices lack of the matrix, X, and Y.
    pub lacking: usize,
    /// What the host lacks of X and Y.
    pub stale: usize,
}

/// What queueing a product, a fault at its result, and the protection of its pages take: 20 to 37 us without the fault on an H200.
const CALL_S: f64 = 40e-6;
/// What each further device adds to a product: the calling thread queues a kernel and copies of parts of X, 43 us on two H200.
const PART_S: f64 = 40e-6;
/// Bytes per second of a product on one thread of the host until one was timed.
const HOST: f64 = 5e9;
/// The share of the last time in the rate of the host.
const NEW: f64 = 0.3;
/// Matrices of which the times are kept.
const MOST: usize = 64;

#[derive(Debug)]
struct Known {
    /// Bytes per second of products on the host.
    host: f64,
    /// Seconds of products on the host of matrices that are not linked, the last one last.
    spent: Vec<(Csr, f64)>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known {
    host: HOST,
    spent: Vec::new(),
});

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    fn spent(&self, csr: &Csr) -> f64 {
        let of = self.spent.iter().find(|(known, _)| known == csr);
        of.map_or(0.0, |(_, seconds)| *seconds)
    }

    fn pays(&self, csr: &Csr, moved: &Moved, speeds: &Speeds) -> bool {
        let bytes = (moved.matrix + moved.vectors) as f64;
        let host_s = bytes / self.host + moved.stale as f64 / speeds.home;
        let device_s = CALL_S + bytes / speeds.devices;
        let send_s = moved.lacking as f64 / speeds.to_devices;
        host_s > device_s && self.spent(csr) + host_s > send_s + device_s
    }

    fn took(&mut self, csr: &Csr, bytes: usize, seconds: f64) {
        self.host += NEW * (bytes as f64 / seconds.max(1e-9) - self.host);
        let before = self.spent(csr);
        self.spent.retain(|(known, _)| known != csr);
        self.spent.push((*csr, before + seconds));
        if self.spent.len() > MOST {
            self.spent.remove(0);
        }
    }
}

/// How many devices, from the first one on, compute products that read this number of bytes soonest. `rates`: bytes per second of each
/// device's memory.
#[must_use]
pub fn devices(bytes: usize, rates: &[f64]) -> usize {
    let seconds = |count: usize| {
        let together: f64 = rates[..count].iter().sum();
        bytes as f64 / together + count as f64 * PART_S
    };
    let all = 1..=rates.len();
    all.min_by(|a, b| seconds(*a).total_cmp(&seconds(*b)))
        .unwrap_or(0)
}

/// Whether devices are to compute a product.
#[must_use]
pub fn pays(csr: &Csr, moved: &Moved, speeds: &Speeds) -> bool {
    known().pays(csr, moved, speeds)
}

/// The host has computed a product that reads this number of bytes.
pub fn took(csr: &Csr, bytes: usize, time: Duration) {
    known().took(csr, bytes, time.as_secs_f64());
}

/// The matrix is sent: what the host has spent on it has been paid back.
pub fn sent(csr: &Csr) {
    known().spent.retain(|(known, _)| known != csr);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Dtype;
    use crate::base::sparse::Index;

    const CSR: Csr = Csr {
        dtype: Dtype::D,
        index: Index::I32,
        first: 0,
        rows: 1 << 20,
        cols: 1 << 20,
        offsets: 1 << 40,
        columns: 2 << 40,
        values: 3 << 40,
    };
    const SPEEDS: Speeds = Speeds {
        devices: 2e12,
        to_devices: 25e9,
        home: 25e9,
    };

    fn fresh(host: f64) -> Known {
        Known {
            host,
            spent: Vec::new(),
        }
    }

    #[test]
    fn a_small_product_is_the_hosts() {
        let moved = Moved {
            matrix: 100_000,
            vectors: 10_000,
            ..Moved::default()
        };
        assert!(!fresh(5e9).pays(&CSR, &moved, &SPEEDS));
    }

    #[test]
    fn several_devices_share_what_takes_one_long() {
        let rates = [2e12; 4];
        assert_eq!(devices(100 << 20, &rates), 1);
        assert_eq!(devices(300 << 20, &rates), 2);
        assert_eq!(devices(1 << 30, &rates), 4);
    }

    #[test]
    fn a_matrix_is_sent_once_the_host_has_spent_as_much_time_on_it() {
        let moved = Moved {
            matrix: 1 << 30,
            vectors: 16 << 20,
            lacking: (1 << 30) + (16 << 20),
            stale: 0,
        };
        // A host that is slower than the link: at once.
        assert!(fresh(5e9).pays(&CSR, &moved, &SPEEDS));
        // A host of many cores: after a few products.
        let mut known = fresh(100e9);
        let mut products = 0;
        while !known.pays(&CSR, &moved, &SPEEDS) {
            known.took(&CSR, moved.matrix, moved.matrix as f64 / 100e9);
            products += 1;
        }
        assert_eq!(products, 4);
        // What lies on devices is computed there.
        let resident = Moved {
            lacking: 0,
            ..moved
        };
        assert!(fresh(100e9).pays(&CSR, &resident, &SPEEDS));
    }
}
