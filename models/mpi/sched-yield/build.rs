//! Sets the soname of the library.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtombolo-yield.so");
    println!("cargo::rerun-if-changed=build.rs");
}
