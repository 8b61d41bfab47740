//! Aeron's C library consists of LTO objects, which GCC's own linker reads and lld does not.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_AERON").is_some() {
        println!("cargo::rustc-link-arg-bins=-fuse-ld=bfd");
    }
}
