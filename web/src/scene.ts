// What the map shows: vertices with places, and links between them. No drawing.

import type { Store } from "./store";
import { layOut } from "./stress";
import type { NodeStatus } from "./types";

export type Kind = "host" | "router" | "switch" | "openflow" | "internet" | "outside" | "nowhere";

export interface Vertex {
  key: string;
  kind: Kind;
  name: string;
  x: number;
  y: number;
}

export interface Edge {
  name: string;
  a: Vertex;
  b: Vertex;
  /** How far it is bent aside, in units of the distance of parallel links. */
  bend: number;
}

export interface Scene {
  vertices: Map<string, Vertex>;
  edges: Map<string, Edge>;
  /** Units of the scene in one of the server's layout. */
  unit: number;
}

/** Where the server's layout puts things, in units of its own. */
export interface Layout {
  nodes: { name: string; x: number; y: number }[];
  switches: { name: string; x: number; y: number }[];
  /** Ends of links outside of the lab. */
  doors?: { name: string; x: number; y: number; links: string[] }[];
}

/** What a layout depends on, in a few characters: the names of everything, and the ends of links. */
export function shape(store: Store): string {
  let [one, other] = [0x811c9dc5, 0x9747b28c];
  const add = (text: string) => {
    for (let at = 0; at <= text.length; at += 1) {
      const code = at < text.length ? text.charCodeAt(at) : 0x10000;
      one = Math.imul(one ^ code, 0x01000193);
      other = Math.imul(other + code, 0x85ebca6b) ^ (other >>> 13);
    }
  };
  for (const { status } of store.nodes.values()) add(`${status.name} ${status.forwarding}`);
  for (const { name, kind } of store.switches.values()) add(`${name} ${kind}`);
  for (const { status } of store.links.values()) add(`${status.name} ${status.ends.join(" ")}`);
  return `${store.lab?.pid} ${store.lab?.since} ${(one >>> 0).toString(36)}${(other >>> 0).toString(36)}`;
}

/** The layout of a lab as this browser knows it from before, so that a large lab is laid out once. */
export class KnownLayout {
  constructor(private readonly kept: Pick<Storage, "getItem" | "setItem">, private readonly lab: string) {}

  read(wanted: string): Layout | null {
    try {
      const { shape, layout } = JSON.parse(this.kept.getItem(`netloom-layout ${this.lab}`) ?? "{}") as { shape?: string; layout?: Layout };
      return shape === wanted && layout ? layout : null;
    } catch {
      return null;
    }
  }

  write(shape: string, { nodes, switches, doors = [] }: Layout): void {
    const place = ({ name, x, y }: { name: string; x: number; y: number }) => ({ name, x, y });
    const layout = { nodes: nodes.map(place), switches: switches.map(place), doors: doors.map((door) => ({ ...place(door), links: door.links })) };
    try {
      this.kept.setItem(`netloom-layout ${this.lab}`, JSON.stringify({ shape, layout }));
    } catch {
      // The browser has no room: it is asked for again the next time.
    }
  }
}

export type Places = Record<string, [number, number]>;

// Distance of a vertex to its nearest neighbour, in the middle of all, at full size.
export const APART = 168;

export const nodeKey = (name: string) => `node ${name}`;
export const switchKey = (name: string) => `switch ${name}`;

/** The vertex that an end of a link is at; `internet` and `nowhere` have one for each link. */
export function endKey(end: string, link: string, store: Store): string {
  const colon = end.lastIndexOf(":");
  if (colon < 0) {
    if (store.switches.has(end)) return switchKey(end);
    return end === "internet" ? "internet" : `nowhere ${link}`;
  }
  const name = end.slice(0, colon);
  return name === "host" && !store.nodes.has(name) ? `outside ${end}` : nodeKey(name);
}

function kindOf(node: NodeStatus): Kind {
  return node.forwarding === false ? "host" : "router";
}

/** Puts everything in its place: the server's layout, then what was moved in this browser. */
export function arrange(store: Store, layout: Layout | null, moved: Places): Scene {
  const vertices = new Map<string, Vertex>();
  const add = (key: string, kind: Kind, name: string) => vertices.set(key, { key, kind, name, x: NaN, y: NaN });
  for (const { status } of store.nodes.values()) add(nodeKey(status.name), kindOf(status), status.name);
  for (const one of store.switches.values()) add(switchKey(one.name), one.kind === "openflow" ? "openflow" : "switch", one.name);
  const edges = new Map<string, Edge>();
  const parallel = new Map<string, Edge[]>();
  for (const { status } of store.links.values()) {
    const keys = status.ends.map((end) => endKey(end, status.name, store));
    keys.forEach((key, side) => {
      if (vertices.has(key)) return;
      const kind = key === "internet" ? "internet" : key.startsWith("nowhere ") ? "nowhere" : "outside";
      add(key, kind, kind === "nowhere" ? "" : status.ends[side]!);
    });
    const [a, b] = [vertices.get(keys[0]!)!, vertices.get(keys[1]!)!];
    const edge = { name: status.name, a, b, bend: 0 };
    edges.set(status.name, edge);
    const pair = [a.key, b.key].sort().join("\n");
    parallel.set(pair, [...(parallel.get(pair) ?? []), edge]);
  }
  for (const alike of parallel.values()) bendAside(alike);
  const scene = { vertices, edges, unit: 1 };
  place(scene, layout);
  for (const [key, [x, y]] of Object.entries(moved)) {
    const vertex = vertices.get(key);
    if (vertex) Object.assign(vertex, { x, y });
  }
  return scene;
}

function bendAside(alike: Edge[]): void {
  alike.forEach((edge, at) => {
    const turned = edge.a.key > edge.b.key ? -1 : 1;
    edge.bend = (at - (alike.length - 1) / 2) * turned;
  });
}

function place(scene: Scene, layout: Layout | null): void {
  const put = (key: string, x: number, y: number) => {
    const vertex = scene.vertices.get(key);
    if (vertex) Object.assign(vertex, { x, y });
  };
  if (layout) {
    layout.nodes.forEach(({ name, x, y }) => put(nodeKey(name), x, y));
    layout.switches.forEach(({ name, x, y }) => put(switchKey(name), x, y));
    layout.doors?.forEach(({ name, x, y, links }) => {
      put(name === "internet" ? name : name === "nowhere" ? `nowhere ${links[0]}` : `outside ${name}`, x, y);
    });
  } else {
    layOut(scene);
  }
  scene.unit = spread(scene);
  besideNeighbours(scene);
}

const isPlaced = (vertex: Vertex) => !Number.isNaN(vertex.x);

/** Scales what has a place so that neighbours are as far apart as names need. */
function spread(scene: Scene): number {
  const placed = [...scene.vertices.values()].filter(isPlaced);
  const nearest = placed.map((one) => {
    let best = Infinity;
    for (const other of placed) if (other !== one) best = Math.min(best, Math.hypot(other.x - one.x, other.y - one.y));
    return best;
  });
  nearest.sort((one, other) => one - other);
  const middle = nearest[Math.floor(nearest.length / 2)] ?? APART;
  const scale = Number.isFinite(middle) && middle > 0 ? APART / middle : 1;
  for (const vertex of placed) {
    vertex.x *= scale;
    vertex.y *= scale;
  }
  return scale;
}

/** What has no place yet, such as `internet` or a node that is new, goes beside what it is linked to, away from the middle. */
function besideNeighbours(scene: Scene): void {
  const near = new Map<Vertex, Vertex[]>();
  for (const { a, b } of scene.edges.values()) {
    near.set(a, [...(near.get(a) ?? []), b]);
    near.set(b, [...(near.get(b) ?? []), a]);
  }
  let left = [...scene.vertices.values()].filter((vertex) => !isPlaced(vertex));
  while (left.length > 0) {
    const ready = left.filter((vertex) => (near.get(vertex) ?? []).some(isPlaced));
    const now = ready.length > 0 ? ready : [left[0]!];
    const placed = [...scene.vertices.values()].filter(isPlaced);
    const middle = mean(placed);
    for (const vertex of now) settle(vertex, (near.get(vertex) ?? []).filter(isPlaced), middle, placed);
    left = left.filter((vertex) => !isPlaced(vertex));
  }
}

function mean(of: { x: number; y: number }[]): { x: number; y: number } {
  const sum = of.reduce((sum, { x, y }) => ({ x: sum.x + x, y: sum.y + y }), { x: 0, y: 0 });
  return of.length > 0 ? { x: sum.x / of.length, y: sum.y / of.length } : sum;
}

function settle(vertex: Vertex, beside: Vertex[], middle: { x: number; y: number }, placed: Vertex[]): void {
  const from = beside.length > 0 ? mean(beside) : middle;
  const away = Math.atan2(from.y - middle.y, from.x - middle.x);
  // The first direction from there, outwards first, in which nothing stands.
  for (let ring = 1; ; ring += 1) {
    for (let turn = 0; turn < 12; turn += 1) {
      const angle = away + (turn % 2 === 0 ? 1 : -1) * Math.ceil(turn / 2) * (Math.PI / 6);
      const [x, y] = [from.x + Math.cos(angle) * APART * ring, from.y + Math.sin(angle) * APART * ring];
      if (placed.every((other) => Math.hypot(other.x - x, other.y - y) > APART * 0.7)) {
        Object.assign(vertex, { x, y });
        placed.push(vertex);
        return;
      }
    }
  }
}

// What a lab file takes, in pixels.
const MOST_PIXELS = 30_000;
const EDGE_PIXELS = 40;

/** Where everything stands, as a lab file's `x-layout`: centres in pixels of its pictures, from the left and the top. */
export function fileLayout(scene: Scene): string {
  const { x, y, width, height } = bounds(scene);
  const scale = Math.min(1 / scene.unit, (MOST_PIXELS - EDGE_PIXELS) / Math.max(1, width, height));
  const at = (value: number, from: number) => Math.round((value - from) * scale) + EDGE_PIXELS;
  const lines = [...scene.vertices.values()]
    .filter(({ kind }) => kind !== "nowhere")
    .map((vertex) => `  ${/^[A-Za-z][\w.-]*$/.test(vertex.name) ? vertex.name : JSON.stringify(vertex.name)}: [${at(vertex.x, x)}, ${at(vertex.y, y)}]`);
  return ["x-layout:", ...lines].join("\n");
}

/** The smallest box around everything. */
export function bounds(scene: Scene): { x: number; y: number; width: number; height: number } {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y } of scene.vertices.values()) {
    [left, right] = [Math.min(left, x), Math.max(right, x)];
    [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
  }
  return Number.isFinite(left) ? { x: left, y: top, width: right - left, height: bottom - top } : { x: 0, y: 0, width: 0, height: 0 };
}
