//! Commands and conditions in the forms that people write first.

use crate::lab::Node;

fn node(body: &str) -> Node {
    let text = format!("nodes: {{a: {{{body}}}}}");
    let lab = crate::parse("f", text.as_bytes(), "f").unwrap_or_else(|e| panic!("{body}: {e}"));
    lab.nodes[0].clone()
}

/// The text that a user sees.
fn errors(body: &str) -> String {
    let text = format!("nodes: {{a: {{{body}}}}}");
    crate::parse("f", text.as_bytes(), "f").map_or_else(|e| e.to_string(), |_| String::new())
}

fn runs(body: &str) -> String {
    let commands = node(body).run.iter().map(|run| run.command.join(" ")).collect::<Vec<_>>();
    commands.join("|")
}

#[test]
fn commands_are_taken_in_each_form_with_one_meaning() {
    for (body, commands) in [
        ("run: python3 -m http.server 80", "python3 -m http.server 80"),
        ("run: [python3, -m, http.server, 80]", "python3 -m http.server 80"),
        ("run: [python3 -m http.server 80, sleep inf]", "python3 -m http.server 80|sleep inf"),
        ("run: [sshd]", "sshd"),
        ("run: [[sshd], sleep inf]", "sshd|sleep inf"),
        ("run: {command: sleep inf, restart: always}", "sleep inf"),
        ("run: [{command: sleep inf}, iperf3 -s]", "sleep inf|iperf3 -s"),
        ("run: []", ""),
    ] {
        assert_eq!(runs(body), commands, "{body}");
    }
    let all =
        node("setup: ip link set lo up, exec: [ip route, ip addr], ready: {exec: test -e /x}");
    assert_eq!(all.setup, [["ip", "link", "set", "lo", "up"]]);
    assert_eq!(all.exec[1].program.command, ["ip", "addr"]);
    assert_eq!(all.ready.exec.as_deref().unwrap(), ["test", "-e", "/x"]);
}

#[test]
fn a_list_of_texts_that_may_be_one_command_or_several_is_refused() {
    let ask = "nodes.a.run: one command, or one in each item?";
    for (body, help) in [
        ("run: [sshd, nginx]", "write [[sshd, nginx]] for one command, [[sshd], [nginx]] for 2"),
        ("run: [echo, a b]", "write [[echo, 'a b']] for one command, [[echo], ['a b']] for 2"),
        ("run: [a b, -c]", "write [['a b', -c]] for one command"),
    ] {
        let all = errors(body);
        assert!(all.contains(ask) && all.contains(help), "{body}: {all}");
    }
}

#[test]
fn a_line_that_needs_a_shell_is_offered_with_one() {
    for (body, message) in [
        (
            "run: date > /x",
            "nodes.a.run: `>` means something only to a shell, and no shell runs the command",
        ),
        ("run: date > /x", "write [sh, -c, 'date > /x']"),
        ("setup: [cd /tmp]", "nodes.a.setup[0]: `cd` is a word of shells, not a program"),
        ("run: 5", "nodes.a.run: expected a command, found 5"),
    ] {
        let all = errors(body);
        assert!(all.contains(message), "{body}: {all}");
    }
}

#[test]
fn ports_and_files_are_conditions() {
    let conditions = |body: &str| {
        let node = node(body);
        let health = node.health.as_ref().map(|health| &health.check);
        let check = health.unwrap_or(&node.ready);
        (check.tcp.clone(), check.files.clone())
    };
    assert_eq!(conditions("ready: 80"), (vec![80], vec![]));
    assert_eq!(conditions("ready: [80, /run/x]"), (vec![80], vec!["/run/x".to_owned()]));
    assert_eq!(conditions("health: 443"), (vec![443], vec![]));
    for (body, message) in [
        (
            "ready: soon",
            "nodes.a.ready: expected a port, a path of a file, or a map like {tcp: 80}",
        ),
        ("ready: 70000", "nodes.a.ready: "),
        ("ready: []", "nodes.a.ready: the list is empty"),
        ("ready: /a/../b", "nodes.a.ready: the path"),
    ] {
        let all = errors(body);
        assert!(all.contains(message), "{body}: {all}");
    }
}

#[test]
fn what_is_offered_instead_of_a_line_runs_it_by_a_shell() {
    for line in ["grep 'a b' /x | wc -l", r#"echo "$HOME" \n"#, "cd /tmp", "A=1 env", "ls *"] {
        let text = format!("nodes: {{a: {{run: '{}'}}}}", line.replace('\'', "''"));
        let error = crate::parse("f", text.as_bytes(), "f").unwrap_err();
        let help = error.list[0].help.as_deref().and_then(|help| help.strip_prefix("write "));
        assert_eq!(runs(&format!("run: {}", help.unwrap())), format!("sh -c {line}"));
    }
}
