//! `vde_plug`, whose standard input and output are frames: two bytes of length, big-endian, then the
//! frame (vde_plug(1)).

use std::io::{Read, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::{Running, SOON, Station, wait_until, with_plugin};

/// A `vde_plug` on one switch.
#[derive(Debug)]
pub struct VdePlug {
    /// The process.
    pub process: Running,
    to: Option<ChildStdin>,
    from: Receiver<Vec<u8>>,
    said: Receiver<String>,
}

impl VdePlug {
    /// Starts one on the switch of this name.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(name: &str) -> VdePlug {
        let mut command = with_plugin("vde_plug");
        command.arg(name).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("start vde_plug");
        let to = child.stdin.take();
        let mut out = child.stdout.take().expect("stdout is piped");
        let mut err = child.stderr.take().expect("stderr is piped");
        let (give, from) = channel();
        std::thread::spawn(move || {
            while let Some(frame) = next(&mut out) {
                if give.send(frame).is_err() {
                    return;
                }
            }
        });
        let (give, said) = channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            drop(err.read_to_string(&mut text));
            drop(give.send(text));
        });
        VdePlug { process: Running(child), to, from, said }
    }

    /// Gives it a frame to send.
    ///
    /// # Panics
    /// When it does not take it.
    pub fn send(&mut self, frame: &[u8]) {
        let length = u16::try_from(frame.len()).expect("a frame's length");
        let bytes = [&length.to_be_bytes()[..], frame].concat();
        self.to.as_mut().expect("input is open").write_all(&bytes).expect("write to vde_plug");
    }

    /// The next frame it received.
    ///
    /// # Panics
    /// When none comes soon.
    pub fn receive(&mut self) -> Vec<u8> {
        self.from.recv_timeout(SOON).expect("a frame from vde_plug")
    }

    /// The next frame it received, while a station that may have sent it does what its switch asks.
    ///
    /// # Panics
    /// When none comes soon.
    pub fn receive_from(&mut self, station: &mut Station) -> Vec<u8> {
        wait_until("a frame from vde_plug", SOON, || {
            station.serve();
            self.receive_within(Duration::from_millis(1))
        })
    }

    /// The next frame it received, if one comes within the time.
    pub fn receive_within(&mut self, time: Duration) -> Option<Vec<u8>> {
        self.from.recv_timeout(time).ok()
    }

    /// Whether no frame was received that was not taken.
    pub fn is_quiet(&self) -> bool {
        self.from.try_recv().is_err()
    }

    /// Ends its input, and gives what it said on standard error until it ended.
    ///
    /// # Panics
    /// When it does not end soon.
    pub fn finish(mut self) -> String {
        self.to = None;
        wait_until("end of vde_plug", SOON, || self.process.0.try_wait().expect("wait"));
        self.said.recv_timeout(SOON).expect("what vde_plug said")
    }
}

fn next(from: &mut impl Read) -> Option<Vec<u8>> {
    let mut length = [0; 2];
    from.read_exact(&mut length).ok()?;
    let mut frame = vec![0; u16::from_be_bytes(length).into()];
    from.read_exact(&mut frame).ok()?;
    Some(frame)
}
