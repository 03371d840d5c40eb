//! Any frame as a receiver of stamped frames reads it, and any words of a sender.
#![no_main]

use libfuzzer_sys::fuzz_target;
use netloom_traffic::{NOTICE, Notice, Receiver, Start};

fuzz_target!(|bytes: &[u8]| {
    Receiver::with_window(Start::Zero, 64).frame(bytes, 1);
    let mut frame = bytes.to_vec();
    netloom_traffic::stamp(&mut frame, 1, 2, 3);
    if let Some(notice) = bytes.first_chunk::<NOTICE>().and_then(Notice::read) {
        assert_eq!(Notice::read(&notice.bytes()), Some(notice));
    }
});
