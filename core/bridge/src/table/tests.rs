//! The table compared with a map that forgets nothing, and its behaviour when full.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::*;

fn mac(number: u64) -> Mac {
    Mac::from_u64(0x0200_0000_0000 | number)
}

const VID: Option<Vid> = Some(Vid::ONE);

#[test]
fn an_address_is_learned_moves_and_ages() {
    let mut table = MacTable::new(100, 300, 7);
    assert_eq!(table.capacity(), 128);
    let Learned::New { index } = table.learn(VID, mac(1), 3, 10) else { panic!("not new") };
    assert_eq!(table.learn(VID, mac(1), 3, 10), Learned::Same);
    assert_eq!(table.learn(VID, mac(1), 3, 11), Learned::Refreshed { index });
    assert_eq!(table.learn(VID, mac(1), 4, 11), Learned::Moved { index, from: 3 });
    assert_eq!(table.moves(), 1);
    assert_eq!(table.lookup(VID, mac(1), 11), Some(4));
    assert_eq!(table.lookup(VID, mac(1), 10), Some(4), "a clock that runs behind");
    assert_eq!(table.lookup(VID, mac(1), 311), Some(4));
    assert_eq!(table.lookup(VID, mac(1), 312), None);
    assert_eq!(table.entries(312).count(), 0);
    assert_eq!(table.learn(VID, mac(1), 5, 312), Learned::New { index }, "old ones do not move");
    assert_eq!(table.moves(), 1);
    table.set_ageing(0);
    assert_eq!(table.lookup(VID, mac(1), 1_000_000), Some(5));
}

#[test]
fn vlans_learn_apart() {
    let mut table = MacTable::new(64, 300, 7);
    table.learn(None, mac(1), 1, 0);
    table.learn(VID, mac(1), 2, 0);
    table.learn(Vid::new(4094), mac(1), 3, 0);
    assert_eq!(table.lookup(None, mac(1), 0), Some(1));
    assert_eq!(table.lookup(VID, mac(1), 0), Some(2));
    assert_eq!(table.lookup(Vid::new(4094), mac(1), 0), Some(3));
    assert_eq!(table.lookup(Vid::new(2), mac(1), 0), None);
    assert_eq!(table.moves(), 0);
}

#[test]
fn what_no_station_has_is_not_learned() {
    let mut table = MacTable::new(64, 300, 7);
    for mac in [Mac::BROADCAST, Mac([1, 0, 0x5e, 0, 0, 1]), Mac([0; 6])] {
        assert_eq!(table.learn(None, mac, 1, 0), Learned::Refused);
        assert_eq!(table.lookup(None, mac, 0), None);
        assert_eq!(table.forget(None, mac), None);
    }
    assert_eq!(table.entries(0).count(), 0);
}

#[test]
fn who_floods_addresses_displaces_only_itself() {
    let mut table = MacTable::new(1024, 300, 7);
    for n in 0..100_000 {
        table.learn(None, mac(n), 1, 5);
    }
    let full = table.entries(5).count();
    assert!(full > 1000, "{full} of 1024");
    assert_eq!(table.learn(None, mac(200_000), 1, 5), Learned::Full);
    for n in 0..100 {
        let learned = table.learn(None, mac(300_000 + n), 2, 5);
        assert!(matches!(learned, Learned::New { .. }), "{learned:?}");
    }
    for n in 0..100_000 {
        table.learn(None, mac(400_000 + n), 1, 6);
    }
    for n in 0..100 {
        assert_eq!(table.lookup(None, mac(300_000 + n), 6), Some(2));
    }
}

#[test]
fn old_ones_make_room() {
    let mut table = MacTable::new(16, 10, 7);
    for n in 0..16 {
        table.learn(None, mac(n), 1, 0);
    }
    for n in 0..16 {
        assert!(matches!(table.learn(None, mac(100 + n), 1, 11), Learned::New { .. }));
    }
    assert_eq!(table.entries(11).count(), 16);
}

#[test]
fn a_port_is_forgotten() {
    let mut table = MacTable::new(64, 300, 7);
    for n in 1..=30 {
        table.learn(None, mac(n), u16::try_from(n % 3).unwrap(), 0);
    }
    let mut expected: Vec<_> = table.entries(0).filter(|e| e.port == 1).map(|e| e.index).collect();
    let mut freed = vec![];
    table.forget_port(1, |index| freed.push(index));
    expected.sort_unstable();
    assert_eq!(freed, expected);
    assert_eq!(freed.len(), 10);
    assert_eq!(table.entries(0).count(), 20);
    let index = table.entries(0).find(|e| e.mac == mac(2)).unwrap().index;
    assert_eq!(table.forget(None, mac(2)), Some(index));
    assert_eq!(table.entry(index), None);
    table.clear();
    assert_eq!(table.entries(0).count(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Learn(u16, u64, PortNumber),
    Forget(u16, u64),
    ForgetPort(PortNumber),
    Wait(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u16..3, 0u64..40, 1u16..5).prop_map(|(v, m, p)| Step::Learn(v, m, p)),
        1 => (0u16..3, 0u64..40).prop_map(|(v, m)| Step::Forget(v, m)),
        1 => (1u16..5).prop_map(Step::ForgetPort),
        2 => (1u32..8).prop_map(Step::Wait),
    ]
}

const AGEING: u32 = 10;

/// What the table must contain when it has room for everything.
#[derive(Default)]
struct Model {
    known: HashMap<(u16, u64), (PortNumber, u32)>,
    moves: u64,
}

impl Model {
    fn find(&self, vid: u16, mac: u64, now: u32) -> Option<PortNumber> {
        self.known.get(&(vid, mac)).filter(|(_, seen)| now - seen <= AGEING).map(|(port, _)| *port)
    }

    fn learn(&mut self, vid: u16, mac: u64, port: PortNumber, now: u32) -> Option<PortNumber> {
        let from = self.find(vid, mac, now).filter(|from| *from != port);
        self.moves += u64::from(from.is_some());
        self.known.insert((vid, mac), (port, now));
        from
    }
}

proptest! {
    #[test]
    fn as_a_map_does(steps in prop::collection::vec(step(), 0..400), seed: u64, start in 0u32..5) {
        // 120 keys in 1024 places: two sets of eight never fill up.
        let mut table = MacTable::new(1024, AGEING, seed);
        let (mut model, mut now) = (Model::default(), start);
        for step in steps {
            match step {
                Step::Learn(v, m, port) => {
                    let learned = table.learn(Vid::new(v), mac(m), port, now);
                    let from = model.learn(v, m, port, now);
                    match learned {
                        Learned::Moved { from: of, .. } => prop_assert_eq!(from, Some(of)),
                        other => {
                            prop_assert_eq!(from, None);
                            prop_assert!(!matches!(other, Learned::Full | Learned::Refused));
                        }
                    }
                }
                // The table may have fewer of the entries that are too old: others took their places.
                Step::Forget(v, m) => {
                    let young = model.find(v, m, now).is_some();
                    let known = model.known.remove(&(v, m)).is_some();
                    let index = table.forget(Vid::new(v), mac(m));
                    let right = if young { index.is_some() } else { known || index.is_none() };
                    prop_assert!(right);
                }
                Step::ForgetPort(port) => {
                    let mut freed = 0;
                    table.forget_port(port, |_| freed += 1);
                    let its = |of: &(PortNumber, u32)| of.0 == port;
                    let all = model.known.values().filter(|of| its(of)).count();
                    let young = model.known.values().filter(|of| its(of) && now - of.1 <= AGEING);
                    prop_assert!((young.count()..=all).contains(&freed));
                    model.known.retain(|_, of| !its(of));
                }
                Step::Wait(seconds) => now += seconds,
            }
            for v in 0..3 {
                for m in 0..40 {
                    let found = table.lookup(Vid::new(v), mac(m), now);
                    prop_assert_eq!(found, model.find(v, m, now));
                }
            }
        }
        prop_assert_eq!(table.moves(), model.moves);
        let young = model.known.keys().filter(|(v, m)| model.find(*v, *m, now).is_some()).count();
        prop_assert_eq!(table.entries(now).count(), young);
    }

    #[test]
    fn a_small_table_is_never_wrong(
        steps in prop::collection::vec((0u16..3, 0u64..200, 0u16..=300), 0..500),
        seed: u64,
        now: u32,
    ) {
        let mut table = MacTable::new(16, 0, seed);
        let mut last = BTreeMap::new();
        for (v, m, port) in steps {
            let learned = table.learn(Vid::new(v), mac(m), port, now);
            last.insert((v, m), port);
            let found = table.lookup(Vid::new(v), mac(m), now);
            if learned == Learned::Full {
                prop_assert_eq!(found, None);
            } else {
                prop_assert_eq!(found, Some(port));
            }
            if let Learned::New { index } | Learned::Moved { index, .. } = learned {
                let entry = table.entry(index).unwrap();
                prop_assert_eq!((entry.vid, entry.mac, entry.port), (Vid::new(v), mac(m), port));
            }
        }
        let entries: Vec<_> = table.entries(now).collect();
        for entry in &entries {
            let key = (entry.vid.map_or(0, Vid::number), entry.mac.to_u64() & 0xffff);
            prop_assert_eq!(last.get(&key), Some(&entry.port));
            prop_assert_eq!(table.lookup(entry.vid, entry.mac, now), Some(entry.port));
        }
    }
}
