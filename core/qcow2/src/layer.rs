//! An empty qcow2 layer over a disk: what the guest writes goes there.

use crate::look::{Disk, Format};
use crate::{BELOW_FORMAT, MAGIC};

/// Clusters of 64 KiB, as `qemu-img` makes them.
const CLUSTER_BITS: u32 = 16;
const CLUSTER: usize = 1 << CLUSTER_BITS;

/// Bytes of a disk that one entry of the first table stands for: a cluster of entries of 8 bytes, a cluster each.
const PER_ENTRY: u64 = ((CLUSTER / 8) * CLUSTER) as u64;

/// Bytes of a header of version 3 without the field of compression.
const HEADER: u32 = 104;

/// Reference counts of 16 bits.
const COUNT_BITS_LOG2: u32 = 4;

/// The longest name of a file below (qcow2.rst).
const LONGEST_NAME: usize = 1023;

/// The largest first table that QEMU takes, in bytes (QCOW_MAX_L1_SIZE).
const LARGEST_TABLE: u64 = 32 << 20;

/// The file of an empty layer over this disk, whose file has this absolute name: header, reference counts and first
/// table, in whole clusters. `None` if the name is too long for the header, or the disk too large for the table.
pub fn layer(disk: Disk, below: &str) -> Option<Vec<u8>> {
    if below.is_empty() || below.len() > LONGEST_NAME {
        return None;
    }
    image(disk, below)
}

/// The file of an empty disk of this size in bytes. `None` if it is too large.
pub fn empty(size: u64) -> Option<Vec<u8>> {
    image(Disk { format: Format::Qcow2, size }, "")
}

fn image(disk: Disk, below: &str) -> Option<Vec<u8>> {
    let entries = disk.size.div_ceil(PER_ENTRY);
    if entries * 8 > LARGEST_TABLE {
        return None;
    }
    let table = usize::try_from(entries * 8).ok()?.div_ceil(CLUSTER);
    // Header, table of counts, counts, first table.
    // One cluster of counts is enough for all: the largest table has 512 clusters.
    let clusters = 3 + table;
    let mut bytes = header(disk, below, u32::try_from(entries).ok()?);
    bytes.resize(CLUSTER, 0);
    bytes.extend((2 * CLUSTER as u64).to_be_bytes());
    bytes.resize(2 * CLUSTER, 0);
    bytes.extend((0..clusters).flat_map(|_| 1u16.to_be_bytes()));
    bytes.resize(clusters * CLUSTER, 0);
    Some(bytes)
}

fn header(disk: Disk, below: &str, entries: u32) -> Vec<u8> {
    let format = disk.format.word().as_bytes();
    let padded = format.len().next_multiple_of(8);
    // The extension of the format (a head of 8 bytes), and the end of extensions.
    let name_at = if below.is_empty() { 0 } else { HEADER as usize + 8 + padded + 8 };
    let mut bytes = Vec::with_capacity(CLUSTER);
    let u32s = |bytes: &mut Vec<u8>, values: &[u32]| {
        bytes.extend(values.iter().flat_map(|value| value.to_be_bytes()));
    };
    let u64s = |bytes: &mut Vec<u8>, values: &[u64]| {
        bytes.extend(values.iter().flat_map(|value| value.to_be_bytes()));
    };
    bytes.extend(MAGIC);
    u32s(&mut bytes, &[3]);
    u64s(&mut bytes, &[name_at as u64]);
    u32s(&mut bytes, &[u32::try_from(below.len()).unwrap_or_default(), CLUSTER_BITS]);
    u64s(&mut bytes, &[disk.size]);
    // No encryption; the first table, at the fourth cluster.
    u32s(&mut bytes, &[0, entries]);
    u64s(&mut bytes, &[3 * CLUSTER as u64]);
    // The table of counts: the second cluster, one of it. No snapshots.
    u64s(&mut bytes, &[CLUSTER as u64]);
    u32s(&mut bytes, &[1, 0]);
    // Snapshots' place, and no features.
    u64s(&mut bytes, &[0, 0, 0, 0]);
    u32s(&mut bytes, &[COUNT_BITS_LOG2, HEADER]);
    if !below.is_empty() {
        u32s(&mut bytes, &[BELOW_FORMAT, u32::try_from(format.len()).unwrap_or_default()]);
        bytes.extend(format);
        bytes.resize(HEADER as usize + 8 + padded, 0);
    }
    u64s(&mut bytes, &[0]);
    bytes.extend(below.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HEAD, look, look_at_layer};

    #[test]
    fn a_layer_is_read_as_what_it_was_made_of() {
        for (size, clusters) in [(512, 4), (PER_ENTRY, 4), (8192 * PER_ENTRY + 1, 5)] {
            let disk = Disk { format: Format::Raw, size };
            let bytes = layer(disk, "/a b").unwrap();
            assert_eq!(bytes.len(), clusters * CLUSTER);
            let told = look_at_layer(&bytes[..HEAD]).unwrap();
            assert_eq!((told.below.as_str(), told.size), ("/a b", size));
            assert!(look(&bytes, bytes.len() as u64).is_err());
        }
    }

    #[test]
    fn an_empty_disk_is_whole_in_its_file() {
        let bytes = empty(1 << 20).unwrap();
        let disk = Disk { format: Format::Qcow2, size: 1 << 20 };
        assert_eq!(look(&bytes, bytes.len() as u64), Ok(disk));
    }

    #[test]
    fn what_a_header_cannot_hold_is_refused() {
        let disk = Disk { format: Format::Qcow2, size: 512 };
        assert_eq!(layer(disk, ""), None);
        assert_eq!(layer(disk, &"x".repeat(1024)), None);
        assert!(layer(disk, &"x".repeat(1023)).is_some());
        assert_eq!(layer(Disk { size: u64::MAX, ..disk }, "/a"), None);
    }
}
