//! The Rust entry points of the stubs: decides whether a BLAS call is offloaded or runs on the host BLAS.

#![expect(
    unsafe_code,
    reason = "frames and arguments arrive as raw pointers from the stubs"
)]

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use std::panic::catch_unwind;

use semcache::base::counters::WhyHost;
use semcache::base::{Routine, Solver};
use semcache::blas::Outcome;
use semcache::blas::batch::Batched;
use semcache::process::signals_blocked::SignalsBlocked;
use semcache::process::spent;
use semcache::runtime::copies;
use semcache::runtime::solver::solve;
use semcache::runtime::timed::{self, HostCall, Left};
use semcache_fault::cancel;

use crate::core::{self as runtime, Facts};
use crate::counts;
use crate::decode;
use crate::door::Door;
use crate::frame::{self, Frame};
use crate::hooks::real::with_errno_kept;
use crate::resolve;
use crate::script;
use crate::sites::{self, Barred, Binding, Returns};
use crate::substitute::{HostGemm, is_made_of_gemm};
use crate::symbols::{COUNT, Class, SYMBOLS, Symbol};
use crate::thread::{self, State};

/// Decides about one call of a routine that may be offloaded. Returns the host BLAS's function, to which the stub jumps
/// with all arguments unchanged, or null when the call is done and its result is in the frame. The stubs call this
/// function for every call that they do not find small themselves.
///
/// # Safety
/// Called by the stubs only, with the frame of a call of the symbol.
pub(crate) unsafe extern "C-unwind" fn enter(frame: *mut Frame, index: u32) -> *const c_void {
    // If another thread cancels the calling thread, the forced unwinding must not start inside this library. An
    // asynchronous cancellation is acted upon in `restore`, or later in the function of the host BLAS.
    let cancellation = cancel::deferred();
    // SAFETY: the stub's frame is valid, and only this call uses it until this function returns.
    let target = with_errno_kept(|| entered(unsafe { &mut *frame }, index));
    cancellation.restore();
    target
}

fn entered(frame: &mut Frame, index: u32) -> *const c_void {
    frame.jump();
    let known_small = index & frame::SMALL != 0;
    let index = (index & !frame::SMALL) as usize % COUNT;
    let site = frame.site();
    let symbol = &SYMBOLS[index];
    let thread = thread::state();
    if thread.slot.get().is_null() {
        begin(thread);
    }
    let Some(binding) = sites::cached(index, site).or_else(|| bind(index, site)) else {
        return give_up(frame, symbol);
    };
    // The operands may be memory of the MPI library, which sends it to other processes without a call that is seen.
    if thread.operators.get() > 0 {
        counts::count(thread, symbol, binding.number(), WhyHost::Nested);
        thread.forwarded(frame.entry_sp(), site);
        return host(frame, symbol, binding);
    }
    if let Class::Solver(solver) = symbol.class {
        // SAFETY: this is the frame of a call of the symbol.
        if unsafe { decode::asks_for_workspace(frame, solver, symbol.dtype) } {
            return host(frame, symbol, binding);
        }
        // LAPACK computes all of a driver that the settings leave to it: drivers that it calls itself are parts of that call.
        if thread.inside_solver(frame.entry_sp()) {
            return host(frame, symbol, binding);
        }
        return solver_entered(frame, symbol, solver, (binding, thread));
    }
    let sp = frame.entry_sp();
    if binding.barred == Barred::No {
        if binding.inside && thread.inside_forwarded(sp) {
            // `thread.forwarded` is not called here: the outer call stays the one that the thread's state holds.
            counts::count(thread, symbol, binding.number(), WhyHost::Nested);
            return host(frame, symbol, binding);
        }
        let hidden = binding.returns == Returns::Hidden;
        // SAFETY: this is the frame of a call of the symbol, and the binding knows its conventions.
        let small = (known_small
            || unsafe { decode::is_small(frame, symbol, binding.width, hidden) })
            && !binding.target.is_null()
            && runtime::has_floor();
        if small && (!runtime::any_protected() || !decode::may_touch(frame, symbol)) {
            counts::count(thread, symbol, binding.number(), WhyHost::Small);
            if timed::small::comes() {
                time(frame, symbol, binding.number(), HostCall::small());
            }
        } else {
            let left = Cell::new(Left::default());
            match runtime::caught(|| offload(frame, symbol, binding, small, &left)) {
                Some(None) => return ptr::null(),
                Some(Some(Some(reason))) => counts::count(thread, symbol, binding.number(), reason),
                // The runtime has counted the call.
                Some(Some(None)) => {
                    time(frame, symbol, binding.number(), HostCall::left(left.get()))
                }
                // It has panicked before it changed any result.
                None => {}
            }
        }
    } else if let Some(reason) = reason(binding.barred) {
        counts::count(thread, symbol, binding.number(), reason);
    }
    // The stub finds a copy small if it has fewer elements than several threads are worth, or increments of 1.
    if binding.barred == Barred::No
        && !known_small
        && symbol.class == Class::Call(Routine::Copy)
        && copied(frame, symbol, binding)
    {
        return ptr::null();
    }
    thread.forwarded(sp, site);
    host(frame, symbol, binding)
}

/// Whether several threads have made a copy that runs on the host. If the call was to be timed, its time has been taken.
fn copied(frame: &mut Frame, symbol: &Symbol, binding: &Binding) -> bool {
    // SAFETY: this is the frame of a call of the symbol, and the binding knows its conventions.
    let decoded = unsafe { decode::decode(frame, symbol, binding.width, false) };
    frame.begins();
    let copied = decoded
        .is_ok_and(|decoded| runtime::caught(|| copies::copy(&decoded.call)).unwrap_or(false));
    if copied {
        if frame.is_timed() {
            frame.ended();
        }
        frame.jump();
        frame.result = 0;
    }
    copied
}

/// A call of a driver of LAPACK: a device computes it, or the host's LAPACK, whose time is taken. Without `thread.forwarded`: BLAS calls
/// that LAPACK makes by name are decided upon as the program's own.
fn solver_entered(
    frame: &mut Frame,
    symbol: &Symbol,
    solver: Solver,
    (binding, thread): (&Binding, &State),
) -> *const c_void {
    let begun = spent::now();
    let site = runtime::caught(|| script::site(symbol, binding.number())).flatten();
    // SAFETY: this is the frame of a call of the symbol, and the binding knows its conventions.
    let decoded = unsafe { decode::solver::decode(frame, symbol, solver, binding) };
    let left = Cell::new(Left::default());
    let decoded = decoded.filter(|decoded| {
        // SAFETY: as above.
        !cfg!(feature = "builtin-blas") && unsafe { decoded.begins(frame, binding.target) }
    });
    match decoded {
        None => counts::count(thread, symbol, site, WhyHost::Solver),
        Some(decoded) => {
            let facts = Facts {
                site,
                begun,
                left: Some(&left),
                ..Facts::default()
            };
            let solved = runtime::caught(|| {
                runtime::runs_here();
                solve(&decoded.system, &facts)
            });
            // After a panic nothing has changed, or the process has ended.
            if solved == Some(Ok(())) && solver.is_finished_by_host() {
                // With as many rows as columns: R, and the rows of Q^H B that belong to it. Workspace for a tall matrix is enough for that
                // one. Not timed as a call that the host computes.
                frame.repeat_second();
                return host(frame, symbol, binding);
            }
            if solved == Some(Ok(())) {
                frame.result = 0;
                return ptr::null();
            }
            if solved == Some(Err(WhyHost::Disabled)) {
                thread.leaves_solver(frame.entry_sp(), frame.site());
            }
        }
    }
    time(frame, symbol, site, HostCall::left(left.get()));
    // SAFETY: as above.
    let operand = unsafe { decode::solver::operand(frame, symbol, solver) };
    if let Some((addr, size)) = operand {
        let element = symbol.dtype.size();
        let matrix = runtime::caught(|| timed::solver_matrix(addr, size, element, site)).flatten();
        frame.computes_on(matrix);
    }
    host(frame, symbol, binding)
}

/// The host BLAS's function is called by the stub, which takes its time.
fn time(frame: &mut Frame, symbol: &Symbol, site: Option<usize>, call: HostCall) {
    let words = decode::words_on_stack(symbol);
    frame.time(words, symbol.index(), site, call);
}

/// A call that is timed begins.
///
/// # Safety
/// As [`ended`].
pub(crate) unsafe extern "C-unwind" fn begins(frame: *mut Frame) {
    // SAFETY: the stub's frame is valid, and only this call uses it until this function returns.
    unsafe { &mut *frame }.begins();
}

/// A call that was timed has ended in the host BLAS.
///
/// # Safety
/// Called by the stubs only, with a frame for which [`enter`] has said so. A thread may be cancelled in here: there is nothing to be
/// cleaned up.
pub(crate) unsafe extern "C-unwind" fn ended(frame: *const Frame) {
    // SAFETY: the stub's frame is valid until it returns.
    unsafe { &*frame }.ended();
}

fn reason(barred: Barred) -> Option<WhyHost> {
    match barred {
        Barred::No | Barred::Foreign => None,
        Barred::NoConvention => Some(WhyHost::Convention),
        Barred::ManyProviders => Some(WhyHost::Providers),
    }
}

/// The host BLAS's function; if no library has one, the call ends with the result zero.
fn host(frame: &mut Frame, symbol: &Symbol, binding: &Binding) -> *const c_void {
    if binding.target.is_null() {
        return give_up(frame, symbol);
    }
    binding.target
}

#[cold]
fn give_up(frame: &mut Frame, symbol: &Symbol) -> *const c_void {
    resolve::complain(symbol);
    frame.result = 0;
    frame.result_xmm = [0; 2];
    ptr::null()
}

/// Makes the runtime do the call. `None`: the call is done. `Some`: the call runs on the host BLAS, for a reason that
/// the caller counts unless it is `None` because the runtime has counted its own.
fn offload(
    frame: &mut Frame,
    symbol: &Symbol,
    binding: &Binding,
    small: bool,
    left: &Cell<Left>,
) -> Option<Option<WhyHost>> {
    let begun = spent::now();
    runtime::runs_here();
    if decode::batch::is_batch(symbol.class) {
        return offload_batch(frame, symbol, binding, (small, begun), left);
    }
    let hidden = binding.returns == Returns::Hidden;
    // SAFETY: this is the frame of a call of the symbol, and the binding knows its conventions.
    let decoded = match unsafe { decode::decode(frame, symbol, binding.width, hidden) } {
        Ok(decoded) => decoded,
        Err(why) => return Some(Some(why)),
    };
    if small && !runtime::is_kept(&decoded.call) {
        return Some(Some(WhyHost::Small));
    }
    let gemm = host_gemm(symbol, binding);
    let door = Door {
        binding,
        sp: frame.entry_sp(),
    };
    let facts = Facts {
        must_run: binding.target.is_null() && gemm.is_none(),
        host: Some(&door),
        site: script::site(symbol, binding.number()),
        begun,
        left: Some(left),
    };
    match runtime::call(&decoded.call, &facts) {
        Outcome::Host => match gemm.filter(|_| binding.target.is_null()) {
            Some(gemm) => {
                let call = HostCall::left(left.get());
                gemm.run(&decoded.call);
                call.end(symbol.index(), binding.number(), None);
            }
            None => return Some(None),
        },
        // SAFETY: this is the frame of a call of the symbol, and the address is the call's.
        Outcome::Done(value) => unsafe {
            decode::return_value(frame, symbol, value, decoded.result_at);
        },
        Outcome::Index(one_based) => {
            let base = i64::from(symbol.spelling.is_cblas());
            frame.result = (one_based - base).max(0) as u64;
        }
    }
    None
}

/// The same as [`offload`] for a batch.
fn offload_batch(
    frame: &Frame,
    symbol: &Symbol,
    binding: &Binding,
    (small, begun): (bool, u64),
    left: &Cell<Left>,
) -> Option<Option<WhyHost>> {
    // SAFETY: this is the frame of a call of the symbol, and the binding knows its conventions.
    let Some(batch) = (unsafe { decode::batch::decode(frame, symbol, binding.width) }) else {
        return Some(Some(WhyHost::BadArgument));
    };
    if small && !batch.calls.iter().any(runtime::is_kept) {
        return Some(Some(WhyHost::Small));
    }
    let gemm = host_gemm(symbol, binding);
    let door = Door {
        binding,
        sp: frame.entry_sp(),
    };
    let facts = Facts {
        must_run: binding.target.is_null() && gemm.is_none(),
        host: Some(&door),
        site: script::site(symbol, binding.number()),
        begun,
        left: Some(left),
    };
    match (runtime::batch(&batch, &facts), gemm) {
        (Batched::Done, _) => None,
        (Batched::Host, Some(gemm)) if binding.target.is_null() => {
            let call = HostCall::left(left.get());
            gemm.batch(&batch, 0);
            call.end(symbol.index(), binding.number(), None);
            None
        }
        (Batched::Host, _) => Some(None),
        (Batched::From(first), Some(gemm)) => {
            gemm.batch(&batch, first);
            None
        }
        (Batched::From(first), None) => {
            // The arguments of all products are legal.
            let _ = semcache::runtime::batch_here(&batch, first);
            None
        }
    }
}

fn host_gemm(symbol: &Symbol, binding: &Binding) -> Option<HostGemm> {
    let has = is_made_of_gemm(symbol.class) && !binding.gemm.is_null();
    has.then_some(HostGemm {
        address: binding.gemm,
        cblas: symbol.spelling.is_cblas(),
    })
}

/// The thread's first count.
#[cold]
pub(crate) fn begin(thread: &State) {
    if counts::begin(thread) {
        sites::tell_all();
        let _blocked = SignalsBlocked::new();
        // After a panic the report does not know which files code lies in.
        let _ = catch_unwind(|| resolve::tell_objects(None));
    }
}

#[cold]
fn bind(index: usize, site: usize) -> Option<&'static Binding> {
    sites::known(index, site).or_else(|| {
        // `bind` takes the loader's lock, so signals are blocked, as in `Real::ask`.
        let _blocked = SignalsBlocked::new();
        // A panic must not cross the stub; after one, the caller reports that no library has the routine.
        catch_unwind(|| resolve::bind(index, site)).ok().flatten()
    })
}

/// Finds the host BLAS's function for a call of a routine that is never offloaded; null, with a zero result in the
/// frame, if no library has the routine.
///
/// # Safety
/// As [`enter`].
pub(crate) unsafe extern "C-unwind" fn resolve_jump(
    frame: *mut Frame,
    index: u32,
) -> *const c_void {
    let cancellation = cancel::deferred();
    // SAFETY: the stub's frame is valid, and only this call uses it until this function returns.
    let frame = unsafe { &mut *frame };
    let index = index as usize % COUNT;
    let target = match bind(index, frame.site()) {
        Some(binding) => host(frame, &SYMBOLS[index], binding),
        None => give_up(frame, &SYMBOLS[index]),
    };
    cancellation.restore();
    target
}
