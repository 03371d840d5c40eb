//! A lab for tests of what is printed: everything is there once, known and unknown.

use netloom_lab::view::LabStatus;
use serde_json::json;

/// A node with everything, a child of which nothing is known, a link with a wire and one without.
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
        "programs": [{"command": ["sleep", "9"], "pid": 9, "exit_code": 1, "restarts": 2}],
        "interfaces": [interface]});
    let bare = json!({"name": "t/a", "alive": false, "forwarding": true, "parent": "t",
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
