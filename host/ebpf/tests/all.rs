//! Tests of this crate against the kernel and with others' programs, in one executable.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "helpers are shared by modules that use some of them"
)]

mod capture;
mod compilers;
mod filter;
#[path = "../../../core/filter/tests/support/mod.rs"]
mod filter_support;
#[path = "../../../core/pipeline/tests/bench.rs"]
mod flow_bench;
mod flow_beside;
mod flow_edits;
#[path = "../../../core/pipeline/tests/frames.rs"]
mod flow_frames;
mod flow_keys;
mod flow_live;
mod flow_many;
mod flow_straight;
mod flow_traffic;
mod generate;
mod measure;
mod measure_paths;
mod measure_support;
mod measure_xdp;
mod protect;
mod sockets;
mod support;
#[path = "measure_support/traffic.rs"]
mod traffic;
mod wire;
