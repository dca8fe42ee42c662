//! Entry of every exported function: the call is counted, may be made to fail, and no panic crosses the C boundary.

#![expect(
    unsafe_code,
    reason = "a destructor of the library; calls libc as any library does"
)]

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, PoisonError};

use crate::end::{ENDED, end_with_process};
use crate::machine::machine;
use crate::misuse::complain;
use crate::names::{
    BLAS_ERROR, BLAS_FAILED, Outcome, SOLVER_ERROR, SOLVER_FAILED, SPARSE_ERROR, SPARSE_FAILED,
    Status,
};
use crate::settings::{Fail, settings};
use crate::table::{COUNTS, NAMES};

/// Which of the four libraries a function belongs to; their statuses differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    Driver,
    Blas,
    Sparse,
    Solver,
}

impl Family {
    /// Whether this function registers the exit handler of its library: cuBLAS does at its first kernel, cuSPARSE and cuSOLVER with
    /// their first handle.
    fn begins_with(self, name: &str) -> bool {
        match self {
            Family::Driver => false,
            Family::Blas => name.contains("gem"),
            Family::Sparse => name == "cusparseCreate",
            Family::Solver => name == "cusolverDnCreate",
        }
    }
}

/// The process that made the first call: only its calls are counted, and devices do not survive a fork.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// The number of calls for the setting `any`.
static ANY: AtomicU64 = AtomicU64::new(0);

/// Whether a call has failed with `sticky`: from then on all calls fail.
static DEAD: AtomicBool = AtomicBool::new(false);

/// Aborts the process where NVIDIA's driver would crash, if the driver's exit handler has run.
fn still_there(index: usize) {
    // SAFETY: getpid has no conditions.
    if ENDED.load(SeqCst) && OWNER.load(Relaxed) == unsafe { libc::getpid() } {
        complain(format_args!("{} after the driver's end", NAMES[index]));
        std::process::abort();
    }
}

/// Runs the body of the exported function with this index.
pub(crate) fn enter(family: Family, index: usize, body: impl FnOnce() -> Outcome) -> i32 {
    let (failed, panicked) = match family {
        Family::Driver => (Status::Unknown as i32, Status::Unknown as i32),
        Family::Blas => (BLAS_FAILED, BLAS_ERROR),
        Family::Sparse => (SPARSE_FAILED, SPARSE_ERROR),
        Family::Solver => (SOLVER_FAILED, SOLVER_ERROR),
    };
    if family.begins_with(NAMES[index]) {
        static FIRST: [Once; 4] = [const { Once::new() }; 4];
        FIRST[family as usize].call_once(end_with_process);
    }
    still_there(index);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: getpid and gettid have no conditions.
        let process = unsafe { libc::getpid() };
        if OWNER
            .compare_exchange(0, process, Relaxed, Relaxed)
            .is_err_and(|owner| owner != process)
        {
            return Some(Err(Status::NotInitialized));
        }
        if fails(index) {
            return None;
        }
        if family != Family::Driver {
            load_code(index);
        }
        if settings().system {
            use_system();
        }
        Some(body())
    }));
    still_there(index);
    match outcome {
        Ok(Some(Ok(()))) => 0,
        Ok(Some(Err(status))) => match family {
            Family::Driver => status as i32,
            Family::Blas => status.blas(),
            Family::Sparse => status.sparse(),
            Family::Solver => status.solver(),
        },
        Ok(None) if takes_memory(NAMES[index]) => Status::OutOfMemory as i32,
        Ok(None) => failed,
        Err(_) => panicked,
    }
}

/// The address of an exported function of this library by its name.
pub(crate) fn address(name: &str) -> Option<*mut c_void> {
    if !NAMES.contains(&name) {
        return None;
    }
    let name = std::ffi::CString::new(name).ok()?;
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: an address of this library, and room for the answer, which is read only if the address is found. The
    // library is opened under the name by which it is loaded.
    unsafe {
        let here: extern "C" fn() = write_counts;
        if libc::dladdr(here as *const c_void, info.as_mut_ptr()) == 0 {
            return None;
        }
        let path = info.assume_init().dli_fname;
        let library = libc::dlopen(path, libc::RTLD_NOW | libc::RTLD_NOLOAD);
        if library.is_null() {
            return None;
        }
        let at = libc::dlsym(library, name.as_ptr());
        libc::dlclose(library);
        (!at.is_null()).then_some(at)
    }
}

/// Counts the call; returns whether it has to fail.
fn fails(index: usize) -> bool {
    let call = COUNTS[index].fetch_add(1, Relaxed) + 1;
    let name = NAMES[index];
    if name.starts_with("cuGetError") {
        return false;
    }
    let getter = name.contains("Get") || name.contains("Query");
    let any = if getter {
        0
    } else {
        ANY.fetch_add(1, Relaxed) + 1
    };
    if DEAD.load(Relaxed) {
        return true;
    }
    if !crate::files::there() {
        die();
        return true;
    }
    let Some(fail) = &settings().fail else {
        return false;
    };
    let due = is_due(fail, name, call, any);
    if due && fail.sticky {
        die();
    }
    due
}

/// At the first call of a function that queues a kernel: takes as long as its code takes to load. Other calls go on meanwhile.
fn load_code(index: usize) {
    let (name, code) = (NAMES[index], settings().code);
    let manages = ["Create", "Destroy", "Get", "Set", "Size"];
    if code > 0 && COUNTS[index].load(Relaxed) == 1 && !manages.iter().any(|m| name.contains(m)) {
        std::thread::sleep(core::time::Duration::from_micros(code));
    }
}

/// Makes every call fail from now on, and discards what is queued on the devices.
fn die() {
    DEAD.store(true, Relaxed);
    if let Ok(machine) = machine() {
        machine.shutdown();
    }
}

fn is_due(fail: &Fail, name: &str, call: u64, any: u64) -> bool {
    match &fail.name {
        Some(wanted) => wanted == name && call == fail.call,
        None => any == fail.call,
    }
}

/// Functions that fail if there is not enough memory.
fn takes_memory(name: &str) -> bool {
    matches!(
        name,
        "cuMemAlloc_v2" | "cuMemHostAlloc" | "cuMemHostRegister_v2"
    )
}

/// The lock that [`use_system`] holds: code that `use_system` calls must not wait for another call of this library.
static DRIVER: Mutex<()> = Mutex::new(());

/// Uses the process's libc, including its hooks: allocates small, middling and large blocks, maps memory, writes from a
/// mapping and from the heap, and closes a library.
fn use_system() {
    let _held = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    use_heap();
    const BYTES: usize = 1 << 20;
    // SAFETY: the mapping is used within its size until it is unmapped, the file and the library until they are closed.
    #[expect(clippy::disallowed_methods, reason = "the process's libc is meant")]
    unsafe {
        let file = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let block = libc::mmap(core::ptr::null_mut(), BYTES, access, kind, -1, 0);
        if block != libc::MAP_FAILED {
            libc::write(file, block, BYTES);
            libc::munmap(block, BYTES);
        }
        libc::write(file, c"word".as_ptr().cast(), 4);
        libc::close(file);
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        if !library.is_null() {
            libc::dlclose(library);
        }
    }
}

/// Allocates small, middling and large blocks from the process's heap, and frees them.
fn use_heap() {
    for bytes in [48, 6 << 10, 2 << 20] {
        // SAFETY: the block is used within its size only, and freed once.
        #[expect(clippy::disallowed_methods, reason = "the process's heap is meant")]
        unsafe {
            let block = libc::malloc(bytes).cast::<u8>();
            if !block.is_null() {
                block.write_volatile(1);
                libc::free(block.cast());
            }
        }
    }
}

/// Writes the counts, when the library is unloaded or the process ends.
extern "C" fn write_counts() {
    // SAFETY: getpid has no conditions.
    if OWNER.load(Relaxed) != unsafe { libc::getpid() } {
        return;
    }
    let _ = catch_unwind(|| {
        let Some(path) = &settings().counts else {
            return;
        };
        let text: String = NAMES
            .iter()
            .zip(&COUNTS)
            .map(|(name, count)| format!("{name} {}\n", count.load(Relaxed)))
            .collect();
        if let Err(error) = std::fs::write(path, text) {
            complain(format_args!("cannot write {}: {error}", path.display()));
        }
    });
}

#[used]
// SAFETY: the section holds pointers to functions without arguments, which the loader calls once.
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = write_counts;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_is_due_once() {
        let fail = |name: Option<&str>| Fail {
            name: name.map(str::to_owned),
            call: 2,
            sticky: false,
        };
        assert!(is_due(&fail(Some("a")), "a", 2, 9));
        assert!(!is_due(&fail(Some("a")), "a", 3, 2));
        assert!(!is_due(&fail(Some("a")), "b", 2, 2));
        assert!(is_due(&fail(None), "b", 7, 2));
        assert!(!is_due(&fail(None), "b", 2, 0));
    }
}
