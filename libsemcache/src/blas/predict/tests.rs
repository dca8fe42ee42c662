use super::*;
use crate::base::{Dtype, Op, Routine, Side, Value};
use crate::blas::args::{Checked, check};
use crate::blas::call::Call;
use crate::blas::call_key;
use crate::blas::finish::HostHas;
use crate::model::HostRates;

/// A machine of this many H200 that read each other's memory over NVLink.
fn h200(devices: usize) -> Machine {
    Machine {
        rates: Rates::h200(HostRates::of_cores(16)),
        links: Links::fast(devices),
        memory: vec![140 << 30; devices],
    }
}

/// A call with operands of its own, each of `n` rows at most.
fn call(routine: Routine, side: Side, sizes: &[i64]) -> Call {
    let ld = sizes.iter().copied().max().unwrap_or(1);
    let step = if routine.level() == 1 { 1 } else { ld };
    let at = routine.operands().iter().enumerate().map(|(i, slot)| {
        let ld = if slot.extent.is_vector() { 1 } else { step };
        ((i + 1) << 40, ld)
    });
    let mut call = Call::new(routine, Dtype::D, sizes, &at.collect::<Vec<_>>());
    call.form.side = side;
    (call.alpha, call.beta) = (Value { re: 2.0, im: 0.0 }, Value::ZERO);
    if routine == Routine::Imatcopy {
        call.op_a = Op::Trans;
    }
    call
}

fn problem(routine: Routine, side: Side, sizes: &[i64]) -> Problem {
    match check(&call(routine, side, sizes)) {
        Checked::Run(problem, _) => *problem,
        other => panic!("{routine:?}: {other:?}"),
    }
}

fn cold(problem: &Problem) -> Asking<'_> {
    Asking {
        problem,
        on_devices: &[],
        read_back: true,
        locked: true,
        tile: None,
    }
}

/// The decision is that of the model's code for the same question, and what is told of the devices is what it compared.
#[test]
fn the_prediction_is_what_the_decision_compares() {
    for (routine, sizes) in [
        (Routine::Gemm, &[8192, 8192, 8192][..]),
        (Routine::Syrk, &[8192, 4096]),
        (Routine::Trsm, &[6000, 6000]),
        (Routine::Gemm, &[300, 300, 300]),
    ] {
        let problem = problem(routine, Side::Left, sizes);
        for devices in [1, 2, 4] {
            let found = predict(&h200(devices), &cold(&problem));
            let on = found.on_devices.expect("devices");
            match found.decision {
                Decision::Offload {
                    devices,
                    tile,
                    predicted_s,
                    host_s,
                } => {
                    assert_eq!((devices, tile), (on.devices, on.choice.tile));
                    assert_eq!((predicted_s, host_s), (on.choice.seconds, found.host_s));
                }
                Decision::Host(_) => assert!(on.choice.seconds > 0.9 * found.host_s),
            }
        }
    }
}

/// The whole time of a call whose host memory is page-locked is its timeline and the runtime's own time.
#[test]
fn the_timeline_is_the_prediction() {
    let problem = problem(Routine::Gemm, Side::Left, &[8192, 8192, 8192]);
    let on = predict(&h200(1), &cold(&problem))
        .on_devices
        .expect("a device");
    assert!(on.by_timeline);
    let timed = on.timed.as_ref().expect("room");
    let whole = timed.schedule.seconds + on.beside.runtime_s;
    assert!((on.choice.seconds - whole).abs() < 1e-12);
    let last = timed.operations.iter().map(|o| o.end).fold(0.0, f64::max);
    assert_eq!(last, timed.schedule.seconds);
    let said = |name| {
        let mut all = on.said.iter().filter(|s| s.name == name);
        all.next().and_then(|s| s.answer).expect(name).seconds
    };
    let bound = said("roofline bound");
    for predictor in on.said.iter().filter_map(|s| s.answer) {
        assert!(predictor.seconds >= bound * (1.0 - 1e-9));
    }
    assert_eq!(said("timeline of the plan"), timed.schedule.seconds);
}

#[test]
fn what_bounds_a_call() {
    let bound = |sizes: &[i64], asking: &dyn Fn(Asking<'_>) -> OnDevices| {
        let problem = problem(Routine::Gemm, Side::Left, sizes);
        asking(cold(&problem)).bound()
    };
    let of = |asking: Asking<'_>| predict(&h200(1), &asking).on_devices.expect("a device");
    assert_eq!(bound(&[16384, 16384, 16384], &of), Load::Kernels);
    // A product with few columns uploads A for little work.
    assert_eq!(bound(&[16384, 64, 16384], &of), Load::Uploads);
    // The product of two narrow matrices is mostly its result.
    assert_eq!(bound(&[16384, 16384, 64], &of), Load::WriteBacks);
    let unlocked = |asking: Asking<'_>| {
        of(Asking {
            locked: false,
            ..asking
        })
    };
    assert_eq!(bound(&[16384, 64, 16384], &unlocked), Load::PageLocking);
    let resident = |asking: Asking<'_>| {
        of(Asking {
            on_devices: &[true; 3],
            read_back: false,
            ..asking
        })
    };
    assert_eq!(bound(&[16384, 64, 16384], &resident), Load::Kernels);
}

/// All routines that devices run have a prediction, on unequal devices, too.
#[test]
fn every_routine_is_predicted() {
    let makalu = Rates::modelled(
        &crate::topology::preset("makalu").expect("a preset"),
        HostRates::of_cores(8),
    );
    let machine = Machine {
        rates: makalu,
        links: Links::fast(4),
        memory: vec![11 << 30; 4],
    };
    for &routine in Routine::ALL {
        if matches!(routine, Routine::GemmBatch) || routine.hermitian() {
            continue;
        }
        let sizes = vec![3000; routine.record().signature.sizes.len()];
        let problem = problem(routine, Side::Right, &sizes);
        for machine in [&h200(2), &machine] {
            let found = predict(machine, &cold(&problem));
            let on = found.on_devices.expect("devices");
            assert!(found.host_s > 0.0 && on.choice.seconds.is_finite());
            assert!(on.choice.seconds > 0.0, "{routine:?}");
            assert!(on.timed.is_some(), "{routine:?}");
            assert_eq!(on.said.len(), CLOSED_FORMS.len() + 1);
        }
    }
}

#[test]
fn operands_that_exceed_the_memory_are_planned_in_blocks() {
    let problem = problem(Routine::Gemm, Side::Left, &[16384, 16384, 16384]);
    let small = Machine {
        memory: vec![3 << 30],
        ..h200(1)
    };
    let found = predict(&small, &cold(&problem))
        .on_devices
        .expect("a device");
    let timed = found.timed.as_ref().expect("room");
    assert!(found.by_timeline && !timed.schedule.drops.is_empty());
    assert!(timed.schedule.bytes_in > 3.0 * f64::from(1 << 30));
    let large = predict(&h200(1), &cold(&problem))
        .on_devices
        .expect("a device");
    assert!(found.choice.seconds > large.choice.seconds);
}

#[test]
fn no_device_is_the_host() {
    let problem = problem(Routine::Gemm, Side::Left, &[4096, 4096, 4096]);
    let found = predict(&h200(0), &cold(&problem));
    assert_eq!(found.decision, Decision::Host(decide::Reason::NoDevice));
    assert_eq!(found.on_devices, None);
}

/// A cache with nothing on its devices decides as predicted, and expects the same time: on each modelled machine, for operands in
/// memory that it does not keep. Such results are read back, and nothing has to be page-locked.
#[test]
fn a_process_decides_as_predicted() {
    use crate::base::config::{Config, Devices, SimMachine as Which};
    use crate::blas::checks::{self, Group};
    use crate::blas::offload;
    use crate::cache::Cache;
    use crate::device::sim::{SimConfig, SimMachine};
    use crate::protect::WriteThroughGate;
    for name in crate::topology::NAMES {
        let simulated = SimConfig::preset(name).expect("a preset");
        let (links, count) = (simulated.links(), simulated.devices);
        let memory = simulated.memory;
        let sim: &'static SimMachine =
            Box::leak(Box::new(SimMachine::new(simulated).expect("a machine")));
        let cache: &'static Cache =
            Box::leak(Box::new(Cache::new(sim, &WriteThroughGate, 4096, 4096)));
        let config = Config {
            devices: Devices::Sim(Which::Preset(name.into())),
            ..Config::default()
        };
        let policy = Policy::new(&config, Some(sim), 16, None);
        let machine = Machine {
            rates: policy.rates(),
            links,
            memory: vec![memory; count],
        };
        for (routine, sizes) in [
            (Routine::Gemm, &[12_000, 12_000, 12_000][..]),
            (Routine::Gemm, &[30_000, 30_000, 30_000]),
            (Routine::Gemm, &[200, 200, 200]),
            (Routine::Syrk, &[9000, 3000]),
            (Routine::Trsm, &[5000, 7000]),
            (Routine::Gemv, &[9000, 3000]),
            (Routine::Axpy, &[1_000_000]),
        ] {
            let call = call(routine, Side::Left, sizes);
            let group = Group::single(&call, call_key::of(&call));
            let mut checks = checks::check(&group).expect("a legal call");
            for item in &mut checks.items {
                item.blocks = vec![None; item.places.len()];
            }
            let problem = checks.items[0].problem.clone();
            let host = HostHas {
                routine: true,
                door: true,
            };
            let found = predict(&machine, &cold(&problem));
            let decided = offload::decide(cache, &policy, 1, &mut checks.items, host);
            match (found.decision, decided) {
                (
                    Decision::Offload {
                        devices,
                        tile,
                        predicted_s,
                        ..
                    },
                    Ok(spread),
                ) => {
                    let of = (devices, tile, predicted_s);
                    assert_eq!(of, (spread.devices, spread.tile, spread.whole_s), "{name}");
                }
                (Decision::Host(_), Err(_)) => {}
                (found, decided) => panic!("{name}, {routine:?}: {found:?}, {decided:?}"),
            }
        }
    }
}
