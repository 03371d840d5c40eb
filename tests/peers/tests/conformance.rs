//! A sample of os-ken's switch tests on our OpenFlow switch; `make conformance` runs them all.

use std::time::Duration;

use netloom_conformance::{
    Allowed, Case, DIRECTORIES, OwnSwitch, Plane, Setup, Suite, Switch, Verdict, sample,
};
use netloom_kit::{again_by_name, is_root, needs, needs_namespaces, program};

/// Cases of it.
const CASES: usize = 100;
/// How long the tester waits: on a busy machine nothing is late that comes at all.
const WAIT: Duration = Duration::from_secs(60);

/// This executable as a switch.
fn own() -> Switch {
    let command = again_by_name("openflow_switch_process");
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    Switch::Own(words.map(|word| word.to_str().expect("UTF-8").to_owned()).collect())
}

/// Open vSwitch needs root also in a user namespace.
fn assistant() -> Switch {
    if is_root() && program("ovs-vswitchd").is_some() { Switch::Ovs } else { own() }
}

#[test]
fn a_sample_of_the_switch_tests_passes() {
    needs!("os-ken");
    needs_namespaces!();
    let suite = Suite::find().expect("os-ken is there");
    // Groups and meters are tried by rates, which a busy machine cannot offer.
    let by_rate = ["of13/group", "of13/meter"];
    let directories = DIRECTORIES.iter().filter(|directory| !by_rate.contains(directory));
    let cases: Vec<Vec<Case>> =
        directories.map(|directory| suite.cases(directory).expect("read the suite")).collect();
    let (of10, of13): (Vec<Case>, Vec<Case>) =
        sample(&cases.concat(), CASES).into_iter().partition(Case::is_of10);
    let (target, assistant) = (own(), assistant());
    let setup = Setup { suite, target, assistant, wait: WAIT, correct_sctp: false, steady: false };
    let mut outcomes = setup.run(&of10).expect("the cases of 1.0 run");
    outcomes.extend(setup.run(&of13).expect("the cases of 1.3 run"));
    assert_eq!(outcomes.len(), CASES);
    let allowed = Allowed::of_ours(&[]).expect("the list of what may fail");
    let runs = [outcomes];
    let wrong = Verdict::new(&runs, &allowed).wrong();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Is a switch until its end, as its environment says.
pub(crate) fn serve() {
    OwnSwitch::become_it(Plane::Best).expect("serve");
}
