//! Decompression of LZ4's legacy frames, as the kernel's build makes them (`lz4 -l`): blocks with their length before them.
//! Specification: LZ4 Frame Format, "Legacy frame"; LZ4 Block Format.

/// A block of a legacy frame holds at most this many bytes.
const BLOCK: usize = 8 << 20;
/// What a nibble says that has more bytes after it.
const MORE: usize = 15;
/// The shortest match.
const SHORTEST: usize = 4;

/// The bytes of a frame without its magic number, up to `most`; `None` if there is an error in it. A block length that
/// cannot be one ends the frame, since the kernel's image goes on after it.
pub(crate) fn legacy(mut frame: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while let Some((length, rest)) = frame.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        // LZ4_COMPRESSBOUND of a block: bytes that cannot be compressed grow by so much.
        if length == 0 || length > BLOCK + BLOCK / 255 + 16 || length > rest.len() {
            break;
        }
        let (bytes, after) = rest.split_at(length);
        let start = out.len();
        block(bytes, &mut out, start)?;
        if out.len() > most {
            return None;
        }
        frame = after;
        // Only the last block is shorter than 8 MiB.
        if out.len() - start < BLOCK {
            break;
        }
    }
    (!out.is_empty()).then_some(out)
}

/// Appends a block's bytes; matches do not reach before `start`.
fn block(mut bytes: &[u8], out: &mut Vec<u8>, start: usize) -> Option<()> {
    loop {
        let token = usize::from(take(&mut bytes)?);
        let literals = length(token >> 4, &mut bytes)?;
        let (copied, rest) = bytes.split_at_checked(literals)?;
        out.extend_from_slice(copied);
        bytes = rest;
        if out.len() - start > BLOCK {
            return None;
        }
        // A block ends with literals, without a match behind them (LZ4 Block Format).
        if bytes.is_empty() {
            return Some(());
        }
        let back = usize::from(u16::from_le_bytes([take(&mut bytes)?, take(&mut bytes)?]));
        let count = length(token & MORE, &mut bytes)? + SHORTEST;
        if back == 0 || back > out.len() - start || out.len() - start + count > BLOCK {
            return None;
        }
        // Source and target may overlap: bytes repeat.
        for at in out.len() - back..out.len() - back + count {
            out.push(out[at]);
        }
    }
}

fn take(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

/// A length that begins with a nibble.
fn length(nibble: usize, bytes: &mut &[u8]) -> Option<usize> {
    let mut sum = nibble;
    if nibble == MORE {
        loop {
            let more = take(bytes)?;
            sum = sum.checked_add(usize::from(more))?;
            if more != 255 {
                break;
            }
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(block: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(block.len()).unwrap().to_le_bytes().to_vec();
        frame.extend(block);
        frame
    }

    #[test]
    fn literals_and_matches_that_overlap() {
        // "ab", then 6 bytes from 2 back, then the last literals "xyz".
        let bytes = frame(&[0x22, b'a', b'b', 2, 0, 0x30, b'x', b'y', b'z']);
        assert_eq!(
            legacy(&bytes, 100).unwrap(),
            b"abababab".iter().chain(b"xyz").copied().collect::<Vec<_>>()
        );
    }

    #[test]
    fn lengths_go_on_after_fifteen() {
        let mut block = vec![0xf0, 255, 3];
        block.extend([7; 273]);
        assert_eq!(legacy(&frame(&block), 1000).unwrap(), [7; 273]);
        assert_eq!(legacy(&frame(&block), 100), None, "more than asked for");
    }

    #[test]
    fn errors_are_no_panic() {
        for wrong in
            [&[0x12, b'a', 9, 0, 0][..], &[0xf0], &[0xf0, 255], &[0x20, b'a'], &[0x02, 0, 0]]
        {
            assert_eq!(legacy(&frame(wrong), 100), None, "{wrong:?}");
        }
        assert_eq!(legacy(&[], 100), None);
        assert_eq!(legacy(&[1, 0, 0], 100), None);
    }
}
