//! Random operations on several threads.

use super::*;

/// Four threads, three devices, a chain of operations per slot with dependencies across slots and devices, against the
/// same operations executed in order. The tickets of a slot's owner keep its history.
fn stress(seed: u64, late: bool) {
    const SLOTS: usize = 12;
    const STEPS: usize = 60;
    const N: usize = 9;
    let m = machine(SimConfig {
        seed,
        late,
        poison: seed.is_multiple_of(3),
        ..small(3)
    });
    let bytes = N * 8;
    struct Slot {
        device: DeviceId,
        addr: u64,
        host: Vec<f64>,
        want: Vec<f64>,
        writer: Option<Ticket>,
        readers: Vec<Ticket>,
    }
    let slots: Vec<Mutex<Slot>> = (0..SLOTS)
        .map(|i| {
            let device = DeviceId((i % 3) as u8);
            let addr = m.alloc(device, bytes).expect("alloc");
            let host: Vec<f64> = (0..N).map(|j| (i * N + j) as f64).collect();
            let want = host.clone();
            Mutex::new(Slot {
                device,
                addr,
                host,
                want,
                writer: None,
                readers: Vec::new(),
            })
        })
        .collect();
    for slot in &slots {
        let mut s = slot.lock().expect("lock");
        let from = s.host.as_mut_ptr().expose_provenance() as u64;
        s.writer = Some(upload(&m, s.device, &[], from, s.addr, bytes).expect("upload"));
    }
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (slots, m) = (&slots, &m);
            scope.spawn(move || {
                let mut state = seed * 1000 + thread + 1;
                let mut roll = move |n: usize| {
                    state = state
                        .wrapping_mul(6364136223846793005)
                        .wrapping_add(1442695040888963407);
                    (state >> 33) as usize % n
                };
                for _ in 0..STEPS {
                    let (a, b) = (roll(SLOTS), roll(SLOTS));
                    if a == b {
                        continue;
                    }
                    // Locks are taken in index order, which is the simulated program order.
                    let (low, high) = (a.min(b), a.max(b));
                    let first = slots[low].lock().expect("lock");
                    let second = slots[high].lock().expect("lock");
                    let (mut x, mut y) = if a < b {
                        (first, second)
                    } else {
                        (second, first)
                    };
                    let mut after: Vec<Ticket> =
                        x.writer.iter().chain(&y.writer).copied().collect();
                    after.extend(&y.readers);
                    let same = x.device == y.device;
                    match roll(4) {
                        0 if same => {
                            let t =
                                axpy(m, y.device, &after, N, 1.0, x.addr, y.addr).expect("axpy");
                            let add = x.want.clone();
                            y.want.iter_mut().zip(add).for_each(|(y, x)| *y += x);
                            x.readers.push(t);
                            (y.writer, y.readers) = (Some(t), Vec::new());
                        }
                        1 => {
                            let t = scal(m, y.device, &after, N, -1.0, y.addr).expect("scal");
                            y.want.iter_mut().for_each(|y| *y = -*y);
                            (y.writer, y.readers) = (Some(t), Vec::new());
                        }
                        2 => {
                            // Download, read, change on the CPU, upload.
                            let to = y.host.as_mut_ptr().expose_provenance() as u64;
                            let t =
                                download(m, y.device, &after, y.addr, to, bytes).expect("download");
                            m.wait(t).expect("wait");
                            assert_eq!(y.host, y.want, "seed {seed} late {late}");
                            y.host[0] = 1.0;
                            y.want[0] = 1.0;
                            let t = upload(m, y.device, &[t], to, y.addr, bytes).expect("upload");
                            (y.writer, y.readers) = (Some(t), Vec::new());
                        }
                        _ => {
                            let t = peer(m, x.device, y.device, &after, x.addr, y.addr, bytes)
                                .expect("peer");
                            y.want = x.want.clone();
                            x.readers.push(t);
                            (y.writer, y.readers) = (Some(t), Vec::new());
                        }
                    }
                }
            });
        }
    });
    for slot in &slots {
        let mut s = slot.lock().expect("lock");
        let after: Vec<Ticket> = s.writer.into_iter().collect();
        let to = s.host.as_mut_ptr().expose_provenance() as u64;
        let t = download(&m, s.device, &after, s.addr, to, bytes).expect("download");
        m.wait(t).expect("wait");
        assert_eq!(s.host, s.want, "seed {seed} late {late}");
    }
}

#[test]
fn random_programs_of_four_threads_are_exact() {
    for seed in 0..12 {
        stress(seed, false);
        stress(seed, true);
    }
}

/// Random operations with a device lost in the middle: every wait of every thread returns, and if a ticket is done, so
/// are all tickets that its operation named.
#[test]
fn random_programs_survive_a_loss() {
    for seed in 0..20u64 {
        let fail = Some(Fail::Lost(10 + seed * 7));
        let m = machine(SimConfig {
            seed,
            late: !seed.is_multiple_of(2),
            fail,
            ..small(3)
        });
        let mut host = vec![0.0f64; 64];
        let home = addr(&mut host);
        let blocks: Vec<u64> = (0..3)
            .map(|d| m.alloc(DeviceId(d), 512).expect("alloc"))
            .collect();
        let all = Mutex::new(Vec::<(Ticket, Vec<Ticket>)>::new());
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (m, all, blocks) = (&m, &all, &blocks);
                scope.spawn(move || {
                    let mut state = seed * 977 + thread;
                    let mut roll = move |n: usize| {
                        state = state
                            .wrapping_mul(6364136223846793005)
                            .wrapping_add(1442695040888963407);
                        (state >> 33) as usize % n
                    };
                    for _ in 0..60 {
                        let d = roll(3);
                        let device = DeviceId(d as u8);
                        let after: Vec<Ticket> = {
                            let all = all.lock().expect("lock");
                            (0..roll(3))
                                .filter_map(|_| all.get(roll(all.len().max(1))))
                                .map(|t| t.0)
                                .collect()
                        };
                        // Different threads use different parts of a block: the test is about tickets, not bytes.
                        let at = blocks[d] + thread * 128;
                        let result = match roll(4) {
                            0 => upload(m, device, &after, home + thread * 128, at, 64),
                            1 => scal(m, device, &after, 8, 1.0, at),
                            2 => peer(
                                m,
                                DeviceId(((d + 1) % 3) as u8),
                                device,
                                &after,
                                blocks[(d + 1) % 3] + thread * 128,
                                at + 64,
                                64,
                            ),
                            _ => download(m, device, &after, at, home + thread * 128, 64),
                        };
                        match result {
                            Ok(t) => {
                                all.lock().expect("lock").push((t, after));
                                if roll(4) == 0 {
                                    let _ = m.wait(t);
                                }
                            }
                            Err(e) => assert!(matches!(e, DeviceError::Lost { .. }), "{e}"),
                        }
                    }
                });
            }
        });
        for (t, after) in all.lock().expect("lock").iter() {
            match m.wait(*t) {
                Ok(()) => assert!(after.iter().all(|t| m.done(*t) == Ok(true))),
                Err(e) => {
                    assert!(matches!(e, DeviceError::Lost { .. }), "{e}");
                    assert!(m.done(*t).is_err());
                }
            }
        }
    }
}
