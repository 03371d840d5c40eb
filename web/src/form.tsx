// The form of a link's impairments: only what differs is sent, and the same as a command line is shown.

import { useEffect, useState } from "preact/hooks";
import { ask, path } from "./api";
import { Command, Trouble } from "./parts";
import type { Store } from "./store";
import { quoted, shown, things } from "./text";
import type { LinkStatus } from "./types";

interface Field {
  key: string;
  name: string;
  example: string;
}

const FIELDS: Field[] = [
  { key: "delay", name: "Delay", example: "50ms" },
  { key: "jitter", name: "Jitter", example: "5ms" },
  { key: "loss", name: "Loss", example: "0.5%" },
  { key: "rate", name: "Rate", example: "10mbit" },
];

const MORE: Field[] = [
  { key: "queue", name: "Queue", example: "100 or 50ms" },
  { key: "limit", name: "Limit", example: "1000" },
  { key: "duplicate", name: "Duplicate", example: "0.1%" },
  { key: "reorder", name: "Reorder", example: "1%" },
  { key: "corrupt", name: "Corrupt", example: "0.01%" },
  { key: "mtu", name: "MTU", example: "1400" },
  { key: "drop", name: "Drop", example: "icmp and host h1" },
  { key: "seed", name: "Seed", example: "1" },
];

const PRESETS: [string, Record<string, string>][] = [
  ["Metro", { delay: "5ms" }],
  ["Ocean", { delay: "40ms", jitter: "1ms" }],
  ["Mobile", { delay: "35ms", jitter: "10ms", loss: "0.5%", rate: "20mbit" }],
  ["Satellite", { delay: "270ms", loss: "0.2%", rate: "50mbit" }],
];

type Side = "both" | "a" | "b";
type Values = Record<string, string>;

/** What links do now that way: values that all of them have. */
export function current(links: LinkStatus[], side: Side): Values {
  const sides = side === "both" ? [0, 1] : side === "a" ? [0] : [1];
  const all = links.flatMap((link) => sides.map((at) => link.wire?.directions[at]?.impairments ?? {}));
  const [first = {}, ...rest] = all;
  return Object.fromEntries(Object.entries(first).filter(([key, value]) => rest.every((other) => other[key] === value)));
}

/** What is to change: keys with their values, `none` where one was emptied. */
export function changes(before: Values, now: Values): [string, string][] {
  const keys = [...FIELDS, ...MORE].map(({ key }) => key);
  return keys.flatMap((key) => {
    const [old, value] = [before[key] ?? "", (now[key] ?? "").trim()];
    return old === value ? [] : [[key, value || "none"] as [string, string]];
  });
}

/** The command that does the same. */
export function command(lab: string, link: string, side: Side, settings: [string, string][], clear: boolean): string {
  const flags = settings.flatMap(([key, value]) => [`--${key}`, quoted(value)]);
  const end = side === "both" ? [] : ["--end", side];
  return ["netloom", "-l", quoted(lab), "link", "set", quoted(link), ...(clear ? ["--clear"] : []), ...flags, ...end].join(" ");
}

const MOST_LINES = 4;

function commands(lab: string, links: LinkStatus[], side: Side, settings: [string, string][]): string[] {
  const lines = links.slice(0, MOST_LINES).map((link) => command(lab, link.name, side, settings, false));
  return links.length > MOST_LINES ? [...lines, `# and ${things(links.length - MOST_LINES, "link")} more`] : lines;
}

export function Impair({ store, links }: { store: Store; links: LinkStatus[] }) {
  const [side, setSide] = useState<Side>("both");
  const [edited, setEdited] = useState<Values>({});
  const [busy, setBusy] = useState(false);
  const [said, setSaid] = useState<{ good: boolean; words: string } | null>(null);
  const names = links.map(({ name }) => name).join("\n");
  useEffect(() => {
    setEdited({});
    setSaid(null);
  }, [names, side]);
  const before = current(links, side);
  const settings = changes(before, { ...before, ...edited });
  const lab = store.lab?.name ?? "";
  const send = async (body: object, done: string) => {
    setBusy(true);
    setSaid(null);
    const wrong: string[] = [];
    for (const link of links) {
      try {
        await ask("PATCH", path("links", link.name), body);
      } catch (error) {
        wrong.push(error instanceof Error ? error.message : String(error));
      }
    }
    setBusy(false);
    if (wrong.length === 0) setEdited({});
    setSaid(wrong.length === 0 ? { good: true, words: done } : { good: false, words: wrong.join("\n") });
  };
  const end = side === "both" ? {} : { end: side === "a" ? 0 : 1 };
  const field = ({ key, name, example }: Field) => (
    <label key={key} class="field">
      <span>{name}</span>
      <input
        name={key}
        value={edited[key] ?? before[key] ?? ""}
        placeholder={example}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => setEdited({ ...edited, [key]: event.currentTarget.value })}
      />
    </label>
  );
  const [a, b] = links.length === 1 ? links[0]!.ends : ["first end", "second end"];
  const sides: [Side, string][] = [["both", "Both ways"], ["a", `From ${shown(a)}`], ["b", `From ${shown(b)}`]];
  const hasMore = MORE.some(({ key }) => before[key] !== undefined);
  return (
    <form
      class="impair"
      onSubmit={(event) => {
        event.preventDefault();
        void send({ settings, ...end }, "Applied");
      }}
    >
      <label class="field wide">
        <span>Direction</span>
        <select value={side} onChange={(event) => setSide(event.currentTarget.value as Side)}>
          {sides.map(([value, words]) => <option key={value} value={value}>{words}</option>)}
        </select>
      </label>
      <div class="presets" role="group" aria-label="Typical links">
        {PRESETS.map(([name, values]) => (
          <button key={name} type="button" class="chip" onClick={() => setEdited({ delay: "", jitter: "", loss: "", rate: "", ...values })}>
            {name}
          </button>
        ))}
      </div>
      <div class="fields">{FIELDS.map(field)}</div>
      <details open={hasMore}>
        <summary>More</summary>
        <div class="fields">{MORE.map(field)}</div>
      </details>
      {settings.length > 0 && <Command id="equal-command" lines={commands(lab, links, side, settings)} />}
      <div class="buttons">
        <button type="submit" class="primary" disabled={busy || settings.length === 0}>Apply</button>
        <button type="button" disabled={busy || Object.keys(before).length === 0} onClick={() => void send({ clear: true, ...end }, "Removed")}>
          Remove all
        </button>
        <span class="said ok" role="status">{said?.good ? said.words : ""}</span>
      </div>
      {said && !said.good && <Trouble words={said.words} />}
    </form>
  );
}
