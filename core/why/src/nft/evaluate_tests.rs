//! Packets through rulesets, as nft(8) compiles them.

use super::*;
use crate::nft::{Attached, Change, Element, Nat, Operand};

fn packet(port: u16) -> Packet {
    let mut network = vec![None; 20];
    let known = |into: &mut Vec<Option<u8>>, at: usize, bytes: &[u8]| {
        bytes.iter().enumerate().for_each(|(i, byte)| into[at + i] = Some(*byte));
    };
    known(&mut network, 9, &[6]);
    known(&mut network, 12, &[10, 0, 0, 1]);
    known(&mut network, 16, &[10, 0, 1, 2]);
    let mut transport = vec![None; 20];
    known(&mut transport, 0, &40_000_u16.to_be_bytes());
    known(&mut transport, 2, &port.to_be_bytes());
    known(&mut transport, 13, &[2]);
    Packet {
        ipv4: true,
        protocol: 6,
        input: Some(("eth0".into(), 2)),
        output: Some(("eth1".into(), 3)),
        network,
        transport,
        answers: Some(false),
        arp: false,
    }
}

fn cmp(from: u32, value: &[u8]) -> Expression {
    Expression::Cmp { from, operation: 0, value: value.to_vec() }
}

fn dport(value: u16) -> Vec<Expression> {
    vec![
        Expression::Meta { key: 16, to: 1 },
        cmp(1, &[6]),
        Expression::Payload { base: 2, offset: 2, length: 2, to: 1 },
        cmp(1, &value.to_be_bytes()),
    ]
}

fn with(mut steps: Vec<Expression>, last: Expression) -> Vec<Expression> {
    steps.push(last);
    steps
}

fn drop() -> Expression {
    Expression::Verdict(Verdict::Drop)
}

fn accept() -> Expression {
    Expression::Verdict(Verdict::Accept)
}

fn nat(name: &str, change: Change) -> Expression {
    Expression::Nat(Nat { name: name.into(), change })
}

fn chain(drops: bool, rules: Vec<Vec<Expression>>) -> Ruleset {
    let rule = |(at, steps)| Rule { handle: at as u64 + 4, steps };
    let attached = Attached { hook: 2, priority: 0, devices: vec![], drops };
    Ruleset {
        chains: vec![Chain {
            family: Family::Inet,
            table: "fw".into(),
            name: "fwd".into(),
            attached: Some(attached),
            rules: rules.into_iter().enumerate().map(rule).collect(),
        }],
        sets: vec![],
    }
}

fn stopped(rules: &Ruleset, packet: &Packet) -> (Option<u64>, String) {
    match run(rules, Hook::Forward, packet) {
        Fate::Stopped(by) => (by.handle, by.text),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_rule_that_drops_is_named_with_its_text() {
    let rules = chain(false, vec![with(dport(22), drop()), with(dport(80), drop())]);
    assert_eq!(stopped(&rules, &packet(80)), (Some(5), "tcp dport 80 drop".into()));
    assert_eq!(run(&rules, Hook::Forward, &packet(443)), Fate::Passes);
    assert_eq!(run(&rules, Hook::Input, &packet(80)), Fate::Passes, "another hook");
    let mut six = packet(80);
    six.ipv4 = false;
    assert!(matches!(run(&rules, Hook::Forward, &six), Fate::Stopped(_)), "inet is of both");
}

#[test]
fn a_policy_drops_what_no_rule_accepts() {
    let rules = chain(true, vec![with(dport(22), accept())]);
    assert_eq!(stopped(&rules, &packet(80)), (None, "policy drop".into()));
    assert_eq!(run(&rules, Hook::Forward, &packet(22)), Fate::Passes);
}

#[test]
fn a_rule_behind_a_doubt_is_not_named_as_the_one() {
    let limited = vec![Expression::Unknown("limit".into()), accept()];
    let rules = chain(false, vec![limited, with(dport(80), drop())]);
    let Fate::Doubtful(by) = run(&rules, Hook::Forward, &packet(80)) else { panic!() };
    assert_eq!(by.iter().map(|d| d.handle).collect::<Vec<_>>(), [Some(4), Some(5)]);
    // What a later condition refuses for certain is not a doubt.
    let two = with([vec![Expression::Unknown("limit".into())], dport(22)].concat(), drop());
    assert_eq!(run(&chain(false, vec![two]), Hook::Forward, &packet(80)), Fate::Passes);
    // A doubtful drop alone.
    let maybe = with([dport(80), vec![Expression::Unknown("quota".into())]].concat(), drop());
    let rules = chain(false, vec![maybe]);
    assert!(matches!(run(&rules, Hook::Forward, &packet(80)), Fate::Doubtful(_)));
    assert_eq!(run(&rules, Hook::Forward, &packet(81)), Fate::Passes);
}

#[test]
fn connection_states_masks_and_prefixes_are_compared() {
    let state = |bits: u32| {
        vec![
            Expression::Ct { key: 0, to: 1 },
            Expression::Bitwise {
                from: 1,
                to: 1,
                mask: bits.to_ne_bytes().into(),
                xor: vec![0; 4],
            },
            Expression::Cmp { from: 1, operation: 1, value: vec![0; 4] },
        ]
    };
    let rules = chain(true, vec![with(state(2 | 4), accept())]);
    assert!(matches!(run(&rules, Hook::Forward, &packet(80)), Fate::Stopped(_)));
    let mut answer = packet(80);
    answer.answers = Some(true);
    assert_eq!(run(&rules, Hook::Forward, &answer), Fate::Passes);
    answer.answers = None;
    assert!(matches!(run(&rules, Hook::Forward, &answer), Fate::Doubtful(_)));
    let net = |address: [u8; 4]| {
        vec![
            Expression::Meta { key: 15, to: 1 },
            cmp(1, &[2]),
            Expression::Payload { base: 1, offset: 16, length: 4, to: 1 },
            Expression::Bitwise { from: 1, to: 1, mask: vec![255, 255, 254, 0], xor: vec![0; 4] },
            cmp(1, &address),
            drop(),
        ]
    };
    let rules = chain(false, vec![net([10, 0, 0, 0])]);
    assert_eq!(stopped(&rules, &packet(80)), (Some(4), "ip daddr 10.0.0.0/23 drop".into()));
    assert_eq!(
        run(&chain(false, vec![net([10, 0, 2, 0])]), Hook::Forward, &packet(80)),
        Fate::Passes
    );
}

#[test]
fn sets_intervals_and_verdict_maps_are_looked_up() {
    let element =
        |key: u16, ends| Element { key: key.to_be_bytes().into(), ends, ..Element::default() };
    let mut rules = chain(false, vec![]);
    let set = |name: &str, intervals, elements| Set {
        family: Family::Inet,
        table: "fw".into(),
        name: name.into(),
        intervals,
        concatenated: false,
        elements,
    };
    let lookup = |set: &str, to| {
        let mut steps = dport(0);
        steps.pop();
        with(steps, Expression::Lookup { set: set.into(), from: 1, inverted: false, to })
    };
    rules.sets = vec![
        set("__set0", false, vec![element(80, false), element(443, false)]),
        set("range", true, vec![element(1000, false), element(2001, true)]),
        set("__map0", false, vec![Element { verdict: Some(Verdict::Drop), ..element(53, false) }]),
    ];
    let in_set = with(lookup("__set0", None), drop());
    rules.chains[0].rules = vec![
        Rule { handle: 1, steps: in_set },
        Rule { handle: 2, steps: with(lookup("range", None), drop()) },
        Rule { handle: 3, steps: lookup("__map0", Some(0)) },
    ];
    assert_eq!(stopped(&rules, &packet(443)), (Some(1), "tcp dport { 80, 443 } drop".into()));
    assert_eq!(stopped(&rules, &packet(1500)), (Some(2), "tcp dport @range drop".into()));
    assert_eq!(stopped(&rules, &packet(53)), (Some(3), "tcp dport vmap { 53 : drop }".into()));
    for passing in [81, 999, 2001, 54] {
        assert_eq!(run(&rules, Hook::Forward, &packet(passing)), Fate::Passes, "{passing}");
    }
    // A map of values: the rule goes on where it has one.
    rules.sets.push(set("map", false, vec![element(8080, false)]));
    rules.chains[0].rules = vec![Rule { handle: 4, steps: with(lookup("map", Some(2)), drop()) }];
    assert_eq!(stopped(&rules, &packet(8080)).0, Some(4));
    assert_eq!(run(&rules, Hook::Forward, &packet(80)), Fate::Passes);
}

#[test]
fn chains_call_each_other_and_circles_end() {
    let mut rules = chain(true, vec![vec![Expression::Verdict(Verdict::Jump("web".into()))]]);
    rules.chains.push(Chain {
        family: Family::Inet,
        table: "fw".into(),
        name: "web".into(),
        attached: None,
        rules: vec![Rule { handle: 9, steps: with(dport(80), Expression::Reject { reset: true }) }],
    });
    assert_eq!(
        stopped(&rules, &packet(80)),
        (Some(9), "tcp dport 80 reject with tcp reset".into())
    );
    assert_eq!(stopped(&rules, &packet(81)), (None, "policy drop".into()));
    rules.chains[1].rules[0].steps = vec![Expression::Verdict(Verdict::Goto("web".into()))];
    assert!(!matches!(run(&rules, Hook::Forward, &packet(80)), Fate::Passes));
}

#[test]
fn interfaces_are_compared_by_name_beginning_and_index() {
    let by_name = |name: &[u8]| vec![Expression::Meta { key: 6, to: 1 }, cmp(1, name), drop()];
    let mut whole = b"eth0".to_vec();
    whole.resize(16, 0);
    let rules = chain(false, vec![by_name(&whole)]);
    assert_eq!(stopped(&rules, &packet(80)).1, "iifname \"eth0\" drop");
    let rules = chain(false, vec![by_name(b"eth")]);
    assert_eq!(stopped(&rules, &packet(80)).1, "iifname \"eth*\" drop");
    let index = vec![Expression::Meta { key: 5, to: 1 }, cmp(1, &3_u32.to_ne_bytes()), drop()];
    assert_eq!(stopped(&chain(false, vec![index]), &packet(80)).1, "oif 3 drop");
}

#[test]
fn what_follows_a_program_a_doubtful_goto_or_untracked_packets_is_not_certain() {
    let doubtful = |rules: &Ruleset| {
        let found = run(rules, Hook::Forward, &packet(80));
        assert!(matches!(found, Fate::Doubtful(_)), "{found:?}");
    };
    doubtful(&chain(true, vec![vec![Expression::Verdict(Verdict::Queue)]]));
    let goto = Expression::Verdict(Verdict::Goto("empty".into()));
    let mut rules =
        chain(false, vec![vec![Expression::Unknown("limit".into()), goto], vec![drop()]]);
    rules.chains.push(Chain {
        name: "empty".into(),
        attached: None,
        rules: vec![],
        ..rules.chains[0].clone()
    });
    doubtful(&rules);
    let state = vec![
        Expression::Ct { key: 0, to: 1 },
        Expression::Cmp { from: 1, operation: 0, value: 8_u32.to_ne_bytes().into() },
        drop(),
    ];
    assert!(matches!(
        run(&chain(false, vec![state.clone()]), Hook::Forward, &packet(80)),
        Fate::Stopped(_)
    ));
    let untracked = chain(false, vec![vec![Expression::Harmless("notrack".into())], state]);
    doubtful(&untracked);
}

#[test]
fn chains_that_call_each_other_often_take_a_bounded_time() {
    let call = |to: usize| vec![Expression::Verdict(Verdict::Jump(format!("c{to}")))];
    let mut rules = chain(false, vec![call(1); 64]);
    for at in 1..12 {
        let mut next = chain(false, vec![call(at + 1); 64]).chains.remove(0);
        (next.name, next.attached) = (format!("c{at}"), None);
        rules.chains.push(next);
    }
    assert!(matches!(run(&rules, Hook::Forward, &packet(80)), Fate::Doubtful(_)));
}

#[test]
fn a_translation_that_may_happen_is_told() {
    let maybe = vec![Expression::Unknown("limit".into()), nat("nat", Change::Unknown)];
    let found = run(&chain(false, vec![maybe]), Hook::Forward, &packet(80));
    assert!(matches!(found, Fate::Translated(..)), "{found:?}");
    // A chain behind it compares other addresses than these.
    let mut rules = chain(false, vec![with(dport(80), nat("nat", Change::Unknown))]);
    let mut behind = chain(true, vec![]).chains.remove(0);
    behind.attached.as_mut().unwrap().priority = 100;
    rules.chains.push(behind);
    let Fate::Doubtful(by) = run(&rules, Hook::Forward, &packet(80)) else { panic!() };
    assert_eq!(by.iter().map(|d| d.handle).collect::<Vec<_>>(), [Some(4), None]);
    assert_eq!(stopped(&rules, &packet(81)).0, None);
}

#[test]
fn of_chains_of_equal_priority_the_newer_runs_first() {
    // The kernel lists a table's chains by age.
    let mut rules = chain(false, vec![with(dport(80), nat("nat", Change::Unknown))]);
    let mut newer = chain(true, vec![]).chains.remove(0);
    newer.name = "newer".into();
    rules.chains.push(newer);
    let Fate::Stopped(by) = run(&rules, Hook::Forward, &packet(80)) else { panic!() };
    assert_eq!(by.chain, "newer");
    rules.chains.reverse();
    assert!(matches!(run(&rules, Hook::Forward, &packet(80)), Fate::Doubtful(_)));
}

#[test]
fn the_order_of_two_tables_of_equal_priority_is_not_known() {
    let mut rules = chain(false, vec![with(dport(80), nat("nat", Change::Unknown))]);
    let mut other = chain(true, vec![]).chains.remove(0);
    other.table = "other".into();
    rules.chains.push(other);
    for _ in 0..2 {
        assert!(matches!(run(&rules, Hook::Forward, &packet(80)), Fate::Doubtful(_)));
        // What neither of them lets pass is stopped for certain.
        assert_eq!(stopped(&rules, &packet(81)).0, None);
        rules.chains.reverse();
    }
}

#[test]
fn what_a_translation_makes_of_a_packet_is_told_where_it_is_certain() {
    let register = |at| Some(Operand::Register(at));
    let load = |to, value: &[u8]| Expression::Constant { to, value: value.to_vec() };
    let made = |steps: Vec<Expression>, packet: &Packet| match run(
        &chain(false, vec![steps]),
        Hook::Forward,
        packet,
    ) {
        Fate::Translated(_, new) => new,
        found => panic!("{found:?}"),
    };
    let to_web = Change::Destination(register(1), register(2));
    let dnat =
        vec![load(1, &[10, 0, 0, 9]), load(2, &8080_u16.to_be_bytes()), nat("nat", to_web.clone())];
    let web = Some("10.0.0.9".parse().unwrap());
    assert_eq!(made(dnat.clone(), &packet(80)), Some(New::Destination(web, Some(8080))));
    // A register that nothing was loaded into, as from a map.
    let some = vec![load(1, &[10, 0, 0, 9]), nat("nat", to_web)];
    assert_eq!(made(some, &packet(80)), None);
    // A rule before may have accepted the packet as it was.
    let maybe = vec![Expression::Unknown("limit".into()), accept()];
    let both = chain(false, vec![maybe, dnat.clone()]);
    let Fate::Translated(_, new) = run(&both, Hook::Forward, &packet(80)) else { panic!() };
    assert_eq!(new, None);
    // Later packets of the connection do not come to chains of NAT.
    let answer = Packet { answers: Some(true), ..packet(80) };
    let of_nat = chain(false, vec![dnat]);
    assert_eq!(run(&of_nat, Hook::Forward, &answer), Fate::Passes);
    let Fate::Translated(by, _) = run(&of_nat, Hook::Forward, &packet(80)) else { panic!() };
    assert_eq!(by.text, "dnat to 10.0.0.9:8080");
    let masquerade = vec![nat("masq", Change::Masquerade)];
    assert_eq!(made(masquerade, &packet(80)), Some(New::Masqueraded));
}
