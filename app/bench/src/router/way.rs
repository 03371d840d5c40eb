//! Routers that are compared: what each is, and the lab it stands in.
//!
//! Two ends, `a` and `b`, are joined by a router, `r`. In the direct labs `r` is between them. In the others a switch is, which
//! routes by its flow entries and leads to `r` what is for the router itself: two ports of the switch are cards of `r`.

/// A router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Linux in a network namespace that `ip` made.
    Kernel,
    /// A node.
    Node,
    /// A router whose packets pass beside its node.
    Separate,
    /// An OpenFlow switch whose controller runs in a node.
    OpenFlow,
    /// Open vSwitch in user space, by flow entries.
    Vswitch,
    /// A machine: User-mode Linux.
    Uml,
    /// A machine: QEMU with virtio's cards.
    Virtio,
    /// A machine: QEMU with emulated cards of Intel.
    E1000,
    /// The first machine with separate planes: an OpenFlow switch whose controller runs in the guest.
    UmlApart,
    /// The second one likewise.
    VirtioApart,
}

/// The part between the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Namespaces without netloom.
    Bare,
    /// The router.
    Direct,
    /// netloom's OpenFlow switch.
    Switched,
    /// Open vSwitch.
    Vswitch,
}

/// How the guest of a machine is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    /// User-mode Linux with the node's files.
    Uml,
    /// QEMU with these cards.
    Qemu { e1000: bool },
}

/// Addresses of the ends, and of the router at theirs.
pub(super) const A: &str = "198.18.1.2";
pub(super) const B: &str = "198.18.2.2";
pub(super) const AT_A: &str = "198.18.1.1";
pub(super) const AT_B: &str = "198.18.2.1";
/// Addresses of a node beside a guest that controls a switch, and of the guest there.
const AT_C: &str = "198.18.3.2";
pub(super) const CONTROL: &str = "198.18.3.1";

impl Way {
    pub(super) const ALL: [Way; 10] = [
        Way::Kernel,
        Way::Node,
        Way::Separate,
        Way::OpenFlow,
        Way::Vswitch,
        Way::Uml,
        Way::UmlApart,
        Way::Virtio,
        Way::VirtioApart,
        Way::E1000,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Way::Kernel => "kernel",
            Way::Node => "router node",
            Way::Separate => "router node, planes apart",
            Way::OpenFlow => "OpenFlow switch",
            Way::Vswitch => "Open vSwitch",
            Way::Uml => "machine, User-mode Linux",
            Way::UmlApart => "the same, planes apart",
            Way::Virtio => "machine, QEMU, virtio",
            Way::VirtioApart => "QEMU, virtio, planes apart",
            Way::E1000 => "machine, QEMU, e1000",
        }
    }

    pub(super) fn settings(self) -> &'static str {
        match self {
            Way::Kernel => "three namespaces by ip, veth, all offloads",
            Way::Node => "forwarding: true, veth, all offloads",
            Way::Separate => "kind: router, plane: separate, daemon: none, veth, all offloads",
            Way::OpenFlow => {
                "kind: openflow, veth, all offloads; static entries by netloom-bench peer flow-control in the router's node"
            }
            Way::Vswitch => {
                "netdev datapath, veth, the ends' offloads off; the same entries as the OpenFlow switch, by OpenFlow"
            }
            Way::Uml => "kind: vm, accel: uml, no virtualization",
            Way::Virtio => "kind: vm, nic: virtio",
            Way::E1000 => "kind: vm, nic: e1000",
            Way::UmlApart => {
                "kind: openflow, veth, all offloads; static entries by netloom-bench peer flow-control in the guest, kind: vm, \
                 accel: uml"
            }
            Way::VirtioApart => {
                "kind: openflow, veth, all offloads; static entries by netloom-bench peer flow-control in the guest, kind: vm, \
                 nic: virtio"
            }
        }
    }

    pub(super) fn shape(self) -> Shape {
        match self {
            Way::Kernel => Shape::Bare,
            Way::Node | Way::Separate | Way::Uml | Way::Virtio | Way::E1000 => Shape::Direct,
            Way::OpenFlow | Way::UmlApart | Way::VirtioApart => Shape::Switched,
            Way::Vswitch => Shape::Vswitch,
        }
    }

    pub(super) fn machine(self) -> Option<Machine> {
        match self {
            Way::Kernel | Way::Node | Way::Separate | Way::OpenFlow | Way::Vswitch => None,
            Way::Uml | Way::UmlApart => Some(Machine::Uml),
            Way::Virtio | Way::VirtioApart => Some(Machine::Qemu { e1000: false }),
            Way::E1000 => Some(Machine::Qemu { e1000: true }),
        }
    }

    pub(super) fn lab(self) -> &'static str {
        match self {
            Way::Kernel => "bench-router-kernel",
            Way::Node => "bench-router-node",
            Way::Separate => "bench-router-separate",
            Way::OpenFlow => "bench-router-openflow",
            Way::Vswitch => "bench-router-ovs",
            Way::Uml => "bench-router-uml",
            Way::UmlApart => "bench-router-uml-apart",
            Way::Virtio => "bench-router-virtio",
            Way::VirtioApart => "bench-router-virtio-apart",
            Way::E1000 => "bench-router-e1000",
        }
    }

    /// Programs of others that it needs.
    pub(super) fn programs(self) -> &'static [&'static str] {
        match self {
            Way::Kernel => &["ip", "nsenter", "unshare"],
            Way::Node | Way::Separate | Way::OpenFlow => &[],
            Way::Vswitch => &["ovs-vswitchd", "ovsdb-server", "ovs-vsctl"],
            Way::Uml | Way::UmlApart => &[crate::vm::guest::UML],
            Way::Virtio | Way::VirtioApart | Way::E1000 => &[crate::vm::guest::QEMU, "busybox"],
        }
    }

    /// Whether the router forwards so few frames that a flood leaves it no time for any.
    pub(super) fn is_slow(self) -> bool {
        self.machine().is_some() && self.shape() == Shape::Direct
    }

    /// The lab file; `router` are the keys of the router's node. A switch would be one segment with one prefix, so ends that
    /// are joined to one get their addresses later.
    pub(super) fn lab_file(self, router: &str) -> String {
        let lab = self.lab();
        let link = |ends: &str, name: &str, addresses: &str| {
            format!("  - {{ends: [{ends}], name: {name}, addresses: {addresses}}}\n")
        };
        let routed = |end: &str, own: &str, at: &str| {
            link(&format!("{end}, r"), end, &format!("{{{end}: {own}/24, r: {at}/24}}"))
        };
        let through = |switch: &str| -> String {
            let all = [("a", "a"), ("b", "b"), ("r", "ra"), ("r", "rb")];
            all.map(|(end, name)| link(&format!("{end}, {switch}"), name, "none")).concat()
        };
        let (router, other, links) = match self.shape() {
            Shape::Bare => return String::new(),
            Shape::Direct => {
                let links = routed("a", A, AT_A) + &routed("b", B, AT_B);
                // Guests with programs of their own are told to forward by these; routers need not be told.
                let own =
                    self != Way::Separate && !matches!(self.machine(), Some(Machine::Qemu { .. }));
                let forwarding = if own { "forwarding: true, " } else { "" };
                (format!("{forwarding}{router}"), String::new(), links)
            }
            Shape::Switched => {
                let guest = self.machine().is_some();
                let (controller, node) = if guest { ("c", "  c: {}\n") } else { ("r", "") };
                let options =
                    format!("kind: openflow, fail: secure, controllers: [\"node:{controller}\"]");
                let to_guest = format!("{{c: {AT_C}/24, r: {CONTROL}/24}}");
                let control = if guest { link("c, r", "c", &to_guest) } else { String::new() };
                let other = format!("{node}switches: {{s: {{{options}}}}}\n");
                (router.to_owned(), other, through("s") + &control)
            }
            Shape::Vswitch => (router.to_owned(), "  ovs: {}\n".to_owned(), through("ovs")),
        };
        let gateway = |at: &str| match self.shape() {
            Shape::Direct => format!("{{routes: [{{to: default, via: {at}}}]}}"),
            _ => "{}".to_owned(),
        };
        let (a, b) = (gateway(AT_A), gateway(AT_B));
        format!(
            "name: {lab}\nnodes:\n  a: {a}\n  b: {b}\n  r: {{{router}}}\n{other}links:\n{links}"
        )
    }
}

/// The flow entries of a router with `a` at port 1, `b` at port 2, and the router's own cards at 3 and 4: what is for the
/// router goes there, what is for the ends' networks is routed. `macs` are those of `a`, `b` and the router's cards.
pub(super) fn entries(macs: [&str; 4]) -> Vec<String> {
    let [a, b, at_a, at_b] = macs;
    let mut all = vec![];
    for (end, own, at, network, to, from) in
        [(1, 3, AT_A, "198.18.1.0/24", a, at_a), (2, 4, AT_B, "198.18.2.0/24", b, at_b)]
    {
        all.push(format!("priority=30,in_port={own},actions=output:{end}"));
        all.push(format!("priority=20,in_port={end},arp,actions=output:{own}"));
        all.push(format!(
            "priority=20,ip,nw_dst={at},actions=set_field:{from}->eth_dst,output:{own}"
        ));
        all.push(format!(
            "priority=10,ip,nw_dst={network},actions=dec_ttl,set_field:{from}->eth_src,set_field:{to}->eth_dst,\
             output:{end}"
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labs_have_their_router_where_it_belongs() {
        let direct = Way::Uml.lab_file("kind: vm, accel: uml");
        assert!(direct.contains("r: {forwarding: true, kind: vm, accel: uml}"), "{direct}");
        assert!(direct.contains("  a: {routes: [{to: default, via: 198.18.1.1}]}\n"), "{direct}");
        assert!(!Way::Virtio.lab_file("kind: vm").contains("forwarding"));
        assert!(
            direct
                .contains("ends: [a, r], name: a, addresses: {a: 198.18.1.2/24, r: 198.18.1.1/24}")
        );
        let own = Way::OpenFlow.lab_file("");
        assert!(own.contains("controllers: [\"node:r\"]") && !own.contains("c: {}"), "{own}");
        let apart = Way::UmlApart.lab_file("kind: vm, accel: uml");
        assert!(
            apart.contains("controllers: [\"node:c\"]") && apart.contains("ends: [c, r]"),
            "{apart}"
        );
        assert!(Way::Vswitch.lab_file("").contains("ends: [r, ovs], name: rb, addresses: none"));
        assert_eq!(Way::Kernel.lab_file(""), "");
    }

    #[test]
    fn entries_route_both_ways_and_are_those_of_the_switch() {
        let all = entries([
            "02:00:00:00:00:0a",
            "02:00:00:00:00:0b",
            "02:00:00:00:00:01",
            "02:00:00:00:00:02",
        ]);
        assert_eq!(all.len(), 8);
        let there = &all[7];
        assert!(there.contains("nw_dst=198.18.2.0/24") && there.ends_with("output:2"), "{there}");
        assert!(there.contains("set_field:02:00:00:00:00:0b->eth_dst"), "{there}");
        let read = |entry: &String| {
            let add = netloom_openflow::flow::FlowCommand::Add;
            netloom_openflow::text::flow(add, entry, netloom_openflow::Version::V13)
        };
        for entry in &all {
            read(entry).unwrap();
        }
    }

    #[test]
    fn names_differ() {
        let mut names: Vec<[&str; 2]> =
            Way::ALL.iter().map(|way| [way.title(), way.lab()]).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Way::ALL.len());
    }
}
