//! What outside bytes may not do, for the fuzz target `boot` and its seeds.

use netloom_boot::{kernel, modules::Modules};

/// No compressed image of these sizes has more: a byte of LZ4 stands for 255 at most.
const MOST: usize = 256;

/// Reads the bytes as a compressed kernel, as the frame inside one, and as a module; which of them they are.
pub fn try_boot(bytes: &[u8]) -> (bool, bool) {
    let images = [bytes.to_vec(), image(bytes)];
    let plain = images.iter().filter_map(|image| {
        let plain = kernel::plain(image)?;
        assert!(plain.starts_with(b"\x7fELF") && plain.len() <= image.len() * MOST);
        Some(plain)
    });
    let is_kernel = plain.count() > 0;
    let mut modules = Modules::default();
    let is_module = modules.add("kernel/net/a-b.ko", bytes);
    modules.add("kernel/net/other.ko", bytes);
    if is_module {
        assert!(modules.dep().starts_with("kernel/net/a-b.ko:"));
        assert!(modules.alias().lines().all(|line| !line.is_empty()));
        modules.keep(|file| file.ends_with("/other.ko"));
        assert!(modules.files().any(|file| file.ends_with("/other.ko")));
    }
    (is_kernel, is_module)
}

/// A compressed kernel with these bytes after the magic number of LZ4.
fn image(frame: &[u8]) -> Vec<u8> {
    let payload = [&[0x02, 0x21, 0x4c, 0x18], frame].concat();
    let mut image = vec![0; 1024];
    image[0x1f1] = 1;
    image[0x202..0x206].copy_from_slice(b"HdrS");
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    image[0x24c..0x250].copy_from_slice(&length.to_le_bytes());
    image.extend(payload);
    image
}
