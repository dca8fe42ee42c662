//! Tests of gemmt, gemm3m and the batches: that they are decoded, that the host's gemm computes them if the host BLAS
//! lacks them, and that simulated devices compute them; likewise axpby, geadd, omatcopy and imatcopy.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]

mod kit;

use kit::{ALWAYS, OPENBLAS, OPENBLAS_64, REFERENCE, REFERENCE_64, kit};
use std::path::{Path, PathBuf};

/// Settings with which every call is offloaded, and operands from 4 KiB on are protected.
const HARD: [(&str, &str); 5] = [
    ALWAYS,
    ("SEMCACHE_PANEL", "4KiB"),
    ("SEMCACHE_OWN", "4KiB"),
    ("SEMCACHE_TILE", "16"),
    ("SEMCACHE_DEVICES", "sim:2"),
];

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The client of one family. The routines that its BLAS lacks are bound to the preloaded library.
fn client(name: &str, int: &str, fortran: &str, cblas: Option<&str>, link: &[&str]) -> PathBuf {
    let mut args = vec![format!("-DINT={int}"), format!("-DF(x)={fortran}")];
    if let Some(cblas) = cblas {
        args.extend([String::from("-DCBLAS"), format!("-DC(x)={cblas}")]);
    }
    // Families with an underscore have these routines.
    if !["plain", "mkl64"].contains(&name) {
        args.push("-DMATRICES".into());
    }
    // The client does not call its BLAS's gemm, so the linker would leave that BLAS out.
    args.push("-Wl,--no-as-needed".into());
    args.extend(link.iter().map(ToString::to_string));
    args.push(path(&kit().library).to_owned());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    kit().compile("extensions.c", &format!("extensions_{name}"), &args)
}

fn passes(library: &Path, client: &Path, args: &[&str], env: &[(&str, &str)]) {
    let text = kit().passes(library, client, args, env);
    assert!(text.contains(" 0 failures"), "{text}");
}

fn all(name: &str, int: &str, fortran: &str, cblas: Option<&str>, link: &[&str]) -> PathBuf {
    let kit = kit();
    let client = client(name, int, fortran, cblas, link);
    let least = if cblas.is_some() { "1900" } else { "630" };
    passes(&kit.builtin, &client, &[OPENBLAS, least], &[ALWAYS]);
    // The host's gemm computes the routines.
    let never = ("SEMCACHE_OFFLOAD", "never");
    passes(&kit.library, &client, &[OPENBLAS], &[never]);
    client
}

#[test]
fn with_openblas() {
    let link = ["-DILLEGAL", OPENBLAS];
    let client = all("under", "int", "x##_", Some("cblas_##x"), &link);
    passes(&kit().library, &client, &[OPENBLAS], &HARD);
}

#[test]
fn with_the_reference() {
    all("under_ref", "int", "x##_", Some("cblas_##x"), &[REFERENCE]);
}

#[test]
fn with_64_bit_integers() {
    let link = ["-DILLEGAL", OPENBLAS_64];
    all("ilp64", "long", "x##_", Some("cblas_##x"), &link);
    let link = [REFERENCE_64];
    all("ilp64_ref", "long", "x##_", Some("cblas_##x"), &link);
}

#[test]
fn other_spellings() {
    all("plain", "int", "x", None, &[]);
    all("mkl64", "long", "x##_64", Some("cblas_##x##_64"), &[]);
    let (f, c) = ("x##_64_", "cblas_##x##64_");
    all("suffix64", "long", f, Some(c), &[]);
    let (f, c) = ("scipy_##x##_", "scipy_cblas_##x");
    all("scipy", "int", f, Some(c), &[]);
    let (f, c) = ("scipy_##x##_64_", "scipy_cblas_##x##64_");
    all("scipy64", "long", f, Some(c), &[]);
}

/// The library itself computes the calls if no BLAS in the process or on the system has the routines; the width of
/// integers is that of the program's BLAS.
#[test]
fn without_a_host_that_has_them() {
    let kit = kit();
    let decoys = kit.dir.join("decoys");
    std::fs::create_dir(&decoys).unwrap();
    let empty = kit.dir.join("empty.c");
    std::fs::write(&empty, "").unwrap();
    for name in ["libopenblas.so.0", "libblas.so.3"] {
        kit.compile_file(&empty, &format!("decoys/{name}"), &["-shared"]);
    }
    let never = [("SEMCACHE_OFFLOAD", "never")];
    for (int, host) in [("int", REFERENCE), ("long", REFERENCE_64)] {
        let int_of = format!("-DINT={int}");
        let args = [&int_of, host, path(&kit.library)];
        let client = kit.compile("lacking.c", &format!("lacking_{int}"), &args);
        for env in [&never[..], &HARD[..]] {
            let mut env = env.to_vec();
            env.push(("LD_LIBRARY_PATH", path(&decoys)));
            let output = kit.run(&kit.library, &client, &[], &env);
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(text, "0 failures\n", "{int}");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(said.matches("no BLAS has").count(), 1, "{said}");
            assert!(said.contains("no BLAS has dimatcopy_ "), "{said}");
        }
    }
}

/// The stubs and `is_small` agree on which calls are too small to be decoded.
#[test]
fn floors() {
    let kit = kit();
    let source = "floor_extensions.c";
    let args = ["-shared", "-fPIC", "-DPROVIDER"];
    let provider = kit.compile(source, "libextensions.so", &args);
    let client = kit.compile(source, "floor_extensions", &[path(&provider)]);
    let text = kit.passes(&kit.builtin, &client, &[], &[]);
    assert_eq!(text, "0 failures\n");
}
