//! Chunks of a file's content: buffers, each with its number of valid bytes.

use std::collections::VecDeque;

use crate::Buffer;

/// A buffer and the number of its bytes that count.
#[derive(Debug)]
pub struct Chunk {
    /// The memory.
    pub buffer: Buffer,
    /// Valid bytes, from the buffer's start.
    pub len: usize,
}

/// `bytes` bytes of the chunks, after skipping the first `skip`.
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
