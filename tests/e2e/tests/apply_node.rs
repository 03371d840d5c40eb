//! `apply` to a living node: its host name, its check, what it sees of the host, and files that it loses.

use std::fs;
use std::time::Duration;

use netloom_tests_e2e::{machine, wait_until};

use super::apply::{Applied, sh};

const BOUND: Duration = Duration::from_secs(60);

fn lab(of_a: &str) -> String {
    format!("name: living\nnodes:\n  a: {{{of_a}}}\n  b: {{}}\nlinks: [[a, b]]\n")
}

#[test]
fn a_node_gets_another_host_name_where_it_is() {
    let machine = machine!();
    machine.up(&lab(""));
    let told = machine.applied_in_place(&lab("hostname: web.example"));
    assert_eq!(told.lines().next(), Some("~ node a: hostname web.example, was none"));
    assert_eq!(sh(&machine, "a", "hostname; cat /etc/hostname"), "web.example\nweb.example");
    wait_until("its neighbour knows the name", BOUND, || {
        machine
            .exec("b", &["getent", "hosts", "web.example"])
            .finish()
            .status
            .success()
            .then_some(())
    });
    machine.applied_in_place(&lab(""));
    assert_eq!(sh(&machine, "a", "hostname"), "a");
    machine.down();
}

#[test]
fn a_node_that_begins_to_forward_keeps_the_addresses_of_all() {
    let machine = machine!();
    let lab = |m: &str| {
        format!("name: living\nnodes: {{a: {{}}, m: {{{m}}}, z: {{}}}}\nlinks: [[a, m], [z, m]]\n")
    };
    let addresses = || {
        let words = "ip -o addr show scope global | awk '{print $2, $4}' | sort";
        let all = |node: &str| sh(&machine, node, words);
        ["a", "m", "z"].map(all)
    };
    machine.up(&lab(""));
    let (before, inits) = (addresses(), machine.inits());
    let to_z = before[2].split_whitespace().find(|word| word.contains('.')).expect("an address");
    let to_z = to_z.split_once('/').expect("with its prefix").0.to_owned();
    let told = machine.applied_in_place(&lab("forwarding: true"));
    assert_eq!(told.lines().next(), Some("~ node m: forwarding true, was none"));
    assert!(!told.contains("addresses"), "{told}");
    assert_eq!(addresses(), before);
    machine.answers("a", &to_z);
    // Another link of the router, and its forwarding gone again.
    let more =
        lab("forwarding: true").replace("z: {}}", "z: {}, y: {}}").replace("m]]", "m], [m, y]]");
    machine.applied(&more);
    let now = addresses();
    let stay = |(now, before): (&String, &String)| before.lines().all(|one| now.contains(one));
    assert!(now.iter().zip(&before).all(stay), "{now:?}, before {before:?}");
    machine.answers("a", "y");
    machine.applied(&lab(""));
    assert_eq!(addresses(), before);
    assert_eq!(machine.inits(), inits, "no node was recreated");
    machine.down();
}

#[test]
fn a_check_begins_changes_and_ends_while_programs_run_on() {
    let machine = machine!();
    let with = |health: &str| lab(&format!("run: [[sleep, '1001']]{health}"));
    machine.up(&with(""));
    // It becomes that a moment after it is started.
    let pid = sh(&machine, "a", "until pgrep -fx 'sleep 1001'; do sleep 0.1; done");
    let health = || machine.status()["nodes"][0]["health"]["state"].as_str().map(str::to_owned);
    assert_eq!(health(), None);
    let sick = ", health: {exec: [\"false\"], interval: 100ms, retries: 1}";
    assert!(machine.applied_in_place(&with(sick)).starts_with("~ node a: health"));
    wait_until("it is unhealthy", BOUND, || {
        (health().as_deref() == Some("unhealthy")).then_some(())
    });
    machine.applied_in_place(&with(&sick.replace("false", "true")));
    wait_until("it is healthy", BOUND, || (health().as_deref() == Some("healthy")).then_some(()));
    machine.applied_in_place(&with(""));
    assert_eq!(health(), None);
    assert_eq!(sh(&machine, "a", "pgrep -fx 'sleep 1001'"), pid);
    machine.down();
}

#[test]
fn what_a_node_sees_of_the_host_comes_changes_and_goes() {
    let machine = machine!();
    let folder = machine.scratch().path();
    for name in ["one", "two", "deep"] {
        fs::create_dir(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("name"), format!("{name}\n")).unwrap();
    }
    fs::create_dir(folder.join("one/deep")).unwrap();
    fs::create_dir(folder.join("two/deep")).unwrap();
    fs::write(folder.join("file"), "a file\n").unwrap();
    machine.up(&lab(""));
    let first = lab("binds: {/srv/x: one, /srv/x/deep: deep, /srv/file: file}");
    let told = machine.applied_in_place(&first);
    assert!(told.starts_with("~ node a: binds./srv/x added; binds./srv/file added"), "{told}");
    assert_eq!(
        sh(
            &machine,
            "a",
            "cat /srv/x/name /srv/x/deep/name /srv/file; touch /srv/x/new || echo ro"
        ),
        "one\ndeep\na file\nro"
    );
    // A program that looks at the old ones goes on with them; what lies below comes along.
    let other = lab("binds: {/srv/x: {from: two, access: rw}, /srv/x/deep: deep}");
    machine.applied_in_place(&other);
    assert_eq!(
        sh(
            &machine,
            "a",
            "cat /srv/x/name /srv/x/deep/name; touch /srv/x/new && echo rw; cat /srv/file"
        ),
        "two\ndeep\nrw"
    );
    assert!(folder.join("two/new").exists());
    machine.applied_in_place(&first);
    assert_eq!(sh(&machine, "a", "cat /srv/x/name"), "one");
    machine.applied_in_place(&lab(""));
    assert_eq!(
        sh(&machine, "a", "cat /srv/x/name 2>/dev/null; grep -c /srv/ /proc/self/mounts || true"),
        "0"
    );
    assert_eq!(fs::read_to_string(folder.join("one/name")).unwrap(), "one\n");
    machine.down();
}

#[test]
fn a_file_that_is_no_longer_given_goes_unless_the_host_has_one_there() {
    let machine = machine!();
    machine.up(&lab("files: {/etc/of-the-lab: one, /opt/deep/note: two}"));
    let told = machine.applied_in_place(&lab("files: {/opt/deep/note: two}"));
    assert!(told.starts_with("~ node a: files./etc/of-the-lab removed"), "{told}");
    assert_eq!(sh(&machine, "a", "ls /etc/of-the-lab 2>/dev/null; cat /opt/deep/note"), "two");
    machine.applied_in_place(&lab(""));
    assert_eq!(sh(&machine, "a", "ls /opt/deep/note 2>/dev/null || echo gone"), "gone");
    // Where the host has a file, it would stay hidden: the node is recreated, and says so.
    machine.applied_in_place(&lab("files: {/etc/hostname: other}"));
    let file = machine.file(&lab(""));
    let shown =
        machine.netloom(["apply".as_ref(), file.as_os_str(), "--dry-run".as_ref()]).finish();
    let text = shown.code(0).text();
    assert!(text.starts_with("! node a recreated: files./etc/hostname removed"), "{text}");
    machine.down();
}
