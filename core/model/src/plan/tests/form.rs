//! Forms of links: by what the plan has and what the machine allows.

use crate::parse;
use crate::plan::form::{Allowed, Forms, LinkForm, Seat, sides_to_remake, wired_form};
use crate::plan::{Plan, PlanError, Slot, plan};

const ALL: Allowed = Allowed { programs: true, taps: true, planes: false };
const USER: Allowed = Allowed { programs: false, taps: true, planes: false };

fn planned(switch: &str, links: &str) -> Result<Plan, PlanError> {
    let text = format!(
        "name: forms\nnodes:\n  a: {{}}\n  b: {{}}\n  p: {{protect: {{packets: 9}}}}\n  \
         v: {{kind: vm, kernel: k, vhost-user: true}}\n  \
         w: {{kind: vm, kernel: k, vhost-user: true, protect: {{packets: 9}}}}\n\
         switches: {{s: {switch}}}\nlinks:\n{links}"
    );
    plan(&parse("forms.yaml", text.as_bytes(), "forms").unwrap())
}

/// The form and the seats of the last link.
fn last(switch: &str, link: &str, allowed: Allowed) -> (LinkForm, [Seat; 2]) {
    let plan = planned(switch, &format!("- [a, b]\n- {link}\n")).unwrap();
    let link = plan.links.last().unwrap();
    let form = LinkForm::of(&plan, link, allowed);
    assert_eq!(Forms::of(&plan, allowed).get(&plan, link), form);
    (form, [0, 1].map(|side| form.seat(link, side)))
}

#[test]
fn each_link_has_the_form_of_its_ends_and_of_the_machine() {
    const BRIDGE: &str = "{}";
    const SHM: &str = "{kind: shm}";
    const OPENFLOW: &str = "{kind: openflow}";
    let a1 = Seat::Node { node: Slot::new(0), interface: 1 };
    let p0 = Seat::Node { node: Slot::new(2), interface: 0 };
    let v0 = Seat::Node { node: Slot::new(3), interface: 0 };
    let card = Seat::Guest { node: Slot::new(3), interface: 0 };
    let w0 = Seat::Node { node: Slot::new(4), interface: 0 };
    let no_taps = Allowed { taps: false, ..ALL };
    let planes = Allowed { planes: true, ..ALL };
    for (switch, link, allowed, form, seats) in [
        (BRIDGE, "[a, s]", ALL, LinkForm::Pair, [a1, Seat::Port]),
        (BRIDGE, "{ends: [a, s], delay: 1ms}", ALL, LinkForm::Pair, [a1, Seat::Port]),
        (BRIDGE, "{ends: [a, s], delay: 1ms}", USER, LinkForm::Wired, [a1, Seat::Port]),
        (BRIDGE, "[a, p]", ALL, LinkForm::Pair, [a1, p0]),
        (BRIDGE, "{ends: [a, p], delay: 1ms}", ALL, LinkForm::Joined, [a1, p0]),
        (BRIDGE, "{ends: [a, p], delay: 1ms}", USER, LinkForm::Wired, [a1, p0]),
        (BRIDGE, "{ends: [a, v], delay: 1ms}", ALL, LinkForm::Wired, [a1, v0]),
        (SHM, "[a, s]", ALL, LinkForm::Tap, [a1, Seat::Plug]),
        (SHM, "[a, s]", no_taps, LinkForm::Pair, [a1, Seat::Port]),
        (SHM, "[a, s]", USER, LinkForm::Pair, [a1, Seat::Port]),
        (SHM, "[a, s]", planes, LinkForm::Pair, [a1, Seat::Port]),
        (SHM, "{ends: [a, s], loss: 1%}", planes, LinkForm::Wired, [a1, Seat::Port]),
        (SHM, "[v, s]", planes, LinkForm::Guest, [card, Seat::Plug]),
        (BRIDGE, "[a, s]", planes, LinkForm::Pair, [a1, Seat::Port]),
        (SHM, "[p, s]", ALL, LinkForm::Pair, [p0, Seat::Port]),
        (SHM, "{ends: [a, s], loss: 1%}", ALL, LinkForm::Wired, [a1, Seat::Port]),
        (SHM, "[v, s]", ALL, LinkForm::Guest, [card, Seat::Plug]),
        (SHM, "[s, v]", USER, LinkForm::Guest, [Seat::Plug, card]),
        (SHM, "{ends: [v, s], loss: 1%}", ALL, LinkForm::Wired, [v0, Seat::Port]),
        (SHM, "[w, s]", ALL, LinkForm::Pair, [w0, Seat::Port]),
        (BRIDGE, "[v, s]", ALL, LinkForm::Pair, [v0, Seat::Port]),
        (OPENFLOW, "[v, s]", ALL, LinkForm::Pair, [v0, Seat::Port]),
        (OPENFLOW, "[a, s]", ALL, LinkForm::Pair, [a1, Seat::Port]),
        (OPENFLOW, "[a, s]", USER, LinkForm::Pair, [a1, Seat::Port]),
        (OPENFLOW, "{ends: [a, s], loss: 1%}", ALL, LinkForm::Wired, [a1, Seat::Port]),
        (OPENFLOW, "[s, 'host:e9']", ALL, LinkForm::Bridged, [Seat::Port, Seat::Host]),
        (OPENFLOW, "[s, internet]", ALL, LinkForm::Nat, [Seat::Port, Seat::Host]),
        (BRIDGE, "[s, 'host:e9']", ALL, LinkForm::Bridged, [Seat::Port, Seat::Host]),
        (BRIDGE, "[a, 'host:e9']", ALL, LinkForm::Bridged, [a1, Seat::Host]),
        (SHM, "[s, 'host:e9']", ALL, LinkForm::Card, [Seat::Plug, Seat::Host]),
        (SHM, "[s, internet]", ALL, LinkForm::Nat, [Seat::Port, Seat::Host]),
        (BRIDGE, "[a, internet]", ALL, LinkForm::Nat, [a1, Seat::Host]),
    ] {
        assert_eq!(last(switch, link, allowed), (form, seats), "{switch} {link} {allowed:?}");
    }
}

#[test]
fn a_living_link_is_led_through_the_core_by_the_end_that_can_be_made_anew() {
    for (switch, link, form, sides) in [
        ("{}", "[a, p]", LinkForm::Pair, vec![1, 0]),
        ("{}", "[a, v]", LinkForm::Pair, vec![0]),
        ("{}", "[v, w]", LinkForm::Pair, vec![]),
        ("{}", "[s, a]", LinkForm::Pair, vec![0]),
        ("{}", "[v, s]", LinkForm::Pair, vec![1]),
        ("{kind: shm}", "[s, a]", LinkForm::Tap, vec![1]),
        ("{kind: shm}", "[v, s]", LinkForm::Tap, vec![]),
        ("{kind: shm}", "[v, s]", LinkForm::Guest, vec![]),
        ("{}", "[a, internet]", LinkForm::Nat, vec![]),
        ("{}", "[a, p]", LinkForm::Joined, vec![]),
    ] {
        let plan = planned(switch, &format!("- {link}\n")).unwrap();
        assert_eq!(sides_to_remake(&plan, &plan.links[0], form), sides, "{switch} {link} {form:?}");
    }
}

#[test]
fn a_living_pair_gets_the_form_that_its_ends_can_have_wires_in() {
    let plan = planned("{}", "- [a, b]\n- [a, s]\n").unwrap();
    for (link, allowed, late, form) in [
        (0, ALL, false, Some(LinkForm::Joined)),
        (0, ALL, true, Some(LinkForm::Wired)),
        (0, USER, false, Some(LinkForm::Wired)),
        (1, ALL, false, None),
        (1, ALL, true, Some(LinkForm::Wired)),
        (1, USER, false, Some(LinkForm::Wired)),
    ] {
        assert_eq!(wired_form(&plan.links[link], allowed, late), form, "{link} {allowed:?} {late}");
    }
}

#[test]
fn a_wire_between_a_shared_memory_switch_and_the_host_is_refused() {
    for end in ["internet", "'host:e9'"] {
        let link = format!("- {{ends: [s, {end}], delay: 1ms}}\n");
        let refused = planned("{kind: shm}", &link).unwrap_err();
        assert!(matches!(refused, PlanError::WireAtDoor { .. }), "{refused}");
        planned("{}", &link).unwrap();
    }
}

#[test]
fn a_guest_with_a_budget_is_behind_a_switch() {
    for link in ["[a, w]", "[w, internet]"] {
        let refused = planned("{}", &format!("- {link}\n")).unwrap_err();
        assert!(matches!(refused, PlanError::ProtectedGuest { .. }), "{refused}");
    }
    for switch in ["{}", "{kind: shm}", "{kind: openflow}"] {
        planned(switch, "- [w, s]\n").unwrap();
    }
}

#[test]
fn a_link_without_a_stored_form_has_that_of_the_plan() {
    let plan = planned("{kind: shm}", "- [a, b]\n- [s, internet]\n").unwrap();
    let found: Vec<_> = plan.links.iter().map(|l| Forms::default().get(&plan, l)).collect();
    assert_eq!(found, [LinkForm::Pair, LinkForm::Nat]);
}

#[test]
fn ports_are_found_by_their_indexes() {
    let plan = planned("{}", "- [a, s]\n- [s, b]\n").unwrap();
    for link in &plan.links {
        for side in [0, 1] {
            let (found, end) = plan.port_of(link.port_index(side)).unwrap();
            assert_eq!((found.id, end), (link.id, side));
        }
    }
    assert!(plan.port_of(5).is_none() && plan.port_of(plan.links[1].hidden_index(1)).is_none());
}
