//! Host or devices: the shorter prediction, given where the operands are and where they will be wanted.

use super::exec::{device_s, host_s};
use super::machine::Machine;
use super::select::{Choice, Fetch, predict, select};
use super::work::{GRAIN, Kind, LEAST_PANEL, Work};

/// `SEMCACHE_OFFLOAD`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// By prediction.
    #[default]
    Auto,
    /// Whatever the prediction and the floor say.
    Always,
    /// Not at all.
    Never,
}

/// Work below which a call goes to the host without a prediction: it takes microseconds there, less than
/// the look-ups that a prediction needs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Floor {
    /// Real floating point operations of level 3.
    pub flops: f64,
    /// Bytes of memory traffic of levels 1 and 2.
    pub bytes: f64,
}

impl Default for Floor {
    /// A product of 80 x 80 matrices; vectors and matrices that fit into a core's own cache.
    fn default() -> Floor {
        Floor {
            flops: 1e6,
            bytes: 65536.0,
        }
    }
}

impl Floor {
    /// Whether the work is below the floor.
    #[must_use]
    pub fn below(&self, work: &Work) -> bool {
        match work.kind {
            Kind::Gemm => work.flops() < self.flops,
            _ => work.traffic() < self.bytes,
        }
    }
}

/// What is known of one operand before a call.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct OperandState {
    /// Its bytes, gaps not counted.
    pub bytes: usize,
    /// The call reads it.
    pub read: bool,
    /// The call writes it.
    pub written: bool,
    /// Bytes that are valid on some device.
    pub resident: usize,
    /// Of the resident bytes, those that are not on the device that will use them.
    pub elsewhere: usize,
    /// Bytes whose newest copy is on devices only; the host BLAS would have to wait for them.
    pub stale: usize,
    /// How likely the CPU reads the result before a device does: the share of earlier results in this
    /// place that it did read, 1 for a result that must be home when the call returns.
    pub read_back: f64,
    /// Earlier calls that read these bytes since the CPU last wrote them. An upload is an investment: its
    /// cost is shared among the calls that are expected to use it, as many more as there have been.
    pub seen: u32,
}

/// A call to decide upon.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Question<'a> {
    /// Amount of work.
    pub work: Work,
    /// The operands in kernel order.
    pub operands: &'a [OperandState],
    /// Devices that can be used now.
    pub devices: usize,
    /// Bytes of memory of each.
    pub memory: usize,
    /// The user's choice.
    pub mode: Mode,
    /// The user's tile size, if any.
    pub tile: Option<usize>,
}

/// Why a call stays on the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// `SEMCACHE_OFFLOAD=never`.
    Off,
    /// No device can be used.
    NoDevice,
    /// Below the floor.
    Small,
    /// The host is predicted to be faster.
    PredictedSlower,
}

impl Reason {
    /// Its key in the report.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Reason::Off => "off",
            Reason::NoDevice => "no_device",
            Reason::Small => "small",
            Reason::PredictedSlower => "predicted_slower",
        }
    }
}

/// Where a call runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Decision {
    /// On the host.
    Host(Reason),
    /// On the devices.
    Offload {
        /// Tile size for level 3.
        tile: usize,
        /// Predicted seconds on the devices, results that will be wanted at home included.
        predicted_s: f64,
        /// Predicted seconds on the host, operands that would have to come home included.
        host_s: f64,
    },
}

/// The tile of routines that are not tiled: what a following matrix product would be likely to use.
const PLAIN_TILE: usize = 2048;

/// Decides.
#[must_use]
pub fn decide(q: &Question<'_>, machine: &Machine, floor: &Floor) -> Decision {
    if q.mode == Mode::Never {
        return Decision::Host(Reason::Off);
    }
    if q.devices == 0 {
        return Decision::Host(Reason::NoDevice);
    }
    // What lives on a device may be worth using there however small the call is.
    let away = q.operands.iter().any(|o| o.stale > 0);
    if q.mode == Mode::Auto && !away && floor.below(&q.work) {
        return Decision::Host(Reason::Small);
    }
    let choice = offload(q, machine, None);
    let host_s = on_host(q, machine);
    let invested = offload(q, machine, Some(choice.tile)).seconds;
    if q.mode == Mode::Auto && invested >= host_s {
        return Decision::Host(Reason::PredictedSlower);
    }
    Decision::Offload {
        tile: choice.tile,
        predicted_s: choice.seconds,
        host_s,
    }
}

/// The host BLAS, after everything that is only on devices came home.
#[must_use]
pub fn on_host(q: &Question<'_>, machine: &Machine) -> f64 {
    let home: f64 = q
        .operands
        .iter()
        .filter(|o| o.stale > 0)
        .map(|o| machine.fault_s + machine.device.d2h.time(o.stale as f64))
        .sum();
    host_s(&q.work, &machine.host) + home
}

/// The devices. With `invest` (a tile that is chosen already) uploads count only for the share of this
/// call among the expected ones.
fn offload(q: &Question<'_>, machine: &Machine, invest: Option<usize>) -> Choice {
    let share = |o: &OperandState| {
        if invest.is_some() {
            1.0 / (1.0 + f64::from(o.seen))
        } else {
            1.0
        }
    };
    let missing = |o: &OperandState| {
        if o.read {
            o.bytes.saturating_sub(o.resident) as f64 * share(o)
        } else {
            0.0
        }
    };
    let home = |o: &OperandState| {
        if o.written {
            o.bytes as f64 * o.read_back.clamp(0.0, 1.0)
        } else {
            0.0
        }
    };
    let used = used(&q.work, q.devices);
    let rates = machine.among(used);
    let moved: f64 = q
        .operands
        .iter()
        .filter(|o| o.read)
        .map(|o| rates.p2p.time(o.elsewhere as f64 / used as f64))
        .sum();
    let mut choice = match (q.work.kind, q.operands) {
        (Kind::Gemm, [a, b, c]) => {
            let times = passes(q, used);
            let fetch = [(a, times.0), (b, times.1), (c, 1.0)].map(|(o, times)| {
                let bytes = o.bytes.max(1) as f64;
                Fetch {
                    get: if times > 1.0 {
                        times
                    } else {
                        missing(o) / bytes
                    },
                    set: home(o) / bytes,
                }
            });
            match invest.or(q.tile) {
                Some(tile) => Choice {
                    tile,
                    seconds: predict(&q.work, &fetch, machine, used, tile),
                },
                None => select(&q.work, &fetch, machine, used, q.memory),
            }
        }
        (_, operands) => {
            // One kernel per device: nothing overlaps (Eq. 2 with k = 1). The matrix is distributed.
            let largest = operands.iter().map(|o| o.bytes).max().unwrap_or(0);
            let each = |bytes: f64, o: &OperandState| {
                if o.bytes == largest {
                    bytes / used as f64
                } else {
                    bytes
                }
            };
            let t_in: f64 = operands
                .iter()
                .map(|o| rates.h2d.time(each(missing(o), o)))
                .sum();
            let t_out: f64 = operands
                .iter()
                .map(|o| rates.d2h.time(each(home(o), o)))
                .sum();
            // A function's value is waited for.
            let value = if operands.iter().any(|o| o.written) {
                0.0
            } else {
                rates.d2h.latency_s
            };
            let part = if matches!(q.work.kind, Kind::Vector { .. }) {
                q.work
            } else {
                Work {
                    n: q.work.n.div_ceil(used),
                    ..q.work
                }
            };
            let launches = rates.launch_s * (used - 1) as f64;
            Choice {
                tile: q.tile.unwrap_or(PLAIN_TILE),
                seconds: t_in + device_s(&part, &rates) + launches + t_out + value,
            }
        }
    };
    choice.seconds += machine.call_s + moved;
    choice
}

/// How often A and B pass through a device: once, unless the operands exceed its memory. Then half of the
/// memory holds a square block of C at a time, and each block needs its rows of A and columns of B again.
fn passes(q: &Question<'_>, used: usize) -> (f64, f64) {
    let bytes: f64 = q.operands.iter().map(|o| o.bytes as f64).sum();
    if bytes / used as f64 <= 0.9 * q.memory as f64 {
        return (1.0, 1.0);
    }
    let side = (q.memory as f64 / 2.0 / q.work.dtype.size() as f64)
        .sqrt()
        .max(1.0);
    let (m, n) = (q.work.m as f64, q.work.n as f64 / used as f64);
    ((n / side).ceil().max(1.0), (m / side).ceil().max(1.0))
}

/// Devices that a plan would use.
fn used(work: &Work, devices: usize) -> usize {
    let worth = match work.kind {
        Kind::Gemm => work.m.max(work.n) / LEAST_PANEL,
        Kind::Gemv | Kind::Ger => (work.traffic() / GRAIN as f64) as usize,
        Kind::Vector { .. } => 1,
    };
    worth.clamp(1, devices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Dtype;
    use crate::model::HostRates;

    fn h200() -> Machine {
        Machine::h200(HostRates::of_cores(16))
    }

    fn input(bytes: usize) -> OperandState {
        OperandState {
            bytes,
            read: true,
            ..OperandState::default()
        }
    }
    fn output(bytes: usize, read_back: f64) -> OperandState {
        OperandState {
            bytes,
            written: true,
            read_back,
            ..OperandState::default()
        }
    }
    fn resident(mut o: OperandState) -> OperandState {
        o.resident = o.bytes;
        o
    }
    fn on_device_only(o: OperandState) -> OperandState {
        OperandState {
            stale: o.bytes,
            ..resident(o)
        }
    }
    fn ask(work: Work, operands: &[OperandState]) -> Question<'_> {
        Question {
            work,
            operands,
            devices: 1,
            memory: 140 << 30,
            mode: Mode::Auto,
            tile: None,
        }
    }
    fn decided(q: &Question<'_>) -> Decision {
        decide(q, &h200(), &Floor::default())
    }
    fn offloads(q: &Question<'_>) -> bool {
        matches!(decided(q), Decision::Offload { .. })
    }
    fn gemv(n: usize) -> Work {
        Work {
            kind: Kind::Gemv,
            dtype: Dtype::D,
            m: n,
            n,
            k: 1,
        }
    }
    fn gemv_operands(n: usize) -> [OperandState; 3] {
        [input(n * n * 8), input(n * 8), output(n * 8, 1.0)]
    }

    #[test]
    fn a_resident_gemv_offloads_a_cold_one_does_not() {
        let n = 8192;
        let mut o = gemv_operands(n);
        assert_eq!(
            decided(&ask(gemv(n), &o)),
            Decision::Host(Reason::PredictedSlower)
        );
        o[0] = resident(o[0]);
        assert!(offloads(&ask(gemv(n), &o)));
        // Half of it is not enough.
        o[0].resident /= 2;
        assert!(!offloads(&ask(gemv(n), &o)));
    }

    #[test]
    fn a_matrix_that_is_used_again_and_again_is_sent_in_the_end() {
        let n = 8192;
        let mut o = gemv_operands(n);
        let first = (0..100).find(|&seen| {
            o[0].seen = seen;
            offloads(&ask(gemv(n), &o))
        });
        assert!(
            first.is_some_and(|seen| (1..20).contains(&seen)),
            "{first:?}"
        );
    }

    #[test]
    fn large_products_offload_also_cold() {
        for n in [1024, 4096, 16384] {
            let b = n * n * 8;
            let o = [input(b), input(b), output(b, 1.0)];
            let work = Work::gemm(Dtype::D, n, n, n);
            let Decision::Offload {
                predicted_s,
                host_s,
                tile,
            } = decided(&ask(work, &o))
            else {
                panic!("offloads {n}");
            };
            assert!(predicted_s < host_s && tile <= 4096);
            let eight = Question {
                devices: 8,
                ..ask(work, &o)
            };
            assert!(offloads(&eight));
        }
    }

    #[test]
    fn the_floor() {
        let o = [input(800); 3];
        let tiny = Work::gemm(Dtype::D, 10, 10, 10);
        assert_eq!(decided(&ask(tiny, &o)), Decision::Host(Reason::Small));
        let always = Question {
            mode: Mode::Always,
            ..ask(tiny, &o)
        };
        assert!(offloads(&always));
        let never = Question {
            mode: Mode::Never,
            ..ask(tiny, &o)
        };
        assert_eq!(decided(&never), Decision::Host(Reason::Off));
        let none = Question {
            devices: 0,
            ..always
        };
        assert_eq!(decided(&none), Decision::Host(Reason::NoDevice));
        let floor = Floor::default();
        assert!(!floor.below(&Work::gemm(Dtype::D, 80, 80, 80)));
        assert!(floor.below(&gemv(80)) && !floor.below(&gemv(100)));
    }

    #[test]
    fn what_lives_on_the_device_is_used_there() {
        // Small for a cold call, but the host would first have to fetch a large matrix.
        let n = 2000;
        let mut o = gemv_operands(n);
        o[0] = on_device_only(o[0]);
        let q = ask(gemv(n), &o);
        assert!(offloads(&q));
        assert!(on_host(&q, &h200()) > 32e6 / 55.4e9);
        // Nor does the floor send a tiny call to wait for its operands.
        let mut o = [input(800), input(800), output(800, 1.0)];
        o[0] = resident(o[0]);
        let tiny = Work::gemm(Dtype::D, 10, 10, 10);
        assert_eq!(decided(&ask(tiny, &o)), Decision::Host(Reason::Small));
        o[0] = on_device_only(o[0]);
        assert_ne!(decided(&ask(tiny, &o)), Decision::Host(Reason::Small));
    }

    #[test]
    fn results_that_are_read_back_cost() {
        let n = 2048;
        let b = n * n * 8;
        let work = Work::gemm(Dtype::D, n, n, n);
        let time = |read_back| {
            let o = [resident(input(b)), resident(input(b)), output(b, read_back)];
            match decided(&ask(work, &o)) {
                Decision::Offload { predicted_s, .. } => predicted_s,
                Decision::Host(_) => panic!("offloads"),
            }
        };
        assert!(time(0.0) < time(0.5) && time(0.5) < time(1.0));
        // A resident vector sum stays; one that is wanted at home does not pay.
        let axpy = Work {
            kind: Kind::Vector {
                passes: 3,
                flops: 2,
            },
            dtype: Dtype::D,
            m: 1 << 22,
            n: 1,
            k: 1,
        };
        let y = OperandState {
            read: true,
            ..output(1 << 25, 0.0)
        };
        let there = [resident(input(1 << 25)), resident(y)];
        assert!(offloads(&ask(axpy, &there)));
        let cold = [
            input(1 << 25),
            OperandState {
                read_back: 1.0,
                ..y
            },
        ];
        assert!(!offloads(&ask(axpy, &cold)));
    }

    #[test]
    fn more_residency_is_never_slower() {
        let n = 3000;
        let b = n * n * 8;
        for work in [Work::gemm(Dtype::D, n, n, n), gemv(n)] {
            let mut last = f64::INFINITY;
            for tenths in 0..=10 {
                let a = OperandState {
                    resident: b / 10 * tenths,
                    ..input(b)
                };
                let o = [a, input(b), output(b, 0.0)];
                let t = offload(&ask(work, &o), &h200(), None).seconds;
                assert!(t <= last);
                last = t;
            }
            let far = OperandState {
                resident: b,
                elsewhere: b,
                ..input(b)
            };
            let o = [far, input(b), output(b, 0.0)];
            assert!(offload(&ask(work, &o), &h200(), None).seconds > last);
        }
    }

    #[test]
    fn out_of_core_takes_longer() {
        let n = 16384;
        let b = n * n * 8;
        let o = [resident(input(b)), input(b), output(b, 0.0)];
        let q = ask(Work::gemm(Dtype::D, n, n, n), &o);
        let mut last = 0.0;
        for mib in [140 << 10, 2 << 10, 512] {
            let q = Question {
                memory: mib << 20,
                ..q
            };
            let t = offload(&q, &h200(), None).seconds;
            assert!(t > last, "{mib}");
            last = t;
        }
    }

    #[test]
    fn the_users_tile_is_kept() {
        let b = 4096 * 4096 * 8;
        let o = [input(b), input(b), output(b, 0.0)];
        let q = Question {
            tile: Some(1000),
            ..ask(Work::gemm(Dtype::D, 4096, 4096, 4096), &o)
        };
        assert!(matches!(decided(&q), Decision::Offload { tile: 1000, .. }));
    }
}
