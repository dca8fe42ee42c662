//! Decisions between host and devices, on the machines that the rates were measured on.

use super::*;
use crate::base::{DeviceId, Dtype};
use crate::model::HostRates;
use crate::model::exec::by_speed;
use crate::model::select::Fetch;

fn h200() -> Rates {
    Rates::h200(HostRates::of_cores(16))
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
        host_s: None,
        operands,
        devices: DeviceSet::equal(1),
        prefer: DeviceId(0),
        memory: &[140 << 30],
        mode: Mode::Auto,
        tile: None,
        planner: None,
    }
}
fn decided(q: &Question<'_>) -> Decision {
    decide(q, &h200(), &Floor::default())
}
fn seconds(q: &Question<'_>, uploads: Uploads) -> f64 {
    Offload::new(q, &h200(), DeviceSet::equal(1))
        .choice(q.tile.map(TileSize::square), uploads)
        .seconds
}
fn offloads(q: &Question<'_>) -> bool {
    matches!(decided(q), Decision::Offload { .. })
}
fn gemv(n: usize) -> Work {
    Work {
        routine: Routine::Gemv,
        ..Work::gemm(Dtype::D, n, n, 1)
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
    // If half of the matrix is resident, the upload of the other half does not pay.
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
        assert!(predicted_s < host_s && tile.n < 8192);
        let eight = Question {
            devices: DeviceSet::equal(8),
            ..ask(work, &o)
        };
        assert!(offloads(&eight));
    }
}

/// An update of a trailing matrix in a QR factorisation, of which the CPU touches every panel before the next.
#[test]
fn what_earlier_uses_took_beyond_their_predictions_is_added() {
    let (m, n, k) = (3776, 704, 32);
    let work = Work::gemm(Dtype::D, m, n, k);
    let mut o = [
        resident(input(m * k * 8)),
        input(k * n * 8),
        OperandState {
            read: true,
            looked: 1.0,
            ..resident(output(m * n * 8, 1.0))
        },
    ];
    let mut seconds = |beyond_s: f64| {
        o[2].beyond_s = beyond_s;
        match decided(&ask(work, &o)) {
            Decision::Offload { predicted_s, .. } => Some(predicted_s),
            Decision::Host(_) => None,
        }
    };
    let [none, some, much] = [0.0, 1e-4, 1e-2].map(&mut seconds);
    let more = some.unwrap() - none.unwrap();
    assert!((more - 1e-4).abs() < 1e-9, "{more}");
    assert_eq!(much, None);
}

fn level3((routine, side): (Routine, Side), n: usize, k: usize) -> Work {
    Work {
        routine,
        side,
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
        ((Routine::Symm, Side::Left), 3),
        ((Routine::Symm, Side::Right), 3),
        ((Routine::Syrk, Side::Left), 2),
        ((Routine::Syr2k, Side::Left), 3),
        ((Routine::Trsm, Side::Left), 2),
        ((Routine::Trsm, Side::Right), 2),
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
        // No byte moves, so the time is the kernel's and the call's own.
        let kernel = device_s(&work, h200().of(DeviceId(0)));
        let over = seconds(&there) - kernel;
        assert!((0.0..1e-4).contains(&over), "{kind:?} {over}");
        // If no operand is resident, every byte of the matrices moves, and of triangles half.
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
        (Routine::Syrk, Side::Left),
        (Routine::Trsm, Side::Left),
        (Routine::Trsm, Side::Right),
    ] {
        let half = time(level3(kind, n, n), &[product[0], product[2]]);
        // The rows of a solve are computed one after the other.
        let most = if kind.0 == Routine::Trsm { 0.9 } else { 0.7 };
        assert!(half < most * gemm, "{kind:?}");
    }
    // A solve with many columns is spread over several of eight devices; one with 300 columns runs on at most one.
    let o = [input(b), in_place(b, 0.0)];
    let devices = |work| {
        let q = Question {
            devices: DeviceSet::equal(8),
            ..ask(work, &o)
        };
        match decided(&q) {
            Decision::Offload { devices, .. } => devices.len(),
            Decision::Host(_) => 0,
        }
    };
    let solve = level3((Routine::Trsm, Side::Left), n, n);
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
        devices: DeviceSet::NONE,
        ..always
    };
    assert_eq!(decided(&none), Decision::Host(Reason::NoDevice));
    let floor = Floor::default();
    assert!(!floor.below(&Work::gemm(Dtype::D, 80, 80, 80)));
    assert!(floor.below(&gemv(80)) && !floor.below(&gemv(100)));
}

#[test]
fn what_lives_on_the_device_is_used_there() {
    // The work is small for a call whose operands are not resident, but the host BLAS would first wait for the
    // write-back of a large matrix.
    let n = 2000;
    let mut o = gemv_operands(n);
    o[0] = on_device_only(o[0]);
    let q = ask(gemv(n), &o);
    assert!(offloads(&q));
    assert!(on_host(&q, &h200()) > 32e6 / 55.4e9);
    // Nor does the floor send a tiny call to the host if an operand must be written back first.
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
    // A vector sum stays on a device that holds the vectors. If the vectors are not resident and the result is written
    // back, it does not pay.
    let axpy = Work {
        routine: Routine::Axpy,
        ..Work::gemm(Dtype::D, 1 << 22, 1, 1)
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
fn a_loop_of_one_call_leaves_a_device_where_the_host_is_faster() {
    // 13 us on the host; on a device 4 us, and 22 us until the result is read.
    let axpy = Work {
        routine: Routine::Axpy,
        ..Work::gemm(Dtype::D, 1 << 16, 1, 1)
    };
    let bytes = 8 << 16;
    let y = |looked, alone| OperandState {
        alone,
        looked,
        seen: 100,
        ..resident(in_place(bytes, looked))
    };
    let there = |y| [resident(input(bytes)), y];
    assert!(offloads(&ask(axpy, &there(y(0.0, 100)))));
    assert!(!offloads(&ask(axpy, &there(y(1.0, 100)))));
    // If other calls use the vector on the device, a call on the host would make it move back.
    assert!(offloads(&ask(axpy, &there(y(1.0, 0)))));
    // Even if the CPU reads little of the result, the call waits for that.
    let corner = OperandState {
        read_back: 0.01,
        ..y(1.0, 100)
    };
    assert!(!offloads(&ask(axpy, &there(corner))));
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
            let t = seconds(&ask(work, &o), Uploads::Whole);
            assert!(t <= last);
            last = t;
        }
        let far = OperandState {
            resident: b,
            on: &[0, 1 << 40],
            ..input(b)
        };
        let o = [far, input(b), output(b, 0.0)];
        assert!(seconds(&ask(work, &o), Uploads::Whole) > last);
    }
}

/// Answers with these seconds and a tile of 1024.
#[derive(Debug)]
struct Fixed {
    seconds: f64,
    exceeds: bool,
}

impl Planner for Fixed {
    fn exceeds(&self) -> bool {
        self.exceeds
    }

    fn choice(&self, _: &DeviceSet, tile: Option<TileSize>, moved: &[Fetch]) -> Option<Choice> {
        assert_eq!(
            moved.iter().map(|m| m.get).collect::<Vec<_>>(),
            [1.0, 1.0, 0.0]
        );
        Some(Choice {
            tile: tile.unwrap_or(TileSize::square(1024)),
            seconds: self.seconds,
        })
    }
}

#[test]
fn the_timelines_prediction_counts() {
    let n = 16384;
    let b = n * n * 8;
    let o = [input(b), input(b), output(b, 0.0)];
    for exceeds in [false, true] {
        let mut last = 0.0;
        for seconds in [0.2, 0.3, 1.0] {
            let planner = Fixed { seconds, exceeds };
            let q = Question {
                memory: if exceeds { &[2 << 30] } else { &[80 << 30] },
                planner: Some(&planner),
                ..ask(Work::gemm(Dtype::D, n, n, n), &o)
            };
            let t = self::seconds(&q, Uploads::Whole);
            assert!(t > last && t > seconds && t < seconds * 1.01, "{t}");
            last = t;
            assert!(
                matches!(decided(&q), Decision::Offload { tile, .. } if tile == TileSize::square(1024))
            );
        }
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
    assert!(
        matches!(decided(&q), Decision::Offload { tile, .. } if tile == TileSize::square(1000))
    );
}

#[test]
fn more_devices_only_where_they_pay() {
    let eight = |work, o: &[OperandState<'_>]| {
        let q = Question {
            devices: DeviceSet::equal(8),
            ..ask(work, o)
        };
        match decided(&q) {
            Decision::Offload { devices, .. } => devices.len(),
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
    // A product of microseconds is not worth a second launch; a product of seconds is worth all eight devices.
    assert_eq!(product(600, true), 1);
    assert_eq!(product(16384, true), 8);
    assert_eq!(product(16384, false), 8);
    let mut o = gemv_operands(32768);
    o[0] = resident(o[0]);
    assert_eq!(eight(gemv(32768), &o), 8);
    // Only one device has the matrix: one use is not worth copying it to others, many uses are.
    let whole = [o[0].bytes, 0, 0, 0, 0, 0, 0, 0];
    o[0].on = &whole;
    assert_eq!(eight(gemv(32768), &o), 1);
    o[0].seen = 100;
    assert_eq!(eight(gemv(32768), &o), 8);
    // Mode `always` uses all devices.
    let q = Question {
        devices: DeviceSet::equal(8),
        mode: Mode::Always,
        ..ask(gemv(100), &o)
    };
    let eight = matches!(decided(&q), Decision::Offload { devices, .. } if devices.len() == 8);
    assert!(eight);
}

/// On Makalu a product of doubles runs on the two K40, and on all four where that is faster by more than the TITAN X's share.
/// One whose operands are on a TITAN X stays there only if it is small.
#[test]
fn unequal_devices_are_used_where_they_shorten_a_call() {
    let model = crate::topology::preset("makalu").expect("a preset");
    let rates = Rates::modelled(&model, HostRates::of_cores(16));
    let devices = |n: usize, dtype, there: Option<usize>| {
        let (work, bytes) = (Work::gemm(dtype, n, n, n), n * n * dtype.size());
        let mut on = [0; 4];
        let mut o = [input(bytes), input(bytes), output(bytes, 0.0)];
        if let Some(device) = there {
            on[device] = bytes;
            o = o.map(|o| OperandState {
                on: &on,
                ..resident(o)
            });
        }
        let q = Question {
            devices: by_speed(&work, &rates, 4),
            prefer: DeviceId::at(there.unwrap_or(0)),
            ..ask(work, &o)
        };
        match decide(&q, &rates, &Floor::default()) {
            Decision::Offload { devices, .. } => devices.ids().map(|id| id.0).collect(),
            Decision::Host(_) => Vec::new(),
        }
    };
    assert_eq!(devices(16384, Dtype::D, None), [0, 1, 2, 3]);
    assert_eq!(devices(16384, Dtype::S, None), [2, 3, 0, 1]);
    assert_eq!(devices(500, Dtype::D, Some(0)), [0]);
    assert_eq!(devices(4096, Dtype::D, Some(2)), [0, 1, 2, 3]);
    assert_eq!(devices(500, Dtype::S, Some(3)), [3]);
}

#[test]
fn page_locking_is_part_of_the_first_use() {
    let n = 2048;
    let b = n * n * 8;
    let work = Work::gemm(Dtype::D, n, n, n);
    let time = |unpinned, calls, devices| {
        let devices = DeviceSet::equal(devices);
        let a = OperandState {
            unpinned,
            calls,
            ..resident(input(b))
        };
        let o = [a, resident(input(b)), output(b, 0.0)];
        let q = Question {
            devices,
            tile: Some(n),
            ..ask(work, &o)
        };
        seconds(&q, Uploads::Shared)
    };
    let cost = time(b, 0, 1) - time(0, 0, 1);
    assert!((cost / (b as f64 / 45e9) - 1.0).abs() < 1e-6);
    assert!((time(b, 3, 1) - time(0, 3, 1)) / cost < 0.26);
    // More live contexts make page-locking slower, even if the call uses only one device.
    assert!(time(b, 0, 8) - time(0, 0, 8) > 3.0 * cost);
}

#[test]
fn nearly_equal_loops_stay_where_they_are() {
    // A size that runs on the device even with operands that are not resident must run there with resident ones.
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
        memory: &[1 << 30],
        ..fits
    };
    assert!(!offloads(&small));
}

#[test]
fn hopeless_calls_are_never_offloaded() {
    let m = h200();
    let axpy = |n| Work {
        routine: Routine::Axpy,
        ..Work::gemm(Dtype::D, n, 1, 1)
    };
    for n in (100..2000).step_by(50) {
        let product = Work::gemm(Dtype::D, n, n, n);
        for work in [product, gemv(n), axpy(n * n)] {
            let o = gemv_operands(n).map(|o| OperandState {
                seen: 1_000_000,
                read_back: 0.0,
                ..o
            });
            if slower(&work, &m) {
                assert!(!offloads(&ask(work, &o)), "{work:?}");
            }
        }
    }
    assert!(slower(&gemv(100), &m) && !slower(&gemv(2000), &m));
    assert!(slower(&Work::gemm(Dtype::D, 50, 50, 50), &m));
    assert!(!slower(&Work::gemm(Dtype::D, 600, 600, 600), &m));
}

/// Whether the host, as predicted, is faster wherever the operands are.
fn slower(work: &Work, machine: &Rates) -> bool {
    hopeless(work, machine, host_s(work, &machine.host))
}
