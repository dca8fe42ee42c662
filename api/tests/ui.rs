//! What must not compile, with the compiler's reasons. `TRYBUILD=overwrite cargo test -p semcache-api --test ui` writes these anew.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
