//! Interfaces moved from node to node and to and from the host, and how they come home.

use netloom_tests_e2e::live::{SOON, kill_and_wait};
use netloom_tests_e2e::{Machine, kill, machine, root_only, wait_until};

/// `a` and `b` with a link, and two more nodes with one.
const LAB: &str = "
name: moves
nodes: {a: {}, b: {}, c: {}, d: {}}
links:
  - [a, b]
  - [c, d]
";

/// `NAME ADDRESS ...` of each interface, as the node itself sees them, `lo` and link-local left out.
const SEEN: &str = r#"
import json, subprocess
for one in json.loads(subprocess.run(['ip', '-j', 'address'], capture_output=True, check=True).stdout):
    if one['ifname'] == 'lo': continue
    own = [f"{a['local']}/{a['prefixlen']}" for a in one['addr_info'] if a['scope'] != 'link']
    print(one['ifname'], *sorted(own))
"#;

/// The interfaces of a node with their addresses, in order of name.
fn seen(machine: &Machine, node: &str) -> Vec<String> {
    let text = machine.python(node, SEEN, &[]).ok();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Their names alone.
fn names(machine: &Machine, node: &str) -> Vec<String> {
    let name = |line: String| line.split(' ').next().expect("a name").to_owned();
    seen(machine, node).into_iter().map(name).collect()
}

fn reaches(machine: &Machine, from: &str, to: &str) {
    machine.answers(from, to);
}

/// Moves and gives the name that is printed.
fn moved(machine: &Machine, words: &str) -> String {
    machine.ok(&format!("node move-interface {words}")).text().trim_end().to_owned()
}

#[test]
fn a_name_that_is_taken_gives_the_next_free_one() {
    let machine = machine!();
    machine.up(LAB);
    assert_eq!(moved(&machine, "a:eth0 c"), "eth1");
    assert_eq!(names(&machine, "c"), ["eth0", "eth1"]);
    assert!(names(&machine, "a").is_empty());
    assert_eq!(moved(&machine, "b:eth0 c"), "eth2");
    assert_eq!(moved(&machine, "c:eth1 d --name uplink7"), "uplink7");
    assert_eq!(moved(&machine, "d:uplink7 b"), "uplink7");
    assert_eq!(names(&machine, "c"), ["eth0", "eth2"]);
    reaches(&machine, "c", "d");
    machine.down();
}

#[test]
fn an_interface_carries_its_addresses_only_when_told_to() {
    let machine = machine!();
    machine.up(LAB);
    let own = seen(&machine, "a");
    assert_eq!(own.len(), 1);
    moved(&machine, "a:eth0 c --name bare");
    assert!(seen(&machine, "c").contains(&"bare".to_owned()), "{:?}", seen(&machine, "c"));
    moved(&machine, "b:eth0 d --name full --carry");
    let with = seen(&machine, "d").into_iter().find(|line| line.starts_with("full "));
    assert_eq!(with.expect("the interface").split(' ').count(), 3);
    // c has the other end: with an address of its own it reaches what was carried.
    let address = seen(&machine, "d")[1].split(' ').nth(1).expect("an address").to_owned();
    let net: Vec<&str> = own[0].split(' ').collect();
    let add = format!("ip address add {} dev bare", net[1]);
    machine.exec("c", &["sh", "-c", &add]).finish().code(0);
    reaches(&machine, "c", address.split('/').next().expect("an address"));
    machine.down();
}

#[test]
fn it_comes_home_when_its_guest_is_deleted() {
    let machine = machine!();
    machine.up(LAB);
    let own = seen(&machine, "a");
    moved(&machine, "a:eth0 c --name away --carry");
    assert!(seen(&machine, "a").is_empty());
    moved(&machine, "c:away d --name further");
    machine.ok("node delete d");
    assert_eq!(seen(&machine, "a"), own);
    reaches(&machine, "a", "b");
    reaches(&machine, "b", "a");
    let view = machine.node("a");
    assert_eq!(view["interfaces"][0]["name"], "eth0", "{view}");
    machine.down();
}

#[test]
fn it_comes_home_when_its_guest_is_killed() {
    let machine = machine!();
    machine.up(LAB);
    let own = seen(&machine, "a");
    moved(&machine, "a:eth0 c --carry");
    kill(machine.init("c"));
    wait_until("eth0 is home", SOON, || (seen(&machine, "a") == own).then_some(()));
    reaches(&machine, "a", "b");
    machine.up_file(&machine.scratch().path().join("lab.yaml"));
    reaches(&machine, "c", "d");
    assert_eq!(names(&machine, "c"), ["eth0"]);
    assert_eq!(seen(&machine, "a"), own);
    machine.down();
}

#[test]
fn moved_back_by_command_it_is_as_before() {
    let machine = machine!();
    machine.up(LAB);
    let own = seen(&machine, "a");
    for carry in ["", " --carry"] {
        assert_eq!(moved(&machine, &format!("a:eth0 c{carry}")), "eth1");
        assert_eq!(moved(&machine, &format!("c:eth1 a{carry}")), "eth0");
        assert_eq!(seen(&machine, "a"), own);
        let view = machine.node("a");
        assert_eq!(view["interfaces"][0]["name"], "eth0", "{view}");
        assert_eq!(view["interfaces"][0]["up"], true, "{view}");
        reaches(&machine, "a", "b");
    }
    machine.down();
}

#[test]
fn a_home_that_is_gone_takes_the_interface_along() {
    let machine = machine!();
    machine.up(LAB);
    moved(&machine, "a:eth0 c --name guest");
    machine.ok("node delete a");
    let gone = || (names(&machine, "c") == ["eth0"]).then_some(());
    wait_until("the guest is gone", SOON, gone);
    reaches(&machine, "c", "d");
    machine.down();
}

/// Links of two nodes by a switch in shared memory, where each is a tap in its node as root.
const SWITCHED: &str = "
name: moves
nodes: {a: {}, b: {}, c: {}, d: {}}
switches: {s: {kind: shm}, t: {kind: shm}}
links: [[a, s], [b, s], [c, t], [d, t]]
";

/// How a node ends.
#[derive(Clone, Copy)]
enum End {
    Deleted,
    Killed,
}

/// Moves `a`'s interface away, another into `a`, and ends the node that has `a`'s.
fn returns_to_a_home_with_a_guest(lab: &str, end: End) {
    let machine = machine!();
    let file = machine.file(&lab.replace("d: {}", "d: {}, x: {}"));
    machine.up_file(&file);
    let own = seen(&machine, "a");
    moved(&machine, "a:eth0 x --carry");
    // Neither its name nor its index is given away.
    assert_eq!(moved(&machine, "c:eth0 a"), "eth1");
    machine.refused("node move-interface d:eth0 a --name eth0", 2, &["eth0", "reserved"]);
    match end {
        End::Deleted => drop(machine.ok("node delete x")),
        End::Killed => kill(machine.init("x")),
    }
    let back = || seen(&machine, "a").starts_with(&own).then_some(());
    wait_until("eth0 is home", SOON, back);
    assert_eq!(names(&machine, "a"), ["eth0", "eth1"]);
    reaches(&machine, "a", "b");
    machine.up_file(&file);
    assert_eq!(machine.status()["state"], "up");
    moved(&machine, "a:eth1 c");
    reaches(&machine, "c", "d");
    machine.down();
}

#[test]
fn a_guest_at_home_is_not_in_the_way_when_the_holder_is_deleted() {
    returns_to_a_home_with_a_guest(LAB, End::Deleted);
}

#[test]
fn a_guest_at_home_is_not_in_the_way_when_the_holder_is_killed() {
    returns_to_a_home_with_a_guest(LAB, End::Killed);
}

#[test]
fn a_guest_at_home_is_not_in_the_way_of_a_switched_one_whose_holder_is_deleted() {
    returns_to_a_home_with_a_guest(SWITCHED, End::Deleted);
}

#[test]
fn a_guest_at_home_is_not_in_the_way_of_a_switched_one_whose_holder_is_killed() {
    returns_to_a_home_with_a_guest(SWITCHED, End::Killed);
}

/// Something that a program of `a` made stands where `a`'s interface belongs.
fn squatter(machine: &Machine) {
    moved(machine, "a:eth0 c --name away");
    let squat = ["ip", "link", "add", "squat", "index", "2", "type", "bridge"];
    machine.exec("a", &squat).finish().code(0);
}

/// What `status` says of the node `a`: where it stands, and why.
fn standing(machine: &Machine) -> (String, String) {
    let view = machine.node("a");
    let text = |key: &str| view[key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("reason"))
}

/// `up` tells that the link cannot be made; once it can, it is.
fn heals(machine: &Machine, file: &std::path::Path) {
    let (state, reason) = standing(machine);
    assert_eq!(state, "degraded", "{reason}");
    assert!(reason.contains("a:eth0 was lost"), "{reason}");
    let listed = machine.ok("ls").text();
    assert!(listed.contains("degraded"), "{listed}");
    let told = machine.netloom(["up".as_ref(), file.as_os_str()]).finish();
    told.code(1).says("1 link could not be recreated");
    machine.refused("link set a:eth0 --down", 1, &["a:eth0 was lost"]);
    assert_eq!(names(machine, "a"), ["squat"]);
    machine.exec("a", &["ip", "link", "delete", "squat"]).finish().code(0);
    machine.up_file(file);
    assert_eq!(standing(machine), ("up".to_owned(), String::new()));
    reaches(machine, "a", "b");
    reaches(machine, "b", "a");
}

#[test]
fn what_cannot_come_home_is_told_and_made_anew() {
    let machine = machine!();
    let file = machine.file(LAB);
    machine.up_file(&file);
    let own = seen(&machine, "a");
    squatter(&machine);
    kill(machine.init("c"));
    let told = || standing(&machine).1.contains("was lost").then_some(());
    wait_until("it is told", SOON, told);
    heals(&machine, &file);
    assert_eq!(seen(&machine, "a"), own);
    reaches(&machine, "c", "d");
    machine.down();
}

#[test]
fn an_interface_that_the_kernel_does_not_let_in_stays_a_guest() {
    let machine = machine!();
    machine.up(LAB);
    let own = seen(&machine, "a");
    squatter(&machine);
    machine.refused("node move-interface c:away a", 1, &["move"]);
    assert_eq!(names(&machine, "c"), ["away", "eth0"]);
    machine.exec("a", &["ip", "link", "delete", "squat"]).finish().code(0);
    // Its home is known as before.
    assert_eq!(moved(&machine, "c:away a"), "eth0");
    assert_eq!(seen(&machine, "a"), own);
    reaches(&machine, "a", "b");
    machine.down();
}

#[test]
fn what_went_with_its_holder_while_nobody_looked_is_made_anew() {
    let machine = machine!();
    let file = machine.file(SWITCHED);
    machine.up_file(&file);
    squatter(&machine);
    let holder = machine.init("c");
    kill_and_wait(machine.lab_process());
    kill_and_wait(holder);
    let told = machine.netloom(["up".as_ref(), file.as_os_str()]).finish();
    told.code(1).says("1 link could not be recreated");
    heals(&machine, &file);
    machine.down();
}

#[test]
fn a_lab_is_adopted_with_what_was_moved() {
    let machine = machine!();
    let file = machine.file(LAB);
    machine.up_file(&file);
    let own = seen(&machine, "a");
    moved(&machine, "a:eth0 c --name away --carry");
    kill_and_wait(machine.lab_process());
    machine.up_file(&file);
    assert_eq!(names(&machine, "c"), ["away", "eth0"]);
    machine.ok("node delete c");
    assert_eq!(seen(&machine, "a"), own);
    machine.down();
}

#[test]
fn what_cannot_be_moved_is_named() {
    let machine = machine!();
    machine.up(LAB);
    machine.refused("node move-interface a:lo b", 2, &["a:lo"]);
    machine.refused("node move-interface a:eth7 b", 2, &["a:eth7"]);
    machine.refused("node move-interface a:eth0 a", 2, &["a:eth0", "already"]);
    machine.refused("node move-interface eth0 b", 2, &["eth0", "NODE:IFACE"]);
    machine.refused("node move-interface nobody:eth0 b", 1, &["nobody"]);
    machine.refused("node move-interface a:eth0 nobody", 1, &["nobody"]);
    machine.refused("node move-interface a:eth0 c --name eth0", 2, &["a:eth0", "eth0"]);
    machine.refused("node move-interface a:eth0 c --name sixteen-letters-", 2, &["15"]);
    machine.refused("node move-interface a:eth0 c --name a/b", 2, &["a:eth0"]);
    reaches(&machine, "a", "b");
    machine.down();
}

/// A pair of interfaces of the host with names of their own, removed when dropped.
struct Pair {
    names: [String; 2],
}

impl Pair {
    fn make(serial: u32) -> Pair {
        let own = |side: char| format!("t{}{side}{serial}", std::process::id());
        let names = [own('l'), own('r')];
        let [left, right] = &names;
        ip(&["link", "add", left, "type", "veth", "peer", "name", right]);
        ip(&["link", "set", left, "up"]);
        ip(&["link", "set", right, "up"]);
        Pair { names }
    }

    fn there(&self) -> bool {
        self.names.iter().all(|name| std::path::Path::new("/sys/class/net").join(name).exists())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // One end takes the other along, wherever it is.
        let mut delete = std::process::Command::new("ip");
        drop(delete.args(["link", "delete", &self.names[1]]).status());
    }
}

fn ip(args: &[&str]) {
    let status = std::process::Command::new("ip").args(args).status().expect("start ip");
    assert!(status.success(), "ip {args:?}: {status}");
}

/// The lab with an interface of the host in node `a`, under another name.
fn with_a_host_interface(machine: &Machine, serial: u32) -> Pair {
    machine.up(LAB);
    let pair = Pair::make(serial);
    let own = &pair.names[0];
    assert_eq!(moved(machine, &format!("host:{own} a --name card0")), "card0");
    assert_eq!(names(machine, "a"), ["card0", "eth0"]);
    assert!(!pair.there());
    pair
}

#[test]
fn a_host_interface_goes_back_when_its_node_is_deleted() {
    root_only!("moves an interface of the host");
    let machine = machine!();
    let pair = with_a_host_interface(&machine, 1);
    // Under whatever name a program has given it there.
    let rename = "ip link set card0 down; ip link set card0 name other";
    machine.exec("a", &["sh", "-c", rename]).finish().code(0);
    machine.ok("node delete a");
    assert!(pair.there(), "{:?}", pair.names);
    drop(pair);
    machine.down();
}

#[test]
fn a_host_interface_goes_back_by_command_and_with_the_lab() {
    root_only!("moves an interface of the host");
    let machine = machine!();
    let pair = with_a_host_interface(&machine, 2);
    let own = &pair.names[0];
    assert_eq!(&moved(&machine, &format!("a:card0 host --name {own}")), own);
    assert!(pair.there());
    moved(&machine, &format!("host:{own} b --name card1"));
    machine.ok("down");
    assert!(pair.there(), "{:?}", pair.names);
    drop(pair);
    machine.down();
}

#[test]
fn a_host_interface_goes_back_when_its_node_is_killed() {
    root_only!("moves an interface of the host");
    let machine = machine!();
    let pair = with_a_host_interface(&machine, 3);
    kill(machine.init("a"));
    wait_until("it is back", SOON, || pair.there().then_some(()));
    drop(pair);
    machine.down();
}

#[test]
fn a_host_interface_goes_back_without_the_lab_process() {
    root_only!("moves an interface of the host");
    let machine = machine!();
    let pair = with_a_host_interface(&machine, 4);
    kill_and_wait(machine.lab_process());
    machine.ok("down");
    assert!(pair.there(), "{:?}", pair.names);
    drop(pair);
    machine.down();
}

#[test]
fn only_root_moves_interfaces_of_the_host() {
    netloom_tests_e2e::ordinary_only!("root may move them");
    let machine = machine!();
    machine.up(LAB);
    machine.refused("node move-interface host:lo a", 3, &[]);
    machine.refused("node move-interface a:eth0 host", 3, &[]);
    machine.down();
}
