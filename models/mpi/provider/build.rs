//! The library stays loaded once it is: threads of it may still run when libfabric lets it go.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtombolo-fi.so");
    println!("cargo::rerun-if-changed=build.rs");
}
