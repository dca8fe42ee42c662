//! Tests of the hooks: the wrapped libc functions, as a program sees them.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]

mod kit;

use std::process::Command;

use kit::kit;

#[test]
fn behave_as_libc() {
    let kit = kit();
    let client = kit.compile("hooks.c", "hooks", &["-lpthread"]);
    // Without the preloaded library, libc does what the client expects.
    assert!(Command::new(&client).status().expect("it runs").success());
    kit.passes(&kit.library, &client, &["wrapped"], &[]);
    let fortified = kit.compile(
        "hooks.c",
        "hooks2",
        &["-lpthread", "-O2", "-D_FORTIFY_SOURCE=2"],
    );
    kit.passes(&kit.library, &fortified, &["wrapped"], &[]);
}

#[test]
fn another_allocator_is_left_alone() {
    let kit = kit();
    let allocator = kit.compile(
        "allocator.c",
        "liballocator.so",
        &["-shared", "-fPIC", "-DALLOCATOR"],
    );
    let client = kit.compile(
        "allocator.c",
        "allocator",
        &[allocator.to_str().expect("UTF-8")],
    );
    kit.passes(&kit.library, &client, &[], &[]);
}

#[test]
fn dlsym_is_libcs() {
    let kit = kit();
    let library = kit.compile(
        "dlsym.c",
        "libnext.so",
        &[
            "-shared",
            "-fPIC",
            "-fno-builtin",
            "-DLIBRARY",
            "-Wl,--no-as-needed",
        ],
    );
    let client = kit.compile(
        "dlsym.c",
        "dlsym",
        &[
            "-fno-builtin",
            "-Wl,--no-as-needed",
            library.to_str().expect("UTF-8"),
        ],
    );
    assert!(Command::new(&client).status().expect("it runs").success());
    assert_eq!(kit.passes(&kit.library, &client, &[], &[]), "fine\n");
}

#[test]
fn common_programs_run() {
    let kit = kit();
    for script in [
        "ls / | sort | awk '{print $1}' | sed 's/x/y/' > /dev/null",
        "perl -e 'my $x = `echo 5`; exit($x != 5)'",
        "python3 -c 'import threading, subprocess; subprocess.run([\"true\"], check=True); bytearray(10**8)'",
        "gcc --version > /dev/null",
    ] {
        let output = Command::new("sh")
            .args(["-c", script])
            .env("LD_PRELOAD", kit.library.as_path())
            // Perl warns of a locale that is not installed.
            .env("LC_ALL", "C")
            .output()
            .expect("sh runs");
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{script}: {output:?}"
        );
    }
}
