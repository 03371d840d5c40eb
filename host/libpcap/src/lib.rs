//! libpcap, if installed: compiles filter expressions, captures frames for comparison.
//!
//! The library is opened on first use (`libpcap.so.1`, else `libpcap.so.0.8`) and stays open until
//! the process ends; building needs nothing of it. Without it, everything here returns
//! [`Error::Unsupported`], which names the package.
//!
//! [`compile`] gives a checked program for Ethernet frames, [`compile_bounded`] one of an expression that may be
//! anybody's. [`Live`] captures by libpcap's own
//! engine; netloom has faster ones. Unused parts are not bound: files, interface lists, sending.

mod compile;
mod error;
mod library;
mod live;

pub use compile::{MOST_BOUNDED, MOST_WORDS, compile, compile_bounded, offline_filter};
pub use error::{Error, Result};
pub use live::{Breaker, Frame, Live, LiveOptions, Statistics, Taken};

/// The version of the library found, in its own words.
///
/// # Errors
///
/// Without the library: the package to install.
pub fn version() -> std::result::Result<String, netloom_sys::Unsupported> {
    let library = library::get()?;
    // SAFETY: takes nothing and gives a constant string that ends in a zero byte.
    let text = unsafe { (library.pcap_lib_version)() };
    // SAFETY: as above; the library is never closed.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    Ok(text.to_string_lossy().into_owned())
}

#[cfg(test)]
extern crate self as netloom_libpcap;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;
