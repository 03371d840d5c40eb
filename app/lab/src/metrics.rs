//! The lab as Prometheus reads it: what is known of it now, and counters that never fall.
//!
//! It is made of the same [`Picture`] that listeners of events have, so nothing is read twice. What a family of series
//! is called, and what it tells, stands in [`FAMILIES`] alone. Counters in a picture begin again where a node, a wire or
//! a switch is recreated; module `totals` adds them up. Series end with their node, interface or link, so there are never
//! more than the lab has objects. Specification: Prometheus's text format, version 0.0.4.

mod text;
mod totals;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::stream::Picture;
use crate::view::{
    InterfaceStatus, LabFacts, LabState, LinkCounters, LinkStatus, NodeState, NodeStatus,
    ProgramView, SwitchStatus, WireView,
};
use text::{Labels, Sheet};
use totals::{Rule, Totals};

pub use totals::Earlier;

/// The content type of an exposition.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Most characters of a program's name.
const MOST_OF_NAME: usize = 64;

/// A family of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it tells.
    pub help: &'static str,
}

/// What a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value of now.
    Gauge,
    /// It never falls while its object exists.
    Counter,
    /// The same, counted in nanoseconds and told in seconds.
    Seconds,
}

impl Kind {
    /// As the format says it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Gauge => "gauge",
            Kind::Counter | Kind::Seconds => "counter",
        }
    }
}

macro_rules! families {
    ($($metric:ident = $kind:ident $name:literal $help:literal;)*) => {
        /// A family, in the order in which they are told.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Metric { $($metric,)* }

        /// All families, in the order in which they are told.
        pub const FAMILIES: &[Family] = &[$(Family { name: $name, kind: Kind::$kind, help: $help },)*];

        impl Metric {
            const ALL: &[Metric] = &[$(Metric::$metric,)*];
        }
    };
}

families! {
    LabInfo = Gauge "netloom_lab_info" "The lab, always 1; with the version of its lab process.";
    LabState = Gauge "netloom_lab_state" "Whether the lab is in this state: starting, up, degraded or failed.";
    LabStart = Gauge "netloom_lab_start_time_seconds" "Unix time when the lab came up.";
    LabBehind = Gauge "netloom_lab_behind" "How many links one way, nodes, and processes of netloom are behind now; the machine counts as one.";
    NodeUp = Gauge "netloom_node_up" "Whether the node lives, is ready, and no program or interface of it has failed.";
    NodeCpu = Seconds "netloom_node_cpu_seconds_total"
        "CPU time by mode: user, system, and receive for datagrams that the kernel received for it; all where the parts are not known.";
    NodeCpuLimit = Gauge "netloom_node_cpu_limit_cores" "CPU seconds that the node may use a second, where it has a limit.";
    NodeMemory = Gauge "netloom_node_memory_bytes" "Memory now.";
    NodeMemoryLimit = Gauge "netloom_node_memory_limit_bytes" "Memory that the node may use, where it has a limit.";
    NodeProcesses = Gauge "netloom_node_processes" "Processes and threads now, the node's init included.";
    NodeSockets = Gauge "netloom_node_sockets" "Sockets of all kinds in the node's network now.";
    NodeRefused = Counter "netloom_node_refused_sockets_total" "Sockets refused by the node's limit, where it has one.";
    NodeDropped = Counter "netloom_node_dropped_packets_total"
        "Frames lost at the node's interfaces and in its network stack, by cause.";
    NodeHealthy = Gauge "netloom_node_healthy" "Whether the node's repeated check passes, where it has one and was checked.";
    ProgramInfo = Gauge "netloom_program_info" "A program of the node, always 1: its number in the file, and the first word of its command.";
    ProgramUp = Gauge "netloom_program_up" "Whether the program runs, or has ended with status 0.";
    ProgramRestarts = Counter "netloom_program_restarts_total" "How often the program was started again.";
    InterfaceUp = Gauge "netloom_interface_up" "Whether the interface can carry traffic.";
    ReceivedBytes = Counter "netloom_interface_receive_bytes_total" "Bytes received.";
    ReceivedPackets = Counter "netloom_interface_receive_packets_total" "Frames received.";
    ReceiveLost = Counter "netloom_interface_receive_lost_packets_total" "Frames lost at reception.";
    SentBytes = Counter "netloom_interface_transmit_bytes_total" "Bytes sent.";
    SentPackets = Counter "netloom_interface_transmit_packets_total" "Frames sent.";
    SendLost = Counter "netloom_interface_transmit_lost_packets_total" "Frames lost at sending.";
    LinkInfo = Gauge "netloom_link_info" "The link, always 1, with its two ends.";
    LinkUp = Gauge "netloom_link_up" "Whether the link carries traffic.";
    LinkBytes = Counter "netloom_link_sent_bytes_total" "Bytes that an end of the link sent into it.";
    LinkPackets = Counter "netloom_link_sent_packets_total" "Frames that an end of the link sent into it.";
    LinkLost = Counter "netloom_link_lost_packets_total" "Frames that the link lost, by the end that sent and the cause.";
    LinkHeld = Gauge "netloom_link_held_packets" "Frames that the link's wire delays now, by the end that sent.";
    LinkLate = Seconds "netloom_link_late_seconds_total"
        "How late the link's wire sent delayed frames on, all together, by the end that sent.";
    SwitchInfo = Gauge "netloom_switch_info" "The switch, always 1, with its kind.";
    SwitchUp = Gauge "netloom_switch_up" "Whether the process of the OpenFlow switch lives and answers.";
    SwitchEntries = Gauge "netloom_switch_flow_entries" "Flow entries of the OpenFlow switch.";
    ControllerUp = Gauge "netloom_switch_controller_connected" "Whether the OpenFlow switch is connected to this controller.";
    Kept = Gauge "netloom_metrics_kept"
        "Whether a later process of the lab would go on with these counters; not if they cannot be written.";
}

impl Metric {
    fn family(self) -> Family {
        // The enum and the table are made of the same lines.
        FAMILIES[self as usize]
    }
}

/// What is remembered between two expositions.
#[derive(Debug, Default)]
pub struct Metrics {
    totals: Totals,
    /// What was handed over last could not be kept.
    is_lost: bool,
}

impl Metrics {
    /// Those of a lab whose earlier process handed this over.
    pub fn after(earlier: impl Into<Arc<Earlier>>) -> Metrics {
        Metrics { totals: Totals::after(earlier.into()), is_lost: false }
    }

    /// Takes whether what was handed over could be kept; if not, it is new once more. Returns whether that is otherwise than
    /// the last time.
    pub fn note_kept(&mut self, is_kept: bool) -> bool {
        if !is_kept {
            self.totals.not_kept();
        }
        std::mem::replace(&mut self.is_lost, !is_kept) == is_kept
    }

    /// The end of an exposition: whether its counters are kept. Empty if nothing is known of the lab yet.
    pub fn closing(&self, picture: &Picture) -> String {
        let Some(lab) = &picture.lab else { return String::new() };
        let mut sheet = Sheet::default();
        let labels = Labels::default().with("lab", &lab.name);
        sheet.gauge(Metric::Kept, &labels, u64::from(!self.is_lost));
        sheet.text()
    }

    /// The lab as text for Prometheus, empty if nothing is known of it yet; and what a later process of the lab has to know,
    /// where that is new.
    pub fn exposition(&mut self, picture: &Picture) -> (String, Option<Arc<Earlier>>) {
        let Some(lab) = &picture.lab else { return (String::new(), None) };
        let mut page = Page { sheet: Sheet::default(), totals: &mut self.totals };
        let labels = Labels::default().with("lab", &lab.name);
        page.lab(&labels, lab);
        page.sheet.gauge(Metric::LabBehind, &labels, picture.behind.len() as u64);
        picture.nodes.values().for_each(|(node, _)| page.node(&labels, node));
        picture.links.values().for_each(|(link, counters)| page.link(&labels, link, counters));
        picture.switches.values().for_each(|switch| page.switch(&labels, switch));
        let text = page.sheet.text();
        (text, self.totals.end())
    }
}

/// An exposition that is being written.
struct Page<'t> {
    sheet: Sheet,
    totals: &'t mut Totals,
}

impl Page<'_> {
    fn lab(&mut self, labels: &Labels, lab: &LabFacts) {
        let version = labels.with("version", env!("CARGO_PKG_VERSION"));
        self.sheet.gauge(Metric::LabInfo, &version, 1);
        // What has no lab process cannot be asked: so the others are not told.
        for (state, word) in [
            (LabState::Starting, "starting"),
            (LabState::Up, "up"),
            (LabState::Degraded, "degraded"),
            (LabState::Failed, "failed"),
        ] {
            let is = u64::from(lab.state == state);
            self.sheet.gauge(Metric::LabState, &labels.with("state", word), is);
        }
        self.sheet.gauge(Metric::LabStart, labels, lab.since);
    }

    fn node(&mut self, labels: &Labels, node: &NodeStatus) {
        let labels = &labels.with("node", &node.name);
        let sheet = &mut self.sheet;
        sheet.gauge(Metric::NodeUp, labels, u64::from(node.state == NodeState::Up));
        for (metric, value) in [
            (Metric::NodeMemory, node.memory),
            (Metric::NodeMemoryLimit, node.limits.memory),
            (Metric::NodeProcesses, node.processes),
            (Metric::NodeSockets, node.sockets),
        ] {
            value.into_iter().for_each(|value| sheet.gauge(metric, labels, value));
        }
        if let Some(milli) = node.limits.cpu_milli {
            sheet.thousandths(Metric::NodeCpuLimit, labels, milli.into());
        }
        if let Some(health) = node.health.as_ref().filter(|health| health.state != "starting") {
            sheet.gauge(Metric::NodeHealthy, labels, u64::from(health.state == "healthy"));
        }
        let mut own = self.totals.take(labels);
        own.see_cpu(node);
        if let Some(refused) = node.sockets_refused {
            own.see(Metric::NodeRefused, Labels::default(), refused, Rule::Whole);
        }
        for drop in &node.drops {
            let cause = Labels::default().with("cause", &drop.cause.replace('-', "_"));
            own.see(Metric::NodeDropped, cause, drop.packets, Rule::Part);
        }
        self.totals.put(labels, own, sheet);
        for (number, program) in node.programs.iter().enumerate() {
            self.program(&labels.with("program", &(number + 1).to_string()), program);
        }
        let mut names = BTreeSet::new();
        // The guest from elsewhere may have the name of one that is missing.
        let interfaces = node.interfaces.iter().filter(|i| names.insert(&i.name));
        interfaces.for_each(|interface| self.interface(labels, interface));
    }

    fn program(&mut self, labels: &Labels, program: &ProgramView) {
        let command = program.command.first().map_or("", String::as_str);
        let name: String = command.chars().take(MOST_OF_NAME).collect();
        self.sheet.gauge(Metric::ProgramInfo, &labels.with("command", &name), 1);
        let good = program.pid.is_some() || (program.ended && !program.has_failed());
        self.sheet.gauge(Metric::ProgramUp, labels, u64::from(good));
        let mut own = self.totals.take(labels);
        let restarts = program.restarts.into();
        own.see(Metric::ProgramRestarts, Labels::default(), restarts, Rule::Whole);
        self.totals.put(labels, own, &mut self.sheet);
    }

    fn interface(&mut self, labels: &Labels, interface: &InterfaceStatus) {
        let labels = &labels.with("interface", &interface.name).with("link", &interface.link);
        self.sheet.gauge(Metric::InterfaceUp, labels, u64::from(interface.up == Some(true)));
        let mut own = self.totals.take(labels);
        if let Some(traffic) = &interface.traffic {
            for (metric, raw, rule) in [
                (Metric::ReceivedBytes, traffic.rx_bytes, Rule::Whole),
                (Metric::ReceivedPackets, traffic.rx_packets, Rule::Whole),
                (Metric::ReceiveLost, traffic.rx_lost, Rule::Part),
                (Metric::SentBytes, traffic.tx_bytes, Rule::Whole),
                (Metric::SentPackets, traffic.tx_packets, Rule::Whole),
                (Metric::SendLost, traffic.tx_lost, Rule::Whole),
            ] {
                own.see(metric, Labels::default(), raw, rule);
            }
        }
        self.totals.put(labels, own, &mut self.sheet);
    }

    fn link(&mut self, labels: &Labels, link: &LinkStatus, counters: &LinkCounters) {
        let labels = &labels.with("link", &link.name);
        let ends = labels.with("first", &link.ends[0]).with("second", &link.ends[1]);
        self.sheet.gauge(Metric::LinkInfo, &ends, 1);
        self.sheet.gauge(Metric::LinkUp, labels, u64::from(link.up));
        let from = |end: &str| Labels::default().with("from", end);
        let mut own = self.totals.take(labels);
        for (side, end) in link.ends.iter().enumerate() {
            // Where an end is not seen, what the other one received stands for it.
            own.see(Metric::LinkBytes, from(end), counters.bytes[side], Rule::Part);
            own.see(Metric::LinkPackets, from(end), counters.packets[side], Rule::Part);
        }
        for lost in &link.lost {
            let cause = lost.cause.replace('-', "_");
            // What two interfaces count is compared, so that can fall a little.
            let rule = if cause == "interface" { Rule::Part } else { Rule::Whole };
            own.see(Metric::LinkLost, from(&lost.from).with("cause", &cause), lost.packets, rule);
        }
        let directions = link.wire.iter().flat_map(|wire: &WireView| &wire.directions).flatten();
        for direction in directions {
            own.see(Metric::LinkLate, from(&direction.from), direction.late_sum_ns, Rule::Whole);
            let end = labels.with("from", &direction.from);
            self.sheet.gauge(Metric::LinkHeld, &end, direction.held_packets);
        }
        self.totals.put(labels, own, &mut self.sheet);
    }

    fn switch(&mut self, labels: &Labels, switch: &SwitchStatus) {
        let labels = &labels.with("switch", &switch.name);
        let sheet = &mut self.sheet;
        sheet.gauge(Metric::SwitchInfo, &labels.with("kind", &switch.kind), 1);
        let Some(openflow) = &switch.openflow else { return };
        sheet.gauge(Metric::SwitchUp, labels, u64::from(openflow.running));
        if openflow.running {
            sheet.gauge(Metric::SwitchEntries, labels, openflow.entries);
        }
        let mut told = BTreeSet::new();
        let controllers = openflow.controllers.iter().filter(|c| told.insert(&c.controller));
        for controller in controllers {
            let labels = labels.with("controller", &controller.controller);
            sheet.gauge(Metric::ControllerUp, &labels, u64::from(controller.connected));
        }
    }
}

#[cfg(test)]
#[path = "metrics/tests.rs"]
mod tests;
