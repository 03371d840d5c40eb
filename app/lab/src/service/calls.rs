//! All calls to a running lab, each said once: a row is the route, the values, the rights, the answer, and what is done.
//!
//! From these rows follow the service of a running lab and the one inside of a node (`run`), the routes, the document and the
//! client of the API, and the fake lab of its tests. A row has its documentation; method, path and name; [`Rights`]; how
//! long it takes ([`Takes`]); why nodes may not ask it, where they may not; its values, by where they stand; the answer and what
//! it says; further refusals; and, after a semicolon, methods of [`Call`] that differ from the usual. What is done is an
//! expression over the running lab and the call.
//!
//! [`Rights`]: crate::call::Rights
//! [`Takes`]: crate::call::Takes
//! [`Call`]: crate::call::Call

use std::time::Duration;

use netloom_flow::control::requests::{Shown as FlowShown, TraceWhat, Traced};
use netloom_model::Plan;
use netloom_model::drawing::Positions;
use netloom_node::ping::Pace;
use netloom_slice::control::{Shown as Sliced, SliceShown};
use netloom_switch::control::requests::{Answer, Request};
use netloom_why::Report;

use crate::Result;
use crate::service::call::{Told, Within, defined};
use crate::service::values::{
    After, AnyNode, Cursor, EventId, Families, InterfaceName, LinkName, NodeName, Objects,
    SliceName, SwitchName, Whole,
};
use crate::service::{LogMark, Service};
use crate::view::{
    Applied, Apply, AskPackets, AskWhy, Changed, Ended, Fates, FidelityView, FoundPackets,
    InterfaceStatus, LabCounts, LabEvent, LabStatus, LinkSettings, LinkStatus, LogLine,
    MoveInterface, NewLink, NewNode, NewSwitch, NodeSettings, NodeStatus, Noting, PairReachability,
    Reachability, Repaired, SwitchStatus,
};

/// How long a call waits for something: up to a minute in milliseconds, not at all where nothing is said.
pub type Wait = Whole<0, 60_000, 0>;

/// Most lines of an answer: a million, or fewer.
pub type Lines = Whole<1, 1_000_000, 1_000_000>;

/// How long to wait for the answer to an echo request, in milliseconds.
pub type Patience = Whole<1, 60_000, 1000>;

impl ReadLog {
    /// All lines after a place; waits for some.
    pub fn of(node: &str, after: u64, wait: Duration) -> ReadLog {
        ReadLog {
            node: node.into(),
            after: Cursor(after),
            tail: None,
            limit: Whole(Lines::DEFAULT),
            wait_ms: Whole::of(wait),
        }
    }
}

macro_rules! lists {
    ($($name:ident),*) => {$(
        impl $name {
            /// All of it.
            pub fn whole() -> $name {
                $name { after: After(None), limit: Whole(Objects::DEFAULT), of: Within::ALL }
            }

            /// The page after an object; it has at most `limit` objects.
            pub fn page(after: Option<&str>, limit: u64) -> $name {
                $name { after: After::of(after), limit: Whole(limit), of: Within::ALL }
            }
        }
    )*};
}
lists!(Status, ListNodes, ListLinks, ListSwitches);

impl PingPair {
    /// From one node to another, in these families.
    pub fn of(from: &str, to: &str, families: &[u8], pace: Pace) -> PingPair {
        PingPair {
            node: from.into(),
            to: to.into(),
            family: Families(families.to_vec()),
            count: Whole(pace.count.into()),
            interval_ms: Whole::of(pace.interval),
            timeout_ms: Whole::of(pace.timeout),
        }
    }

    /// How the requests are sent.
    pub fn pace(&self) -> Pace {
        let count = u32::try_from(self.count.0).unwrap_or(u32::MAX);
        Pace { count, interval: self.interval_ms.time(), timeout: self.timeout_ms.time() }
    }
}

macro_rules! calls {
    ($with:ident) => { $with! {
        Status = {
            /// Show the lab's current state
            ///
            /// With `limit`, a page of it: at most that many nodes, their links, the switches of these links, and manual
            /// changes to these nodes. To read on, pass the name of the last node as `after`. `state` then knows the programs
            /// of these nodes only; that of `/v1/lab/summary` knows all.
            GET "/v1/lab" as status, Reads, Moments;
            /// Only nodes after this one, the last of the page before; from the first if absent
            query after: After<NodeName>;
            /// The most nodes
            query limit: Objects;
            /// The part.
            place of: Within;
            => One LabStatus: "The lab with its nodes, switches and links"
        } do |lab, call| lab.status(&call);

        Summary = {
            /// Count the lab's nodes by their state, its links and its switches
            ///
            /// No node's network is read, so a large lab answers soon, too.
            GET "/v1/lab/summary" as summary, Reads, Moments;
            /// The part.
            place of: Within;
            => One LabCounts: "The numbers, and which nodes are not up"
        } do |lab, call| lab.counts(call.of);

        Down = {
            /// Take the lab down
            ///
            /// Answers when only the lab process is left, which then ends.
            DELETE "/v1/lab" as down, Destroys, Last, outside "a node cannot take down the lab that it lives in";
            => One Ended: "Nothing is left of it",
            503 "Something else is done to the lab and does not end; `netloom down` ends the lab process"
        } do |lab, _call| lab.end();

        ShowPlan = {
            /// Show the plan: names, addresses, routes
            GET "/v1/lab/plan" as plan, Reads, Moments;
            /// The part.
            place of: Within;
            => One Plan: "The plan of the lab"
        } do |lab, call| lab.plan_of(call.of);

        ShowLayout = {
            /// Show where everything stands in a picture
            ///
            /// The positions of `netloom graph --svg`: deterministic, and those of the lab file's `x-layout` are kept.
            GET "/v1/lab/layout" as layout, Reads, Moments;
            /// The part.
            place of: Within;
            => One Positions: "Centres in pixels, from the upper left corner"
        } do |lab, call| lab.plan_of(call.of).map(|plan| netloom_model::drawing::positions(&plan));

        Repair = {
            /// Recreate nodes whose init has ended, and revert manual changes made without netloom
            POST "/v1/lab/repair" as repair, Changes, Long;
            /// Whether manual changes stay, and are only reported
            query keep_drift: bool;
            /// From where; inside of a node they always stay: they are the business of the lab's owner.
            place from: Within;
            => One Repaired: "The recreated parts"
        } do |lab, call| lab.repair(call.keep_drift || call.from != Within::ALL);

        ApplyPlan = {
            /// Turn the lab into the one of a file
            ///
            /// Parts are added, changed where they are, recreated or removed; the rest is not touched. With `dry_run` the
            /// steps are only shown.
            POST "/v1/lab/apply" as apply, Destroys, Long,
                outside "a file is applied to its lab from outside of its nodes";
            /// The plan of the file
            body request: Apply;
            => One Applied: "The steps done, or that would be done",
            409 "Other steps than the expected ones are needed by now, the lab is not up, or it stands in between and the \
                 same request does the rest"
        } do |lab, call| lab.apply_plan(call.request);

        Ping = {
            /// Send one echo request from every node to every other
            POST "/v1/lab/ping" as ping, Reads, Long;
            /// Address families to try, separated by commas
            query family: Families;
            /// How long to wait for each answer in milliseconds
            query timeout_ms: Patience;
            /// The nodes.
            place among: Within;
            => One Reachability: "Which node reaches which"
        } do |lab, call| lab.ping_among(&lab.slots_of(call.among), &call.family.0, call.timeout_ms.time());

        PingPair = {
            /// Send echo requests from one node to another
            POST "/v1/nodes/{node}/ping" as ping_pair, Reads, Long;
            /// The name of the node that sends
            path node: AnyNode;
            /// The destination node
            query to: AnyNode;
            /// Address families to try, separated by commas
            query family: Families;
            /// Number of requests
            query count: Whole<1, 1000, 3>;
            /// Time between two requests in milliseconds
            query interval_ms: Whole<0, 1000, 200>;
            /// How long to wait for an answer in milliseconds
            query timeout_ms: Patience;
            => One PairReachability: "Its answers",
            409 "A node's init has ended";
            fn also_takes(&self) -> Duration {
                let Pace { count, interval, timeout } = self.pace();
                2 * (interval.saturating_mul(count) + timeout)
            }
        } do |lab, call| lab.ping_one(&call.node, &call.to, &call.family.0, call.pace());

        Why = {
            /// Find out why packets of one node do not arrive at another
            ///
            /// One probe is sent, which the answer describes; nothing is changed. An answer takes up to some seconds.
            POST "/v1/why" as why, Reads, Long, outside "ways lead through other nodes: they are followed outside of nodes";
            /// Whose packets, and where to
            body request: AskWhy;
            => One Report: "The way hop by hop, where the probe was lost, and why",
            400 "The flow cannot be meant, or the nodes have no addresses of one family", 404 "No such node"
        } do |lab, call| lab.why(&call.request);

        ShowFidelity = {
            /// Show how late frames and wake-ups were
            ///
            /// All counters are totals: what was late in a stretch of time is the difference of two readings.
            GET "/v1/fidelity" as fidelity, Reads, Moments, outside "what the machine was late by is told outside of nodes";
            => One FidelityView: "What is counted, what is not, and what is behind now"
        } do |lab, _call| lab.fidelity();

        Packets = {
            /// Find packets of the past in the lab's recording
            ///
            /// A packet is told once for each link that it was seen at, in the order in which that was; also while the lab is
            /// recorded, up to some tenths of a second ago. A time is needed.
            POST "/v1/packets" as packets, Reads, Long, outside "a recording is of the whole lab: it is searched outside of nodes";
            /// Which packets
            body request: AskPackets;
            => One FoundPackets: "The packets",
            400 "The question has no time, or cannot be meant", 409 "The lab was never recorded"
        } do |lab, call| lab.packets(&call.request);

        Events = {
            /// Tell what happens: a snapshot, then what is different each second
            ///
            /// To hear on, pass the `id` of the last event as `since`. Who asks too late for what came after it gets a snapshot
            /// with `missed`. With `Accept: text/event-stream` the answer is a stream of Server-Sent Events that goes on until either
            /// side ends it; there the header `Last-Event-ID` says what `since` does. The lab is read once a second for all
            /// listeners together, and not at all while nobody listens.
            GET "/v1/events" as events, Reads, Moments, outside "events are told outside of nodes";
            /// Only what came after the event with this `id`; a snapshot if absent
            query since: EventId;
            /// How long to wait in milliseconds for an event if there is none yet
            query wait_ms: Wait;
            => Many LabEvent: "In order of time; empty when nothing came in time";
            const STREAMS: bool = true;
            fn waits(&self) -> Option<Duration> {
                Some(self.wait_ms.time())
            }
            fn has(answer: &Vec<LabEvent>) -> bool {
                !answer.is_empty()
            }
            fn after(&self, id: &str, wait: Duration) -> Self {
                Events { since: EventId(Some(id.to_owned())), wait_ms: Whole::of(wait) }
            }
            fn told(answer: &Vec<LabEvent>) -> Vec<Told> {
                answer.iter().map(|event| Told::of(&event.id, event.kind.word(), event)).collect()
            }
        } do |lab, call| lab.events(call.since.0.as_deref());

        ListNodes = {
            /// List nodes with their state
            ///
            /// All, or with `limit` a page. To read on, pass the name of the last one as `after`.
            GET "/v1/nodes" as nodes, Reads, Moments;
            /// Only nodes after this one, the last of the page before; from the first if absent
            query after: After<NodeName>;
            /// The most nodes
            query limit: Objects;
            /// The part.
            place of: Within;
            => Many NodeStatus: "In the order of the file"
        } do |lab, call| lab.nodes(&call);

        CreateNode = {
            /// Make a node
            POST "/v1/nodes" as create_node, Changes, Long;
            /// The node
            body new: NewNode;
            => One Changed: "It runs",
            404 "No such parent", 409 "The name is taken, or the parent may not have more", makes |answer| &answer.name
        } do |lab, call| lab.create(&call.new);

        ShowNode = {
            /// Show a node
            GET "/v1/nodes/{node}" as node, Reads, Moments;
            /// The node's name
            path node: NodeName;
            => One NodeStatus: "The node"
        } do |lab, call| lab.node(&call.node);

        ListInterfaces = {
            /// List a node's interfaces
            GET "/v1/nodes/{node}/interfaces" as interfaces, Reads, Moments;
            /// The node's name
            path node: NodeName;
            => Many InterfaceStatus: "In the order of the file"
        } do |lab, call| lab.node(&call.node).map(|node| node.interfaces);

        ShowInterface = {
            /// Show an interface of a node
            GET "/v1/nodes/{node}/interfaces/{interface}" as interface, Reads, Moments;
            /// The node's name
            path node: NodeName;
            /// The interface's name in the node
            path interface: InterfaceName;
            => One InterfaceStatus: "The interface"
        } do |lab, call| lab.interface(&call.node, &call.interface);

        DeleteNode = {
            /// Remove a node with all nodes in it
            ///
            /// Refused while processes or sockets live there, unless forced.
            DELETE "/v1/nodes/{node}" as delete_node, Destroys, Long;
            /// The node's name
            path node: NodeName;
            /// Remove it with everything that lives there
            query force: bool;
            => One Changed: "Nothing is left of it", 409 "Something lives there; it is listed"
        } do |lab, call| lab.delete(&call.node, call.force);

        SetNode = {
            /// Change limits, protection or root of a node
            PATCH "/v1/nodes/{node}" as set_node, Changes, Long;
            /// The node's name
            path node: NodeName;
            /// The settings
            body change: NodeSettings;
            => One Changed: "All settings hold", 409 "Its init has ended"
        } do |lab, call| lab.set(&call.node, &call.change);

        MoveControl = {
            /// Move the control plane of a router to a fresh node
            POST "/v1/nodes/{node}/move-control" as move_control, Changes, Long;
            /// The router's name
            path node: NodeName;
            => One Changed: "A fresh node is the router", 400 "It is not a router with a separate plane"
        } do |lab, call| lab.move_control(&call.node);

        ReadLog = {
            /// Read the output of a node's programs
            ///
            /// To read on, pass the `cursor` of the last line as `after`. With `tail`, the last lines are meant; with `limit`, the
            /// first of these.
            GET "/v1/nodes/{node}/log" as log, Reads, Moments;
            /// The node's name
            path node: NodeName;
            /// Only output after the line with this `cursor`; all if absent
            query after: Cursor;
            /// How many of the last lines are meant; all if absent
            query tail: Option<u64>;
            /// The most lines to return
            query limit: Lines;
            /// How long to wait in milliseconds for output if there is none yet
            query wait_ms: Wait;
            => Many LogLine: "In order of time; empty when nothing came in time",
            409 "Its init has ended";
            fn waits(&self) -> Option<Duration> {
                Some(self.wait_ms.time())
            }
            fn has(answer: &Vec<LogLine>) -> bool {
                !answer.is_empty()
            }
            fn mark(&self, lab: &dyn Service) -> Result<Option<LogMark>> {
                lab.log_mark(&self.node).map(Some)
            }
        } do |lab, call| lab.log(&call);

        Move = {
            /// Move an interface to another node
            POST "/v1/interfaces/move" as move_interface, Changes, Long;
            /// Which one, and to where
            body request: MoveInterface;
            => One Changed: "It is there", 404 "No such node or interface"
        } do |lab, call| lab.move_to(&call.request);

        ListLinks = {
            /// List links with their state
            ///
            /// All, or with `limit` a page. To read on, pass the name of the last one as `after`.
            GET "/v1/links" as links, Reads, Moments;
            /// Only links after this one, the last of the page before; from the first if absent
            query after: After<LinkName>;
            /// The most links
            query limit: Objects;
            /// The part.
            place of: Within;
            => Many LinkStatus: "In the order of the file"
        } do |lab, call| lab.links(&call);

        CreateLink = {
            /// Make a link
            ///
            /// Between two nodes, or a node and a switch. It gets the addresses and routes that it would get at the end
            /// of the lab file.
            POST "/v1/links" as create_link, Changes, Long;
            /// The link
            body new: NewLink;
            => One Changed: "It carries frames", 404 "No such node", 409 "A node's init has ended", makes |answer| &answer.name
        } do |lab, call| lab.make_link(&call.new);

        ShowLink = {
            /// Show a link
            GET "/v1/links/{link}" as link, Reads, Moments;
            /// The link's name, an end of it, `NODE:IFACE`, or both of its ends, `A,B`
            path link: LinkName;
            => One LinkStatus: "The link", 400 "Several are meant; they are listed"
        } do |lab, call| lab.link(&call.link);

        DeleteLink = {
            /// Remove a link with its interfaces
            DELETE "/v1/links/{link}" as delete_link, Destroys, Long;
            /// The link's name, an end of it, `NODE:IFACE`, or both of its ends, `A,B`
            path link: LinkName;
            => One Changed: "Nothing is left of it",
            400 "It cannot be removed, or several are meant", 409 "An interface of it is elsewhere"
        } do |lab, call| lab.remove_link(&call.link);

        SetLink = {
            /// Change a link's impairments, take it down or up
            PATCH "/v1/links/{link}" as set_link, Changes, Long;
            /// The link's name, or an end of it, `NODE:IFACE`, which then is the one that sends
            path link: LinkName;
            /// The settings
            body change: LinkSettings;
            => One LinkStatus: "The link as it is now"
        } do |lab, call| lab.impair(&call.link, &call.change);

        NoteFates = {
            /// Start or stop recording the fate of every packet of a link
            PUT "/v1/links/{link}/fates" as note_fates, Changes, Long;
            /// The link's name, or an end of it
            path link: LinkName;
            /// Number of latest fates kept in each direction; 0 stops recording
            query keep: Whole<0, 1_000_000, { u64::MAX }>;
            => One Noting: "What is recorded from now on"
        } do |lab, call| lab.note(&call.link, call.keep.size());

        ReadFates = {
            /// List recorded fates of packets in one direction of a link
            GET "/v1/links/{link}/fates" as fates, Reads, Moments;
            /// The link's name, or an end of it
            path link: LinkName;
            /// The sending end: 0 for the first, or 1
            query end: Whole<0, 1, 0>;
            /// Only fates with a larger sequence number; all that are kept if absent
            query after: Option<u64>;
            /// How long to wait in milliseconds for fates if there are none yet
            query wait_ms: Wait;
            => One Fates: "In order, at most 4096; none when nothing came in time";
            fn waits(&self) -> Option<Duration> {
                Some(self.wait_ms.time())
            }
            fn has(answer: &Fates) -> bool {
                !answer.fates.is_empty() || answer.missed > 0
            }
        } do |lab, call| lab.fates_of(&call.link, call.end.size(), call.after);

        ListSwitches = {
            /// List switches with their state
            ///
            /// All, or with `limit` a page. To read on, pass the name of the last one as `after`.
            GET "/v1/switches" as switches, Reads, Moments;
            /// Only switches after this one, the last of the page before; from the first if absent
            query after: After<SwitchName>;
            /// The most switches
            query limit: Objects;
            /// The part.
            place of: Within;
            => Many SwitchStatus: "In the order of the file"
        } do |lab, call| lab.switches(&call);

        CreateSwitch = {
            /// Make a switch
            POST "/v1/switches" as create_switch, Changes, Long, outside "switches are made outside of nodes";
            /// The switch
            body new: NewSwitch;
            => One Changed: "It runs", 409 "The name is taken", makes |answer| &answer.name
        } do |lab, call| lab.make_switch(&call.new);

        ShowSwitch = {
            /// Show a switch
            GET "/v1/switches/{switch}" as switch, Reads, Moments, outside "switches are shown and changed outside of nodes";
            /// The switch's name
            path switch: SwitchName;
            => One SwitchStatus: "The switch"
        } do |lab, call| lab.switch(&call.switch);

        DeleteSwitch = {
            /// Remove a switch
            ///
            /// Refused while ports are on it, unless forced.
            DELETE "/v1/switches/{switch}" as delete_switch, Destroys, Long,
                outside "switches are removed outside of nodes";
            /// The switch's name
            path switch: SwitchName;
            /// Remove it even with ports on it
            query force: bool;
            => One Changed: "Nothing is left of it", 409 "Ports are on it, or links end in it"
        } do |lab, call| lab.remove_switch(&call.switch, call.force);

        AskSwitch = {
            /// Send a request to a shared-memory switch
            POST "/v1/switches/{switch}/requests" as ask_switch, Destroys, Asking,
                outside "switches are shown and changed outside of nodes";
            /// The switch's name
            path switch: SwitchName;
            /// The request, which goes to its process unchanged
            body request: Request;
            => One Answer: "Its answer to this request",
            400 "The body cannot be used, it is to stop, or the switch is not of kind `shm`",
            409 "The switch refuses it, or its process is not there at the moment"
        } do |lab, call| lab.ask_the_switch(&call.switch, &call.request);

        ShowOpenflow = {
            /// Show an OpenFlow switch
            GET "/v1/switches/{switch}/openflow" as show_openflow, Reads, Asking,
                outside "switches are shown and changed outside of nodes";
            /// The switch's name
            path switch: SwitchName;
            => One FlowShown: "Its process, ports, controllers and counters",
            400 "The switch is not of kind `openflow`", 409 "Its process is not there at the moment"
        } do |lab, call| lab.show_the_openflow(&call.switch);

        TraceFrame = {
            /// Trace a frame through an OpenFlow switch
            ///
            /// Nothing is counted or sent.
            POST "/v1/switches/{switch}/trace" as trace_frame, Reads, Asking,
                outside "switches are shown and changed outside of nodes";
            /// The switch's name
            path switch: SwitchName;
            /// The frame
            body what: TraceWhat;
            => One Traced: "What would happen to the frame",
            400 "The body cannot be used, or the switch is not of kind `openflow`",
            409 "Its process is not there at the moment"
        } do |lab, call| lab.trace_a_frame(&call.switch, &call.what);

        ShowSlices = {
            /// Show the lab's slices
            ///
            /// Switches that are sliced, and each slice's ports, controllers, rules, quotas, counters and last refusals.
            GET "/v1/slices" as show_slices, Reads, Asking, outside "switches are shown and changed outside of nodes";
            => One Sliced: "What the slicer says",
            400 "The lab has no slices", 409 "The slicer's process is not there at the moment"
        } do |lab, _call| lab.slices();

        ShowSlice = {
            /// Show a slice
            GET "/v1/slices/{slice}" as show_slice, Reads, Asking, outside "switches are shown and changed outside of nodes";
            /// The slice's name
            path slice: SliceName;
            => One SliceShown: "Its ports, controllers, rules, quotas, counters and last refusals",
            400 "The lab has no slices", 409 "The slicer's process is not there at the moment"
        } do |lab, call| lab.slice(&call.slice);
    } };
}
pub(crate) use calls;

calls!(defined);
