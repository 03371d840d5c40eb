//! Any bytes as a segment of a recording and as its index: no panic, an end, an index that is made again alike, and frames
//! no longer than what they are made of.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netloom_sighting::{Block, Index, blocks, summary};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(index) = Index::decode(bytes) {
        assert_eq!(index.encode(), bytes);
    }
    let mut all = blocks(bytes, 0);
    let mut end = 0;
    while let Some(block) = all.next() {
        assert!(all.at() > end);
        end = all.at();
        let Block::Seen(seen) = block else { continue };
        assert!(seen.place <= seen.at);
        if let Ok(frame) = seen.frame(bytes) {
            assert!(frame.len() <= seen.own.len() + bytes.len());
            summary(&frame);
        }
    }
    assert_eq!(end + all.rest().len() as u64, bytes.len() as u64);
    if let Some(index) = Index::of(bytes) {
        assert_eq!(Index::decode(&index.encode()), Ok(index.clone()));
        assert!(index.end <= bytes.len() as u64);
        let part = &bytes[..index.end as usize];
        assert_eq!(Index::of(part), Some(index));
    }
});
