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

fn qinq(number: u16, cvlans: Option<&str>, tpid: u16) -> PortRules {
    let cvlans = cvlans.map(|text| text.parse().unwrap());
    of(VlanMode::Qinq { vid: vid(number), cvlans, tpid: Tpid::new(tpid).unwrap() })
}

const OPEN: u16 = 1;
const ACCESS: u16 = 2;
const TRUNK: u16 = 3;
const NATIVE: u16 = 4;
const QINQ: u16 = 5;
const TAGGED: u16 = 6;

/// Port 1 has no mode, 2 is in VLAN 7, 3 is a trunk of 7 and 9, 4 a trunk of 9 with native VLAN 7; 5 and 6 have customers in
/// VLAN 7, 6 only their VLANs 20 to 29.
fn rules() -> SwitchRules {
    SwitchRules::of([
        (ACCESS, of(VlanMode::Access(vid(7)))),
        (TRUNK, trunk(None, "7,9")),
        (NATIVE, trunk(Some(7), "9")),
        (QINQ, qinq(7, None, 0x88a8)),
        (TAGGED, qinq(7, Some("20-29"), 0x9100)),
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
        (QINQ, &[], Some(7)),
        (QINQ, &[0x2000], Some(7)),
        (QINQ, &[4095, 7], Some(7)),
        (TAGGED, &[], None),
        (TAGGED, &[0], None),
        (TAGGED, &[7], None),
        (TAGGED, &[0xa014], Some(7)),
        (TAGGED, &[0, 29], None),
    ];
    for (port, tags, expected) in cases {
        let class = classify(&rules(), *port, &frame(tags));
        let found = class.map(|class| class.vid.map(Vid::number));
        assert_eq!(found, expected.map(Some).ok_or(Drop::Vlan), "port {port}, tags {tags:x?}");
    }
}

/// Tags of all types are told apart from no VLAN, and keep their type.
#[test]
fn types_of_tags() {
    for tpid in netloom_packet::headers::TAGS {
        let mut frame = frame(&[7, 20]);
        frame[12..14].copy_from_slice(&tpid.to_be_bytes());
        let class = Class { vid: Some(vid(7)), tag: Tag::Vlan(7), inner: Some(20), service: None };
        assert_eq!(classify(&rules(), TRUNK, &frame), Ok(class));
        assert_eq!(classify(&rules(), ACCESS, &frame), Err(Drop::Vlan));
        assert_eq!(through(TRUNK, TRUNK, frame.clone()), Ok(frame.clone()));
        assert_eq!(through(TRUNK, TAGGED, frame.clone()), Ok(super::tests::frame(&[20])));
        frame[16..18].copy_from_slice(&tpid.to_be_bytes());
        assert_eq!(through(TRUNK, ACCESS, frame), Err(Drop::Vlan));
    }
    let other = [&frame(&[])[..12], &[0x88, 0xb5, 0, 7, 8, 0]].concat();
    assert_eq!(classify(&rules(), ACCESS, &other).map(|class| class.tag), Ok(Tag::None));
}

/// A customer's frames get a tag of the port's type around them, also where their VLAN is the trunk's native one.
#[test]
fn frames_of_customers_travel_in_their_tag() {
    let around = |tpid: u16, tags: &[u16]| {
        let mut frame = frame(tags);
        frame.splice(12..12, [tpid.to_be_bytes(), [0, 7]].concat());
        frame
    };
    for (from, to, tags, tpid) in [
        (QINQ, TRUNK, &[][..], 0x88a8),
        (QINQ, TRUNK, &[7], 0x88a8),
        (QINQ, NATIVE, &[0xe009], 0x88a8),
        (QINQ, NATIVE, &[], 0x88a8),
        (TAGGED, TRUNK, &[20, 9], 0x9100),
    ] {
        let got = through(from, to, frame(tags));
        assert_eq!(got, Ok(around(tpid, tags)), "{from} to {to}, tags {tags:x?}");
    }
    let nine = SwitchRules::of([(1, qinq(9, None, 0x8100)), (2, trunk(Some(7), "8"))]).unwrap();
    let class = classify(&nine, 1, &frame(&[7])).unwrap();
    assert_eq!(egress(&nine, 2, class), Err(Drop::Vlan));
}

/// Sends a frame through the switch: what the receiver gets.
fn through(from: u16, to: u16, frame: Vec<u8>) -> std::result::Result<Vec<u8>, Drop> {
    let rules = rules();
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
        // Only customers' ports do, and these get nothing that they may not send.
        (QINQ, QINQ, &[9], Some(&[9])),
        (QINQ, TAGGED, &[25], Some(&[25])),
        (QINQ, TAGGED, &[9], None),
        (QINQ, TAGGED, &[], None),
        (TAGGED, QINQ, &[25, 9], Some(&[25, 9])),
        (TRUNK, QINQ, &[7, 9], Some(&[9])),
        (TRUNK, QINQ, &[9, 7], None),
        (TRUNK, TAGGED, &[7, 25], Some(&[25])),
        (TRUNK, TAGGED, &[7, 9], None),
        (TRUNK, TAGGED, &[7], None),
        (NATIVE, QINQ, &[], Some(&[])),
        (ACCESS, QINQ, &[], Some(&[])),
        (ACCESS, TAGGED, &[], None),
        (OPEN, QINQ, &[], None),
        (QINQ, ACCESS, &[], Some(&[])),
        (QINQ, ACCESS, &[0], None),
        (QINQ, ACCESS, &[9], None),
        (QINQ, OPEN, &[], None),
    ];
    for (from, to, before, after) in cases {
        let got = through(*from, *to, frame(before));
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
    let set = || prop::collection::vec(few(), 0..4).prop_map(VidSet::from_iter);
    prop_oneof![
        Just(VlanMode::Any),
        few().prop_map(VlanMode::Access),
        (prop::option::of(few()), set())
            .prop_map(|(native, allowed)| VlanMode::Trunk { native, allowed }),
        (few(), prop::option::of(set()), tpid()).prop_map(|(vid, cvlans, tpid)| VlanMode::Qinq {
            vid,
            cvlans,
            tpid
        }),
    ]
}

fn tpid() -> impl Strategy<Value = Tpid> {
    prop::sample::select(&netloom_packet::headers::TAGS[..]).prop_map(|n| Tpid::new(n).unwrap())
}

/// What a station behind a port believes a frame's VLAN to be, and the VLANs of the tags that are not this one's: the
/// naive model.
fn vlan_at(mode: &VlanMode, frame: &[u8]) -> Option<(u16, Vec<u16>)> {
    let mut tags = Vec::new();
    let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let mut at = 12;
    while netloom_packet::headers::TAGS.contains(&word(at)) {
        tags.push(word(at + 2) & 0xfff);
        at += 4;
    }
    // A tag without a VLAN tells nothing.
    let inner = |from: usize| {
        let rest = tags.get(from..).unwrap_or_default();
        rest.iter().copied().skip_while(|vid| *vid == 0).collect::<Vec<_>>()
    };
    match (mode, tags.first().copied().filter(|vid| *vid != 0)) {
        (VlanMode::Any, None) => Some((1, inner(1))),
        (VlanMode::Access(vid), None) => Some((vid.number(), inner(1))),
        (VlanMode::Trunk { native, .. }, None) => native.map(|vid| (vid.number(), inner(1))),
        (VlanMode::Trunk { native, allowed }, Some(of)) => {
            let vid = Vid::new(of)?;
            (*native == Some(vid) || allowed.contains(vid)).then(|| (of, inner(1)))
        }
        (VlanMode::Qinq { vid, cvlans: None, .. }, _) => Some((vid.number(), inner(0))),
        (VlanMode::Qinq { vid, cvlans: Some(cvlans), .. }, _) => {
            let of = tags.first().copied().and_then(Vid::new)?;
            cvlans.contains(of).then(|| (vid.number(), inner(0)))
        }
        (VlanMode::Any | VlanMode::Access(_), Some(_)) => None,
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

    /// A frame never changes its VLAN nor those within it, and is delivered whenever both ports are in it.
    #[test]
    fn vlans_are_kept_apart(
        from in mode(),
        to in mode(),
        tags in prop::collection::vec((tpid(), prop_oneof![0u16..5, any::<u16>()]), 0..4),
    ) {
        let aware = SwitchRules::of([
            (1, of(from.clone())),
            (2, of(to.clone())),
            (3, of(VlanMode::Access(Vid::ONE))),
        ]).unwrap();
        let mut frame = frame(&tags.iter().map(|(_, tci)| *tci).collect::<Vec<_>>());
        for (at, (tpid, _)) in (12..).step_by(4).zip(&tags) {
            frame[at..at + 2].copy_from_slice(&tpid.number().to_be_bytes());
        }
        let sent = vlan_at(&from, &frame);
        let class = classify(&aware, 1, &frame);
        let vid = class.map(|c| c.vid.map(Vid::number)).ok().flatten();
        prop_assert_eq!(vid, sent.as_ref().map(|(vid, _)| *vid));
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
                    VlanMode::Qinq { vid, cvlans, .. } => {
                        class.vid == Some(*vid) && takes(cvlans.as_ref(), class.inner)
                    }
                };
                // Customers' frames reach all trunks and customers of their VLAN.
                let travels = class.service.is_some() && matches!(to, VlanMode::Trunk { .. })
                    || matches!(to, VlanMode::Qinq { .. });
                prop_assert!(!has || class.inner.is_some() && !travels);
            }
        }
    }
}
