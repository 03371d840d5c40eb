//! A sink in this process: what it is handed counts as written.

use std::sync::Arc;

use super::{Made, Output, Refused};
use crate::queue::Chunk;
use crate::shared::Shared;
use crate::sink::Sink;

/// Hands chunks over.
pub(crate) struct Handed {
    pub(crate) sink: Box<dyn Sink>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) bytes: u64,
}

impl Output for Handed {
    fn write(&mut self, chunk: Chunk) -> Result<(), Refused> {
        let blocks = chunk.buffer.get(..chunk.len).unwrap_or_default();
        self.sink.take(blocks);
        self.bytes += chunk.len as u64;
        self.shared.settle(&chunk.shares, true);
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), Refused> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Refused> {
        Ok(())
    }

    fn abandon(&mut self) {}

    fn made(&self) -> Made {
        Made { bytes: self.bytes, ..Made::default() }
    }
}
