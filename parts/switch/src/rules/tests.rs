//! Rules: texts, checks, and the enforced form.

use super::*;

fn with(number: u16, rules: PortRules) -> Rules {
    Rules { ports: BTreeMap::from([(number, rules)]), ..Rules::default() }
}

fn named(name: &str) -> PortRules {
    PortRules { name: Some(name.into()), ..PortRules::default() }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let locked = |mac| PortRules { macs: vec![Mac(mac)], ..PortRules::default() };
    assert!(with(0, PortRules::default()).check().is_err());
    assert!(with(256, PortRules::default()).check().is_err());
    assert!(with(255, PortRules::default()).check().is_ok());
    assert!(with(1, locked([1, 0, 0, 0, 0, 1])).check().is_err());
    assert!(with(1, locked([0; 6])).check().is_err());
    assert!(with(1, locked([2, 0, 0, 0, 0, 1])).check().is_ok());
    assert!(with(1, named("")).check().is_err());
    assert!(with(1, named("a\nb")).check().is_err());
    assert!(with(1, named(&"a".repeat(65))).check().is_err());
    let mut two = with(1, named("a"));
    two.ports.insert(2, named("a"));
    assert!(two.check().is_err());
    assert_eq!(two.reserved("a"), Some(1));
    assert_eq!(two.reserved("b"), None);
}

#[test]
fn mirrors_have_sources_and_are_not_their_own() {
    let mirror = |to, port| Mirror {
        to,
        temporary: false,
        sources: vec![Source { port, direction: Direction::Both }],
        filter: MirrorFilter::default(),
    };
    let with = |mirror| Rules { mirrors: BTreeMap::from([(1, mirror)]), ..Rules::default() };
    assert!(with(mirror(3, 1)).check().is_ok());
    assert!(with(mirror(3, 3)).check().is_err());
    assert!(with(mirror(0, 1)).check().is_err());
    assert!(with(Mirror { sources: vec![], ..mirror(3, 1) }).check().is_err());
    let many = (0..17).map(|n| (n, mirror(3, 1))).collect();
    assert!(Rules { mirrors: many, ..Rules::default() }.check().is_err());
}

#[test]
fn json_says_only_what_is_set() {
    let text = serde_json::to_string(&PortRules::default()).unwrap();
    assert_eq!(text, "{}");
    assert_eq!(serde_json::from_str::<PortRules>("{}").unwrap(), PortRules::default());
}

#[test]
fn json_is_read_as_it_is_written() {
    let rules = PortRules {
        name: Some("uplink".into()),
        uid: Some(1000),
        gid: Some(100),
        vlan: Some(Vlan::Trunk { native: Vid::new(7), allowed: "1-3,9".parse().unwrap() }),
        macs: vec!["02:00:00:00:00:01".parse().unwrap()],
        learn: false,
    };
    let text = serde_json::to_string(&rules).unwrap();
    assert!(text.contains(r#""vlan":{"trunk":{"native":7,"allowed":"1-3,9"}}"#), "{text}");
    assert_eq!(serde_json::from_str::<PortRules>(&text).unwrap(), rules);
    let access: Vlan = serde_json::from_str(r#"{"access":7}"#).unwrap();
    assert_eq!(Some(access), Vid::new(7).map(Vlan::Access));
    let trunk: Vlan = serde_json::from_str(r#"{"trunk":{}}"#).unwrap();
    assert_eq!(trunk, Vlan::Trunk { native: None, allowed: VidSet::ALL });
    let bare: Vlan = serde_json::from_str(r#"{"qinq":{"vlan":7}}"#).unwrap();
    let vlan = Vid::new(7).unwrap();
    assert_eq!(bare, Vlan::Qinq { vlan, cvlans: None, tpid: Tpid::SERVICE });
    let whole = r#"{"qinq":{"vlan":7,"cvlans":"1-3","tpid":"0x9100"}}"#;
    let qinq: Vlan = serde_json::from_str(whole).unwrap();
    assert_eq!(serde_json::to_string(&qinq).unwrap(), whole);
    for wrong in [r#"{"qinq":{}}"#, r#"{"qinq":{"vlan":7,"tpid":"0x0800"}}"#] {
        assert!(serde_json::from_str::<Vlan>(wrong).is_err(), "{wrong}");
    }
    for wrong in [r#"{"access":0}"#, r#"{"access":4095}"#, r#"{"trunk":{"allowed":"9-1"}}"#] {
        assert!(serde_json::from_str::<Vlan>(wrong).is_err(), "{wrong}");
    }
    let mirror = r#"{"to":3,"sources":[{"port":1,"direction":"in"}],"filter":"vlan 7, tcp"}"#;
    let mirror: Mirror = serde_json::from_str(mirror).unwrap();
    let again = serde_json::to_string(&mirror).unwrap();
    assert_eq!(serde_json::from_str::<Mirror>(&again).unwrap(), mirror);
}
