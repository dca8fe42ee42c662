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
        if work.kind.is_level3() {
            work.flops() < self.flops
        } else {
            work.traffic() < self.bytes
        }
    }
}

/// What is known of one operand before a call.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct OperandState<'a> {
    /// Its bytes, gaps not counted.
    pub bytes: usize,
    /// The call reads it.
    pub read: bool,
    /// The call writes it.
    pub written: bool,
    /// Bytes that are valid on some device.
    pub resident: usize,
    /// Bytes that are valid on each device. Empty: the resident ones are where they will be used.
    pub on: &'a [usize],
    /// Bytes that must be page-locked first: what is not, passes through staging memory, which costs as much.
    pub unpinned: usize,
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
    pub operands: &'a [OperandState<'a>],
    /// Devices that can be used now, those from zero on.
    pub devices: usize,
    /// Where a call that uses one device runs.
    pub prefer: usize,
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
        /// How many of them: those from zero on, or the preferred one.
        devices: usize,
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

/// Twice as many devices must be worth that much: the predictions are no better.
const WORTH_MORE_DEVICES: f64 = 0.95;
/// The same for moving a call from where its operands are: a loop whose predictions are nearly equal stays.
const WORTH_MOVING: f64 = 0.96;
/// Panels that a call on the host faults one by one.
const PANEL: f64 = (2 << 20) as f64;

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
    let mut operands = q.operands.to_vec();
    triangles(q.work.kind, &mut operands);
    let q = &Question {
        operands: &operands,
        ..*q
    };
    let (devices, choice, invested) = best(q, machine);
    let host_s = on_host(q, machine);
    let bytes: usize = q.operands.iter().map(|o| o.bytes).sum();
    let resident: usize = q.operands.iter().map(|o| o.resident).sum();
    let lean = if resident > bytes / 2 {
        1.0 / WORTH_MOVING
    } else {
        WORTH_MOVING
    };
    if q.mode == Mode::Auto && invested >= host_s * lean {
        return Decision::Host(Reason::PredictedSlower);
    }
    Decision::Offload {
        devices,
        tile: choice.tile,
        predicted_s: choice.seconds,
        host_s,
    }
}

/// Whether the host is faster also with everything on a device and nothing to come home. True of a call whose
/// operands are all at home and open, it goes to the host, and an upload would never pay.
#[must_use]
pub fn hopeless(work: &Work, machine: &Machine) -> bool {
    machine.call_s + device_s(work, &machine.device) >= host_s(work, &machine.host) * WORTH_MOVING
}

/// Leaves the stored triangle of matrices of which only that is used.
fn triangles(kind: Kind, operands: &mut [OperandState<'_>]) {
    let half = match kind {
        Kind::Symm { .. } | Kind::Triangular { .. } => operands.first_mut(),
        Kind::RankK { .. } => operands.last_mut(),
        _ => None,
    };
    if let Some(o) = half {
        o.bytes /= 2;
        o.resident = o.resident.min(o.bytes);
    }
}

/// The operands of a level-3 routine in the places of A, B and C in `C := A B + C`. What is read and written is C
/// alone, for it is fetched once.
fn places<'a>(
    kind: Kind,
    operands: &'a [OperandState<'a>],
) -> Option<[Option<&'a OperandState<'a>>; 3]> {
    match (kind, operands) {
        (Kind::Gemm | Kind::Symm { right: false } | Kind::RankK { .. }, [a, b, c]) => {
            Some([Some(a), Some(b), Some(c)])
        }
        (Kind::Symm { right: true }, [a, b, c]) => Some([Some(b), Some(a), Some(c)]),
        (Kind::RankK { .. }, [a, c]) => Some([Some(a), None, Some(c)]),
        (Kind::Triangular { right: false }, [a, b]) => Some([Some(a), None, Some(b)]),
        (Kind::Triangular { right: true }, [a, b]) => Some([None, Some(a), Some(b)]),
        _ => None,
    }
}

/// The number of devices, among powers of two and all, with the smallest prediction, and that prediction as a
/// whole and as an investment. Under [`Mode::Always`] all of them.
fn best(q: &Question<'_>, machine: &Machine) -> (usize, Choice, f64) {
    let of = |devices| {
        let choice = offload(q, machine, devices, None);
        let invested = offload(q, machine, devices, Some(choice.tile)).seconds;
        (devices, choice, invested)
    };
    if q.mode == Mode::Always {
        return of(q.devices);
    }
    let mut best = of(1);
    let mut devices = 1;
    while devices < q.devices {
        devices = (devices * 2).min(q.devices);
        if used(&q.work, devices) <= best.0 {
            continue;
        }
        let more = of(devices);
        if more.2 < best.2 * WORTH_MORE_DEVICES {
            best = more;
        }
    }
    best
}

/// The host BLAS, after everything that is only on devices came home. Results that devices hold as well are
/// read-only on the host: its threads fault in every panel.
#[must_use]
pub fn on_host(q: &Question<'_>, machine: &Machine) -> f64 {
    let home = |o: &OperandState<'_>| {
        if o.stale > 0 {
            machine.fault_s + machine.device.d2h.time(o.stale as f64)
        } else if o.written {
            machine.fault_s * (o.resident as f64 / PANEL).ceil()
        } else {
            0.0
        }
    };
    host_s(&q.work, &machine.host) + q.operands.iter().map(home).sum::<f64>()
}

/// The devices. With `invest` (a tile that is chosen already) uploads count only for the share of this
/// call among the expected ones.
fn offload(q: &Question<'_>, machine: &Machine, devices: usize, invest: Option<usize>) -> Choice {
    let used = used(&q.work, devices);
    let rates = machine.among(used);
    let largest = q.operands.iter().map(|o| o.bytes).max().unwrap_or(0);
    // What does not fit passes through at every call.
    let stays = largest as f64 / used as f64 <= USABLE * q.memory as f64;
    let share = |o: &OperandState<'_>| {
        if invest.is_some() && stays {
            1.0 / (1.0 + f64::from(o.seen))
        } else {
            1.0
        }
    };
    let missing = |o: &OperandState<'_>| match (o.read, stays) {
        (false, _) => 0.0,
        (true, true) => o.bytes.saturating_sub(o.resident) as f64 * share(o),
        (true, false) => o.bytes as f64,
    };
    let home = |o: &OperandState<'_>| {
        if o.written {
            o.bytes as f64 * o.read_back.clamp(0.0, 1.0)
        } else {
            0.0
        }
    };
    let moved: f64 = q
        .operands
        .iter()
        .filter(|o| o.read)
        .map(|o| {
            rates
                .p2p
                .time(lacking(o, used, q.prefer, o.bytes == largest))
        })
        .sum();
    // Every context that is alive makes it slower, used or not.
    let locked: f64 = q
        .operands
        .iter()
        .map(|o| o.unpinned as f64 * share(o))
        .sum::<f64>()
        / machine.pin.of(q.devices);
    let mut choice = match places(q.work.kind, q.operands) {
        Some([a, b, c]) => {
            let (m, n, k) = (q.work.m as f64, q.work.n as f64, q.work.k as f64);
            let times = passes(q, used);
            let all = [(a, m * k, times.0), (b, k * n, times.1), (c, m * n, 1.0)];
            let fetch = all.map(|(operand, elements, times)| {
                let Some(o) = operand else {
                    return Fetch::default();
                };
                let whole = (elements * q.work.dtype.size() as f64).max(1.0);
                Fetch {
                    get: if times > 1.0 {
                        times * o.bytes as f64 / whole
                    } else {
                        missing(o) / whole
                    },
                    set: home(o) / whole,
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
        None => {
            let operands = q.operands;
            // One kernel per device: nothing overlaps (Eq. 2 with k = 1). The matrix is distributed.
            let each = |bytes: f64, o: &OperandState<'_>| {
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
            Choice {
                tile: q.tile.unwrap_or(PLAIN_TILE),
                seconds: t_in + device_s(&part, &rates) + t_out + value,
            }
        }
    };
    // The last device gets its first task after all others got theirs.
    let issue = (rates.launch_s + machine.task_s) * (used - 1) as f64;
    choice.seconds += machine.call_s + issue + locked + moved;
    choice
}

/// The share of a device's memory that operands may take.
const USABLE: f64 = 0.9;

/// Bytes of an operand that some device has, but the one does not that lacks most. A distributed operand is
/// needed in equal shares, any other by every device.
fn lacking(o: &OperandState<'_>, used: usize, prefer: usize, distributed: bool) -> f64 {
    let parts = if distributed { used } else { 1 };
    let needed = o.resident / parts;
    let on = if used == 1 {
        o.on.get(prefer..=prefer)
    } else {
        o.on.get(..used)
    };
    let least = on.and_then(|on| on.iter().min());
    least.map_or(0.0, |&n| needed.saturating_sub(n) as f64)
}

/// How often A and B pass through a device: once, unless the operands exceed its memory. Then half of the
/// memory holds a square block of C at a time, and each block needs its rows of A and columns of B again.
fn passes(q: &Question<'_>, used: usize) -> (f64, f64) {
    let bytes: f64 = q.operands.iter().map(|o| o.bytes as f64).sum();
    if bytes / used as f64 <= USABLE * q.memory as f64 {
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
        Kind::Symm { right: true } | Kind::Triangular { right: true } => work.m / LEAST_PANEL,
        Kind::Symm { .. } | Kind::Triangular { .. } | Kind::RankK { .. } => work.n / LEAST_PANEL,
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

    fn input(bytes: usize) -> OperandState<'static> {
        OperandState {
            bytes,
            read: true,
            ..OperandState::default()
        }
    }
    fn output(bytes: usize, read_back: f64) -> OperandState<'static> {
        OperandState {
            bytes,
            written: true,
            read_back,
            ..OperandState::default()
        }
    }
    fn resident(mut o: OperandState<'_>) -> OperandState<'_> {
        o.resident = o.bytes;
        o
    }
    fn on_device_only(o: OperandState<'_>) -> OperandState<'_> {
        OperandState {
            stale: o.bytes,
            ..resident(o)
        }
    }
    fn ask<'a>(work: Work, operands: &'a [OperandState<'a>]) -> Question<'a> {
        Question {
            work,
            operands,
            devices: 1,
            prefer: 0,
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
    fn gemv_operands(n: usize) -> [OperandState<'static>; 3] {
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
                ..
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

    fn level3(kind: Kind, n: usize, k: usize) -> Work {
        Work {
            kind,
            ..Work::gemm(Dtype::D, n, n, k)
        }
    }
    fn in_place(bytes: usize, read_back: f64) -> OperandState<'static> {
        OperandState {
            read: true,
            ..output(bytes, read_back)
        }
    }

    #[test]
    fn triangles_are_decided_like_products() {
        let cases = [
            (Kind::Symm { right: false }, 3),
            (Kind::Symm { right: true }, 3),
            (Kind::RankK { inputs: 1 }, 2),
            (Kind::RankK { inputs: 2 }, 3),
            (Kind::Triangular { right: false }, 2),
            (Kind::Triangular { right: true }, 2),
        ];
        for (kind, operands) in cases {
            let of = |n: usize| {
                let b = n * n * 8;
                let mut o = vec![input(b); operands - 1];
                o.push(in_place(b, 1.0));
                o
            };
            let cold = of(200);
            assert!(!offloads(&ask(level3(kind, 200, 200), &cold)), "{kind:?}");
            let cold = of(4096);
            let work = level3(kind, 4096, 4096);
            assert!(offloads(&ask(work, &cold)), "{kind:?}");
            let there: Vec<_> = of(4096)
                .into_iter()
                .map(|o| OperandState {
                    read_back: 0.0,
                    ..resident(o)
                })
                .collect();
            let seconds = |o: &[OperandState<'_>]| match decided(&ask(work, o)) {
                Decision::Offload { predicted_s, .. } => predicted_s,
                Decision::Host(why) => panic!("{kind:?} {why:?}"),
            };
            // Nothing moves, so it is the kernel's time and the call's.
            let kernel = device_s(&work, &h200().device);
            let over = seconds(&there) - kernel;
            assert!((0.0..1e-4).contains(&over), "{kind:?} {over}");
            // Of cold operands every byte moves at least, of triangles half.
            let matrices = operands as f64 - 0.5;
            let least = matrices * 4096.0 * 4096.0 * 8.0 / 56e9;
            let cold = seconds(&cold);
            assert!(cold > least.max(kernel), "{kind:?} {cold}");
            assert!(cold < least + kernel + 5e-3, "{kind:?} {cold} {least}");
        }
    }

    #[test]
    fn half_the_work_on_half_the_matrix_takes_less_than_a_product() {
        let n = 8192;
        let b = n * n * 8;
        let product = [input(b), input(b), in_place(b, 1.0)];
        let time = |work, o: &[OperandState<'_>]| {
            let Decision::Offload { predicted_s, .. } = decided(&ask(work, o)) else {
                panic!("offloads")
            };
            predicted_s
        };
        let gemm = time(Work::gemm(Dtype::D, n, n, n), &product);
        for kind in [
            Kind::RankK { inputs: 1 },
            Kind::Triangular { right: false },
            Kind::Triangular { right: true },
        ] {
            let half = time(level3(kind, n, n), &[product[0], product[2]]);
            assert!(half < 0.7 * gemm, "{kind:?}");
        }
        // Eight devices share it; few columns are for one alone.
        let o = [input(b), in_place(b, 0.0)];
        let devices = |work| {
            let q = Question {
                devices: 8,
                ..ask(work, &o)
            };
            match decided(&q) {
                Decision::Offload { devices, .. } => devices,
                Decision::Host(_) => 0,
            }
        };
        let solve = level3(Kind::Triangular { right: false }, n, n);
        assert!(devices(solve) > 1);
        assert!(devices(Work { n: 300, ..solve }) <= 1);
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
                let t = offload(&ask(work, &o), &h200(), 1, None).seconds;
                assert!(t <= last);
                last = t;
            }
            let far = OperandState {
                resident: b,
                on: &[0, 1 << 40],
                ..input(b)
            };
            let o = [far, input(b), output(b, 0.0)];
            assert!(offload(&ask(work, &o), &h200(), 1, None).seconds > last);
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
            let t = offload(&q, &h200(), 1, None).seconds;
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

    #[test]
    fn more_devices_only_where_they_pay() {
        let eight = |work, o: &[OperandState<'_>]| {
            let q = Question {
                devices: 8,
                ..ask(work, o)
            };
            match decided(&q) {
                Decision::Offload { devices, .. } => devices,
                Decision::Host(_) => 0,
            }
        };
        let product = |n: usize, there: bool| {
            let b = n * n * 8;
            let mut o = [input(b), input(b), output(b, 0.0)];
            if there {
                o = o.map(resident);
            }
            eight(Work::gemm(Dtype::D, n, n, n), &o)
        };
        // Microseconds of work are not worth a second launch, seconds are worth every device.
        assert_eq!(product(600, true), 1);
        assert_eq!(product(16384, true), 8);
        assert_eq!(product(16384, false), 8);
        let mut o = gemv_operands(32768);
        o[0] = resident(o[0]);
        assert_eq!(eight(gemv(32768), &o), 8);
        // Only one device has it: moving it is not worth one use.
        let whole = [o[0].bytes, 0, 0, 0, 0, 0, 0, 0];
        o[0].on = &whole;
        assert_eq!(eight(gemv(32768), &o), 1);
        // Always means all.
        let q = Question {
            devices: 8,
            mode: Mode::Always,
            ..ask(gemv(100), &o)
        };
        assert!(matches!(decided(&q), Decision::Offload { devices: 8, .. }));
    }

    #[test]
    fn page_locking_is_part_of_the_first_use() {
        let n = 2048;
        let b = n * n * 8;
        let work = Work::gemm(Dtype::D, n, n, n);
        let time = |unpinned, seen, devices| {
            let a = OperandState {
                unpinned,
                seen,
                ..resident(input(b))
            };
            let o = [a, resident(input(b)), output(b, 0.0)];
            let q = Question {
                devices,
                ..ask(work, &o)
            };
            offload(&q, &h200(), 1, Some(2048)).seconds
        };
        let cost = time(b, 0, 1) - time(0, 0, 1);
        assert!((cost / (b as f64 / 45e9) - 1.0).abs() < 1e-6);
        assert!((time(b, 3, 1) - time(0, 3, 1)) / cost < 0.26);
        // More contexts make it slower, also where only one is used.
        assert!(time(b, 0, 8) - time(0, 0, 8) > 3.0 * cost);
    }

    #[test]
    fn nearly_equal_loops_stay_where_they_are() {
        // With the matrix on the device or not, the same size is decided for the side that it is on.
        let stays = |n: usize| {
            let mut o = gemv_operands(n);
            o[2].read_back = 0.0;
            let cold = offloads(&ask(gemv(n), &o));
            o[0] = resident(o[0]);
            o[1] = resident(o[1]);
            (cold, offloads(&ask(gemv(n), &o)))
        };
        for n in (300..3000).step_by(100) {
            let (cold, there) = stays(n);
            assert!(there || !cold, "{n}");
        }
    }

    #[test]
    fn what_does_not_fit_is_sent_every_time() {
        let n = 32768;
        let mut o = gemv_operands(n);
        o[0].seen = 1000;
        let fits = ask(gemv(n), &o);
        assert!(offloads(&fits));
        let small = Question {
            memory: 1 << 30,
            ..fits
        };
        assert!(!offloads(&small));
    }

    #[test]
    fn hopeless_calls_are_never_offloaded() {
        let m = h200();
        let axpy = |n| Work {
            kind: Kind::Vector {
                passes: 3,
                flops: 2,
            },
            dtype: Dtype::D,
            m: n,
            n: 1,
            k: 1,
        };
        for n in (100..2000).step_by(50) {
            let product = Work::gemm(Dtype::D, n, n, n);
            for work in [product, gemv(n), axpy(n * n)] {
                let o = gemv_operands(n).map(|o| OperandState {
                    seen: 1_000_000,
                    read_back: 0.0,
                    ..o
                });
                if hopeless(&work, &m) {
                    assert!(!offloads(&ask(work, &o)), "{work:?}");
                }
            }
        }
        assert!(hopeless(&gemv(100), &m) && !hopeless(&gemv(2000), &m));
        assert!(hopeless(&Work::gemm(Dtype::D, 50, 50, 50), &m));
        assert!(!hopeless(&Work::gemm(Dtype::D, 600, 600, 600), &m));
    }
}
