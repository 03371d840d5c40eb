//! libpcap where the machine has it: filter expressions compiled, frames captured for comparison.
//!
//! The library is opened when it is first needed (`libpcap.so.1`, else `libpcap.so.0.8`) and stays open
//! until the process ends; nothing of it is needed to build. Where it is missing everything here answers
//! [`Error::Unsupported`], which names the package.
//!
//! [`compile`] gives a checked program for Ethernet frames. [`Live`] captures by libpcap's own engine;
//! netloom has faster ones. What is not bound here is not used: files, lists of interfaces, sending.

mod compile;
mod error;
mod library;
mod live;

pub use compile::{compile, offline_filter};
pub use error::{Error, Result};
pub use live::{Breaker, Frame, Live, LiveOptions, Statistics, Taken};

/// The version of the library that is found, in its own words.
///
/// # Errors
///
/// [`Error::Unsupported`] without the library.
pub fn version() -> Result<String> {
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
