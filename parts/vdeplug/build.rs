//! Links the plug-in so that it stays loaded: libvdeplug unloads a plug-in inside the call that closes
//! its connection, and code of Rust's runtime may still be asked to clean up after a thread.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
