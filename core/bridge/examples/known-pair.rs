//! The cost of learning and looking up a known pair of addresses: picoseconds for tables of 1, 8 and 1024.

use std::hint::black_box;
use std::time::Instant;

use netloom_bridge::{Learned, Mac, MacTable};

const ROUNDS: usize = 20_000_000;

fn main() {
    let mut table = MacTable::new(4096, 300, 7);
    let macs: Vec<Mac> = (0..1024_u16)
        .map(|n| {
            let [high, low] = n.to_be_bytes();
            Mac([2, 0, 0, 0, high, low])
        })
        .collect();
    for mac in &macs {
        table.learn(None, *mac, 1, 0);
    }
    for pairs in [1, 8, 1024] {
        let before = Instant::now();
        let mut hits = 0;
        for n in 0..ROUNDS {
            let n = black_box(n);
            let (from, to) = (macs[n & (pairs - 1)], macs[(n + 1) & (pairs - 1)]);
            hits += usize::from(table.learn(None, from, 1, 0) == Learned::Same);
            hits += usize::from(table.lookup(None, to, 0).is_some());
        }
        let each = before.elapsed() / u32::try_from(ROUNDS / 1000).unwrap_or(1);
        println!("{pairs} pairs: {} ps for learn and lookup ({hits} hits)", each.as_nanos());
    }
}
