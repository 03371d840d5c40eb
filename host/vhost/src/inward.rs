//! From the guest: takes frames out of its transmit queues, in turn.

use netloom_port::{HEADER, Received};

use crate::device::Device;
use crate::faults::Faults;
use crate::memory::Span;
use crate::ring::Fault;

/// Frames of a queue before the next has its turn, and returned chains after which the guest is told.
const TURN: u16 = 32;

/// State of this direction.
#[derive(Debug, Default)]
pub(crate) struct Inward {
    spans: Vec<Span>,
    /// The queue whose turn it is, among those that run, and what it has had of its turn.
    turn: usize,
    had: u16,
}

impl Inward {
    /// The next frame. A chain that holds none is lost, and returned to the guest.
    pub(crate) fn receive(
        &mut self,
        device: &mut Device,
        faults: &mut Faults,
        buffer: &mut [u8],
    ) -> Received {
        for _ in 0..device.running[1].len() {
            // Queues may also have stopped since the last call.
            if self.had >= TURN || self.turn >= device.running[1].len() {
                self.pass(device);
            }
            let index = device.running[1][self.turn];
            let ring = &mut device.rings[index];
            match ring.take(&device.memory, &mut self.spans) {
                Ok(Some(head)) => {
                    let frame = copy(device, &self.spans, buffer);
                    self.end(device, index, head);
                    return frame;
                }
                Ok(None) => {
                    // Before this queue rests the guest must see what was returned.
                    ring.show();
                    self.had = TURN;
                }
                Err(Fault::Chain(head)) => {
                    faults.chains += 1;
                    self.end(device, index, head);
                    return Received::Truncated;
                }
                Err(Fault::Ring) => {
                    faults.queues += 1;
                    device.look();
                    return Received::Truncated;
                }
            }
        }
        Received::Empty
    }

    /// The next queue's turn begins.
    fn pass(&mut self, device: &mut Device) {
        if let Some(index) = device.running[1].get(self.turn) {
            device.rings[*index].show();
        }
        self.turn = if self.turn + 1 < device.running[1].len() { self.turn + 1 } else { 0 };
        self.had = 0;
    }

    fn end(&mut self, device: &mut Device, index: usize, head: u16) {
        let ring = &mut device.rings[index];
        // No length: nothing was written to these buffers.
        ring.give(head, 0);
        if ring.unshown() >= TURN {
            ring.show();
        }
        self.had += 1;
    }
}

/// Copies a frame with its header, so that our header directly precedes the frame.
fn copy(device: &Device, spans: &[Span], buffer: &mut [u8]) -> Received {
    let mut length = 0;
    for span in spans {
        if span.length > buffer.len() - length {
            return Received::Truncated;
        }
        length += device.memory.read(*span, &mut buffer[length..]);
    }
    let header = device.features.header();
    let start = header - HEADER;
    if length < header {
        return Received::Truncated;
    }
    // A longer header ends with `num_buffers`, which a sender does not use: ours moves up to the
    // frame.
    buffer.copy_within(..HEADER, start);
    crate::header::to_ours(&mut buffer[start..], device.features);
    Received::Frame { start, length: length - start }
}
