//! The socket against the real kernel, with requests that any user may send and that always fail.

use super::*;
use crate::DeleteLink;

/// No interface has so high an index: refused as absent or, for an ordinary user, as not permitted.
const NOBODY: u32 = 0x7fff_f000;

#[test]
fn no_refusal_is_lost_with_small_buffers() {
    let mut socket = Socket::open_with(None, 32 << 10).unwrap();
    assert!((10..100).contains(&socket.chunk_count), "{}", socket.chunk_count);
    assert!(socket.chunk_bytes <= 64 << 10);
    let mut batch = Batch::new();
    for number in 0..2_000 {
        batch.push(number.to_string(), &DeleteLink::new(NOBODY));
    }
    let error = socket.run(&mut batch).unwrap_err();
    let objects: Vec<_> = error.refusals().iter().map(|failure| &*failure.object).collect();
    assert_eq!(objects, (0..2_000).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[test]
fn sequence_numbers_may_wrap() {
    let mut socket = Socket::open().unwrap();
    socket.sequence = u32::MAX - 3;
    let mut batch = Batch::new();
    for number in 0..8 {
        batch.push(number.to_string(), &DeleteLink::new(NOBODY));
    }
    assert_eq!(socket.run(&mut batch).unwrap_err().refusals().len(), 8);
    assert_eq!(socket.sequence, 4);
}

#[test]
fn anyone_may_ask() {
    let mut socket = Socket::open().unwrap();
    assert!(socket.links().unwrap().iter().any(|link| link.name == "lo" && link.index == 1));
    assert_eq!(socket.link(NOBODY).unwrap(), None);
    assert_eq!(socket.index_of("lo").unwrap(), 1);
}
