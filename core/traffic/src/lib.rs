//! What a generator sends and what a receiver finds of it.

#![forbid(unsafe_code)]
