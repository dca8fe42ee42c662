//! Stand-in for the CUDA functions that allocate, free and page-lock memory.

#![expect(
    unsafe_code,
    reason = "the program's pointers, as the C functions take them"
)]

use core::ffi::{c_uint, c_void};
use core::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::param::page_size;
use semcache::device::api::Backend;

use crate::machine::{self, machine, status};
use crate::memory::{Block, Pinned};
use crate::names::{Outcome, Status};
use crate::pages::Pages;
use crate::platform::put;
use crate::settings::settings;
use crate::state::lock;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// The bytes of a device that other processes use, once this many allocations were made in this process.
fn taken(allocations: u64) -> usize {
    let (bytes, from) = settings().taken;
    if from > 0 && allocations >= from {
        bytes
    } else {
        0
    }
}

pub(crate) unsafe fn memory_info(free: *mut usize, total: *mut usize) -> Outcome {
    let state = lock()?;
    let used = state.memory.used(state.current_device()?);
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe {
        let others = taken(ALLOCATIONS.load(Ordering::Relaxed));
        put(
            free,
            settings()
                .memory
                .saturating_sub(used)
                .saturating_sub(others),
        )?;
        put(total, settings().memory)
    }
}

pub(crate) unsafe fn memory_alloc(address: *mut u64, bytes: usize) -> Outcome {
    let mut state = lock()?;
    let (context, device) = (state.current()?, state.current_device()?);
    if bytes == 0 || address.is_null() {
        return Err(Status::InvalidValue);
    }
    state.staging.settle();
    let others = taken(ALLOCATIONS.fetch_add(1, Ordering::Relaxed) + 1);
    let left = settings().memory.saturating_sub(others);
    if others > 0 && state.memory.used(device).saturating_add(bytes) > left {
        return Err(Status::OutOfMemory);
    }
    let at = machine()?.alloc(device, bytes).map_err(status)?;
    let block = Block {
        len: bytes,
        context,
        device,
    };
    state.memory.blocks.insert(at as usize, block);
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(address, at) }
}

pub(crate) fn memory_free(address: u64) -> Outcome {
    let mut state = lock()?;
    state.current()?;
    if address == 0 {
        return Ok(());
    }
    let at = address as usize;
    let block = *state.memory.blocks.get(&at).ok_or(Status::InvalidValue)?;
    // The driver waits for the device; copies of this memory by another device are waited for, too.
    let waited = machine::wait(&state.everything(|_| true));
    state.memory.blocks.remove(&at);
    // SAFETY: everything queued is complete or has failed.
    unsafe { machine()?.free(block.device, address) };
    waited
}

pub(crate) unsafe fn host_alloc(memory: *mut *mut c_void, bytes: usize, _flags: c_uint) -> Outcome {
    let mut state = lock()?;
    state.current()?;
    if bytes == 0 || memory.is_null() {
        return Err(Status::InvalidValue);
    }
    let len = bytes
        .checked_next_multiple_of(page_size())
        .ok_or(Status::OutOfMemory)?;
    // Shared with children of a fork, as the driver's is.
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let at = unsafe {
        mmap_anonymous(
            core::ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
        )
    }
    .map_err(|_| Status::OutOfMemory)?;
    if settings().poison {
        // SAFETY: this function made the mapping above.
        unsafe { core::ptr::write_bytes(at.cast::<u8>(), 0xff, len) };
    }
    let pinned = Pinned {
        len: bytes,
        registered: false,
        pages: Pages::default(),
    };
    state.memory.pinned.insert(at.expose_provenance(), pinned);
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(memory, at) }
}

pub(crate) unsafe fn host_free(memory: *mut c_void) -> Outcome {
    let mut state = lock()?;
    state.current()?;
    let at = memory.expose_provenance();
    let pinned = state.memory.pinned.get(&at).filter(|p| !p.registered);
    let len = pinned.ok_or(Status::InvalidValue)?.len;
    let waited = machine::wait(&state.everything(|_| true));
    state.memory.pinned.remove(&at);
    // SAFETY: a mapping made by `host_alloc`, which the program gives back.
    let _ = unsafe { munmap(memory, len.next_multiple_of(page_size())) };
    waited
}

pub(crate) unsafe fn host_device_pointer(
    address: *mut u64,
    memory: *mut c_void,
    flags: c_uint,
) -> Outcome {
    let state = lock()?;
    state.current()?;
    let at = memory.expose_provenance();
    if flags != 0 || state.memory.pinned_at(at).is_none() {
        return Err(Status::InvalidValue);
    }
    // SAFETY: the program's arguments, which keep the contract of the C function.
    unsafe { put(address, at as u64) }
}

/// `CU_MEMHOSTREGISTER_READ_ONLY`
const READ_ONLY: c_uint = 8;

pub(crate) unsafe fn host_register(memory: *mut c_void, bytes: usize, flags: c_uint) -> Outcome {
    let mut state = lock()?;
    state.current()?;
    let at = memory.addr();
    let end = at.checked_add(bytes).ok_or(Status::InvalidValue)?;
    if bytes == 0 || at == 0 {
        return Err(Status::InvalidValue);
    }
    if state.memory.meets_pinned(at, end) {
        return Err(Status::AlreadyRegistered);
    }
    // The driver's page-locking faults every page in and refuses pages whose access does not allow it, and so does
    // populating the pages here; only the whole table of mappings would tell the access otherwise.
    let page = page_size();
    let (first, last) = (at / page * page, end.next_multiple_of(page));
    let advice = if flags & READ_ONLY == 0 {
        Advice::LinuxPopulateWrite
    } else {
        Advice::LinuxPopulateRead
    };
    // SAFETY: populating changes no contents.
    unsafe { madvise(memory.wrapping_byte_sub(at - first), last - first, advice) }
        .map_err(|_| Status::InvalidValue)?;
    let at = memory.expose_provenance();
    let pinned = Pinned {
        len: bytes,
        registered: true,
        pages: Pages::pin(at, bytes),
    };
    state.memory.pinned.insert(at, pinned);
    Ok(())
}

pub(crate) fn host_unregister(memory: *mut c_void) -> Outcome {
    let mut state = lock()?;
    state.current()?;
    let at = memory.expose_provenance();
    match state.memory.pinned.get(&at) {
        Some(pinned) if pinned.registered => {
            state.memory.pinned.remove(&at);
            Ok(())
        }
        _ => Err(Status::NotRegistered),
    }
}
