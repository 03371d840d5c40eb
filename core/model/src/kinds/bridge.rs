//! A switch of kind `kernel`: a bridge of the Linux kernel in the lab's core namespace.
//!
//! It has no keys of its own. Its ports are interfaces of that namespace.

use crate::file::table::KindKeys;

/// The value of the key `kind`; the default.
pub(crate) const WORD: &str = "kernel";

/// Its keys.
pub(crate) const KEYS: KindKeys = KindKeys { kind: WORD, keys: &[] };

/// `BR_MAX_PORTS` of net/bridge/br_private.h minus port 0, which is not used.
pub(super) const MOST_PORTS: usize = 1023;
