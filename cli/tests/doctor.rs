//! `semcache doctor` on host BLAS libraries with right results, with wrong ones, and on those that crash or hang.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a panic is how a test fails"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The reference BLAS, whose code does not depend on the processor.
const REFERENCE: &str = "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3";

/// A library with these functions, which forwards all other calls to the reference BLAS.
fn library(dir: &Path, source: &str) -> PathBuf {
    let (file, text) = (dir.join("front.so"), dir.join("front.c"));
    fs::write(&text, source).unwrap();
    let front = ["-shared", "-fPIC", "-Wl,--no-as-needed", REFERENCE];
    testkit::build::c(&text, &file, &front);
    file
}

/// The lines that `doctor` prints about the host BLAS: what was found, and what to do. The exit status must be 0
/// exactly if the library and `/proc/self/mem` can be used: the host BLAS does not decide it.
fn doctor(variables: &[(&str, &Path)]) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_semcache"))
        .arg("doctor")
        .env_remove("LD_PRELOAD")
        .env("OPENBLAS_NUM_THREADS", "1")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let vital = ["ok    library", "ok    /proc/self/mem"];
    let works = vital.iter().all(|line| text.contains(line));
    assert_eq!(output.status.code(), Some(i32::from(!works)), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let at = lines
        .iter()
        .position(|l| l[6..].starts_with("host BLAS"))
        .unwrap();
    let its = |l: &&&str| l[6..].starts_with("host BLAS") || l[6..].starts_with(' ');
    lines[at..]
        .iter()
        .take_while(its)
        .map(|l| (*l).to_owned())
        .collect()
}

/// The lines of `doctor` with this library as the host BLAS.
fn with(source: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    doctor(&[("SEMCACHE_HOST_BLAS", &library(dir.path(), source))])
}

#[test]
fn a_right_library_is_right() {
    let said = doctor(&[("SEMCACHE_HOST_BLAS", Path::new(REFERENCE))]);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("ok") && said[0].contains(" routines tried, all right"),
        "{said:?}"
    );
    let said = with("");
    assert!(said.len() == 1 && said[0].starts_with("ok"), "{said:?}");
}

/// In the convention of f2c and MKL, complex functions store their value at an address that is the first argument.
#[test]
fn another_way_to_return_is_no_fault() {
    let said = with(
        "#include <complex.h>
        #include <math.h>
        #define AT(x, i) x[*inc##x < 0 ? (i + 1 - *n) * *inc##x : i * *inc##x]
        #define DOT(name, type, first) \\
            void name(type *out, int *n, type *x, int *incx, type *y, int *incy) { \\
                type sum = 0; \\
                for (int i = 0; i < *n; i++) sum += first(AT(x, i)) * AT(y, i); \\
                *out = sum; \\
            }
        DOT(cdotu_, float complex, ) DOT(cdotc_, float complex, conjf)
        DOT(zdotu_, double complex, ) DOT(zdotc_, double complex, conj)",
    );
    assert!(said.len() == 1 && said[0].starts_with("ok"), "{said:?}");
}

/// Each library has one wrong routine, most of them wrong only in cases that a few calls would not reach.
#[test]
fn one_wrong_result_is_found_and_named() {
    let cases = [
        // Wrong from nine elements on, as some kernels of OpenBLAS are.
        (
            "scasum is wrong: ",
            "float scasum_(int *n, float *x, int *inc) {
                float sum = 0;
                for (int i = 0; i < *n; i++) sum += fabsf(x[2 * i * *inc]) + fabsf(x[2 * i * *inc + 1]);
                return *n < 9 ? sum : sum + 2;
            }",
        ),
        // If both increments are negative, the second is handled as positive.
        (
            "daxpy is wrong: ",
            "void daxpy_(int *n, double *a, double *x, int *ix, double *y, int *iy) {
                for (int i = 0; i < *n; i++) {
                    int k = *ix < 0 ? (i + 1 - *n) * *ix : i * *ix;
                    int l = *iy < 0 && *ix > 0 ? (i + 1 - *n) * *iy : i * abs(*iy);
                    y[l] += *a * x[k];
                }
            }",
        ),
        // The routine computes nothing at all.
        ("zhpr is wrong: ", "void zhpr_(void) {}"),
        ("dtrsm is wrong: ", "void dtrsm_(void) {}"),
        ("idamax is wrong: ", "int idamax_(int *n, double *x, int *inc) { return *n > 0; }"),
        ("sdsdot is wrong: ", "float sdsdot_(void) { return 0; }"),
        ("crotg is wrong: ", "void crotg_(void) {}"),
    ];
    for (fault, source) in cases {
        let said = with(&format!("#include <math.h>\n#include <stdlib.h>\n{source}"));
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said[0].starts_with("warn")
                && said[0].contains(fault)
                && said[0].contains(" instead of "),
            "{said:?}"
        );
        assert_eq!(said[0].matches("wrong").count(), 1, "{said:?}");
        assert!(said[1].contains("SEMCACHE_HOST_BLAS="), "{said:?}");
    }
}

#[test]
fn what_is_preloaded_is_what_programs_get() {
    let dir = tempfile::tempdir().unwrap();
    let front = library(dir.path(), "void sswap_(void) {}");
    let said = doctor(&[("LD_PRELOAD", &front)]);
    let named = format!("of {}", front.display());
    assert!(
        said[0].starts_with("warn")
            && said[0].contains("sswap is wrong: ")
            && said[0].contains(&named),
        "{said:?}"
    );
}

#[test]
fn a_library_that_crashes_ends_or_hangs_costs_one_line() {
    let cases = [
        (
            "zher2k ended the process: SIGILL",
            "void zher2k_(void) { __builtin_trap(); }",
        ),
        (
            "dger ended the process: SIGSEGV",
            "void dger_(void) { *(volatile int *)8 = 1; }",
        ),
        (
            "csyrk ended the process: exit status: 0",
            "#include <stdlib.h>\nvoid csyrk_(void) { exit(0); }",
        ),
        (
            "loading ended the process: SIGABRT",
            "#include <stdlib.h>\n__attribute__((constructor)) static void begin(void) { abort(); }",
        ),
        (
            "dtpsv did not return within",
            "void dtpsv_(void) { for (;;) __asm__ volatile(\"\"); }",
        ),
    ];
    for (fault, source) in cases {
        let said = with(source);
        assert!(
            said.len() == 2 && said[0].starts_with("warn") && said[0].contains(fault),
            "{said:?}"
        );
    }
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text.so");
    fs::write(&text, "no library").unwrap();
    let said = doctor(&[("SEMCACHE_HOST_BLAS", &text)]);
    assert!(said.len() == 2 && said[0].starts_with("warn"), "{said:?}");
}
