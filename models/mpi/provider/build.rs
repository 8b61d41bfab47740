//! Links the provider so that it is never unloaded: its threads may still run when libfabric calls `dlclose`.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtombolo-fi.so");
    println!("cargo::rerun-if-changed=build.rs");
}
