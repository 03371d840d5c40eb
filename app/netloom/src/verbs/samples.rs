//! A lab for tests of output: everything appears once, known and unknown.

use netloom_lab::view::{LabStatus, OpenflowStatus};
use netloom_switch::control::requests::Shown;
use serde_json::json;

/// A node with every value, a child without any, a link with a wire and one without.
pub(super) fn status() -> LabStatus {
    let interface = json!({"name": "eth0", "link": "t:eth0--s", "mac": "02:00:00:00:00:01",
        "mtu": 1500, "addresses": ["10.0.0.1/24"], "up": true, "traffic": {"rx_bytes": 1024,
        "rx_packets": 2, "rx_lost": 3, "tx_bytes": 512, "tx_packets": 5, "tx_lost": 6}});
    let sender = json!({"sender": "h2:eth0", "passed_packets": 9, "dropped_packets": 7,
        "dropped_bytes": 2048});
    let full = json!({"name": "t", "alive": true, "pid": 3, "forwarding": false, "parent": null,
        "children": {"count": 1, "limit": 4}, "cpu_ns": 1_500_000_000_u64,
        "cpu_user_ns": 1_000_000_000, "cpu_system_ns": 250_000_000, "cpu_receive_ns": 250_000_000,
        "load": [0.5, 0.25, 0.0], "memory": 1 << 20, "processes": 3, "sockets": 4,
        "sockets_counted": 3, "sockets_refused": 2,
        "limits": {"cpu_milli": 500, "memory": 2 << 20, "weight": 200, "processes": 10,
            "sockets": 9},
        "protect": {"packets": 1000, "bytes": 1024, "passed_packets": 10, "passed_bytes": 1024,
            "dropped_packets": 7, "dropped_bytes": 2048, "senders": [sender]},
        "drops": [{"cause": "protect", "packets": 7}, {"cause": "rx", "packets": 0}],
        "addresses": ["10.0.0.1/24", "10.9.0.1/24"],
        "programs": [{"command": ["sleep", "9"], "pid": 9, "exit_code": 1, "restarts": 2}],
        "interfaces": [interface]});
    let bare = json!({"name": "t/a", "alive": false, "forwarding": true, "privileged": true,
        "parent": "t",
        "limits": {}, "drops": [], "programs": [], "interfaces": []});
    let direction = json!({"from": "t:eth0", "impairments": {"loss": "1%", "delay": "10ms"},
        "offered_packets": 10, "offered_bytes": 1024, "sent_packets": 6, "sent_bytes": 600,
        "duplicated": 4, "corrupted": 5, "reordered": 6, "held_packets": 1, "held_bytes": 100,
        "lost": {"loss": 1, "queue": 2, "rate": 0}, "late_us": [1.5, 20.0]});
    let wire = json!({"state": "running", "restarts": 1, "directions": [direction, null]});
    serde_json::from_value(json!({
        "name": "fake", "state": "degraded", "digest": "0123456789abcdef", "pid": 5, "since": 6,
        "read_ns": 7, "user": false, "nodes": [full, bare], "switches": [],
        "links": [{"name": "t:eth0--s", "ends": ["t:eth0", "s"], "up": true, "wire": wire},
            {"name": "a:x--b:y", "ends": ["a:x", "b:y"], "up": false, "wire": null}],
    }))
    .unwrap()
}

/// An OpenFlow switch whose controller is not there.
pub(crate) fn openflow() -> OpenflowStatus {
    serde_json::from_value(json!({
        "socket": "/run/netloom/t/o/s/openflow", "running": true, "datapath": "0000000000000001",
        "plane": "packet-sockets", "slower": "no BPF", "entries": 2, "standalone": true,
        "controllers": [{"controller": "node:c0:6653", "connected": false, "reason": "refused"}],
        "trouble": null,
    }))
    .unwrap()
}

/// A switch with a port that has every value, one with few values, and a reserved one.
pub(super) fn shown() -> Shown {
    let counters = json!({"sent-frames": 10, "sent-bytes": 1024, "sent-super": 1,
        "received-frames": 5, "received-bytes": 512, "received-super": 0, "dropped-stalled": 2,
        "dropped-spoofed": 1, "dropped-full": 0, "missed": 1, "waits": 8, "wakes": 0});
    let rules = json!({"name": "h1:eth0", "uid": 5, "gid": 6, "learn": false,
        "vlan": {"trunk": {"native": 7, "allowed": "1-3,9"}},
        "macs": ["02:00:00:00:00:01", "02:00:00:00:00:02"]});
    let bare = |number: u16, name: &str, presence: &str, rules: serde_json::Value| {
        json!({"number": number, "name": name, "presence": presence, "pid": null, "uid": null,
            "since": null, "edges-out": 0, "edges-in": 0, "memory-kib": 0, "super-frames": false,
            "checksums": false, "counters": {}, "rules": rules})
    };
    let mut full = bare(1, "h1:eth0", "here", rules);
    let more = json!({"pid": 33, "uid": 5, "since": 6, "edges-out": 1, "edges-in": 2,
        "memory-kib": 2048, "super-frames": true, "counters": counters});
    let mut anonymous = bare(2, "", "here", json!({"vlan": {"access": 7}}));
    let less = json!({"uid": 0, "since": 6, "memory-kib": 1024});
    for (port, known) in [(&mut full, more), (&mut anonymous, less)] {
        for (key, value) in known.as_object().unwrap() {
            port[key] = value.clone();
        }
    }
    let mirror = json!({"to": 3, "filter": "vlan 7, tcp", "sources": [
        {"port": 1, "direction": "in"}, {"port": 2, "direction": "both"}]});
    let relay = json!({"received-frames": 6, "received-bytes": 600, "sent-frames": 7,
        "sent-bytes": 700, "dropped-full": 1});
    serde_json::from_value(json!({"pid": 42, "uid": 0, "since": 5, "cpu-us": 1_250_000,
        "memory-kib": 3072, "edges": 3, "vlans": true, "relay": relay, "joins": 4, "refused": 1,
        "expelled": 2, "mirrors": {"2": mirror},
        "ports": [full, anonymous, bare(3, "watch", "free", json!({"name": "watch"}))]}))
    .unwrap()
}
