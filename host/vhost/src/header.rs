//! The virtio-net header as the guest has it, and as frames have it here: 10 bytes in the machine's order.
//! See VIRTIO 1.3, section 5.1.6.

use netloom_port::HEADER;

use crate::features::Features;

/// Bytes of the longest header.
pub(crate) const LONGEST: usize = 12;

/// Swaps the words of a header from the standard's order to the machine's, or back.
fn swap(header: &mut [u8], features: Features) {
    // Elsewhere the machine's order is the standard's.
    if cfg!(target_endian = "big") && features.is_standard_order() {
        for word in header[2..HEADER].chunks_exact_mut(2) {
            word.swap(0, 1);
        }
    }
}

/// Makes a guest's header ours, in place: its first 10 bytes.
pub(crate) fn to_ours(header: &mut [u8], features: Features) {
    swap(header, features);
}

/// The guest's header for a frame with ours, and `buffers` receive buffers; its first [`Features::header`] bytes.
pub(crate) fn to_guest(ours: &[u8], features: Features, buffers: u16) -> [u8; LONGEST] {
    let mut header = [0; LONGEST];
    header[..HEADER].copy_from_slice(&ours[..HEADER]);
    swap(&mut header, features);
    let standard = features.is_standard_order();
    let count = if standard { buffers.to_le_bytes() } else { buffers.to_ne_bytes() };
    header[HEADER..].copy_from_slice(&count);
    header
}
