//! Layout of the switch's memories: offsets, sizes, limits.
//!
//! Only numbers, no access. Words are in the machine's byte order and naturally aligned. Words that
//! two processes write, or that one writes while another spins on a neighbour, are [`LINE`] bytes
//! apart. Specification: `docs/abi/switch-memory.md` lists each constant here.

/// Bytes of the virtio-net header (the legacy one: linux/virtio_net.h) before each frame.
pub const HEADER: usize = 10;

/// Fewest bytes of a frame without its virtio-net header: an Ethernet header.
pub const SHORTEST_FRAME: usize = 14;

/// Most bytes of a frame without its virtio-net header: an Ethernet header, three VLAN tags, and
/// the longest IP packet.
pub const LONGEST_FRAME: usize = 14 + 3 * 4 + 65_535;

/// Ports of a switch: 0 is the switch itself, 1 to 255 are members.
pub const PORTS: usize = 256;

/// Distance of words that must not share a cache line, including adjacent-line prefetch.
pub const LINE: usize = 128;

/// Version of all layouts; another one is refused.
pub const VERSION: u32 = 1;

/// Bytes at the start of each memory: its first page.
pub const HEAD_PAGE: usize = 4096;

/// Offset of the magic (u32) in every memory.
pub const MAGIC_AT: usize = 0;
/// Offset of the version (u32) in every memory.
pub const VERSION_AT: usize = 4;
/// Offset of the declared length (u64) in every memory; in a ring, the arena's length.
pub const LENGTH_AT: usize = 8;

/// A ring's memory.
pub mod ring {
    /// "nlr1" in byte order.
    pub const MAGIC: u32 = u32::from_le_bytes(*b"nlr1");
    /// The ring's generation (u32), never 0.
    pub const GENERATION_AT: usize = 16;
    /// Bytes published since the start (u64).
    pub const HEAD_AT: usize = super::LINE;
    /// Odd while the writer waits for room (u32).
    pub const WAITING_AT: usize = 2 * super::LINE;
    /// Alignment of slots, and the bytes of a slot before its frame.
    pub const SLOT: usize = 16;
    /// In a slot: the virtio-net header.
    pub const VNET_AT: usize = SLOT - super::HEADER;
    /// The arena.
    pub const ARENA_AT: usize = super::HEAD_PAGE;
    /// Fewest bytes of an arena; four of the longest slots fit.
    pub const LEAST_ARENA: usize = 256 * 1024;
    /// Bytes of an arena by default.
    pub const ARENA: usize = 1024 * 1024;
    /// Most bytes of an arena: the most a peer can make us map.
    pub const MOST_ARENA: usize = 64 * 1024 * 1024;
}

/// A port's inbox.
pub mod inbox {
    use super::{HEAD_PAGE, LINE, PORTS};

    /// "nli1" in byte order.
    pub const MAGIC: u32 = u32::from_le_bytes(*b"nli1");
    /// Odd while the owner sleeps or is about to (u64).
    pub const SLEEP_AT: usize = LINE;
    /// Counters (u64 each), in the order of [`crate::inbox::Counter`].
    pub const COUNTERS_AT: usize = 1024;
    /// Room for counters.
    pub const MOST_COUNTERS: usize = 64;
    /// Credit cells, one per sender number.
    pub const CELLS_AT: usize = HEAD_PAGE;
    /// Bytes from one cell to the next.
    pub const CELL: usize = LINE;
    /// In a cell: the generation of the ring being read (u32).
    pub const CELL_GENERATION: usize = 0;
    /// In a cell: bytes taken since the start of that ring (u64).
    pub const CELL_TAIL: usize = 8;
    /// In a cell: frames taken from that sender (u64).
    pub const CELL_FRAMES: usize = 64;
    /// In a cell: bytes of these frames (u64).
    pub const CELL_BYTES: usize = 72;
    /// In a cell: frames of that sender that were not taken (u64).
    pub const CELL_DROPS: usize = 80;
    /// A copy of the owner's MAC table, for observers.
    pub const TABLE_AT: usize = CELLS_AT + PORTS * CELL;
    /// Bytes of an entry.
    pub const ENTRY: usize = 16;
    /// Entries.
    pub const ENTRIES: usize = 4096;
    /// Bytes of an inbox.
    pub const LENGTH: usize = TABLE_AT + ENTRIES * ENTRY;
}

/// The switch's page.
pub mod page {
    use super::{HEAD_PAGE, LINE, PORTS};

    /// "nlp1" in byte order.
    pub const MAGIC: u32 = u32::from_le_bytes(*b"nlp1");
    /// Odd while the page is being written (u64); grows with every change.
    pub const SEQUENCE_AT: usize = LINE;
    /// One bit per port with rules (4 × u64).
    pub const USED_AT: usize = 2 * LINE;
    /// Settings of the whole switch (u64), bits: [`VLAN_AWARE`].
    pub const FLAGS_AT: usize = 3 * LINE;
    /// In the settings: VLANs are separated.
    pub const VLAN_AWARE: u64 = 1;
    /// Mirror sessions.
    pub const SESSIONS_AT: usize = 1024;
    /// Bytes of a session.
    pub const SESSION: usize = 128;
    /// Sessions.
    pub const SESSIONS: usize = 16;
    /// Rules of ports.
    pub const RULES_AT: usize = HEAD_PAGE;
    /// Bytes of a port's rules.
    pub const RULES: usize = 1024;
    /// In a port's flags: its addresses are a lock.
    pub const LOCKED: u8 = 1;
    /// Addresses are not learned from it.
    pub const UNLEARNED: u8 = 2;
    /// Its customer has only the allowed VLANs.
    pub const SOME_CVLANS: u8 = 4;
    /// How far the two bits are shifted that say of which of [`TPIDS`] the tag around its customer's frames is.
    pub const TPID_SHIFT: u8 = 3;
    /// Types of tags.
    pub const TPIDS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
    /// Bytes of the page.
    pub const LENGTH: usize = RULES_AT + PORTS * RULES;
}

const _: () = {
    assert!(ring::LEAST_ARENA.is_power_of_two() && ring::MOST_ARENA.is_power_of_two());
    assert!(4 * (ring::SLOT + LONGEST_FRAME) < ring::LEAST_ARENA + 64 * 1024);
    assert!(inbox::COUNTERS_AT + 8 * inbox::MOST_COUNTERS <= inbox::CELLS_AT);
    assert!(inbox::TABLE_AT == 36_864 && inbox::LENGTH == 102_400);
    assert!(page::SESSIONS_AT + page::SESSIONS * page::SESSION <= page::RULES_AT);
    assert!(page::LENGTH == 266_240);
};
