//! Socket limits on real groups: counted exactly, whichever process opens, keeps and closes.

use super::support;

use netloom_ebpf::sockets::{GroupId, SocketCounts, SocketLimits};
use netloom_ebpf::{Error, feature};
use support::group::{Group, Helper};

/// What a refused program sees.
const ENFILE: i32 = 23;

/// A fresh lab's group with limits, or the test is skipped.
macro_rules! lab {
    () => {{
        netloom_kit::root_only!("attaches BPF programs");
        let Some(group) = Group::create() else {
            netloom_kit::lacks!("cgroup2", "no group can be made");
        };
        let limits = SocketLimits::create(group.path()).unwrap();
        (group, limits)
    }};
}

fn open(counts: SocketCounts) -> u64 {
    counts.open
}

#[test]
fn this_machine_takes_the_programs_or_says_what_it_lacks() {
    match feature::sockets_supported() {
        Ok(()) => assert!(netloom_kit::is_root()),
        Err(missing) => {
            assert!(!netloom_kit::is_root(), "{missing}");
            assert!(missing.needs.contains("root"), "{missing}");
        }
    }
}

#[test]
fn sockets_above_the_limit_are_refused_and_closing_makes_room() {
    let (lab, limits) = lab!();
    let node = lab.below("n1");
    limits.set(&node, Some(5)).unwrap();
    let mut program = Helper::start(&node);
    assert_eq!(program.ask("open 4"), "4 0");
    assert_eq!(program.ask("open6 3"), format!("1 {ENFILE}"));
    assert_eq!(program.ask("unix 3"), "3 0", "not of the network");
    let counts = limits.read(&node).unwrap();
    let expected = SocketCounts { open: 5, limit: Some(5), refused: 2, peak: 5, uncounted: 0 };
    assert_eq!(counts, expected);
    program.ask("close 6");
    assert_eq!(open(limits.read(&node).unwrap()), 2);
    assert_eq!(program.ask("open 9"), format!("3 {ENFILE}"));
    drop(program);
    assert_eq!(open(limits.read(&node).unwrap()), 0, "a killed program's are closed");
}

#[test]
fn the_limit_is_changed_while_sockets_are_open() {
    let (lab, limits) = lab!();
    let node = lab.below("n1");
    let id = limits.set(&node, None).unwrap();
    let mut program = Helper::start(&node);
    assert_eq!(program.ask("open 10"), "10 0");
    assert_eq!(limits.read(&node).unwrap().limit, None);
    assert_eq!(limits.set(&node, Some(4)).unwrap(), id);
    assert_eq!(program.ask("open 1"), format!("0 {ENFILE}"));
    assert_eq!(open(limits.read(&node).unwrap()), 10, "what is open stays");
    program.ask("close 7");
    assert_eq!(program.ask("open 5"), format!("1 {ENFILE}"));
    limits.set(&node, Some(0)).unwrap();
    program.ask("close 4");
    assert_eq!(program.ask("open 1"), format!("0 {ENFILE}"));
    assert_eq!(limits.groups(), [id]);
    assert!(limits.forget(id).unwrap());
    assert!(!limits.forget(id).unwrap());
    assert_eq!(program.ask("open 3"), "3 0", "nobody counts");
    assert!(matches!(limits.read(&node), Err(Error::Unknown { .. })));
    // Those three are of no account when the group is counted again.
    limits.set(&node, Some(2)).unwrap();
    assert_eq!(program.ask("open 3"), format!("2 {ENFILE}"));
    program.ask("close 5");
    let counts = limits.read(&node).unwrap();
    assert_eq!((counts.open, counts.uncounted), (0, 3));
}

#[test]
fn sockets_of_an_earlier_count_are_not_taken_from_a_later_one() {
    let (lab, limits) = lab!();
    let node = lab.below("n1");
    let id = limits.set(&node, Some(3)).unwrap();
    let mut program = Helper::start(&node);
    assert_eq!(program.ask("open 3"), "3 0");
    limits.forget(id).unwrap();
    limits.set(&node, Some(3)).unwrap();
    assert_eq!(program.ask("open 4"), format!("3 {ENFILE}"));
    program.ask("close 6");
    assert_eq!(open(limits.read(&node).unwrap()), 0);
}

#[test]
fn groups_in_groups_are_counted_in_all_and_refused_by_any() {
    let (lab, limits) = lab!();
    let [node, child, deep] = ["n1", "n1/c1", "n1/c2/d/e"].map(|path| lab.below(path));
    limits.set(&node, Some(6)).unwrap();
    limits.set(&child, Some(2)).unwrap();
    limits.set(&deep, Some(10)).unwrap();
    let [mut of_node, mut of_child, mut of_deep] = [&node, &child, &deep].map(|g| Helper::start(g));
    assert_eq!(of_child.ask("open 3"), format!("2 {ENFILE}"));
    assert_eq!(of_node.ask("open 1"), "1 0");
    assert_eq!(of_deep.ask("open 9"), format!("3 {ENFILE}"));
    let all = [&node, &child, &deep].map(|g| limits.read(g).unwrap());
    assert_eq!(all.map(|c| c.open), [6, 2, 3]);
    assert_eq!(all.map(|c| c.refused), [6, 1, 0], "by the group that was full");
    of_child.ask("close 1");
    assert_eq!(of_node.ask("open 2"), format!("1 {ENFILE}"));
    assert_eq!(of_child.ask("open 1"), format!("0 {ENFILE}"), "its own has room, its parent not");
    let all = [&node, &child, &deep].map(|g| limits.read(g).unwrap());
    assert_eq!(all.map(|c| c.open), [6, 1, 3]);
    drop((of_node, of_child, of_deep));
    assert_eq!([&node, &child, &deep].map(|g| limits.read(g).unwrap().open), [0, 0, 0]);
}

#[test]
fn eight_levels_count_and_the_lab_itself_and_others_do_not() {
    let (lab, limits) = lab!();
    let other = Group::create().unwrap();
    let node = lab.below("1");
    let eighth = lab.below("1/2/3/4/5/6/7/8");
    let ninth = lab.below("1/2/3/4/5/6/7/8/9");
    for group in [&node, &eighth, &ninth] {
        limits.set(group, Some(2)).unwrap();
    }
    limits.set(lab.path(), Some(0)).unwrap();
    let mut program = Helper::start(&ninth);
    assert_eq!(program.ask("open 3"), format!("2 {ENFILE}"));
    assert_eq!([&node, &eighth, &ninth].map(|g| limits.read(g).unwrap().open), [2, 2, 0]);
    assert_eq!(Helper::start(lab.path()).ask("open 3"), "3 0");
    assert_eq!(Helper::start(other.path()).ask("open 3"), "3 0");
}

#[test]
fn a_socket_counts_until_the_last_who_has_it_closes_it() {
    let (lab, limits) = lab!();
    let node = lab.below("n1");
    limits.set(&node, Some(3)).unwrap();
    let mut program = Helper::start(&node);
    let now = || limits.read(&node).unwrap().open;
    program.ask("open 1");
    program.ask("dup");
    program.ask("close 1");
    assert_eq!(now(), 1, "its copy is open");
    program.ask("fork");
    program.ask("close 1");
    assert_eq!(now(), 1, "a child has it");
    program.ask("reap");
    assert_eq!(now(), 0);
    program.ask("open 1");
    let mut keeper = Helper::start(lab.path());
    program.give_socket(&mut keeper);
    drop(program);
    assert_eq!(now(), 1, "a process in no group that counts has it");
    drop(keeper);
    assert_eq!(now(), 0);
}

#[test]
fn accepted_connections_are_told_apart() {
    let (lab, limits) = lab!();
    let node = lab.below("n1");
    limits.set(&node, Some(2)).unwrap();
    let mut program = Helper::start(&node);
    assert_eq!(program.ask("accept"), "done");
    assert_eq!(limits.read(&node).unwrap().open, 2);
    program.ask("close 3");
    let counts = limits.read(&node).unwrap();
    assert_eq!((counts.open, counts.uncounted), (0, 1));
}

#[test]
fn fifty_at_once_get_exactly_what_there_is() {
    let (lab, limits) = lab!();
    let [node, child] = ["n1", "n1/c"].map(|path| lab.below(path));
    limits.set(&node, Some(100)).unwrap();
    limits.set(&child, Some(70)).unwrap();
    let mut programs: Vec<Helper> =
        (0..50).map(|i| Helper::start(if i % 2 == 0 { &node } else { &child })).collect();
    for round in 0..100 {
        programs.iter_mut().for_each(|p| p.tell("open 3"));
        let got: u64 = programs
            .iter_mut()
            .map(|p| p.reply().split(' ').next().unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!(got, 100, "round {round}");
        assert_eq!(open(limits.read(&node).unwrap()), 100);
        programs.iter_mut().for_each(|p| p.tell("close 3"));
        programs.iter_mut().for_each(|p| assert_eq!(p.reply(), "closed"));
        assert_eq!([&node, &child].map(|g| limits.read(g).unwrap().open), [0, 0]);
    }
    assert_eq!(limits.read(&node).unwrap().peak, 100);
}

#[test]
fn nobody_is_refused_while_there_is_room() {
    let (lab, limits) = lab!();
    let [node, child] = ["n1", "n1/c"].map(|path| lab.below(path));
    // One for each of the fifty, and for each of the half in the child.
    limits.set(&node, Some(50)).unwrap();
    limits.set(&child, Some(25)).unwrap();
    let mut programs: Vec<Helper> =
        (0..50).map(|i| Helper::start(if i % 2 == 0 { &node } else { &child })).collect();
    programs.iter_mut().for_each(|p| p.tell("churn 2000"));
    programs.iter_mut().for_each(|p| assert_eq!(p.reply(), "0"));
    let counts = limits.read(&node).unwrap();
    assert_eq!((counts.open, counts.refused), (0, 0));
}

#[test]
fn attempts_that_are_refused_take_no_room_from_others() {
    let (lab, limits) = lab!();
    let [node, child] = ["n1", "n1/c"].map(|path| lab.below(path));
    limits.set(&node, Some(1)).unwrap();
    limits.set(&child, Some(0)).unwrap();
    let mut rightful = Helper::start(&node);
    let mut others = [Helper::start(&child), Helper::start(&child)];
    others.iter_mut().for_each(|p| p.tell("churn 200000"));
    assert_eq!(rightful.ask("churn 100000"), "0", "it has the only one's room for itself");
    others.iter_mut().for_each(|p| assert_eq!(p.reply(), "200000"));
    let all = [&node, &child].map(|g| limits.read(g).unwrap());
    assert_eq!(all.map(|c| (c.open, c.refused, c.peak)), [(0, 0, 1), (0, 400_000, 0)]);
}

#[test]
fn a_later_process_finds_what_an_earlier_one_attached() {
    let (lab, limits) = lab!();
    let node = lab.below("n1");
    limits.set(&node, Some(2)).unwrap();
    let mut program = Helper::start(&node);
    program.ask("open 1");
    assert!(matches!(SocketLimits::create(lab.path()), Err(Error::Exists { .. })));
    drop(limits);
    let mut other = Helper::start(lab.path());
    assert_eq!(other.ask("limit 4"), "done", "another process changes the limit of n1");
    drop(other);
    let again = SocketLimits::reopen(lab.path()).unwrap().expect("it is attached");
    let counts = again.read(&node).unwrap();
    assert_eq!((counts.open, counts.limit), (1, Some(4)));
    again.set(&node, Some(3)).unwrap();
    assert_eq!(program.ask("open 5"), format!("2 {ENFILE}"));
    let other = Group::create().unwrap();
    assert!(SocketLimits::reopen(other.path()).unwrap().is_none());
}

#[test]
fn a_removed_group_is_read_and_forgotten_by_its_id() {
    let (lab, limits) = lab!();
    let node = lab.below("n1");
    let id = limits.set(&node, Some(2)).unwrap();
    assert_eq!(GroupId::of(&node).unwrap(), id);
    let mut program = Helper::start(&node);
    program.ask("open 2");
    let mut keeper = Helper::start(lab.path());
    program.give_socket(&mut keeper);
    drop(program);
    std::fs::remove_dir(&node).unwrap();
    assert_eq!(limits.read_by_id(id).unwrap().open, 1);
    drop(keeper);
    assert_eq!(limits.read_by_id(id).unwrap().open, 0);
    assert!(limits.forget(id).unwrap());
    assert!(matches!(limits.read(&node), Err(Error::Failed(_))));
}

#[test]
fn a_folder_that_is_no_group_is_told() {
    let error = GroupId::of(std::path::Path::new("/tmp")).unwrap_err();
    assert!(error.to_string().contains("is not a cgroup of version 2"), "{error}");
}
