//! What outside bytes may not do, for the fuzz target `disk` and its seeds.

use netloom_qcow2::{Format, layer, look, look_at_layer};

/// Looks at the bytes as a disk's file and as a layer's; whether they are a disk of a format, and whether a layer.
pub fn try_disk(bytes: &[u8]) -> (Option<Format>, bool) {
    let length = bytes.len() as u64;
    let disk = look(bytes, length).ok();
    if let Some(disk) = disk {
        assert!(disk.size > 0);
        if disk.format == Format::Raw {
            assert!(disk.size == length && length.is_multiple_of(512));
        }
        // Whatever is a disk gets a layer that says the same of it, unless it is too large.
        if let Some(above) = layer(disk, "/d") {
            let told = look_at_layer(&above).expect("a layer of ours");
            assert!(told.below == "/d" && told.size == disk.size);
        }
    }
    let above = look_at_layer(bytes).ok();
    assert!(above.is_none() || disk.is_none(), "both a disk and a layer");
    (disk.map(|disk| disk.format), above.is_some())
}
