import assert from "node:assert/strict";
import { test } from "node:test";
import { goes, making } from "../src/edit";
import { arrowheads, dashes } from "../src/look";
import { crossed, linkOfPort, measured, question, slicesOf, ways } from "../src/marks";
import { fateWords, summary } from "../src/fates";
import { merged } from "../src/packets";
import { arrange, fileLayout, KnownLayout, shape } from "../src/scene";
import { Store } from "../src/store";
import { rowsOf, vlanWords } from "../src/switch";
import type { LabEvent, PacketSeen, SwitchShown } from "../src/types";

const node = (name: string, address: string) => ({
  name, alive: true, state: "up", reason: null, pid: 1, forwarding: false, privileged: false, ids: null, parent: null, cpu_ns: null,
  memory: null, processes: null, sockets: null, limits: {}, drops: [], addresses: [address], programs: [], health: null, interfaces: [],
});

const link = (name: string, ends: [string, string]) => ({ name, ends, up: true, down: false, wire: null, lost: [] });

/** h1 at a switch, a router, and a server behind it. */
function office(): Store {
  const store = new Store();
  store.apply({
    id: "1", kind: "snapshot", time_ns: "1000000000", lab: { name: "office", state: "up", pid: 1, since: 0 },
    nodes: [node("h1", "10.0.0.1"), node("r1", "10.0.0.254"), node("web", "10.1.0.1"), node("web/in", "10.2.0.1")],
    switches: [{ name: "s1", kind: "openflow", bridge: "", links: ["h1:eth0--s1", "s1--r1:eth0"] }],
    links: [link("h1:eth0--s1", ["h1:eth0", "s1"]), link("s1--r1:eth0", ["s1", "r1:eth0"]), link("r1:eth1--web:eth0", ["r1:eth1", "web:eth0"])],
  } as unknown as LabEvent);
  return store;
}

const seen = (at: number, on: string, packet = "7", from = "10.0.0.1", to = "10.1.0.1"): PacketSeen =>
  ({ time_ns: String(1_700_000_000_000_000_000n + BigInt(at)), link: on, packet, bytes: 98, from, to, summary: `${from} > ${to}` });

test("a packet goes towards the link that sees it next, and its reply the other way", () => {
  const way = ["h1:eth0--s1", "s1--r1:eth0", "r1:eth1--web:eth0"];
  const there = way.map((name, at) => seen(at, name));
  const marks = crossed(there, office());
  assert.deepEqual(way.map((name) => marks.get(name)), way.map(() => ({ there: 1, back: 0, some: 0, lost: false })));
  // Told in any order, and back, with a packet that was seen only in the middle of its way.
  const back = way.map((name, at) => seen(10 - at, name, "8", "10.1.0.1", "10.0.0.1"));
  const both = crossed([...back, ...there.reverse(), seen(20, "s1--r1:eth0", "9", "192.0.2.1", "192.0.2.2")], office());
  assert.deepEqual(both.get("s1--r1:eth0"), { there: 1, back: 1, some: 1, lost: false });
  assert.deepEqual(both.get("h1:eth0--s1"), { there: 1, back: 1, some: 0, lost: false });
});

test("at a lone link addresses tell the direction, and a link that is gone is left out", () => {
  const marks = crossed([seen(0, "h1:eth0--s1"), seen(1, "r1:eth1--web:eth0", "8"), seen(2, "gone--s1", "9")], office());
  assert.equal(marks.get("h1:eth0--s1")!.there, 1);
  assert.equal(marks.get("r1:eth1--web:eth0")!.there, 1);
  assert.equal(marks.size, 2);
});

test("hops that were measured tell loss and delay at their links, there and back", () => {
  const hop = (hop: string, from: string, lost: number, mean_ns: number | null) => ({ hop, from, sent: 10, lost, sampled: mean_ns === null ? null : { mean_ns } });
  const block = (from: string, to: string, hops: ReturnType<typeof hop>[]) => ({ type: "block", from, to, families: [4], hops });
  const marks = measured([
    block("h1", "web", [hop("link h1:eth0--s1", "h1:eth0", 0, 50_000), hop("switch s1", "s1/h1:eth0", 0, 9_000), hop("link s1--r1:eth0", "s1/r1:eth0", 3, 12_345_678), hop("node r1", "r1:eth0", 0, 1)]),
    block("web", "h1", [hop("link s1--r1:eth0", "r1:eth0", 0, null), hop("link h1:eth0--s1", "s1/h1:eth0", 0, 60_000)]),
  ], office());
  assert.deepEqual(marks.get("h1:eth0--s1"), { there: 10, back: 10, some: 0, lost: false, words: "0.05 ms / 0.06 ms" });
  assert.deepEqual(marks.get("s1--r1:eth0"), { there: 10, back: 10, some: 0, lost: true, words: "12.3 ms −3" });
  assert.equal(marks.size, 2);
});

test("ways of an answered question are marked, and the place of the loss", () => {
  const hop = (name: string, out: boolean, seen: "packet" | "nothing" | "resolution" | "not_watched") => ({ name, out, seen });
  const report = {
    verdict: "stopped" as const, probe: "", causes: [], hindrances: [], missing: [],
    there: {
      hops: [hop("h1:eth0", true, "packet"), hop("s1/h1:eth0", false, "packet"), hop("s1/r1:eth0", true, "packet"), hop("r1:eth0", false, "packet"), hop("r1:eth1", true, "packet"), hop("web:eth0", false, "resolution")],
      last: "r1:eth1 out", lost: "web:eth0 in",
    },
  };
  const marks = ways(report, office());
  assert.deepEqual(marks.get("h1:eth0--s1"), { there: 1, back: 0, some: 0, lost: false });
  assert.deepEqual(marks.get("s1--r1:eth0"), { there: 1, back: 0, some: 0, lost: false });
  assert.deepEqual(marks.get("r1:eth1--web:eth0"), { there: 1, back: 0, some: 0, lost: true });
  // What nobody looked at is not marked.
  const unseen = ways({ ...report, there: { hops: [hop("r1:eth1", true, "not_watched")] } }, office());
  assert.equal(unseen.size, 0);
});

test("links belong to the slices whose ports they are", () => {
  const shown = { slices: [{ name: "red", switches: [{ switch: "s1", ports: [{ name: "h1:eth0" }] }] }, { name: "blue", switches: [{ switch: "s1", ports: [{ name: "h1:eth0" }, { name: "r1" }] }] }] };
  assert.deepEqual([...slicesOf(shown, office())], [["h1:eth0--s1", [0, 1]], ["s1--r1:eth0", [1]]]);
  assert.equal(linkOfPort(office(), "s1", "nobody"), null);
  assert.deepEqual(dashes([3]).map(({ dash }) => dash), [[]]);
  assert.deepEqual(dashes([0, 1]).map(({ dash, offset }) => [dash, offset]), [[[9, 9], -0], [[9, 9], -9]]);
});

test("words are a flow where nodes, addresses and services say so, else one filter", () => {
  assert.deepEqual(question("  h1  web 80/tcp ", office()), ["h1", "web", "80/tcp"]);
  assert.deepEqual(question("10.0.0.1 icmp", office()), ["10.0.0.1", "icmp"]);
  assert.deepEqual(question("tcp port 80 and host  h1", office()), ["tcp port 80 and host h1"]);
  assert.deepEqual(question(" ", office()), []);
});

test("an arrowhead points where packets went", () => {
  const line = { points: [0, 0, 100, 0] as [number, number, number, number], middle: [50, 0] as [number, number], bent: false, width: 1, tone: "idle" as const, wire: null, rate: null };
  const mark = { there: 0, back: 0, some: 0, lost: false };
  const tip = (of: typeof mark) => arrowheads(line, of).map(([first]) => Math.sign(first![0] - 50));
  assert.deepEqual(tip({ ...mark, there: 3 }), [1]);
  assert.deepEqual(tip({ ...mark, back: 1 }), [-1]);
  assert.deepEqual(arrowheads(line, { ...mark, there: 1, back: 1 }).length, 2);
  assert.deepEqual(arrowheads(line, { ...mark, some: 4 }), []);
});

test("packets that are found twice stand once, the latest first", () => {
  const [first, second] = [seen(1, "h1:eth0--s1"), seen(2, "h1:eth0--s1", "8")];
  assert.deepEqual(merged([first], [second, { ...first }]).map(({ packet }) => packet), ["8", "7"]);
});

test("rows of a switch have what the switch says of its ports", () => {
  const port = (number: number, name: string, rules = {}) => ({ number, name, presence: "here", counters: {}, rules });
  const shm = { vlans: true, mirrors: {}, ports: [port(0, "switch"), port(2, "r1:eth0", { vlan: { access: 10 } }), port(1, "h1"), { ...port(9, "monitor"), presence: "free" }] } as unknown as SwitchShown;
  const store = office();
  const rows = rowsOf(store, store.switches.get("s1")!, shm, null);
  assert.deepEqual(rows.map(({ number, link, vlan }) => [number, link, vlan]), [[1, "h1:eth0--s1", "1"], [2, "s1--r1:eth0", "10"], [9, null, "1"]]);
  assert.equal(rows[2]!.state!.words, "free");
  assert.equal(vlanWords({ trunk: { allowed: "10,20-29", native: 1 } }, true), "tagged 10,20-29, untagged 1");
  assert.equal(vlanWords({ trunk: {} }, true), "all tagged");
  assert.equal(vlanWords(null, false), "");
});

test("what goes with a node is told, and a form says its command", () => {
  assert.deepEqual(goes(office(), "nodes", "web"), { nodes: ["web/in"], links: ["r1:eth1--web:eth0"] });
  assert.deepEqual(goes(office(), "switches", "s1").links, ["h1:eth0--s1", "s1--r1:eth0"]);
  assert.deepEqual(goes(office(), "links", "h1:eth0--s1"), { nodes: [], links: [] });
  const empty = { name: "", settings: "", switchKind: "shm", a: "", b: "" };
  assert.equal(making("lab", { ...empty, kind: "nodes" }), null);
  assert.equal(making("lab", { ...empty, kind: "nodes", name: "h9", settings: "cpu=50%  memory=64MiB" })!.line, "netloom -l lab node create h9 cpu=50% memory=64MiB");
  assert.deepEqual(making("lab", { ...empty, kind: "switches", name: "s9", switchKind: "openflow" })!.body, { name: "s9", settings: [["kind", "openflow"]] });
  const made = making("my lab", { ...empty, kind: "links", a: "h9", b: "s1", settings: "delay=5ms" })!;
  assert.equal(made.line, "netloom -l 'my lab' link create h9 s1 --delay 5ms");
  assert.deepEqual(made.body, { a: "h9", b: "s1", settings: [["delay", "5ms"]] });
});

test("fates are counted by cause, and times are of what was sent", () => {
  const fate = (sequence: number, fate: string, delay_ns: number | null = null) =>
    ({ sequence, end: 0, time_ns: "1", bytes: 98, fate, delay_ns, duplicated: false, corrupted: false });
  const all = [fate(1, "sent", 5_000_000), fate(2, "loss"), fate(3, "sent", 7_000_000), fate(4, "sent", 6_000_000)];
  assert.deepEqual(summary(all), { by: [["sent", 3], ["loss", 1]], held: { least: 5, middle: 6, most: 7 } });
  assert.equal(summary([fate(1, "loss")]).held, null);
  assert.equal(fateWords({ ...fate(1, "sent", 1_500_000), duplicated: true }), "held 1.50 ms, sent twice");
  assert.equal(fateWords(fate(1, "queue_full")), "lost: queue full");
});

test("a layout is kept for the same lab as it was, and for no other", () => {
  const kept = new Map<string, string>();
  const storage = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) };
  const store = office();
  const layout = { nodes: [{ name: "h1", x: 1, y: 2 }], switches: [], doors: [] };
  new KnownLayout(storage, "office").write(shape(store), layout);
  assert.deepEqual(new KnownLayout(storage, "office").read(shape(office())), layout);
  assert.equal(new KnownLayout(storage, "other").read(shape(store)), null);
  store.apply({ id: "2", kind: "change", time_ns: "2000000000", gone: { links: ["h1:eth0--s1"] } } as LabEvent);
  assert.equal(new KnownLayout(storage, "office").read(shape(store)), null);
  kept.set("netloom-layout office", "{");
  assert.equal(new KnownLayout(storage, "office").read(shape(office())), null);
});

test("places go into the lab file as the layout had them, with what was moved", () => {
  const layout = {
    nodes: [{ name: "h1", x: 40, y: 40 }, { name: "r1", x: 240, y: 40 }, { name: "web", x: 340, y: 40 }, { name: "web/in", x: 340, y: 140 }],
    switches: [{ name: "s1", x: 140, y: 40 }],
  };
  const scene = arrange(office(), layout, {});
  assert.equal(fileLayout(scene), 'x-layout:\n  h1: [40, 40]\n  r1: [240, 40]\n  web: [340, 40]\n  "web/in": [340, 140]\n  s1: [140, 40]');
  scene.vertices.get("node h1")!.y += 50 * scene.unit;
  assert.match(fileLayout(scene), /\n  h1: \[40, 90\]\n/);
});
