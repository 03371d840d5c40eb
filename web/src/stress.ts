// A layout by the page itself, for a lab process that offers none: distances on the map follow hops (stress majorization,
// Gansner, Koren and North 2004). The same lab gives the same picture.

import type { Scene, Vertex } from "./scene";

const ROUNDS = 60;

// Each round looks at all pairs: large labs get fewer, and at least one.
const MOST_LOOKS = 40_000_000;

/** Gives every vertex a place, one unit a hop. */
export function layOut(scene: Scene): void {
  const all = [...scene.vertices.values()];
  const index = new Map(all.map((vertex, at) => [vertex, at]));
  const near: number[][] = all.map(() => []);
  for (const { a, b } of scene.edges.values()) {
    const [i, j] = [index.get(a)!, index.get(b)!];
    if (i === j || near[i]!.includes(j)) continue;
    near[i]!.push(j);
    near[j]!.push(i);
  }
  const hops = all.map((_, from) => distances(near, from));
  const order = near.map((_, at) => at).sort((i, j) => hops[0]![i]! - hops[0]![j]! || i - j);
  order.forEach((at, rank) => {
    const angle = (2 * Math.PI * rank) / all.length;
    // Not quite a circle, so that nothing stands exactly opposite of something else for ever.
    const radius = Math.sqrt(all.length) * (0.6 + 0.4 * ((rank * 0.618) % 1));
    Object.assign(all[at]!, { x: Math.cos(angle) * radius, y: Math.sin(angle) * radius });
  });
  const rounds = Math.max(1, Math.min(ROUNDS, Math.floor(MOST_LOOKS / (all.length * all.length || 1))));
  for (let round = 0; round < rounds; round += 1) settle(all, hops);
  lieDown(all);
}

/** Hops from one to all; what cannot be reached is a little further than all that can. */
function distances(near: number[][], from: number): Float32Array {
  const found = new Float32Array(near.length).fill(-1);
  found[from] = 0;
  const queue = [from];
  for (const at of queue) {
    for (const next of near[at]!) {
      if (found[next]! >= 0) continue;
      found[next] = found[at]! + 1;
      queue.push(next);
    }
  }
  const beyond = Math.max(2, found[queue[queue.length - 1]!]! + 1, Math.sqrt(near.length) / 2);
  return found.map((hops) => (hops < 0 ? beyond : hops));
}

function settle(all: Vertex[], hops: Float32Array[]): void {
  // No iterators and no objects: this is most of the time that a layout takes.
  for (let i = 0; i < all.length; i += 1) {
    const one = all[i]!;
    const wanted = hops[i]!;
    let x = 0;
    let y = 0;
    let weights = 0;
    for (let j = 0; j < all.length; j += 1) {
      if (i === j) continue;
      const other = all[j]!;
      const apart = wanted[j]!;
      const weight = 1 / (apart * apart);
      const dx = one.x - other.x;
      const dy = one.y - other.y;
      const by = apart / (Math.sqrt(dx * dx + dy * dy) || 1e-6);
      x += weight * (other.x + dx * by);
      y += weight * (other.y + dy * by);
      weights += weight;
    }
    if (weights > 0) {
      one.x = x / weights;
      one.y = y / weights;
    }
  }
}

/** Turns the picture so that its longer side lies, with what is first in the lab on the left. */
function lieDown(all: Vertex[]): void {
  const mean = (key: "x" | "y") => all.reduce((sum, vertex) => sum + vertex[key], 0) / all.length;
  const [mx, my] = [mean("x"), mean("y")];
  let [xx, xy, yy] = [0, 0, 0];
  for (const { x, y } of all) {
    xx += (x - mx) ** 2;
    xy += (x - mx) * (y - my);
    yy += (y - my) ** 2;
  }
  const angle = 0.5 * Math.atan2(2 * xy, xx - yy);
  const first = all[0] ?? { x: mx, y: my };
  const turned = (first.x - mx) * Math.cos(angle) + (first.y - my) * Math.sin(angle) > 0 ? Math.PI - angle : -angle;
  const [cos, sin] = [Math.cos(turned), Math.sin(turned)];
  for (const vertex of all) {
    const [dx, dy] = [vertex.x - mx, vertex.y - my];
    Object.assign(vertex, { x: dx * cos - dy * sin, y: dx * sin + dy * cos });
  }
}
