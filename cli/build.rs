//! Links the command with libpthread and libdl, see `glibc-versions`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-bins={}", glibc_versions::LIBRARIES);
}
