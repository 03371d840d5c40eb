//! Cases written by hand, from the rules of IEEE 802.1Q, and properties over any frame.

use proptest::prelude::*;

use super::*;
use crate::retag::retag;
use crate::rules::{MacLock, PortRules};
use crate::vlan::VidSet;

const SOURCE: Mac = Mac([2, 0, 0, 0, 0, 1]);

fn vid(number: u16) -> Vid {
    Vid::new(number).unwrap()
}

fn frame(tags: &[u16]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2];
    frame.extend(SOURCE.0);
    for tci in tags {
        frame.extend([0x81, 0x00]);
        frame.extend(tci.to_be_bytes());
    }
    frame.extend([0x08, 0x00, 0x45]);
    frame
}

fn of(vlan: VlanMode) -> PortRules {
    PortRules { vlan, ..PortRules::OPEN }
}

fn trunk(native: Option<u16>, allowed: &str) -> PortRules {
    of(VlanMode::Trunk { native: native.map(vid), allowed: allowed.parse().unwrap() })
}

const OPEN: u16 = 1;
const ACCESS: u16 = 2;
const TRUNK: u16 = 3;
const NATIVE: u16 = 4;

/// Port 1 has no mode, 2 is in VLAN 7, 3 is a trunk of 7 and 9, 4 a trunk of 9 with native VLAN 7.
fn rules() -> SwitchRules {
    SwitchRules::of([
        (ACCESS, of(VlanMode::Access(vid(7)))),
        (TRUNK, trunk(None, "7,9")),
        (NATIVE, trunk(Some(7), "9")),
    ])
    .unwrap()
}

#[test]
fn without_a_mode_everything_passes_as_it_is() {
    let rules = SwitchRules::new();
    for tags in [&[][..], &[0], &[7], &[4095], &[7, 9]] {
        assert_eq!(classify(&rules, 1, &frame(tags)), Ok(Class::PLAIN));
    }
    assert_eq!(classify(&rules, 1, &frame(&[7])[..16]), Ok(Class::PLAIN));
    assert_eq!(egress(&rules, 2, Class::PLAIN), Ok(Retag::Keep));
}

#[test]
fn lengths() {
    for rules in [SwitchRules::new(), rules()] {
        assert_eq!(classify(&rules, 1, &[]), Err(Drop::Runt));
        assert_eq!(classify(&rules, 1, &frame(&[])[..13]), Err(Drop::Runt));
        assert!(classify(&rules, 1, &frame(&[])[..14]).is_ok());
        let mut long = frame(&[]);
        long.resize(LONGEST_FRAME, 0);
        assert!(classify(&rules, 1, &long).is_ok());
        long.push(0);
        assert_eq!(classify(&rules, 1, &long), Err(Drop::Oversize));
    }
    assert_eq!(classify(&rules(), TRUNK, &frame(&[7])[..17]), Err(Drop::Runt));
}

#[test]
fn ingress() {
    // Port, tags, VLAN or dropped.
    let cases: &[(u16, &[u16], Option<u16>)] = &[
        (OPEN, &[], Some(1)),
        (OPEN, &[0x6000], Some(1)),
        (OPEN, &[1], None),
        (ACCESS, &[], Some(7)),
        (ACCESS, &[0xe000], Some(7)),
        (ACCESS, &[7], None),
        (ACCESS, &[9], None),
        (TRUNK, &[], None),
        (TRUNK, &[0x2000], None),
        (TRUNK, &[7], Some(7)),
        (TRUNK, &[0xa009], Some(9)),
        (TRUNK, &[8], None),
        (TRUNK, &[4095], None),
        (NATIVE, &[], Some(7)),
        (NATIVE, &[0x4000], Some(7)),
        (NATIVE, &[7], Some(7)),
        (NATIVE, &[9], Some(9)),
        (NATIVE, &[1], None),
    ];
    for (port, tags, expected) in cases {
        let class = classify(&rules(), *port, &frame(tags));
        let found = class.map(|class| class.vid.map(Vid::number));
        assert_eq!(found, expected.map(Some).ok_or(Drop::Vlan), "port {port}, tags {tags:x?}");
    }
}

#[test]
fn a_provider_tag_is_payload() {
    let mut frame = frame(&[7]);
    frame[12..14].copy_from_slice(&[0x88, 0xa8]);
    let class = classify(&rules(), ACCESS, &frame).unwrap();
    assert_eq!(class, Class { vid: Some(vid(7)), tag: Tag::None, stacked: false });
    assert_eq!(classify(&rules(), TRUNK, &frame), Err(Drop::Vlan));
}

/// Sends a frame through the switch: what the receiver gets.
fn through(from: u16, to: u16, tags: &[u16]) -> std::result::Result<Vec<u8>, Drop> {
    let (rules, frame) = (rules(), frame(tags));
    let class = classify(&rules, from, &frame)?;
    let mut buffer = [vec![0; 4], frame].concat();
    let edit = retag(&mut buffer, 4, egress(&rules, to, class)?).unwrap();
    Ok(buffer[edit.start..].to_vec())
}

#[test]
fn from_port_to_port() {
    // From, to, tags before, tags after.
    type Case = (u16, u16, &'static [u16], Option<&'static [u16]>);
    let cases: &[Case] = &[
        (OPEN, OPEN, &[], Some(&[])),
        (OPEN, OPEN, &[0x6000], Some(&[])),
        (OPEN, ACCESS, &[], None),
        (OPEN, TRUNK, &[], None),
        (ACCESS, ACCESS, &[], Some(&[])),
        (ACCESS, TRUNK, &[], Some(&[7])),
        (ACCESS, TRUNK, &[0xf000], Some(&[0xf007])),
        (ACCESS, NATIVE, &[], Some(&[])),
        (TRUNK, ACCESS, &[0xa007], Some(&[])),
        (TRUNK, ACCESS, &[9], None),
        (TRUNK, TRUNK, &[0xa009], Some(&[0xa009])),
        (TRUNK, NATIVE, &[7], Some(&[])),
        (TRUNK, NATIVE, &[9], Some(&[9])),
        (NATIVE, TRUNK, &[], Some(&[7])),
        (NATIVE, TRUNK, &[0x2000], Some(&[0x2007])),
        (NATIVE, ACCESS, &[7], Some(&[])),
        // Other tags may follow the VLAN's tag, but no receiver sees one of them first.
        (TRUNK, TRUNK, &[7, 9], Some(&[7, 9])),
        (TRUNK, ACCESS, &[7, 9], None),
        (TRUNK, NATIVE, &[7, 9], None),
        (ACCESS, NATIVE, &[0, 9], None),
        (ACCESS, TRUNK, &[0, 9], Some(&[7, 9])),
    ];
    for (from, to, before, after) in cases {
        let got = through(*from, *to, before);
        assert_eq!(got, after.map(frame).ok_or(Drop::Vlan), "{from} to {to}, tags {before:x?}");
    }
}

#[test]
fn locks_come_first() {
    let mut rules = rules();
    let macs = MacLock::new(&[SOURCE]).unwrap();
    rules.set(9, PortRules { macs, ..PortRules::OPEN }).unwrap();
    assert_eq!(classify(&rules, OPEN, &frame(&[7])), Err(Drop::Spoofed));
    assert!(classify(&rules, 9, &frame(&[])).is_ok());
    let mut other = frame(&[]);
    other[11] = 9;
    assert_eq!(classify(&rules, 9, &other), Err(Drop::Spoofed));
    assert!(classify(&rules, OPEN, &other).is_ok());
}

fn mode() -> impl Strategy<Value = VlanMode> {
    let few = || (1u16..5).prop_map(vid);
    let set = prop::collection::vec(few(), 0..4).prop_map(VidSet::from_iter);
    prop_oneof![
        Just(VlanMode::Any),
        few().prop_map(VlanMode::Access),
        (prop::option::of(few()), set)
            .prop_map(|(native, allowed)| VlanMode::Trunk { native, allowed }),
    ]
}

/// What a station behind a port believes a frame's VLAN to be, and how: the naive model.
fn vlan_at(mode: &VlanMode, frame: &[u8]) -> Option<u16> {
    let tag = (frame[12..14] == [0x81, 0]).then(|| u16::from_be_bytes([frame[14], frame[15]]));
    match (mode, tag.map(|tci| tci & 0xfff).filter(|vid| *vid != 0)) {
        (VlanMode::Any, None) => Some(1),
        (VlanMode::Access(vid), None) => Some(vid.number()),
        (VlanMode::Trunk { native, .. }, None) => native.map(Vid::number),
        (VlanMode::Trunk { native, allowed }, Some(of)) => {
            let vid = Vid::new(of)?;
            (*native == Some(vid) || allowed.contains(vid)).then_some(of)
        }
        (_, Some(_)) => None,
    }
}

proptest! {
    #[test]
    fn any_bytes(frame in prop::collection::vec(any::<u8>(), 0..40), port: u16, to: u16) {
        for rules in [SwitchRules::new(), rules()] {
            if let Ok(class) = classify(&rules, port, &frame) {
                let _ = egress(&rules, to, class);
            }
        }
    }

    /// A frame never changes its VLAN, and is delivered whenever both ports are in it.
    #[test]
    fn vlans_are_kept_apart(
        from in mode(),
        to in mode(),
        tags in prop::collection::vec(prop_oneof![0u16..5, any::<u16>()], 0..3),
    ) {
        let aware = SwitchRules::of([
            (1, of(from.clone())),
            (2, of(to.clone())),
            (3, of(VlanMode::Access(Vid::ONE))),
        ]).unwrap();
        let frame = frame(&tags);
        let sent = vlan_at(&from, &frame);
        let class = classify(&aware, 1, &frame);
        prop_assert_eq!(class.map(|c| c.vid.map(Vid::number)).ok().flatten(), sent);
        let Ok(class) = class else { return Ok(()) };
        let mut buffer = [vec![0; 4], frame].concat();
        match egress(&aware, 2, class) {
            Ok(how) => {
                let edit = retag(&mut buffer, 4, how).unwrap();
                prop_assert_eq!(vlan_at(&to, &buffer[edit.start..]), sent);
            }
            Err(cause) => {
                prop_assert_eq!(cause, Drop::Vlan);
                let has = match &to {
                    VlanMode::Any => class.vid == Some(Vid::ONE),
                    VlanMode::Access(vid) => class.vid == Some(*vid),
                    VlanMode::Trunk { native, allowed } => {
                        class.vid == *native || class.vid.is_some_and(|v| allowed.contains(v))
                    }
                };
                prop_assert!(!has || class.stacked);
            }
        }
    }
}
