//! A linker binds a program to the newest version of each of glibc's functions that the machine has on which it links:
//! what is linked on Debian 12 asks for `pthread_create` of glibc 2.34 and does not start with an older glibc. [`bind!`] names
//! the version instead, so that the library and the command, wherever they are linked, run with glibc 2.28 or newer.
//! `scripts/setting.sh` reads off each release build that they ask for no more.

#![no_std]

/// The linker's argument for that: the two libraries by their file names, needed although the machine on which it links has the
/// functions in libc.
pub const LIBRARIES: &str =
    "-Wl,--push-state,--no-as-needed,-l:libpthread.so.0,-l:libdl.so.2,--pop-state";

/// Functions of glibc, each with the version that the library or command is bound to. All references to them, those of Rust's
/// standard library included, then reach a jump to this version:
///
/// ```ignore
/// glibc_versions::bind! { "GLIBC_2.2.5": dlopen, dlerror; }
/// ```
///
/// glibc keeps old versions for good. Since 2.34 those that used to be in libpthread and libdl are in libc; before, the two must
/// be loaded, so whoever binds their functions is linked with them (`build.rs` of `blas-shim` and `cli`).
#[macro_export]
macro_rules! bind {
    ($($version:literal: $($name:ident),+;)+) => {
        $($($crate::define!(
            $name:
            concat!(".symver glibc.", stringify!($name), ", ", stringify!($name), "@", $version),
            // The return address stays the caller's: dlopen, dlsym and dladdr go by it.
            concat!("jmp qword ptr [rip + glibc.", stringify!($name), "@GOTPCREL]")
        );)+)+
    };
}

/// A function in assembly under the name of one of glibc's, which old releases lack.
#[macro_export]
macro_rules! define {
    ($name:ident: $($line:expr),+) => {
        ::core::arch::global_asm!(
            concat!(".pushsection .text.glibc.", stringify!($name), ",\"ax\",@progbits"),
            concat!(".globl ", stringify!($name)),
            // The program's own references bind as they do without this library.
            concat!(".hidden ", stringify!($name)),
            concat!(".type ", stringify!($name), ",@function"),
            concat!(stringify!($name), ":"),
            ".cfi_startproc",
            $($line,)+
            ".cfi_endproc",
            concat!(".size ", stringify!($name), ", . - ", stringify!($name)),
            ".popsection",
        );
    };
}
