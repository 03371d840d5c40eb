import assert from "node:assert/strict";
import { test } from "node:test";
import { Cutter } from "../src/api";
import { at, drawnOf, type View } from "../src/look";
import { arrange, bounds } from "../src/scene";
import { Store, wireText } from "../src/store";
import type { LabEvent, LinkStatus, NodeStatus } from "../src/types";

const node = (name: string, more: Partial<NodeStatus> = {}): NodeStatus => ({
  name, alive: true, state: "up", reason: null, pid: 1, forwarding: false, privileged: false, ids: null, parent: null, cpu_ns: "0",
  memory: 0, processes: 1, sockets: 0, limits: { cpu_milli: null, memory: null, processes: null, sockets: null }, drops: [],
  addresses: [], programs: [], health: null, interfaces: [], ...more,
});

const link = (name: string, ends: [string, string], more: Partial<LinkStatus> = {}): LinkStatus =>
  ({ name, ends, up: true, down: false, wire: null, lost: [], ...more });

const event = (seconds: number, more: Partial<LabEvent>): LabEvent =>
  ({ id: `a.${seconds}`, kind: "change", time_ns: `${seconds}000000000`, ...more });

const counters = (name: string, bytes: [number, number], lost: [number, number] = [0, 0]) =>
  ({ links: [{ name, packets: [0, 0] as [number, number], bytes, lost }] });

function started(): Store {
  const store = new Store();
  store.apply(event(100, {
    kind: "snapshot",
    lab: { name: "x", state: "up", pid: 1, since: 0 },
    nodes: [node("a"), node("b", { forwarding: true })],
    links: [link("l", ["a:eth0", "b:eth0"]), link("m", ["a:eth1", "b:eth1"])],
    counters: { links: [...counters("l", [1000, 0]).links, ...counters("m", [0, 0]).links] },
  }));
  return store;
}

test("rates are differences of counters, and what is not mentioned sent nothing", () => {
  const store = started();
  assert.deepEqual(store.links.get("l")!.rates.bits, [0, 0]);
  store.apply(event(101, { counters: counters("l", [2000, 500], [0, 3]) }));
  assert.deepEqual(store.links.get("l")!.rates.bits, [8000, 4000]);
  assert.deepEqual(store.links.get("l")!.rates.lost, [0, 3]);
  store.apply(event(102, { counters: counters("m", [10, 0]) }));
  assert.deepEqual(store.links.get("l")!.rates.bits, [0, 0]);
  // After a quiet time the last reading was a second ago.
  store.apply(event(110, { counters: counters("l", [3000, 500]) }));
  assert.deepEqual(store.links.get("l")!.rates.bits, [8000, 0]);
  store.quiet(111);
  assert.deepEqual(store.links.get("l")!.rates.bits, [0, 0]);
  const { times, bits, lost } = store.series("l");
  assert.deepEqual(times, [100, 101, 102, 110, 111]);
  assert.deepEqual(bits, [[0, 8000, 0, 8000, 0], [0, 4000, 0, 0, 0]]);
  assert.deepEqual(lost[1], [0, 3, 0, 0, 0]);
});

test("five minutes are kept", () => {
  const store = started();
  for (let second = 1; second <= 1000; second += 1) {
    const more = second % 400 === 0 ? { counters: counters("l", [1000 + second, 0]) } : { counters: counters("m", [second, 0]) };
    store.apply(event(100 + second, more));
  }
  const { times, bits } = store.series("l");
  assert.equal(times.length, 300);
  assert.deepEqual([times[0], times[299]], [801, 1100]);
  assert.deepEqual(bits[0].flatMap((value, at) => (value > 0 ? [times[at]] : [])), [900]);
});

test("a snapshot replaces everything, and what came and went is told", () => {
  const store = started();
  store.apply(event(101, { links: [link("l", ["a:eth0", "b:eth0"], { up: false, down: true })], gone: { links: ["m"] } }));
  assert.deepEqual(store.notes.map(({ text }) => text), ["Link m deleted", "Link l: cable out"]);
  store.apply(event(102, { kind: "snapshot", missed: true, lab: { name: "x", state: "up", pid: 2, since: 0 }, nodes: [node("a")], links: [] }));
  assert.deepEqual([[...store.nodes.keys()], [...store.links.keys()]], [["a"], []]);
  assert.match(store.notes[0]!.text, /new one/);
});

test("a wire is told in few words", () => {
  const way = (from: string, impairments: Record<string, string>) => ({
    from, impairments, offered_packets: 0, sent_packets: 0, duplicated: 0, corrupted: 0, reordered: 0, held_packets: 0, lost: {}, late_us: [0, 0] as [number, number],
  });
  const wired = (a: Record<string, string> | null, b: Record<string, string> | null) =>
    wireText(link("l", ["a:e", "b:e"], { wire: { state: "running", restarts: 0, directions: [a && way("a:e", a), b && way("b:e", b)] } }));
  assert.equal(wired({ delay: "5ms", loss: "1%" }, { delay: "5ms", loss: "1%" }), "5ms, loss 1%");
  assert.equal(wired({ delay: "5ms" }, null), "→ 5ms");
  assert.equal(wired({ delay: "5ms" }, { rate: "1mbit" }), "→ 5ms · ← 1mbit");
});

test("everything has a place of its own, and is found there", () => {
  const store = started();
  store.apply(event(101, { links: [link("i", ["b:eth2", "internet"]), link("n", ["a:eth3", "nowhere"])] }));
  const scene = arrange(store, null, { "node a": [500, 500] });
  assert.deepEqual([...scene.vertices.keys()].sort(), ["internet", "node a", "node b", "nowhere n"]);
  const { x, y } = scene.vertices.get("node a")!;
  assert.deepEqual([x, y], [500, 500]);
  const box = bounds(scene);
  assert.ok(Number.isFinite(box.width) && box.width + box.height > 0);
  const view: View = { scale: 1, x: 0, y: 0, width: 1000, height: 1000 };
  assert.deepEqual(at(scene, store, view, 500, 500), { vertex: scene.vertices.get("node a")! });
  const bends = ["l", "m"].map((name) => scene.edges.get(name)!.bend);
  assert.equal(bends[0], -bends[1]!);
  assert.notEqual(bends[0], 0);
});

test("names that would cover each other are left out", () => {
  const store = new Store();
  const nodes = Array.from({ length: 300 }, (_, at) => node(`node-${at}`));
  store.apply(event(1, { kind: "snapshot", lab: { name: "x", state: "up", pid: 1, since: 0 }, nodes, links: [] }));
  const scene = arrange(store, { nodes: nodes.map(({ name }, at) => ({ name, x: at, y: 0 })), switches: [] }, {});
  const drawn = drawnOf(scene, store, { scale: 0.1, x: 0, y: 0, width: 4000, height: 100 }, new Set(["node node-150"]));
  const labels = [...drawn.values()].filter(({ label }) => label !== null);
  assert.ok(labels.length > 10 && labels.length < 100, String(labels.length));
  assert.equal(drawn.get("node node-150")!.label, "node-150");
});

test("a stream is cut into messages, wherever its pieces end", () => {
  const text = 'id: a.1\nevent: snapshot\ndata: {"x":1}\n\n:\n\nid: a.2\nevent: change\ndata: {}\n\n';
  for (let at = 0; at <= text.length; at += 1) {
    const cutter = new Cutter();
    const found = [...cutter.add(text.slice(0, at)), ...cutter.add(text.slice(at))];
    assert.deepEqual(found, [{ id: "a.1", data: '{"x":1}' }, { id: "a.2", data: "{}" }]);
  }
});
