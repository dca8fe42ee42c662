//! Streams and events.

use std::ptr::null_mut;

use crate::gpu::*;

/// A thread that queries again and again gets the answer that the operation is complete.
pub(super) unsafe fn polls() {
    unsafe {
        context(0);
        let (stream, event) = (stream(), event());
        let (device, host) = (alloc(64), pinned::<u8>(64));
        for _ in 0..3 {
            upload(device, host, stream);
            ok!(cu cuEventRecord(event, stream));
            while cu!(cuEventQuery(event)) == 600 {}
            ok!(cu cuEventQuery(event));
            upload(device, host, stream);
            while cu!(cuStreamQuery(stream)) == 600 {}
            ok!(cu cuStreamQuery(stream));
        }
    }
}

/// An event stands for the operations that were queued when it was recorded. In late mode no operation runs before a
/// thread waits for it.
pub(super) unsafe fn events() {
    unsafe {
        context(0);
        let (stream, other) = (stream(), stream());
        let (first, second, through) = (event(), event(), event());
        ok!(cu cuEventQuery(first));
        ok!(cu cuEventSynchronize(first));
        let (device, host) = (alloc(128 << 10), pinned::<u8>(64 << 10));
        upload(device, host, stream);
        ok!(cu cuEventRecord(first, stream));
        upload(device + 65_536, host, stream);
        ok!(cu cuEventRecord(second, stream));
        // If only a wait is queued in a stream, an event that is recorded behind it waits for the same operations.
        ok!(cu cuStreamWaitEvent(other, second, 0));
        ok!(cu cuEventRecord(through, other));
        assert_eq!(cu!(cuStreamQuery(other)), 600);
        assert_eq!(cu!(cuEventQuery(first)), 600);
        ok!(cu cuEventSynchronize(first));
        ok!(cu cuEventQuery(first));
        assert_eq!(cu!(cuEventQuery(second)), 600);
        assert_eq!(cu!(cuEventQuery(through)), 600);
        ok!(cu cuEventSynchronize(through));
        ok!(cu cuEventQuery(second));
        ok!(cu cuStreamQuery(stream));
        let mut time = -1.0;
        assert_eq!(
            cu!(cuEventElapsedTime_v2(&raw mut time, first, second)),
            400
        );
        ok!(cu cuEventDestroy_v2(first));
        assert_eq!(cu!(cuEventRecord(first, stream)), 400);
    }
}

/// The times of events: of the operations before them, and in which order statuses come.
pub(super) unsafe fn times() {
    unsafe {
        context(0);
        let timed = || {
            let mut event = null_mut();
            ok!(cu cuEventCreate(&raw mut event, 0));
            event
        };
        // The backend looks the first version up by its name.
        let elapsed = |from: Event, to: Event| {
            type Elapsed = unsafe extern "C" fn(*mut f32, Event, Event) -> i32;
            let f = cudarc::driver::sys::culib()
                .get::<Elapsed>(b"cuEventElapsedTime")
                .unwrap();
            let (mut first, mut second) = (f32::NAN, f32::NAN);
            let status = f(&raw mut first, from, to);
            assert_eq!(
                cu!(cuEventElapsedTime_v2(&raw mut second, from, to)),
                status
            );
            assert!(status != 0 || first == second);
            (status, first)
        };
        let (stream, other) = (stream(), stream());
        let (start, end, never, without) = (timed(), timed(), timed(), event());
        let (device, host) = (alloc(64 << 20), pinned::<u8>(64 << 20));
        let began = std::time::Instant::now();
        ok!(cu cuEventRecord(start, stream));
        upload(device, host, stream);
        ok!(cu cuEventRecord(end, stream));
        ok!(cu cuEventRecord(without, stream));
        assert_eq!(elapsed(start, end).0, 600);
        assert_eq!(elapsed(start, never).0, 400);
        assert_eq!(elapsed(never, start).0, 400);
        assert_eq!(elapsed(start, without).0, 400);
        assert_eq!(elapsed(start, start), (0, 0.0));
        synchronize(stream);
        let most = began.elapsed().as_secs_f32() * 1e3;
        let (status, took) = elapsed(start, end);
        // 64 MiB in less than a microsecond would be 64 TB/s.
        assert!(status == 0 && took > 1e-3 && took <= most, "{took} {most}");
        assert_eq!(elapsed(end, start), (0, -took));
        assert_eq!(elapsed(without, end).0, 400);
        // On a stream without operations an event is reached when it is recorded.
        let idle = timed();
        std::thread::sleep(std::time::Duration::from_millis(3));
        ok!(cu cuEventRecord(idle, other));
        let (status, later) = elapsed(end, idle);
        assert!(status == 0 && later >= 3.0, "{later}");
        ok!(cu cuEventDestroy_v2(idle));
        assert_eq!(elapsed(start, idle).0, 400);
    }
}

/// The null stream waits for blocking streams, and they for it.
pub(super) unsafe fn null_stream() {
    unsafe {
        context(0);
        let mut blocking = null_mut();
        ok!(cu cuStreamCreate(&raw mut blocking, 0));
        let (device, host) = (alloc(1 << 20), pinned::<u8>(1 << 20));
        host.fill(1);
        ok!(cu cuMemsetD8Async(device, 7, 1 << 20, null_mut()));
        upload(device, host, blocking);
        let home = pinned::<u8>(1 << 20);
        download(home, device, null_mut());
        synchronize(null_mut());
        assert!(home.iter().all(|v| *v == 1));
    }
}
