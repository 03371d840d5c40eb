//! Counters of ports and queues (sections 7.3.5.6 and 7.3.5.8).

use crate::flow::Duration;
use crate::port::PortNumber;
use crate::wire::{Encoded, Reader, Result, Writer};

/// Counters of a port; all ones where one is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStats {
    /// The port.
    pub port: PortNumber,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets dropped on reception.
    pub rx_dropped: u64,
    /// Packets dropped on sending.
    pub tx_dropped: u64,
    /// Receive errors.
    pub rx_errors: u64,
    /// Send errors.
    pub tx_errors: u64,
    /// Frames with a wrong alignment.
    pub rx_frame_err: u64,
    /// Overruns.
    pub rx_over_err: u64,
    /// Wrong checksums.
    pub rx_crc_err: u64,
    /// Collisions.
    pub collisions: u64,
    /// How long the port exists; zero in 1.0.
    pub duration: Duration,
}

impl PortStats {
    /// Zeros.
    pub fn new(port: PortNumber) -> PortStats {
        PortStats::of(port, [0; 12], Duration::default())
    }

    fn of(port: PortNumber, counters: [u64; 12], duration: Duration) -> PortStats {
        let [
            rx_packets,
            tx_packets,
            rx_bytes,
            tx_bytes,
            rx_dropped,
            tx_dropped,
            rx_errors,
            tx_errors,
            rx_frame_err,
            rx_over_err,
            rx_crc_err,
            collisions,
        ] = counters;
        PortStats {
            port,
            rx_packets,
            tx_packets,
            rx_bytes,
            tx_bytes,
            rx_dropped,
            tx_dropped,
            rx_errors,
            tx_errors,
            rx_frame_err,
            rx_over_err,
            rx_crc_err,
            collisions,
            duration,
        }
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<PortStats> {
        let port = super::read_port(r)?;
        let mut counters = [0; 12];
        for counter in &mut counters {
            *counter = r.u64()?;
        }
        let duration = if r.is_10() { Duration::default() } else { Duration::read(r)? };
        Ok(PortStats::of(port, counters, duration))
    }

    pub(super) fn write(&self, w: &mut Writer) -> Encoded {
        super::write_port(self.port, w)?;
        for counter in [
            self.rx_packets,
            self.tx_packets,
            self.rx_bytes,
            self.tx_bytes,
            self.rx_dropped,
            self.tx_dropped,
            self.rx_errors,
            self.tx_errors,
            self.rx_frame_err,
            self.rx_over_err,
            self.rx_crc_err,
            self.collisions,
        ] {
            w.u64(counter);
        }
        if !w.is_10() {
            self.duration.write(w);
        }
        Ok(())
    }
}

/// Counters of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStats {
    /// Its port.
    pub port: PortNumber,
    /// The queue.
    pub queue: u32,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets dropped.
    pub tx_errors: u64,
    /// How long it exists; zero in 1.0.
    pub duration: Duration,
}

impl QueueStats {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<QueueStats> {
        let port = PortNumber::read(r)?;
        r.skip(if r.is_10() { 2 } else { 0 })?;
        Ok(QueueStats {
            port,
            queue: r.u32()?,
            tx_bytes: r.u64()?,
            tx_packets: r.u64()?,
            tx_errors: r.u64()?,
            duration: if r.is_10() { Duration::default() } else { Duration::read(r)? },
        })
    }

    pub(super) fn write(&self, w: &mut Writer) -> Encoded {
        self.port.write(w)?;
        w.zeros(if w.is_10() { 2 } else { 0 });
        w.u32(self.queue);
        w.u64(self.tx_bytes);
        w.u64(self.tx_packets);
        w.u64(self.tx_errors);
        if !w.is_10() {
            self.duration.write(w);
        }
        Ok(())
    }
}
