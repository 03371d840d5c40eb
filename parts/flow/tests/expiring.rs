//! Entries end when their time has come, with the counters that they had.

use netloom_kit::isolated;
use netloom_openflow::flow::{FlowCommand, RemovedReason};
use netloom_openflow::{FlowRemoved, Message};

use super::world::{Listening, Peer, Switch, controller, frame, raise_lo, wait};
use netloom_openflow::Version;

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

fn removed(peer: &mut Peer) -> FlowRemoved {
    peer.hear(|_, message| match message {
        Message::FlowRemoved(removed) => Some(removed.clone()),
        _ => None,
    })
}

#[test]
fn timeouts_remove_entries_and_say_what_they_counted() {
    isolated!({
        raise_lo();
        let listening = Listening::new();
        let switch = Switch::with(|told| told.controllers = vec![controller(&listening.target())]);
        let mut peer = listening.accept(Version::V13);
        let [mut a, mut b] = switch.nodes();
        peer.add("in_port=1,cookie=1,hard_timeout=2,send_flow_rem,actions=output:2");
        peer.add("in_port=2,cookie=2,idle_timeout=1,send_flow_rem,actions=output:1");
        peer.barrier();
        let sent = frame("dl_src=02:00:00:00:00:01,udp");
        for _ in 0..7 {
            a.send(&sent);
        }
        let idle = removed(&mut peer);
        assert_eq!((idle.cookie, idle.reason, idle.packets), (2, RemovedReason::IdleTimeout, 0));
        let hard = removed(&mut peer);
        assert_eq!((hard.cookie, hard.reason), (1, RemovedReason::HardTimeout));
        assert_eq!((hard.packets, hard.bytes), (7, 7 * 60));
        assert!(idle.duration.seconds >= 1 && hard.duration.seconds >= 2, "{idle:?} {hard:?}");
        assert!(peer.flows().is_empty());
        for _ in 0..7 {
            b.expect(&sent);
        }
    });
}

/// The process looks when the time comes: half of the entries are gone within 10 ms, and as much later as it had to wait for a
/// processor.
#[test]
fn entries_end_within_ten_milliseconds_of_their_time() {
    isolated!({
        raise_lo();
        let listening = Listening::new();
        let switch = Switch::with(|told| told.controllers = vec![controller(&listening.target())]);
        let mut peer = listening.accept(Version::V13);
        let before = netloom_kit::waited(switch.pid());
        for port in 0..21 {
            peer.add(&format!("udp,tp_dst={port},hard_timeout=1,send_flow_rem,actions=drop"));
            peer.barrier();
        }
        let mut late: Vec<u64> = (0..21)
            .map(|_| {
                let gone = removed(&mut peer);
                assert_eq!(gone.reason, RemovedReason::HardTimeout);
                let lived = gone.duration;
                let nanoseconds = u64::from(lived.seconds) * SECOND + u64::from(lived.nanoseconds);
                assert!(nanoseconds >= SECOND, "{gone:?}");
                nanoseconds - SECOND
            })
            .collect();
        late.sort_unstable();
        let waited = netloom_kit::waited(switch.pid()).saturating_sub(before);
        let most = u64::try_from(waited.as_nanos()).expect("not for centuries") + SECOND / 100;
        assert!(late[10] <= most, "{late:?} ns, {waited:?} without a processor");
    });
}

#[test]
fn a_packet_keeps_an_entry_and_deleting_counts_exactly() {
    isolated!({
        raise_lo();
        let listening = Listening::new();
        let switch = Switch::with(|told| told.controllers = vec![controller(&listening.target())]);
        let mut peer = listening.accept(Version::V13);
        let [mut a, _b] = switch.nodes();
        peer.add("in_port=1,idle_timeout=2,send_flow_rem,actions=output:2");
        peer.add("in_port=2,hard_timeout=4,cookie=9,send_flow_rem,actions=drop");
        peer.barrier();
        let sent = frame("dl_src=02:00:00:00:00:01,udp");
        // One packet every tenth of a second, until longer has passed than it would live without.
        let mut count = 0;
        wait("four seconds of packets", || {
            a.send(&sent);
            count += 1;
            wait("it is counted", || {
                (switch.show().ports[0].counters["received-packets"] == count).then_some(())
            });
            let age = switch.control().tables(None).unwrap();
            let entries = age.tables.first().map(|table| table.entries.clone())?;
            entries.iter().any(|entry| entry.age_ms > 3900).then_some(())
        });
        peer.flow(FlowCommand::Delete, "in_port=1");
        let gone = peer.hear(|_, message| match message {
            Message::FlowRemoved(gone) if gone.cookie == 0 => Some(gone.clone()),
            _ => None,
        });
        assert_eq!((gone.reason, gone.packets), (RemovedReason::Delete, count));
    });
}
