//! Reading maps of a lab file against tables of keys.

pub(crate) mod elsewhere;
mod fields;
pub(crate) mod table;
pub(crate) mod values;

pub(crate) use self::fields::{Fields, choice};
