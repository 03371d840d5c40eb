//! The surroundings of a lab: the inits of its nodes, their namespaces, the host, and the points where frames of its
//! links can be caught. Knows only the room `store`.

pub(crate) mod absent;
pub(crate) mod addresses;
pub(crate) mod allowed;
pub(crate) mod attach;
pub(crate) mod hidden_tap;
pub(crate) mod host;
pub(crate) mod images;
pub(crate) mod inits;
pub(crate) mod lab_process;
pub(crate) mod occupants;
pub(crate) mod orphans;
pub mod recorder;
pub(crate) mod reports;
pub(crate) mod role;
pub(crate) mod socket_paths;
pub(crate) mod spaces;
pub(crate) mod stack;
pub(crate) mod strangers;
pub(crate) mod users;
