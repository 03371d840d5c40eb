//! All tests of the crate, as one module.

mod accounts;
mod kept;
mod labs;
mod pins;
mod properties;
mod quality;
mod seeds;
