//! Makes a plan real: inits, links, addresses, routes, programs. Keepers make what only some links need; this room
//! knows only their trait.

pub(crate) mod binds;
pub(crate) mod carrying;
pub(crate) mod configure;
pub(crate) mod keeper;
pub(crate) mod links;
pub(crate) mod machines;
pub(crate) mod maker;
pub(crate) mod routers;
pub(crate) mod starting;
