// The page's own layout: distances follow hops, in labs of any size and form, within a bounded time.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Scene, Vertex } from "../src/scene";
import { layOut } from "../src/stress";

function scene(count: number, links: [number, number][]): Scene {
  const all = Array.from({ length: count }, (_, at): Vertex => ({ key: `node ${at}`, kind: "host", name: `${at}`, x: NaN, y: NaN }));
  const edge = ([a, b]: [number, number], at: number) => [`${at}`, { name: `${at}`, a: all[a]!, b: all[b]!, bend: 0 }] as const;
  return { vertices: new Map(all.map((one) => [one.key, one])), edges: new Map(links.map(edge)), unit: 1 };
}

const far = (one: Vertex, other: Vertex) => Math.hypot(one.x - other.x, one.y - other.y);

test("the nodes of a chain are one unit a hop apart, in a line", () => {
  const chain = scene(6, [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]);
  layOut(chain);
  const all = [...chain.vertices.values()];
  for (let at = 1; at < all.length; at += 1) assert.ok(Math.abs(far(all[at - 1]!, all[at]!) - 1) < 0.2, JSON.stringify(all));
  assert.ok(far(all[0]!, all[5]!) > 4.2, JSON.stringify(all));
});

test("nothing, one node, and nodes without links have places, too", () => {
  for (const count of [0, 1, 2, 40]) {
    const lab = scene(count, []);
    layOut(lab);
    const all = [...lab.vertices.values()];
    assert.ok(all.every(({ x, y }) => Number.isFinite(x) && Number.isFinite(y)), JSON.stringify(all));
    assert.equal(new Set(all.map(({ x, y }) => `${x.toFixed(6)} ${y.toFixed(6)}`)).size, count);
  }
});

test("a large lab has places", () => {
  const links = Array.from({ length: 1999 }, (_, at): [number, number] => [at + 1, Math.floor(at / 3)]);
  const lab = scene(2000, links);
  layOut(lab);
  assert.ok([...lab.vertices.values()].every(({ x, y }) => Number.isFinite(x) && Number.isFinite(y)));
});
