//! A station that is a port of our own library, in the test's process.

use std::time::Instant;

use netloom_shm::{HEADER, JoinOptions, Received, Sent, SwitchPort};

use crate::{SOON, Switch};

/// A port of a switch.
#[derive(Debug)]
pub struct Station {
    port: SwitchPort,
    buffer: Vec<u8>,
}

impl Station {
    /// Joins; frames come as they are on a cable.
    ///
    /// # Panics
    /// When it is refused.
    pub fn join(switch: &Switch, name: &str) -> Station {
        let mut options = JoinOptions::new(switch.socket(), name);
        options.super_frames = false;
        options.checksums = false;
        options.reconnect = false;
        let port = SwitchPort::join(&options).expect("join the switch");
        Station { port, buffer: vec![0; 128 << 10] }
    }

    /// Sends a frame.
    ///
    /// # Panics
    /// When it is not sent.
    pub fn send(&mut self, frame: &[u8]) {
        let whole = [&[0; HEADER][..], frame].concat();
        assert_eq!(self.port.send(&whole).expect("send"), Sent::Done);
    }

    /// Does what the switch has asked for: a frame that was sent may wait for that.
    ///
    /// # Panics
    /// When it cannot be done.
    pub fn serve(&mut self) {
        self.port.service().expect("serve the port");
    }

    /// The next frame, if it is there.
    ///
    /// # Panics
    /// When the switch is gone.
    pub fn receive_at_once(&mut self) -> Option<Vec<u8>> {
        match self.port.receive(&mut self.buffer).expect("receive") {
            Received::Frame { start, length } => {
                Some(self.buffer[start + HEADER..start + length].to_vec())
            }
            Received::Gone => panic!("the switch is gone"),
            Received::Empty | Received::Truncated => None,
        }
    }

    /// The next frame.
    ///
    /// # Panics
    /// When none comes soon.
    pub fn receive(&mut self) -> Vec<u8> {
        self.receive_where("any", |_| true)
    }

    /// The next frame that is looked for; others are passed over.
    ///
    /// # Panics
    /// When none comes soon.
    pub fn receive_where(&mut self, what: &str, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let end = Instant::now() + SOON;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited {SOON:?} in vain for a frame: {what}");
            match self.port.receive_wait(&mut self.buffer, Some(left)).expect("receive") {
                Received::Frame { start, length } => {
                    let frame = &self.buffer[start + HEADER..start + length];
                    if wanted(frame) {
                        return frame.to_vec();
                    }
                }
                Received::Gone => panic!("the switch is gone; waited for a frame: {what}"),
                Received::Empty | Received::Truncated => {}
            }
        }
    }
}
