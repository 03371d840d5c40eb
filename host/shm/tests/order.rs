//! The order of what comes by the switch and by a new edge.

use super::port_hand;

use netloom_shm::ring::Pushed;
use port_hand::{ALL, Hand, acquainted, frame, mac, take};

#[test]
fn what_is_flooded_later_does_not_keep_a_new_edge_waiting() {
    let times = netloom_kit::rounds(1);
    (0..times).for_each(|_| overtake());
    netloom_kit::done(
        "frames by a new edge behind one that the switch relays, before 200 that it floods",
        times,
    );
}

fn overtake() {
    let hand = Hand::new("later");
    let [(mut a, mut at), (mut b, mut bt)] = acquainted(&hand);
    a.send(&frame(mac(9), mac(1), b"relayed")).expect("send");
    a.send(&frame(mac(2), mac(1), b"by the edge")).expect("send");
    hand.open(&mut at, &mut bt);
    a.service().expect("service");
    b.service().expect("service");
    for n in 0..200 {
        assert_eq!(bt.down.queue(7, &frame(ALL, mac(7), &[n])), Pushed::Done);
    }
    bt.down.flush();
    let frames: Vec<_> = std::iter::from_fn(|| take(&mut b)).collect();
    let place = |wanted: &[u8]| frames.iter().position(|frame| frame == wanted).expect("a frame");
    assert_eq!(frames.len(), 202);
    assert_eq!(place(&frame(mac(9), mac(1), b"relayed")), 0);
    let by_edge = place(&frame(mac(2), mac(1), b"by the edge"));
    assert!(by_edge < place(&frame(ALL, mac(7), &[199])), "{by_edge} of 202");
}
