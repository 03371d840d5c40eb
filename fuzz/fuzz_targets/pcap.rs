//! Any bytes as a capture file: no panic, an end, packets of interfaces that are known, and a file
//! that is cut says what the whole one says, as far as it goes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netloom_pcap::Error;
use netloom_pcap::read::{Item, Reader};
use netloom_pcap::run;

/// Every item in words with the byte behind it, up to the first error.
fn read(bytes: &[u8]) -> (Vec<(u64, String)>, Option<Error>) {
    let mut said = Vec::new();
    let mut reader = match Reader::new(bytes) {
        Ok(reader) => reader,
        Err(error) => return (said, Some(error)),
    };
    loop {
        let words = match reader.next() {
            Ok(Some(item)) => format!("{item:?}"),
            Ok(None) => return (said, None),
            Err(error) => return (said, Some(error)),
        };
        said.push((reader.offset(), words));
    }
}

/// Goes on behind errors, to the end, which comes.
fn walk(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(bytes) else { return };
    // A classic file says two items before its first record.
    for _ in 0..bytes.len() + 3 {
        match reader.next() {
            Ok(None) => return,
            Ok(Some(Item::Packet(packet))) => {
                let interface = packet.interface as usize;
                assert!(interface < reader.interfaces().len());
            }
            Ok(Some(_)) | Err(_) => {}
        }
    }
    panic!("no end");
}

fuzz_target!(|bytes: &[u8]| {
    walk(bytes);
    let (said, error) = read(bytes);
    let cut = bytes.len() * 2 / 3;
    let (less, _) = read(&bytes[..cut]);
    assert_eq!(less, said[..less.len()]);
    let whole = said.iter().filter(|(end, _)| *end <= cut as u64).count();
    assert_eq!(less.len(), whole);
    if let Some(Error::Cut { at } | Error::Malformed { at, .. } | Error::Version { at, .. }) = error
    {
        assert_eq!(at, said.last().map_or(0, |(end, _)| *end));
    }
    let mut records = run::records(bytes);
    let gone: usize = records.by_ref().map(|record| record.bytes.len()).sum();
    assert_eq!(&bytes[gone..], records.rest());
});
