use super::*;
use crate::base::{DeviceId, Dtype, Routine, TileSize, Work};
use crate::model::rates::{DeviceRates, HostRates, LinkRate, Rates};
use crate::model::select::Fetch;
use proptest::prelude::*;
use streams::{Streams, Transfers};

fn h200() -> DeviceRates {
    *Rates::h200(HostRates::of_cores(16)).of(DeviceId(0))
}

/// 12 s to the device, 6 s to the host, in each direction 1 s before the first byte and a gap of a quarter.
fn call(kernels_s: f64) -> Streams {
    let transfers = |bytes_s| Transfers {
        latency_s: 1.0,
        bytes_s,
        gap_s: 0.25,
    };
    Streams {
        hd: transfers(12.0),
        dh: transfers(6.0),
        kernels_s,
    }
}

#[test]
fn streams_by_hand() {
    let c = call(20.0);
    // All transfers of four streams: 1 + 12 + 3 / 4 and 1 + 6 + 3 / 4; of one of them 1 + 3 and 1 + 1.5.
    assert_eq!((c.hd.all(4.0), c.hd.one(4.0)), (13.75, 4.0));
    assert_eq!((c.dh.all(4.0), c.dh.one(4.0)), (7.75, 2.5));
    assert_eq!(c.explicit(), 13.0 + 20.0 + 7.0);
    assert_eq!(c.eq_1(4.0), 4.0 + 20.0 + 7.75);
    assert_eq!(c.eq_2(4.0), 13.75 + 5.0 + 7.75);
    assert_eq!(c.eq_3(4.0), 4.0 + 20.0 + 2.5);
    // 13.75 + 7.75, 13.75 + 5 + 2.5, 4 + 5 + 7.75.
    assert_eq!(c.eq_4(4.0), 21.5);
    // 13.75 + 5 + 2.5, 4 + 20 + 2.5, 4 + 5 + 7.75.
    assert_eq!(c.eq_5(4.0), 26.5);
    assert_eq!(c.eq_6(), 2.0 + 20.0);
}

#[test]
fn streams_that_transfers_dominate() {
    let c = call(2.0);
    // 13.75 + 0.5 + 2.5, 4 + 2 + 2.5, 4 + 0.5 + 7.75.
    assert_eq!(c.eq_5(4.0), 16.75);
    assert_eq!(c.eq_4(4.0), 21.5);
    assert_eq!(c.eq_6(), 2.0 + 12.0);
    // A direction in which nothing moves has no latency.
    let nothing = Transfers::new(0.0, &h200().d2h, 0.3);
    assert_eq!((nothing.all(9.0), nothing.one(9.0)), (0.0, 0.0));
}

/// The transfers of section V with the parameters of Table I: 16 MB to the device.
#[test]
fn transfers_by_table_1() {
    let link = LinkRate {
        latency_s: 9.420e-6,
        bytes_per_s: 1.0 / 8.318392e-11,
        bid_slowdown: 1.0,
    };
    let t = Transfers::new(16e6, &link, 2.503 / 9.420);
    assert!((t.all(1.0) - (9.420e-6 + 1.33094272e-3)).abs() < 1e-12);
    assert!((t.all(256.0) - t.all(1.0) - 255.0 * 2.503e-6).abs() < 1e-12);
}

fn case<'a>(
    work: Work,
    bytes: &'a [usize],
    moved: &'a [Fetch],
    rates: &'a DeviceRates,
) -> Case<'a> {
    Case {
        work,
        bytes,
        moved,
        tile: TileSize::square(4096),
        devices: 1,
        rates,
        task_s: 4e-6,
    }
}

const IN: Fetch = Fetch { get: 1.0, set: 0.0 };
const OUT: Fetch = Fetch { get: 0.0, set: 1.0 };
const STAY: Fetch = Fetch { get: 0.0, set: 0.0 };

/// A product of order 16384 from and to the host of an H200: three matrices of 2 GiB over 55.4 GB/s, in 4 x 4 x 4 tiles.
#[test]
fn a_product_by_each_predictor() {
    let (rates, work) = (h200(), Work::gemm(Dtype::D, 16384, 16384, 16384));
    let (bytes, moved) = ([1 << 31; 3], [IN, IN, OUT]);
    let case = case(work, &bytes, &moved, &rates);
    let near = |predictor: &dyn Predictor, seconds: f64| {
        let found = predictor.seconds(&case).expect("an answer");
        assert!(
            (found / seconds - 1.0).abs() < 1e-3,
            "{}: {found}",
            predictor.name()
        );
    };
    // Two products of 2^42 flops at 62.5 TFLOP/s.
    near(&Roofline, 8.796093e12 / 62.5e12);
    let matrix_s = 2_147_483_648.0 / 55.4e9;
    let kernel_s = crate::model::exec::device_s(&work, &rates);
    near(&Overlap::Explicit, 3.0 * matrix_s + kernel_s + 14e-6);
    let one = Work::gemm(Dtype::D, 4096, 4096, 4096);
    let task_s = crate::model::exec::device_s(&one, &rates);
    let tile_s = matrix_s / 16.0 + 7e-6;
    near(
        &Equation::Baseline,
        64.0 * 3.0 * tile_s + task_s + 3.0 * tile_s,
    );
    near(
        &Equation::DataLocation,
        63.0 * 2.0 * tile_s + 3.0 * tile_s + task_s,
    );
    near(
        &Equation::Reuse,
        30.0 * tile_s + 34.0 * task_s + 3.0 * tile_s,
    );
    assert_eq!(Overlap::Mapped.answer(&case), None);
    let tasks = Equation::Reuse.answer(&case).expect("an answer").pieces;
    assert_eq!(tasks, 64);
}

/// A vector is moved by explicit copies and one kernel: without streams all models agree.
#[test]
fn a_vector_by_each_predictor() {
    let (rates, n) = (h200(), 1 << 26);
    let work = Work {
        routine: Routine::Axpy,
        n: 1,
        k: 1,
        ..Work::gemm(Dtype::D, n, 1, 1)
    };
    let (bytes, moved) = ([n * 8; 2], [IN, Fetch::ALL]);
    let case = case(work, &bytes, &moved, &rates);
    let of = |predictor: &dyn Predictor| predictor.seconds(&case).expect("an answer");
    let vector_s = (n * 8) as f64 / 55.4e9;
    let near =
        |found: f64, known: f64| assert!((found / known - 1.0).abs() < 5e-3, "{found} {known}");
    near(
        of(&Equation::DataLocation),
        3.0 * vector_s + of(&Roofline).min(0.36e-3),
    );
    assert_eq!(of(&Equation::DataLocation), of(&Equation::Reuse));
    near(of(&Overlap::Mapped), 2.0 * vector_s);
    // The best number of streams by the paper's section VI: sqrt((B_dh G_dh + t_E) / g).
    let (gap_s, others_s) = (7e-6 * 2.503 / 9.420, vector_s + case.kernels_s());
    let found = Overlap::TwoEngines.answer(&case).expect("an answer");
    assert_eq!(found.pieces, (others_s / gap_s).sqrt().round() as usize);
    near(
        found.seconds,
        2.0 * vector_s + 2.0 * (others_s * gap_s).sqrt() + 14e-6,
    );
    assert!(of(&Overlap::Mapped) < of(&Overlap::TwoEngines));
}

/// Resident operands cost no transfer: what is left is the kernel.
#[test]
fn a_resident_product_is_its_kernel() {
    let (rates, work) = (h200(), Work::gemm(Dtype::D, 4096, 4096, 4096));
    let (bytes, moved) = ([1 << 27; 3], [STAY; 3]);
    let case = case(work, &bytes, &moved, &rates);
    let kernel_s = case.kernels_s();
    for predictor in [
        &Overlap::Explicit as &dyn Predictor,
        &Overlap::TwoEngines,
        &Equation::Reuse,
    ] {
        assert_eq!(
            predictor.seconds(&case),
            Some(kernel_s),
            "{}",
            predictor.name()
        );
    }
}

fn sizes() -> impl Strategy<Value = (usize, usize, usize)> {
    (1_usize..20_000, 1_usize..20_000, 1_usize..20_000)
}

fn share() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(1.0), 0.0..1.0]
}

/// A product of any type, what moves of each operand, tile and number of devices.
fn cases() -> impl Strategy<Value = (Work, Vec<usize>, [Fetch; 3], usize, usize)> {
    let dtype = prop_oneof![Just(Dtype::S), Just(Dtype::D), Just(Dtype::Z)];
    let moved = (share(), share(), share(), share());
    (sizes(), dtype, moved, 100_usize..9000, 1_usize..9).prop_map(
        |((m, n, k), dtype, (a, b, c, out), tile, devices)| {
            let work = Work::gemm(dtype, m, n, k);
            let size = dtype.size();
            let fetch = |get, set| Fetch { get, set };
            let moved = [fetch(a, 0.0), fetch(b, 0.0), fetch(c, out)];
            (
                work,
                vec![m * k * size, k * n * size, m * n * size],
                moved,
                tile,
                devices,
            )
        },
    )
}

/// The seconds that all predictors answer.
fn answers(case: &Case<'_>) -> Vec<(&'static str, f64)> {
    let all = CLOSED_FORMS.iter();
    all.filter_map(|p| Some((p.name(), p.seconds(case)?)))
        .collect()
}

proptest! {
    #[test]
    fn no_predictor_is_below_the_bound((work, bytes, moved, tile, devices) in cases()) {
        let rates = h200();
        let case = Case { tile: TileSize::square(tile), devices, ..case(work, &bytes, &moved, &rates) };
        let bound = Roofline.seconds(&case).expect("a bound");
        for (name, seconds) in answers(&case) {
            prop_assert!(seconds.is_finite() && seconds >= bound * (1.0 - 1e-9), "{}: {} below {}", name, seconds, bound);
        }
    }

    #[test]
    fn what_overlaps_more_is_never_slower((work, bytes, moved, tile, devices) in cases()) {
        let rates = h200();
        let case = Case { tile: TileSize::square(tile), devices, ..case(work, &bytes, &moved, &rates) };
        let of = |overlap: Overlap| overlap.seconds(&case).expect("an answer");
        prop_assert!(of(Overlap::ImplicitSync) <= of(Overlap::Explicit));
        prop_assert!(of(Overlap::OneEngine) <= of(Overlap::ImplicitSync));
        prop_assert!(of(Overlap::TwoEngines) <= of(Overlap::OneEngine));
        let of = |equation: Equation| equation.seconds(&case).expect("an answer");
        prop_assert!(of(Equation::DataLocation) <= of(Equation::Baseline) * (1.0 + 1e-9));
        prop_assert!(of(Equation::DataLocation) <= of(Equation::Bidirectional) * (1.0 + 1e-9));
    }

    #[test]
    fn fetching_less_is_never_slower((work, bytes, moved, tile, devices) in cases(), which in 0_usize..3, less in 0.0..1.0) {
        let rates = h200();
        let more = Case { tile: TileSize::square(tile), devices, ..case(work, &bytes, &moved, &rates) };
        let mut fewer = moved;
        fewer[which].get *= less;
        let fewer = Case { moved: &fewer, ..more };
        for ((name, with), (_, without)) in answers(&more).into_iter().zip(answers(&fewer)) {
            prop_assert!(without <= with * (1.0 + 1e-9), "{}: {} after {}", name, without, with);
        }
    }
}
