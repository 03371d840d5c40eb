//! The hash FNV-1a and the generator SplitMix64: the same values on every machine and in every version.
//!
//! Addresses, names on the host, impairments and saved files follow from these values, so no value may ever
//! change. Nothing here is cryptographic: tokens and secret seeds come from the kernel (`netloom_sys::random`).

#![forbid(unsafe_code)]

pub mod fnv1a;
pub mod splitmix;
