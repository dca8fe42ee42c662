//! Requests that a device refuses, and devices that are lost.

use super::*;

#[test]
fn capacity_is_honoured() {
    let m = machine(SimConfig {
        memory: 1 << 20,
        ..small(2)
    });
    assert_eq!(m.devices()[0].memory, 1 << 20);
    let full = DeviceError::OutOfMemory {
        device: D0,
        bytes: 1,
    };
    let a = m.alloc(D0, (1 << 20) - 256).expect("fits");
    assert_eq!(a % 256, 0);
    let b = m.alloc(D0, 200).expect("fits");
    assert_eq!(m.alloc(D0, 1), Err(full));
    m.alloc(D1, 1 << 20).expect("devices do not share");
    // SAFETY: no operation uses the block.
    unsafe { m.free(D0, b) };
    assert_eq!(m.alloc(D0, 256), Ok(b));
    assert!(matches!(
        m.alloc(D1, 1),
        Err(DeviceError::OutOfMemory { .. })
    ));
}

/// One fixed program on two devices; returns the error of the call that fails.
fn program(m: &SimMachine, x: &mut [f64], y: &mut [f64]) -> Result<(), DeviceError> {
    let bytes = x.len() * 8;
    let a = m.alloc(D0, bytes)?;
    let b = m.alloc(D1, bytes)?;
    let up = upload(m, D0, &[], addr(x), a, bytes)?;
    let k = scal(m, D0, &[up], x.len(), 2.0, a)?;
    let p = peer(m, D0, D1, &[k], a, b, bytes)?;
    let k = axpy(m, D1, &[p], x.len(), 1.0, b, b)?;
    let down = download(m, D1, &[k], b, addr(y), bytes)?;
    m.wait(down)
}

#[test]
fn a_refused_call_changes_nothing_and_may_be_repeated() {
    for late in [false, true] {
        for n in 1..=7 {
            let m = machine(SimConfig {
                fail: Some(Fail::Refuse(n)),
                late,
                ..small(2)
            });
            let mut x = vec![1.0f64; 100];
            let mut y = vec![-1.0f64; 100];
            let refused = program(&m, &mut x, &mut y);
            assert!(
                matches!(refused, Err(DeviceError::Refused { code: 0, .. })),
                "{n}: {refused:?}"
            );
            assert!(y.iter().all(|v| *v == -1.0));
            program(&m, &mut x, &mut y).expect("only one call was refused");
            assert!(y.iter().all(|v| *v == 4.0));
        }
        let m = machine(SimConfig {
            fail: Some(Fail::Refuse(3)),
            late,
            ..small(1)
        });
        let d = m.alloc(D0, 8).expect("first");
        let k = scal(&m, D0, &[], 1, 1.0, d).expect("second");
        assert!(scal(&m, D0, &[], 1, 1.0, d).is_err());
        let next = scal(&m, D0, &[k], 1, 1.0, d).expect("fourth");
        assert_eq!(next.seq, 2, "the refused call has no ticket");
    }
}

#[test]
fn every_second_launch_is_refused() {
    let m = machine(SimConfig {
        fail: Some(Fail::Launches(2)),
        ..small(1)
    });
    let d = m.alloc(D0, 8).expect("no launch");
    for _ in 0..3 {
        let k = scal(&m, D0, &[], 1, 1.0, d).expect("an odd one");
        m.wait(k).expect("no device is lost");
        let refused = scal(&m, D0, &[], 1, 1.0, d);
        assert!(matches!(refused, Err(DeviceError::Refused { code: 0, .. })));
    }
}

#[test]
fn a_lost_device_never_hangs_anybody() {
    for late in [false, true] {
        for seed in [0, 3] {
            for n in 1..=8 {
                let m = machine(SimConfig {
                    fail: Some(Fail::Lost(n)),
                    late,
                    seed,
                    ..small(2)
                });
                let mut x = vec![1.0f64; 100];
                let mut y = vec![-1.0f64; 100];
                let result = program(&m, &mut x, &mut y);
                if n == 8 {
                    assert_eq!(result, Ok(()));
                } else {
                    let device = if [2, 5, 6, 7].contains(&n) { D1 } else { D0 };
                    assert_eq!(result, Err(DeviceError::Lost { device }), "{n}");
                    assert_eq!(m.alloc(device, 8), Err(DeviceError::Lost { device }));
                    // The other device still works.
                    let other = DeviceId(1 - device.0);
                    let b = m.alloc(other, 8).expect("alloc");
                    let k = scal(&m, other, &[], 1, 1.0, b).expect("launch");
                    assert_eq!(m.wait(k), Ok(()));
                }
            }
        }
    }
}

#[test]
fn loss_travels_along_tickets_and_streams() {
    // In late mode all operations are still queued when the tenth call loses the device.
    let m = machine(SimConfig {
        fail: Some(Fail::Lost(10)),
        ..late(3)
    });
    let (a, b, c) = (
        m.alloc(D0, 8).expect("a"),
        m.alloc(D1, 8).expect("b"),
        m.alloc(D2, 8).expect("c"),
    );
    let finished = scal(&m, D0, &[], 1, 1.0, a).expect("4");
    m.wait(finished).expect("done before the loss");
    let early = scal(&m, D1, &[], 1, 1.0, b).expect("5");
    let doomed = scal(&m, D0, &[], 1, 1.0, a).expect("6");
    let victim = scal(&m, D1, &[doomed], 1, 1.0, b).expect("7");
    let behind = scal(&m, D1, &[], 1, 1.0, b).expect("8");
    let far = peer(&m, D1, D2, &[behind], b, c, 8).expect("9");
    let lost = DeviceError::Lost { device: D0 };
    assert_eq!(scal(&m, D0, &[], 1, 1.0, a), Err(lost));
    assert_eq!(m.wait(finished), Ok(()));
    for t in [doomed, victim, behind, far] {
        assert_eq!(m.wait(t), Err(lost));
        assert_eq!(m.done(t), Err(lost));
    }
    assert_eq!(m.wait(early), Ok(()), "queued before, independent");
    assert_eq!(
        scal(&m, D2, &[far], 1, 1.0, c),
        Err(lost),
        "naming a failed ticket"
    );
    assert_eq!(
        peer(&m, D0, D2, &[], a, c, 8),
        Err(lost),
        "reading a lost device"
    );
    let again = scal(&m, D1, &[early], 1, 1.0, b).expect("living devices go on");
    assert_eq!(m.wait(again), Ok(()));
    let up = peer(&m, D1, D2, &[again], b, c, 8).expect("and their streams");
    assert_eq!(m.wait(up), Ok(()));
}

/// Many threads wait on tickets that fail when their device is lost, while an upload executes: that upload completes.
#[test]
fn waiters_are_released_by_a_loss() {
    // A worker that does not get a CPU in time has not begun the second upload when the device is lost.
    assert!((0..50).any(|_| lose_under_waiters() > 1));
}

/// Loses a device under waiting threads; returns how many uploads completed.
fn lose_under_waiters() -> usize {
    const UPLOADS: usize = 60;
    let m = machine(SimConfig {
        link_gbs: Some(0.001),
        // The call after the allocation and the uploads.
        fail: Some(Fail::Lost(UPLOADS as u64 + 2)),
        ..small(1)
    });
    let d = m.alloc(D0, 100_000).expect("alloc");
    let mut x = vec![1.0f64; 12_500];
    let from = addr(&mut x);
    // Each upload takes 100 ms.
    let ups: Vec<Ticket> = (0..UPLOADS)
        .map(|_| upload(&m, D0, &[], from, d, 100_000).expect("upload"))
        .collect();
    std::thread::scope(|s| {
        let waits: Vec<_> = ups.iter().map(|t| s.spawn(|| m.wait(*t))).collect();
        m.wait(ups[0]).expect("upload");
        std::thread::sleep(Duration::from_millis(10));
        assert!(scal(&m, D0, &[], 1, 1.0, d).is_err());
        let results: Vec<_> = waits
            .into_iter()
            .map(|w| w.join().expect("no panic"))
            .collect();
        let lost = Err(DeviceError::Lost { device: D0 });
        let completed = results.iter().take_while(|r| r.is_ok()).count();
        assert!(completed < UPLOADS, "none was lost");
        assert!(results[completed..].iter().all(|r| *r == lost));
        completed
    })
}

#[test]
fn nonsense_is_refused() {
    let m = machine(small(1));
    let d = m.alloc(D0, 64).expect("alloc");
    let mut x = [0.0f64; 8];
    let refused = |what| {
        Err(DeviceError::Refused {
            device: D0,
            what,
            code: BAD_ADDRESS,
        })
    };
    assert_eq!(upload(&m, D0, &[], addr(&mut x), d, 257), refused("copy"));
    assert_eq!(download(&m, D0, &[], addr(&mut x), d, 8), refused("copy"));
    assert_eq!(scal(&m, D0, &[], 8, 1.0, addr(&mut x)), refused("launch"));
    let never = Ticket {
        device: D0,
        lane: Lane::In,
        seq: 1,
    };
    assert!(matches!(
        m.wait(never),
        Err(DeviceError::Refused { what: "ticket", .. })
    ));
    assert!(m.done(never).is_err());
    assert!(scal(&m, D0, &[never], 8, 1.0, d).is_err());
    let nowhere = Ticket {
        device: DeviceId(9),
        ..never
    };
    assert!(m.wait(nowhere).is_err());
    assert!(m.alloc(DeviceId(9), 1).is_err());
    assert!(scal(&m, DeviceId(9), &[], 1, 1.0, d).is_err());
    // SAFETY: no operation uses the block.
    unsafe { m.free(D0, d) };
    assert_eq!(scal(&m, D0, &[], 8, 1.0, d), refused("launch"));
    assert_eq!(SimMachine::new(small(0)).err(), Some(SimError::Devices(0)));
    assert_eq!(
        SimMachine::new(small(65)).err(),
        Some(SimError::Devices(65))
    );
}
