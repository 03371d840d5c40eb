import assert from "node:assert/strict";
import { test } from "node:test";
import { changes, command } from "../src/form";
import { age, logged, percent, quoted, rate, shown, size, things } from "../src/text";

test("characters that act are written out", () => {
  assert.equal(shown("<b>&amp;\u202eevil\u0007"), "<b>&amp;\\u{202e}evil\\u{7}");
  assert.equal(shown("h1-eth0"), "h1-eth0");
});

test("what a terminal obeys is not part of a log", () => {
  assert.equal(logged("\u001b[1;31mred\u001b[0m\r"), "red");
  assert.equal(logged("\u001b]0;title\u0007text\u001b]8;;http://x\u001b\\link"), "textlink");
  assert.equal(logged("a\tb\u0000"), "a    b\\u{0}");
});

test("words are quoted for a shell where they have to be", () => {
  assert.equal(quoted("a:eth0--b:eth0"), "a:eth0--b:eth0");
  assert.equal(quoted("icmp and host h1"), "'icmp and host h1'");
  assert.equal(quoted("it's $(x)"), `'it'\\''s $(x)'`);
  assert.equal(quoted(""), "''");
});

test("figures have units and few digits", () => {
  assert.deepEqual([0, 999, 1000, 1_234_567, 9.9999e9].map(rate), ["0 bit/s", "999 bit/s", "1.00 kbit/s", "1.23 Mbit/s", "10.0 Gbit/s"]);
  assert.deepEqual([0, 1023, 1024, 10_485_760].map(size), ["0 B", "1023 B", "1.00 KiB", "10.0 MiB"]);
  assert.deepEqual([things(1, "node"), things(2, "switch"), things(1200, "link")], ["1 node", "2 switches", "1\u2009200 links"]);
  assert.deepEqual([age(5), age(65), age(3700), age(90_000)], ["5 s", "1 min 5 s", "1 h 1 min", "1 d 1 h"]);
  assert.equal(percent(0.005), "0.50 %");
});

test("a form sends what differs, and its command says the same", () => {
  const settings = changes({ delay: "10ms", loss: "1%" }, { delay: " 50ms ", loss: "", rate: "" });
  assert.deepEqual(settings, [["delay", "50ms"], ["loss", "none"]]);
  assert.equal(command("lab", "l x", "a", settings, false), "netloom -l lab link set 'l x' --delay 50ms --loss none --end a");
  assert.equal(command("lab", "l", "both", [], true), "netloom -l lab link set l --clear");
});
