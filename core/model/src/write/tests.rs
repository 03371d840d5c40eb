//! What is written is read as the same lab.

use proptest::prelude::*;

use super::write;
use crate::lab::{
    End, FileContent, FileSpec, Lab, Limits, Program, Protect, Ready, Restart, RouteSpec, Via,
};
use crate::parse::parse;
use crate::plan::tests::property::any_lab;
use crate::setting::Settings;
use crate::users::Ids;

/// Reads what is written of a lab.
fn again(lab: &Lab) -> (String, Lab) {
    let text = write(lab, "");
    match parse("written", text.as_bytes(), "other") {
        Ok(read) => (text, read),
        Err(errors) => panic!("{errors}\n{text}"),
    }
}

#[test]
fn every_example_comes_back() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "yaml") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let Ok(lab) = parse("f", &bytes, "example") else { continue };
        let (text, read) = again(&lab);
        assert_eq!(read, lab, "{}\n{text}", path.display());
        assert_eq!(write(&read, ""), text);
        seen += 1;
    }
    assert!(seen > 20, "only {seen} examples");
}

#[test]
fn short_things_are_short_and_texts_have_lines() {
    let file = "\
name: t
nodes:
  a:
    forwarding: true
    limits: {cpu: 50%, memory: 256MiB}
    protect: 200/s
    children:
      nodes:
        b: {}
    storage: 1GiB
    run: [[sleep, \"1\"], {command: [sh, -c, x], restart: always, stop-signal: INT}]
    files:
      /etc/motd: |
        Hello,
        world.
      /etc/short: text
    ready: {tcp: 80}
  c: {}
switches:
  s: {kind: shm, ports: {\"c:eth1\": {vlan: 7}}}
links:
  - [a, c]
  - {ends: [a, s], addresses: {a: 10.1.0.1/24}, delay: 10ms, b: {loss: 1%}}
  - {ends: [a/b, \"c:eth7\"], name: by-hand, mtu: 1400}
  - [c, s]
pool: {ipv6: none}
record: {keep: 64MiB}
";
    let lab = parse("f", file.as_bytes(), "f").unwrap();
    assert_eq!(write(&lab, ""), file.replace("[sh, -c, x]", "[sh, \"-c\", x]"));
    assert!(write(&lab, "one\ntwo").starts_with("# one\n# two\nname: t\n"));
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z/]{1,8}", "[ -~]{0,12}", "([a-z :#-]{0,9}\n){0,3}", "[\u{e9}-\u{2030}\t]{1,4}"]
}

fn command() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 0..3).prop_map(|rest| {
        let first = "prog".to_owned();
        std::iter::once(first).chain(rest).collect()
    })
}

prop_compose! {
    fn some_settings()(
        cpu in prop::option::of(10_u32..4000),
        memory in prop::option::of(1_048_576_u64..1 << 33),
        sockets in prop::option::of(1_u32..500),
        packets in prop::option::of(1_u64..1_000_000),
        bytes in prop::option::of(10_000_u64..1 << 40),
        auto in any::<Option<bool>>(),
        charge_receive in any::<Option<bool>>(),
        ids in prop::option::of(prop_oneof![Just(Ids::Real), Just(Ids::Fake), Just(Ids::One)]),
        privileged: bool,
        children in prop::option::of(0_u32..9),
    ) -> Settings {
        Settings {
            limits: Limits { cpu_milli: cpu, memory, sockets, ..Limits::default() },
            protect: Protect { packets, bytes, auto },
            charge_receive,
            children,
            privileged,
            ids,
        }
    }
}

prop_compose! {
    fn some_program()(
        command in command(),
        always: bool,
        user in prop::option::of("[a-z]{1,5}"),
        workdir in prop::option::of("/[a-z]{1,5}"),
    ) -> Program {
        let restart = if always { Restart::Always } else { Restart::Never };
        Program { restart, user, workdir, ..Program::once(command) }
    }
}

/// What the reader of lab files trims or refuses is left out.
fn dress(lab: &mut Lab, at: usize, parts: (Settings, Vec<Program>, Vec<String>, u16)) {
    let (settings, run, texts, port) = parts;
    let node = &mut lab.nodes[at];
    node.forwarding_given = node.forwarding.any();
    settings.put(node);
    node.run = run;
    let values = texts.iter().enumerate().map(|(n, text)| (format!("V{n}"), text.clone()));
    node.env = values.filter(|(_, text)| !text.contains('\0')).collect();
    node.files = texts
        .iter()
        .enumerate()
        .map(|(n, text)| {
            let content = FileContent::Text(text.clone());
            FileSpec {
                mode: 0o600 + (u32::from(port) % 64),
                ..FileSpec::new(format!("/f{n}"), content)
            }
        })
        .collect();
    if port % 3 == 0 {
        node.ready = Ready { tcp: vec![port | 1], files: vec!["/f".into()], ..Ready::default() };
        node.sysctls.insert("net.ipv4.tcp_ecn".into(), (port % 2).to_string());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_labs_come_back(
        builder in any_lab(),
        parts in prop::collection::vec(
            (some_settings(), prop::collection::vec(some_program(), 0..3), prop::collection::vec(text(), 0..4), any::<u16>()),
            8,
        ),
        by_hand in any::<u32>(),
    ) {
        let mut lab = builder.lab;
        for (at, parts) in (0..lab.nodes.len()).zip(parts) {
            dress(&mut lab, at, parts);
        }
        // A node whose routes are by hand, links with names of their own.
        if by_hand & 1 == 1 {
            let via = Some(Via::Address("10.9.9.9".parse().unwrap()));
            lab.nodes[0].routes = Some(vec![RouteSpec { to: None, via, dev: None }]);
        }
        for (at, link) in lab.links.iter_mut().enumerate().filter(|_| by_hand & 2 == 2) {
            link.name = Some(format!("l{at}"));
            link.mtu = Some(1400 + u32::try_from(at).unwrap());
        }
        // Links of switches may form loops here, which the reader takes only where one blocks.
        for switch in &mut lab.switches {
            switch.stp = true;
        }
        let twice = |link: &crate::lab::Link| matches!(
            &link.ends, [End::Host { .. }, _] | [_, End::Host { .. } | End::Internet]);
        lab.links.retain(|link| !twice(link));
        let text = write(&lab, "");
        match parse("written", text.as_bytes(), "other") {
            Ok(read) => prop_assert_eq!(read, lab, "{}", text),
            // Not every random lab can be in a file.
            Err(errors) => {
                let errors = errors.to_string();
                let known = ["loop of switches", "joins", "shares no segment", "itself", "privileged"];
                prop_assert!(known.iter().any(|words| errors.contains(words)), "{errors}\n{text}");
            }
        }
    }
}
