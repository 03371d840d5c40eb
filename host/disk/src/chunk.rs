//! Chunks of a file's content: buffers and how much of each counts.

use std::collections::VecDeque;

use crate::Buffer;

/// A buffer and how many of its bytes are meant.
#[derive(Debug)]
pub struct Chunk {
    /// The memory.
    pub buffer: Buffer,
    /// Bytes of it, from its start.
    pub len: usize,
}

/// `bytes` bytes of the chunks, without the first `skip`.
pub(crate) fn slices(chunks: &VecDeque<Chunk>, mut skip: usize, mut bytes: usize) -> Vec<&[u8]> {
    let mut slices = Vec::new();
    for chunk in chunks {
        let chunk = chunk.buffer.get(..chunk.len).unwrap_or_default();
        let Some(rest) = chunk.get(skip..) else { break };
        let piece = rest.get(..bytes).unwrap_or(rest);
        (skip, bytes) = (0, bytes - piece.len());
        if piece.is_empty() {
            break;
        }
        slices.push(piece);
    }
    slices
}
