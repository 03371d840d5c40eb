"""Types of what the API takes and answers; `generate.py` writes this file from the API's document.

Values are plain dictionaries, lists and texts as `json` reads them. Keys that are not required are left out by the
server where they have their usual value: read them with `.get()`.
"""

from __future__ import annotations

from typing import Any, Literal, Optional, TypedDict, Union


Accel = Literal["auto", "kvm", "tcg", "uml"]
"""What runs a machine."""


class AcrossView(TypedDict):
    """What a host's part of a lab over several hosts knows of the others."""

    foreign_frames: int
    """Frames for the lab that were dropped, since another machine sent them than the link's
    other host.
    """
    host: str
    """The host."""
    peers: list[PeerView]
    """The hosts that its links lead to."""


Act = Literal["add", "change", "recreate", "remove"]
"""What is done to an object."""


class _AppliedRequired(TypedDict):
    digest: str
    """Identifies the steps, for `expected`."""
    done: bool
    """Whether they were done."""
    steps: list[AppliedStep]
    """In order; none where the lab is as the file says."""
    took_ms: float
    """How long everything took, in milliseconds."""
    troubles: list[str]
    """Programs that ended with an error, and links that could not be recreated."""


class Applied(_AppliedRequired, total=False):
    """The steps done, or that would be done."""

    stale: bool
    """Whether the request has something to note even without steps: the file's digest or text,
    or the end of one that was cut off.
    """


_AppliedStepOtherWords = TypedDict("_AppliedStepOtherWords", {"with": "list[str]"}, total=False)


class _AppliedStepRequired(TypedDict):
    act: Act
    """What is done."""
    ends: bool
    """Whether something that may be in use ends: an object, or a program that is restarted or
    ended.
    """
    name: str
    """Its name; of routes the nodes."""
    line: str
    """In words."""


class AppliedStep(_AppliedStepRequired, _AppliedStepOtherWords, total=False):
    """A step that was done, or would be."""

    changes: list[KeyChange]
    """The keys that change, or for which it is recreated: 100 at most, then one with an empty
    key that tells how many more there are.
    """
    drift: bool
    """Whether it reverts manual changes made since the file was last applied."""
    kind: Optional[KindOfPart]
    """To what type of object; absent for routes that follow from other changes."""
    done_ms: Optional[float]
    """When it was done, in milliseconds from the beginning."""


class Apply(TypedDict, total=False):
    """A request to turn the lab into the one of a file."""

    dry_run: bool
    """Whether the steps are only shown."""
    expected: Optional[str]
    """The digest of the steps that the caller has seen: if others are needed by now, nothing is
    done.
    """
    file: Optional[str]
    """Absolute path of the file."""
    keep_drift: bool
    """Whether manual changes stay."""
    plan: Optional[Plan]
    """The plan of the file; paths of the host in it are absolute. If absent, that of the last
    request with `dry_run`, whose steps have the digest `expected`.
    """


class AskPackets(TypedDict, total=False):
    """Which packets of a recording. A time is needed: `last_ms`, or `since_ns` or `until_ns`."""

    last_ms: Optional[int]
    """Only packets of the last milliseconds, this many."""
    links: list[str]
    """Only what was seen at these links; empty: at any."""
    most: Optional[int]
    """Most packets of the answer; 1,000 where nothing is said, and at most 100,000."""
    since_ns: Optional[Exact]
    """From this time on, in nanoseconds since 1970 UTC."""
    until_ns: Optional[Exact]
    """Before this time, in nanoseconds since 1970 UTC."""
    what: list[str]
    """A flow: up to two nodes or addresses, then `80/tcp`, `53/udp` or `icmp`, each of which may
    be left out; or one filter in libpcap's language. Empty: all packets.
    """


_AskWhyWords = TypedDict("_AskWhyWords", {"from": "str"})


class _AskWhyRequired(TypedDict):
    to: str
    """The node that is to receive, or an address of it."""


class AskWhy(_AskWhyRequired, _AskWhyWords, total=False):
    """Whose packets do not arrive where."""

    family: Optional[int]
    """4 or 6; where nothing is said, the first that both nodes have."""
    last_ms: Optional[int]
    """Not about now, but about packets of the last milliseconds, this many, in the lab's
    recording.
    """
    port: Optional[int]
    """The port of the receiver, for TCP and UDP."""
    protocol: WhyProtocol
    """What is sent."""
    since_ns: Optional[Exact]
    """About recorded packets from this time on, in nanoseconds since 1970 UTC."""
    until_ns: Optional[Exact]
    """About recorded packets before this time."""


BehindCause = Literal["late", "overrun", "waits", "backlog", "stolen"]
"""In what way something is behind."""


BehindKind = Literal["link", "process", "node", "machine"]
"""What may be behind."""


_BehindViewOtherWords = TypedDict("_BehindViewOtherWords", {"from": "Optional[str]"}, total=False)


class _BehindViewRequired(TypedDict):
    cause: BehindCause
    """In what way."""
    count: int
    """Frames that left, turns on a processor, or frames lost."""
    kind: BehindKind
    """Of what kind it is."""
    name: str
    """Its name; of the machine `machine`."""


class BehindView(_BehindViewRequired, _BehindViewOtherWords, total=False):
    """What was late, or lost because something was."""

    late_ns: Optional[Exact]
    """How late in nanoseconds: the largest lateness of a frame (`late`), the mean wait
    (`waits`), all that was taken away (`stolen`); `null` where frames were lost.
    """
    p99_ns: Optional[Exact]
    """99 % of the frames were at most this late."""
    since_ns: Optional[Exact]
    """Unix time in nanoseconds since when it is behind; `null` where it was within a stretch of
    time that is named elsewhere.
    """


_BgpWords = TypedDict("_BgpWords", {"as": "int"})


class Bgp(_BgpWords):
    """BGP with the neighbours in the lab."""

    keepalive: int
    """Seconds between signs of life."""


_BindWords = TypedDict("_BindWords", {"from": "str"})


class _BindRequired(TypedDict):
    to: str
    """Where the node has it: an absolute path without `..`."""


class Bind(_BindRequired, _BindWords, total=False):
    """A file or directory of the host, shown in a node."""

    write: bool
    """Whether the node may change it."""


class _BlockRequired(TypedDict):
    all: Times
    """All packets."""
    begin: Exact
    """When it began."""
    block: int
    """Its number in this session."""
    bytes: int
    """Bytes of all packets."""
    colour: str
    """`starter` or `next`."""
    complete: bool
    """Whether the block is complete."""
    double: Times
    """Double-marked packets."""
    late: int
    """Packets that arrived after it was closed."""
    origin: Exact
    """Time that sums are relative to."""
    reasons: list[str]
    """Why it is not complete, in words."""
    unhashable: int
    """Packets that could not be hashed."""


class Block(_BlockRequired, total=False):
    """A block of a flow at a spot."""

    sampled: Optional[SampledPackets]
    """Samples, if the program samples."""


Board = Literal["pc", "q35", "microvm"]
"""QEMU's type of machine."""


class Bursts(TypedDict):
    """Gilbert-Elliott: a good and a bad state; before each packet the state may change. It
    starts in the good state.
    """

    bad: Share
    """Loss in the bad state; all by default."""
    enter: Share
    """Probability of changing from good to bad."""
    good: Share
    """Loss in the good state; none by default."""
    leave: Share
    """Probability of changing from bad to good; the mean length of a burst is its inverse."""


Bus = Literal["virtio", "ide"]
"""How a guest of QEMU sees its disk."""


Card = Literal["virtio", "e1000"]
"""QEMU's type of network cards."""


class Changed(TypedDict):
    """What a change did."""

    name: str
    """The object: a node's or an interface's name now."""
    notes: list[str]
    """What the user should know, e.g. that more is in use than is allowed now."""


class ChildrenView(TypedDict):
    """Nodes inside a node."""

    count: int
    """How many there are, at any depth."""
    limit: int
    """How many there may be."""


class _ConfigurationRequired(TypedDict):
    filters: list[Filter]
    """Which packets are measured."""
    mp: float
    """Measurement period in seconds: the length of a block."""
    mpc: float
    """Length of the whole measurement in seconds."""
    next_mark: int
    """DSCP value (0 to 63) of blocks 1, 3, 5 …"""
    prog_id: int
    """Program: 0 empty, 1 all packets, 2 fixed hash, 3 dynamic hash, 4 loss of all packets with
    delay of selected or double-marked ones.
    """
    starter_mark: int
    """DSCP value (0 to 63) of blocks 0, 2, 4 …"""


class Configuration(_ConfigurationRequired, total=False):
    """What is measured: a configuration as in the source's API. Fields after `netifs` are ours."""

    delay_mark: Optional[int]
    """Program 4: DSCP bits also set in double-marked packets."""
    guard: Optional[float]
    """How long after its end a block still counts packets, in seconds; below half of `mp`. If
    omitted a quarter of `mp`, at most 1 s.
    """
    hash_function: Optional[str]
    """`bob`, `ipsx` or `crc32`."""
    hash_length: Optional[int]
    """How many low bits must agree; program 3 starts with this number."""
    mark_mask: Optional[int]
    """Which bits of the DSCP field may be written; the others are kept. All six if omitted."""
    marking: Optional[list[Netif]]
    """Interfaces at whose egress packets of the filters are marked; none if omitted."""
    match_value: Optional[int]
    """The value that hashes must equal in their low bits."""
    netifs: Optional[list[Netif]]
    """Interfaces to measure at; all if omitted."""
    npkts: Optional[int]
    """Program 3: the maximum samples kept of a block."""
    payload_offset: Optional[int]
    """Where the hashed part of the payload begins, in bytes; 0 if omitted."""
    payload_size: Optional[int]
    """Its length, 1 to 32 bytes; 8 if omitted."""
    precedence: Optional[str]
    """Which of several matching filters gets a packet: `first` in the list (default) or
    `longest`.
    """
    profile: Optional[str]
    """What is hashed: `portable` (default), `rfc5475` or `source`."""
    seed: Optional[int]
    """The hash's initial value; 0 if omitted."""


ControllerState = Literal["waiting", "connecting", "connected", "backoff", "listening"]
"""How it stands with a controller."""


class Counters(TypedDict, total=False):
    """Counters, and what changes as often."""

    links: list[LinkCounters]
    """By link."""
    nodes: list[NodeCounters]
    """By node."""


class Created(TypedDict):
    """A session by its number."""

    id: int
    """The number."""


_DirectionViewWords = TypedDict("_DirectionViewWords", {"from": "str"})


class _DirectionViewRequired(TypedDict):
    corrupted: int
    """Packets in which a bit was turned over."""
    duplicated: int
    """Packets that were sent twice."""
    held_bytes: int
    """Bytes held now."""
    held_packets: int
    """Packets held now."""
    impairments: dict[str, str]
    """What it does, by key and value as in the lab file."""
    late_us: list[float]
    """How late packets were sent on, in microseconds: the mean and the worst."""
    lost: dict[str, int]
    """Packets lost, by cause."""
    offered_bytes: int
    """Bytes that came."""
    offered_packets: int
    """Packets that came."""
    reordered: int
    """Packets that overtook others."""
    sent_bytes: int
    """Bytes that were sent on."""
    sent_packets: int
    """Packets that were sent on, duplicates included."""


class DirectionView(_DirectionViewRequired, _DirectionViewWords, total=False):
    """One direction of a wire: what it does, and totals since it was put in."""

    late_sum_ns: Exact
    """How late they were all together, in nanoseconds."""


Distribution = Literal["normal", "pareto", "uniform"]
"""The distribution of jitter."""


DrawnRole = Literal["host", "router", "guest", "switch", "internet", "host_interface", "nowhere"]
"""What a vertex of a picture stands for."""


class DropView(TypedDict):
    """Frames lost, by cause."""

    cause: str
    """`protect`; at its interfaces `queue` (its receive queue was full), `rx`, `tx`;
    `own_interfaces` (those that the lab did not make: taps of a guest, tunnels); `discipline`
    (of its own, set with tc); and those of its network stack: `socket_buffer`,
    `socket_memory`, `send_buffer`, `listen_queue`, `tcp_backlog`, `checksum`, `closed_port`,
    `bad_header`, `bad_address`, `reverse_path`, `no_route`, `unknown_protocol`, `discarded`,
    `reassembly`, `too_long`, `conntrack`.
    """
    packets: int
    """Frames."""


Duration = str


class Ended(TypedDict):
    """A lab that was taken down."""

    lab: str
    """Its name."""


class Estimate(TypedDict):
    """A figure with bounds on its true value, in nanoseconds."""

    high: float
    """Upper bound of the true value."""
    low: float
    """Lower bound of the true value."""
    value: float
    """The figure."""


EventKind = Literal["snapshot", "change"]
"""What an event tells of."""


Exact = str


class Exec(TypedDict):
    """A command that is done when every node of the lab is ready."""

    fatal: bool
    """Whether the lab cannot come up when it fails."""
    program: Program
    """What is started, and as whom; it is never started again."""
    timeout: Duration
    """How long it may take."""


class Family(TypedDict):
    """Reachability in one address family."""

    answered: int
    """Pairs that answered."""
    asked: int
    """Pairs asked."""
    rtt_us: list[list[Optional[int]]]
    """Round-trip time in microseconds; `null` where there is no answer, or nothing was asked
    because one of the two has no address of the family.
    """
    version: int
    """4 or 6."""


class _FateViewRequired(TypedDict):
    bytes: int
    """Length of the frame."""
    corrupted: bool
    """A bit of it was turned over."""
    duplicated: bool
    """It is sent twice."""
    end: int
    """The end that sent, 0 or 1."""
    fate: str
    """`sent`, or the cause of its loss."""
    hash: str
    """Hash of what no hop changes of it, in hex."""
    sequence: int
    """Counts packets of the direction."""
    time_ns: Exact
    """Unix time in nanoseconds when it came."""


class FateView(_FateViewRequired, total=False):
    """The fate of a packet."""

    delay_ns: Optional[int]
    """How long it is held, in nanoseconds, when it is sent."""


class Fates(TypedDict):
    """Fates of single packets in one direction of a wire."""

    fates: list[FateView]
    """In order."""
    missed: int
    """How many were overwritten before they were read."""


class _FidelityViewRequired(TypedDict):
    behind: list[BehindView]
    """What is behind now."""
    links: list[LatenessView]
    """Directions of links in which frames can be due: those with a wire. Elsewhere the kernel
    hands frames on at once.
    """
    time_ns: Exact
    """Unix time in nanoseconds when it was read."""
    unmeasured: list[str]
    """What this machine does not tell."""
    waits: list[WaitsView]
    """Waits for a processor: of netloom's own processes by name, and of nodes' programs that
    were seen busy.
    """


class FidelityView(_FidelityViewRequired, total=False):
    """A reading of what is counted; all counters are totals."""

    backlog_drops: Optional[int]
    """Frames that processors' backlogs had no room for, on the whole machine; `null` if that is
    not known.
    """
    ticks: Optional[list[int]]
    """Ticks of 1/100 s of all processors, and how many of them were stolen; `null` if that is
    not known.
    """


class _FileRequired(TypedDict):
    content: FileContent
    """Its content."""
    mode: int
    """Permission bits, e.g. `0o644`."""
    path: str
    """Absolute path inside the node, without `..`."""


class File(_FileRequired, total=False):
    """A file of a node's own."""

    group: Optional[str]
    """Its group, by name (in the node's own group file) or number; root by default."""
    owner: Optional[str]
    """Its owner, by name (in the node's own passwd file) or number; root by default."""


class FileContentTextForm(TypedDict):
    """The text itself."""

    text: str
    """The text itself."""


_FileContentFromFormWords = TypedDict("_FileContentFromFormWords", {"from": "str"})


class FileContentFromForm(_FileContentFromFormWords):
    """A path on the host, relative to the lab file."""



FileContent = Union["FileContentTextForm", "FileContentFromForm"]
"""Where a file's bytes come from."""


class _FilterRequired(TypedDict):
    id: int
    """The number that identifies its measures."""


class Filter(_FilterRequired, total=False):
    """A filter: omitted or null fields match anything."""

    dst_ip: Optional[str]
    """Destination: an address or a prefix."""
    dst_port: Optional[int]
    """Destination port."""
    proto: Optional[str]
    """`tcp`, `udp`, `icmp`, `icmpv6`, `sctp`, or a number as text."""
    src_ip: Optional[str]
    """Source: an address or a prefix."""
    src_port: Optional[int]
    """Source port."""


class FlowConnection(TypedDict, total=False):
    """A connection that speaks OpenFlow."""

    packet_ins_dropped: int
    """Packets left out because it does not read."""
    peer: str
    """The other end."""
    queued: int
    """Bytes that the other end has not taken yet."""
    received: int
    """Messages received."""
    role: str
    """Its role: `equal`, `master` or `slave`."""
    sent: int
    """Messages sent."""
    since: int
    """When it was made, in seconds since 1970."""
    version: Optional[FlowVersion]
    """The version agreed on."""


class FlowController(TypedDict, total=False):
    """A controller."""

    attempts: int
    """Attempts since it was last connected, or configured."""
    auxiliary: int
    """How many connections there are beside it."""
    connection: Optional[FlowConnection]
    """The connection, if there is one."""
    namespace: Optional[str]
    """The namespace that it is reached from."""
    reason: Optional[str]
    """Why the last attempt failed, or the last connection ended."""
    state: ControllerState
    """How it stands."""
    target: str
    """Where it is."""


FlowFail = Literal["secure", "standalone"]
"""What happens to packets while no controller is connected."""


class _FlowPlaneRequired(TypedDict):
    capacity: int
    """How many it can keep; 0 if it keeps none."""
    entries: int
    """Results that it keeps now."""
    hits: int
    """Frames that it treated by kept results, since its start."""
    kind: str
    """Its kind: `packet-sockets`, `tcx`, `clsact`."""


class FlowPlane(_FlowPlaneRequired, total=False):
    """What a plane is, for status."""

    slower: Optional[str]
    """Why a faster one is not used; absent if there is none."""


class FlowPort(TypedDict, total=False):
    """State of a port."""

    config: list[str]
    """What a controller configured: `port-down`, `no-recv`, `no-fwd`, `no-flood`,
    `no-packet-in`.
    """
    counters: dict[str, int]
    """Its counters, by name: `received_packets`, `sent_bytes`, `upcalls`, `upcalls_dropped` and
    others.
    """
    interface: str
    """Its interface."""
    mac: str
    """Its MAC address, as `02:00:00:00:00:01`."""
    name: str
    """Its name."""
    number: int
    """Its number."""
    up: bool
    """Whether frames can go through it."""


FlowPortKey = Union[int, str]
"""A port by its number or by its name."""


class FlowShown(TypedDict, total=False):
    """State of an OpenFlow switch."""

    connections: list[FlowConnection]
    """Connections that others made: to its socket, or to where it listens."""
    controllers: list[FlowController]
    """Its configured controllers."""
    counters: dict[str, int]
    """Its counters, by name: `connections_dropped`, `packet_ins_dropped` and others."""
    cpu_us: int
    """CPU time of its process, in microseconds."""
    datapath: str
    """Its number for controllers, as `0x` and 16 digits."""
    entries: int
    """Flow entries."""
    fail: FlowFail
    """What happens while no controller is connected."""
    groups: int
    """Groups."""
    max_entries: int
    """How many entries a table can have."""
    meters: int
    """Meters."""
    name: str
    """Its name."""
    pid: int
    """Its pid, in its own PID namespace."""
    plane: FlowPlane
    """What moves its frames."""
    ports: list[FlowPort]
    """Its ports by number."""
    since: int
    """When its process was started, in seconds since 1970."""
    standalone: bool
    """Whether it forwards as a learning switch now, because no controller is connected."""
    tables: int
    """How many tables it has."""
    takeovers: int
    """How many earlier processes of it this one took over from."""
    trouble: Optional[str]
    """What went wrong last, if anything did."""
    versions: list[FlowVersion]
    """Versions of OpenFlow that it speaks."""


class FlowTraceSent(TypedDict, total=False):
    """A frame that would leave."""

    frame: str
    """The frame, in hexadecimal digits."""
    name: str
    """The port's name."""
    port: int
    """The port's number."""
    queue: Optional[int]
    """The queue, if one was set."""


class FlowTraceStep(TypedDict, total=False):
    """A table that a frame goes through."""

    entry: Optional[str]
    """The entry that matches, in the syntax of ovs-ofctl; absent if none does."""
    table: int
    """The table."""


class FlowTraceWhatMatchForm(TypedDict):
    """One made of a match in the syntax of ovs-ofctl, such as
    `in_port=1,tcp,nw_dst=10.0.0.2,tp_dst=80`.
    """

    match: str
    """One made of a match in the syntax of ovs-ofctl, such as
    `in_port=1,tcp,nw_dst=10.0.0.2,tp_dst=80`.
    """


class FlowTraceWhatFrameForm(TypedDict):
    """A whole one."""

    frame: FlowTraceWhatFrame


FlowTraceWhat = Union["FlowTraceWhatMatchForm", "FlowTraceWhatFrameForm"]
"""A frame to trace."""


class FlowTraceWhatFrame(TypedDict):
    """A whole one."""

    hex: str
    """Its bytes, in hexadecimal digits."""
    port: FlowPortKey
    """The port that it comes in by."""


class FlowTraced(TypedDict, total=False):
    """What would happen to a frame."""

    decided_by: str
    """The fields that decided, in the syntax of ovs-ofctl: frames that agree in them are treated
    alike.
    """
    drops: list[str]
    """Where it, or a copy, gets no further, and why."""
    effects: list[str]
    """What is done, in order: actions, and `output:2` for each port that it leaves by; `copy {`
    and `}` around what is done to a copy.
    """
    fields: str
    """The frame's fields, in the syntax of ovs-ofctl."""
    frame: str
    """The frame, in hexadecimal digits."""
    groups: list[list[int]]
    """Groups that it goes through, with the bucket."""
    meters: list[int]
    """Meters that it goes through."""
    not_kept: Optional[str]
    """Why frames like it are not treated by a kept result."""
    packet_ins: int
    """How many messages about it controllers would get."""
    port: int
    """The port that it comes in by."""
    sent: list[FlowTraceSent]
    """What leaves."""
    standalone: bool
    """Whether it is forwarded as by a learning switch, without tables."""
    steps: list[FlowTraceStep]
    """The tables that it goes through."""


FlowVersion = Literal["1.0", "1.3"]
"""A version of OpenFlow."""


Forwarding = Union[bool, "OneFamily"]
"""What a node forwards: `true`, `false`, `ipv4` or `ipv6`, as in the lab file."""


class _FoundPacketsRequired(TypedDict):
    more: bool
    """Whether there are more."""
    packets: list[PacketSeen]
    """The packets, once for each link that they were seen at."""


class FoundPackets(_FoundPacketsRequired, total=False):
    """Packets of a recording, in the order in which they were seen."""

    gone: int
    """Parts of the recording that gave way to newer ones meanwhile."""
    problem: Optional[str]
    """Why what the recorder said last cannot be read: then nodes of the past are not known by
    name.
    """
    strange: int
    """Parts that were left out: of another version, or damaged."""


class Gone(TypedDict, total=False):
    """Names of what is not there any more."""

    links: list[str]
    """Links."""
    nodes: list[str]
    """Nodes."""
    switches: list[str]
    """Switches."""


class Health(TypedDict):
    """A check of a node that repeats as long as it lives."""

    check: Ready
    """What must hold; its `timeout` is how long the command may take."""
    interval: Duration
    """From the end of a check to the next."""
    retries: int
    """How many checks must fail in a row before the node counts as unhealthy."""


class _HealthViewRequired(TypedDict):
    failures: int
    """How many checks have failed in a row."""
    state: str
    """`starting`: there is no good check yet, and not too many bad ones; `healthy`; `unhealthy`."""


class HealthView(_HealthViewRequired, total=False):
    """The results of a node's check that repeats."""

    reason: Optional[str]
    """Why the last one did."""


Ids = Literal["real", "fake", "one"]
"""The users and groups of a node. Without it a node has the real ones where the machine gives
its lab any, else fake ones.
"""


class _ImageUseRequired(TypedDict):
    name: str
    """Its name, as its source is written: `quay.io/frrouting/frr:9.1.0`, `oci:DIR:NAME`."""


class ImageUse(_ImageUseRequired, total=False):
    """The image that a node's root is made of."""

    cmd: Optional[list[str]]
    """Instead of the image's arguments."""
    entrypoint: Optional[list[str]]
    """Instead of the image's entrypoint, and without the image's arguments."""
    pull: PullWhen
    """When it is fetched."""
    starts: bool
    """Whether the image's own program starts: the lab gives no `run`."""


class _InterfaceRequired(TypedDict):
    addresses: list[str]
    """Address with the segment's prefix length."""
    index: int
    """Its initial interface index in the node: from 2, in the order of the links."""
    mac: Mac
    """Its MAC: locally administered, from lab, node and interface name."""
    mtu: int
    """MTU in bytes."""
    name: str
    """Its name in the node, at most 15 bytes."""


class Interface(_InterfaceRequired, total=False):
    """An interface of a node."""

    link: Optional[int]
    """The link it is an end of: index into the plan's links; `null` in JSON for one that is not
    shown.
    """
    mac_given: bool
    """The file gives that MAC."""


class _InterfaceStatusRequired(TypedDict):
    addresses: list[str]
    """Address/prefix as the kernel has them now, without link-local ones; as planned where the
    node is dead.
    """
    link: str
    """The link it is an end of."""
    mac: str
    """As `02:…`."""
    mtu: int
    """Bytes."""
    name: str
    """Its name in the node."""


class InterfaceStatus(_InterfaceStatusRequired, total=False):
    """An interface of a node."""

    traffic: Optional[Traffic]
    """Totals; `null` when it is not there."""
    up: Optional[bool]
    """Whether it can carry traffic; `null` when it is not there."""


class Jitter(TypedDict):
    """A random part of the delay. Packets keep their order: one that would overtake leaves with
    the previous one; only `reorder` lets packets overtake.
    """

    correlation: Share
    """How much a packet's value depends on the previous one (first-order autocorrelation)."""
    distribution: Distribution
    """Its distribution."""
    spread: Duration
    """Normal: the standard deviation. Uniform: the delay is up to this much shorter or longer.
    Pareto: the mean of the addition. A delay below zero counts as zero.
    """


class KeyChange(TypedDict):
    """A key that changes."""

    key: str
    """As in the lab file, `limits.memory`."""
    words: str
    """In words, `limits.memory 64MiB, was none`."""


KindOfPart = Literal["node", "switch", "link", "slice", "recording"]
"""The type of an item."""


class LabCounts(TypedDict):
    """A lab in numbers. No node's network is read for it."""

    digest: str
    """Digest of the plan of the file it was made from."""
    links: LinkNumbers
    """Its links."""
    name: str
    """Its name."""
    nodes: NodeNumbers
    """Its nodes, by state."""
    pid: int
    """The lab process."""
    since: int
    """Unix time in seconds when it came up."""
    state: LabState
    """Where it stands."""
    switches: int
    """Its switches."""
    troubled: list[TroubledNode]
    """The first 100 nodes that are not up, in the order of the file."""


class _LabEventRequired(TypedDict):
    id: str
    """Where it is, for the parameter `since`."""
    kind: EventKind
    """Whether it tells of all."""
    time_ns: Exact
    """Unix time in nanoseconds when the counters were read."""


class LabEvent(_LabEventRequired, total=False):
    """What is different since the event before it, or, as a snapshot, all that there is."""

    behind: Optional[list[BehindView]]
    """What is behind, all of it, where something began or ceased to be; its figures alone make
    no event.
    """
    counters: Counters
    """Counters that are different."""
    gone: Gone
    """What is not there any more."""
    lab: Optional[LabFacts]
    """The lab, where that is different."""
    links: list[LinkStatus]
    """The same for links."""
    losing: Optional[list[LosingView]]
    """Which links and nodes lose packets, all of them, where some began to or have not for 10 s;
    `netloom why --losses` tells the causes.
    """
    missed: bool
    """This snapshot stands for events that are not kept any more, or were of another lab
    process: what came and went meanwhile is not told.
    """
    nodes: list[NodeStatus]
    """Nodes that are new, or of which something beside their counters is different."""
    switches: list[SwitchStatus]
    """The same for switches."""


class LabFacts(TypedDict):
    """The lab itself."""

    name: str
    """Its name."""
    pid: int
    """The lab process."""
    since: int
    """Unix time in seconds when it came up."""
    state: LabState
    """Where it stands."""


LabState = Literal["starting", "up", "degraded", "failed", "broken", "orphaned"]
"""Where a lab stands."""


class _LabStatusRequired(TypedDict):
    digest: str
    """Identifies the content of its file."""
    links: list[LinkStatus]
    """In the order of the file."""
    name: str
    """Its name."""
    nodes: list[NodeStatus]
    """In the order of the file."""
    pid: int
    """The lab process."""
    read_ns: Exact
    """Unix time in nanoseconds when the counters below were read."""
    since: int
    """Unix time in seconds when it came up."""
    state: LabState
    """Where it stands."""
    switches: list[SwitchStatus]
    """In the order of the file."""
    user: bool
    """It belongs to an ordinary user, in a user namespace."""


class LabStatus(_LabStatusRequired, total=False):
    """All about a running lab."""

    across: Optional[AcrossView]
    """Of a host's part of a lab over several hosts: what it knows of the others."""
    behind: list[BehindView]
    """What is late now, by [`BehindView`]; empty where the lab keeps up."""
    drift: list[str]
    """Manual changes to living nodes and switches made without netloom, an object a line, as
    `netloom apply` shows them.
    """
    machine_drops: list[DropView]
    """Packets that the kernel dropped for all labs and the machine together, since the machine
    started: those that waited for a neighbour's address (`neighbour_queue`), and those whose
    neighbour found no room in the table (`neighbour_table`). Nothing tells whose they were.
    """


_LatenessViewWords = TypedDict("_LatenessViewWords", {"from": "str"})


class LatenessView(_LatenessViewWords):
    """Lateness of frames in one direction of a link, since its wire was put in."""

    counts: list[int]
    """How many frames were how late: those less than 128 ns first, then four counts for each
    octave.
    """
    link: str
    """The link."""
    max_ns: Exact
    """The largest one in nanoseconds."""
    overdue_ns: Exact
    """How late the frame is that should leave first and has not, in nanoseconds."""
    overruns: int
    """Frames lost because the wire did not read them in time."""
    sum_ns: Exact
    """All of it together, in nanoseconds."""


class LimitsView(TypedDict, total=False):
    """A node's limits."""

    cpu_milli: Optional[int]
    """Thousandths of a CPU."""
    memory: Optional[int]
    """Bytes."""
    processes: Optional[int]
    """Processes and threads."""
    sockets: Optional[int]
    """Sockets for IPv4 and IPv6 made by `socket()`."""
    weight: Optional[int]
    """Its part of the CPU when others want it too, against 100."""


class LinkCounters(TypedDict):
    """Totals of a link, by the end that sends: from the first end of its `ends` to the second,
    and back. All links are read each second.
    """

    bytes: list[int]
    """Bytes of these."""
    lost: list[int]
    """Frames that it lost that way, whatever the cause."""
    name: str
    """Its name."""
    packets: list[int]
    """Frames that each end sent into it."""


class LinkCourse(TypedDict):
    """How a link goes from the centre of its first end to that of its second."""

    name: str
    """The link's name."""
    shape: LinkForm
    """The form of its course."""
    via: list[list[int]]
    """The points between, each from the left and from the top."""


LinkForm = Literal["straight", "bent", "corners", "loop"]
"""The form of a link's course."""


LinkId = int
"""Identifies a link on the machine for its lifetime."""


class LinkNumbers(TypedDict):
    """Numbers of links."""

    all: int
    """All."""
    down: int
    """That were taken down, as if their cable were pulled."""


class LinkSettings(TypedDict, total=False):
    """A change of a link."""

    clear: bool
    """Take everything away first."""
    end: Optional[int]
    """The end whose sending is meant: 0 or 1; both if omitted."""
    settings: list[list[str]]
    """By key and value as in the lab file; the value `none` takes one away."""
    up: Optional[bool]
    """Take the whole link down, as if its cable were pulled, or up again."""


class _LinkStatusRequired(TypedDict):
    ends: list[str]
    """Its ends: `NODE:IFACE`, `SWITCH`, `host:IFACE`, `internet` or `nowhere`."""
    name: str
    """Its name."""
    up: bool
    """Whether both ends can carry traffic, as far as nodes' ends show, and its wire runs, if it
    needs one.
    """


class LinkStatus(_LinkStatusRequired, total=False):
    """A link."""

    down: bool
    """Whether it was taken down, as if its cable were pulled."""
    lost: list[LossView]
    """Frames that it lost, by sending end and cause, without causes that lost nothing."""
    wire: Optional[WireView]
    """The wire in it; `null` when nothing is impaired, so that there is none."""


class _LogLineRequired(TypedDict):
    program: int
    """Number of the program in the node's `run:`; the commands of `setup:` are numbered after
    those.
    """
    text: str
    """The output without the line ending."""
    time_ns: Exact
    """Unix time in nanoseconds."""


class LogLine(_LogLineRequired, total=False):
    """A line of a program's output."""

    name: Optional[str]
    """The program's name if the node has several. Not stored in the file: readers add it."""
    cursor: str
    """Where it is, for the parameter `after`."""


LosingKind = Literal["link", "node"]
"""What may lose packets."""


_LosingViewOtherWords = TypedDict("_LosingViewOtherWords", {"from": "Optional[str]"}, total=False)


class LosingView(_LosingViewOtherWords):
    """A place that loses packets."""

    kind: LosingKind
    """Of what kind it is."""
    name: str
    """Its name."""
    packets: int
    """Packets lost since then."""
    since_ns: Exact
    """Unix time in nanoseconds of the reading that showed the first."""


class LossRandomForm(TypedDict):
    """Each packet at random."""

    random: RandomLoss
    """Each packet at random."""


class LossBurstsForm(TypedDict):
    """The Gilbert-Elliott model."""

    bursts: Bursts
    """The Gilbert-Elliott model."""


class LossPatternForm(TypedDict):
    """Exactly these, repeated: `true` is lost. At most 65,536 packets."""

    pattern: list[bool]
    """Exactly these, repeated: `true` is lost. At most 65,536 packets."""


Loss = Union["LossRandomForm", "LossBurstsForm", "LossPatternForm"]
"""Which packets are lost."""


_LossViewWords = TypedDict("_LossViewWords", {"from": "str"})


class LossView(_LossViewWords):
    """Frames that a link lost in one direction."""

    cause: str
    """`interface`: between two interfaces, since a queue was full, the frame too long or the
    other end down; `wire: CAUSE`; `switch: CAUSE`: at the link's port of a shared-memory
    switch, both directions together; `way_out`: the program that passes what leaves an
    ordinary user's lab did not read it, told at the lab's first such link for all.
    """
    packets: int
    """Frames."""


Mac = str


class MacEntry(TypedDict):
    """A learned address and its port."""

    age: int
    """Seconds since its last frame."""
    mac: str
    """The address, as `02:00:00:00:00:01`."""
    port: int
    """The port."""
    vlan: int
    """Its VLAN; 0 when VLANs are not separated."""


class MacTable(TypedDict):
    """Learned addresses of a port."""

    entries: list[MacEntry]
    """The addresses."""
    port: int
    """The port that learned them; 0 is the switch itself."""


class _MachineRequired(TypedDict):
    disk_bus: Bus
    """How the guest sees the disk."""
    seed: bool
    """Whether a machine with a disk gets one for cloud-init."""
    accel: Accel
    """What runs it."""
    cpus: int
    """The guest's processors."""
    machine: Board
    """QEMU's type of machine."""
    memory: int
    """The guest's memory in bytes."""
    nic: Card
    """QEMU's type of network cards."""
    restart: Restart
    """What to do when it ends."""


class Machine(_MachineRequired, total=False):
    """The options of a node of kind `vm`."""

    disk: Optional[str]
    """The disk's file."""
    firmware: Optional[str]
    """QEMU's firmware."""
    keep: Optional[str]
    """The file that keeps the disk's writes."""
    user_data: Optional[str]
    """User data for cloud-init."""
    append: str
    """More words for the kernel's command line."""
    initrd: Optional[str]
    """The initial RAM disk's file."""
    kernel: Optional[str]
    """The kernel's file."""
    qemu: list[str]
    """More arguments for QEMU."""
    vhost_user: bool
    """Whether cards on shared-memory switches are ports of these switches."""


class Measure(TypedDict):
    """A flow at a spot."""

    blocks: list[Block]
    """Closed blocks that are kept, by number."""
    direction: str
    """`ingress` or `egress`, as the interface sees it."""
    flow: int
    """The filter's number."""
    netif: str
    """The interface."""


class _MeasuresRequired(TypedDict):
    clock: SessionClock
    """The clock of all times."""
    measures: list[Measure]
    """The results for each flow at each spot."""
    probe: str
    """The name of its probe."""
    session: int
    """The session's number."""
    spots: list[Spot]
    """Where it measures."""
    state: SessionState
    """Its state."""


class Measures(_MeasuresRequired, total=False):
    """All results of a session. Times are nanoseconds of its clock."""

    schedule: Optional[Schedule]
    """The block schedule; none before the start."""
    trouble: Optional[str]
    """The last problem, if any."""


MirrorDirection = Literal["in", "out", "both"]
"""Which frames of a port a mirror session copies, seen from the switch: `in` are those that the
port sends, `out` those that it receives.
"""


class _MirrorSessionRequired(TypedDict):
    sources: list[MirrorSource]
    """The sources."""
    to: int
    """The port that receives the copies."""


class MirrorSession(_MirrorSessionRequired, total=False):
    """A mirror session."""

    filter: str
    """The frames to copy, as `vlan 7, tcp`; all by default."""
    temporary: bool
    """Whether the session ends when the port that receives the copies leaves; by default it
    stays.
    """


class MirrorSource(TypedDict):
    """A source of a mirror session."""

    direction: MirrorDirection
    """The direction of its frames."""
    port: int
    """The port."""


class _MoveInterfaceRequired(TypedDict):
    interface: str
    """`NODE:IFACE`, or `host:IFACE`."""
    to: str
    """The node that gets it, or `host`."""


class MoveInterface(_MoveInterfaceRequired, total=False):
    """An interface to move from one node to another."""

    carry: bool
    """Take its addresses and routes along."""
    name: Optional[str]
    """Its name there; its old name, or the next free one of its kind, where nothing is said."""


class Netif(TypedDict):
    """An interface."""

    netif: str
    """Its name; in a lab `NODE:IFACE`, and `SWITCH/NODE:IFACE` for the port of a bridge."""


class _NewLinkRequired(TypedDict):
    a: str
    """One end: `NODE`, `NODE:IFACE`, `SWITCH` or `nowhere`."""
    b: str
    """The other."""


class NewLink(_NewLinkRequired, total=False):
    """A link to make in a running lab."""

    addresses: list[list[str]]
    """Addresses with their prefixes, or `none`, by end: as it is written in `a` or `b`, or its
    node.
    """
    macs: list[list[str]]
    """Hardware addresses, by end in the same way."""
    name: Optional[str]
    """Its name; as the lab file would name it where nothing is said."""
    settings: list[list[str]]
    """By key and value as in the lab file: `mtu`, `delay`, `loss`, …"""


class _NewNodeRequired(TypedDict):
    name: str
    """Its name; `PARENT/NAME` makes it a child."""


class NewNode(_NewNodeRequired, total=False):
    """A node to make in a running lab."""

    root: Optional[str]
    """A directory to be the root of its file system."""
    settings: list[list[str]]
    """Settings, by key and value as `netloom node set` takes them."""


class _NewSwitchRequired(TypedDict):
    name: str
    """Its name."""


class NewSwitch(_NewSwitchRequired, total=False):
    """A switch to make in a running lab."""

    settings: list[list[str]]
    """Settings, by key and value as in the lab file: `kind` (`shm` where nothing is said),
    `mode`, `group`, `arena`, `ageing`, `vde`.
    """


class NextHop(TypedDict):
    """One of several next hops of a route."""

    interface: int
    """The outgoing interface: index into the node's interfaces."""
    via: str
    """The router."""


class _NodeCountersRequired(TypedDict):
    lost: int
    """Packets lost at its interfaces and in its network stack."""
    name: str
    """Its name."""


class NodeCounters(_NodeCountersRequired, total=False):
    """What a node uses. In a lab of more than 32 nodes, 32 of them are read each second, in
    turns.
    """

    cpu_ns: Optional[Exact]
    """CPU time in nanoseconds."""
    memory: Optional[int]
    """Memory in bytes now."""
    processes: Optional[int]
    """Processes and threads now."""
    sockets: Optional[int]
    """Sockets now."""


NodeId = int
"""Identifies a node on the machine for its lifetime."""


class NodeKindVmForm(TypedDict):
    """A virtual machine."""

    vm: Machine
    """A virtual machine."""


class NodeKindRouterForm(TypedDict):
    """A node with a routing suite."""

    router: Router
    """A node with a routing suite."""


NodeKind = Union[Literal["plain"], "NodeKindVmForm", "NodeKindRouterForm"]
"""The kind of a node."""


class NodeNumbers(TypedDict):
    """Numbers of nodes."""

    all: int
    """Of all states."""
    dead: int
    """Whose init has ended."""
    degraded: int
    """That have a program that ended with an error, or lost an interface."""
    failed: int
    """That could not become ready."""
    starting: int
    """That are being made, or wait to be ready."""
    up: int
    """That are up."""


class NodeSettings(TypedDict):
    """A change of a node's settings."""

    settings: list[list[str]]
    """By key and value: `cpu`, `weight`, `memory`, `processes`, `sockets`, `packets`, `bytes`,
    `charge-receive`, `children`, `privileged`, `ids`, `root`; the value `none` takes a limit
    away.
    """


class _NodeSpecRequired(TypedDict):
    charge_receive: bool
    """Whether receive work is charged to it: by default if it is protected or its CPU is
    limited.
    """
    env: list[list[str]]
    """Environment of its programs and of `exec`: pairs of name and value, sorted by name."""
    files: list[File]
    """Files put into it before anything runs."""
    forwarding: Forwarding
    """Whether it routes, and packets of which families: then it gets routes and is a default
    gateway.
    """
    limits: PlannedLimits
    """Limits on its processes together."""
    name: str
    """Unique in the lab, among nodes and switches. A host name: letters, digits, `-`, `_`, `.`;
    any length up to 253. A child's is `PARENT/NAME`; the last part is its host name.
    """
    protect: PlannedProtect
    """The budget of frames to it; more are dropped before they cost the node anything."""
    ready: Ready
    """When it counts as ready: all must hold."""
    run: list[Program]
    """Programs started in order once the network is up."""


class NodeSpec(_NodeSpecRequired, total=False):
    """What the lab file says of a node, and its plan repeats as it is."""

    binds: list[Bind]
    """Files and directories of the host that it sees, those around others before them."""
    children: Optional[int]
    """Maximum number of nodes in it, at any depth; if absent, it can have and manage none."""
    exec: list[Exec]
    """Commands to do when all nodes of the lab are ready."""
    health: Optional[Health]
    """A check that repeats."""
    hostname: Optional[str]
    """Its host name by hand."""
    ids: Optional[Ids]
    """Its users and groups, the lab's or its parent's among them; if absent, the best that the
    machine gives.
    """
    image: Optional[ImageUse]
    """The image that its root is made of instead."""
    kind: NodeKind
    """Its kind."""
    loopback: list[str]
    """Addresses of its loopback interface beside the usual ones."""
    parent: Optional[Slot]
    """The node it lives in, which comes before it."""
    ports: list[Published]
    """Ports of the host that lead to its programs."""
    privileged: bool
    """Whether its programs may mount, trace, load BPF programs and more."""
    root: Optional[str]
    """A directory to be the root of its file system; if absent, the host's under an overlay."""
    setup: list[list[str]]
    """Commands, as argument lists, that must succeed, in order, before programs run."""
    storage: Optional[int]
    """Bytes it may write into its file system; a quarter of the machine's memory by default."""


NodeState = Literal["starting", "up", "degraded", "failed", "dead"]
"""Where a node stands."""


class _NodeStatusRequired(TypedDict):
    alive: bool
    """Whether its init lives."""
    drops: list[DropView]
    """Frames lost at its interfaces and in its network stack, by cause."""
    forwarding: Forwarding
    """Whether it routes, and packets of which families."""
    interfaces: list[InterfaceStatus]
    """Its interfaces without `lo`."""
    limits: LimitsView
    """What it may use."""
    name: str
    """Its name."""
    programs: list[ProgramView]
    """Its programs, in the order of the file."""


class NodeStatus(_NodeStatusRequired, total=False):
    """All about a node."""

    addresses: list[str]
    """Its addresses with their prefixes as its kernel has them now, on interfaces of its own
    making, too, without those of loopback and link-local ones; the first of each family is
    what its name stands for. Of a dead node: those planned.
    """
    children: Optional[ChildrenView]
    """How many nodes live in it, at any depth, and how many may; `null`: it cannot have any."""
    cpu_ns: Optional[Exact]
    """CPU time in nanoseconds: of all its processes, and of receiving where that is charged to
    it.
    """
    cpu_receive_ns: Optional[Exact]
    """The part that kernel threads spent on receiving datagrams for it, not TCP; `null` where
    that is not charged.
    """
    cpu_system_ns: Optional[Exact]
    """The part that the kernel spent for them."""
    cpu_user_ns: Optional[Exact]
    """The part of it that its processes spent themselves; with `cpu_system_ns` and
    `cpu_receive_ns` it is all of it.
    """
    health: Optional[HealthView]
    """The results of its check that repeats; `null` where it has none, or is not ready yet."""
    ids: Optional[Ids]
    """Its users and groups; `null` for a virtual machine, whose guest has its own."""
    load: Optional[list[float]]
    """Mean number of runnable and waiting processes over the last minute, 5 and 15 minutes."""
    memory: Optional[int]
    """Memory in bytes now."""
    parent: Optional[str]
    """The node it lives in."""
    pid: Optional[int]
    """Its init's process on the host; `null` when it has ended."""
    privileged: bool
    """Whether its programs may mount, trace, load BPF programs and more."""
    processes: Optional[int]
    """Processes and threads now, its init included."""
    protect: Optional[ProtectView]
    """What may be sent to it, and what came; `null` where it is not protected."""
    reason: Optional[str]
    """What it waits for, why it has failed, or which program ended how; `null` where it is up."""
    sockets: Optional[int]
    """Sockets of all kinds in its network now."""
    sockets_counted: Optional[int]
    """Sockets that count for its limit, now; `null` where there is none."""
    sockets_refused: Optional[int]
    """Sockets that were refused by its limit."""
    state: NodeState
    """Where it stands."""


class Noting(TypedDict):
    """What is recorded of a link."""

    keep: int
    """Fates kept in each direction; 0 means that nothing is recorded."""
    link: str
    """The link."""


OneFamily = Literal["ipv4", "ipv6"]
"""One of the families."""


class _OneWayRequired(TypedDict):
    gained: int
    """How many packets more arrived."""
    lost: int
    """How many packets fewer arrived."""
    received: int
    """Packets that arrived."""
    sent: int
    """Packets that left."""


class OneWay(_OneWayRequired, total=False):
    """A block in one direction."""

    owad_all_ns: Optional[Estimate]
    """Mean delay of all packets (OWAD); absent unless times of all are kept at both interfaces."""
    owaj_ns: Optional[float]
    """One-way jitter of all packets (OWAJ), likewise."""
    sampled_mean_ns: Optional[float]
    """Mean delay of the selected packets."""


class _OpenflowControllerRequired(TypedDict):
    connected: bool
    """Whether it is connected."""
    controller: str
    """As in the lab file: `node:c0:6653`."""


class OpenflowController(_OpenflowControllerRequired, total=False):
    """A controller of an OpenFlow switch."""

    reason: Optional[str]
    """Why it is not."""


class OpenflowSlice(TypedDict):
    """A slice of an OpenFlow switch."""

    controllers: list[OpenflowController]
    """Its controllers."""
    entries: int
    """Entries of the switch that these take."""
    rules: int
    """Rules that it has."""
    slice: str
    """Its name."""


class _OpenflowStatusRequired(TypedDict):
    controllers: list[OpenflowController]
    """Its controllers."""
    datapath: str
    """Its datapath id: 16 hexadecimal digits."""
    entries: int
    """Flow entries."""
    running: bool
    """Whether its process lives and answers."""
    socket: str
    """The UNIX socket that speaks OpenFlow."""
    standalone: bool
    """Whether it forwards like an ordinary switch now, because no controller is connected."""


class OpenflowStatus(_OpenflowStatusRequired, total=False):
    """What an OpenFlow switch does now."""

    plane: Optional[str]
    """What moves its frames: `packet_sockets`, `tcx`, `clsact`."""
    slices: list[OpenflowSlice]
    """Its slices, which have controllers of their own."""
    slower: Optional[str]
    """Why a faster one is not used."""
    trouble: Optional[str]
    """Why it does not answer, or what went wrong last."""


Order = Literal["start", "stop"]
"""An order to a session."""


class Ospf(TypedDict):
    """OSPF on all interfaces."""

    area: str
    """The area, as FRR reads it."""
    dead: int
    """Seconds of silence after which a neighbour is dead."""
    hello: int
    """Seconds between hellos."""


_PacketSeenOtherWords = TypedDict("_PacketSeenOtherWords", {"from": "Optional[str]"}, total=False)


class _PacketSeenRequired(TypedDict):
    bytes: int
    """Its length on the wire."""
    link: str
    """The link."""
    packet: Exact
    """A number common to all sightings of the packet in one part of the recording."""
    summary: str
    """What it is, in words."""
    time_ns: Exact
    """When, in nanoseconds since 1970 UTC."""


class PacketSeen(_PacketSeenRequired, _PacketSeenOtherWords, total=False):
    """A packet at a link."""

    ports: Optional[list[int]]
    """Source and target port of TCP and UDP."""
    protocol: Optional[int]
    """The number of its protocol."""
    to: Optional[str]
    """Where it goes."""


class PairFamily(TypedDict):
    """Answers in one address family."""

    address: str
    """The address that was asked."""
    rtt_us: list[Optional[int]]
    """By request the round-trip time in microseconds; `null` where no answer came in time."""
    version: int
    """4 or 6."""


_PairReachabilityWords = TypedDict("_PairReachabilityWords", {"from": "str"})


class PairReachability(_PairReachabilityWords):
    """Answers of one node to another's echo requests."""

    families: list[PairFamily]
    """By address family that both have an address of."""
    to: str
    """The node that was asked."""


class PeerView(TypedDict):
    """Another host of a lab."""

    answers: bool
    """It answers; if not, links to it have no carrier."""
    host: str
    """Its name."""


class PictureFrame(TypedDict):
    """A frame around a node and the nodes inside of it."""

    height: int
    """Its height."""
    name: str
    """The outer node's name."""
    width: int
    """Its width."""
    x: int
    """Its left side."""
    y: int
    """Its upper side."""


class PlacedDoor(TypedDict):
    """The end of a link outside of the lab: `internet`, `host:IFACE` or `nowhere`."""

    height: int
    """The height of its box."""
    name: str
    """Its name."""
    role: DrawnRole
    """What it is."""
    width: int
    """The width of its box."""
    x: int
    """Its centre, from the left."""
    y: int
    """Its centre, from the top."""
    links: list[str]
    """The names of the links that end there; each `nowhere` has its own."""


class PlacedNode(TypedDict):
    """A node or switch in a picture."""

    height: int
    """The height of its box."""
    name: str
    """Its name."""
    role: DrawnRole
    """What it is."""
    width: int
    """The width of its box."""
    x: int
    """Its centre, from the left."""
    y: int
    """Its centre, from the top."""


class _PlanRequired(TypedDict):
    digest: str
    """Identifies the plan's content: equal plans have equal digests (hex, 16 digits). Changes of
    the running lab do not alter it.
    """
    hosts: str
    """The text of `/etc/hosts` in every node, while nodes have the addresses of the plan."""
    lab: str
    """The lab's name."""
    links: list[PlannedLink]
    """In the order of the file."""
    next_id: NodeId
    """The id of the next node to be added; not part of the digest."""
    nodes: list[PlannedNode]
    """In the order of the file, then those made later; parents before their children."""
    switches: list[PlannedSwitch]
    """In the order of the file."""


class Plan(_PlanRequired, total=False):
    """Every object of a lab."""

    record: Optional[PlannedRecord]
    """How all links are recorded while it is up."""
    scheme: Optional[Scheme]
    """How links made later get addresses and routes; not part of the digest. Absent in the view
    of a part of a lab.
    """
    slices: list[PlannedSlice]
    """Slices of OpenFlow switches, in the order of the file; their ports by name, see
    [`Plan::ports_of_slices`].
    """


class PlannedEndNodeForm(TypedDict):
    """An interface of a node."""

    node: PlannedEndNode


class PlannedEndPortForm(TypedDict):
    """A port of a bridge in the core namespace."""

    port: PlannedEndPort


class PlannedEndHostForm(TypedDict):
    """A port of a bridge that holds this interface of the host."""

    host: PlannedEndHost


class PlannedEndInternetForm(TypedDict):
    """The host's side of a NAT door."""

    internet: PlannedEndInternet


class PlannedEndNowhereForm(TypedDict):
    """An interface of the core namespace that belongs to no switch: what comes there ends."""

    nowhere: PlannedEndNowhere


PlannedEnd = Union[
    "PlannedEndNodeForm",
    "PlannedEndPortForm",
    "PlannedEndHostForm",
    "PlannedEndInternetForm",
    "PlannedEndNowhereForm",
]
"""One end of a link to make."""


class PlannedEndHost(TypedDict):
    """A port of a bridge that holds this interface of the host."""

    iface: str
    """Name of the host's interface."""


class PlannedEndInternet(TypedDict):
    """The host's side of a NAT door."""

    addresses: list[str]
    """The host's addresses on the segment, with its prefix length; they are the gateways."""


class PlannedEndNode(TypedDict):
    """An interface of a node."""

    interface: int
    """Index into the node's interfaces."""
    node: Slot
    """The node."""


class PlannedEndNowhere(TypedDict):
    """An interface of the core namespace that belongs to no switch: what comes there ends."""

    mac: Mac
    """Its locally administered MAC."""
    name: str
    """Its name in the core namespace: unique there, at most 15 bytes."""


class _PlannedEndPortRequired(TypedDict):
    mac: Mac
    """Its locally administered MAC."""
    name: str
    """The port's interface name in the core namespace: unique there, at most 15 bytes."""
    switch: int
    """Index into the plan's switches."""


class PlannedEndPort(_PlannedEndPortRequired, total=False):
    """A port of a bridge in the core namespace."""

    number: Optional[int]
    """Its number on a switch whose ports have numbers."""
    numbered: bool
    """The file gives that number."""


PlannedFailMode = Literal["secure", "standalone"]
"""What a switch does while no controller is connected (OpenFlow 1.3.5, section 6.3.2)."""


class _PlannedImpairmentsRequired(TypedDict):
    corrupt: Share
    """In how many packets one bit is flipped."""
    delay: Duration
    """How long every packet is held, after its transmission at `rate`."""
    duplicate: Share
    """How many packets are duplicated."""
    reorder: Share
    """How many packets overtake earlier ones by not being delayed."""


class PlannedImpairments(_PlannedImpairmentsRequired, total=False):
    """What one direction of a link does to its frames. The default does nothing."""

    drop: Optional[str]
    """Which packets are lost: those that an expression of pcap-filter(7) matches. The carrier
    compiles it and says of each packet whether it does ([`Packet::dropped`](crate::Packet)).
    """
    jitter: Optional[Jitter]
    """A random part of the delay, which is never negative: without a delay, about half of the
    packets have none.
    """
    limit: Optional[int]
    """How many packets are held at a time: those that wait for transmission and those that are
    delayed, copies included.
    """
    loss: Optional[Loss]
    """Which packets are lost."""
    mtu: Optional[int]
    """Frames whose network packet is longer are lost (as on a path with a smaller MTU)."""
    queue: Optional[Queue]
    """How much may wait for transmission at `rate`; a thousand packets by default."""
    rate: Optional[int]
    """Bits per second, counted over whole Ethernet frames without preamble and check sequence."""
    seed: Optional[Exact]
    """Seed of all random numbers; from the link's name by default."""


class PlannedLimits(TypedDict, total=False):
    """Limits on a node's processes together."""

    cpu_milli: Optional[int]
    """Thousandths of one CPU: 500 is half a CPU, 2000 two. At least 10."""
    memory: Optional[int]
    """Bytes of memory."""
    processes: Optional[int]
    """Number of processes and threads."""
    sockets: Optional[int]
    """Number of sockets made by `socket()` for IPv4 and IPv6."""
    weight: Optional[int]
    """Its weight when others compete for the CPU, where the default is 100; 1 to 10,000."""


class PlannedLink(TypedDict):
    """A link to make."""

    ends: list[PlannedEnd]
    """In the order of the file."""
    id: LinkId
    """Its identity on the machine for its lifetime."""
    impairments: list[PlannedImpairments]
    """Its impairments: index 0 for frames that the first end sends, 1 for the second."""
    mtu: int
    """MTU in bytes."""
    name: str
    """`A:eth0--B:eth1`, or the name by hand. A switch's end reads `s1`, a door's `host:eth1` or
    `internet`.
    """


_PlannedMirrorWords = TypedDict("_PlannedMirrorWords", {"from": "list[str]"})


class PlannedMirror(_PlannedMirrorWords):
    """A mirror session."""

    direction: PlannedMirrorDirection
    """Which of their frames are copied."""
    filter: str
    """The filter of frames: `vlan 7, tcp, port 80`; empty for all."""
    to: str
    """Name of the port that gets the copies."""


PlannedMirrorDirection = Literal["in", "out", "both"]
"""A direction seen from the switch: `in` are frames that the port sends, `out` those that it
gets.
"""


class _PlannedNodeRequired(TypedDict):
    charge_receive: bool
    """Whether receive work is charged to it: by default if it is protected or its CPU is
    limited.
    """
    env: list[list[str]]
    """Environment of its programs and of `exec`: pairs of name and value, sorted by name."""
    files: list[File]
    """Files put into it before anything runs."""
    forwarding: Forwarding
    """Whether it routes, and packets of which families: then it gets routes and is a default
    gateway.
    """
    limits: PlannedLimits
    """Limits on its processes together."""
    name: str
    """Unique in the lab, among nodes and switches. A host name: letters, digits, `-`, `_`, `.`;
    any length up to 253. A child's is `PARENT/NAME`; the last part is its host name.
    """
    protect: PlannedProtect
    """The budget of frames to it; more are dropped before they cost the node anything."""
    ready: Ready
    """When it counts as ready: all must hold."""
    run: list[Program]
    """Programs started in order once the network is up."""
    id: NodeId
    """Its identity on the machine for its lifetime: initially in the file's order, never reused."""
    interfaces: list[Interface]
    """In the order of the links; unnamed ones are `eth0, eth1, …`."""
    internet: bool
    """Whether it reaches the host's network by NAT, so that it needs the host's name servers."""
    routes: list[Route]
    """Routes to install, excluding connected ones."""
    sysctls: list[list[str]]
    """Sysctls as paths below `/proc/sys/`, in order of writing: netloom's own, then the file's.
    A path with a leading `-` is written if the kernel accepts it, and skipped otherwise. All
    are written before the node has interfaces, except those of one interface, which are
    written after.
    """


class PlannedNode(_PlannedNodeRequired, total=False):
    """A node to make."""

    binds: list[Bind]
    """Files and directories of the host that it sees, those around others before them."""
    children: Optional[int]
    """Maximum number of nodes in it, at any depth; if absent, it can have and manage none."""
    exec: list[Exec]
    """Commands to do when all nodes of the lab are ready."""
    health: Optional[Health]
    """A check that repeats."""
    hostname: Optional[str]
    """Its host name by hand."""
    ids: Optional[Ids]
    """Its users and groups, the lab's or its parent's among them; if absent, the best that the
    machine gives.
    """
    image: Optional[ImageUse]
    """The image that its root is made of instead."""
    kind: NodeKind
    """Its kind."""
    loopback: list[str]
    """Addresses of its loopback interface beside the usual ones."""
    parent: Optional[Slot]
    """The node it lives in, which comes before it."""
    ports: list[Published]
    """Ports of the host that lead to its programs."""
    privileged: bool
    """Whether its programs may mount, trace, load BPF programs and more."""
    root: Optional[str]
    """A directory to be the root of its file system; if absent, the host's under an overlay."""
    setup: list[list[str]]
    """Commands, as argument lists, that must succeed, in order, before programs run."""
    storage: Optional[int]
    """Bytes it may write into its file system; a quarter of the machine's memory by default."""


class _PlannedOpenflowRequired(TypedDict):
    controllers: list[str]
    """Controllers that it connects to."""
    fail: PlannedFailMode
    """What it does while no controller is connected."""
    max_entries: int
    """How many entries each of them may have."""
    tables: int
    """How many tables it has."""
    versions: list[str]
    """Versions it speaks, the lowest first."""


class PlannedOpenflow(_PlannedOpenflowRequired, total=False):
    """The options of a switch of kind `openflow`."""

    auxiliary: int
    """How many connections it makes to each controller beside the main one."""
    datapath: Optional[str]
    """Its number for controllers; a plan always has one, from the names of lab and switch by
    default.
    """
    tls: Optional[PlannedTls]
    """What it shows to controllers by TLS, and expects of them."""


class PlannedPool(TypedDict, total=False):
    """The prefixes that automatic addresses come from."""

    ipv4: Optional[str]
    """Default `10.0.0.0/8`; at most /16. Absent when the lab has no IPv4 (`ipv4: none`)."""
    ipv6: Optional[str]
    """Default `fd00::/8`; at most /32. Absent when the lab has no IPv6 (`ipv6: none`)."""
    variant: int
    """Which assignment of addresses from these: others than 0 are for labs whose addresses the
    host has.
    """


class _PlannedPortRequired(TypedDict):
    lock: list[str]
    """The only source addresses it may use, `02:00:00:00:00:01`; any if empty."""


class PlannedPort(_PlannedPortRequired, total=False):
    """The rules of a port."""

    number: Optional[int]
    """Its number; the switch chooses by default."""
    owner: Optional[str]
    """The user that may have it, by name or number."""
    vlan: Optional[PlannedVlan]
    """Its VLANs."""


class PlannedProtect(TypedDict, total=False):
    """A budget of traffic to a node, over all its interfaces; without a value there is no bound."""

    auto: Optional[bool]
    """Whether the budget follows what the node keeps up with; `packets` is then its upper bound.
    `false` holds for the node's doors, too, whose budgets otherwise follow by default.
    """
    bytes: Optional[int]
    """Bytes a second."""
    packets: Optional[int]
    """Frames a second; an unsegmented one (GSO) counts once."""


class PlannedRecord(TypedDict):
    """How every frame of every link is kept on disk."""

    keep: int
    """Most bytes on disk."""


class _PlannedShmRequired(TypedDict):
    ageing: int
    """Seconds after which an unseen address is forgotten."""
    arena: int
    """Bytes of the ring from the switch to each port: a power of two."""
    mirrors: list[PlannedMirror]
    """Mirror sessions."""
    mode: int
    """The mode of its socket, which decides which users may join."""
    ports: dict[str, PlannedPort]
    """Rules of ports, by name; names without a link's end are reserved for programs."""


class PlannedShm(_PlannedShmRequired, total=False):
    """The options of a switch of kind `shm`."""

    group: Optional[str]
    """The group of its socket, by name or number."""
    vde: PlannedVde
    """Whether and where clients of classic VDE join it."""


class _PlannedSliceRequired(TypedDict):
    controllers: list[str]
    """Its controllers."""
    name: str
    """Its name."""
    switches: dict[str, list[PlannedSliceSpace]]
    """By switch: its spaces there."""


class PlannedSlice(_PlannedSliceRequired, total=False):
    """A slice."""

    datapaths: dict[str, str]
    """By switch: the number that its controllers know the switch by, where the file gives one."""
    quota: PlannedSliceQuota
    """What it may use."""
    tls: Optional[PlannedTls]
    """TLS files: the certificate shown to controllers, and the authorities expected of them."""


_PlannedSlicePortsWords = TypedDict("_PlannedSlicePortsWords", {"from": "int"})


class PlannedSlicePorts(_PlannedSlicePortsWords):
    """Ports of TCP or UDP."""

    to: int
    """The last."""


class PlannedSliceQuota(TypedDict, total=False):
    """What a slice may use; on each switch, except for CPU time and messages."""

    buckets: Optional[int]
    """Buckets of all groups."""
    cpu_milli: Optional[int]
    """Thousandths of a CPU for its messages."""
    groups: Optional[int]
    """Groups."""
    memory: Optional[int]
    """Bytes of memory of the slicer for all of these."""
    messages: Optional[int]
    """Messages of its controllers a second."""
    meters: Optional[int]
    """Meters."""
    packet_ins: Optional[int]
    """Packets to its controllers a second."""
    rate: Optional[int]
    """Bits a second of its packets."""
    rules: Optional[int]
    """Flow entries."""


class PlannedSliceSpace(TypedDict, total=False):
    """Packets of a slice at a switch. All that is given must hold; of a list, one of its items."""

    end: PlannedSpaceEnd
    """One end, whether it is the source or the destination."""
    ethertype: Optional[int]
    """Their ethertype."""
    peer: PlannedSpaceEnd
    """The other end."""
    ports: Optional[list[str]]
    """The ports that they come in and go out by; none given: all."""
    protocol: Optional[int]
    """Their IP protocol."""
    vlans: list[PlannedSliceVlans]
    """Their VLANs; none given: any."""


class PlannedSliceVlansRangeForm(TypedDict):
    """These, with both ends."""

    range: PlannedSliceVlansRange


PlannedSliceVlans = Union[Literal["untagged"], "PlannedSliceVlansRangeForm"]
"""VLANs."""


_PlannedSliceVlansRangeWords = TypedDict("_PlannedSliceVlansRangeWords", {"from": "int"})


class PlannedSliceVlansRange(_PlannedSliceVlansRangeWords):
    """These, with both ends."""

    to: int
    """The last."""


class PlannedSpaceEnd(TypedDict, total=False):
    """One end of a conversation; of a list, one of its items."""

    macs: list[Mac]
    """Its MAC addresses."""
    prefixes: list[str]
    """The prefixes that its address is in."""
    tcp: list[PlannedSlicePorts]
    """Its TCP ports."""
    udp: list[PlannedSlicePorts]
    """Its UDP ports."""


class _PlannedSwitchRequired(TypedDict):
    bridge: str
    """The bridge's name in the core namespace: the switch's name if it fits, at most 15 bytes."""
    index: int
    """The bridge's interface index in the core namespace: from 2."""
    mac: Mac
    """Its locally administered MAC."""
    mtu: int
    """MTU in bytes."""
    name: str
    """Its name in the lab."""


class PlannedSwitch(_PlannedSwitchRequired, total=False):
    """A switch to make: a kernel bridge in the lab's core namespace, or a shared-memory switch,
    which has no interface of its own.
    """

    openflow: Optional[PlannedOpenflow]
    """The options of an OpenFlow switch; absent for other kinds."""
    shm: Optional[PlannedShm]
    """The options of a switch in shared memory; absent for other kinds."""
    stp: bool
    """Whether those of its ports that close loops are blocked, as a bridge's can be."""


class PlannedSwitchKind(TypedDict, total=False):
    """The stored form of a kind in plans and states: a bridge has no key."""

    openflow: Optional[PlannedOpenflow]
    """The options of an OpenFlow switch; absent for other kinds."""
    shm: Optional[PlannedShm]
    """The options of a switch in shared memory; absent for other kinds."""


class _PlannedTlsRequired(TypedDict):
    authorities: str
    """Certificates of authorities, one of which must have signed a controller's."""


class PlannedTls(_PlannedTlsRequired, total=False):
    """Files of the host for TLS, all in PEM."""

    certificate: Optional[str]
    """The switch's own certificate, and its private key: both or neither."""
    key: Optional[str]
    """That key."""
    name: Optional[str]
    """The name that a controller's certificate must be for; none: any."""


class PlannedVdeAtForm(TypedDict):
    """At this path from the root."""

    at: str
    """At this path from the root."""


PlannedVde = Union[Literal["none"], Literal["beside"], "PlannedVdeAtForm"]
"""The folder by which clients of classic VDE know a switch."""


class PlannedVlanAccessForm(TypedDict):
    """Untagged frames belong to this one, 1 to 4094."""

    access: int
    """Untagged frames belong to this one, 1 to 4094."""


class PlannedVlanTrunkForm(TypedDict):
    """Frames have tags."""

    trunk: PlannedVlanTrunk


class PlannedVlanQinqForm(TypedDict):
    """A customer's frames with the tags that they have, all in one VLAN."""

    qinq: PlannedVlanQinq


PlannedVlan = Union["PlannedVlanAccessForm", "PlannedVlanTrunkForm", "PlannedVlanQinqForm"]
"""The VLANs of a port."""


class _PlannedVlanQinqRequired(TypedDict):
    tpid: str
    """The type of the tag around: `0x88a8`."""
    vlan: int
    """The VLAN."""


class PlannedVlanQinq(_PlannedVlanQinqRequired, total=False):
    """A customer's frames with the tags that they have, all in one VLAN."""

    cvlans: Optional[str]
    """The only VLANs that the customer's tags may have: `1-3,7`, `all`."""


class _PlannedVlanTrunkRequired(TypedDict):
    allowed: str
    """VLANs that may pass: `1-3,7`, `all`."""


class PlannedVlanTrunk(_PlannedVlanTrunkRequired, total=False):
    """Frames have tags."""

    native: Optional[int]
    """The VLAN of untagged frames."""


class Point(TypedDict):
    """A direction of an interface."""

    direction: str
    """`ingress` or `egress`, as the interface sees it."""
    marking: bool
    """Whether packets are marked there."""
    netif: str
    """The interface."""


class PortChange(TypedDict, total=False):
    """A change of a port's rules: absent ones stay, `null` removes one."""

    gid: Optional[int]
    """The group that may have it."""
    learn: Optional[bool]
    """Whether others learn addresses from its frames."""
    macs: Optional[list[str]]
    """The only source addresses it may send from, as `02:00:00:00:00:01`; none or `null` allows
    any.
    """
    name: Optional[str]
    """The name its number is reserved for."""
    uid: Optional[int]
    """The user that may have it."""


PortKey = Union[int, str]
"""A port by its number or by its name."""


class PortRules(TypedDict, total=False):
    """The rules of one port; an absent one does not restrict it. They belong to its number,
    whichever port has it.
    """

    gid: Optional[int]
    """Only processes of this group may have the port; combined with `uid`, either suffices."""
    learn: bool
    """Whether others learn addresses from its frames; they do by default."""
    macs: list[str]
    """The only source addresses allowed on this port; empty allows any. Ports without such a
    list may not use these addresses.
    """
    name: Optional[str]
    """Reserved name: a client that joins by it gets this number, and no other client does."""
    uid: Optional[int]
    """Only this user may have the port; root and the switch's owner always may."""
    vlan: Optional[PortVlan]
    """Its VLANs. Without any it is an access port of VLAN 1 once another port has a VLAN rule."""


class PortVlanAccessForm(TypedDict):
    """Untagged frames only, all in this VLAN."""

    access: int
    """Untagged frames only, all in this VLAN."""


class PortVlanTrunkForm(TypedDict):
    """Tagged frames."""

    trunk: PortVlanTrunk


class PortVlanQinqForm(TypedDict):
    """A customer's frames with the tags that they have, all in this VLAN."""

    qinq: PortVlanQinq


PortVlan = Union["PortVlanAccessForm", "PortVlanTrunkForm", "PortVlanQinqForm"]
"""The VLANs of a port."""


class _PortVlanQinqRequired(TypedDict):
    vlan: int
    """The VLAN: on trunks they have its tag around them."""


class PortVlanQinq(_PortVlanQinqRequired, total=False):
    """A customer's frames with the tags that they have, all in this VLAN."""

    cvlans: Optional[str]
    """The only VLANs that the customer's tags may have, as `1-3,7`; without it all, and frames
    without a tag.
    """
    tpid: str
    """The type of the tag around: `0x88a8` by default, `0x8100`, `0x9100` or `0x9200`."""


class PortVlanTrunk(TypedDict, total=False):
    """Tagged frames."""

    allowed: str
    """The VLANs allowed with a tag, as `1-3,7`; all by default."""
    native: Optional[int]
    """The VLAN of untagged frames; without one they are dropped."""


class Positions(TypedDict):
    """Where everything of a lab stands in a picture. The origin is the upper left corner, and y
    grows downwards.
    """

    doors: list[PlacedDoor]
    """Ends of links outside of the lab."""
    frames: list[PictureFrame]
    """Frames around nodes with the nodes inside of them; outer ones come first."""
    height: int
    """Its height."""
    links: list[LinkCourse]
    """The links, in the order of the lab."""
    nodes: list[PlacedNode]
    """The nodes, in the order of the lab."""
    switches: list[PlacedNode]
    """The switches, in the order of the lab."""
    width: int
    """The page's width in pixels."""


Presence = Literal["here", "awaited", "free"]
"""Whether a port is occupied: `here`; `awaited`, it was connected when an earlier process of
this switch ended, and has not come back yet; `free`, only its rules exist.
"""


class _ProblemRequired(TypedDict):
    code: str
    """A word for programs, which stays the same: `no_such_node`, `in_use`, `invalid_parameter`,
    ...
    """
    detail: str
    """The operation, its object, and why it failed."""
    status: int
    """The HTTP status."""
    title: str
    """The meaning of the status."""


class Problem(_ProblemRequired, total=False):
    """Why a request failed (RFC 9457)."""

    object: Optional[Subject]
    """The object, if it is a single one."""
    problems: list[Wrong]
    """The errors in a body whose fields are checked one by one, at most 1000."""


class _ProgramRequired(TypedDict):
    command: list[str]
    """The argument list; never empty. No shell."""
    restart: Restart
    """What to do when it ends."""


class Program(_ProgramRequired, total=False):
    """A program that a node's init starts and watches."""

    group: Optional[str]
    """Its group, by number or by a name in the node's own /etc/group; its user's when `None`."""
    makes_workdir: bool
    """Whether that directory is made if it is missing, as one of an image is."""
    stop_signal: StopSignal
    """The signal that asks it to end."""
    user: Optional[str]
    """Its user, by number or by a name in the node's own /etc/passwd; root when `None`."""
    workdir: Optional[str]
    """The directory in which it starts, an absolute path in the node; / when `None`."""


class _ProgramViewRequired(TypedDict):
    command: list[str]
    """Its argument list."""
    restarts: int
    """How often it was started again."""


class ProgramView(_ProgramViewRequired, total=False):
    """How a program is."""

    ended: bool
    """It has ended and is not started again."""
    exit_code: Optional[int]
    """How it ended last, as a shell shows it."""
    pid: Optional[int]
    """Its process in the node, while it runs."""
    restart_in_ms: Optional[int]
    """When it is started again, in milliseconds; `null` where it runs or has ended for good."""
    signal: Optional[int]
    """The signal that ended it, where one did."""


class _ProtectViewRequired(TypedDict):
    dropped_bytes: int
    """Bytes dropped."""
    dropped_packets: int
    """Frames dropped."""
    passed_bytes: int
    """Bytes that came through."""
    passed_packets: int
    """Frames that came through."""
    senders: list[SenderView]
    """The same by sender, as far as the first hop shows."""


class ProtectView(_ProtectViewRequired, total=False):
    """Flood protection of a node: budget, and totals since it was set."""

    auto: bool
    """Whether the budget follows what the node keeps up with."""
    auto_packets: Optional[int]
    """Frames a second that it is now, where it follows; `null` while the node keeps up with
    everything.
    """
    bytes: Optional[int]
    """Bytes a second."""
    packets: Optional[int]
    """Frames a second."""


class _PublishedRequired(TypedDict):
    port: int
    """The port of the host."""
    protocol: Transport
    """What is carried."""
    to: int
    """The port of a program in the node."""


class Published(_PublishedRequired, total=False):
    """A port of the host that leads to one of a node."""

    address: Optional[str]
    """The address of the host; if absent, its loopback, in both families."""


PullWhen = Literal["missing", "always", "never"]
"""When an image is fetched."""


class QueuePacketsForm(TypedDict):
    """This many packets."""

    packets: int
    """This many packets."""


class QueueTimeForm(TypedDict):
    """As much as is transmitted within this time."""

    time: Duration
    """As much as is transmitted within this time."""


Queue = Union["QueuePacketsForm", "QueueTimeForm"]
"""How much may wait for transmission."""


class RandomLoss(TypedDict):
    """Random loss."""

    correlation: Share
    """How much a packet's fate depends on the previous one."""
    share: Share
    """How many packets."""


class Reachability(TypedDict):
    """Which node reaches which."""

    families: list[Family]
    """A row a sender, a cell a receiver; the diagonal is `null`."""
    nodes: list[str]
    """The nodes, in the order of rows and columns."""


class _ReadyRequired(TypedDict):
    files: list[str]
    """Each of these paths exists in the node."""
    tcp: list[int]
    """A TCP socket listens on each of these ports."""
    timeout: Duration
    """The time limit. Default 30 s."""


class Ready(_ReadyRequired, total=False):
    """When a node counts as ready: all must hold."""

    agent: bool
    """The agent of a virtual machine's guest listens."""
    console: Optional[str]
    """A virtual machine's console has shown this text."""
    exec: Optional[list[str]]
    """This command exits with 0."""


class _RecordRequired(TypedDict):
    program: int
    """Number of the program in the node's `run:`; the commands of `setup:` are numbered after
    those.
    """
    text: str
    """The output without the line ending."""
    time_ns: Exact
    """Unix time in nanoseconds."""


class Record(_RecordRequired, total=False):
    """One line of a program's output."""

    name: Optional[str]
    """The program's name if the node has several. Not stored in the file: readers add it."""


class _RepairedRequired(TypedDict):
    nodes: list[str]
    """Nodes that were recreated."""


class Repaired(_RepairedRequired, total=False):
    """What making the lab whole again did."""

    drift: list[str]
    """Manual changes to living nodes and switches made without netloom, an object a line. They
    were reverted, unless they were to be kept.
    """
    notes: list[str]
    """Commands of `exec` in them that failed and may, in the same form."""
    troubles: list[str]
    """Programs of theirs that ended with an error: node, program, how, and its last lines."""


Restart = Literal["never", "on_failure", "always"]
"""When a node's init restarts a program that ends: never, on failure (its exit status was not
0), or always.
"""


class _RouteRequired(TypedDict):
    interface: int
    """The outgoing interface: index into the node's interfaces."""
    to: str
    """Destination, `0.0.0.0/0` or `::/0` for a default route."""


class Route(_RouteRequired, total=False):
    """A route of a node."""

    also: list[NextHop]
    """Further next hops of equal cost: each flow takes one of them all."""
    via: Optional[str]
    """Next hop; on-link if absent."""


class _RouterRequired(TypedDict):
    frr: bool
    """Whether FRR runs in it."""
    grace: int
    """Seconds that unconfirmed routes stay."""
    separate: bool
    """Whether packets pass beside the node."""


class Router(_RouterRequired, total=False):
    """The options of a node of kind `router`."""

    bgp: Optional[Bgp]
    """BGP."""
    config: dict[str, str]
    """Files of daemons, by their names."""
    ospf: Optional[Ospf]
    """OSPF."""


class SampledPacket(TypedDict):
    """A packet whose time was kept."""

    hash: int
    """The hash that selected it."""
    identity: int
    """Its identity at other points."""
    time: Exact
    """When it was seen."""


class SampledPackets(TypedDict):
    """Samples of a block."""

    crowded: bool
    """Whether packets with equal hashes had to be dropped."""
    hash_length: int
    """Number of low hash bits guaranteed equal."""
    samples: list[SampledPacket]
    """In time order."""
    threshold: int
    """Exclusive upper bound of all samples' distances, 0 to 2^32: lists are compared at the
    lower one.
    """
    unkept: int
    """Selected packets without room to be kept."""


class SampledTwoWay(TypedDict):
    """ARTT and TWAJ of the mean delays of selected packets."""

    artt_ns: float
    """Mean round-trip time."""
    twaj_ns: float
    """Two-way jitter."""


class Schedule(TypedDict):
    """When blocks begin and end."""

    guard: int
    """How long after its end a block is still counted."""
    period: int
    """The length of a block."""
    start: Exact
    """When block 0 begins."""


class _SchemeRequired(TypedDict):
    blocks: list[list[Union[int, str]]]
    """Prefixes that contain the links of one node, with its id first, in order of allocation."""
    ecmp: bool
    """Whether routers use all shortest paths of equal cost."""
    next_link: LinkId
    """The id of the next link."""
    pool: PlannedPool
    """The pools of automatic addresses."""
    routed_by_hand: list[NodeId]
    """Ids of nodes with routes given by hand."""
    routing: bool
    """Whether routes are computed."""
    switches: dict[str, list[str]]
    """Prefixes of switches' segments, by the switch's name."""


class Scheme(_SchemeRequired, total=False):
    """How addresses and routes of a lab are chosen."""

    file: Optional[str]
    """The lab file that the plan was made of; absent where a version made it that kept none.
    Changes of the running lab do not alter it.
    """
    numbered_as: dict[str, Forwarding]
    """Nodes whose `forwarding` has changed since the lab was first numbered, by name, as it was
    then.
    """


class SenderView(TypedDict):
    """What one sender sent to a protected node."""

    dropped_bytes: int
    """Bytes dropped."""
    dropped_packets: int
    """Frames dropped."""
    passed_packets: int
    """Frames that came through."""
    sender: str
    """`NODE:IFACE`, or another end of a link."""


class _SessionClockRequired(TypedDict):
    name: str
    """`tai` or `monotonic`."""
    tai_offset_s: int
    """TAI minus Unix time in seconds; 0 if nothing has set it."""
    to_unix_ns: Exact
    """Offset to add to a time for Unix time; for the monotonic clock, as of now."""


class SessionClock(_SessionClockRequired, total=False):
    """Data that others need to compare times."""

    stepped_at: Optional[Exact]
    """Time of the last clock step since the session was prepared."""


SessionState = Literal["prepared", "running", "ended"]
"""State of a session: ready to start, counting, or ended, so that its results can be read."""


class _SessionStatusRequired(TypedDict):
    blocks: int
    """Total number of its blocks."""
    flows: list[int]
    """The ids of its filters."""
    guard: int
    """How long after its end a block is still counted, in nanoseconds."""
    id: int
    """Its number."""
    period: int
    """The length of a block in nanoseconds."""
    points: list[Point]
    """Where it measures."""
    state: SessionState
    """Its state."""


class SessionStatus(_SessionStatusRequired, total=False):
    """All about a session except its results."""

    start: Optional[Exact]
    """Begin of block 0, in nanoseconds of the session's clock; `null` before the start."""


class SessionSummary(TypedDict):
    """A session in a list."""

    id: int
    """Its number."""
    state: SessionState
    """Its state."""


class SetState(TypedDict):
    """The requested state of a session."""

    state: Order
    """`start` or `stop`."""


Share = int
"""A probability in parts of 10^9."""


class SliceControllerShown(TypedDict, total=False):
    """A controller of a slice."""

    attempts: int
    """Attempts since it answered last."""
    connected: bool
    """Whether it is connected, and has said hello."""
    namespace: Optional[str]
    """The namespace that it is reached from."""
    reason: Optional[str]
    """Why it is not connected."""
    target: str
    """Where it is."""


class SlicePortShown(TypedDict, total=False):
    """A port of a virtual switch."""

    name: str
    """Its name."""
    number: int
    """The number that the slice's controllers see."""
    real: int
    """The number that it has at the real switch."""


class SliceRefusalShown(TypedDict, total=False):
    """A refusal."""

    at: int
    """When, in seconds since 1970."""
    example: Optional[str]
    """A packet with which it would touch another slice, or leave its own."""
    words: str
    """The request, and why it was refused."""


class SliceResumedShown(TypedDict, total=False):
    """How a slicer went on with a switch that an earlier process knew."""

    kept: int
    """Entries of the switch that were left as they were."""
    lost: int
    """Rules that they had no longer."""
    made: int
    """Entries that were made, or changed."""
    removed: int
    """Entries that were removed."""
    rules: int
    """Rules that slices had as before."""


class SliceShown(TypedDict, total=False):
    """A slice."""

    cpu_us: int
    """Time of the slicer that its messages took, in microseconds."""
    held: int
    """How often it was not read for a while, because a quota was used up."""
    messages: int
    """Messages that were read of it."""
    name: str
    """Its name."""
    switches: list[SliceVirtualShown]
    """Its virtual switches."""


class SliceVirtualShown(TypedDict, total=False):
    """A virtual switch."""

    buckets: int
    """Buckets of these at the real switch."""
    controllers: list[SliceControllerShown]
    """Its controllers."""
    datapath: Optional[str]
    """The number that the slice's controllers see, if the switch is connected."""
    entries: int
    """Entries of the real switch that these take."""
    groups: int
    """Groups that it has."""
    lldp_received: int
    """LLDP packets of it that came back, on any switch."""
    memory: int
    """Bytes of the slicer's memory that all of these take."""
    meters: int
    """Meters that it has."""
    most_buckets: int
    """How many buckets all of them may have."""
    most_entries: Optional[int]
    """How many entries of the real switch it may take."""
    most_groups: int
    """How many groups it may have."""
    most_memory: int
    """How many bytes of the slicer's memory all of these may take."""
    most_meters: int
    """How many meters it may have."""
    packet_ins: int
    """Packets sent to its controllers."""
    packet_ins_dropped: int
    """Packets that were not, because of its quota."""
    packet_outs: int
    """Packets that its controllers sent."""
    ports: list[SlicePortShown]
    """Its ports."""
    refusals: list[SliceRefusalShown]
    """The last refusals, the latest last."""
    refused: int
    """Messages that were refused."""
    rules: int
    """Rules that it has."""
    socket: Optional[str]
    """Where it can be spoken with."""
    switch: str
    """The name of the real switch."""


class SlicedSwitchShown(TypedDict, total=False):
    """A switch."""

    connected: bool
    """Whether it is connected, and has identified itself."""
    datapath: Optional[str]
    """Its number, if it is connected or known by it."""
    name: str
    """Its name."""
    peer: Optional[str]
    """The other end of its connection."""
    resumed: Optional[SliceResumedShown]
    """What became of what an earlier process had on it; none if it began with an empty switch."""
    version: Optional[str]
    """The version of OpenFlow."""


class SlicesShown(TypedDict, total=False):
    """State of a slicer."""

    cpu_us: int
    """CPU time of its process in microseconds."""
    dropped: int
    """Connections closed because of what they did."""
    left_out: int
    """Packets that controllers were not sent because they do not read."""
    name: str
    """Its name."""
    pid: int
    """Its process."""
    since: int
    """When it began, in seconds since 1970."""
    slices: list[SliceShown]
    """Slices."""
    switches: list[SlicedSwitchShown]
    """Switches that are sliced."""
    trouble: Optional[str]
    """What went wrong last, if it still is."""


Slot = int
"""The place of a node in the plan's nodes: an index."""


class Spot(TypedDict):
    """A spot, a direction of an interface, and counts of frames that are in no block there."""

    counts: SpotCounts
    """Frames that are in no block."""
    direction: str
    """`ingress` or `egress`, as the interface sees it."""
    marking: str
    """Whether packets are marked: `off`, `single` or `double`."""
    netif: str
    """The interface."""


class SpotCounts(TypedDict):
    """Counts of frames that are in no block."""

    other: int
    """Frames that are not IP or lack headers."""
    outside: int
    """Packets with the mark of a block that cannot be counted any more or yet."""
    overflow: int
    """Of these, frames for which the cache had no room. They are counted correctly nevertheless."""
    searched: int
    """Frames whose filter was missing from the cache and was searched."""
    unmarked: int
    """Packets of a filter with neither mark."""
    unmatched: int
    """Frames that no filter matches."""
    unwritten: int
    """Packets that could not be marked."""


_StepOtherWords = TypedDict("_StepOtherWords", {"with": "list[str]"}, total=False)


class _StepRequired(TypedDict):
    act: Act
    """What is done."""
    ends: bool
    """Whether something that may be in use ends: an object, or a program that is restarted or
    ended.
    """
    name: str
    """Its name; of routes the nodes."""


class Step(_StepRequired, _StepOtherWords, total=False):
    """One step."""

    changes: list[KeyChange]
    """The keys that change, or for which it is recreated: 100 at most, then one with an empty
    key that tells how many more there are.
    """
    drift: bool
    """Whether it reverts manual changes made since the file was last applied."""
    kind: Optional[KindOfPart]
    """To what type of object; absent for routes that follow from other changes."""


StopSignal = Literal["hup", "int", "kill", "quit", "term", "usr1", "usr2", "winch"]
"""A signal that programs know as a request to end, or to end and finish what they are doing."""


class _StorageRequired(TypedDict):
    disk_bus: Bus
    """How the guest sees the disk."""
    seed: bool
    """Whether a machine with a disk gets one for cloud-init."""


class Storage(_StorageRequired, total=False):
    """What a machine has of disks and firmware."""

    disk: Optional[str]
    """The disk's file."""
    firmware: Optional[str]
    """QEMU's firmware."""
    keep: Optional[str]
    """The file that keeps the disk's writes."""
    user_data: Optional[str]
    """User data for cloud-init."""


class Subject(TypedDict):
    """The object of a problem."""

    kind: str
    """`lab`, `node`, `link`, `switch`, `slice`, `feature`, `parameter`, `session`, `filter`,
    `interface` or `end` (of a link).
    """
    name: str
    """Its name."""


class SwitchAnswerShownForm(TypedDict):
    """State of the switch."""

    shown: SwitchShown
    """State of the switch."""


class SwitchAnswerMacsForm(TypedDict):
    """Learned addresses of ports."""

    macs: list[MacTable]
    """Learned addresses of ports."""


class SwitchAnswerMirrorForm(TypedDict):
    """The number of the new mirror session."""

    mirror: int
    """The number of the new mirror session."""


SwitchAnswer = Union[
    Literal["done"],
    "SwitchAnswerShownForm",
    "SwitchAnswerMacsForm",
    "SwitchAnswerMirrorForm",
]
"""A switch's answer to a request that it carried out."""


class _SwitchPortRequired(TypedDict):
    checksums: bool
    """Whether it accepts frames with partial checksums."""
    counters: dict[str, int]
    """Its counters, by name: `received_frames`, `sent_bytes`, `dropped_stalled` and others."""
    edges_in: int
    """Edges on which it receives."""
    edges_out: int
    """Edges on which it sends."""
    memory_kib: int
    """Memory of its rings and its table in KiB: those it made, and the switch's ring to it."""
    name: str
    """Its name."""
    number: int
    """Its number."""
    presence: Presence
    """Whether it is occupied."""
    rules: PortRules
    """Its rules."""
    super_frames: bool
    """Whether it accepts super-frames."""


class SwitchPort(_SwitchPortRequired, total=False):
    """State of a port."""

    pid: Optional[int]
    """The process that joined; absent if the switch cannot see it."""
    since: Optional[int]
    """When it joined this process of the switch, in seconds since 1970."""
    uid: Optional[int]
    """Its user."""


class SwitchRequestMacsForm(TypedDict):
    """Learned addresses of its ports. Answered by `macs`."""

    macs: SwitchRequestMacs


class SwitchRequestSetPortForm(TypedDict):
    """Changes rules of a port, occupied or not. Answered by `done`."""

    set_port: SwitchRequestSetPort


class SwitchRequestSetVlanForm(TypedDict):
    """Sets the VLANs of a port, or removes its rule. Answered by `done`."""

    set_vlan: SwitchRequestSetVlan


class SwitchRequestAddMirrorForm(TypedDict):
    """Starts a mirror session. Answered by `mirror`."""

    add_mirror: MirrorSession
    """Starts a mirror session. Answered by `mirror`."""


class SwitchRequestDeleteMirrorForm(TypedDict):
    """Ends a mirror session. Answered by `done`."""

    delete_mirror: SwitchRequestDeleteMirror


class SwitchRequestDisconnectForm(TypedDict):
    """Disconnects a port from the switch. Its owner may join again. Answered by `done`."""

    disconnect: SwitchRequestDisconnect


SwitchRequest = Union[
    Literal["show"],
    "SwitchRequestMacsForm",
    "SwitchRequestSetPortForm",
    "SwitchRequestSetVlanForm",
    "SwitchRequestAddMirrorForm",
    "SwitchRequestDeleteMirrorForm",
    "SwitchRequestDisconnectForm",
    Literal["stop"],
]
"""Request to a shared-memory switch.

Root and the user it runs as may send requests.
"""


class SwitchRequestDeleteMirror(TypedDict):
    """Ends a mirror session. Answered by `done`."""

    mirror: int
    """Its number."""


class SwitchRequestDisconnect(TypedDict):
    """Disconnects a port from the switch. Its owner may join again. Answered by `done`."""

    port: PortKey
    """The port."""


class SwitchRequestMacs(TypedDict, total=False):
    """Learned addresses of its ports. Answered by `macs`."""

    port: Optional[PortKey]
    """The only port to show; the switch itself is 0."""


class SwitchRequestSetPort(TypedDict):
    """Changes rules of a port, occupied or not. Answered by `done`."""

    change: PortChange
    """The change."""
    port: PortKey
    """The port."""


class _SwitchRequestSetVlanRequired(TypedDict):
    port: PortKey
    """The port."""


class SwitchRequestSetVlan(_SwitchRequestSetVlanRequired, total=False):
    """Sets the VLANs of a port, or removes its rule. Answered by `done`."""

    vlan: Optional[PortVlan]
    """The VLANs; `null` removes the rule."""


class SwitchShown(TypedDict):
    """State of a shared-memory switch. Counters are totals since its process was started."""

    cpu_us: int
    """CPU time of its process, in microseconds."""
    edges: int
    """Edges between ports."""
    expelled: int
    """Clients dropped because of invalid data or unread messages."""
    joins: int
    """Joins since its start."""
    memory_kib: int
    """Memory of all rings and tables of its ports, in KiB."""
    mirrors: dict[str, MirrorSession]
    """Mirror sessions by number."""
    pid: int
    """Its pid, in its own PID namespace."""
    ports: list[SwitchPort]
    """Its ports by number, including those that only have rules."""
    refused: int
    """Joins refused since its start."""
    relay: dict[str, int]
    """The switch's own counters, by name: frames that it relayed because no edge carried them."""
    since: int
    """When it was started, in seconds since 1970."""
    uid: int
    """The user it runs as."""
    vlans: bool
    """Whether VLANs are separated: as soon as one port has a VLAN rule."""


class _SwitchStatusRequired(TypedDict):
    bridge: str
    """The bridge in the lab's core namespace."""
    kind: str
    """`kernel`, `shm` (in shared memory) or `openflow`."""
    links: list[str]
    """Names of the links that end in it."""
    name: str
    """Its name."""


class SwitchStatus(_SwitchStatusRequired, total=False):
    """A switch."""

    openflow: Optional[OpenflowStatus]
    """What an OpenFlow switch does now; absent for other kinds."""
    vde: Optional[str]
    """The folder by which clients of classic VDE join a switch in shared memory; absent where it
    offers none.
    """


class _TimesRequired(TypedDict):
    packets: int
    """Number of packets."""
    sum: str
    """Sum of their times since the block's origin, as text: it may have more bits than numbers
    of JSON.
    """


class Times(_TimesRequired, total=False):
    """Packet count and times."""

    first: Optional[Exact]
    """The earliest."""
    last: Optional[Exact]
    """The latest."""
    mean: Optional[Exact]
    """Mean of their times (ATS), rounded down to a nanosecond. Absent if the program keeps no
    times of these packets.
    """


class Traffic(TypedDict):
    """Totals of an interface."""

    rx_bytes: int
    """Bytes received."""
    rx_lost: int
    """Frames lost at reception: those for which its receive queue had no room, as the switch's
    port or the door before it counts them. Between two nodes these count as `tx_lost` of the
    other one. Frames that no protocol of the node takes are not lost.
    """
    rx_packets: int
    """Frames received."""
    tx_bytes: int
    """Bytes sent."""
    tx_lost: int
    """Frames lost at sending: dropped or broken."""
    tx_packets: int
    """Frames sent."""


Transport = Literal["tcp", "udp"]
"""What is carried."""


class _TroubledNodeRequired(TypedDict):
    name: str
    """Its name."""
    state: NodeState
    """Where it stands."""


class TroubledNode(_TroubledNodeRequired, total=False):
    """A node that is not up."""

    reason: Optional[str]
    """What it waits for, why it has failed, or which program ended how; `null` where its init
    has ended.
    """


class TwoWay(TypedDict, total=False):
    """ARTT and TWAJ of a path and its way back."""

    artt_all_ns: Optional[Estimate]
    """Mean round-trip time of all packets; absent unless times of all are kept at each end."""
    sampled: Optional[SampledTwoWay]
    """The same of the selected packets; absent unless delays of some are known in both
    directions.
    """
    twaj_all_ns: Optional[Estimate]
    """Two-way jitter of all packets, likewise."""


class TwoWayBlock(TypedDict):
    """A block between two interfaces."""

    back: OneWay
    """Packets that left by the second interface and arrived by the first."""
    begin: Exact
    """When it began."""
    block: int
    """Its number in this session."""
    both: TwoWay
    """ARTT = OWAD there + OWAD back; TWAJ = OWAD there - OWAD back."""
    complete: bool
    """Whether the block is complete at both interfaces."""
    reasons: list[str]
    """Why it is not complete, in words."""
    there: OneWay
    """Packets that left by the first interface and arrived by the second."""


class _TwoWaysRequired(TypedDict):
    blocks: list[TwoWayBlock]
    """Closed blocks that are kept, by number."""
    clock: SessionClock
    """The clock of all times."""
    probe: str
    """The name of its probe."""
    session: int
    """The session's number."""
    state: SessionState
    """Its state."""


class TwoWays(_TwoWaysRequired, total=False):
    """Two interfaces compared, block by block. Times are nanoseconds."""

    schedule: Optional[Schedule]
    """The block schedule; none before the start."""


class WaitsView(TypedDict):
    """How long something waited for a processor."""

    kind: BehindKind
    """A process or a node."""
    name: str
    """Its name."""
    turns: int
    """How often it got a processor."""
    wait_ns: Exact
    """All waits together, in nanoseconds."""


WhyBasis = Literal["probe", "facts", "now"]
"""What a cause rests on."""


class _WhyCauseRequired(TypedDict):
    basis: WhyBasis
    """What it rests on."""
    direction: WhyDirection
    """On which way."""
    evidence: list[str]
    """What was found."""
    name: WhyCauseName
    """What it is."""
    place: str
    """Where: `node r1`, `link r1:eth0--s1`, `switch s1`."""
    text: str
    """In a sentence."""


class WhyCause(_WhyCauseRequired, total=False):
    """A cause."""

    mend: Optional[str]
    """A command that would let the flow pass, where there is a single one."""


WhyCauseName = Literal[
    "node_dead",
    "interface_missing",
    "interface_down",
    "no_carrier",
    "cable_out",
    "wire_stopped",
    "wire_loss",
    "wire_partial_loss",
    "wire_rate",
    "wire_delay",
    "mtu_too_small",
    "address_missing",
    "wrong_address",
    "wrong_gateway",
    "no_route",
    "daemon_ended",
    "bgp_session",
    "route_not_advertised",
    "route_not_accepted",
    "next_hop_unreachable",
    "ospf_silent",
    "ospf_adjacency",
    "blackhole_route",
    "unreachable_route",
    "prohibit_route",
    "forwarding_off",
    "reverse_path_filter",
    "martian_source",
    "ttl_ended",
    "routing_loop",
    "nft_drop",
    "nft_reject",
    "translated_away",
    "neighbour_unknown",
    "neighbour_wrong",
    "vlan_mismatch",
    "address_locked",
    "address_twice",
    "neighbour_silent",
    "interface_enslaved",
    "refusing_rule",
    "queue_drops",
    "flow_entry",
    "flow_miss",
    "no_controller",
    "flow_meter",
    "protect_budget",
    "conntrack_full",
    "wrong_resolver",
    "nothing_listens",
    "listens_elsewhere",
    "backlog_full",
    "program_stopped",
    "buffer_full",
    "echo_ignored",
]
"""The name of a cause. It never changes, so that programs can rely on it."""


WhyDirection = Literal["there", "back"]
"""On which way."""


class WhyHop(TypedDict):
    """An interface on the way."""

    name: str
    """`h1:eth0`, or `s1/h1:eth0` for the port of switch `s1` to it."""
    out: bool
    """Whether packets leave there; else they come in."""
    seen: WhySighting
    """What was seen there."""


WhyProtocol = Literal["icmp", "tcp", "udp"]
"""What a flow's packets are."""


class WhyRecorded(TypedDict):
    """How many packets a recording has of a flow."""

    answers: int
    """Packets of the receiver for the sender."""
    lost: int
    """Those of them that did not come to a link of the receiver."""
    lost_answers: int
    """Those of them that did not come to a link of the sender."""
    packets: int
    """Its packets."""


_WhyReportWords = TypedDict("_WhyReportWords", {"from": "str"})


class _WhyReportRequired(TypedDict):
    causes: list[WhyCause]
    """What stops it, most certain first. Several are independent of each other: all must go."""
    destination: str
    """The receiver's address."""
    hindrances: list[WhyCause]
    """What stops some packets, or large ones, on a way that others pass."""
    missing: list[str]
    """What would have to be known to say more."""
    probe: str
    """What was sent, in words."""
    protocol: WhyProtocol
    """What is sent."""
    source: str
    """The sender's address."""
    there: WhyWay
    """The way of the flow."""
    to: str
    """The node that is to receive."""
    verdict: WhyVerdict
    """Whether it arrives."""


class WhyReport(_WhyReportRequired, _WhyReportWords, total=False):
    """Why a flow does not arrive, or that it does."""

    back: Optional[WhyWay]
    """The way of the answers; `null` where packets do not come as far as that it matters."""
    port: Optional[int]
    """The receiver's port; `null` for echo requests."""
    recorded: Optional[WhyRecorded]
    """What was found in the recording, where the question was about the past; nothing is sent
    then.
    """


WhySighting = Literal["packet", "resolution", "nothing", "not_watched"]
"""What was seen of the probe at a place."""


class _WhyTranslatedRequired(TypedDict):
    after: str
    """What they are from there on."""
    before: str
    """What packets were, as `10.0.0.2:49152 -> 192.0.2.1:80`."""
    node: str
    """The node that does it."""


class WhyTranslated(_WhyTranslatedRequired, total=False):
    """Where packets get other addresses or ports."""

    rule: Optional[str]
    """The rule; absent for answers, which connection tracking translates."""


WhyVerdict = Literal["answered", "delivered", "stopped", "not_known"]
"""Whether the flow arrives."""


class _WhyWayRequired(TypedDict):
    hops: list[WhyHop]
    """In order."""


class WhyWay(_WhyWayRequired, total=False):
    """A way."""

    last: Optional[str]
    """The last that saw the probe."""
    lost: Optional[str]
    """The first that did not."""
    translated: list[WhyTranslated]
    """Where packets get other addresses or ports."""


class WireView(TypedDict):
    """A wire in a link."""

    directions: list[Optional[DirectionView]]
    """From the first end to the second, and back; `null`: nothing is impaired that way."""
    restarts: int
    """How often its process was started again."""
    state: str
    """`running`, or why it does not; the link carries nothing then."""


class Wrong(TypedDict):
    """An error in a field of a body."""

    message: str
    """The error, and what is allowed."""
    path: str
    """The field, such as `filters[1].src_ip`; empty for the body itself."""
