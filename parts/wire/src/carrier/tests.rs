//! A carrier between scripted ports: full, failing, lying.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use netloom_impair::Ledger;

/// What a scripted port does next, and the frames it was given.
#[derive(Default)]
struct Script {
    /// Frames to receive; `None` is one that fails.
    frames: VecDeque<Option<Vec<u8>>>,
    /// Outcomes of sent frames; done when empty.
    sent: VecDeque<Sent>,
    taken: Vec<Vec<u8>>,
}

struct Fake {
    script: Arc<Mutex<Script>>,
    fd: OwnedFd,
}

impl Port for Fake {
    fn receive(&mut self, buffer: &mut [u8]) -> netloom_port::Result<Received> {
        match self.script.lock().unwrap().frames.pop_front() {
            None => Ok(Received::Empty),
            Some(None) => Err(netloom_port::Error::Kind { kind: "a port", reason: "made up" }),
            Some(Some(frame)) => {
                buffer[..frame.len()].copy_from_slice(&frame);
                Ok(Received::Frame { start: 0, length: frame.len() })
            }
        }
    }

    fn send(&mut self, frame: &[u8]) -> netloom_port::Result<Sent> {
        let mut script = self.script.lock().unwrap();
        let sent = script.sent.pop_front().unwrap_or(Sent::Done);
        if sent == Sent::Done {
            script.taken.push(frame.to_vec());
        }
        Ok(sent)
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn overruns(&mut self) -> Option<u64> {
        None
    }
}

/// A carrier with the script of both its ports.
fn carrier(impairments: &Impairments) -> (Carrier, Arc<Mutex<Script>>) {
    let script = Arc::new(Mutex::new(Script::default()));
    let port = || {
        let fd = std::fs::File::open("/dev/null").unwrap().into();
        Box::new(Fake { script: script.clone(), fd })
    };
    (Carrier::new(port(), port(), impairments, None, 1), script)
}

fn frame(number: u8) -> Vec<u8> {
    let mut frame = vec![0; HEADER + 60];
    frame[HEADER + 14] = number;
    frame
}

fn numbers(script: &Mutex<Script>) -> Vec<u8> {
    script.lock().unwrap().taken.iter().map(|f| f[HEADER + 14]).collect()
}

fn come(script: &Mutex<Script>, frames: impl IntoIterator<Item = Vec<u8>>) {
    script.lock().unwrap().frames.extend(frames.into_iter().map(Some));
}

fn ledger(carrier: &mut Carrier) -> Ledger {
    let ledger = carrier.state().ledger;
    assert!(ledger.closes(), "{ledger:?}");
    ledger
}

#[test]
fn a_full_output_stops_those_behind_and_loses_nothing() {
    let (mut carrier, script) = carrier(&Impairments::default());
    come(&script, (0..20).map(frame));
    script.lock().unwrap().sent = [Sent::Done, Sent::Done, Sent::Full].into();
    carrier.read(&mut Tools::default());
    assert!(carrier.is_blocked());
    assert_eq!((numbers(&script), carrier.next()), (vec![0, 1], None));
    assert_eq!(ledger(&mut carrier).held.packets, 18);
    // Writable for one frame only.
    script.lock().unwrap().sent = [Sent::Done, Sent::Full].into();
    carrier.unblock();
    carrier.send_due();
    assert!(carrier.is_blocked());
    carrier.unblock();
    carrier.send_due();
    assert_eq!(numbers(&script), (0..20).collect::<Vec<_>>());
    assert!(carrier.is_empty() && !carrier.is_blocked());
    assert_eq!(ledger(&mut carrier).sent.packets, 20);
}

#[test]
fn what_the_other_side_does_not_take_is_counted() {
    let (mut carrier, script) = carrier(&Impairments::default());
    come(&script, (0..5).map(frame));
    script.lock().unwrap().sent = [Sent::NoRoom, Sent::Refused, Sent::Down, Sent::Gone].into();
    carrier.read(&mut Tools::default());
    assert_eq!(numbers(&script), [4]);
    assert_eq!(ledger(&mut carrier).lost.of(Cause::Refused).packets, 4);
}

#[test]
fn frames_that_are_none_are_counted() {
    let (mut carrier, script) = carrier(&Impairments { mtu: Some(1500), ..Default::default() });
    let mut unknown = frame(1);
    unknown[1] = 0x7f;
    let mut lying = frame(2);
    // Claims to be a TCP super-frame, and is none.
    lying[1] = 1;
    lying[4] = 100;
    come(&script, [vec![], vec![0; HEADER - 1], unknown, lying, vec![0; HEADER], frame(3)]);
    carrier.read(&mut Tools::default());
    let ledger = ledger(&mut carrier);
    assert_eq!(ledger.lost.of(Cause::Malformed).packets, 4);
    assert_eq!(ledger.sent.packets, 2);
}

#[test]
fn an_input_that_keeps_failing_is_given_up() {
    let (mut carrier, script) = carrier(&Impairments::default());
    for _ in 0..MOST_FAILURES - 1 {
        script.lock().unwrap().frames.push_back(None);
        assert!(!carrier.read(&mut Tools::default()));
    }
    come(&script, [frame(1)]);
    carrier.read(&mut Tools::default());
    assert!(carrier.is_reading(), "one that works in between is not such an input");
    script.lock().unwrap().frames.extend((0..100).map(|_| None));
    while carrier.is_reading() {
        carrier.read(&mut Tools::default());
    }
    let state = carrier.state();
    assert!(state.input_gone);
    assert!(state.trouble.unwrap().contains("made up"));
    assert_eq!(script.lock().unwrap().frames.len(), 100 - 16);
}

#[test]
fn what_is_held_is_bounded() {
    let delay = Duration::from_secs(10);
    let (mut carrier, script) = carrier(&Impairments { delay, ..Impairments::default() });
    let count = MOST_HELD / 1024 + 500;
    for _ in 0..count {
        come(&script, [vec![0; 1024]]);
        carrier.read(&mut Tools::default());
    }
    let ledger = ledger(&mut carrier);
    assert_eq!(ledger.offered.packets, count);
    let wanted = MOST_HELD / (1024 + OVERHEAD);
    assert_eq!((ledger.held.packets, ledger.sent.packets), (wanted, 0));
    assert_eq!(ledger.lost.of(Cause::Memory).packets, count - wanted);
    carrier.lose_held();
    assert!(carrier.is_empty());
    assert_eq!(carrier.state().ledger.lost.of(Cause::Closed).packets, wanted);
    assert_eq!(carrier.state().held_bytes, 0);
}

#[test]
fn a_copy_leaves_right_behind() {
    let twice = netloom_impair::Share::ALL;
    let (mut carrier, script) = carrier(&Impairments { duplicate: twice, ..Default::default() });
    come(&script, (0..3).map(frame));
    carrier.read(&mut Tools::default());
    carrier.send_due();
    assert_eq!(numbers(&script), [0, 0, 1, 1, 2, 2]);
    let ledger = ledger(&mut carrier);
    assert_eq!((ledger.sent.packets, ledger.duplicated.packets), (6, 3));
}
