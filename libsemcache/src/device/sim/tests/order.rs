//! The order of operations: streams, tickets, and late mode, in which an operation runs when a thread waits for it.

use super::*;

#[test]
fn a_stream_keeps_its_order() {
    let m = machine(SimConfig {
        seed: 7,
        ..small(1)
    });
    let mut x = vec![1.0f64];
    let d = m.alloc(D0, 8).expect("alloc");
    let up = upload(&m, D0, &[], addr(&mut x), d, 8).expect("upload");
    let mut last = up;
    for i in 0..200 {
        let after = if i == 0 { vec![up] } else { vec![] };
        last = scal(
            &m,
            D0,
            &after,
            1,
            if i % 2 == 0 { 3.0 } else { 1.0 / 3.0 },
            d,
        )
        .expect("launch");
        if i % 2 == 1 {
            axpy(&m, D0, &[], 1, 1.0, d, d).expect("double it");
            last = scal(&m, D0, &[], 1, 0.5, d).expect("halve it");
        }
    }
    m.wait(download(&m, D0, &[last], d, addr(&mut x), 8).expect("download"))
        .expect("wait");
    assert!((x[0] - 1.0).abs() < 1e-12);
    assert_eq!(last.seq, 400);
}

#[test]
fn tickets_order_streams_of_different_devices() {
    for seed in 0..5 {
        let m = machine(SimConfig {
            seed,
            late: seed % 2 == 1,
            ..small(3)
        });
        let n = 64;
        let mut x: Vec<f64> = (0..n).map(|i| i as f64).collect();
        let blocks: Vec<u64> = [D0, D1, D2]
            .iter()
            .map(|d| m.alloc(*d, n * 8).expect("alloc"))
            .collect();
        let mut t = upload(&m, D0, &[], addr(&mut x), blocks[0], n * 8).expect("upload");
        for lap in 0..12 {
            let (from, to) = (lap % 3, (lap + 1) % 3);
            let (df, dt) = (DeviceId(from as u8), DeviceId(to as u8));
            t = scal(&m, df, &[t], n, 2.0, blocks[from]).expect("launch");
            t = peer(&m, df, dt, &[t], blocks[from], blocks[to], n * 8).expect("peer");
        }
        let mut y = vec![0.0f64; n];
        m.wait(download(&m, D0, &[t], blocks[0], addr(&mut y), n * 8).expect("download"))
            .expect("wait");
        assert!(y.iter().enumerate().all(|(i, v)| *v == i as f64 * 4096.0));
    }
}

#[test]
fn late_mode_touches_nothing_until_somebody_waits() {
    let m = machine(late(2));
    let mut x = vec![1.0f64];
    let mut y = vec![-1.0f64];
    let mut other = vec![-1.0f64];
    let d = m.alloc(D0, 16).expect("alloc");
    let e = m.alloc(D1, 8).expect("alloc");
    let up = upload(&m, D0, &[], addr(&mut x), d, 8).expect("upload");
    let k = scal(&m, D0, &[up], 1, 3.0, d).expect("launch");
    let p = peer(&m, D0, D1, &[k], d, e, 8).expect("peer");
    let down = download(&m, D1, &[p], e, addr(&mut y), 8).expect("download");
    let unrelated = download(&m, D0, &[up], d, addr(&mut other), 8).expect("download");
    std::thread::sleep(Duration::from_millis(20));
    for t in [up, k, p, down] {
        assert_eq!(m.done(t), Ok(false));
    }
    // The upload is executed only now: it reads the value written after it was queued.
    x[0] = 5.0;
    assert_eq!(y[0], -1.0);
    m.wait(down).expect("wait");
    assert_eq!(y[0], 15.0);
    for t in [up, k, p, down] {
        assert_eq!(m.done(t), Ok(true));
    }
    std::thread::sleep(Duration::from_millis(10));
    assert_eq!((m.done(unrelated), other[0]), (Ok(false), -1.0));
    // Stream order demands the operations before, even if no ticket names them.
    let mut z = vec![0.0f64];
    let after = download(&m, D0, &[], d, addr(&mut z), 8).expect("download");
    m.wait(after).expect("wait");
    assert_eq!((m.done(unrelated), other[0], z[0]), (Ok(true), 15.0, 15.0));
}

#[test]
fn an_upload_waits_on_the_host_only_for_downloads_of_the_bytes_that_it_reads() {
    let m = machine(late(1));
    let d = m.alloc(D0, 16).expect("alloc");
    let (mut x, mut y, mut z) = ([1.0], [2.0], [3.0]);
    let up = upload(&m, D0, &[], addr(&mut x), d, 8).expect("upload");
    let down = download(&m, D0, &[up], d, addr(&mut y), 8).expect("download");
    // It overwrites the device bytes that the download reads.
    let (src, shape) = run_of(addr(&mut z), 8);
    // SAFETY: the buffers live until the tickets are done.
    let over = unsafe { m.upload(D0, &[down], &[], src, run_of(d, 8).0, shape) }.expect("upload");
    assert_eq!((m.done(down), y[0]), (Ok(false), 2.0));
    let back = upload(&m, D0, &[down, over], addr(&mut y), d + 8, 8).expect("upload");
    assert_eq!((m.done(down), y[0]), (Ok(true), 1.0));
    let mut got = [0.0; 2];
    m.wait(download(&m, D0, &[back], d, addr(&mut got), 16).expect("download"))
        .expect("wait");
    assert_eq!(got, [3.0, 1.0]);
}

#[test]
fn late_mode_is_bounded() {
    let m = machine(late(1));
    let d = m.alloc(D0, 8).expect("alloc");
    let mut x = [1.0f64];
    let up = upload(&m, D0, &[], addr(&mut x), d, 8).expect("upload");
    let first = scal(&m, D0, &[up], 1, 1.0, d).expect("launch");
    let mut last = first;
    for _ in 0..queue::LATE_LIMIT + 100 {
        last = scal(&m, D0, &[], 1, 1.0, d).expect("launch");
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while m.done(first) != Ok(true) {
        assert!(Instant::now() < deadline, "the oldest runs by itself");
        std::thread::yield_now();
    }
    assert_eq!(m.done(last), Ok(false));
    m.wait(last).expect("wait");
}

/// Uploads and copies from peers have streams of their own: neither waits for the other.
#[test]
fn uploads_and_copies_from_peers_do_not_wait_for_each_other() {
    let m = machine(late(2));
    let mut x = vec![1.0f64; 64];
    let bytes = 64 * 8;
    let [a, b, c] = [D0, D1, D1].map(|d| m.alloc(d, bytes).expect("alloc"));
    for peer_first in [false, true] {
        let mut copies = [None; 2];
        for i in [usize::from(peer_first), usize::from(!peer_first)] {
            copies[i] = Some(match i {
                0 => upload(&m, D1, &[], addr(&mut x), c, bytes).expect("upload"),
                _ => peer(&m, D0, D1, &[], a, b, bytes).expect("peer"),
            });
        }
        let [up, across] = copies.map(|t| t.expect("queued"));
        let (first, second) = if peer_first {
            (across, up)
        } else {
            (up, across)
        };
        assert_eq!((up.lane, across.lane), (Lane::In, Lane::Peer));
        // In late mode an operation is executed only if it is waited for, and with it all before it in its stream.
        m.wait(second).expect("wait");
        assert_eq!((m.done(second), m.done(first)), (Ok(true), Ok(false)));
        m.wait(first).expect("wait");
    }
}
