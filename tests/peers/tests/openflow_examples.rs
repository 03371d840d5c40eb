//! The guide's labs with controllers in a node, as examples/ has them: the controller comes, `ovs-ofctl` shows what it made,
//! and a trace explains it.

use std::time::Duration;

use netloom_kit::{Run, Scratch, needs, wait_until, workspace_root};
use serde_json::Value;

/// Longest wait for a controller: on a busy machine Python takes its time.
const PATIENCE: Duration = Duration::from_secs(180);

/// A lab of examples/ with the switch `s1`.
struct Example<'a>(&'a Scratch);

impl<'a> Example<'a> {
    /// Brings it up, and waits until its controller has made flow entries.
    fn up(scratch: &'a Scratch, name: &str) -> Example<'a> {
        let file = workspace_root().join("examples").join(name);
        scratch.netloom(["up".as_ref(), file.as_os_str()]).finish().code(0);
        let example = Example(scratch);
        wait_until("the controller has made flow entries", PATIENCE, || {
            let of = example.status();
            let connected = of["controllers"][0]["connected"] == Value::Bool(true);
            (connected && of["entries"].as_u64() > Some(0)).then_some(())
        });
        example
    }

    fn status(&self) -> Value {
        let told = self.0.netloom(["status", "--json"]).finish().code(0).json();
        told["switches"][0]["openflow"].clone()
    }

    /// Waits until one node reaches another.
    fn reach(&self, from: &str, to: &str) {
        wait_until(&format!("{from} reaches {to}"), PATIENCE, || {
            self.answers(from, to).then_some(())
        });
    }

    fn answers(&self, from: &str, to: &str) -> bool {
        let words = ["exec", from, "--", "ping", "-4", "-c", "1", "-W", "1", to];
        self.0.netloom(words).finish().status.code() == Some(0)
    }

    /// What `ovs-ofctl` and `netloom flow dump` say about its entries.
    fn dumped(&self) -> [String; 2] {
        let socket = format!("unix:{}", self.status()["socket"].as_str().expect("a path"));
        let ovs = Run::new("ovs-ofctl").args(["-O", "OpenFlow13", "dump-flows", &socket]);
        let own = self.0.netloom(["flow", "dump", "s1", "--plain"]);
        [ovs, own].map(|run| run.finish().code(0).text())
    }

    fn mac(&self, node: &str) -> String {
        let words = ["exec", node, "--", "cat", "/sys/class/net/eth0/address"];
        self.0.netloom(words).finish().code(0).text().trim().to_owned()
    }

    fn trace(&self, frame: &str) -> String {
        self.0.netloom(["flow", "trace", "s1", frame]).finish().code(0).text()
    }

    fn down(self) {
        self.0.netloom(["down"]).finish().code(0);
    }
}

#[test]
fn os_ken_s_learning_switch_in_a_node() {
    needs!("os-ken", "ovs-ofctl");
    let scratch = Scratch::new();
    let _guard = scratch.guard();
    let lab = Example::up(&scratch, "openflow.yaml");
    lab.reach("h1", "h2");
    let (h1, h2) = (lab.mac("h1"), lab.mac("h2"));
    // What it has learnt, as both programs say it.
    wait_until("entries for what was learnt", PATIENCE, || {
        let both = lab.dumped();
        let learnt = |text: &str, from: &str, to: &str| {
            let parts = [format!("{from}={h1}"), format!("{to}={h2}"), "in_port=1,".to_owned()];
            let mut lines = text.lines().filter(|line| line.ends_with("actions=output:2"));
            lines.any(|line| parts.iter().all(|part| line.contains(part)))
        };
        let all = learnt(&both[0], "dl_src", "dl_dst") && learnt(&both[1], "eth_src", "eth_dst");
        all.then_some(())
    });
    let [_, own] = lab.dumped();
    assert!(own.contains("actions=CONTROLLER"), "{own}");
    let trace = lab.trace(&format!("in_port=h1,dl_src={h1},dl_dst={h2},icmp"));
    assert!(trace.contains("leaves by") && trace.contains("2 h2:eth0"), "{trace}");
    // Nobody knows this station: the controller is asked.
    let trace = lab.trace(&format!("in_port=h1,dl_src={h1},dl_dst=02:00:00:00:00:99,icmp"));
    assert!(trace.contains("priority=0,actions=CONTROLLER"), "{trace}");
    lab.down();
}

#[test]
fn faucet_in_a_node() {
    needs!("faucet", "ovs-ofctl");
    let scratch = Scratch::new();
    let _guard = scratch.guard();
    let lab = Example::up(&scratch, "openflow-faucet.yaml");
    for (from, to) in [("h1", "h2"), ("h2", "h3"), ("h3", "h1")] {
        lab.reach(from, to);
    }
    assert!(!lab.answers("h1", "c0"), "c0 is in another VLAN");
    let [ovs, own] = lab.dumped();
    assert!(ovs.contains("table=1") && own.contains("push_vlan:0x8100"), "{ovs}{own}");
    let trace = lab.trace("in_port=h1,arp,dl_dst=ff:ff:ff:ff:ff:ff");
    assert!(trace.contains("3 h3:eth0") && !trace.contains("4 c0:eth0"), "{trace}");
    lab.down();
}
