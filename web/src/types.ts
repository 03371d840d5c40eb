// What the lab's API answers, as far as the page reads it. docs/api/openapi.json describes all of it.

export interface Impairments {
  [key: string]: string;
}

export interface Direction {
  from: string;
  impairments: Impairments;
  offered_packets: number;
  sent_packets: number;
  duplicated: number;
  corrupted: number;
  reordered: number;
  held_packets: number;
  lost: Record<string, number>;
  late_us: [number, number];
}

export interface Wire {
  state: string;
  restarts: number;
  directions: (Direction | null)[];
}

export interface LinkStatus {
  name: string;
  ends: [string, string];
  up: boolean;
  down: boolean;
  wire: Wire | null;
  lost: { from: string; cause: string; packets: number }[];
}

export interface Program {
  command: string[];
  pid: number | null;
  exit_code: number | null;
  signal: number | null;
  ended: boolean;
  restarts: number;
  restart_in_ms: number | null;
}

export interface Interface {
  name: string;
  link: string;
  mac: string;
  mtu: number;
  addresses: string[];
  up: boolean | null;
  traffic: { rx_bytes: number; tx_bytes: number; rx_lost: number; tx_lost: number } | null;
}

export type NodeState = "starting" | "up" | "degraded" | "failed" | "dead";

export interface NodeStatus {
  name: string;
  alive: boolean;
  state: NodeState;
  reason: string | null;
  pid: number | null;
  forwarding: boolean | string;
  privileged: boolean;
  ids: string | null;
  parent: string | null;
  cpu_ns: string | null;
  memory: number | null;
  processes: number | null;
  sockets: number | null;
  limits: {
    cpu_milli: number | null;
    memory: number | null;
    processes: number | null;
    sockets: number | null;
  };
  drops: { cause: string; packets: number }[];
  addresses: string[];
  programs: Program[];
  health: { state: string; failures: number; reason: string | null } | null;
  interfaces: Interface[];
}

export interface SwitchStatus {
  name: string;
  kind: string;
  bridge: string;
  links: string[];
  openflow?: {
    running: boolean;
    datapath: string;
    plane: string | null;
    entries: number;
    standalone: boolean;
    trouble: string | null;
    controllers: { controller: string; connected: boolean; reason: string | null }[];
    slices?: { slice: string }[];
  };
  vde?: string;
}

export interface LabFacts {
  name: string;
  state: string;
  pid: number;
  since: number;
}

export interface NodeCounters {
  name: string;
  cpu_ns: string | null;
  memory: number | null;
  processes: number | null;
  sockets: number | null;
  lost: number;
}

export interface LinkCounters {
  name: string;
  packets: [number, number];
  bytes: [number, number];
  lost: [number, number];
}

export interface LabEvent {
  id: string;
  kind: "snapshot" | "change";
  missed?: boolean;
  time_ns: string;
  lab?: LabFacts;
  nodes?: NodeStatus[];
  switches?: SwitchStatus[];
  links?: LinkStatus[];
  gone?: { nodes?: string[]; switches?: string[]; links?: string[] };
  counters?: { nodes?: NodeCounters[]; links?: LinkCounters[] };
}

export interface LogLine {
  time_ns: string;
  program: number;
  name?: string | null;
  text: string;
  cursor: string;
}

export interface SwitchPort {
  number: number;
  name: string;
  presence: "here" | "awaited" | "free";
  counters: Record<string, number>;
  rules: { name?: string | null; macs?: string[]; vlan?: { access?: number; trunk?: { allowed?: string; native?: number | null } } | null };
}

/** What a switch in shared memory says of itself. */
export interface SwitchShown {
  vlans: boolean;
  ports: SwitchPort[];
  mirrors: Record<string, { to: number; sources: { port: number; direction: string }[]; filter?: string }>;
}

export interface MacTable {
  port: number;
  entries: { mac: string; vlan: number; port: number; age: number }[];
}

/** What an OpenFlow switch says of itself. */
export interface FlowShown {
  entries?: number;
  max_entries?: number;
  groups?: number;
  meters?: number;
  tables?: number;
  ports?: { number: number; name: string; mac: string; up: boolean; config: string[]; counters: Record<string, number> }[];
}

export interface FlowEntry {
  table: number;
  priority: number;
  match: string;
  actions: string;
  packets: number;
  age_s: number;
}

export interface FlowTraced {
  fields?: string;
  steps?: { table: number; entry: string | null }[];
  effects?: string[];
  drops?: string[];
  sent?: { port: number; name: string }[];
  decided_by?: string;
  packet_ins?: number;
  standalone?: boolean;
}

/** A line of a measurement that tells of one block of one direction. */
export interface MeasuredBlock {
  type: string;
  from: string;
  to: string;
  families: number[];
  hops: { hop: string; from: string; sent: number; lost: number; sampled: { mean_ns: number } | null }[];
}

export interface PairReachability {
  families: { version: number; address: string; rtt_us: (number | null)[] }[];
}

export interface WhyCause {
  name: string;
  place: string;
  direction: "there" | "back";
  text: string;
  evidence: string[];
  mend?: string | null;
}

export interface WhyWay {
  hops: WhyHop[];
  /** The last place that saw the probe, such as `r1:eth1 out`, and the first that did not. */
  last?: string | null;
  lost?: string | null;
}

export interface WhyHop {
  name: string;
  out: boolean;
  seen: "packet" | "resolution" | "nothing" | "not_watched";
}

export interface WhyReport {
  verdict: "answered" | "delivered" | "stopped" | "not_known";
  probe: string;
  there: WhyWay;
  back?: WhyWay | null;
  causes: WhyCause[];
  hindrances: WhyCause[];
  missing: string[];
}

/** A packet of the recording at a link. Times are nanoseconds, as text. */
export interface PacketSeen {
  time_ns: string;
  link: string;
  packet: string;
  bytes: number;
  from?: string | null;
  to?: string | null;
  summary: string;
}

export interface FoundPackets {
  packets: PacketSeen[];
  more: boolean;
}

export interface SlicesShown {
  slices?: { name: string; switches?: { switch: string; ports?: { name: string }[] }[] }[];
}

/** What a wire did with a packet. */
export interface FateView {
  sequence: number;
  end: number;
  time_ns: string;
  bytes: number;
  fate: string;
  delay_ns?: number | null;
  duplicated: boolean;
  corrupted: boolean;
}
