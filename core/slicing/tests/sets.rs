//! The arithmetic of sets: exact, against single packets.

use netloom_openflow::{Field, Oxm};
use netloom_pipeline::FlowKey;
use netloom_slicing::{Cube, Example, Region};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::integration::cases::fields;

/// A few fields, so that cubes meet.
fn cube() -> impl Strategy<Value = Cube> {
    fields().prop_map(|fields| Cube::of(&fields).unwrap())
}

/// Keys near the cubes.
fn key() -> impl Strategy<Value = FlowKey> {
    (fields(), crate::integration::cases::frame(), 1u128..5).prop_map(|(fields, frame, port)| {
        let (_, mut key) = netloom_pipeline::headers::parse(&frame);
        key.set(Field::InPort, port);
        for oxm in fields {
            if key.may_have(oxm.field) && oxm.field != Field::EthType {
                key.set(oxm.field, oxm.value);
            }
        }
        key
    })
}

proptest! {
    #[test]
    fn sets_are_what_their_packets_are(a in cube(), b in cube(), keys in vec(key(), 8)) {
        let both = a.and(&b);
        let rest = a.without(&b);
        prop_assert_eq!(both.is_some(), a.meets(&b));
        for key in &keys {
            let (in_a, in_b) = (a.has(key), b.has(key));
            prop_assert_eq!(both.as_ref().is_some_and(|both| both.has(key)), in_a && in_b);
            let parts = rest.iter().filter(|part| part.has(key)).count();
            prop_assert_eq!(parts, usize::from(in_a && !in_b), "{:?}", rest);
            prop_assert!(!a.is_within(&b) || !in_a || in_b);
        }
    }

    /// A part found missing is missing, and without a finding nothing is.
    #[test]
    fn what_a_region_lacks_is_exact(cubes in vec(cube(), 0..5), a in cube(), keys in vec(key(), 8)) {
        let region = Region { cubes };
        let lacks = region.lacks(&a);
        for key in &keys {
            if a.has(key) && !region.has(key) {
                prop_assert!(lacks.is_some());
            }
            if lacks.as_ref().is_some_and(|part| part.has(key)) {
                prop_assert!(a.has(key) && !region.has(key));
            }
        }
        let covered = Region { cubes: region.cubes.iter().cloned().chain([a.clone()]).collect() };
        prop_assert_eq!(covered.lacks(&a), None);
    }

    /// An example is a packet that a switch reads as one of the cube.
    #[test]
    fn an_example_is_of_its_cube(a in cube(), b in cube()) {
        for part in a.without(&b).iter().chain([&a]) {
            // Port and tunnel are not in frames.
            let example = Example::of(part);
            let key = example.key();
            prop_assert!(part.has(&key), "{:?} {}", part, example);
        }
    }
}

#[test]
fn a_cube_is_a_match_and_back() {
    let fields =
        [Oxm::exact(Field::EthType, 0x800), Oxm::masked(Field::Ipv4Dst, 0x0a00_0000, 0xff00_0000)];
    let cube = Cube::of(&fields).unwrap();
    assert_eq!(cube.to_oxm(), fields);
    assert_eq!(Cube::of(&[fields[0], Oxm::exact(Field::EthType, 0x806)]), None);
}
