//! What the program's threads spent on BLAS calls: per routine and together, in seconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A key of the report's `time`, and what it means.
pub type Key = (&'static str, &'static str);

/// Makes the structure of a routine's seconds, its sum and its keys from one table.
macro_rules! parts {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// The seconds of the threads that made the calls of a routine, by what they were spent on.
        #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Parts { $($(#[doc = $doc])+ pub $name: f64,)* }

        impl Parts {
            /// All of them together.
            #[must_use]
            pub fn sum(&self) -> f64 {
                0.0 $(+ self.$name)*
            }

            fn add(&mut self, other: &Parts) {
                $(self.$name += other.$name;)*
            }

            /// Each with its name, without `_s`.
            fn named(&self) -> Vec<(&'static str, f64)> {
                vec![$((stringify!($name).trim_end_matches("_s"), self.$name),)*]
            }

            const KEYS: &[Key] = &[$((stringify!($name), concat!($($doc,)+)),)*];
        }
    };
}

parts! {
    /// The library's own work: decisions, plans, queueing of tasks.
    deciding_s,
    /// Waits for kernels of devices.
    kernels_s,
    /// Waits for copies to and from devices, and copying by the calling thread itself.
    transfers_s,
    /// Page-locking of host memory.
    page_lock_s,
    /// Waits for calls of other threads.
    turn_s,
    /// Waits for devices to be started.
    starting_s,
    /// In the host BLAS, calls that were timed from their begin to their end.
    host_s,
    /// In the host BLAS, small calls: an estimate from a sample of them, about a hundred times a second.
    host_sampled_s,
}

/// The time of a routine's calls.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RoutineTime {
    /// What it was spent on.
    #[serde(flatten)]
    pub parts: Parts,
    /// What plain calls, on the host BLAS alone, would have taken: an estimate; absent if it would rest on nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plain_estimate_s: Option<f64>,
    /// Calls whose time is not known, and is not part of the above.
    pub untimed_calls: u64,
}

/// What the program's threads spent on BLAS calls.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Time {
    /// All times below together, those of page faults included: what BLAS calls took, added over the threads of the program.
    pub blas_s: f64,
    /// What they were spent on, all routines together.
    #[serde(flatten)]
    pub parts: Parts,
    /// Page faults on memory that devices use, in whatever code, from the handler's entry to its return.
    pub faults_s: f64,
    /// Of these, waits for kernels.
    pub faults_kernels_s: f64,
    /// Of these, waits for copies.
    pub faults_transfers_s: f64,
    /// What the program's calls would have taken plainly, on the host BLAS alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plain_estimate_s: Option<f64>,
    /// Calls whose time is not known.
    pub untimed_calls: u64,
    /// Seconds from the first call of a process until its end, or until the report was made.
    pub wall_s: f64,
    /// The same by routine; page faults belong to none.
    pub routines: BTreeMap<String, RoutineTime>,
}

/// The keys of `time`, and what they mean.
pub fn keys() -> Vec<(String, &'static str)> {
    let whole: &[Key] = &[
        (
            "blas_s",
            "What BLAS calls took, in seconds, added over the threads of the program: the sum of the times below, those of page faults \
             included.",
        ),
        (
            "faults_s",
            "Page faults on memory that devices use, in whatever code of the program, from the handler's entry to its return. They are no \
             part of the times of calls.",
        ),
        ("faults_kernels_s", "Of `time.faults_s`, waits for kernels."),
        (
            "faults_transfers_s",
            "Of `time.faults_s`, waits for copies.",
        ),
        (
            "plain_estimate_s",
            "An estimate: what the calls would have taken without semcache. For calls that ran on the host it is what they took there; for \
             calls that ran on devices what calls of the same kind took on the host, or what is predicted, corrected by what other calls \
             of the routine took on the host compared with their prediction. Absent if no call of a routine was measured there. Compare \
             it with `time.blas_s`.",
        ),
        (
            "untimed_calls",
            "Calls whose time is not known and is in none of the sums: calls that the host BLAS makes itself, those with an illegal \
             argument, those to a BLAS whose convention is unknown, and small calls of which too few were timed. Small calls are timed \
             by sampling under `semcache run`; without it only those of programs that make larger calls, too.",
        ),
        (
            "wall_s",
            "Seconds from the first call of a process until its end, or until the report was made.",
        ),
        (
            "routines",
            "The same keys by routine, without those of faults; `sparse` are products of sparse matrices.",
        ),
    ];
    let all = whole.iter().take(1).chain(Parts::KEYS).chain(&whole[1..]);
    all.map(|(name, doc)| (format!("time.{name}"), doc.trim()))
        .collect()
}

/// The sum of two estimates, of which one may be that of nothing.
fn both(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? + b?)
}

impl RoutineTime {
    fn is_empty(&self) -> bool {
        let plain_s = self.plain_estimate_s.unwrap_or(0.0);
        self.parts.sum() + plain_s == 0.0 && self.untimed_calls == 0
    }

    fn add(&mut self, other: &RoutineTime) {
        self.plain_estimate_s = match self.is_empty() {
            true => other.plain_estimate_s,
            false => both(self.plain_estimate_s, other.plain_estimate_s),
        };
        self.parts.add(&other.parts);
        self.untimed_calls += other.untimed_calls;
    }
}

impl Time {
    /// Adds a routine.
    pub(super) fn add_routine(&mut self, name: &str, time: RoutineTime) {
        if time.is_empty() {
            return;
        }
        self.blas_s += time.parts.sum();
        self.parts.add(&time.parts);
        self.untimed_calls += time.untimed_calls;
        self.plain_estimate_s = match self.routines.is_empty() {
            true => time.plain_estimate_s,
            false => both(self.plain_estimate_s, time.plain_estimate_s),
        };
        let of_name = self.routines.entry(name.to_owned()).or_default();
        of_name.add(&time);
    }

    /// Adds another process.
    pub(super) fn add(&mut self, other: &Time) {
        for (name, time) in &other.routines {
            self.add_routine(name, time.clone());
        }
        self.blas_s += other.faults_s;
        self.faults_s += other.faults_s;
        self.faults_kernels_s += other.faults_kernels_s;
        self.faults_transfers_s += other.faults_transfers_s;
        self.wall_s += other.wall_s;
    }

    /// Whether nothing was timed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.routines.is_empty() && self.faults_s == 0.0
    }

    /// The times as lines of a table; none if nothing was timed.
    pub(super) fn lines(&self) -> Vec<String> {
        if self.is_empty() {
            return Vec::new();
        }
        let plain = |plain: Option<f64>| match plain {
            Some(s) => format!("; plain about {}", seconds(s)),
            None => String::new(),
        };
        let named = |parts: &Parts| -> String {
            let mut named = parts.named();
            named.retain(|(_, s)| *s >= 5e-7);
            named.sort_by(|(_, a), (_, b)| b.total_cmp(a));
            let named = named.iter().map(|(name, s)| {
                let name = name.replace('_', " ");
                format!("{name} {}", seconds(*s))
            });
            named.collect::<Vec<_>>().join(", ")
        };
        let mut lines = vec![format!(
            "time      {} in BLAS{}",
            seconds(self.blas_s),
            plain(self.plain_estimate_s)
        )];
        let mut routines: Vec<_> = self.routines.iter().collect();
        routines.sort_by(|(_, a), (_, b)| b.parts.sum().total_cmp(&a.parts.sum()));
        for (name, time) in routines {
            let untimed = match time.untimed_calls {
                0 => String::new(),
                n => format!("; {n} calls not timed"),
            };
            let (all, on) = (seconds(time.parts.sum()), named(&time.parts));
            let plain = plain(time.plain_estimate_s);
            lines.push(format!("  {name:<8}{all:>10}  {on}{plain}{untimed}"));
        }
        if self.faults_s > 0.0 {
            let (kernels, transfers) = (self.faults_kernels_s, self.faults_transfers_s);
            lines.push(format!(
                "  {:<8}{:>10}  of it kernels {}, transfers {}",
                "faults",
                seconds(self.faults_s),
                seconds(kernels),
                seconds(transfers)
            ));
        }
        lines
    }
}

/// A time for people.
#[must_use]
pub fn seconds(s: f64) -> String {
    // Three digits, as far as they say something.
    let digits = |value: f64| match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    match s {
        60.0.. => format!(
            "{:.0} min {:02.0} s",
            (s / 60.0).floor(),
            (s % 60.0).floor()
        ),
        1.0.. => format!("{} s", digits(s)),
        1e-3.. => format!("{} ms", digits(s * 1e3)),
        _ => format!("{} us", digits(s * 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routine(host_s: f64, plain: Option<f64>) -> RoutineTime {
        RoutineTime {
            parts: Parts {
                host_s,
                ..Parts::default()
            },
            plain_estimate_s: plain,
            untimed_calls: 1,
        }
    }

    #[test]
    fn times_add_up() {
        let mut time = Time::default();
        time.add_routine("dgemm", routine(1.5, Some(6.0)));
        time.add_routine("ddot", routine(0.5, Some(0.5)));
        time.faults_s = 0.25;
        time.blas_s += 0.25;
        let mut sum = Time::default();
        sum.add(&time);
        assert_eq!(sum, time);
        assert_eq!((sum.blas_s, sum.plain_estimate_s), (2.25, Some(6.5)));
        sum.add(&Time::default());
        assert_eq!(sum, time);
        sum.add(&time);
        assert_eq!((sum.blas_s, sum.untimed_calls), (4.5, 4));
        assert_eq!(sum.routines["dgemm"].parts.host_s, 3.0);
        // Of which nothing is known, that has no estimate.
        let mut unknown = Time::default();
        unknown.add_routine("dgemv", routine(1.0, None));
        sum.add(&unknown);
        assert_eq!(sum.plain_estimate_s, None);
        assert_eq!(sum.routines["dgemm"].plain_estimate_s, Some(12.0));
        assert_eq!(sum.lines().len(), 5);
    }

    #[test]
    fn times_for_people() {
        for (s, text) in [
            (0.0, "0.00 us"),
            (3.2e-6, "3.20 us"),
            (0.0123, "12.3 ms"),
            (0.999, "999 ms"),
            (3.24, "3.24 s"),
            (59.4, "59.4 s"),
            (61.0, "1 min 01 s"),
            (7199.0, "119 min 59 s"),
        ] {
            assert_eq!(seconds(s), text);
        }
    }

    #[test]
    fn every_key_is_explained_once() {
        let json = serde_json::to_value(Time {
            plain_estimate_s: Some(1.0),
            ..Time::default()
        });
        let json = json.expect("a value");
        let mut names: Vec<String> = json
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect();
        let mut explained: Vec<String> = keys()
            .into_iter()
            .map(|(name, _)| name.trim_start_matches("time.").to_owned())
            .collect();
        names.sort();
        explained.sort();
        assert_eq!(names, explained);
    }
}
