//! Tests of the binding: which function of which BLAS library a call reaches.
#![allow(
    clippy::disallowed_methods,
    reason = "a test program, not the library in a user's process"
)]

mod kit;

use kit::{ALWAYS, OPENBLAS, REFERENCE, kit, symbols};

#[test]
fn every_spelling_reaches_its_namesake_untouched() {
    let kit = kit();
    let names = kit.dir.join("names.h");
    let lines: String = symbols()
        .into_iter()
        .map(|(name, offload, any)| {
            format!("X({name}, {}, {})\n", u8::from(offload), u8::from(any))
        })
        .collect();
    std::fs::write(&names, &lines).expect("the directory is ours");
    let names = format!("-DNAMES=\"{}\"", names.display());
    let provider = kit.compile(
        "spelling.c",
        "libmock.so",
        &["-shared", "-fPIC", "-DPROVIDER", &names],
    );
    let provider = provider.to_str().expect("UTF-8");
    let client = kit.compile("spelling.c", "spelling", &[&names, provider]);
    let count = format!("{} symbols, 0 failures", symbols().len());
    for env in [&[][..], &[ALWAYS]] {
        let text = kit.passes(&kit.library, &client, &[], env);
        assert!(text.contains(&count), "{text}");
    }
}

#[test]
fn exports_are_what_the_list_says() {
    let output = std::process::Command::new("nm")
        .args(["-D", "--defined-only", "--format=just-symbols"])
        .arg(kit().library.as_path())
        .output()
        .expect("nm is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    let exported: std::collections::HashSet<&str> = text.lines().collect();
    let missing: Vec<_> = symbols()
        .into_iter()
        .filter(|(name, ..)| !exported.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    for name in [
        "xerbla_",
        "cblas_xerbla",
        "lsame_",
        "rust_eh_personality",
        "dmax",
        "dsum",
    ] {
        assert!(!exported.contains(name), "{name}");
    }
    let (fortran, cblas) = include_str!("../symbols.txt")
        .split("# Extensions")
        .next()
        .expect("a first part")
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .fold((0, 0), |(f, c), line| {
            let spellings = line.split_whitespace().last().unwrap_or("");
            (
                f + usize::from(spellings.contains('f')),
                c + usize::from(spellings.contains('c')),
            )
        });
    assert_eq!((fortran, cblas), (148, 148));
}

#[test]
fn private_libraries_serve_their_own_callers() {
    let kit = kit();
    let mut plugins = Vec::new();
    for which in ["1", "2"] {
        let provider = kit.compile(
            "private.c",
            &format!("libprovider{which}.so"),
            &["-shared", "-fPIC", &format!("-DPROVIDER={which}")],
        );
        let plugin = kit.compile(
            "private.c",
            &format!("plugin{which}.so"),
            &[
                "-shared",
                "-fPIC",
                &format!("-DPLUGIN={which}"),
                provider.to_str().expect("UTF-8"),
            ],
        );
        plugins.push(plugin.to_str().expect("UTF-8").to_owned());
    }
    let pointer = kit.compile(
        "private.c",
        "pointer.so",
        &["-shared", "-fPIC", "-DPOINTER"],
    );
    let client = kit.compile("private.c", "private", &[]);
    let args = [
        plugins[0].as_str(),
        plugins[1].as_str(),
        pointer.to_str().expect("UTF-8"),
    ];
    kit.passes(&kit.library, &client, &args, &[]);
    kit.passes(&kit.builtin, &client, &args, &[]);
}

#[test]
fn xerbla_may_jump_out_of_the_call() {
    let kit = kit();
    for (name, library) in [("xerbla_ref", REFERENCE), ("xerbla_openblas", OPENBLAS)] {
        let client = kit.compile("xerbla.c", name, &["-rdynamic", library]);
        kit.passes(&kit.library, &client, &[], &[]);
        kit.passes(&kit.builtin, &client, &[], &[ALWAYS]);
    }
}

#[test]
fn complex_results_through_a_hidden_argument() {
    let kit = kit();
    let provider = kit.compile(
        "hidden.c",
        "libhidden.so",
        &["-shared", "-fPIC", "-DPROVIDER"],
    );
    let builtin = kit.builtin.to_str().expect("UTF-8");
    let client = kit.compile(
        "hidden.c",
        "hidden",
        &[provider.to_str().expect("UTF-8"), builtin],
    );
    kit.passes(&kit.builtin, &client, &[], &[ALWAYS]);
}

#[test]
fn what_the_host_calls_back_stays_there() {
    let kit = kit();
    let builtin = kit.builtin.to_str().expect("UTF-8");
    let client = kit.compile("nested.c", "nested", &[REFERENCE, builtin]);
    kit.passes(&kit.builtin, &client, &[], &[ALWAYS]);
}

#[test]
fn missing_and_foreign_names() {
    let kit = kit();
    let own = kit.compile("alone.c", "libown.so", &["-shared", "-fPIC", "-DOWN"]);
    let library = kit.library.to_str().expect("UTF-8");
    let client = kit.compile("alone.c", "alone", &[own.to_str().expect("UTF-8"), library]);
    for env in [&[][..], &[ALWAYS]] {
        let output = kit.run(&kit.library, &client, &[], env);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{:?} {text}", output.status);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(
            text.starts_with("semcache: no BLAS has cblas_damin"),
            "{text}"
        );
    }
}

#[test]
fn the_user_may_name_the_host() {
    let kit = kit();
    let provider = kit.compile(
        "private.c",
        "libnamed.so",
        &["-shared", "-fPIC", "-DPROVIDER=5"],
    );
    let plugin = kit.compile(
        "private.c",
        "plugin5.so",
        &["-shared", "-fPIC", "-DPLUGIN=5", OPENBLAS],
    );
    let source = kit.dir.join("named.c");
    std::fs::write(
        &source,
        "double ask_dot(void); int main(void) { return ask_dot() != 5; }",
    )
    .expect("the directory is ours");
    let client = kit.compile_file(&source, "named", &[plugin.to_str().expect("UTF-8")]);
    let host = ("SEMCACHE_HOST_BLAS", provider.to_str().expect("UTF-8"));
    kit.passes(&kit.library, &client, &[], &[host]);
    assert!(!kit.run(&kit.library, &client, &[], &[]).status.success());
    let missing = kit.run(
        &kit.library,
        &client,
        &[],
        &[("SEMCACHE_HOST_BLAS", "/nowhere.so")],
    );
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot open"));
}

#[test]
fn a_small_call_costs_little() {
    let kit = kit();
    let client = kit.compile("overhead.c", "overhead", &[OPENBLAS]);
    // The difference is measured in calls of an empty function on this machine. Other processes may disturb it, so the
    // best of a few tries counts.
    let mut worst = f64::INFINITY;
    for _ in 0..5 {
        let text = kit.passes(&kit.library, &client, &[OPENBLAS], &[]);
        let most = text
            .lines()
            .filter_map(|line| line.split_whitespace().last()?.parse::<f64>().ok())
            .fold(f64::NEG_INFINITY, f64::max);
        worst = worst.min(most);
        if worst < 7.0 {
            return;
        }
    }
    panic!("{worst} empty calls over the host's own entry");
}
