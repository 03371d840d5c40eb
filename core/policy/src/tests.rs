//! Properties of whole policies, and the examples of the guide.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use jiff::Timestamp;
use proptest::prelude::*;

use crate::compare::compare;
use crate::learn::{Learned, MOST};
use crate::pattern::{Destination, Part, PathPattern, Peers, Ports, ProgramPattern, Sha256};
use crate::{
    Action, Direction, Errno, Indexed, Policy, Port, Program, Protocol, Request, Rule, Target,
    read, write,
};

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn actions() -> impl Strategy<Value = Action> {
    let deny = |name| Action::Deny(Errno::named(name).unwrap());
    prop_oneof![
        Just(Action::Allow),
        Just(Action::Log),
        Just(Action::Ask),
        Just(deny("EACCES")),
        Just(deny("ECONNREFUSED")),
    ]
}

fn paths() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["/a", "/a/b", "/a/c", "/a/b/c", "/d"]).prop_map(str::to_owned)
}

fn path_patterns() -> impl Strategy<Value = PathPattern> {
    let all = ["/a", "/a/b", "/a/*", "/a/**", "/a/b/**", "/*", "/**", "/d"];
    prop::sample::select(all.to_vec()).prop_map(|text| PathPattern::parse(text).unwrap())
}

fn destinations() -> impl Strategy<Value = Destination> {
    let all = [
        "any",
        "resolver",
        "x.org",
        "y.x.org",
        "*.x.org",
        "*.y.x.org",
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.1.0.1",
        "::/0",
        "fd00::1",
        "unix:/a/b",
        "unix:/a/*",
        "unix:@ab",
        "unix:@a*",
        "vsock:2",
    ];
    prop::sample::select(all.to_vec()).prop_map(|text| Destination::parse(text).unwrap())
}

/// Ports of a rule; only one about listeners knows free ones.
fn port_sets(direction: Direction) -> impl Strategy<Value = Option<Ports>> {
    let range = (1..4_u32, 0..3_u32).prop_map(|(low, more)| Part::Range(low, low + more));
    let every = (0..3_u32).prop_map(|low| Part::Range(low, 65535));
    let free = if direction == Direction::In { Part::Free } else { Part::Range(0, 0) };
    let part = prop_oneof![4 => range, 1 => every, 2 => Just(free)];
    prop::option::of(prop::collection::vec(part, 1..3).prop_map(|r| Ports::of(r).unwrap()))
}

fn peer_sets() -> impl Strategy<Value = Peers> {
    let all = ["10.0.0.0/8", "10.1.0.0/16", "10.1.0.1", "127.0.0.0/8", "::/0", "fd00::1"];
    let words = prop::sample::subsequence(all.to_vec(), 1..4);
    words.prop_map(|words| Peers::of(words.iter().map(|word| Peers::parse(word).unwrap().unwrap())))
}

fn directions() -> impl Strategy<Value = Direction> {
    prop::sample::select(vec![Direction::Out, Direction::In])
}

fn protocols() -> impl Strategy<Value = Protocol> {
    let raw = [Protocol::Raw, Protocol::RawOf(1), Protocol::RawOf(200)];
    let others = [Protocol::Tcp, Protocol::Udp, Protocol::Dns, Protocol::Unix];
    prop::sample::select([&others, &raw[..]].concat())
}

/// A rule that can be written: of one that goes out alone is what only goes out.
fn possible(mut rule: Rule) -> Rule {
    if rule.direction != Direction::Out {
        rule.protocols.retain(|one| *one != Protocol::Dns);
        rule.to.retain(|to| *to != Destination::Resolver);
    }
    if rule.protocols == [Protocol::Dns] {
        rule.to.retain(|to| *to == Destination::Any || to.says_name());
    }
    if rule.protocols.iter().all(|one| !one.has_ports()) && !rule.protocols.is_empty() {
        rule.ports = None;
    }
    if rule.to.is_empty() {
        rule.to = vec![Destination::Any];
    }
    rule
}

/// Protocols of sockets.
fn asked_protocols() -> impl Strategy<Value = Protocol> {
    let all = [Protocol::Tcp, Protocol::Tcp, Protocol::Udp, Protocol::RawOf(1), Protocol::RawOf(2)];
    prop::sample::select(all.to_vec())
}

prop_compose! {
    fn rules()(direction in directions())(
        action in actions(),
        direction in Just(direction),
        path in prop::option::of(path_patterns()),
        sha256 in prop::option::of(prop::sample::select(vec![[1; 32], [2; 32]])),
        to in prop::collection::vec(destinations(), 1..3),
        ports in port_sets(direction),
        protocols in prop::collection::vec(protocols(), 0..2),
        until in prop::option::of((0..3_i64).prop_map(time)),
        note in prop::option::of("[ -~é\n]{0,6}"),
        from in prop::option::of(peer_sets()),
    ) -> Rule {
        let program = ProgramPattern { path, sha256: sha256.map(Sha256) };
        let portless = !protocols.is_empty() && !protocols.iter().any(|one| one.has_ports());
        let ports = ports.filter(|_| !portless);
        let plain = |to: &Destination| matches!(to, Destination::Any | Destination::Net(_));
        let stops = |one: &Protocol| !matches!(one, Protocol::Tcp | Protocol::Udp);
        let listens = direction == Direction::In
            && action.passes()
            && to.iter().all(plain)
            && !protocols.iter().any(stops);
        let from = from.filter(|_| listens);
        possible(Rule { action, direction, program, to, ports, protocols, from, until, note })
    }
}

fn targets(direction: Direction) -> impl Strategy<Value = Target> {
    let addresses = ["10.1.0.1", "10.1.0.2", "10.2.0.1", "11.0.0.1", "fd00::1", "::2"];
    let names = prop::sample::subsequence(vec!["x.org", "y.x.org", "z.y.x.org", "o.org"], 0..3);
    let ip = (prop::sample::select(addresses.to_vec()), 0..6_u16, names).prop_map(
        move |(a, port, n)| {
            let names = n.into_iter().map(str::to_owned).collect();
            Target::ip(direction, a.parse().unwrap(), port, names)
        },
    );
    let chosen = ip.clone().prop_map(move |mut target| {
        if direction == Direction::In {
            target.set_free();
        }
        target
    });
    let resolver = ip.clone().prop_map(move |mut target| {
        if let Target::Ip { resolver, .. } = &mut target {
            *resolver = direction == Direction::Out;
        }
        target
    });
    let name = prop::sample::select(vec!["x.org", "y.x.org", "o.org"]);
    prop_oneof![
        6 => ip,
        2 => chosen,
        1 => resolver,
        1 => name.prop_map(|name| Target::Name(name.into())),
        1 => paths().prop_map(Target::Path),
        1 => prop::sample::select(vec!["a", "ab", "abc"]).prop_map(|n| Target::Abstract(n.into())),
        1 => (2..4_u32, 0..6_u32).prop_map(|(cid, port)|
            Target::Vsock { cid, port: Port::Named(port) }),
        1 => Just(Target::Socket),
    ]
}

prop_compose! {
    fn requests()(direction in directions())(
        path in paths(),
        sha256 in prop::option::of(prop::sample::select(vec![[1; 32], [2; 32]])),
        direction in Just(direction),
        protocol in asked_protocols(),
        target in targets(direction),
    ) -> Request {
        let (direction, protocol) = match &target {
            Target::Name(_) => (Direction::Out, Protocol::Dns),
            Target::Socket => (Direction::Open, protocol),
            _ => (direction, protocol),
        };
        let target = if protocol.has_ports() { target } else { target.without_port() };
        Request { program: Program { path, sha256 }, direction, protocol, target }
    }
}

/// Also of a socket that no rule can name.
fn all_requests() -> impl Strategy<Value = Request> {
    let hidden = requests().prop_map(|request| Request {
        protocol: Protocol::Unix,
        target: Target::Hidden,
        direction: if request.direction == Direction::In { Direction::In } else { Direction::Out },
        ..request
    });
    prop_oneof![9 => requests(), 1 => hidden]
}

prop_compose! {
    fn policies()(
        default in actions().prop_map(|a| Action::named(a.name()).unwrap()),
        rules in prop::collection::vec(rules(), 0..8),
    ) -> Policy {
        Policy { default, rules, ..Policy::default() }
    }
}

/// The request of a listener, which no name leads to.
fn listening(request: Request) -> Request {
    let target = match request.target {
        Target::Ip { address, port, .. } => {
            Target::Ip { address, port, names: vec![], resolver: false }
        }
        Target::Name(_) => Target::Path("/a".into()),
        other => other,
    };
    let protocol = match request.protocol {
        Protocol::Dns => Protocol::Unix,
        other => other,
    };
    Request { direction: Direction::In, protocol, target, ..request }
}

fn single(rule: &Rule) -> Policy {
    Policy { rules: vec![rule.clone()], ..Policy::default() }
}

/// Whether the rule matches the request, as known by any of its names.
fn matches(rule: &Rule, request: &Request, now: Timestamp) -> bool {
    let by = |name: &[String]| {
        let mut request = request.clone();
        if let Target::Ip { names, .. } = &mut request.target {
            *names = name.to_vec();
        }
        request
    };
    let judged = |request: Request| single(rule).decide(&request, now).rule.is_some();
    match &request.target {
        Target::Ip { names, .. } if !names.is_empty() => {
            names.iter().any(|name| judged(by(std::slice::from_ref(name))))
        }
        _ => judged(request.clone()),
    }
}

/// The rule without those conditions whose bits are set.
fn widened(rule: &Rule, dropped: u8) -> Rule {
    let mut wide = rule.clone();
    let drops = |bit: u8| dropped & (1 << bit) != 0;
    wide.program.path = wide.program.path.filter(|_| !drops(0));
    wide.program.sha256 = wide.program.sha256.filter(|_| !drops(1));
    wide.ports = wide.ports.filter(|_| !drops(2));
    wide.protocols.retain(|_| !drops(3));
    if drops(4) {
        wide.to = vec![Destination::Any];
    }
    wide
}

/// Whether the destination is one of those reached: the same, or known by a name that was reached.
fn reached(known: &[&Request], to: &Target) -> bool {
    known.iter().any(|one| match (&one.target, to) {
        (Target::Ip { resolver: true, .. }, Target::Ip { resolver, .. }) => *resolver,
        (Target::Ip { address, names, .. }, Target::Ip { address: to, names: others, .. }) => {
            match names.is_empty() {
                true => address == to,
                false => names.iter().any(|name| others.contains(name)),
            }
        }
        (Target::Ip { names, .. }, Target::Name(name)) => names.contains(name),
        (one, to) => one == to,
    })
}

/// As [`reached`], but where stricter rules were there before, addresses of names count, too.
fn reached_by_any(known: &[&Request], to: &Target) -> bool {
    let address = |target: &Target| match target {
        Target::Ip { address, .. } => Some(*address),
        _ => None,
    };
    let near = |one: &&Request| address(&one.target).is_some_and(|at| address(to) == Some(at));
    reached(known, to) || known.iter().any(near)
}

/// Whether a rule for the one port is about the other: one that the kernel chose is also one of its number.
fn is_about(one: Port, other: Port) -> bool {
    let chosen = matches!((one, other), (Port::Named(named), Port::Free(free)) if named == free);
    chosen || Part::of(one) == Part::of(other)
}

/// Whether what was done is done in the same direction, by the same protocol and port; a look-up of a name needs neither.
fn is_as(one: &Request, other: &Request) -> bool {
    one.direction == other.direction
        && (other.protocol == Protocol::Dns
            || (one.protocol == other.protocol && is_about(one.target.port(), other.target.port())))
}

proptest! {
    /// The order of rules has no meaning.
    #[test]
    fn shuffled_rules_decide_alike(
        (policy, shuffled) in policies().prop_flat_map(|policy| {
            let rules = Just(policy.rules.clone()).prop_shuffle();
            (Just(policy), rules)
        }),
        request in requests(),
        now in (0..3_i64).prop_map(time),
    ) {
        let other = Policy { rules: shuffled, ..policy.clone() };
        prop_assert_eq!(policy.decide(&request, now).action, other.decide(&request, now).action);
        prop_assert_eq!(policy.peers(&request, now), other.peers(&request, now));
    }

    /// The rule for one request alone decides about it, however strict the wider rules are.
    #[test]
    fn a_narrower_rule_beats_a_wider_one(
        request in requests(), action in actions(), wide in actions(), dropped in 1..32_u8,
    ) {
        let mut learned = Learned::new(true);
        learned.add(&request);
        let narrow = Rule { action, ..learned.policy().rules[0].clone() };
        let wide = widened(&Rule { action: wide, ..narrow.clone() }, dropped);
        prop_assume!(!wide.covered_by(&narrow));
        let policy = Policy { rules: vec![wide, narrow], ..Policy::default() };
        prop_assert_eq!(policy.decide(&request, time(0)).rule, Some(1));
    }

    /// The narrower rule decides which peers may reach a listener, however few the wider one lets come.
    #[test]
    fn a_narrower_rules_peers_win(
        request in requests(), from in prop::option::of(peer_sets()), wide in peer_sets(), dropped in 1..32_u8,
    ) {
        let request = listening(request);
        let mut learned = Learned::new(true);
        learned.add(&request);
        prop_assume!(!learned.policy().rules.is_empty());
        let narrow = Rule { from: from.clone(), ..learned.policy().rules[0].clone() };
        let wide = widened(&Rule { from: Some(wide), ..narrow.clone() }, dropped);
        prop_assume!(!wide.covered_by(&narrow));
        let policy = Policy { rules: vec![wide, narrow], ..Policy::default() };
        prop_assert_eq!(policy.peers(&request, time(0)), from);
    }

    /// A rule more that none beats lets nobody in whom the others keep out.
    #[test]
    fn a_rule_beside_others_lets_nobody_in(
        request in requests(), a in peer_sets(), b in peer_sets(),
    ) {
        let request = listening(request);
        let rule = |from| Rule { from: Some(from), ..Rule::every(Action::Allow, Direction::In) };
        let policy = Policy { rules: vec![rule(a.clone()), rule(b.clone())], ..Policy::default() };
        prop_assert_eq!(policy.peers(&request, time(0)), Some(a.and(&b)));
    }

    /// The rule for a free port decides about one before any rule that has all ports, and about no other port.
    #[test]
    fn a_free_port_is_narrower_than_all(
        action in actions(), wide in actions(), low in 0..2_u32, port in 0..6_u16, has_ports in any::<bool>(),
    ) {
        let every = Ports::of([Part::Range(low, 65535)]).filter(|_| has_ports);
        let wide = Rule { ports: every, ..Rule::every(wide, Direction::In) };
        let free = Ports::of([Part::Free]);
        let narrow = Rule { ports: free, ..Rule::every(action, Direction::In) };
        prop_assert!(narrow.covered_by(&wide) && !wide.covered_by(&narrow));
        let policy = Policy { rules: vec![wide, narrow], ..Policy::default() };
        let mut request = listens(port);
        let named = policy.decide(&request, time(0)).rule;
        prop_assert_eq!(named, Some(usize::from(port == 0)), "0 is a free one");
        request.target.set_free();
        prop_assert_eq!(policy.decide(&request, time(0)).rule, Some(1));
    }

    /// What lies within a rule is matched by it.
    #[test]
    fn a_covered_rule_matches_nothing_else(
        a in rules(), b in rules(), request in requests(), now in (0..3_i64).prop_map(time),
    ) {
        // A program that is denied only some ports of a name may look it up.
        let looked_up = matches!(request.target, Target::Name(_)) && a.action.passes();
        if a.covered_by(&b) && matches(&a, &request, now) && (b.action.passes() || !looked_up) {
            prop_assert!(matches(&b, &request, now));
        }
    }

    /// A verdict is one of a matching rule, or the default where no rule matches.
    #[test]
    fn a_verdict_names_a_rule_that_matches(
        policy in policies(), request in all_requests(), now in (0..3_i64).prop_map(time),
    ) {
        let verdict = policy.decide(&request, now);
        match verdict.rule {
            Some(at) => {
                prop_assert!(matches(&policy.rules[at], &request, now));
                prop_assert_eq!(policy.rules[at].action, verdict.action);
            }
            None => prop_assert_eq!(policy.default, verdict.action),
        }
    }

    /// Where a rule says one of the names, one name more never makes a verdict more lenient; and one that no rule says
    /// never changes it.
    #[test]
    fn another_name_never_loosens(
        policy in policies(), request in requests(), now in (0..3_i64).prop_map(time),
    ) {
        let with = |name: &str| {
            let mut request = request.clone();
            if let Target::Ip { names, .. } = &mut request.target {
                names.insert(0, name.into());
            }
            policy.decide(&request, now)
        };
        let alone = policy.decide(&request, now);
        prop_assert_eq!(with("unsaid.example").action, alone.action);
        let says = |rule: &Rule| {
            let to: Vec<_> = rule.to.iter().filter(|to| to.says_name()).cloned().collect();
            !to.is_empty() && matches(&Rule { to, ..rule.clone() }, &request, now)
        };
        if policy.rules.iter().any(says) {
            prop_assert!(with("y.x.org").action >= alone.action);
        }
    }

    /// A program that looks up a name may reach it at some port, or has a rule for looking up.
    #[test]
    fn a_name_is_looked_up_by_who_may_reach_it(
        policy in policies(), request in requests(), now in (0..3_i64).prop_map(time),
    ) {
        let Target::Name(name) = request.target.clone() else { return Ok(()) };
        let reaches = |protocol: Protocol, port: u16| {
            let address = "203.0.113.1".parse().unwrap();
            let target = Target::ip(Direction::Out, address, port, vec![name.clone()]);
            let target = if protocol.has_ports() { target } else { target.without_port() };
            let request = Request { protocol, target, ..request.clone() };
            policy.decide(&request, now).action.passes()
        };
        let mut ways = [Protocol::Tcp, Protocol::Udp, Protocol::RawOf(1), Protocol::RawOf(200)].into_iter();
        let reached = ways.any(|way| (0..9).any(|port| reaches(way, port)));
        let by_rule = policy.rules.iter().any(|rule| rule.protocols.contains(&Protocol::Dns));
        if policy.decide(&request, now).action.passes() {
            prop_assert!(reached || by_rule, "looked up, and not reached");
        }
    }

    /// A denial that is added never turns a denied request to an allowed one by itself.
    #[test]
    fn an_added_denial_never_allows(
        policy in policies(), denial in rules(), request in requests(), now in (0..3_i64).prop_map(time),
    ) {
        let denial = Rule { action: Action::Deny(Errno::default()), ..denial };
        let before = policy.decide(&request, now).action;
        let mut after = policy;
        after.rules.push(denial);
        let after = after.decide(&request, now).action;
        prop_assert!(!after.passes() || before.passes());
    }

    /// A written policy is read as the same policy.
    #[test]
    fn text_is_read_back(policy in policies()) {
        let text = write(&policy);
        let back = read("policy", text.as_bytes());
        prop_assert_eq!(back.map_err(|e| format!("{e}\n{text}")), Ok(policy));
    }

    /// A learned policy allows what happened, and nothing that differs in program, protocol, port or destination.
    #[test]
    fn a_learned_policy_is_the_least(
        seen in prop::collection::vec(requests(), 1..12), other in requests(), digests in any::<bool>(),
    ) {
        let mut learned = Learned::new(digests);
        seen.iter().for_each(|request| learned.add(request));
        let policy = learned.policy();
        let allowed = |request: &Request| policy.decide(request, time(0)).action.passes();
        for request in &seen {
            prop_assert!(allowed(request), "{:?} by\n{}", request, write(&policy));
        }
        if allowed(&other) {
            let alike = |one: &&Request| {
                one.program.path == other.program.path
                    && (!digests || one.program.sha256.is_none() || one.program == other.program)
                    && is_as(one, &other)
            };
            let known: Vec<_> = seen.iter().filter(alike).collect();
            prop_assert!(reached(&known, &other.target), "{:?} by\n{}", other, write(&policy));
        }
    }

    /// An index changes no verdict.
    #[test]
    fn an_index_decides_alike(
        policy in policies(), request in all_requests(), now in (0..3_i64).prop_map(time),
    ) {
        let indexed = Indexed::new(policy.clone());
        prop_assert_eq!(indexed.decide(&request, now), policy.decide(&request, now));
        prop_assert_eq!(indexed.peers(&request, now), policy.peers(&request, now));
    }

    /// What is merged into a policy allows what happened, but for what is told, and else only what
    /// the policy allowed or what is like something that happened; twice is as once.
    #[test]
    fn a_merged_policy_adds_what_happened(
        base in policies(), seen in prop::collection::vec(requests(), 1..12), other in requests(),
    ) {
        let lasting = base.rules.iter().filter(|rule| rule.until.is_none()).cloned();
        let base = Policy { rules: lasting.collect(), ..base };
        let mut learned = Learned::new(false);
        seen.iter().for_each(|request| learned.add(request));
        let merged = learned.merge(&base);
        let passes = |policy: &Policy, one: &Request| policy.decide(one, time(0)).action.passes();
        for request in &seen {
            let told = merged.left_out.contains(request);
            prop_assert_ne!(passes(&merged.policy, request), told, "{:?}", request);
        }
        let text = || format!("{other:?} by\n{}from\n{}", write(&merged.policy), write(&base));
        if passes(&merged.policy, &other) && !passes(&base, &other) {
            let alike = |one: &&Request| {
                one.program.path == other.program.path && is_as(one, &other)
            };
            let known: Vec<_> = seen.iter().filter(alike).collect();
            prop_assert!(reached_by_any(&known, &other.target), "{}", text());
        }
        if passes(&base, &other) {
            prop_assert!(passes(&merged.policy, &other), "{}", text());
        }
        if merged.left_out.is_empty() {
            prop_assert_eq!(learned.merge(&merged.policy).policy, merged.policy);
        }
    }

    /// A policy differs from itself in nothing, and from another one by what a comparison says.
    #[test]
    fn changes_lead_from_one_policy_to_the_other(a in policies(), b in policies()) {
        prop_assert_eq!(compare(&a, &a), vec![]);
        prop_assert_eq!(compare(&a, &b).is_empty(), compare(&b, &a).is_empty());
    }

    /// Any bytes: a policy, or errors with their places.
    #[test]
    fn no_text_panics(text in "(?s).{0,80}") {
        if let Err(errors) = read("policy", text.as_bytes()) {
            prop_assert!(errors.count() > 0);
        }
    }
}

fn curl(to: &str, port: u16, names: &[&str]) -> Request {
    let address: IpAddr = to.parse().unwrap();
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Request {
        program: Program { path: "/usr/bin/curl".into(), sha256: None },
        direction: Direction::Out,
        protocol: Protocol::Tcp,
        target: Target::ip(Direction::Out, address, port, names),
    }
}

fn listens(port: u16) -> Request {
    let target = Target::ip(Direction::In, Ipv4Addr::UNSPECIFIED.into(), port, vec![]);
    Request { direction: Direction::In, target, ..curl("192.0.2.1", 1, &[]) }
}

fn policy(text: &str) -> Policy {
    read("policy.yaml", text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn rules_of_different_kinds_are_settled_by_the_strictest() {
    let policy = policy(
        "rules:\n- {allow: out, to: intranet.corp}\n- {deny: out, to: 10.0.0.0/8, errno: EHOSTUNREACH}\n\
         - {allow: out, program: /usr/bin/curl, to: 10.1.0.0/16}\n",
    );
    let decide = |request| policy.decide(&request, time(0)).action.name();
    assert_eq!(decide(curl("10.2.0.1", 80, &["intranet.corp"])), "deny");
    assert_eq!(decide(curl("10.1.0.1", 80, &[])), "allow");
    assert_eq!(decide(curl("192.0.2.1", 80, &["intranet.corp"])), "allow");
    assert_eq!(decide(curl("192.0.2.1", 80, &["ads.example", "intranet.corp"])), "allow");
    assert_eq!(decide(curl("10.2.0.1", 80, &["ads.example", "intranet.corp"])), "deny");
    assert_eq!(decide(curl("192.0.2.1", 80, &[])), "ask");
}

#[test]
fn a_rule_with_an_end_beats_the_same_without_until_then() {
    let policy = policy(
        "default: deny\nrules:\n- {ask: out, port: 80}\n- {allow: out, port: 80, until: 1970-01-01T00:00:10Z}\n",
    );
    let request = curl("192.0.2.1", 80, &[]);
    assert_eq!(policy.decide(&request, time(9)).action, Action::Allow);
    assert_eq!(policy.decide(&request, time(10)).action, Action::Ask);
}

#[test]
fn a_forbidden_range_holds_for_who_gets_a_port_of_it() {
    let policy = policy(
        "default: deny\nrules: [{allow: in, port: [80, free]}, {deny: in, port: 4000-5000}]",
    );
    let passes = |port: u16, chosen: bool| {
        let mut request = listens(port);
        if chosen {
            request.target.set_free();
        }
        policy.decide(&request, time(0)).action.passes()
    };
    assert!(passes(0, true) && passes(6000, true) && passes(80, false));
    assert!(!passes(4500, true) && !passes(6000, false) && !passes(4500, false));
}

#[test]
fn ports_that_the_kernel_chose_are_learned_as_free() {
    let mut learned = Learned::default();
    for port in [0, 40_000, 50_000] {
        let mut request = listens(port);
        request.target.set_free();
        learned.add(&request);
    }
    learned.add(&listens(80));
    let raw = Request {
        protocol: Protocol::RawOf(1),
        target: Target::ip(Direction::Out, Ipv4Addr::LOCALHOST.into(), 0, vec![]).without_port(),
        ..curl("192.0.2.1", 1, &[])
    };
    learned.add(&raw);
    learned.add(&Request { direction: Direction::Open, target: Target::Socket, ..raw });
    let text = write(&learned.policy());
    assert_eq!(
        text,
        "default: deny\nunanswered: deny\nrules:\n  \
         - {allow: out, program: /usr/bin/curl, to: 127.0.0.1, protocol: raw:icmp}\n  \
         - {allow: in, program: /usr/bin/curl, to: 0.0.0.0, port: [80, free], protocol: tcp}\n  \
         - {allow: open, program: /usr/bin/curl, protocol: raw:icmp}\n"
    );
    assert_eq!(policy(&text), learned.policy());
    assert_eq!(learned.merge(&policy(&text)).policy, policy(&text));
}

fn looks_up(name: &str) -> Request {
    let target = Target::Name(name.to_owned());
    Request { protocol: Protocol::Dns, target, ..curl("192.0.2.1", 1, &[]) }
}

#[test]
fn names_are_looked_up_by_who_may_reach_them() {
    let policy = policy(
        "default: deny\nrules:\n- {allow: out, to: resolver}\n- {allow: out, to: \"*.x.org\", port: 443, protocol: tcp}\n\
         - {deny: out, to: secret.x.org}\n- {deny: out, to: y.x.org, port: 443}\n- {allow: out, to: 10.0.0.0/8}\n\
         - {allow: out, to: \"*.corp\", protocol: dns}\n- {allow: out, protocol: unix}\n",
    );
    let passes = |request: &Request| policy.decide(request, time(0)).action.passes();
    for name in ["a.x.org", "y.x.org", "db.corp"] {
        assert!(passes(&looks_up(name)), "{name}");
    }
    for name in ["x.org", "secret.x.org", "corp", "evil.example", ""] {
        assert!(!passes(&looks_up(name)), "{name}");
    }
    assert!(!passes(&curl("192.0.2.1", 443, &["db.corp"])), "it is looked up alone");
}

#[test]
fn one_name_of_several_is_learned_and_the_others_only_where_they_are_reached() {
    let mut learned = Learned::default();
    for request in [
        curl("192.0.2.1", 443, &["b.org", "a.org"]),
        curl("192.0.2.1", 443, &["a.org"]),
        curl("192.0.2.2", 443, &["d.org", "c.org"]),
        looks_up("a.org"),
        looks_up("b.org"),
        looks_up("only.org"),
    ] {
        learned.add(&request);
    }
    let policy = learned.policy();
    assert_eq!(
        write(&policy),
        "default: deny\nunanswered: deny\nrules:\n  \
         - {allow: out, program: /usr/bin/curl, to: [a.org, d.org], port: 443, protocol: tcp}\n  \
         - {allow: out, program: /usr/bin/curl, to: [b.org, only.org], protocol: dns}\n"
    );
    assert_eq!(learned.merge(&policy).policy, policy);
}

#[test]
fn the_resolver_is_learned_as_such() {
    let mut request = curl("127.0.0.53", 53, &["names"]);
    if let Target::Ip { resolver, .. } = &mut request.target {
        *resolver = true;
    }
    let mut learned = Learned::default();
    learned.add(&request);
    let policy = learned.policy();
    assert_eq!(
        write(&policy).lines().last(),
        Some("  - {allow: out, program: /usr/bin/curl, to: resolver, port: 53, protocol: tcp}")
    );
    assert!(policy.decide(&request, time(0)).action.passes());
    assert!(!policy.decide(&curl("127.0.0.53", 53, &["names"]), time(0)).action.passes());
}

#[test]
fn names_are_said_by_the_nearest_words() {
    let policy = policy(
        "rules: [{allow: out, to: \"*.org\"}, {deny: out, to: \"*.b.org\"}, {allow: out, to: [b.org, c.b.org]}, {ask: out, to: x}]",
    );
    let indexed = Indexed::new(policy);
    let said = |name| indexed.said(name).map(|said| (said.by, said.exact, said.kept));
    assert_eq!(said("a.org"), Some(("org", false, false)));
    assert_eq!(said("b.org"), Some(("b.org", true, false)));
    assert_eq!(said("a.b.org"), Some(("b.org", false, true)));
    assert_eq!(said("c.b.org"), Some(("c.b.org", true, true)));
    assert_eq!((said("x"), said("org"), said("")), (Some(("x", true, true)), None, None));
}

#[test]
fn a_socket_of_no_certain_path_may_be_denied_and_is_allowed_by_no_path() {
    let hidden = Request { target: Target::Hidden, ..curl("192.0.2.1", 1, &[]) };
    let passes = |text: &str| policy(text).decide(&hidden, time(0)).action.passes();
    let all = "default: deny\nrules: [{allow: out, to: [\"unix:/run/x\", \"unix:/run/*\", \"unix:/**\"]}]";
    assert!(!passes(all));
    assert!(passes("default: deny\nrules: [{allow: out}]"));
    assert!(!passes("default: allow\nrules: [{deny: out, to: \"unix:/run/**\"}]"));
    assert!(!passes("default: allow\nrules: [{ask: out, to: \"unix:/run/*\"}]"));
    assert!(passes("default: allow\nrules: [{deny: out, to: \"unix:/run/x\"}]"), "which it is not");
}

#[test]
fn paths_of_a_policy_are_followed() {
    let text = "rules: [{deny: out, program: /bin/x, to: [\"unix:/var/run/a\", \"unix:/var/run/**\"]}, \
                {allow: in, program: \"/bin/*\"}, {ask: out, to: \"unix:/gone\"}]";
    let followed = policy(text).followed(|path| match path {
        "/bin/x" => Some("/usr/bin/y".into()),
        "/bin" => Some("/usr/bin".into()),
        "/var/run/a" => Some("/run/*".into()),
        "/var/run" => Some("/run".into()),
        _ => None,
    });
    let rules: Vec<String> = followed.rules.iter().map(ToString::to_string).collect();
    assert_eq!(
        rules,
        [
            "{deny: out, program: /usr/bin/y, to: [\"unix:/var/run/a\", \"unix:/run/**\"]}",
            "{allow: in, program: \"/usr/bin/*\"}",
            "{ask: out, to: \"unix:/gone\"}"
        ]
    );
    assert_eq!(followed.kept_paths(), ["/gone", "/var/run/a"]);
}

#[test]
fn an_answer_replaces_the_rule_that_asked() {
    let mut policy = policy("rules: [{ask: out, to: 192.0.2.1}, {deny: in}]");
    policy.remember(Rule {
        to: vec![Destination::parse("192.0.2.1").unwrap()],
        ..Rule::every(Action::Allow, Direction::Out)
    });
    assert_eq!(policy.rules.len(), 2);
    assert_eq!(policy.decide(&curl("192.0.2.1", 1, &[]), time(0)).action, Action::Allow);
}

#[test]
fn what_a_program_chooses_is_never_read_back_as_a_pattern() {
    let asks = |path: &str, target: Target| Request {
        program: Program { path: path.into(), sha256: None },
        target,
        ..curl("192.0.2.1", 1, &[])
    };
    let star =
        |text: &str| Target::ip(Direction::Out, Ipv4Addr::LOCALHOST.into(), 1, vec![text.into()]);
    for request in [
        asks("/tmp/*", Target::Path("/run/x".into())),
        asks("/tmp/**", Target::Path("/run/x".into())),
        asks("/bin/x", Target::Path("/run/*".into())),
        asks("/bin/x", Target::Abstract("a*".into())),
        asks("/bin/x", Target::Name("any".into())),
        asks("/bin/x", Target::Name("resolver".into())),
        asks("/bin/x", Target::Name(String::new())),
        asks("/bin/x", star("*.org")),
        asks("/bin/x", star("a b")),
    ] {
        let mut learned = Learned::default();
        learned.add(&request);
        let text = write(&learned.policy());
        let back = read("learned", text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(!text.contains('*') && !text.contains("a b"), "{text}");
        assert_eq!(back, learned.policy());
    }
}

#[test]
fn learning_again_joins_rules_and_keeps_those_by_hand() {
    let base = policy("default: deny\nrules: [{allow: out, to: 10.0.0.0/8, note: ours}]");
    let learn = |base: &Policy, request: Request| {
        let mut learned = Learned::default();
        learned.add(&request);
        learned.merge(base).policy
    };
    let once = learn(&base, curl("192.0.2.1", 80, &[]));
    let twice = learn(&once, curl("192.0.2.2", 80, &[]));
    let inside = learn(&twice, curl("10.1.1.1", 80, &[]));
    assert_eq!(inside, twice);
    assert_eq!(
        write(&twice),
        "default: deny\nunanswered: deny\nrules:\n  - {allow: out, to: 10.0.0.0/8, note: ours}\n  \
         - {allow: out, program: /usr/bin/curl, to: [192.0.2.1, 192.0.2.2], port: 80, protocol: tcp}\n"
    );
}

/// A scan of ports and one of addresses, as many as are kept, and one more: with a square of them this takes minutes.
#[test]
fn all_that_is_kept_is_merged() {
    let mut learned = Learned::new(false);
    let half = u32::try_from(MOST / 2).unwrap();
    for number in 0..half {
        let port = u16::try_from(2 * number).unwrap();
        let address = Ipv4Addr::from(0x0a00_0000 | number);
        learned.add(&curl("11.0.0.1", port, &[]));
        learned.add(&curl(&address.to_string(), 80, &[]));
    }
    learned.add(&curl("11.0.0.2", 80, &[]));
    assert_eq!(learned.lost(), 1);
    for base in ["rules: [{allow: out, program: /opt/x, to: 11.0.0.1}]", "rules: [{deny: out}]"] {
        let merged = learned.merge(&policy(&format!("default: deny\n{base}\n")));
        assert_eq!(merged.left_out, []);
        let decide = Indexed::new(merged.policy.clone());
        let decide = |to: &str, port| decide.decide(&curl(to, port, &[]), time(0)).action;
        assert!(decide("11.0.0.1", 65534).passes() && decide("10.0.127.255", 80).passes());
        assert!(!decide("11.0.0.1", 65533).passes() && !decide("10.0.128.0", 80).passes());
        assert!(merged.policy.rules.len() >= 3, "{}", merged.policy.rules.len());
    }
}

/// Many rules of all kinds, of which few are about one request.
#[test]
fn ten_thousand_rules_are_indexed() {
    let rule = |n: u32| {
        let to = match n % 3 {
            0 => format!("h{n}.example"),
            1 => format!("10.{}.{}.0/24", n >> 8 & 255, n & 255),
            _ => format!("unix:/run/{n}"),
        };
        Rule {
            to: vec![Destination::parse(&to).unwrap()],
            ..Rule::every(Action::Allow, Direction::Out)
        }
    };
    let rules = (0..10_000).map(rule).collect();
    let policy = Policy { rules, ..Policy::default() };
    let indexed = Indexed::new(policy.clone());
    for request in [
        curl("10.1.1.1", 80, &[]),
        curl("192.0.2.1", 80, &["h9.example"]),
        curl("192.0.2.1", 80, &["h10.example"]),
        Request { target: Target::Path("/run/11".into()), ..curl("192.0.2.1", 80, &[]) },
    ] {
        assert_eq!(indexed.decide(&request, time(0)), policy.decide(&request, time(0)));
    }
}

#[test]
fn ended_rules_are_forgotten() {
    let mut policy = policy("rules: [{allow: out, until: 1970-01-01T00:00:10Z}, {deny: in}]");
    policy.forget_ended(time(10));
    assert_eq!(policy.rules.len(), 1);
}

#[test]
fn every_error_is_told_with_its_place() {
    let text = "defalt: ask\nunanswered: ask\nrules:\n- {allow: out, deny: in}\n- {program: curl}\n\
                - {allow: sideways}\n- {allow: out, to: 10.0.0.1/8, port: http, errno: EPERM}\n\
                - {ask: open, port: 1, protocol: tpc, until: soon}\n- allow\n- {deny: out, to: []}\n\
                - {allow: out, port: free}\n- {allow: in, port: [0, 80]}\n- {ask: open, protocol: raw:icpm}\n\
                - {allow: out, port: 0, protocol: icmp}\n- {allow: in, to: resolver}\n- {allow: in, protocol: dns}\n\
                - {deny: out, to: [10.0.0.1, x.org], protocol: dns}\n- {deny: out, port: 53, protocol: dns}\n";
    let errors = read("p.yaml", text.as_bytes()).unwrap_err().to_string();
    for line in [
        "p.yaml:1:1: error: defalt: unknown key\n  help: did you mean \"default\"?",
        "p.yaml:2:13: error: unanswered: `unanswered` cannot be ask; write allow, deny or log",
        "p.yaml:4:16: error: rules[0]: has both allow and deny",
        "p.yaml:5:3: error: rules[1]: a rule needs an action",
        "p.yaml:6:11: error: rules[2].allow: expected one of out, in, open, found \"sideways\"",
        "p.yaml:7:20: error: rules[3].to: \"10.0.0.1/8\": 10.0.0.1/8 has bits after the first 8; write 10.0.0.0/8",
        "p.yaml:7:38: error: rules[3].port: expected a port like 443, a range like 8000-8100, or free, found \"http\"",
        "rules[3].errno: only a denied call has an error",
        "rules[4].port: a socket that is opened has no destination",
        "rules[4].protocol: expected one of tcp, udp",
        "rules[4].until: expected a time like",
        "rules[5]: expected a map, found \"allow\"",
        "rules[6].to: expected at least one value",
        "p.yaml:11:16: error: rules[7].port: only a program that listens gets a free port",
        "p.yaml:12:15: error: rules[8].port: nobody listens on port 0; write free",
        "p.yaml:14:16: error: rules[10].port: these protocols have no ports",
        "p.yaml:15:15: error: rules[11].to: only a program that goes out asks the resolver",
        "p.yaml:16:15: error: rules[12].protocol: names are looked up, which goes out",
        "p.yaml:17:15: error: rules[13].to: only names are looked up: write a name, *.name or any",
        "p.yaml:18:15: error: rules[14].port: these protocols have no ports",
        "p.yaml:13:25: error: rules[9].protocol: expected a raw protocol like raw:icmp or raw:89, found",
    ] {
        assert!(errors.contains(line), "{line}\nis not in\n{errors}");
    }
}

/// What fuzzing starts from: a policy that is written and read back alike, or errors.
#[test]
fn seeds_are_policies_or_refused() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/policy");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let result = read(&name, &std::fs::read(&path).unwrap());
        assert_eq!(result.is_err(), name.starts_with("refused-"), "{name}: {result:?}");
        if let Ok(policy) = result {
            assert_eq!(read("written", write(&policy).as_bytes()), Ok(policy), "{name}");
        }
        count += 1;
    }
    assert!(count >= 5, "only {count} seeds");
}

#[test]
fn an_empty_file_asks_for_everything() {
    assert_eq!(policy(""), Policy::default());
    assert_eq!(policy("rules:\n"), Policy::default());
}

#[test]
fn a_comparison_shows_lines_of_rules() {
    let a = policy("rules: [{allow: out, to: 10.0.0.0/8}, {deny: in, note: old}]");
    let b = policy("default: deny\nrules: [{deny: in, note: new}, {allow: out, to: 10.0.0.0/9}]");
    let shown: Vec<_> = compare(&a, &b).iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "- default: ask\n+ default: deny",
            "- {allow: out, to: 10.0.0.0/8}",
            "+ {allow: out, to: 10.0.0.0/9}"
        ]
    );
}

#[test]
fn prefixes_without_addresses_of_one_family_do_not_hold_the_other() {
    let v4 = Destination::Net(IpNet::new(Ipv4Addr::UNSPECIFIED.into(), 0).unwrap());
    let v6 = Destination::parse("::/0").unwrap();
    assert!(!v4.within(&v6) && !v6.within(&v4));
}

#[test]
fn a_rule_says_who_may_reach_a_listener() {
    let text = "rules: [{allow: in, port: 8000-8100, protocol: tcp, from: [10.0.0.0/8, 10.1.0.0/16, \"::1\"]}, \
                {allow: in, port: 8080, protocol: tcp, from: any}, {allow: in, to: 127.0.0.1, from: 127.0.0.1}]";
    let policy = policy(text);
    let listener = |address: &str, port: u16| Request {
        direction: Direction::In,
        target: Target::ip(Direction::In, address.parse().unwrap(), port, vec![]),
        ..curl("127.0.0.1", 1, &[])
    };
    let peers = |address: &str, port| {
        policy.peers(&listener(address, port), time(0)).map(|peers| peers.to_string())
    };
    assert_eq!(peers("0.0.0.0", 8000).as_deref(), Some("10.0.0.0/8, ::1"));
    assert_eq!(peers("0.0.0.0", 8080), None);
    assert_eq!(peers("127.0.0.1", 1).as_deref(), Some("127.0.0.1"));
    // Of two rules of equal precedence a peer must be in both: none is.
    assert_eq!(peers("127.0.0.1", 8000).as_deref(), Some(""));
    let open = read("p", text.replace("10.1.0.0/16", "0.0.0.0/0").as_bytes()).unwrap();
    let changes: String = compare(&policy, &open).iter().map(|one| format!("{one}\n")).collect();
    assert_eq!(
        changes,
        "- {allow: in, port: 8000-8100, protocol: tcp, from: [10.0.0.0/8, \"::1\"]}\n\
         + {allow: in, port: 8000-8100, protocol: tcp, from: [0.0.0.0/0, \"::1\"]}\n"
    );
}

#[test]
fn only_what_listens_has_peers() {
    let many: Vec<String> = (0..65).map(|n| format!("10.0.{n}.1")).collect();
    for (rule, part) in [
        ("{allow: out, from: 10.0.0.0/8}", "only a listener has peers"),
        ("{deny: in, from: 10.0.0.0/8}", "only a listener has peers"),
        ("{ask: in, from: 10.0.0.0/8}", "only a listener has peers"),
        ("{allow: in, from: localhost}", "not an address, a prefix or any"),
        ("{allow: in, from: 10.0.0.1/8}", "write 10.0.0.0/8"),
        ("{allow: in, from: []}", "at least one value"),
        ("{allow: in, protocol: [tcp, sctp], from: any}", "only listeners of tcp and udp"),
        ("{allow: in, to: unix:/run/x, from: any}", "only listeners of tcp and udp"),
        (&format!("{{allow: in, from: [{}]}}", many.join(", ")), "more than 64 prefixes"),
    ] {
        let error = read("p", format!("rules: [{rule}]").as_bytes()).unwrap_err().to_string();
        assert!(error.contains(part), "{rule}: {error}");
    }
}
