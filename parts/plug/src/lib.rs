//! Joins a switch to an interface.
