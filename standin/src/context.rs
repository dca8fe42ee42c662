//! Stand-in for the CUDA functions on contexts.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::{c_int, c_uint, c_void};

use semcache::base::DeviceId;
use semcache::device::api::Backend;

use crate::machine::{self, machine};
use crate::memory::Block;
use crate::names::{Outcome, Status};
use crate::platform::{self, put};
use crate::state::{self, State, lock};
use crate::stream::{Stream, Tickets};

pub(crate) unsafe fn context_create(context: *mut usize, _flags: c_uint, device: c_int) -> Outcome {
    let device = machine::device(device)?;
    platform::load_and_unload();
    let mut state = lock()?;
    let number = state.fresh();
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(context, number)? };
    state::push(number)?;
    add(&mut state, number, device);
    Ok(())
}

fn add(state: &mut State, number: usize, device: DeviceId) {
    state.contexts.insert(number, device);
    let null = Stream {
        context: number,
        blocking: true,
        frontier: Tickets::default(),
    };
    state.streams.insert(number, null);
}

/// The primary context of a device, which all its users share unless they make their own: made at the first request,
/// and kept.
pub(crate) unsafe fn primary_retain(context: *mut usize, device: c_int) -> Outcome {
    let device = machine::device(device)?;
    let mut state = lock()?;
    let number = match state.primary.get(&device) {
        Some(number) => *number,
        None => {
            let number = state.fresh();
            state.primary.insert(device, number);
            add(&mut state, number, device);
            number
        }
    };
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(context, number) }
}

pub(crate) fn primary_release(device: c_int) -> Outcome {
    let device = machine::device(device)?;
    let known = lock()?.primary.contains_key(&device);
    known.then_some(()).ok_or(Status::InvalidContext)
}

pub(crate) unsafe fn context_create_v4(
    context: *mut usize,
    _parameters: *mut c_void,
    flags: c_uint,
    device: c_int,
) -> Outcome {
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { context_create(context, flags, device) }
}

pub(crate) fn context_destroy(context: usize) -> Outcome {
    let mut state = lock()?;
    if !state.contexts.contains_key(&context) {
        return Err(Status::InvalidContext);
    }
    let _ = machine::wait(&state.everything(|c| c == context));
    if state::top() == context {
        state::pop();
    }
    state.contexts.remove(&context);
    state.streams.retain(|_, s| s.context != context);
    state.events.retain(|_, e| e.context != context);
    state.handles.retain(|_, h| h.context != context);
    state.sparse_handles.retain(|_, h| h.context != context);
    state.solver_handles.retain(|_, h| h.context != context);
    state.peers.retain(|(a, b)| *a != context && *b != context);
    let mine: Vec<(usize, Block)> = state
        .memory
        .blocks
        .iter()
        .filter(|(_, b)| b.context == context)
        .map(|(at, b)| (*at, *b))
        .collect();
    for (at, block) in mine {
        state.memory.blocks.remove(&at);
        // SAFETY: all operations that were queued in the context are complete or have failed.
        unsafe { machine()?.free(block.device, at as u64) };
    }
    Ok(())
}

pub(crate) fn context_push(context: usize) -> Outcome {
    if !lock()?.contexts.contains_key(&context) {
        return Err(Status::InvalidContext);
    }
    state::push(context)
}

pub(crate) unsafe fn context_pop(context: *mut usize) -> Outcome {
    machine()?;
    let popped = state::pop().ok_or(Status::InvalidContext)?;
    if !context.is_null() {
        // SAFETY: the program's arguments, which keep the contract of the C function.
        unsafe { put(context, popped)? };
    }
    Ok(())
}

pub(crate) unsafe fn context_current(context: *mut usize) -> Outcome {
    machine()?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(context, state::top()) }
}

pub(crate) unsafe fn context_device(device: *mut c_int) -> Outcome {
    let current = lock()?.current_device()?;
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(device, c_int::from(current.0)) }
}

pub(crate) fn context_set(context: usize) -> Outcome {
    let known = context == 0 || lock()?.contexts.contains_key(&context);
    if !known {
        return Err(Status::InvalidContext);
    }
    machine()?;
    state::pop();
    if context == 0 {
        return Ok(());
    }
    state::push(context)
}

pub(crate) fn context_synchronize() -> Outcome {
    let tickets = {
        let state = lock()?;
        let current = state.current()?;
        state.everything(|c| c == current)
    };
    machine::wait(&tickets)
}

pub(crate) fn enable_peer(peer: usize, flags: c_uint) -> Outcome {
    let mut state = lock()?;
    let current = state.current()?;
    if flags != 0 || peer == current {
        return Err(Status::InvalidValue);
    }
    if !state.contexts.contains_key(&peer) {
        return Err(Status::InvalidContext);
    }
    if !state.peers.insert((current, peer)) {
        return Err(Status::PeerAlreadyEnabled);
    }
    Ok(())
}
