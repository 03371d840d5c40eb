//! The plain kernel (ELF) in a compressed image for x86 (`bzImage`).
//!
//! A virtual machine without hardware help needs about a second to unpack a kernel, and none if it is given the plain
//! one, which it enters by PVH. Only LZ4 is known, which Debian 12 uses; others stay as they are.
//! Specification: Documentation/arch/x86/boot.rst (`payload_offset`).

use crate::{elf, lz4};

/// `HdrS` in the header, and fields behind it.
const MAGIC: (usize, &[u8]) = (0x202, b"HdrS");
const SETUP_SECTORS: usize = 0x1f1;
const PAYLOAD: usize = 0x248;
const SECTOR: usize = 512;
/// The magic number of LZ4's legacy frames.
const LZ4: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];
/// No kernel is larger.
const MOST: usize = 512 << 20;

/// The plain kernel, if the image has one that is known here.
pub fn plain(image: &[u8]) -> Option<Vec<u8>> {
    if image.get(MAGIC.0..)?.get(..MAGIC.1.len())? != MAGIC.1 {
        return None;
    }
    let sectors = match *image.get(SETUP_SECTORS)? {
        // boot.rst: for old images 0 means 4.
        0 => 4,
        sectors => usize::from(sectors),
    };
    let field = |at: usize| -> Option<usize> {
        Some(u32::from_le_bytes(*image.get(at..)?.first_chunk()?) as usize)
    };
    // The boot sector comes before those of the set-up; the payload is counted from behind them.
    let begin = (sectors + 1) * SECTOR + field(PAYLOAD)?;
    let payload = image.get(begin..begin.checked_add(field(PAYLOAD + 4)?)?)?;
    let kernel = lz4::legacy(payload.strip_prefix(&LZ4)?, MOST)?;
    elf::is_elf(&kernel).then_some(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with this payload, as the header says it.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 3 * SECTOR];
        image[SETUP_SECTORS] = 1;
        image[MAGIC.0..MAGIC.0 + 4].copy_from_slice(MAGIC.1);
        image[PAYLOAD..PAYLOAD + 4].copy_from_slice(&512u32.to_le_bytes());
        let length = u32::try_from(payload.len()).unwrap();
        image[PAYLOAD + 4..PAYLOAD + 8].copy_from_slice(&length.to_le_bytes());
        image.extend(payload);
        image
    }

    #[test]
    fn a_kernel_is_found_where_the_header_says() {
        let mut payload = LZ4.to_vec();
        payload.extend(6u32.to_le_bytes());
        payload.extend([0x50, 0x7f, b'E', b'L', b'F', 9]);
        // The length of what is unpacked, as the kernel's build appends it.
        payload.extend(5u32.to_le_bytes());
        assert_eq!(plain(&image(&payload)).unwrap(), b"\x7fELF\x09");
        payload[0] = 3;
        assert_eq!(plain(&image(&payload)), None);
        assert_eq!(plain(b"HdrS"), None);
        assert_eq!(plain(&image(&payload)[..1545]), None);
    }
}
