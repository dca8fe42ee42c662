//! The library's own end: the report, after the program's last handler.

#![expect(unsafe_code, reason = "an entry of the finalisation array")]

use crate::counts;

#[used]
// SAFETY: the section holds pointers to functions without arguments that the dynamic linker calls once.
#[unsafe(link_section = ".fini_array")]
static ENDING: extern "C" fn() = ending;

extern "C" fn ending() {
    // A panic must not cross into the dynamic linker; without a report the process ends as it would have.
    let _ =
        std::panic::catch_unwind(|| semcache::runtime::exit::write_report(&counts::snapshot_all()));
}
