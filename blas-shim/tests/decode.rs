//! Tests of the decoding: arguments of every offloadable routine, in every family of spellings, compared with OpenBLAS.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]

mod kit;

use kit::{ALWAYS, OPENBLAS, OPENBLAS_64, REFERENCE, REFERENCE_64, kit};

fn family(name: &str, int: &str, fortran: &str, cblas: Option<&str>, link: &[&str]) {
    let kit = kit();
    let mut args = vec![format!("-DINT={int}"), format!("-DF(x)={fortran}")];
    if let Some(cblas) = cblas {
        args.extend([String::from("-DCBLAS"), format!("-DC(x)={cblas}")]);
    }
    args.extend(link.iter().map(ToString::to_string));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    for source in ["decode", "level2", "level3"] {
        let client = kit.compile(&format!("{source}.c"), &format!("{source}_{name}"), &args);
        let text = kit.passes(&kit.builtin, &client, &[OPENBLAS], &[ALWAYS]);
        assert!(text.contains(" 0 failures"), "{text}");
    }
}

/// The stubs and `is_small` agree on which calls of level 3 are too small to be decoded.
#[test]
fn floors_of_level_three() {
    let kit = kit();
    for (name, int, provider) in [("lp64", "int", OPENBLAS), ("ilp64", "long", OPENBLAS_64)] {
        let int = format!("-DINT={int}");
        let args = [&int, "-DF(x)=x##_", "-DCBLAS", "-DC(x)=cblas_##x", provider];
        let client = kit.compile("floor.c", &format!("floor_{name}"), &args);
        kit.passes(&kit.builtin, &client, &[], &[]);
    }
    let args = ["-DINT=int", "-DF(x)=x", builtin()];
    let client = kit.compile("floor.c", "floor_plain", &args);
    kit.passes(&kit.builtin, &client, &[], &[]);
}

fn builtin() -> &'static str {
    kit().builtin.to_str().expect("temporary paths are UTF-8")
}

#[test]
fn unsuffixed_lp64_with_openblas() {
    // OpenBLAS reports illegal arguments and returns; the reference would end the client.
    family(
        "under",
        "int",
        "x##_",
        Some("cblas_##x"),
        &["-DILLEGAL", OPENBLAS],
    );
}

#[test]
fn unsuffixed_lp64_with_the_reference() {
    family("under_ref", "int", "x##_", Some("cblas_##x"), &[REFERENCE]);
}

#[test]
fn unsuffixed_ilp64_with_openblas() {
    family("ilp64", "long", "x##_", Some("cblas_##x"), &[OPENBLAS_64]);
}

#[test]
fn unsuffixed_ilp64_with_the_reference() {
    family(
        "ilp64_ref",
        "long",
        "x##_",
        Some("cblas_##x"),
        &[REFERENCE_64],
    );
}

// No host BLAS has the following spellings: the library is linked as the program's BLAS, and finds the system's BLAS.

#[test]
fn openblas_suffix() {
    family(
        "suffix64_",
        "long",
        "x##_64_",
        Some("cblas_##x##64_"),
        &[builtin()],
    );
}

#[test]
fn mkl_suffix_and_no_underscore() {
    family("plain", "int", "x", None, &[builtin()]);
    family(
        "plain_64",
        "long",
        "x##_64",
        Some("cblas_##x##_64"),
        &[builtin()],
    );
}

#[test]
fn scipy_prefix() {
    family(
        "scipy",
        "int",
        "scipy_##x##_",
        Some("scipy_cblas_##x"),
        &[builtin()],
    );
    family(
        "scipy64",
        "long",
        "scipy_##x##_64_",
        Some("scipy_cblas_##x##64_"),
        &[builtin()],
    );
}
