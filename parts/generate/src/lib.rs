//! Generate and replay: frames at exact rates, and what became of them.

#![forbid(unsafe_code)]
