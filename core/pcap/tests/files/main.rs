//! Capture files written, read, cut and shown to others' programs.

mod conformance;
mod cuts;
mod make;
mod peers;
mod round;
mod samples;
mod seeds;
