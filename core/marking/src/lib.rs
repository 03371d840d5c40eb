//! Alternate marking (RFC 9341): blocks, hashes, matching, loss, delay and jitter.

#![forbid(unsafe_code)]
