//! A shared-memory switch: the process that hands out rings.
