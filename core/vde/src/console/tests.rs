//! Lines and answers, as `vde_switch` of Debian 12 has them.

use super::*;
use proptest::prelude::*;

fn command(line: &str) -> Command {
    match read(line.as_bytes()) {
        Line::Command(command) => command,
        other => panic!("{line}: {other:?}"),
    }
}

fn wrong(line: &str) -> String {
    match read(line.as_bytes()) {
        Line::Wrong(answer) => answer.to_string(),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn lines_are_commands() {
    assert_eq!(command("showinfo"), Command::Show);
    assert_eq!(command(" help port \r"), Command::Help("port".into()));
    assert_eq!(command("port/setvlan 3 7"), Command::SetVlan { port: 3, vlan: 7 });
    assert_eq!(command("port/setvlan 3 4095"), Command::SetVlan { port: 3, vlan: NO_VLAN });
    assert_eq!(command("port/print"), Command::Ports { only: None, all: false });
    assert_eq!(command("port/allprint 255"), Command::Ports { only: Some(255), all: true });
    assert_eq!(command("vlan/create 4093"), Command::Create(4093));
    assert_eq!(command("vlan/addport 9 1"), Command::AddPort { vlan: 9, port: 1 });
    assert_eq!(command("port/epclose 1 0003"), Command::Close { port: 1, endpoint: 3 });
    let find = |vlan| Command::Find { mac: [2, 0, 0, 0, 0, 0xa], vlan };
    assert_eq!(command("hash/find 02:00:00:00:00:0a"), find(None));
    assert_eq!(command("hash/find 2:0:0:0:0:a 5"), find(Some(5)));
    // As in vde_switch: the line begins with the path.
    assert_eq!(command("showinfox"), Command::Show);
    for nothing in ["", "  ", "# a comment"] {
        assert_eq!(read(nothing.as_bytes()), Line::Nothing);
    }
}

#[test]
fn what_is_wrong_has_the_numbers_of_vde_switch() {
    for unknown in ["foo", "port", "show", "plugin/list", "fstp/print", "shutdown", "port/create 3"]
    {
        assert_eq!(wrong(unknown), "1038 Function not implemented\n", "{unknown}");
    }
    let invalid = [
        "vlan/create",
        "vlan/create abc",
        "vlan/create 0",
        "vlan/create 4094",
        "port/setvlan",
        "port/setvlan 99999 5",
        "port/setvlan 0 5",
        "port/setvlan +1 5",
        "vlan/addport 5",
        "vlan/remove -1",
        "vlan/remove 4095",
    ];
    for line in invalid {
        assert_eq!(wrong(line), "1022 Invalid argument\n", "{line}");
    }
    let shows = [
        "hash/find 1",
        "hash/find",
        "hash/find 1:2:3:4:5:6:7",
        "port/print 256",
        "vlan/print 4095",
    ];
    for line in shows {
        assert_eq!(wrong(line), "0000 DATA END WITH '.'\n.\n1022 Invalid argument\n", "{line}");
    }
}

#[test]
fn answers_are_those_of_vde_switch() {
    assert_eq!(Answer::DONE.to_string(), "1000 Success\n");
    assert_eq!(Answer::failed(Code::EXISTS).to_string(), "1017 File exists\n");
    assert_eq!(Answer::failed(Code::IN_USE).to_string(), "1098 Address already in use\n");
    let shown = Answer::shown("a\n.\nb".into()).to_string();
    assert_eq!(shown, "0000 DATA END WITH '.'\na\n .\nb\n.\n1000 Success\n");
}

/// As vde_switch 2.3.2 of Debian 12 printed it.
#[test]
fn ports_vlans_and_addresses_are_shown_as_in_vde_switch() {
    let one = PortLines {
        number: 1,
        active: true,
        allocatable: true,
        user: Some("root".into()),
        sent: (1, 64),
        endpoint: Some(Endpoint {
            id: 3,
            module: "unix prog",
            description: "vdeplug: user=root pid=12816".into(),
        }),
        ..PortLines::default()
    };
    let want = "Port 0001 untagged_vlan=0000 ACTIVE - Unnamed Allocatable\n \
                Current User: root Access Control: (User: NONE - Group: NONE)\n \
                IN:  pkts          1          bytes                   64\n \
                OUT: pkts          0          bytes                    0\n  \
                -- endpoint ID 0003 module unix prog   : vdeplug: user=root pid=12816\n";
    assert_eq!(port(&one), want);
    let nobodys = PortLines { number: 9, untagged: NO_VLAN, ..PortLines::default() };
    assert!(
        port(&nobodys).starts_with("Port 0009 untagged_vlan=4095 INACTIVE - NOT Unnamed Alloc")
    );
    let there = [
        Member { port: 1, tagged: false, active: true },
        Member { port: 9, tagged: true, active: false },
    ];
    let want = "VLAN 0005\n -- Port 0001 tagged=0 active=1 status=Forwarding\n \
                -- Port 0009 tagged=1 active=0 status=Learning\n";
    assert_eq!(members(5, there), want);
    let known = Known { mac: [2, 0, 0, 0, 0, 1], vlan: 0, port: 1, age: 1 };
    let want = "Hash: 0043 Addr: 02:00:00:00:00:01 VLAN 0000 to port: 001  age 1 secs\n";
    assert_eq!(known.line(43), want);
}

#[test]
fn help_is_a_table() {
    let all = help("");
    assert!(all.starts_with("COMMAND PATH       SYNTAX          HELP\n"), "{all}");
    let line = "port/setvlan       N VLAN          set port VLAN (untagged)";
    assert!(all.lines().any(|found| found == line), "{all}");
    let some = help("vlan");
    assert!(some.contains("VLAN MANAGEMENT MENU") && !some.contains("port/print"), "{some}");
    // Every command that is offered is one.
    for line in all.lines().skip(2).filter(|line| !line.contains("====")) {
        let path = line.split_whitespace().next().unwrap();
        let unknown = Line::Wrong(Answer::failed(Code::UNKNOWN));
        assert_ne!(read(path.as_bytes()), unknown, "{path}");
    }
}

proptest! {
    #[test]
    fn whatever_is_typed_is_read(line in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&line);
        let _ = read(&[b"port/setvlan ", &line[..]].concat());
        let _ = read(&[b"hash/find ", &line[..]].concat());
    }
}
