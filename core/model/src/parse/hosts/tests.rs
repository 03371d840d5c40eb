//! Hosts files that are read, and those that are refused with what is wrong.

use super::*;

fn read_hosts(text: &str) -> Result<Hosts, String> {
    hosts("hosts.yaml", text.as_bytes()).map_err(|errors| errors.to_string())
}

#[test]
fn a_file_says_all_of_its_hosts() {
    let found = read_hosts(
        "x-usual: &usual {memory: 16GiB, cpu: 8}
hosts:
  east: {ssh: lab@east.example.org:2222, underlay: {address: 192.0.2.1, mtu: 9000}, capacity: *usual}
  rack{i}:
    for: {i: 1..2}
    underlay: 192.0.2.1{i}
    capacity: {cpu: 150%}
",
    );
    let host = |name: &str, underlay: &str| Host {
        name: name.into(),
        ssh: Ssh { host: name.into(), ..Ssh::default() },
        agent: Agent::Ssh,
        underlay: underlay.parse().unwrap(),
        mtu: 1500,
        memory: None,
        cpu_milli: Some(1500),
    };
    let ssh = Ssh { user: Some("lab".into()), host: "east.example.org".into(), port: Some(2222) };
    let east = Host {
        ssh,
        mtu: 9000,
        memory: Some(16 << 30),
        cpu_milli: Some(8000),
        ..host("east", "192.0.2.1")
    };
    let list = vec![east, host("rack1", "192.0.2.11"), host("rack2", "192.0.2.12")];
    assert_eq!(found, Ok(Hosts { list }));
}

#[test]
fn where_ssh_reaches_a_host_is_read_and_written() {
    for text in ["a", "a:22", "me@a", "me@192.0.2.1:22", "fd00::1", "me@[fd00::1]:22"] {
        assert_eq!(read_ssh(text).map(|ssh| ssh.to_string()).as_deref(), Ok(text));
    }
    assert_eq!(read_ssh("[fd00::1]").unwrap().to_string(), "fd00::1");
    for (text, words) in [
        ("", "the name of a host is empty"),
        ("-oProxyCommand", "must start with a letter or a digit"),
        ("-l@a", "must start with a letter or a digit"),
        ("@a", "the name of a user is empty"),
        ("a:", "\"\" is not a port"),
        ("a:0", "\"0\" is not a port"),
        ("a:+1", "\"+1\" is not a port"),
        ("a b", "holds \" \""),
        ("[a]:22", "\"a\" is not an IPv6 address"),
        ("[fd00::1]22", "found \"22\" instead of :PORT"),
    ] {
        let error = read_ssh(text).unwrap_err();
        assert!(error.contains(words), "{text:?}: {error}");
    }
}

#[test]
fn an_agent_is_started_by_a_word_or_a_list_and_never_by_a_line() {
    let agent = |text: &str| {
        let text = format!("hosts: {{a: {{underlay: 192.0.2.1, agent: {text}}}}}\n");
        read_hosts(&text).map(|hosts| hosts.list[0].agent.clone())
    };
    let command = |words: &[&str]| Agent::Command(words.iter().map(|w| (*w).into()).collect());
    assert_eq!(agent("ssh"), Ok(Agent::Ssh));
    assert_eq!(agent("local"), Ok(Agent::Local));
    assert_eq!(agent("[sh, -c, 'a; b']"), Ok(command(&["sh", "-c", "a; b"])));
    for (wrong, words) in [
        ("netloom agent --stdio", "hosts.a.agent"),
        ("[]", "no program"),
        ("['', a]", "no program"),
        ("{a: b}", "hosts.a.agent"),
    ] {
        let told = agent(wrong).unwrap_err();
        assert!(told.contains(words), "{wrong}: {told}");
    }
    let two = "hosts:\n  a: {underlay: 192.0.2.1, agent: local}\n  b: {underlay: 192.0.2.2, agent: local}\n";
    assert!(read_hosts(two).unwrap_err().contains("hosts \"a\" and \"b\" have the same agent"));
}

#[test]
fn wrong_files_are_refused_by_the_name_of_the_host() {
    for (text, words) in [
        ("", "1:1: error: the file is empty\n  help: a hosts file starts like this"),
        ("nodes: {a: {}}", "this is a lab file, no hosts file"),
        ("x-a: 1", "\"hosts\" is missing"),
        ("hosts: {}", "hosts: expected a map from names to hosts"),
        ("hosts: [a]", "hosts: expected a map from names to hosts, found a list"),
        ("hosts: {a: }", "hosts.a: \"underlay\" is missing"),
        ("hosts: {a: {underlay: x}}", "hosts.a.underlay: expected an address like"),
        ("hosts: {a: {underlay: 127.0.0.1}}", "hosts.a.underlay: 127.0.0.1 is for loopback"),
        ("hosts: {a: {underlay: \"ff02::1\"}}", "ff02::1 is for multicast"),
        ("hosts: {a: {underlay: 0.0.0.0}}", "0.0.0.0 is not for hosts"),
        ("hosts: {a: {underlay: {mtu: 1500}}}", "hosts.a.underlay: \"address\" is missing"),
        (
            "hosts: {a: {underlay: {address: 192.0.2.1, mtu: 100}}}",
            "hosts.a.underlay.mtu: expected a whole number from 1280 to 65535, found 100",
        ),
        ("hosts: {a b: {underlay: 192.0.2.1}}", "host name \"a b\" holds \" \""),
        ("hosts: {a: {underlay: 192.0.2.1, memory: 1GiB}}", "hosts.a: unknown key \"memory\""),
        (
            "hosts: {a: {underlay: 192.0.2.1, capacity: {memory: 16}}}",
            "hosts.a.capacity.memory: at least 1MiB is needed, found 16",
        ),
        (
            "hosts: {a: {underlay: 192.0.2.1, capacity: {cpu: 0}}}",
            "hosts.a.capacity.cpu: at least 1% of a CPU is needed",
        ),
        ("hosts: {a: {underlay: 192.0.2.1, ssh: -x}}", "hosts.a.ssh: host name \"-x\" must start"),
        // The same host twice: by name, by address, by login.
        ("hosts: {a: {underlay: 192.0.2.1}, a: {underlay: 192.0.2.2}}", "\"a\""),
        (
            "hosts: {a: {underlay: 192.0.2.1}, b: {underlay: 192.0.2.1}}",
            "hosts \"a\" and \"b\" have the same underlay address 192.0.2.1\n  help: name each host once",
        ),
        (
            "hosts: {a: {underlay: 192.0.2.1, ssh: x}, b: {underlay: 192.0.2.2, ssh: x}}",
            "hosts \"a\" and \"b\" have the same ssh address x",
        ),
        (
            "hosts: {a: {for: {i: 0..1}, underlay: \"192.0.2.{i}\"}}",
            "host \"a\" is named twice; first on line 1",
        ),
        (
            "hosts: {a: {underlay: 192.0.2.1}, b: {underlay: \"fd00::1\"}}",
            "host \"b\": its underlay address fd00::1 is IPv6, that of \"a\" is IPv4",
        ),
        ("hosts: {\"a{i}\": {for: {i: 1..5000}, underlay: \"fd00::{i}\"}}", "more than 4096 hosts"),
        (
            "hosts: {\"a{i}\": {for: {i: 0}, underlay: \"fd00::{i}\"}}",
            "hosts: every `for` is empty",
        ),
    ] {
        let error = read_hosts(text).unwrap_err();
        assert!(error.contains(words), "{text}\n{error}");
    }
}
