//! Writes core/filter/tests/expressions.txt again, by the libpcap that is here.
//!
//! `cargo run -p netloom-libpcap --example record-expressions`

#[path = "../../../core/filter/tests/support/mod.rs"]
mod support;

use netloom_libpcap::compile;
use support::recorded;

fn main() {
    let record = |expression: String| {
        let program = compile(&expression, recorded::SNAPLEN);
        let program = program.unwrap_or_else(|e| panic!("{expression}: {e}"));
        (expression, program)
    };
    let programs: Vec<_> = recorded::expressions().into_iter().map(record).collect();
    recorded::write(&programs);
}
