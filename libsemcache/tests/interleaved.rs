//! Calls of several threads in one block, and what the CPU does meanwhile, in one exact order each: one thread calls the
//! cache's functions as the calls of several threads would. In late mode the device executes an operation only when some
//! thread waits for it, so a copy that nobody waited for shows in the data.
//!
//! Each scenario runs in a process of its own under each configuration. Data are small integers.
#![expect(clippy::unwrap_used, reason = "a test program of its own")]
#![expect(
    unsafe_code,
    reason = "plays an unmodified program: raw memory, raw addresses"
)]

#[path = "push/block.rs"]
mod block;

use block::{Block, run};
use semcache::base::kernel::{Kernel, Operand};
use semcache::base::{DeviceId, Dtype, Intent, Interval, Rect, Routine, Value};
use semcache::blas::{Call, Outcome};
use semcache::cache::Cache;
use semcache::cache::room::Room;
use semcache::cache::task::Use;
use semcache::host::{self, heap};
use semcache::runtime::{self, Facts};
use testkit::runner::{self, Case};

const TWO: Value = Value { re: 2.0, im: 0.0 };

fn cache() -> &'static Cache {
    runtime::get().and_then(|r| r.cache).unwrap()
}

/// Elements of a block.
fn elements(from: usize, to: usize) -> Rect {
    Rect::from(Interval::new(from * 8, to * 8))
}

/// Bytes of a block as an operand.
fn operand(block: &Block, view: Rect, access: Intent) -> Use {
    let found = host::find(block.addr()).unwrap();
    let step = if view.count == 1 { 8 } else { view.stride };
    Use {
        id: found.id,
        base: found.start,
        view,
        footprint: view,
        access,
        touched: Vec::new(),
        size: 8,
        step: isize::try_from(step / 8).unwrap(),
    }
}

/// The begin of a call: what is expected of its operands, and its kernel.
fn begin(operands: &[Use], kernel: &dyn Fn(&[Operand]) -> Kernel) {
    let cache = cache();
    cache.expect(cache.number(), operands, None);
    let room = Room::Whole { flat: true };
    cache.queue(DeviceId(0), operands, room, kernel).unwrap();
}

/// The begin of `x := 2 x`.
fn begin_doubling(x: &Use) {
    let m = x.view.bytes() / 8;
    begin(std::slice::from_ref(x), &|at| Kernel {
        m,
        alpha: TWO,
        ..Kernel::of(Routine::Scal, Dtype::D, [at[0]])
    });
}

/// The begin of `y := x`.
fn begin_copying(x: Use, y: Use) -> [Use; 2] {
    let m = x.view.bytes() / 8;
    let both = [x, y];
    begin(&both, &|at| Kernel {
        m,
        ..Kernel::of(Routine::Copy, Dtype::D, [at[0], at[1]])
    });
    both
}

/// The end of a call.
fn end(operands: &[Use]) {
    let (pending, settled) = cache().settle(operands.iter(), &[]);
    settled.unwrap();
    cache().arrive(&pending).unwrap();
}

/// The begin of a call that reads these bytes: it announces them, and has uploaded nothing yet.
fn announce(block: &Block, view: Rect) {
    let all = operand(block, view, Intent::Read);
    cache().expect(cache().number(), std::slice::from_ref(&all), None);
}

/// Another thread's call out of core evicts all replicas of the block.
fn evict(block: &Block) {
    let id = host::find(block.addr()).unwrap().id;
    let held = cache().make_room(DeviceId(0), 4096, &|_, _| false, &|o| o.alloc != id);
    assert!(held.is_ok());
}

/// A whole call `x := 2 x`.
fn double(x: &mut Block) {
    let n = i64::try_from(x.want.len()).unwrap();
    let call = Call::new(Routine::Scal, Dtype::D, &[n], &[(x.addr(), 1)]);
    run(&Call { alpha: TWO, ..call });
    x.want.iter_mut().for_each(|v| *v *= 2.0);
}

/// A whole call that adds up magnitudes, on a device.
fn sum(x: &Block, from: usize, to: usize, what: &str) {
    let n = i64::try_from(to - from).unwrap();
    let call = Call::new(Routine::Asum, Dtype::D, &[n], &[(x.addr() + from * 8, 1)]);
    let want: f64 = x.want[from..to].iter().map(|v| v.abs()).sum();
    match runtime::call(&call, &Facts::default()) {
        Outcome::Done(got) => assert!(got.re == want, "{what}: {}, not {want}", got.re),
        other => panic!("{what}: {other:?}"),
    }
}

/// A result is evicted, and its pages stay inaccessible while it is copied to the host. A small operand shares the first
/// page, which is write-tracked for that. A call that uses all of the page makes it accessible: by then the copies to this
/// page have arrived.
fn reopened() {
    let [mut small, mut between, mut a] = [512, 512, 3 * 512].map(|n| Block::new(n, 1));
    double(&mut small);
    double(&mut between);
    double(&mut a);
    // Device memory for the small operand, which waits for no copy of the result.
    small.check("small");
    // SAFETY: from `heap::malloc`, not used again.
    unsafe { heap::free(small.at.cast()) };
    let id = host::find(a.addr()).unwrap().id;
    for piece in [elements(0, 100), elements(100, 512)] {
        assert!(cache().send_piece(id, &piece));
    }
    evict(&a);
    sum(&a, 10, 50, "reopened");
    announce(&a, elements(0, 3 * 512));
    a.check("reopened");
}

/// As `reopened`, with an input: a call has returned whose upload is in flight, since the page was inaccessible. Once the page
/// is accessible, the CPU may write.
fn unread() {
    let [mut small, mut between, mut z, mut y, mut a] =
        [512, 512, 512, 3 * 512, 3 * 512].map(|n| Block::new(n, 1));
    for x in [&mut small, &mut between, &mut z, &mut y, &mut a] {
        double(x);
    }
    evict(&a);
    let n = i64::try_from(a.want.len()).unwrap();
    let operands = [(a.addr(), 1), (y.addr(), 1)];
    run(&Call::new(Routine::Copy, Dtype::D, &[n], &operands));
    y.want.clone_from(&a.want);
    evict(&a);
    begin_copying(
        operand(&a, elements(10, 50), Intent::Read),
        operand(&z, elements(0, 40), Intent::Overwrite),
    );
    announce(&a, Rect::new(0, 80, 8192, 2));
    a.set(100, 42.0);
    y.check("the copy");
    a.check("what was copied");
}

/// Another thread changes its vector on the page of a result, uses it on a device, and changes it back, all while the call
/// runs: the page looks as before the call, but replicas hold the other value.
fn changed_back() {
    let mut a = Block::new(3 * 512, 1);
    a.set(20, 1.0);
    sum(&a, 10, 50, "first");
    let r = operand(&a, elements(100, 200), Intent::Update);
    begin_doubling(&r);
    let (pending, settled) = cache().settle(std::iter::once(&r), &[]);
    settled.unwrap();
    a.set(20, 5.0);
    sum(&a, 10, 50, "changed");
    a.set(20, 1.0);
    cache().arrive(&pending).unwrap();
    a.want[100..200].iter_mut().for_each(|v| *v *= 2.0);
    sum(&a, 10, 50, "changed back");
    a.check("changed back");
}

/// While a call runs, its result on a shared page is evicted, and another thread's call announces a matrix that has the page
/// between two columns. The page is accessible: the call waits for the copy before it returns.
fn covered() {
    let mut a = Block::new(8 * 512, 1);
    sum(&a, 612, 712, "start");
    let r = operand(&a, elements(612, 712), Intent::Update);
    begin_doubling(&r);
    evict(&a);
    announce(&a, Rect::new(0, 4096, 8192, 4));
    end(std::slice::from_ref(&r));
    a.want[612..712].iter_mut().for_each(|v| *v *= 2.0);
    a.check("covered");
}

/// As `covered`, with an input on pages that cannot be write-tracked: after the call the CPU may write it.
fn covered_input() {
    let (mut a, mut z) = (Block::new(8 * 512, 1), Block::new(912, 2));
    double(&mut z);
    sum(&a, 612, 712, "start");
    let both = begin_copying(
        operand(&a, elements(612, 1012), Intent::Read),
        operand(&z, elements(512, 912), Intent::Overwrite),
    );
    evict(&a);
    announce(&a, Rect::new(0, 4096, 8192, 4));
    end(&both);
    z.want[512..].copy_from_slice(&a.want[612..1012]);
    a.set(700, 42.0);
    z.check("covered");
}

/// A launch is refused after a page was protected that had been write-tracked: it is write-tracked again, so that later writes
/// are noticed.
fn refused() {
    let (mut a, mut other) = (Block::new(3 * 512, 1), Block::new(512, 2));
    for _ in 0..3 {
        double(&mut other);
    }
    sum(&a, 10, 50, "first");
    a.set(20, 3.0);
    // The fifth launch.
    let call = Call::new(Routine::Scal, Dtype::D, &[1400], &[(a.addr(), 1)]);
    let host = runtime::call(&Call { alpha: TWO, ..call }, &Facts::default());
    assert!(matches!(host, Outcome::Host));
    for i in 0..1400 {
        a.set(i, a.get(i) * 2.0);
    }
    sum(&a, 10, 50, "after the refusal");
    a.set(20, 9.0);
    sum(&a, 10, 50, "changed");
}

const SCENARIOS: [(&str, &str, fn()); 6] = [
    ("reopened", "wp-async", reopened),
    ("unread", "wp-async", unread),
    ("changed_back", "auto", changed_back),
    ("covered", "auto", covered),
    ("covered_input", "mprotect", covered_input),
    ("refused", "auto", refused),
];

fn main() {
    let mut cases = Vec::new();
    for (name, gate, body) in SCENARIOS {
        for mode in ["", "late", "poison", "late,poison"] {
            let process = move || {
                heap::configure(4096);
                body();
            };
            let fail = if name == "refused" {
                "fail=launches:5"
            } else {
                ""
            };
            let sim: Vec<&str> = [mode, fail].into_iter().filter(|s| !s.is_empty()).collect();
            let case = Case::new(format!("{name} '{mode}'"), process)
                .set("SEMCACHE_DEVICES", "sim:1")
                .set("SEMCACHE_MEMORY", "64MiB")
                .set("SEMCACHE_SIM", sim.join(","))
                .set("SEMCACHE_GATE", gate)
                .set("SEMCACHE_PANEL", "4KiB")
                .set("SEMCACHE_OFFLOAD", "always");
            cases.push(case);
        }
    }
    runner::main(cases, |_| ());
}
