// The lab as of its last event, and what the last five minutes looked like.
//
// The lab process reads all links with each event and tells only what differs: a link that an event does not mention sent
// nothing meanwhile. An event that follows a quiet time was read at most about a second after the reading before it.

import type { LabEvent, LabFacts, LinkCounters, LinkStatus, NodeCounters, NodeStatus, SwitchStatus } from "./types";

/** Seconds that are kept for plots. */
export const KEPT = 300;

// A quiet time longer than this between two events had readings in between, about one a second.
const MOST_GAP = 1.5;

/** Rates of a link in the last second, from its first end to the second, and back. */
export interface Rates {
  bits: [number, number];
  packets: [number, number];
  lost: [number, number];
}

const NONE: Rates = { bits: [0, 0], packets: [0, 0], lost: [0, 0] };

/** Rings of samples, one for each direction. */
class History {
  readonly bits = [new Float32Array(KEPT), new Float32Array(KEPT)] as const;
  readonly lost = [new Float32Array(KEPT), new Float32Array(KEPT)] as const;
  private last = -1;

  put(tick: number, rates: Rates): void {
    // What was not mentioned meanwhile was zero.
    for (let at = Math.max(this.last + 1, tick - KEPT + 1); at < tick; at += 1) this.set(at, NONE);
    this.set(tick, rates);
    this.last = tick;
  }

  private set(tick: number, rates: Rates): void {
    for (const side of [0, 1] as const) {
      this.bits[side][tick % KEPT] = rates.bits[side];
      this.lost[side][tick % KEPT] = rates.lost[side];
    }
  }

  read(ring: Float32Array, from: number, to: number): number[] {
    const all: number[] = [];
    for (let tick = from; tick <= to; tick += 1) all.push(tick > this.last ? 0 : ring[tick % KEPT]!);
    return all;
  }
}

export interface Link {
  status: LinkStatus;
  counters: LinkCounters;
  rates: Rates;
  history: History | null;
}

export interface Node {
  status: NodeStatus;
  counters: NodeCounters;
  /** CPUs in use; null until two readings are known. */
  cpu: number | null;
  /** When the counters were read. */
  read: number;
}

/** Something that happened, for people. */
export interface Note {
  time: number;
  tone: "ok" | "warn" | "bad" | "plain";
  text: string;
  about: { kind: "node" | "link" | "switch"; name: string } | null;
}

const MOST_NOTES = 60;

export class Store {
  lab: LabFacts | null = null;
  nodes = new Map<string, Node>();
  links = new Map<string, Link>();
  switches = new Map<string, SwitchStatus>();
  notes: Note[] = [];
  /** Changes with the names of nodes, switches or links, or with a link's ends. */
  topology = 0;
  /** Readings so far, and their times in Unix seconds, by their number modulo KEPT. */
  private tick = -1;
  private readonly times = new Float64Array(KEPT);
  /** When the last event was read, which quiet times may have passed. */
  private heard = 0;
  private listeners = new Set<() => void>();

  listen(heard: () => void): () => void {
    this.listeners.add(heard);
    return () => this.listeners.delete(heard);
  }

  private tell(): void {
    for (const heard of this.listeners) heard();
  }

  /** Unix seconds of the last reading. */
  get time(): number {
    return this.tick < 0 ? 0 : this.times[this.tick % KEPT]!;
  }

  /** Takes an event over. */
  apply(event: LabEvent): void {
    const time = Number(event.time_ns) / 1e9;
    const whole = event.kind === "snapshot";
    const first = this.lab === null;
    const before = { nodes: this.nodes, links: this.links, switches: this.switches };
    if (whole) {
      this.nodes = new Map();
      this.links = new Map();
      this.switches = new Map();
      if (event.missed) this.note(time, "plain", "Events were missed; this is how it is now", null);
    }
    this.takeLab(event, time, first);
    let changed = whole;
    for (const node of event.nodes ?? []) {
      const known = before.nodes.get(node.name);
      if (!first) this.noteNode(node, known, time);
      changed ||= !known || known.status.forwarding !== node.forwarding;
      const counters = countersOf(node);
      this.nodes.set(node.name, known ? { ...known, status: node } : { status: node, counters, cpu: null, read: time });
    }
    for (const link of event.links ?? []) {
      const known = before.links.get(link.name);
      if (!first) this.noteLink(link, known, time);
      changed ||= !known || known.status.ends.join() !== link.ends.join();
      const counters: LinkCounters = { name: link.name, packets: [0, 0], bytes: [0, 0], lost: [0, 0] };
      this.links.set(link.name, known ? { ...known, status: link } : { status: link, counters, rates: NONE, history: null });
    }
    for (const one of event.switches ?? []) {
      changed ||= before.switches.get(one.name)?.kind !== one.kind;
      this.switches.set(one.name, one);
    }
    changed = this.drop(event, time) || changed;
    this.count(event, before.links, time);
    if (changed) this.topology += 1;
    this.tell();
  }

  /** Without an event for more than a second everything was quiet; goes on to this time of the lab's clock. */
  quiet(time: number): void {
    if (this.tick < 0 || time <= this.time) return;
    this.next(time);
    for (const link of this.links.values()) link.rates = NONE;
    this.tell();
  }

  private takeLab(event: LabEvent, time: number, first: boolean): void {
    if (!event.lab) return;
    if (!first && this.lab!.pid !== event.lab.pid) this.note(time, "ok", "The lab process is a new one: the lab was adopted or made again", null);
    else if (!first && this.lab!.state !== event.lab.state) {
      this.note(time, event.lab.state === "up" ? "ok" : "warn", `Lab ${event.lab.state}`, null);
    }
    this.lab = event.lab;
  }

  private next(time: number): void {
    this.tick += 1;
    this.times[this.tick % KEPT] = time;
  }

  private drop(event: LabEvent, time: number): boolean {
    const { nodes = [], links = [], switches = [] } = event.gone ?? {};
    for (const name of nodes) {
      this.nodes.delete(name);
      this.note(time, "plain", `Node ${name} deleted`, null);
    }
    for (const name of links) {
      this.links.delete(name);
      this.note(time, "plain", `Link ${name} deleted`, null);
    }
    for (const name of switches) {
      this.switches.delete(name);
      this.note(time, "plain", `Switch ${name} deleted`, null);
    }
    return nodes.length + links.length + switches.length > 0;
  }

  private count(event: LabEvent, before: Map<string, Link>, time: number): void {
    const known = this.tick >= 0;
    const gap = time - this.heard;
    this.heard = time;
    // A snapshot may follow a time in which nobody listened.
    const seconds = event.kind === "change" && gap > MOST_GAP ? 1 : Math.max(gap, 0.05);
    if (!known || time > this.time) this.next(time);
    for (const link of this.links.values()) link.rates = NONE;
    for (const counters of event.counters?.links ?? []) {
      const link = this.links.get(counters.name);
      if (!link) continue;
      // A link that is new here, or whose counters began again, has no rate yet.
      const since = before.get(counters.name)?.counters;
      if (known && gap > 0 && since) {
        link.rates = ratesOf(since, counters, seconds);
        link.history ??= new History();
        link.history.put(this.tick, link.rates);
      }
      link.counters = counters;
    }
    for (const counters of event.counters?.nodes ?? []) {
      const node = this.nodes.get(counters.name);
      if (!node) continue;
      const [old, now] = [node.counters.cpu_ns, counters.cpu_ns];
      const passed = time - node.read;
      if (old !== null && now !== null && passed > 0.05) node.cpu = Math.max(0, (Number(now) - Number(old)) / 1e9 / passed);
      node.counters = counters;
      node.read = time;
    }
  }

  private note(time: number, tone: Note["tone"], text: string, about: Note["about"]): void {
    this.notes.unshift({ time, tone, text, about });
    this.notes.length = Math.min(this.notes.length, MOST_NOTES);
  }

  private noteNode(now: NodeStatus, known: Node | undefined, time: number): void {
    const about = { kind: "node" as const, name: now.name };
    if (!known) return this.note(time, "plain", `Node ${now.name} created`, about);
    if (known.status.state !== now.state) {
      const tone = now.state === "up" ? "ok" : now.state === "starting" ? "plain" : "bad";
      const reason = now.reason ? `: ${now.reason}` : "";
      this.note(time, tone, `Node ${now.name} ${now.state}${reason}`, about);
    }
  }

  private noteLink(now: LinkStatus, known: Link | undefined, time: number): void {
    const about = { kind: "link" as const, name: now.name };
    if (!known) return this.note(time, "plain", `Link ${now.name} created`, about);
    const old = known.status;
    if (old.down !== now.down) {
      const text = now.down ? "cable out" : "cable in";
      this.note(time, now.down ? "warn" : "ok", `Link ${now.name}: ${text}`, about);
    } else if (old.up !== now.up) {
      this.note(time, now.up ? "ok" : "bad", `Link ${now.name} ${now.up ? "up" : "down"}`, about);
    }
    if (wireText(old) !== wireText(now)) this.note(time, "plain", `Link ${now.name}: ${wireText(now) || "no impairment"}`, about);
  }

  /** The plots of a link: times, and by direction bits and lost packets a second. */
  series(name: string): { times: number[]; bits: [number[], number[]]; lost: [number[], number[]] } {
    const from = Math.max(0, this.tick - KEPT + 1);
    const times: number[] = [];
    for (let tick = from; tick <= this.tick; tick += 1) times.push(this.times[tick % KEPT]!);
    const history = this.links.get(name)?.history;
    const zero = () => times.map(() => 0);
    if (!history) return { times, bits: [zero(), zero()], lost: [zero(), zero()] };
    const read = (ring: Float32Array) => history.read(ring, from, this.tick);
    return {
      times,
      bits: [read(history.bits[0]), read(history.bits[1])],
      lost: [read(history.lost[0]), read(history.lost[1])],
    };
  }
}

function countersOf(node: NodeStatus): NodeCounters {
  const { name, cpu_ns, memory, processes, sockets } = node;
  return { name, cpu_ns, memory, processes, sockets, lost: node.drops.reduce((sum, drop) => sum + drop.packets, 0) };
}

function ratesOf(old: LinkCounters, now: LinkCounters, seconds: number): Rates {
  const side = (key: "packets" | "bytes" | "lost", at: 0 | 1) => Math.max(0, now[key][at] - old[key][at]) / seconds;
  return {
    bits: [side("bytes", 0) * 8, side("bytes", 1) * 8],
    packets: [side("packets", 0), side("packets", 1)],
    lost: [side("lost", 0), side("lost", 1)],
  };
}

/** What the wire of a link does, in a few words: once where both directions are alike, else with these signs. */
export function wireText(link: LinkStatus, [toSecond, toFirst]: [string, string] = ["→", "←"]): string {
  const [there, back] = (link.wire?.directions ?? []).map((one) => words(one?.impairments ?? {}));
  if (!there && !back) return link.wire && link.wire.state !== "running" ? link.wire.state : "";
  if (there === back) return there!;
  return [there && `${toSecond} ${there}`, back && `${toFirst} ${back}`].filter(Boolean).join(" · ");
}

// What a name on the map needs no word for.
const CLEAR = new Set(["delay", "rate"]);

function words(of: Record<string, string>): string {
  return Object.entries(of).map(([key, value]) => (CLEAR.has(key) ? value : `${key} ${value}`)).join(", ");
}
