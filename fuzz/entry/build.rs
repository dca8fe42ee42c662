//! The preloaded library, compiled with coverage, finds the fuzzer's functions in this program.

fn main() {
    println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol=__sanitizer_*");
}
