//! Bytes from outside as the body of a session and as a packet: whatever they are, nothing panics, and what is
//! taken is consistent.

use netloom_marking::session::Configuration;
use netloom_marking::{
    HashFunction, Hasher, Key, Offload, Packet, PayloadPart, Precedence, Profile, Segment, Tables,
    Unhashable, filter,
};

/// Reads a body; whether it was taken.
pub(crate) fn try_session(bytes: &[u8]) -> bool {
    let configuration = match Configuration::read(bytes) {
        Ok(configuration) => configuration,
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            assert!(problems.iter().all(|problem| !problem.to_string().is_empty()));
            return false;
        }
    };
    let Configuration { period, guard, .. } = configuration;
    assert!(guard < period - guard, "a packet of the guard is nearer to its own block");
    assert!(configuration.blocks() > 0);
    let start = 3 * period;
    let schedule = configuration.schedule(start).expect("there is room before it");
    assert_eq!(schedule.block_at(start), Some(0));
    let filters = configuration.plain_filters();
    // It may need more masks than there are.
    let _ = Tables::new(&filters, configuration.precedence);
    true
}

/// What offload may leave undone.
fn offloads() -> [Offload; 3] {
    let segment = |index| Some(Segment { index, size: 7, fixed_id: false });
    [
        Offload::default(),
        Offload { partial_checksum: true, segment: None },
        Offload { partial_checksum: true, segment: segment(3) },
    ]
}

/// Everything that is made of a packet but its mark.
fn fingerprints(bytes: &[u8]) -> Vec<Result<u32, Unhashable>> {
    let Some(packet) = Packet::parse(bytes) else { return vec![] };
    let mut all = vec![];
    for profile in Profile::NAMES.map(|name| Profile::named(name).expect("a name")) {
        for function in [HashFunction::Bob, HashFunction::Ipsx, HashFunction::Crc32] {
            let payload = PayloadPart { offset: 4, size: 12 };
            let hasher = Hasher { function, profile, seed: 5, payload };
            for offload in offloads() {
                all.extend([hasher.hash(&packet, offload), hasher.identity(&packet, offload)]);
            }
        }
    }
    all
}

/// Reads a packet; whether it is one. What routers change on its way changes no hash of it.
pub(crate) fn try_packet(bytes: &[u8]) -> bool {
    let Some(packet) = Packet::parse(bytes) else { return false };
    let key = Key::of(&packet);
    assert_eq!(packet.is_v6(), bytes[0] >> 4 == 6);
    let any = [filter::Filter::default()];
    let tables = Tables::new(&any, Precedence::First).expect("one filter has room");
    assert_eq!(tables.find(&key), filter::find(&any, Precedence::First, &key));
    let mut later = bytes.to_vec();
    if packet.is_v6() {
        later[0] ^= 0x0a;
        later[1] ^= 0x50;
        later[7] = later[7].wrapping_sub(1);
    } else {
        later[1] ^= 0xff;
        later[8] = later[8].wrapping_sub(1);
        later[10] ^= 0x5a;
        later[11] ^= 0xa5;
    }
    assert_eq!(fingerprints(bytes), fingerprints(&later));
    true
}
