//! Settings of the library that a program runs under.

use testkit::Rng;

/// The gates that programs run under. A gate that a build does not have is replaced by another with a message, and is
/// tested all the same.
pub const GATES: &[&str] = &["mprotect", "wp-async", "eager", "auto", "mixed"];
/// Device memory: for three tiles of 32 x 32 complex numbers, for some more, so small that replicas are evicted all the time,
/// now and then, never.
pub const MEMORIES: &[&str] = &["48KiB", "128KiB", "512KiB", "8MiB", "1GiB"];
/// Panels: a page, two pages (larger operands have several of them), and one for all of a small block.
pub const PANELS: &[&str] = &["4KiB", "8KiB", "2MiB"];
/// From which size on the library owns blocks: nearly all, or the large ones only.
pub const OWNS: &[&str] = &["4KiB", "4KiB", "4KiB", "1MiB"];
/// Tiles: one task for a call, or many.
pub const TILES: &[&str] = &["auto", "auto", "32"];
/// When operands are page-locked.
pub const PINS: &[&str] = &["auto", "again", "off"];
/// Which part of a call the host computes beside devices.
pub const SHARES: &[&str] = &["auto", "auto", "off", "20%", "60%"];
/// Tasks of a call that are queued ahead of each device: all, or few, so that signals come between two of them.
pub const WINDOWS: &[&str] = &["auto", "1", "3"];
/// Which device computes which tasks.
pub const SCHEDULERS: &[&str] = &["planned", "static", "blasx", "xkaapi"];
/// From where a device gets bytes that the host has, too.
pub const PEERS: &[&str] = &["auto", "any", "unranked", "off"];
/// Faults of simulated devices.
pub const MODES: &[&str] = &["", "late", "poison"];

/// Variables and their values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting(pub Vec<(&'static str, String)>);

impl Setting {
    /// The setting that belongs to `seed`. `machine` names the devices for a number of them.
    #[must_use]
    pub fn of_seed(seed: u64, gates: &[String], machine: &dyn Fn(usize) -> String) -> Setting {
        let mut rng = Rng::new(seed.wrapping_add(0x5E77_1265));
        let devices = machine(1 + rng.below(5));
        let mut sim = vec![format!("seed={seed}")];
        let mode = rng.of(MODES);
        if !mode.is_empty() {
            sim.push(mode.into());
        }
        if rng.one_in(8) {
            sim.push(format!("fail=refuse:{}", 1 + rng.below(300)));
        }
        let mut set = vec![
            ("SEMCACHE_OFFLOAD", "always".into()),
            ("SEMCACHE_MEMORY", rng.of(MEMORIES).into()),
            ("SEMCACHE_PANEL", rng.of(PANELS).into()),
            ("SEMCACHE_OWN", rng.of(OWNS).into()),
            ("SEMCACHE_TILE", rng.of(TILES).into()),
            ("SEMCACHE_PIN", rng.of(PINS).into()),
            ("SEMCACHE_WINDOW", rng.of(WINDOWS).into()),
            ("SEMCACHE_GATE", gates[rng.below(gates.len())].clone()),
            ("SEMCACHE_HOST_SHARE", rng.of(SHARES).into()),
        ];
        // The defaults now and then.
        if rng.one_in(8) {
            set.retain(|s| s.0 == "SEMCACHE_GATE");
        }
        if devices.starts_with("sim") {
            set.push(("SEMCACHE_SIM", sim.join(",")));
        }
        set.push(("SEMCACHE_DEVICES", devices));
        if rng.one_in(3) {
            set.push(("SEMCACHE_SCHEDULER", rng.of(SCHEDULERS).into()));
            set.push(("SEMCACHE_PEERS", rng.of(PEERS).into()));
        }
        Setting(set)
    }

    /// The settings in the shell's syntax.
    #[must_use]
    pub fn text(&self) -> String {
        let each: Vec<_> = self.0.iter().map(|(n, v)| format!("{n}={v}")).collect();
        each.join(" ")
    }
}
