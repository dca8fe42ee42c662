//! Copies between host and device memory.

use super::*;

#[test]
fn a_vector_is_uploaded_and_written_back() {
    let m = machine(small(1));
    let mut x = vec![1.0f64, 2.0, 3.0];
    let mut y = vec![0.0f64; 3];
    let d = m.alloc(D0, 24).expect("alloc");
    let up = upload(&m, D0, &[], addr(&mut x), d, 24).expect("upload");
    let k = scal(&m, D0, &[up], 3, 2.0, d).expect("launch");
    let down = download(&m, D0, &[k], d, addr(&mut y), 24).expect("download");
    m.wait(down).expect("wait");
    assert_eq!(y, [2.0, 4.0, 6.0]);
    assert_eq!(m.done(up), Ok(true));
    assert_eq!(
        (up.seq, up.lane, k.lane, down.lane),
        (1, Lane::In, Lane::Compute, Lane::Out)
    );
}

#[test]
fn closed_pages_are_read_and_written_in_place() {
    let m = machine(small(1));
    let mut pages = Pages::new(5);
    let len = pages.len;
    for (i, b) in pages.bytes().iter_mut().enumerate() {
        *b = (i % 251) as u8;
    }
    pages.close();
    let d = m.alloc(D0, len).expect("alloc");
    let up = upload(&m, D0, &[], pages.addr(), d, len).expect("upload");
    // Downloads the bytes one byte further, across page ends.
    let down = download(&m, D0, &[up], d, pages.addr() + 1, len - 1).expect("download");
    m.wait(down).expect("wait");
    pages.protect(ProtFlags::PROT_READ);
    let down = download(&m, D0, &[], d + 3, pages.addr() + 3, 1).expect("download");
    m.wait(down).expect("read-only pages too");
    pages.open();
    let got = pages.bytes().to_vec();
    for (i, b) in got.iter().enumerate() {
        let from = if i == 0 || i == 3 { i } else { i - 1 };
        assert_eq!(*b, (from % 251) as u8, "{i}");
    }
}

/// Strided copies in both directions: all combinations of dense and strided regions, narrow and wide runs.
#[test]
fn strided_copies_move_runs_and_nothing_else() {
    let m = machine(small(1));
    let shapes = [
        (8, 5),
        (8, 1),
        (1, 7),
        (24, 300),
        (4096, 3),
        (40_000, 3),
        (0, 4),
        (4, 0),
        (16, 1000),
    ];
    for (width, count) in shapes {
        for host_gap in [0, 1, 8, 3 * width + 5, 5000] {
            for dev_gap in [0, 16, 700] {
                let shape = Shape { width, count };
                let (hp, dp) = (width + host_gap, width + dev_gap);
                let mut from: Vec<u8> = (0..hp * count + 1).map(|i| (i * 7 % 253) as u8).collect();
                let mut to = vec![0xAAu8; hp * count + 1];
                let block = m.alloc(D0, dp * count + 1).expect("alloc");
                let dev = Region {
                    addr: block,
                    pitch: dp,
                };
                let src = Region {
                    addr: addr(&mut from),
                    pitch: hp,
                };
                let dst = Region {
                    addr: addr(&mut to),
                    pitch: hp,
                };
                // SAFETY: the buffers outlive the wait.
                let down = unsafe {
                    let up = m.upload(D0, &[], &[], src, dev, shape).expect("upload");
                    m.download(D0, &[up], dev, dst, shape).expect("download")
                };
                m.wait(down).expect("wait");
                for (i, b) in to.iter().enumerate() {
                    let inside = hp > 0 && i / hp < count && i % hp < width;
                    let want = if inside { from[i] } else { 0xAA };
                    assert_eq!(
                        *b, want,
                        "byte {i} of {width} x {count} gaps {host_gap} {dev_gap}"
                    );
                }
                // SAFETY: all operations on it are done.
                unsafe { m.free(D0, block) };
            }
        }
    }
}

/// A gap between two runs that is not mapped: the runs still arrive.
#[test]
fn unmapped_gaps_do_not_matter() {
    let m = machine(small(1));
    let mut pages = Pages::new(3);
    let page = page_size();
    pages.bytes()[page - 8..page].fill(1);
    pages.bytes()[2 * page..2 * page + 8].fill(2);
    // SAFETY: the middle page is this test's and unused; from here on no code unmaps it a second time.
    unsafe { munmap(pages.at.byte_add(page), page) }.expect("unmap");
    let d = m.alloc(D0, 16).expect("alloc");
    let src = Region {
        addr: pages.addr() + page as u64 - 8,
        pitch: page + 8,
    };
    let mut got = [0u8; 16];
    // SAFETY: the runs are mapped until the wait.
    let up = unsafe {
        m.upload(
            D0,
            &[],
            &[],
            src,
            Region { addr: d, pitch: 8 },
            Shape { width: 8, count: 2 },
        )
    }
    .expect("upload");
    m.wait(download(&m, D0, &[up], d, addr(&mut got), 16).expect("download"))
        .expect("wait");
    assert_eq!(got, [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]);
    // SAFETY: the outer pages are this test's; `Pages` must not unmap the middle one, which another thread may have
    // mapped again.
    unsafe {
        munmap(pages.at, page).expect("unmap");
        munmap(pages.at.byte_add(2 * page), page).expect("unmap");
    }
    core::mem::forget(pages);
}

#[test]
fn a_copy_of_unmapped_memory_fails_alone() {
    for late in [false, true] {
        let m = machine(SimConfig { late, ..small(1) });
        let page = page_size();
        let pages = Pages::new(3);
        let mut got = vec![0u8; 3 * page];
        let bytes = got.len();
        let d = m.alloc(D0, bytes).expect("alloc");
        got.fill(7);
        let up = upload(&m, D0, &[], addr(&mut got), d, bytes).expect("upload");
        // A copy that was queued before the unmapping has the bytes that were mapped then.
        let read = upload(&m, D0, &[up], pages.addr(), d, 8).expect("upload");
        // SAFETY: the middle page is this test's and unused.
        unsafe { munmap(pages.at.byte_add(page), page) }.expect("unmap");
        assert_eq!(
            upload(&m, D0, &[read], pages.addr(), d, bytes),
            Err(DeviceError::Unreadable { device: D0 })
        );
        let down = download(&m, D0, &[read], d, pages.addr(), bytes).expect("download");
        m.wait(down).expect("the device goes on");
        // The mapped pages have been written; the bytes of the unmapped one are kept as undelivered.
        let rect = |at: usize| {
            let start = usize::try_from(pages.addr()).expect("an address") + at;
            crate::base::Rect::interval(start, start + page)
        };
        use crate::device::api::undelivered::take;
        assert!(take(&rect(0)).is_empty() && take(&rect(2 * page)).is_empty());
        let last = download(&m, D0, &[], d, addr(&mut got), bytes).expect("download");
        got.fill(0);
        m.wait(last).expect("wait");
        assert!(got[8..].iter().all(|b| *b == 7));
        assert_eq!(take(&rect(page)).len(), 1);
        // SAFETY: the outer pages are this test's; `Pages` must not unmap the middle one, which another thread may have
        // mapped again.
        unsafe {
            assert!(
                core::slice::from_raw_parts(
                    pages.at.byte_add(2 * page).cast::<u8>().as_ptr(),
                    page
                ) == &got[2 * page..]
            );
            munmap(pages.at, page).expect("unmap");
            munmap(pages.at.byte_add(2 * page), page).expect("unmap");
        }
        core::mem::forget(pages);
    }
}

/// An upload is queued in pieces. If a later piece cannot be read, the pieces before it are complete when the upload fails:
/// no ticket names them, so no other stream could be ordered behind them.
#[test]
fn an_upload_that_fails_leaves_nothing_in_flight() {
    let m = machine(SimConfig {
        memory: 32 << 20,
        ..late(2)
    });
    const PIECE: usize = staged::PIECE;
    let mut fives = vec![5u8; PIECE];
    let [there, other] = [D0, D1].map(|d| m.alloc(d, 2 * PIECE).expect("alloc"));
    // The second piece begins where the addresses of processes end.
    let from = addr(&mut fives);
    let (pitch, count) = ((1 << 47) - usize::try_from(from).expect("an address"), 2);
    let (src, dst) = (Region { addr: from, pitch }, run_of(there, PIECE).0);
    let shape = Shape {
        width: PIECE,
        count,
    };
    // SAFETY: the machine only tries to read.
    let failed = unsafe { m.upload(D0, &[], &[], src, dst, shape) };
    assert_eq!(failed, Err(DeviceError::Unreadable { device: D0 }));
    let mut nines = [9u8; 8];
    let up = upload(&m, D1, &[], addr(&mut nines), other, 8).expect("upload");
    let across = peer(&m, D1, D0, &[up], other, there, 8).expect("peer");
    m.wait(across).expect("wait");
    // Executes what is queued for uploads on the device, if anything is.
    let later = upload(&m, D0, &[], addr(&mut nines), there + 16, 8).expect("upload");
    let mut got = [0u8; 8];
    let down = download(&m, D0, &[later], there, addr(&mut got), 8).expect("download");
    m.wait(down).expect("wait");
    assert_eq!(got, nines);
}
