//! How many frames a second one core gives to an interface.
//!
//! `rate INDEX SECONDS BATCH [direct]`, in the caller's network namespace. The frames are of 60 bytes,
//! to everybody, of IEEE 802's protocol for local experiments.

use std::time::{Duration, Instant};

use netloom_rawsock::{Frames, Path, Sender};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [index, seconds, batch, rest @ ..] = args.as_slice() else {
        return Err("rate INDEX SECONDS BATCH [direct]".into());
    };
    let path = if rest.is_empty() { Path::Queue } else { Path::Direct };
    let time = Duration::from_secs_f64(seconds.parse()?);
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame.resize(60, 0);
    let mut frames = Frames::round(&[&frame], batch.parse()?)?;
    let mut sender = Sender::open(index.parse()?, path)?;
    let start = Instant::now();
    while start.elapsed() < time {
        sender.send(&mut frames)?;
    }
    let (tally, took) = (sender.tally(), start.elapsed());
    let each = took.as_nanos() / u128::from(tally.offered().max(1));
    println!("{path:?}, {batch} a call: {each} ns a frame, {} refused", tally.refused);
    Ok(())
}
