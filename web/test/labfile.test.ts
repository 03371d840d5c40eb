// Places in a lab file, and signs of steps.

import assert from "node:assert/strict";
import { test } from "node:test";
import { placed, stepTone } from "../src/labfile";

test("places replace those of the file", () => {
  const places = "x-layout:\n  a: [1, 2]";
  assert.equal(placed("name: x\nnodes: {a: {}}\n", places), `name: x\nnodes: {a: {}}\n${places}\n`);
  const old = "name: x\nx-layout:\n  a: [5, 6]\n  b: [7, 8]\nnodes:\n  a: {}\n";
  assert.equal(placed(old, places), `name: x\nnodes:\n  a: {}\n${places}\n`);
  assert.equal(placed("name: x\nx-layout: {a: [5, 6]}\n", places), `name: x\n${places}\n`);
});

test("steps that end something are told apart", () => {
  assert.deepEqual(["+ node a", "- node a", "~ link l", "! node a", "program"].map(stepTone), ["ok", "bad", "warn", "bad", ""]);
});
