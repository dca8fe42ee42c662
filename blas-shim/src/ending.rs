//! The library's constructor and destructor. The destructor writes the report, after the program's last exit handler.
//! The constructor registers the fork handlers and notes the id of the first process, whose report gets the plain path,
//! before that process can start another one.

#![expect(
    unsafe_code,
    reason = "entries of the initialisation and finalisation arrays"
)]

use core::ffi::CStr;
use std::ffi::CString;

use semcache::base::config;

use crate::counts;

#[used]
// SAFETY: the section holds pointers to functions without arguments that the dynamic linker calls once.
#[unsafe(link_section = ".fini_array")]
static ENDING: extern "C" fn() = ending;

extern "C" fn ending() {
    // Closing the report's file is a cancellation point, at which a cancelled thread would end with the report half
    // written. Cancellation is never enabled again: this thread ends the process.
    let _ = semcache_fault::cancel::disabled();
    // A panic must not cross into the dynamic linker; if the report fails, the process ends as it would have without
    // it.
    let _ = std::panic::catch_unwind(semcache::runtime::exit::write_report);
}

#[used]
// SAFETY: the section holds pointers to functions without arguments that the dynamic linker calls once.
#[unsafe(link_section = ".init_array")]
static BEGINNING: extern "C" fn() = beginning;

/// Registers the fork handlers, and what is done before a driver's libraries are loaded. If reports are asked for, the
/// first process that is preloaded also puts its id, and where the processes that it starts are to count, into the environment,
/// which they inherit. Nothing else happens before the first BLAS call.
extern "C" fn beginning() {
    semcache::runtime::fork::watch();
    semcache::runtime::start::ahead_of_libraries(crate::resolve::bind_ahead);
    crate::resolve::cores();
    semcache::process::background::on_change(crate::resolve::leave_cores);
    semcache::runtime::counted::in_child(counts::child);
    // SAFETY: a C string; no other thread exists yet that could change the environment.
    let has = |name: &CStr| unsafe { !libc::getenv(name.as_ptr()).is_null() };
    // SAFETY: C strings, which are copied; no other thread exists yet. `setenv` does not overwrite: a process that inherited an
    // earlier process's value keeps that value.
    let put = |name: &CStr, value: &CStr| unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 0) };
    let put = |name: &str, value: String| {
        if let (Ok(name), Ok(value)) = (CString::new(name), CString::new(value)) {
            put(&name, &value);
        }
    };
    let report = has(c"SEMCACHE_REPORT");
    if report || has(c"SEMCACHE_TRACE") {
        put(config::MAIN_PID, std::process::id().to_string());
    }
    if report && let Some(counters) = semcache::runtime::counted::begin() {
        put(config::COUNTERS, counters);
    }
}
