// Nodes, switches and links of a running lab, made and removed by hand: what a change does and its command are shown before it is done.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, path } from "./api";
import { place } from "./marks";
import { type Choose, Command, Section, Trouble } from "./parts";
import type { Store } from "./store";
import { quoted, shown, things } from "./text";

type Kind = "nodes" | "switches" | "links";

const WORD: Record<Kind, string> = { nodes: "node", switches: "switch", links: "link" };

/** What goes with something that is removed. */
export function goes(store: Store, kind: Kind, name: string): { nodes: string[]; links: string[] } {
  if (kind === "links") return { nodes: [], links: [] };
  const nodes = kind === "nodes" ? [...store.nodes.keys()].filter((other) => other.startsWith(`${name}/`)) : [];
  const gone = new Set(kind === "nodes" ? [name, ...nodes] : [name]);
  const links = [...store.links.values()].filter(({ status }) => status.ends.some((end) => gone.has(place(end)))).map(({ status }) => status.name);
  return { nodes, links };
}

const MOST_NAMES = 6;

function names(all: string[]): string {
  const seen = all.slice(0, MOST_NAMES).map(shown).join(", ");
  return all.length > MOST_NAMES ? `${seen} and ${things(all.length - MOST_NAMES, "other")}` : seen;
}

interface RemoveProps {
  store: Store;
  kind: Kind;
  name: string;
  choose: Choose;
}

/** A section that removes what a panel is about, in two steps. */
export function Remove({ store, kind, name, choose }: RemoveProps) {
  const [asked, setAsked] = useState(false);
  const [force, setForce] = useState(false);
  const [busy, setBusy] = useState(false);
  const [why, setWhy] = useState<string | null>(null);
  const word = WORD[kind];
  const also = goes(store, kind, name);
  const remove = async () => {
    setBusy(true);
    setWhy(null);
    try {
      await ask("DELETE", `${path(kind, name)}${force ? "?force=true" : ""}`);
      choose(null);
    } catch (error) {
      setWhy((error as Error).message);
    }
    setBusy(false);
  };
  if (!asked) {
    return (
      <section class="section">
        <button type="button" class="danger" id="remove" onClick={() => setAsked(true)}>Delete this {word}</button>
      </section>
    );
  }
  const line = ["netloom", "-l", quoted(store.lab?.name ?? ""), word, "delete", ...(force ? ["--force"] : []), quoted(name)].join(" ");
  return (
    <Section title={`Delete ${shown(name)}?`}>
      <div class="impair">
        <p>
          {also.nodes.length + also.links.length === 0 ? "Nothing else goes with it." : "With it go "}
          {also.nodes.length > 0 && <>{things(also.nodes.length, "node")} in it ({names(also.nodes)}){also.links.length > 0 ? " and " : "."}</>}
          {also.links.length > 0 && <>{things(also.links.length, "link")} ({names(also.links)}).</>}
        </p>
        {kind !== "links" && (
          <label class="tick">
            <input type="checkbox" checked={force} onChange={(event) => setForce(event.currentTarget.checked)} />
            {kind === "nodes" ? "Also end programs that run in it" : "Also while its ports are in use"}
          </label>
        )}
        <Command lines={[line]} />
        <div class="buttons">
          <button type="button" class="danger" id="remove-now" disabled={busy} onClick={() => void remove()}>Delete</button>
          <button type="button" onClick={() => setAsked(false)}>Keep</button>
        </div>
        {why && <Trouble words={why} />}
      </div>
    </Section>
  );
}

/** What is to be made, as its form has it. */
export interface Wanted {
  kind: Kind;
  name: string;
  /** Settings of a node or a switch, or impairments of a link: `cpu=50% memory=64MiB`. */
  settings: string;
  switchKind: string;
  a: string;
  b: string;
}

function pairs(text: string): [string, string][] {
  return text.split(/\s+/).filter(Boolean).map((word) => {
    const at = word.indexOf("=");
    return at < 0 ? [word, ""] : [word.slice(0, at), word.slice(at + 1)];
  });
}

/** The request that makes it, and the command that does the same; null while something is missing. */
export function making(lab: string, wanted: Wanted): { path: string; body: object; line: string } | null {
  const { kind, name, a, b } = wanted;
  const settings = pairs(wanted.settings);
  const start = ["netloom", "-l", quoted(lab), WORD[kind], "create"];
  if (kind === "links") {
    if (!a || !b) return null;
    const flags = settings.flatMap(([key, value]) => [`--${key}`, quoted(value)]);
    return {
      path: "/v1/links",
      body: { a, b, settings, ...(name ? { name } : {}) },
      line: [...start, quoted(a), quoted(b), ...(name ? ["--name", quoted(name)] : []), ...flags].join(" "),
    };
  }
  if (!name) return null;
  const all: [string, string][] = kind === "switches" && wanted.switchKind !== "shm" ? [["kind", wanted.switchKind], ...settings] : settings;
  return { path: `/v1/${kind}`, body: { name, settings: all }, line: [...start, quoted(name), ...all.map(([key, value]) => quoted(`${key}=${value}`))].join(" ") };
}

const EXAMPLES: Record<Kind, string> = { nodes: "cpu=50% memory=64MiB", switches: "", links: "delay=20ms loss=1%" };

/** The window in which something is added to the lab. */
export function Add({ store, choose, close }: { store: Store; choose: Choose; close: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  const [wanted, setWanted] = useState<Wanted>({ kind: "nodes", name: "", settings: "", switchKind: "shm", a: "", b: "" });
  const [busy, setBusy] = useState(false);
  const [why, setWhy] = useState<string | null>(null);
  const [done, setDone] = useState<string | null>(null);
  useEffect(() => box.current?.showModal(), []);
  const lab = store.lab?.name ?? "";
  const ready = making(lab, wanted);
  const put = (part: Partial<Wanted>) => setWanted({ ...wanted, ...part });
  const make = async () => {
    if (!ready) return;
    setBusy(true);
    setWhy(null);
    setDone(null);
    try {
      const { name } = await ask<{ name: string; notes: string[] }>("POST", ready.path, ready.body);
      setDone(`${shown(name)} is there`);
      put({ name: "", settings: "", a: "", b: "" });
      choose(wanted.kind === "links" ? { kind: "links", names: [name] } : { kind: wanted.kind === "nodes" ? "node" : "switch", name });
    } catch (error) {
      setWhy((error as Error).message);
    }
    setBusy(false);
  };
  const field = (key: "name" | "settings" | "a" | "b", words: string, example: string) => (
    <label class="field">
      <span>{words}</span>
      <input name={`add-${key}`} value={wanted[key]} placeholder={example} autocomplete="off" spellcheck={false} list={key === "a" || key === "b" ? "add-ends" : undefined} onInput={(event) => put({ [key]: event.currentTarget.value })} />
    </label>
  );
  const ends = [...store.switches.keys(), ...store.nodes.keys()];
  return (
    <dialog ref={box} onClose={close} aria-labelledby="add-title" class="wide-dialog">
      <h2 id="add-title">Add to the lab</h2>
      <form
        class="impair"
        onSubmit={(event) => {
          event.preventDefault();
          void make();
        }}
      >
        <div class="switcher" role="group" aria-label="What to add">
          {(["nodes", "switches", "links"] as const).map((kind) => (
            <button key={kind} type="button" aria-pressed={wanted.kind === kind} onClick={() => put({ kind, settings: "" })}>
              {{ nodes: "Node", switches: "Switch", links: "Link" }[kind]}
            </button>
          ))}
        </div>
        {wanted.kind === "links" && (
          <div class="fields">
            {field("a", "From", "h1, h1:eth5 or a switch")}
            {field("b", "To", "s1")}
            <datalist id="add-ends">{ends.slice(0, 500).map((name) => <option key={name} value={name} />)}</datalist>
          </div>
        )}
        <div class="fields">
          {field("name", wanted.kind === "links" ? "Name, if it needs one" : "Name", wanted.kind === "nodes" ? "h9" : wanted.kind === "switches" ? "s9" : "")}
          {wanted.kind === "switches" ? (
            <label class="field">
              <span>Kind</span>
              <select name="add-kind" value={wanted.switchKind} onChange={(event) => put({ switchKind: event.currentTarget.value })}>
                <option value="shm">in shared memory</option>
                <option value="openflow">OpenFlow</option>
              </select>
            </label>
          ) : field("settings", wanted.kind === "links" ? "Impairments" : "Settings", EXAMPLES[wanted.kind])}
        </div>
        {ready && <Command id="add-command" lines={[ready.line]} />}
        <div class="buttons">
          <button type="submit" class="primary" disabled={busy || !ready}>Add</button>
          <button type="button" onClick={() => box.current?.close()}>Close</button>
          <span class="said ok" role="status">{done ?? ""}</span>
        </div>
        {why && <Trouble words={why} />}
        <p class="muted small-print">The lab file stays as it is. This writes one with what was changed:</p>
        <Command lines={[`netloom export lab ${quoted(lab)} -o ${quoted(`${lab}.yaml`)}`]} />
      </form>
    </dialog>
  );
}
