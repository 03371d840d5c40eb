//! How the binary is linked.
//!
//! A development build lies at a fixed address. An end-to-end test starts it some 25 times. A position-independent one has
//! 640 pages of relocations, which each process writes and each fork copies: 5.5 ms of processor time a start instead of 3.0.
//! The installed binary keeps its random address, and has functions of equal code once: readers and writers of JSON for each
//! type, for the most part.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).as_deref() == Ok(value);
    // Static programs are linked in another way.
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let is_static = features.split(',').any(|feature| feature == "crt-static");
    if is("PROFILE", "debug") && is("CARGO_CFG_TARGET_ENV", "gnu") && !is_static {
        println!("cargo::rustc-link-arg=-no-pie");
    }
    // Rust brings this linker for this target alone.
    let with_lld = is("CARGO_CFG_TARGET_ARCH", "x86_64") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if is("PROFILE", "release") && with_lld {
        println!("cargo::rustc-link-arg=-Wl,--icf=all");
    }
}
