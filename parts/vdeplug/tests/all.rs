//! Tests of this crate against the kernel and with others' programs, in one executable.

mod abi;
mod coming_back;
mod library;
mod libvdeplug;
#[path = "../../../host/shm/tests/port_hand/mod.rs"]
mod port_hand;
