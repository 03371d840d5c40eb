// How vertices and links look at a moment, in pixels of the screen: one description that both painters draw.

import type { Mark, Marks } from "./marks";
import type { Edge, Scene, Vertex } from "./scene";
import { APART, endKey } from "./scene";
import { type Store, wireText } from "./store";
import { rate } from "./text";

export type Tone = "plain" | "ok" | "warn" | "bad";

export interface View {
  scale: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** What lies over the picture of the lab: marked links, and the slices of links. */
export interface Over {
  marks: Marks | null;
  slices: Map<string, number[]> | null;
}

export const NOTHING_OVER: Over = { marks: null, slices: null };

export interface Drawn {
  x: number;
  y: number;
  radius: number;
  tone: Tone;
  /** Its name, where there is room. */
  label: string | null;
}

export interface Line {
  points: [number, number, number, number];
  /** The middle of its bend; the straight middle where it has none. */
  middle: [number, number];
  bent: boolean;
  width: number;
  tone: "idle" | "busy" | "down" | "lossy";
  /** What its wire does, where it has one. */
  wire: string | null;
  /** Both directions together, where there is room. */
  rate: string | null;
}

const FULL_RADIUS = 19;
const PARALLEL = 26;
// Characters of labels at 11.5 pixels, about.
const CHARACTER = 6.4;

export function onScreen(view: View, x: number, y: number): [number, number] {
  return [x * view.scale + view.x, y * view.scale + view.y];
}

export function radius(view: View, vertex: Vertex): number {
  const full = vertex.kind === "nowhere" ? 9 : FULL_RADIUS;
  // Smaller than their distance allows where many are close together.
  const room = APART * view.scale * 0.17;
  return Math.max(vertex.kind === "nowhere" ? 3 : 4.2, Math.min(full * 1.2, full * Math.pow(view.scale, 0.55), room));
}

function toneOf(vertex: Vertex, store: Store): Tone {
  const state = store.nodes.get(vertex.name)?.status.state;
  if (vertex.key.startsWith("node ") && state) {
    return state === "up" ? "ok" : state === "starting" ? "warn" : "bad";
  }
  const flow = vertex.key.startsWith("switch ") ? store.switches.get(vertex.name)?.openflow : undefined;
  return flow && (!flow.running || flow.trouble) ? "bad" : vertex.key.startsWith("switch ") ? "ok" : "plain";
}

/** How a link looks. */
export function lineOf(edge: Edge, store: Store, view: View): Line {
  const [x1, y1] = onScreen(view, edge.a.x, edge.a.y);
  const [x2, y2] = onScreen(view, edge.b.x, edge.b.y);
  const far = Math.hypot(x2 - x1, y2 - y1) || 1;
  const aside = edge.bend * Math.min(PARALLEL, PARALLEL * view.scale + 4);
  const middle: [number, number] = [
    (x1 + x2) / 2 - ((y2 - y1) / far) * aside,
    (y1 + y2) / 2 + ((x2 - x1) / far) * aside,
  ];
  const link = store.links.get(edge.name)!;
  const bits = link.rates.bits[0] + link.rates.bits[1];
  const lost = link.rates.lost[0] + link.rates.lost[1];
  const tone = !link.status.up ? "down" : lost > 0 ? "lossy" : bits > 0 ? "busy" : "idle";
  const thin = Math.max(0.6, Math.min(1, view.scale * 1.6));
  // A width for each power of ten above 1 kbit/s.
  const width = thin * (1.6 + (bits > 0 ? Math.min(6, Math.max(0, Math.log10(bits) - 3)) * 0.85 : 0));
  // One that does nothing may stay in the link.
  const wire = wireText(link.status, arrows(x2 - x1, y2 - y1)) || null;
  const room = far - radius(view, edge.a) - radius(view, edge.b);
  const text = bits > 0 && room > 74 ? rate(bits) : null;
  return { points: [x1, y1, x2, y2], middle, bent: edge.bend !== 0, width, tone, wire: wire !== null && room < 46 ? "" : wire, rate: text };
}

/** A colour of a slice, by its place in the list. */
export const sliceColour = (at: number) => `--slice-${at % 8}`;

const DASH = 9;

/** How a link shows that it belongs to several slices: dashes of each colour in turn. */
export function dashes(slices: number[]): { colour: string; dash: number[]; offset: number }[] {
  return slices.map((at, turn) => ({
    colour: sliceColour(at),
    dash: slices.length > 1 ? [DASH, DASH * (slices.length - 1)] : [],
    offset: -DASH * turn,
  }));
}

/** Points of the arrowheads on a marked link, in the direction in which packets went. */
export function arrowheads({ points: [x1, y1, x2, y2], middle: [mx, my], bent }: Line, mark: Mark): [number, number][][] {
  // Of a short link less is to be seen between its ends.
  const size = Math.max(4, Math.min(9, Math.hypot(x2 - x1, y2 - y1) / 8));
  const at = (t: number): [number, number] => {
    if (!bent) return [x1 + (x2 - x1) * t, y1 + (y2 - y1) * t];
    const [cx, cy] = [2 * mx - (x1 + x2) / 2, 2 * my - (y1 + y2) / 2];
    const s = 1 - t;
    return [s * s * x1 + 2 * s * t * cx + t * t * x2, s * s * y1 + 2 * s * t * cy + t * t * y2];
  };
  const head = (t: number, way: 1 | -1): [number, number][] => {
    const [x, y] = at(t);
    const [bx, by] = at(t - 0.02);
    const angle = Math.atan2((y - by) * way, (x - bx) * way);
    const corner = (turn: number, far: number): [number, number] => [x + Math.cos(angle + turn) * far, y + Math.sin(angle + turn) * far];
    return [corner(0, size), corner(2.5, size), corner(Math.PI, size * 0.35), corner(-2.5, size)];
  };
  const both = mark.there > 0 && mark.back > 0;
  return [...(mark.there > 0 ? [head(both ? 0.63 : 0.5, 1)] : []), ...(mark.back > 0 ? [head(both ? 0.37 : 0.5, -1)] : [])];
}

/** Arrows as a link lies on the screen: to its second end, and to its first. */
function arrows(dx: number, dy: number): [string, string] {
  if (Math.abs(dx) >= Math.abs(dy)) return dx >= 0 ? ["→", "←"] : ["←", "→"];
  return dy >= 0 ? ["↓", "↑"] : ["↑", "↓"];
}

/** Where what is said at a link stands: beside its middle, turned so that it can be read, and further out where a pill is in the middle. */
export function beside({ points: [x1, y1, x2, y2], middle: [x, y], width, wire }: Line): { x: number; y: number; turn: number; off: number } {
  const way = x2 > x1 || (x2 === x1 && y2 > y1) ? 1 : -1;
  const turn = Math.atan2((y2 - y1) * way, (x2 - x1) * way);
  return { x, y, turn, off: wire === null ? 5 + width / 2 : 12 + Math.abs(Math.sin(turn)) * 16 };
}

/** The shortened text of a wire for the map. */
export function wireLabel(text: string): string {
  return text.length > 26 ? `${text.slice(0, 25)}…` : text;
}

interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** Boxes that are taken, in cells, so that a thousand names are placed quickly. */
class Taken {
  private readonly cells = new Map<string, Box[]>();

  /** Takes a box, if it is free. */
  take(box: Box): boolean {
    const around = this.around(box);
    const meets = (other: Box) =>
      other.left < box.right && other.right > box.left && other.top < box.bottom && other.bottom > box.top;
    if (around.some((cell) => this.cells.get(cell)?.some(meets))) return false;
    for (const cell of around) this.cells.set(cell, [...(this.cells.get(cell) ?? []), box]);
    return true;
  }

  private around({ left, top, right, bottom }: Box): string[] {
    const keys: string[] = [];
    for (let x = Math.floor(left / 64); x <= Math.floor(right / 64); x += 1) {
      for (let y = Math.floor(top / 64); y <= Math.floor(bottom / 64); y += 1) keys.push(`${x} ${y}`);
    }
    return keys;
  }
}

/** How all vertices look; names that would cover others are left out, those of few links first. */
export function drawnOf(scene: Scene, store: Store, view: View, chosen: Set<string>): Map<string, Drawn> {
  const degree = new Map<string, number>();
  for (const { a, b } of scene.edges.values()) for (const { key } of [a, b]) degree.set(key, (degree.get(key) ?? 0) + 1);
  const rank = (vertex: Vertex) =>
    (chosen.has(vertex.key) ? 1e6 : 0) + (toneOf(vertex, store) === "bad" ? 1e5 : 0) + (degree.get(vertex.key) ?? 0);
  const order = [...scene.vertices.values()].sort((one, other) => rank(other) - rank(one));
  const taken = new Taken();
  const drawn = new Map<string, Drawn>();
  for (const vertex of order) {
    const [x, y] = onScreen(view, vertex.x, vertex.y);
    const r = radius(view, vertex);
    taken.take({ left: x - r, right: x + r, top: y - r, bottom: y + r });
    drawn.set(vertex.key, { x, y, radius: r, tone: toneOf(vertex, store), label: null });
  }
  for (const vertex of order) {
    const of = drawn.get(vertex.key)!;
    if (vertex.name === "") continue;
    const half = (vertex.name.length * CHARACTER) / 2 + 2;
    const top = of.y + of.radius + 2;
    // What is chosen is named, whatever it covers.
    if (taken.take({ left: of.x - half, right: of.x + half, top, bottom: top + 15 }) || chosen.has(vertex.key)) of.label = vertex.name;
  }
  return drawn;
}

/** The vertices at both ends of a link. */
export function endsOf(link: string, store: Store): [string, string] {
  const ends = store.links.get(link)?.status.ends ?? ["", ""];
  return [endKey(ends[0], link, store), endKey(ends[1], link, store)];
}

/** What is at a place on the screen: a vertex, else the nearest link within reach. */
export function at(scene: Scene, store: Store, view: View, x: number, y: number): { vertex: Vertex } | { edge: Edge } | null {
  let found: Vertex | null = null;
  let best = Infinity;
  for (const vertex of scene.vertices.values()) {
    const [vx, vy] = onScreen(view, vertex.x, vertex.y);
    const far = Math.hypot(vx - x, vy - y);
    if (far < radius(view, vertex) + 3 && far < best) [found, best] = [vertex, far];
  }
  if (found) return { vertex: found };
  let line: Edge | null = null;
  best = 9;
  for (const edge of scene.edges.values()) {
    const { points: [x1, y1, x2, y2], middle: [mx, my], bent } = lineOf(edge, store, view);
    const far = bent
      ? Math.min(distance(x, y, x1, y1, mx, my), distance(x, y, mx, my, x2, y2))
      : distance(x, y, x1, y1, x2, y2);
    if (far < best) [line, best] = [edge, far];
  }
  return line && { edge: line };
}

function distance(x: number, y: number, x1: number, y1: number, x2: number, y2: number): number {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const along = Math.max(0, Math.min(1, ((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - x1 - along * dx, y - y1 - along * dy);
}
