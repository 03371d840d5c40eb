// Blocks of pcapng are counted wherever the stream is cut.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Blocks } from "../src/capture";

function block(type: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, type, true);
  view.setUint32(4, length, true);
  view.setUint32(length - 4, length, true);
  return bytes;
}

test("blocks are counted wherever the stream is cut", () => {
  const all = [block(0x0a0d0d0a, 28), block(1, 20), block(6, 96), block(6, 36), block(5, 64), block(3, 16), block(6, 44)];
  const file = new Uint8Array(all.reduce((sum, one) => sum + one.length, 0));
  let at = 0;
  for (const one of all) {
    file.set(one, at);
    at += one.length;
  }
  for (let piece = 1; piece <= file.length; piece += 1) {
    const blocks = new Blocks();
    for (let from = 0; from < file.length; from += piece) blocks.add(file.subarray(from, from + piece));
    assert.deepEqual([blocks.packets, blocks.whole], [4, file.length], `pieces of ${piece}`);
  }
  // What is cut within a block ends before it.
  const cut = new Blocks();
  cut.add(file.subarray(0, file.length - 1));
  assert.deepEqual([cut.packets, cut.whole], [3, file.length - 44]);
});

test("a length that no block has ends nothing", () => {
  const blocks = new Blocks();
  blocks.add(new Uint8Array(64));
  assert.equal(blocks.packets, 0);
});
