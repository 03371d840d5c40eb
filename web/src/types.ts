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
