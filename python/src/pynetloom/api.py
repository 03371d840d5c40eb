"""One method for each call of the API; `generate.py` writes this file from the API's document."""

from __future__ import annotations

from typing import Any, Literal, Optional
from urllib.parse import quote

from . import schemas as s
from .transport import Transport


def _segment(name: object) -> str:
    return quote(str(name), safe="-._~")


class Calls:
    """All calls. Each raises `ApiError` where the server refuses, `Unreachable` where none answers."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def show_metrics(self) -> str:
        """Tell the lab's counters to Prometheus.

        In Prometheus's text format. The lab is read at most once a second, for all callers
        together.
        """
        found: str = self.transport.call("GET", "/metrics")
        return found

    def list_sessions(self) -> list[s.SessionSummary]:
        """List the sessions."""
        found: list[s.SessionSummary] = self.transport.call("GET", "/pnpm/")
        return found

    def create_session(self, body: s.Configuration) -> s.Created:
        """Send a configuration and prepare a session.

        Measuring begins when the session is started.
        """
        found: s.Created = self.transport.call("POST", "/pnpm/", body=body)
        return found

    def delete_session(self, id: int) -> s.Created:
        """End a session and delete its results.

        `id`: The session's number.
        """
        found: s.Created = self.transport.call("DELETE", f"/pnpm/{_segment(id)}")
        return found

    def show_session(self, id: int) -> s.SessionStatus:
        """Show a session.

        `id`: The session's number.
        """
        found: s.SessionStatus = self.transport.call("GET", f"/pnpm/{_segment(id)}")
        return found

    def read_measures(
        self,
        id: int,
        *,
        from_: Optional[int] = None,
        wait_ms: Optional[int] = None,
    ) -> s.Measures:
        """Read the results of a session.

        `id`: The session's number.

        `from_`: Only blocks from this number on; all that are kept if absent.

        `wait_ms`: How long to wait in milliseconds for a block if there is none yet and the
        session runs; default 0.
        """
        found: s.Measures = self.transport.call(
            "GET",
            f"/pnpm/{_segment(id)}/measures",
            query={"from": from_, "wait_ms": wait_ms},
        )
        return found

    def read_measures_of_flow(
        self,
        id: int,
        flow: int,
        *,
        from_: Optional[int] = None,
        wait_ms: Optional[int] = None,
    ) -> s.Measures:
        """Read the results of a session for a filter.

        `id`: The session's number.

        `flow`: The filter's id.

        `from_`: Only blocks from this number on; all that are kept if absent.

        `wait_ms`: How long to wait in milliseconds for a block if there is none yet and the
        session runs; default 0.
        """
        found: s.Measures = self.transport.call(
            "GET",
            f"/pnpm/{_segment(id)}/measures/flow/{_segment(flow)}/",
            query={"from": from_, "wait_ms": wait_ms},
        )
        return found

    def read_measures_of_netif(
        self,
        id: int,
        netif: str,
        *,
        from_: Optional[int] = None,
        wait_ms: Optional[int] = None,
    ) -> s.Measures:
        """Read the results of a session at an interface.

        `id`: The session's number.

        `netif`: The interface's name.

        `from_`: Only blocks from this number on; all that are kept if absent.

        `wait_ms`: How long to wait in milliseconds for a block if there is none yet and the
        session runs; default 0.
        """
        found: s.Measures = self.transport.call(
            "GET",
            f"/pnpm/{_segment(id)}/measures/netif/{_segment(netif)}/",
            query={"from": from_, "wait_ms": wait_ms},
        )
        return found

    def read_measures_of_both(
        self,
        id: int,
        netif: str,
        flow: int,
        *,
        from_: Optional[int] = None,
        wait_ms: Optional[int] = None,
    ) -> s.Measures:
        """Read the results of a session for a filter at an interface.

        `id`: The session's number.

        `netif`: The interface's name.

        `flow`: The filter's id.

        `from_`: Only blocks from this number on; all that are kept if absent.

        `wait_ms`: How long to wait in milliseconds for a block if there is none yet and the
        session runs; default 0.
        """
        found: s.Measures = self.transport.call(
            "GET",
            f"/pnpm/{_segment(id)}/measures/netif/{_segment(netif)}/flow/{_segment(flow)}/",
            query={"from": from_, "wait_ms": wait_ms},
        )
        return found

    def set_session_state(self, id: int, body: s.SetState) -> s.SessionSummary:
        """Start or stop a session.

        Its results stay readable until it is deleted. It ends by itself after its last whole
        block.

        `id`: The session's number.
        """
        found: s.SessionSummary = self.transport.call(
            "PUT",
            f"/pnpm/{_segment(id)}/state",
            body=body,
        )
        return found

    def compare_two_ways(
        self,
        id: int,
        *,
        near: str,
        far: str,
        flow: Optional[int] = None,
        back: Optional[int] = None,
        from_: Optional[int] = None,
        wait_ms: Optional[int] = None,
    ) -> s.TwoWays:
        """Compare two interfaces of a session in both directions.

        Loss, one-way delay and jitter of each direction, the mean round-trip time (ARTT) and
        the two-way jitter (TWAJ).

        `id`: The session's number.

        `near`: The interface where packets leave, and where those back arrive.

        `far`: The interface where packets arrive, and where those back leave.

        `flow`: The id of the filter of packets there; the first filter if absent.

        `back`: The id of the filter of packets back; that of packets there if absent.

        `from_`: Only blocks from this number on; all that are kept if absent.

        `wait_ms`: How long to wait in milliseconds for a block if there is none yet and the
        session runs; default 0.
        """
        found: s.TwoWays = self.transport.call(
            "GET",
            f"/pnpm/{_segment(id)}/two-way",
            query={"near": near, "far": far, "flow": flow, "back": back, "from": from_, "wait_ms": wait_ms},
        )
        return found

    def events(
        self,
        *,
        since: Optional[str] = None,
        wait_ms: Optional[int] = None,
    ) -> list[s.LabEvent]:
        """Tell what happens: a snapshot, then what is different each second.

        To hear on, pass the `id` of the last event as `since`. Who asks too late for what
        came after it gets a snapshot with `missed`. With `Accept: text/event-stream` the
        answer is a stream of Server-Sent Events that goes on until either side ends it; there
        the header `Last-Event-ID` says what `since` does. The lab is read once a second for
        all listeners together, and not at all while nobody listens.

        `since`: Only what came after the event with this `id`; a snapshot if absent.

        `wait_ms`: How long to wait in milliseconds for an event if there is none yet.
        """
        found: list[s.LabEvent] = self.transport.call(
            "GET",
            "/v1/events",
            query={"since": since, "wait_ms": wait_ms},
        )
        return found

    def fidelity(self) -> s.FidelityView:
        """Show how late frames and wake-ups were.

        All counters are totals: what was late in a stretch of time is the difference of two
        readings.
        """
        found: s.FidelityView = self.transport.call("GET", "/v1/fidelity")
        return found

    def move_interface(self, body: s.MoveInterface) -> s.Changed:
        """Move an interface to another node."""
        found: s.Changed = self.transport.call("POST", "/v1/interfaces/move", body=body)
        return found

    def down(self) -> s.Ended:
        """Take the lab down.

        Answers when only the lab process is left, which then ends.
        """
        found: s.Ended = self.transport.call("DELETE", "/v1/lab")
        return found

    def status(self, *, after: Optional[str] = None, limit: Optional[int] = None) -> s.LabStatus:
        """Show the lab's current state.

        With `limit`, a page of it: at most that many nodes, their links, the switches of
        these links, and manual changes to these nodes. To read on, pass the name of the last
        node as `after`. `state` then knows the programs of these nodes only; that of
        `/v1/lab/summary` knows all.

        `after`: Only nodes after this one, the last of the page before; from the first if
        absent.

        `limit`: The most nodes.
        """
        found: s.LabStatus = self.transport.call(
            "GET",
            "/v1/lab",
            query={"after": after, "limit": limit},
        )
        return found

    def apply(self, body: s.Apply) -> s.Applied:
        """Turn the lab into the one of a file.

        Parts are added, changed where they are, recreated or removed; the rest is not
        touched. With `dry_run` the steps are only shown.
        """
        found: s.Applied = self.transport.call("POST", "/v1/lab/apply", body=body)
        return found

    def layout(self) -> s.Positions:
        """Show where everything stands in a picture.

        The positions of `netloom graph --svg`: deterministic, and those of the lab file's
        `x-layout` are kept.
        """
        found: s.Positions = self.transport.call("GET", "/v1/lab/layout")
        return found

    def ping(
        self,
        *,
        family: Optional[Literal["4", "6", "4,6", "6,4"]] = None,
        timeout_ms: Optional[int] = None,
    ) -> s.Reachability:
        """Send one echo request from every node to every other.

        `family`: Address families to try, separated by commas.

        `timeout_ms`: How long to wait for each answer in milliseconds.
        """
        found: s.Reachability = self.transport.call(
            "POST",
            "/v1/lab/ping",
            query={"family": family, "timeout_ms": timeout_ms},
        )
        return found

    def plan(self) -> s.Plan:
        """Show the plan: names, addresses, routes."""
        found: s.Plan = self.transport.call("GET", "/v1/lab/plan")
        return found

    def repair(self, *, keep_drift: Optional[bool] = None) -> s.Repaired:
        """Recreate nodes whose init has ended, and revert manual changes made without netloom.

        `keep_drift`: Whether manual changes stay, and are only reported.
        """
        found: s.Repaired = self.transport.call(
            "POST",
            "/v1/lab/repair",
            query={"keep_drift": keep_drift},
        )
        return found

    def summary(self) -> s.LabCounts:
        """Count the lab's nodes by their state, its links and its switches.

        No node's network is read, so a large lab answers soon, too.
        """
        found: s.LabCounts = self.transport.call("GET", "/v1/lab/summary")
        return found

    def links(
        self,
        *,
        after: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> list[s.LinkStatus]:
        """List links with their state.

        All, or with `limit` a page. To read on, pass the name of the last one as `after`.

        `after`: Only links after this one, the last of the page before; from the first if
        absent.

        `limit`: The most links.
        """
        found: list[s.LinkStatus] = self.transport.call(
            "GET",
            "/v1/links",
            query={"after": after, "limit": limit},
        )
        return found

    def create_link(self, body: s.NewLink) -> s.Changed:
        """Make a link.

        Between two nodes, or a node and a switch. It gets the addresses and routes that it
        would get at the end of the lab file.
        """
        found: s.Changed = self.transport.call("POST", "/v1/links", body=body)
        return found

    def delete_link(self, link: str) -> s.Changed:
        """Remove a link with its interfaces.

        `link`: The link's name, an end of it, `NODE:IFACE`, or both of its ends, `A,B`.
        """
        found: s.Changed = self.transport.call("DELETE", f"/v1/links/{_segment(link)}")
        return found

    def link(self, link: str) -> s.LinkStatus:
        """Show a link.

        `link`: The link's name, an end of it, `NODE:IFACE`, or both of its ends, `A,B`.
        """
        found: s.LinkStatus = self.transport.call("GET", f"/v1/links/{_segment(link)}")
        return found

    def set_link(self, link: str, body: s.LinkSettings) -> s.LinkStatus:
        """Change a link's impairments, take it down or up.

        `link`: The link's name, or an end of it, `NODE:IFACE`, which then is the one that
        sends.
        """
        found: s.LinkStatus = self.transport.call(
            "PATCH",
            f"/v1/links/{_segment(link)}",
            body=body,
        )
        return found

    def fates(
        self,
        link: str,
        *,
        end: Optional[int] = None,
        after: Optional[int] = None,
        wait_ms: Optional[int] = None,
    ) -> s.Fates:
        """List recorded fates of packets in one direction of a link.

        `link`: The link's name, or an end of it.

        `end`: The sending end: 0 for the first, or 1.

        `after`: Only fates with a larger sequence number; all that are kept if absent.

        `wait_ms`: How long to wait in milliseconds for fates if there are none yet.
        """
        found: s.Fates = self.transport.call(
            "GET",
            f"/v1/links/{_segment(link)}/fates",
            query={"end": end, "after": after, "wait_ms": wait_ms},
        )
        return found

    def note_fates(self, link: str, *, keep: int) -> s.Noting:
        """Start or stop recording the fate of every packet of a link.

        `link`: The link's name, or an end of it.

        `keep`: Number of latest fates kept in each direction; 0 stops recording.
        """
        found: s.Noting = self.transport.call(
            "PUT",
            f"/v1/links/{_segment(link)}/fates",
            query={"keep": keep},
        )
        return found

    def nodes(
        self,
        *,
        after: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> list[s.NodeStatus]:
        """List nodes with their state.

        All, or with `limit` a page. To read on, pass the name of the last one as `after`.

        `after`: Only nodes after this one, the last of the page before; from the first if
        absent.

        `limit`: The most nodes.
        """
        found: list[s.NodeStatus] = self.transport.call(
            "GET",
            "/v1/nodes",
            query={"after": after, "limit": limit},
        )
        return found

    def create_node(self, body: s.NewNode) -> s.Changed:
        """Make a node."""
        found: s.Changed = self.transport.call("POST", "/v1/nodes", body=body)
        return found

    def delete_node(self, node: str, *, force: Optional[bool] = None) -> s.Changed:
        """Remove a node with all nodes in it.

        Refused while processes or sockets live there, unless forced.

        `node`: The node's name.

        `force`: Remove it with everything that lives there.
        """
        found: s.Changed = self.transport.call(
            "DELETE",
            f"/v1/nodes/{_segment(node)}",
            query={"force": force},
        )
        return found

    def node(self, node: str) -> s.NodeStatus:
        """Show a node.

        `node`: The node's name.
        """
        found: s.NodeStatus = self.transport.call("GET", f"/v1/nodes/{_segment(node)}")
        return found

    def set_node(self, node: str, body: s.NodeSettings) -> s.Changed:
        """Change limits, protection or root of a node.

        `node`: The node's name.
        """
        found: s.Changed = self.transport.call("PATCH", f"/v1/nodes/{_segment(node)}", body=body)
        return found

    def interfaces(self, node: str) -> list[s.InterfaceStatus]:
        """List a node's interfaces.

        `node`: The node's name.
        """
        found: list[s.InterfaceStatus] = self.transport.call(
            "GET",
            f"/v1/nodes/{_segment(node)}/interfaces",
        )
        return found

    def interface(self, node: str, interface: str) -> s.InterfaceStatus:
        """Show an interface of a node.

        `node`: The node's name.

        `interface`: The interface's name in the node.
        """
        found: s.InterfaceStatus = self.transport.call(
            "GET",
            f"/v1/nodes/{_segment(node)}/interfaces/{_segment(interface)}",
        )
        return found

    def log(
        self,
        node: str,
        *,
        after: Optional[str] = None,
        tail: Optional[int] = None,
        limit: Optional[int] = None,
        wait_ms: Optional[int] = None,
    ) -> list[s.LogLine]:
        """Read the output of a node's programs.

        To read on, pass the `cursor` of the last line as `after`. With `tail`, the last lines
        are meant; with `limit`, the first of these.

        `node`: The node's name.

        `after`: Only output after the line with this `cursor`; all if absent.

        `tail`: How many of the last lines are meant; all if absent.

        `limit`: The most lines to return.

        `wait_ms`: How long to wait in milliseconds for output if there is none yet.
        """
        found: list[s.LogLine] = self.transport.call(
            "GET",
            f"/v1/nodes/{_segment(node)}/log",
            query={"after": after, "tail": tail, "limit": limit, "wait_ms": wait_ms},
        )
        return found

    def move_control(self, node: str) -> s.Changed:
        """Move the control plane of a router to a fresh node.

        `node`: The router's name.
        """
        found: s.Changed = self.transport.call("POST", f"/v1/nodes/{_segment(node)}/move-control")
        return found

    def ping_pair(
        self,
        node: str,
        *,
        to: str,
        family: Optional[Literal["4", "6", "4,6", "6,4"]] = None,
        count: Optional[int] = None,
        interval_ms: Optional[int] = None,
        timeout_ms: Optional[int] = None,
    ) -> s.PairReachability:
        """Send echo requests from one node to another.

        `node`: The name of the node that sends.

        `to`: The destination node.

        `family`: Address families to try, separated by commas.

        `count`: Number of requests.

        `interval_ms`: Time between two requests in milliseconds.

        `timeout_ms`: How long to wait for an answer in milliseconds.
        """
        found: s.PairReachability = self.transport.call(
            "POST",
            f"/v1/nodes/{_segment(node)}/ping",
            query={"to": to, "family": family, "count": count, "interval_ms": interval_ms, "timeout_ms": timeout_ms},
        )
        return found

    def show_document(self) -> dict[str, Any]:
        """Get this document."""
        found: dict[str, Any] = self.transport.call("GET", "/v1/openapi.json")
        return found

    def packets(self, body: s.AskPackets) -> s.FoundPackets:
        """Find packets of the past in the lab's recording.

        A packet is told once for each link that it was seen at, in the order in which that
        was; also while the lab is recorded, up to some tenths of a second ago. A time is
        needed.
        """
        found: s.FoundPackets = self.transport.call("POST", "/v1/packets", body=body)
        return found

    def show_slices(self) -> s.SlicesShown:
        """Show the lab's slices.

        Switches that are sliced, and each slice's ports, controllers, rules, quotas, counters
        and last refusals.
        """
        found: s.SlicesShown = self.transport.call("GET", "/v1/slices")
        return found

    def show_slice(self, slice: str) -> s.SliceShown:
        """Show a slice.

        `slice`: The slice's name.
        """
        found: s.SliceShown = self.transport.call("GET", f"/v1/slices/{_segment(slice)}")
        return found

    def switches(
        self,
        *,
        after: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> list[s.SwitchStatus]:
        """List switches with their state.

        All, or with `limit` a page. To read on, pass the name of the last one as `after`.

        `after`: Only switches after this one, the last of the page before; from the first if
        absent.

        `limit`: The most switches.
        """
        found: list[s.SwitchStatus] = self.transport.call(
            "GET",
            "/v1/switches",
            query={"after": after, "limit": limit},
        )
        return found

    def create_switch(self, body: s.NewSwitch) -> s.Changed:
        """Make a switch."""
        found: s.Changed = self.transport.call("POST", "/v1/switches", body=body)
        return found

    def delete_switch(self, switch: str, *, force: Optional[bool] = None) -> s.Changed:
        """Remove a switch.

        Refused while ports are on it, unless forced.

        `switch`: The switch's name.

        `force`: Remove it even with ports on it.
        """
        found: s.Changed = self.transport.call(
            "DELETE",
            f"/v1/switches/{_segment(switch)}",
            query={"force": force},
        )
        return found

    def switch(self, switch: str) -> s.SwitchStatus:
        """Show a switch.

        `switch`: The switch's name.
        """
        found: s.SwitchStatus = self.transport.call("GET", f"/v1/switches/{_segment(switch)}")
        return found

    def show_openflow(self, switch: str) -> s.FlowShown:
        """Show an OpenFlow switch.

        `switch`: The switch's name.
        """
        found: s.FlowShown = self.transport.call(
            "GET",
            f"/v1/switches/{_segment(switch)}/openflow",
        )
        return found

    def ask_switch(self, switch: str, body: s.SwitchRequest) -> s.SwitchAnswer:
        """Send a request to a shared-memory switch.

        `switch`: The switch's name.
        """
        found: s.SwitchAnswer = self.transport.call(
            "POST",
            f"/v1/switches/{_segment(switch)}/requests",
            body=body,
        )
        return found

    def trace_frame(self, switch: str, body: s.FlowTraceWhat) -> s.FlowTraced:
        """Trace a frame through an OpenFlow switch.

        Nothing is counted or sent.

        `switch`: The switch's name.
        """
        found: s.FlowTraced = self.transport.call(
            "POST",
            f"/v1/switches/{_segment(switch)}/trace",
            body=body,
        )
        return found

    def why(self, body: s.AskWhy) -> s.WhyReport:
        """Find out why packets of one node do not arrive at another.

        One probe is sent, which the answer describes; nothing is changed. An answer takes up
        to some seconds.
        """
        found: s.WhyReport = self.transport.call("POST", "/v1/why", body=body)
        return found
