//! How programs start and end: as whom, where, by which signal, and when again.

use std::time::Duration;

use netloom_tests_e2e::{machine, needs, signal, wait_until};

const BOUND: Duration = Duration::from_secs(60);

#[test]
fn a_program_starts_as_its_user_where_it_is_told() {
    let machine = machine!();
    let tell = "[sh, -c, 'echo $(id -u) $(id -g) $(id -G) $HOME $(pwd); echo more > /dev/stdout; exec sleep infinity']";
    machine.up(&format!(
        "name: who\nnodes:\n  a:\n    files:\n      /etc/passwd: \"root:x:0:0::/root:/bin/sh\\nweb:x:33:34::/srv:/bin/sh\\n\"\n      \
         /etc/group: \"root:x:0:\\nlog:x:4:web\\n\"\n    run:\n    - {{command: &tell {tell}, user: web, workdir: /usr/bin}}\n    \
         - {{command: *tell, user: \"33\", group: log}}\n    - {{command: *tell, group: log}}\n    - *tell\n  \
         b: {{run: [{{command: *tell, user: \"70\"}}], env: {{HOME: /own}}}}\n"
    ));
    let real = machine.netloom(["node", "show", "a", "--json"]).finish().json()["ids"] == "real";
    let said = |node: &str, lines: usize| {
        wait_until("all programs to tell", BOUND, || {
            let log = machine.netloom(["logs", node]).finish().text();
            (log.lines().filter(|line| line.ends_with("more")).count() == lines).then_some(log)
        })
    };
    let (a, b) = (said("a", 4), said("b", 1));
    // Told that it has changed, a program is root still. Groups of the lab's maker may stay with it.
    let ids = if real {
        ["33 34 34 4 ", "33 4 4 ", "0 4 4 ", "0 0 0"]
    } else {
        ["0 0 0", "0 0 0", "0 0 0", "0 0 0"]
    };
    for (ids, places) in ids.into_iter().zip(["/srv /usr/bin", "/srv /", "/root /", "/root /"]) {
        let is_it = |line: &str| {
            line.contains(&format!("| {ids}")) && line.ends_with(&format!(" {places}"))
        };
        assert!(a.lines().any(is_it), "{ids} {places}: {a}");
    }
    let first = b.lines().next().unwrap_or_default();
    assert!(
        first.starts_with(if real { "70 0 0 " } else { "0 0 0" }) && first.ends_with(" /own /"),
        "{b}"
    );
    machine.down();
}

#[test]
fn root_starts_where_nobody_can_change() {
    let machine = machine!();
    machine.up("name: root\nids: one\nnodes: {a: {run: [{command: [sleep, infinity], user: root, group: root}]}}\n");
    machine.down();
}

#[test]
fn a_program_that_cannot_start_so_is_named() {
    let machine = machine!();
    let refused = |keys: &str, ids: &str| {
        let lab = format!(
            "name: no\nids: {ids}\nnodes: {{a: {{run: [{{command: [sleep, '9'], {keys}}}]}}}}\n"
        );
        let file = machine.file(&lab);
        machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(1)
    };
    let name = "program 1 (sleep 9): start: ";
    refused("user: who-is-this", "fake")
        .says(name)
        .says("no user \"who-is-this\" in the node's /etc/passwd");
    refused("group: what-is-this", "fake")
        .says("no group \"what-is-this\" in the node's /etc/group");
    refused("workdir: /no/such", "fake").says(name).says("No such file or directory");
    refused("user: \"33\"", "one").says(name).says("Operation not permitted");
    machine.untouched();
}

/// Tells a node by UDP which signal came, and ends.
const TELL: &str = r"
import signal, socket, sys
def end(number, frame):
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(signal.Signals(number).name.encode(), (sys.argv[1], 9))
    sys.exit(0)
for number in (signal.SIGTERM, signal.SIGQUIT): signal.signal(number, end)
open('/run/waits', 'w').close()
signal.pause()
";

/// Prints what it is told.
const HEAR: &str = r"
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 9))
open('/run/hears', 'w').close()
while True: print(s.recv(100).decode(), flush=True)
";

#[test]
fn a_program_is_asked_to_end_by_its_own_signal() {
    needs!("python3");
    let machine = machine!();
    machine.scratch().file("tell.py", TELL);
    machine.scratch().file("hear.py", HEAR);
    machine.up(
        "name: stop\nnodes:\n  a: &teller\n    files: {/srv/tell.py: {from: tell.py}}\n    \
         run: [{command: [python3, /srv/tell.py, b], stop-signal: QUIT}]\n    ready: {file: /run/waits}\n  \
         c: {<<: *teller, run: [[python3, /srv/tell.py, b]]}\n  b:\n    files: {/srv/hear.py: {from: hear.py}}\n    \
         run: [[python3, /srv/hear.py]]\n    ready: {file: /run/hears}\nswitches: {s: {}}\nlinks: [[a, s], [b, s], [c, s]]\n",
    );
    // What is told to a neighbour who is asked for first would go with the node.
    ["a", "c"].iter().for_each(|node| machine.answers(node, "b"));
    let inits = machine.inits();
    for (node, expected) in [("a", "SIGQUIT"), ("c", "SIGTERM")] {
        let init = inits.iter().find(|(name, _)| name == node).expect("the node").1;
        signal(init, rustix::process::Signal::TERM);
        wait_until(&format!("{node} to be asked by {expected}"), BOUND, || {
            let log = machine.netloom(["logs", "b"]).finish().text();
            (log.lines().last() == Some(expected)).then_some(())
        });
    }
    machine.down();
}

#[test]
fn the_next_start_of_a_program_is_shown() {
    let machine = machine!();
    machine.up("name: again\nnodes: {a: {run: [{command: ['false'], restart: always}]}}\n");
    wait_until("a pause between starts", BOUND, || {
        let program = machine.node("a")["programs"][0].clone();
        let next = program["restart_in_ms"].as_u64()?;
        assert!(next <= 10_000 && program["pid"].is_null(), "{program}");
        Some(())
    });
    wait_until("the same in words", BOUND, || {
        let text = machine.netloom(["node", "show", "a"]).finish().text();
        text.contains(", starts again in ").then_some(())
    });
    machine.down();
}

/// Programs whose words, and what they say, would end a line, move a cursor, or turn the direction of writing. The second one
/// waits until the init knows of the first one's end.
const ODD: &str = r#"
name: odd
nodes:
  a:
    run: [[sh, -c, "echo $$ >/run/over; printf '\\033[31m\\342\\200\\256'; exit 1\nforged \u202e\e[2J"]]
    exec: [{command: [sh, -c, "until test -s /run/over && ! kill -0 $(cat /run/over) 2>&-; do sleep 0.05; done; printf '\\033[31m\\342\\200\\256'; exit 1\nforged \u202e\e[2J"], fatal: false}]
"#;

#[test]
fn what_programs_are_called_and_say_changes_no_terminal() {
    let machine = machine!();
    let file = machine.file(ODD);
    let up = machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(1);
    let up = up.says("1 program ended with an error").says("command of `exec` failed");
    let shown = [["status"].as_slice(), &["node", "show", "a"], &["up", "lab.yaml"]];
    let shown = shown.map(|words| machine.netloom(words).dir(machine.scratch().path()).finish());
    for shown in [up].into_iter().chain(shown) {
        for text in [shown.text(), shown.errors()] {
            assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
            assert!(!text.lines().any(|line| line.starts_with("forged")), "{text}");
        }
    }
    machine.down();
}
