//! A switch of kind `kernel`: a bridge of the Linux kernel in the lab's core namespace.
//!
//! Its ports are interfaces of that namespace. With `stp` the ports that close loops are left out of it
//! (`Plan::is_blocked`).

use crate::file::table::{KindKeys, Value, key};

/// The value of the key `kind`; the default.
pub(crate) const WORD: &str = "kernel";

/// Its keys.
pub(crate) const KEYS: KindKeys = KindKeys {
    kind: WORD,
    keys: &[key(
        "stp",
        Value::Boolean,
        "true: those of its ports that close loops are blocked. Default false.",
    )],
};

/// `BR_MAX_PORTS` of net/bridge/br_private.h minus port 0, which is not used.
pub(super) const MOST_PORTS: usize = 1023;
