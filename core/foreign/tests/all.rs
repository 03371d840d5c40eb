//! The tests of this crate, in one executable: look-alikes of known labs in `labs/`, and what imports make of them.

mod account;
mod containerlab;
mod kathara;
mod labs;
mod others;
