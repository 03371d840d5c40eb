// What is marked on the map: links that packets crossed, with their direction, and the slices that links belong to. No drawing.

import type { Store } from "./store";
import { milliseconds } from "./text";
import type { MeasuredBlock, PacketSeen, SlicesShown, WhyReport, WhyWay } from "./types";

/** How a link is marked. */
export interface Mark {
  /** Packets from its first end to its second, and back. */
  there: number;
  back: number;
  /** Packets whose direction is not known. */
  some: number;
  /** Something that should have passed here did not. */
  lost: boolean;
  /** What is said at the link instead of its rate. */
  words?: string;
}

export type Marks = Map<string, Mark>;

const blank = (): Mark => ({ there: 0, back: 0, some: 0, lost: false });

function markOf(marks: Marks, link: string): Mark {
  const known = marks.get(link) ?? blank();
  marks.set(link, known);
  return known;
}

/** What an end is at: the node of `h1:eth0`, or the switch. */
export function place(end: string): string {
  const colon = end.lastIndexOf(":");
  return colon < 0 ? end : end.slice(0, colon);
}

/** The nodes that have an address; prefixes and zones do not count. */
function owners(store: Store): Map<string, string> {
  const all = new Map<string, string>();
  for (const { status } of store.nodes.values()) {
    for (const address of status.addresses) all.set(address.split(/[/%]/)[0]!, status.name);
    for (const one of status.interfaces) for (const address of one.addresses) all.set(address.split(/[/%]/)[0]!, status.name);
  }
  return all;
}

/**
 * Which links packets crossed, and which way. A recording has no directions: a packet goes towards the link that sees it next, and
 * comes from the one that saw it before; at the first and the last link the nodes that have its addresses tell.
 */
export function crossed(packets: PacketSeen[], store: Store): Marks {
  const marks: Marks = new Map();
  const whose = owners(store);
  const journeys = new Map<string, PacketSeen[]>();
  for (const one of packets) {
    // Numbers of packets begin again with each segment of a recording.
    const key = `${one.packet} ${one.from} ${one.to} ${one.summary}`;
    journeys.set(key, [...(journeys.get(key) ?? []), one]);
  }
  for (const journey of journeys.values()) {
    journey.sort((one, other) => (BigInt(one.time_ns) < BigInt(other.time_ns) ? -1 : 1));
    journey.forEach((seen, at) => {
      const ends = store.links.get(seen.link)?.status.ends;
      if (!ends) return;
      const mark = markOf(marks, seen.link);
      const way = direction(ends, journey[at - 1], journey[at + 1], store) ?? byAddress(ends, seen, whose);
      if (way === null) mark.some += 1;
      else mark[way] += 1;
    });
  }
  return marks;
}

function direction(ends: [string, string], before: PacketSeen | undefined, after: PacketSeen | undefined, store: Store): "there" | "back" | null {
  const [a, b] = ends.map(place);
  const touches = (seen: PacketSeen | undefined, name: string) =>
    seen !== undefined && (store.links.get(seen.link)?.status.ends.some((end) => place(end) === name) ?? false);
  // Between the same two places more than one link tells nothing.
  if (touches(after, b!) !== touches(after, a!)) return touches(after, b!) ? "there" : "back";
  if (touches(before, a!) !== touches(before, b!)) return touches(before, a!) ? "there" : "back";
  return null;
}

function byAddress(ends: [string, string], seen: PacketSeen, whose: Map<string, string>): "there" | "back" | null {
  const [a, b] = ends.map(place);
  const [from, to] = [seen.from && whose.get(seen.from), seen.to && whose.get(seen.to)];
  if (from && from === a) return "there";
  if (from && from === b) return "back";
  if (to && to === b) return "there";
  return to && to === a ? "back" : null;
}

/** The link that an interface on a way is at, and whether what leaves there goes to its second end. */
function hopLink(name: string, store: Store): { link: string; away: "there" | "back" } | null {
  // `s1/h1:eth0` is the port of switch s1 to h1:eth0: what leaves there goes towards that end.
  const slash = name.lastIndexOf("/");
  const known = (end: string) => [...store.links.values()].find(({ status }) => status.ends.includes(end));
  const own = known(name);
  if (own) return { link: own.status.name, away: own.status.ends[0] === name ? "there" : "back" };
  const other = slash < 0 ? undefined : known(name.slice(slash + 1));
  return other ? { link: other.status.name, away: other.status.ends[1] === name.slice(slash + 1) ? "there" : "back" } : null;
}

function markWay(marks: Marks, way: WhyWay, store: Store): void {
  for (const { name, out, seen } of way.hops) {
    const at = hopLink(name, store);
    // Where only the neighbour was resolved the probe itself was not seen.
    const lost = way.lost === `${name} ${out ? "out" : "in"}`;
    if (!at || (seen !== "packet" && !lost)) continue;
    const mark = markOf(marks, at.link);
    if (seen === "packet") mark[out === (at.away === "there") ? "there" : "back"] = 1;
    else mark.lost = true;
  }
}

/** The ways of a flow that was asked about; where it was lost is marked as that. */
export function ways(report: WhyReport, store: Store): Marks {
  const marks: Marks = new Map();
  markWay(marks, report.there, store);
  if (report.back) markWay(marks, report.back, store);
  return marks;
}

/** The hops of a way and of the way back in their last blocks: the links with what they lost, and how long packets took. */
export function measured(blocks: MeasuredBlock[], store: Store): Marks {
  const marks: Marks = new Map();
  for (const { hop, from, sent, lost, sampled } of blocks.flatMap(({ hops }) => hops)) {
    const at = hopLink(from, store);
    if (!at || hop !== `link ${at.link}`) continue;
    const mark = markOf(marks, at.link);
    mark[at.away] += sent;
    mark.lost ||= lost > 0;
    const words = [...(sampled ? [milliseconds(sampled.mean_ns / 1000)] : []), ...(lost > 0 ? [`−${lost}`] : [])].join(" ");
    mark.words = [mark.words, words].filter(Boolean).join(" / ");
  }
  return marks;
}

/** The slices of each link, by their places in the list. */
export function slicesOf(shown: SlicesShown, store: Store): Map<string, number[]> {
  const all = new Map<string, number[]>();
  (shown.slices ?? []).forEach((slice, at) => {
    for (const one of slice.switches ?? []) {
      const links = new Set((one.ports ?? []).map(({ name }) => linkOfPort(store, one.switch, name)));
      for (const link of links) if (link) all.set(link, [...(all.get(link) ?? []), at]);
    }
  });
  return all;
}

/** The link at a port of a switch, which is named by the other end, by its node, or by the link. */
export function linkOfPort(store: Store, of: string, port: string): string | null {
  const links = (store.switches.get(of)?.links ?? []).flatMap((name) => store.links.get(name)?.status ?? []);
  const exact = links.find(({ name, ends }) => name === port || ends.includes(port));
  return (exact ?? links.find(({ ends }) => ends.some((end) => end !== of && place(end) === port)))?.name ?? null;
}

/** The words of a question: a flow between nodes, or one filter of libpcap. */
export function question(text: string, store: Store): string[] {
  const words = text.trim().split(/\s+/).filter(Boolean);
  const isFlow = (word: string) =>
    store.nodes.has(word) || /^(icmp|\d+\/(tcp|udp))$/.test(word) || /^[0-9a-f]*[.:][0-9a-f.:]+$/i.test(word);
  return words.every(isFlow) ? words : [words.join(" ")];
}
