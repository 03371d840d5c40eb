//! Making what a plan says: inits, links, addresses, routes, programs. What only some links need is made by keepers,
//! of which only the trait is known here.

pub(crate) mod carrying;
pub(crate) mod configure;
pub(crate) mod keeper;
pub(crate) mod links;
pub(crate) mod maker;
pub(crate) mod starting;
