//! Programs drawn by proptest, which shrinks those that fail: each is played in a process of its own, under the library
//! that `FUZZ_LIBRARY` names, else without a preload.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a panic is how a test fails"
)]

use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use semcache_fuzz::drive::Runner;
use semcache_fuzz::program::{Kind, Op, Program};
use semcache_fuzz::setting::{GATES, Setting};

fn operation() -> impl Strategy<Value = Op> {
    (0u8..4, any::<u8>(), 0u8..6, any::<u32>()).prop_map(|(thread, kind, shared, seed)| Op {
        thread,
        kind: Kind::weighted(u64::from(kind)),
        shared: shared == 5,
        seed: u64::from(seed),
    })
}

fn program() -> impl Strategy<Value = Program> {
    (
        0u64..1 << 32,
        1usize..5,
        prop::collection::vec(operation(), 1..120),
    )
        .prop_map(|(seed, threads, ops)| Program { seed, threads, ops })
}

fn runner() -> Runner {
    Runner {
        player: PathBuf::from(env!("CARGO_BIN_EXE_semcache-fuzz")),
        library: std::env::var_os("FUZZ_LIBRARY").map(PathBuf::from),
        limit: Duration::from_secs(60),
        dir: std::env::temp_dir(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_program_does_what_it_must(program in program(), seed in any::<u64>()) {
        let gates: Vec<String> = GATES.iter().map(|&g| g.into()).collect();
        let setting = Setting::of_seed(seed, &gates, &|n| format!("sim:{n}"));
        let ending = runner().run(&program, &setting, None);
        prop_assert!(
            ending.fine,
            "{}: {}\nwithout the library it fails, too: {}",
            setting.text(), ending.said, runner().fails_plainly(&program),
        );
    }
}

/// A fuzzer that finds nothing proves nothing: a program with a wrong BLAS under it must fail.
#[test]
fn a_wrong_sum_is_found() {
    let program = Program::of_seed(1, 200);
    let mut runner = runner();
    runner.library = None;
    let wrong = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("wrong.so");
    let source = wrong.with_extension("c");
    std::fs::write(
        &source,
        "void dgemm_(void){} void sgemm_(void){} void cgemm_(void){} void zgemm_(void){}",
    )
    .unwrap();
    testkit::build::c(&source, &wrong, &["-shared", "-fPIC"]);
    let plain = runner.run(&program, &Setting(Vec::new()), None);
    assert!(plain.fine, "{}", plain.said);
    runner.library = Some(wrong);
    let ending = runner.run(&program, &Setting(Vec::new()), None);
    assert!(
        !ending.fine && ending.said.contains("DIFFERENCE"),
        "{}",
        ending.said
    );
}
