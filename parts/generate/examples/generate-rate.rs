//! How fast, and how exactly, smallest frames are given to an interface.
//!
//! `rate INDEX auto|live|ring RATE SECONDS [SIZES [CLOCK_EVERY [BATCH]]]`, in the caller's network namespace:
//! rates as `max` or `100kpps`. Prints the report.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use netloom_generate::{Engine, Generator, Spec, Target};
use netloom_traffic::Addresses;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [index, engine, rate, seconds, rest @ ..] = args.as_slice() else {
        return Err("rate INDEX auto|live|ring RATE SECONDS [SIZES [CLOCK_EVERY [BATCH]]]".into());
    };
    let engine = match engine.as_str() {
        "live" => Engine::LiveFrames,
        "ring" => Engine::Ring,
        _ => Engine::Auto,
    };
    let mut spec = Spec::new(Addresses::example(false));
    spec.rate = rate.parse()?;
    spec.duration = Some(Duration::from_secs_f64(seconds.parse()?));
    if let Some(sizes) = rest.first() {
        spec.sizes = sizes.parse()?;
    }
    if let Some(every) = rest.get(1) {
        spec.batch.1 = every.parse()?;
    }
    if let Some(batch) = rest.get(2) {
        spec.batch.0 = batch.parse()?;
    }
    let target = Target::Interface { index: index.parse()?, far: None };
    let report = Generator::open(target, engine, spec)?.run(&AtomicBool::new(false))?;
    println!("{report:#?}");
    Ok(())
}
