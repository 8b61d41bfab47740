//! Sets the soname of the shared library, under which the dynamic linker finds it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtombolo.so.0");
}
