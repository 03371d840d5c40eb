//! What takes the frames of a capture in this process.

/// Takes the frames of a capture in this process, in the order in which a file would have them.
pub trait Sink: Send + std::fmt::Debug {
    /// Takes a run of whole packet blocks (`netloom_pcap::run`), each with the number of its source. The sink accounts
    /// for them: the capture counts them as written. Only the writer's thread calls this.
    fn take(&mut self, blocks: &[u8]);
}
