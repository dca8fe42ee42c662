//! Which devices the suites run on: simulated ones, or those that `SEMCACHE_TEST_DEVICES` names (`cuda`, `cuda:0,1`).

use std::env;

/// `SEMCACHE_TEST_DEVICES`, empty where it is not set.
#[must_use]
pub fn named() -> String {
    env::var("SEMCACHE_TEST_DEVICES").unwrap_or_default()
}

/// Whether the suites run on real devices.
#[must_use]
pub fn real() -> bool {
    named().starts_with("cuda")
}

/// Values of `SEMCACHE_DEVICES` and `SEMCACHE_MEMORY` to run under: these numbers of simulated devices, or the real ones with
/// each of these memories.
#[must_use]
pub fn machines(simulated: &[(usize, &'static str)]) -> Vec<(String, &'static str)> {
    let name = |n| if real() { named() } else { format!("sim:{n}") };
    let mut machines: Vec<_> = simulated.iter().map(|&(n, m)| (name(n), m)).collect();
    machines.sort();
    machines.dedup();
    machines
}

/// Values of `SEMCACHE_SIM` to run under; none for real devices, which cannot be made to misbehave.
#[must_use]
pub fn modes(simulated: &'static [&'static str]) -> &'static [&'static str] {
    if real() { &[""] } else { simulated }
}
