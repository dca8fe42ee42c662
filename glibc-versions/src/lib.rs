//! Binds functions of glibc to old symbol versions. A linker binds a program to the newest version of each glibc
//! function on the machine where it links: a program linked on Debian 12 asks for `pthread_create` of glibc 2.34 and
//! does not start with an older glibc. [`bind!`] names the version instead, so that the library and the command,
//! wherever they are linked, run with glibc 2.28 or newer. `scripts/setting.sh` checks on each release build that they
//! ask for no newer version.

#![no_std]

/// The linker's argument for `bind!`: the two libraries by their file names, needed even if the linking machine has the
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
/// glibc keeps old versions for good. Since 2.34 the functions that used to be in libpthread and libdl are in libc;
/// with older versions the two libraries must be loaded, so a program that binds their functions is linked with them
/// (`build.rs` of `blas-shim` and `cli`).
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

/// A function in assembly under the name of a glibc function that old releases lack.
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
