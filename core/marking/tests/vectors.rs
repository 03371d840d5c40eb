//! Hashes against vectors that were made by other programs: `psamp.json` says how.

use netloom_marking::{
    HashFunction, Hasher, Offload, Packet, PayloadPart, Profile, bob, crc32, ipsx,
};
use serde_json::Value;

fn vectors(name: &str, least: usize) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("psamp.json")).unwrap();
    let list = all[name].as_array().unwrap().clone();
    assert!(list.len() >= least, "{name}");
    list
}

fn bytes(value: &Value) -> Vec<u8> {
    let digits = value.as_str().unwrap().as_bytes();
    digits
        .chunks(2)
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
        .collect()
}

fn number(value: &Value) -> u32 {
    u32::from_str_radix(value.as_str().unwrap(), 16).unwrap()
}

fn words(vector: &Value) -> [u32; 4] {
    ["f1", "f2", "f3", "f4"].map(|name| number(&vector[name]))
}

#[test]
fn bob_of_bytes() {
    for vector in vectors("bob_raw", 32) {
        let hash = bob(&bytes(&vector["input"]), number(&vector["initval"]));
        assert_eq!(hash, number(&vector["hash"]), "{vector}");
    }
}

#[test]
fn ipsx_of_words() {
    for vector in vectors("ipsx_raw", 12).into_iter().chain(vectors("ipsx", 14)) {
        assert_eq!(u32::from(ipsx(words(&vector))), number(&vector["hash"]), "{vector}");
    }
}

#[test]
fn crc32_of_bytes_with_a_private_string() {
    assert_eq!(crc32(b"123456789", &[]), 0xcbf4_3926);
    for vector in vectors("crc32", 28) {
        let hash = crc32(&bytes(&vector["input"]), &bytes(&vector["suffix"]));
        assert_eq!(hash, number(&vector["hash"]), "{vector}");
    }
}

fn hasher(function: HashFunction, vector: &Value) -> Hasher {
    let of = |name: &str| vector[name].as_u64().unwrap_or(0);
    Hasher {
        function,
        profile: Profile::Rfc5475,
        seed: vector["initval"].as_str().map_or(0, |text| u32::from_str_radix(text, 16).unwrap()),
        payload: PayloadPart {
            offset: of("payload_offset").try_into().unwrap(),
            size: of("payload_len").try_into().unwrap(),
        },
    }
}

#[test]
fn packets_by_the_list_of_the_rfc() {
    for vector in vectors("bob_rfc_ipv4", 62).into_iter().chain(vectors("bob_rfc_ipv6", 16)) {
        let packet = bytes(&vector["packet"]);
        let packet = Packet::parse(&packet).unwrap();
        let hasher = hasher(HashFunction::Bob, &vector);
        let input = hasher.input(&packet, Offload::default()).unwrap();
        assert_eq!(input.bytes(), bytes(&vector["input"]), "{vector}");
        assert_eq!(hasher.hash(&packet, Offload::default()), Ok(number(&vector["hash"])));
        assert_ne!(hasher.identity(&packet, Offload::default()), Ok(number(&vector["hash"])));
    }
}

#[test]
fn whole_packets_by_ipsx_in_both_lists() {
    let mut packets = 0;
    for vector in vectors("ipsx", 14) {
        let bytes = bytes(&vector["packet28"]);
        // Two of them are not packets, only words.
        let Some(packet) = Packet::parse(&bytes) else { continue };
        packets += 1;
        for profile in [Profile::Rfc5475, Profile::Source] {
            let hasher = Hasher { profile, ..hasher(HashFunction::Ipsx, &vector) };
            let hash = hasher.hash(&packet, Offload::default());
            assert_eq!(hash, Ok(number(&vector["hash"])), "{vector}");
        }
    }
    assert_eq!(packets, 12);
}

#[test]
fn the_sources_list_ends_with_the_total_length() {
    let vector = &vectors("bob_rfc_ipv4", 62)[0];
    let packet = bytes(&vector["packet"]);
    let packet = Packet::parse(&packet).unwrap();
    let hasher = Hasher { profile: Profile::Source, ..hasher(HashFunction::Bob, vector) };
    let mut expected = bytes(&vector["input"]);
    expected.extend([0, 0, 0, 0x20]);
    assert_eq!(hasher.input(&packet, Offload::default()).unwrap().bytes(), expected);
}
