//! Merges of small labs, and of any two.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::kinds::SwitchKind;
use crate::kinds::openflow::OpenflowSwitch;
use crate::lab::{End, Lab};
use crate::plan::tests::property::any_lab;
use crate::plan::{LinkSlot, PlannedNode, Slot, plan};

const ALLOWED: Allowed = Allowed { programs: true, taps: true, planes: false };

fn of(text: &str) -> Plan {
    plan(&crate::parse("t.yaml", text.as_bytes(), "t").unwrap()).unwrap()
}

/// As a lab that runs and has no interfaces but its own.
fn merged(running: &Plan, wanted: &Plan) -> Result<Merged, Refusal> {
    merged_after(running, None, wanted, ALLOWED)
}

fn merged_after(
    running: &Plan,
    before: Option<&Plan>,
    wanted: &Plan,
    allowed: Allowed,
) -> Result<Merged, Refusal> {
    let form = |link: &PlannedLink| LinkForm::of(running, link, allowed);
    let machine = Machine { there: &|_| vec![], form: &form, allowed, hides: &|_, _| false };
    merge(running, before, wanted, &machine)
}

fn told(old: &str, new: &str) -> Vec<String> {
    let merged = merged(&of(old), &of(new)).unwrap();
    merged.steps.iter().map(Step::words).collect()
}

const SITES: &str = "nodes:\n  h1: {}\n  r1: {forwarding: true}\n  web: {limits: {memory: 64MiB}}\n\
                     switches: {s1: {}}\nlinks:\n  - [h1, s1]\n  - [r1, s1]\n  - [r1, web]\n";

#[test]
fn what_stays_keeps_its_identity_and_what_comes_gets_a_new_one() {
    let more = SITES.replace("nodes:\n", "nodes:\n  h9: {}\n") + "  - [h9, s1]\n";
    let (running, wanted) = (of(SITES), of(&more));
    let found = merged(&running, &wanted).unwrap();
    let words: Vec<String> = found.steps.iter().map(Step::words).collect();
    assert_eq!(words, ["+ node h9", "+ link h9:eth0--s1"]);
    let id = |plan: &Plan, name: &str| plan.nodes[plan.node(name).unwrap()].id;
    for name in ["h1", "r1", "web"] {
        assert_eq!(id(&found.target, name), id(&running, name));
    }
    assert_eq!(id(&found.target, "h9"), running.next_id);
    assert_eq!(found.added.nodes, BTreeSet::from([running.next_id]));
    assert!(found.early.is_empty() && found.late.is_empty() && found.changed.is_empty());
}

#[test]
fn a_new_interface_leaves_the_indexes_of_wires_alone() {
    let more = format!("{SITES}  - [h1, web]\n");
    let running = of(SITES);
    let form = |link: &PlannedLink| LinkForm::of(&running, link, ALLOWED);
    let wire = crate::plan::form::FIRST_HIDDEN + 5;
    let there = |_| vec![("eth0".to_owned(), 2), ("own".to_owned(), 9), ("nlw5".to_owned(), wire)];
    let machine = Machine { there: &there, form: &form, allowed: ALLOWED, hides: &|_, _| false };
    let target = merge(&running, None, &of(&more), &machine).unwrap().target;
    let h1 = &target.nodes[target.node("h1").unwrap()];
    let indexes: Vec<u32> = h1.interfaces.iter().map(|i| i.index).collect();
    assert_eq!(indexes, [2, 10]);
}

#[test]
fn what_a_living_object_can_change_is_changed_and_the_rest_made_anew_with_what_goes_with_it() {
    let live =
        SITES.replace("64MiB", "128MiB").replace("- [r1, web]", "- {ends: [r1, web], delay: 5ms}");
    assert_eq!(
        told(SITES, &live),
        [
            "~ node web: limits.memory 128MiB, was 64MiB",
            "~ link r1:eth1--web:eth0: delay 5ms, was none"
        ]
    );
    let changed =
        SITES.replace("{limits: {memory: 64MiB}}", "{limits: {memory: 64MiB}, storage: 5MB}");
    assert_eq!(
        told(SITES, &changed),
        ["! node web recreated: storage 5MB, was none (with link r1:eth1--web:eth0)"]
    );
    let kind = SITES.replace("{s1: {}}", "{s1: {kind: shm}}");
    assert_eq!(
        told(SITES, &kind),
        ["! switch s1 recreated: kind shm, was kernel (with link h1:eth0--s1, link r1:eth0--s1)"]
    );
}

#[test]
fn what_goes_is_told_and_goes_last_unless_it_is_in_the_way() {
    let less =
        SITES.replace("  - [r1, web]\n", "").replace("  web: {limits: {memory: 64MiB}}\n", "");
    let (running, wanted) = (of(SITES), of(&less));
    let found = merged(&running, &wanted).unwrap();
    let words: Vec<String> = found.steps.iter().map(Step::words).collect();
    assert_eq!(words, ["- link r1:eth1--web:eth0", "- node web"]);
    assert!(found.early.is_empty() && found.late.links.len() == 1);
    // The same interface of r1 leads elsewhere.
    let turned = SITES.replace("- [r1, web]", "- [r1, h1]");
    let found = merged(&of(SITES), &of(&turned)).unwrap();
    assert!(found.late.links.is_empty() && found.early.links.len() == 1, "{:?}", found.steps);
}

#[test]
fn numbers_of_ports_are_those_of_the_file_and_else_stay() {
    let lab = "nodes: {a: {}, b: {}, c: {}}\nswitches: {s: {kind: openflow}}\nlinks:\n";
    let text = |links: &str| format!("{lab}{links}");
    let numbers = |plan: &Plan| -> Vec<u32> {
        let ends = plan.links.iter().flat_map(|link| &link.ends);
        ends.filter_map(|end| Some(plan.port_number(end)?.1)).collect()
    };
    let plain = text("  - [a, s]\n  - [b, s]\n");
    let first = text("  - {ends: [a, s], port: {s: 7}}\n  - [b, s]\n  - [c, s]\n");
    assert_eq!(numbers(&of(&first)), [7, 1, 2]);
    // A port gets a number from the file: its link is recreated, and the others keep theirs.
    let found = merged(&of(&plain), &of(&first)).unwrap();
    let words: Vec<String> = found.steps.iter().map(Step::words).collect();
    assert_eq!(words, ["+ link c:eth0--s", "! link a:eth0--s recreated: port.s 7, was none"]);
    assert_eq!(numbers(&found.target), [7, 2, 1]);
    // One that has the number already stays as it is.
    let same = text("  - {ends: [a, s], port: {s: 1}}\n  - [b, s]\n");
    assert_eq!(told(&plain, &same), ["~ link a:eth0--s: port.s 1, was none"]);
    // A link that has a number which the file gives another one makes way.
    let taken = text("  - [a, s]\n  - [b, s]\n  - {ends: [c, s], port: {s: 2}}\n");
    let found = merged(&of(&plain), &of(&taken)).unwrap();
    let words: Vec<String> = found.steps.iter().map(Step::words).collect();
    assert_eq!(words, ["+ link c:eth0--s", "! link b:eth0--s recreated: port.s another, was 2"]);
    assert_eq!(numbers(&found.target), [1, 3, 2]);
    // So does one that goes: its number is free before the new port comes.
    let instead = text("  - [a, s]\n  - [c, s]\n");
    let found = merged(&of(&plain), &of(&instead)).unwrap();
    assert_eq!(numbers(&found.target), [1, 2]);
    assert!(found.late.links.is_empty() && found.early.links.len() == 1, "{:?}", found.late);
}

#[test]
fn a_link_whose_hardware_address_the_file_changes_is_recreated_with_it() {
    let lab = "nodes: {a: {}, b: {}, v: {kind: vm, kernel: /k, memory: 64MiB}}\nlinks:\n";
    let text = |last: u8, links: &str| {
        let mac = format!("{{a: 02:00:00:00:00:0{last}}}");
        format!("{lab}  - {{ends: [a, b], mac: {mac}}}\n{links}")
    };
    let (running, wanted) = (of(&text(1, "")), of(&text(2, "")));
    let found = merged(&running, &wanted).unwrap();
    let words: Vec<String> = found.steps.iter().map(Step::words).collect();
    let told = "mac.a:eth0 02:00:00:00:00:02, was 02:00:00:00:00:01";
    assert_eq!(words, [format!("! link a:eth0--b:eth0 recreated: {told}")]);
    assert_eq!(found.target.nodes[0].interfaces[0].mac, [2, 0, 0, 0, 0, 2]);
    assert_eq!(found.early.links.len(), 1);
    // Nothing is to do afterwards.
    assert!(merged(&found.target, &wanted).unwrap().steps.is_empty());
    // A machine's card has it from its start.
    let card = |last: u8| {
        let link = format!("  - {{ends: [b, v], mac: {{v: 02:00:00:00:01:0{last}}}}}\n");
        text(1, &link)
    };
    let steps = self::told(&card(1), &card(2));
    assert!(steps.iter().any(|step| step.starts_with("! node v recreated")), "{steps:?}");
}

#[test]
fn a_hardware_address_given_by_hand_stays_where_changes_by_hand_do() {
    let text = |mac: &str| format!("nodes: {{a: {{}}, b: {{}}}}\nlinks: [{{ends: [a, b]{mac}}}]\n");
    let made = of(&text(""));
    let running = of(&text(", mac: {a: 02:00:00:00:00:01}"));
    let form = |link: &PlannedLink| LinkForm::of(&running, link, ALLOWED);
    let machine =
        Machine { there: &|_| vec![], form: &form, allowed: ALLOWED, hides: &|_, _| false };
    let over = |keep| merge_over(&made, &running, None, &made, &machine, keep).unwrap();
    let back = over(false);
    assert_eq!(back.steps.len(), 1);
    assert!(back.steps[0].drift && back.steps[0].act == Act::Recreate, "{:?}", back.steps);
    let kept = over(true);
    assert!(kept.steps.is_empty() && kept.early.is_empty(), "{:?}", kept.steps);
    assert_eq!(kept.target.nodes[0].interfaces[0].mac, [2, 0, 0, 0, 0, 1]);
}

#[test]
fn a_port_made_by_hand_keeps_its_number_beside_new_ones() {
    let lab = "nodes: {a: {}, b: {}, c: {}}\nswitches: {s: {kind: openflow}}\nlinks:\n  - [a, s]\n";
    let made = of(lab);
    // As `netloom link add b s` does.
    let running = of(&format!("{lab}  - [b, s]\n"));
    let form = |link: &PlannedLink| LinkForm::of(&running, link, ALLOWED);
    let machine =
        Machine { there: &|_| vec![], form: &form, allowed: ALLOWED, hides: &|_, _| false };
    let kept = |more: &str| {
        let wanted = of(&format!("{lab}{more}"));
        merge_over(&made, &running, None, &wanted, &machine, true)
    };
    let plan = kept("  - [c, s]\n").unwrap().target;
    let ends = plan.links.iter().flat_map(|link| &link.ends);
    let mut numbers: Vec<u32> = ends.filter_map(|end| Some(plan.port_number(end)?.1)).collect();
    numbers.sort_unstable();
    assert_eq!((numbers, plan.problem()), (vec![1, 2, 3], None));
    let refusal = kept("  - {ends: [c, s], port: {s: 2}}\n").unwrap_err().to_string();
    assert!(refusal.contains("gets port 2 of switch \"s\", which another has"), "{refusal}");
}

#[test]
fn children_and_links_go_with_a_node_that_is_made_anew() {
    let nest =
        "nodes:\n  a: {children: {limit: 2, nodes: {b: {}}}}\n  c: {}\nlinks:\n  - [a/b, c]\n";
    let changed = nest.replace("a: {", "a: {privileged: true, ");
    assert_eq!(
        told(nest, &changed),
        ["! node a recreated: privileged true, was none (with node a/b, link a/b:eth0--c:eth0)"]
    );
    let more = nest.replace("limit: 2", "limit: 5");
    assert_eq!(told(nest, &more), ["~ node a: children 5, was 2"]);
}

#[test]
fn a_wire_is_put_into_a_living_link_unless_machines_hold_both_ends() {
    let wish = SITES.replace("- [r1, web]", "- {ends: [r1, web], delay: 5ms}");
    let user = Allowed { programs: false, taps: true, planes: false };
    let there = merged_after(&of(SITES), None, &of(&wish), user).unwrap();
    let words: Vec<String> = there.steps.iter().map(Step::words).collect();
    assert_eq!(words, ["~ link r1:eth1--web:eth0: delay 5ms, was none"]);
    // It stays in when it has nothing to do any more.
    let back = merged_after(&of(&wish), None, &of(SITES), user).unwrap();
    assert_eq!(back.steps[0].act, Act::Change);
    let machines =
        "nodes:\n  v: {kind: vm, kernel: k}\n  w: {kind: vm, kernel: k}\nlinks:\n  - [v, w]\n";
    let wish = machines.replace("- [v, w]", "- {ends: [v, w], delay: 5ms}");
    assert_eq!(told(machines, &wish), ["! link v:eth0--w:eth0 recreated: delay 5ms, was none"]);
}

#[test]
fn doors_come_and_go_as_a_whole() {
    let words = |old: &str, new: &str| -> Vec<String> {
        let merged = merged(&of(old), &of(new)).unwrap();
        assert_eq!(merged.doors, !merged.steps.is_empty());
        merged.steps.iter().map(Step::words).filter(|line| !line.contains("routes")).collect()
    };
    let one = SITES.to_owned() + "  - [r1, internet]\n";
    let two = one.clone() + "  - [web, internet]\n";
    assert_eq!(words(SITES, &one), ["+ link r1:eth2--internet"]);
    assert_eq!(words(&one, SITES), ["- link r1:eth2--internet"]);
    assert_eq!(words(&one, &one), [""; 0]);
    let lines = words(&one, &two);
    assert!(lines[0].starts_with("+ link web"), "{lines:?}");
    assert_eq!(lines[1], "! link r1:eth2--internet recreated: doors changed");
    let merged = merged(&of(&two), &of(&one)).unwrap();
    assert_eq!((merged.early.links.len(), merged.late.links.len()), (2, 0));
    assert_eq!(merged.added.links.len(), 1);
}

#[test]
fn other_labs_are_refused() {
    let refused = |old: &str, new: &str| merged(&of(old), &of(new)).unwrap_err().to_string();
    let other = "name: u\n".to_owned() + SITES;
    assert!(refused(SITES, &other).contains("lab \"u\""));
    let mut old = of(SITES);
    old.scheme = None;
    assert_eq!(merged(&old, &of(SITES)).unwrap_err(), Refusal::NoScheme);
}

#[test]
fn a_plan_that_contradicts_itself_is_refused() {
    let running = of(SITES);
    let refused = |spoil: &dyn Fn(&mut Plan), words: &str| {
        let mut wanted = running.clone();
        spoil(&mut wanted);
        let told = merged(&running, &wanted).unwrap_err().to_string();
        assert!(told.contains(words), "{told}");
    };
    refused(&|plan| plan.nodes[0].parent = Some(Slot::new(0)), "lives in");
    refused(&|plan| plan.nodes[0].name = "r1".into(), "two of the name \"r1\"");
    refused(&|plan| plan.nodes[0].name = "..".into(), "node \"..\"");
    let bare = |plan: &mut Plan| {
        plan.nodes[0].interfaces.clear();
        plan.nodes[0].routes.clear();
    };
    refused(&bare, "an end of it");
    refused(&|plan| plan.switches.clear(), "an end of it");
    refused(&|plan| plan.nodes[0].routes[0].interface = 9, "leads nowhere");
    refused(&|plan| plan.nodes[0].interfaces[0].name = "a/b".into(), "a/b");
    refused(&|plan| plan.links[0].name = plan.links[1].name.clone(), "two of the link");
}

#[test]
fn a_merge_that_was_cut_off_does_its_changes_again() {
    let live = SITES.replace("64MiB", "128MiB");
    let (before, wanted) = (of(SITES), of(&live));
    // The state has them already.
    let running = merged(&before, &wanted).unwrap().target;
    let again = merged_after(&running, Some(&before), &wanted, ALLOWED).unwrap();
    let words: Vec<String> = again.steps.iter().map(Step::words).collect();
    assert_eq!(words, ["~ node web: limits.memory 128MiB, was 64MiB"]);
    assert_eq!(again.target, running);
}

/// A plan without what identifies its objects on a machine.
fn content(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    let ids: BTreeMap<NodeId, NodeId> =
        plan.nodes.iter().enumerate().map(|(at, node)| (node.id, NodeId::new(at))).collect();
    plan.next_id = NodeId::default();
    let bare = |node: &mut PlannedNode| {
        node.id = ids[&node.id];
        node.interfaces.iter_mut().for_each(|i| i.index = 0);
    };
    plan.nodes.iter_mut().for_each(bare);
    for switch in &mut plan.switches {
        (switch.index, switch.bridge, switch.mac) = (0, String::new(), [0; 6]);
    }
    for (at, link) in plan.links.iter_mut().enumerate() {
        link.id = LinkId::new(at);
        for end in &mut link.ends {
            match end {
                PlannedEnd::Port { name, mac, number, numbered, .. } => {
                    (*name, *mac) = (String::new(), [0; 6]);
                    *number = number.filter(|_| *numbered);
                }
                PlannedEnd::Nowhere { name, mac } => (*name, *mac) = (String::new(), [0; 6]),
                _ => {}
            }
        }
    }
    let scheme = plan.scheme.as_mut().unwrap();
    scheme.next_link = LinkId::default();
    scheme.blocks.iter_mut().for_each(|(id, _)| *id = ids[id]);
    scheme.routed_by_hand = scheme.routed_by_hand.iter().map(|id| ids[id]).collect();
    plan
}

fn all_differ<T: Ord>(all: impl Iterator<Item = T>) -> bool {
    let mut seen = BTreeSet::new();
    all.into_iter().all(|one| seen.insert(one))
}

/// Names and indexes of a plan are unique where the kernel wants them to be.
fn assert_distinct(plan: &Plan) {
    assert!(all_differ(plan.nodes.iter().map(|n| n.id)));
    assert!(plan.nodes.iter().all(|n| n.id < plan.next_id));
    assert!(all_differ(plan.links.iter().map(|l| l.id)));
    for node in &plan.nodes {
        assert!(all_differ(node.interfaces.iter().map(|i| i.index)), "{node:?}");
        assert!(all_differ(node.interfaces.iter().map(|i| &i.name)), "{node:?}");
        assert!(node.parent.is_none_or(|parent| plan.node_at(parent).is_some()));
    }
    let ports = plan.links.iter().flat_map(|l| &l.ends).filter_map(|end| match end {
        PlannedEnd::Port { name, mac, .. } => Some((name.clone(), *mac)),
        _ => None,
    });
    let ports: Vec<_> = ports.collect();
    let bridges = plan.switches.iter().map(|s| &s.bridge);
    assert!(all_differ(ports.iter().map(|(name, _)| name).chain(bridges)), "{ports:?}");
    let numbered = plan.links.iter().flat_map(|l| &l.ends);
    let numbered: Vec<_> = numbered.filter_map(|end| plan.port_number(end)).collect();
    assert!(all_differ(numbered.iter()), "{numbered:?}");
    let own = plan.nodes.iter().flat_map(|n| &n.interfaces).map(|i| i.mac);
    assert!(all_differ(ports.iter().map(|(_, mac)| *mac).chain(own)));
    assert!(all_differ(plan.switches.iter().map(|s| s.index)));
}

#[test]
fn what_was_changed_by_hand_is_marked_and_can_be_kept() {
    let made = of(SITES);
    let mut running = made.clone();
    let by_hand = running.add_node(PlannedNode::fresh(&running, "mine", None));
    running.nodes[0].limits.memory = Some(5 << 20);
    let wanted = of(&SITES.replace("64MiB", "128MiB"));
    let form = |link: &PlannedLink| LinkForm::of(&running, link, ALLOWED);
    let machine =
        Machine { there: &|_| vec![], form: &form, allowed: ALLOWED, hides: &|_, _| false };
    let over = |keep| merge_over(&made, &running, None, &wanted, &machine, keep).unwrap();
    let words: Vec<String> = over(false).steps.iter().map(Step::words).collect();
    assert_eq!(
        words,
        [
            "~ node h1: limits.memory none, was 5MiB (changed by hand)",
            "~ node web: limits.memory 128MiB, was 64MiB",
            "- node mine (changed by hand)"
        ]
    );
    let kept = over(true);
    let words: Vec<String> = kept.steps.iter().map(Step::words).collect();
    assert_eq!(words, ["~ node web: limits.memory 128MiB, was 64MiB"]);
    let mine = kept.target.node("mine").unwrap();
    assert_eq!(kept.target.nodes[mine].id, running.nodes[by_hand].id);
    assert_eq!(kept.target.nodes[0].limits.memory, Some(5 << 20));
    assert!(kept.late.is_empty() && kept.early.is_empty());
}

fn settle(lab: &mut Lab, settings: &[u8]) {
    for (switch, setting) in lab.switches.iter_mut().zip(settings) {
        if setting % 4 > 0 {
            switch.kind = SwitchKind::Openflow(OpenflowSwitch::default());
        }
    }
    let mut known = BTreeSet::new();
    for (link, setting) in lab.links.iter_mut().zip(settings) {
        for (side, end) in link.ends.iter().enumerate() {
            let End::Switch { switch } = end else { continue };
            let number = u32::from(setting >> side) % 8;
            if lab.switches[*switch].kind.numbers_ports()
                && number > 0
                && known.insert((*switch, number))
            {
                link.numbers[side] = Some(number);
            }
        }
    }
    for (node, setting) in lab.nodes.iter_mut().zip(settings) {
        match setting % 5 {
            // No less than a lab file may say.
            0 => node.limits.memory = Some(u64::from(*setting).max(1) << 20),
            1 => node.storage = Some(u64::from(*setting) << 20),
            2 => {
                node.env = vec![("A".into(), setting.to_string())];
            }
            _ => {}
        }
    }
    for (link, setting) in lab.links.iter_mut().zip(settings) {
        match setting % 7 {
            0 => link.mtu = Some(1400),
            1 => {
                let delay = format!("{setting}us");
                crate::impairment::set(&mut link.impairments[0], "delay", &delay).unwrap();
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_global_rejects: 1 << 20, ..ProptestConfig::default() })]

    #[test]
    fn any_lab_becomes_any_other(
        a in any_lab(), b in any_lab(),
        settings in (prop::collection::vec(any::<u8>(), 18), prop::collection::vec(any::<u8>(), 18)),
        user in any::<bool>(),
    ) {
        let (mut a, mut b) = (a.lab, b.lab);
        settle(&mut a, &settings.0);
        settle(&mut b, &settings.1);
        let (Ok(running), Ok(wanted)) = (plan(&a), plan(&b)) else { return Err(TestCaseError::reject("no plan")) };
        assert_distinct(&running);
        let allowed = Allowed { programs: !user, taps: true, planes: false };
        let found = merged_after(&running, None, &wanted, allowed).unwrap();
        prop_assert_eq!(content(&found.target), content(&wanted));
        assert_distinct(&found.target);
        // Done in order, it gives the target, by plans that the kernel can follow.
        let mut between = running.clone();
        between.forget_links(&found.early.links);
        let gone = |plan: &Plan, parts: &Parts| -> BTreeSet<_> {
            plan.slots().filter(|s| parts.nodes.contains(&plan.nodes[*s].id)).collect()
        };
        between.remove_nodes(&gone(&between, &found.early));
        for name in &found.early.switches {
            between.remove_switch(between.switch(name).unwrap());
        }
        let mut whole = with_leftovers(&found.target, &between, &found.late);
        assert_distinct(&whole);
        whole.forget_links(&found.late.links);
        whole.remove_nodes(&gone(&whole, &found.late));
        for name in &found.late.switches {
            whole.remove_switch(whole.switch(name).unwrap());
        }
        prop_assert_eq!(&whole, &found.target);
        // And nothing is left to do.
        let again = merged_after(&found.target, None, &wanted, allowed).unwrap();
        prop_assert_eq!(again.steps, vec![]);
        prop_assert_eq!(&again.target, &found.target);
        let parts = [again.early, again.late, again.added, again.changed];
        prop_assert!(parts.iter().all(Parts::is_empty));
        // What stays has its identity.
        for node in running.nodes.iter().filter(|n| !found.early.nodes.contains(&n.id) && !found.late.nodes.contains(&n.id)) {
            let now = &found.target.nodes[found.target.slot_of(node.id).unwrap()];
            prop_assert_eq!(&now.name, &node.name);
        }
    }
}

/// Processor time that this thread has used; proc_pid_schedstat of the kernel's documentation.
fn worked() -> std::time::Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    std::time::Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// A lab with one node that has a link with each of many others.
fn star(count: usize) -> Plan {
    let mut plan = of("nodes: {hub: {}, a0: {}}\nlinks: [[hub, a0]]\n");
    for n in 1..count {
        let at = LinkSlot::new(n);
        let mut own = plan.nodes[0].interfaces[0].clone();
        (own.name, own.index, own.link) = (format!("eth{n}"), 2 + u32::try_from(n).unwrap(), at);
        plan.nodes[0].interfaces.push(own);
        let mut node = plan.nodes[1].clone();
        (node.name, node.id) = (format!("a{n}"), NodeId::new(n + 1));
        node.interfaces[0].link = at;
        plan.nodes.push(node);
        let mut link = plan.links[0].clone();
        (link.name, link.id) = (format!("hub:eth{n}--a{n}:eth0"), LinkId::new(n));
        link.ends = [
            PlannedEnd::Node { node: Slot::new(0), interface: n },
            PlannedEnd::Node { node: Slot::new(n + 1), interface: 0 },
        ];
        plan.links.push(link);
    }
    plan.next_id = NodeId::new(count + 1);
    plan.scheme.as_mut().unwrap().next_link = LinkId::new(count);
    assert_eq!(plan.problem(), None);
    plan
}

#[test]
fn a_merge_takes_time_that_grows_with_the_lab_alone() {
    let many = star(30_000);
    let mut other = many.clone();
    other.nodes[0].forwarding = crate::forwarding::Forwarding::Both(true);
    let mut recreated = many.clone();
    recreated.nodes[0].privileged = true;
    for (what, wanted, steps) in [
        ("a change", &other, 1),
        ("removal", &star(1), 2 * 29_999),
        ("all recreated", &recreated, 1),
    ] {
        let before = worked();
        let found = merged(&many, wanted).unwrap();
        let work = worked() - before;
        assert_eq!(found.steps.len(), steps, "{what}");
        assert!(work.as_secs() < 8, "{what}: {work:?}");
    }
}
