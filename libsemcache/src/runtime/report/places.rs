//! Where calls and faults of a process came from, and the matrices that they were about.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How many call sites, and matrices, a report has at most: those that matter most.
pub(super) const MOST: usize = 200;

/// A place in the code.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The file with the code.
    pub object: String,
    /// The address in that file: of the instruction behind a call, or of the one that made an access.
    pub offset: u64,
    /// The library of C, if the access was made by one of its functions, which this place called.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub through: String,
    /// The line of a program in another language (`script.py:12`).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub line: String,
}

/// What was done at a place.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Site {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// The routine, or the function of MPI, that is called there; `load` or `store` for accesses that faulted.
    pub does: String,
    /// Calls that ran on devices.
    pub offloaded: u64,
    /// Calls that ran on the host, by reason.
    pub why_host: BTreeMap<String, u64>,
    /// Bytes copied to devices for them.
    pub h2d: u64,
    /// Bytes copied to the host for them.
    pub d2h: u64,
    /// Faults.
    pub faults: u64,
    /// Those on bytes that no device holds.
    pub false_sharing: u64,
    /// Buffers of operations of MPI that had to be made accessible.
    pub buffers: u64,
    /// Seconds of the calls with a decision, of serving the faults, or of making buffers accessible.
    pub seconds: f64,
}

/// What was done with the operands in a block of host memory.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Matrix {
    /// The name that the program gave it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The block's bytes.
    pub bytes: u64,
    /// Rows of the first operand that was used there.
    pub rows: u64,
    /// Its columns.
    pub cols: u64,
    /// Where the first call with it was made.
    pub first: Place,
    /// The routine of that call.
    pub first_does: String,
    /// Calls on devices with an operand there.
    pub calls: u64,
    /// Bytes copied to devices.
    pub h2d: u64,
    /// Bytes copied to the host.
    pub d2h: u64,
    /// Of them bytes of results on pages that hold other data, too, or cannot be protected: copied before a call returns.
    pub edges: u64,
    /// Faults of loads.
    pub loads: u64,
    /// Faults of stores.
    pub stores: u64,
    /// Those on bytes that no device holds.
    pub false_sharing: u64,
    /// Seconds of serving its faults, but for waiting for kernels.
    pub seconds: f64,
    /// Calls of drivers of LAPACK on the host with it.
    pub solver_calls: u64,
    /// Seconds of them.
    pub solver_seconds: f64,
    /// Where the last load that faulted was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<Place>,
    /// Where the last store that faulted was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Place>,
}

impl Site {
    /// Calls on the host.
    #[must_use]
    pub fn host(&self) -> u64 {
        self.why_host.values().sum()
    }

    /// By how much it may matter to the user, to order sites by: seconds, and a guess of them for calls that nothing timed.
    #[must_use]
    pub fn weight(&self) -> f64 {
        const CALL_S: f64 = 1e-7;
        self.seconds + (self.host() + self.offloaded) as f64 * CALL_S
    }

    fn add(&mut self, other: &Site) {
        self.offloaded += other.offloaded;
        for (why, n) in &other.why_host {
            *self.why_host.entry(why.clone()).or_default() += n;
        }
        self.h2d += other.h2d;
        self.d2h += other.d2h;
        self.faults += other.faults;
        self.false_sharing += other.false_sharing;
        self.buffers += other.buffers;
        self.seconds += other.seconds;
    }
}

impl Matrix {
    /// By how much it may matter to the user, to order matrices by: seconds of faults and of solvers on the host, and a guess
    /// of those of its copies.
    #[must_use]
    pub fn weight(&self) -> f64 {
        const BYTES_A_SECOND: f64 = 2e10;
        self.seconds + self.solver_seconds + (self.h2d + self.d2h) as f64 / BYTES_A_SECOND
    }
}

/// Adds the sites of another process: calls and accesses of one kind at one place are one site.
pub(super) fn add_sites(sites: &mut Vec<Site>, others: &[Site]) {
    for other in others {
        let same = |s: &&mut Site| s.does == other.does && s.place == other.place;
        match sites.iter_mut().find(same) {
            Some(site) => site.add(other),
            None => sites.push(other.clone()),
        }
    }
    sites.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    sites.truncate(MOST);
}

/// Adds the matrices of another process.
pub(super) fn add_matrices(matrices: &mut Vec<Matrix>, others: &[Matrix]) {
    matrices.extend_from_slice(others);
    matrices.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    matrices.truncate(MOST);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(offset: u64, does: &str, calls: u64) -> Site {
        Site {
            place: Place {
                object: "/a".to_owned(),
                offset,
                ..Place::default()
            },
            does: does.to_owned(),
            why_host: [("small".to_owned(), calls)].into(),
            ..Site::default()
        }
    }

    #[test]
    fn one_place_is_one_site() {
        let mut sites = Vec::new();
        add_sites(&mut sites, &[site(1, "dgemm", 5), site(2, "dgemm", 7)]);
        add_sites(&mut sites, &[site(1, "dgemm", 5), site(1, "load", 1)]);
        let found: Vec<(u64, &str, u64)> = sites
            .iter()
            .map(|s| (s.place.offset, &*s.does, s.host()))
            .collect();
        assert_eq!(found, [(1, "dgemm", 10), (2, "dgemm", 7), (1, "load", 1)]);
        let many: Vec<Site> = (0..1000).map(|i| site(i, "ddot", i)).collect();
        add_sites(&mut sites, &many);
        assert_eq!((sites.len(), sites[0].host()), (MOST, 999));
    }
}
