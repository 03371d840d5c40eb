// The panel of a switch: its ports with their links, VLANs and addresses; of an OpenFlow switch controllers and `trace`.

import { useState } from "preact/hooks";
import { ask, path } from "./api";
import { Remove } from "./edit";
import { linkOfPort, place } from "./marks";
import { Badge, type Choose, Command, Facts, Pick, Section, Trouble, useAnswer, useStore } from "./parts";
import type { Store } from "./store";
import { age, count, quoted, rate, shown, things } from "./text";
import type { FlowEntry, FlowShown, FlowTraced, MacTable, SwitchPort, SwitchShown, SwitchStatus } from "./types";

const EVERY_MS = 3000;
const MOST_ROWS = 200;

interface Row {
  number: number | null;
  name: string;
  link: string | null;
  state: { tone: "ok" | "warn" | "bad" | "plain"; words: string } | null;
  vlan: string | null;
}

/** The VLANs of a port in a few words. */
export function vlanWords(vlan: SwitchPort["rules"]["vlan"], separated: boolean): string {
  if (vlan?.access !== undefined) return String(vlan.access);
  if (!vlan?.trunk) return separated ? "1" : "";
  const { allowed, native } = vlan.trunk;
  const tagged = allowed && allowed !== "" ? `tagged ${allowed}` : "all tagged";
  return native === null || native === undefined ? tagged : `${tagged}, untagged ${native}`;
}

/** A row for each link of the switch, and for each port that the switch itself names. */
export function rowsOf(store: Store, one: SwitchStatus, shm: SwitchShown | null, flow: FlowShown | null): Row[] {
  const links = new Map(one.links.map((name) => [name, { number: null, name: otherEnd(store, one.name, name), link: name, state: null, vlan: null } as Row]));
  const more: Row[] = [];
  const put = (name: string, row: Omit<Row, "link" | "name">) => {
    const link = linkOfPort(store, one.name, name);
    if (link && links.has(link)) links.set(link, { ...links.get(link)!, ...row });
    else more.push({ ...row, name, link: null });
  };
  const states = { here: null, awaited: { tone: "warn", words: "awaited" }, free: { tone: "plain", words: "free" } } as const;
  for (const { number, name, presence, rules } of shm?.ports ?? []) {
    // Number 0 is the switch itself.
    if (number > 0) put(name || rules.name || String(number), { number, state: states[presence], vlan: vlanWords(rules.vlan, shm!.vlans) || null });
  }
  for (const { number, name, up, config } of flow?.ports ?? []) {
    const words = [...(up ? [] : ["down"]), ...config].join(", ");
    put(name, { number, state: words === "" ? null : { tone: up ? "warn" : "bad", words }, vlan: null });
  }
  return [...links.values(), ...more].sort((one, other) => (one.number ?? Infinity) - (other.number ?? Infinity));
}

function otherEnd(store: Store, of: string, link: string): string {
  const ends = store.links.get(link)?.status.ends ?? [link, link];
  return ends[0] === of ? ends[1] : ends[0];
}

function Ports({ store, one, rows, choose }: { store: Store; one: SwitchStatus; rows: Row[]; choose: Choose }) {
  const has = { number: rows.some(({ number }) => number !== null), vlan: rows.some(({ vlan }) => vlan !== null) };
  const traffic = (link: string | null) => {
    const known = link === null ? undefined : store.links.get(link);
    if (!known) return ["–", "–"];
    const toSwitch = known.status.ends[1] === one.name ? 0 : 1;
    return [rate(known.rates.bits[toSwitch]), rate(known.rates.bits[1 - toSwitch]!)];
  };
  return (
    <div class="scroll-x" tabIndex={0} role="group" aria-label="Ports">
      <table class="compact" id="ports">
        <thead>
          <tr>
            {has.number && <th scope="col" class="number">Port</th>}
            <th scope="col">To</th>
            {has.vlan && <th scope="col">VLAN</th>}
            <th scope="col" class="number">In</th>
            <th scope="col" class="number">Out</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const [into, out] = traffic(row.link);
            return (
              <tr key={`${row.link} ${row.name}`}>
                {has.number && <td class="number">{row.number ?? "–"}</td>}
                <th scope="row">
                  {row.link ? <Pick choice={{ kind: "links", names: [row.link] }} choose={choose}>{shown(row.name)}</Pick> : shown(row.name)}
                  {row.state && <> <Badge tone={row.state.tone}>{shown(row.state.words)}</Badge></>}
                </th>
                {has.vlan && <td>{shown(row.vlan ?? "–")}</td>}
                <td class="number">{into}</td>
                <td class="number">{out}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

/** Addresses that the switch has learned. */
function Addresses({ tables, rows }: { tables: MacTable[]; rows: Row[] }) {
  const named = new Map(rows.map(({ number, name }) => [number, name]));
  // Each port keeps the addresses that it sends to; the same address stands in the tables of several.
  const all = new Map(tables.flatMap(({ entries }) => entries).map((entry) => [`${entry.mac} ${entry.vlan} ${entry.port}`, entry]));
  const entries = [...all.values()].sort((one, other) => one.port - other.port || one.mac.localeCompare(other.mac));
  if (entries.length === 0) return <p class="muted">It has learned no address yet.</p>;
  const vlans = entries.some(({ vlan }) => vlan > 0);
  return (
    <div class="scroll-x" tabIndex={0} role="group" aria-label="Learned addresses">
      <table class="compact" id="macs">
        <thead>
          <tr><th scope="col">Address</th>{vlans && <th scope="col" class="number">VLAN</th>}<th scope="col">Behind</th><th scope="col" class="number">Age</th></tr>
        </thead>
        <tbody>
          {entries.slice(0, MOST_ROWS).map(({ mac, vlan, port, age: seconds }) => (
            <tr key={`${mac} ${vlan} ${port}`}>
              <th scope="row"><code>{shown(mac)}</code></th>
              {vlans && <td class="number">{vlan}</td>}
              <td>{shown(named.get(port) ?? `port ${port}`)}</td>
              <td class="number">{age(seconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <More all={entries.length} />
    </div>
  );
}

/** The entries of an OpenFlow switch by table, in the order in which they are looked at. */
function Flows({ one }: { one: SwitchStatus }) {
  const { answer, why } = useAnswer<FlowEntry[]>(`${path("switches", one.name)}/flows`, EVERY_MS);
  if (why) return <Trouble words={why} />;
  if (answer?.length === 0) return <p class="muted">It has no entry.</p>;
  return (
    <div class="scroll-x" tabIndex={0} role="group" aria-label="Flow entries">
      <table class="compact" id="flows">
        <thead>
          <tr><th scope="col" class="number">Table</th><th scope="col" class="number">Priority</th><th scope="col">Match</th><th scope="col">Does</th><th scope="col" class="number">Packets</th><th scope="col" class="number">Age</th></tr>
        </thead>
        <tbody>
          {answer?.slice(0, MOST_ROWS).map((entry) => (
            <tr key={`${entry.table} ${entry.priority} ${entry.match}`}>
              <td class="number">{entry.table}</td>
              <td class="number">{entry.priority}</td>
              <th scope="row"><code>{shown(entry.match || "any")}</code></th>
              <td><code>{shown(entry.actions || "drop")}</code></td>
              <td class="number">{count(entry.packets)}</td>
              <td class="number">{age(entry.age_s)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <More all={answer?.length ?? 0} />
    </div>
  );
}

function More({ all }: { all: number }) {
  return all > MOST_ROWS ? <p class="muted">and {count(all - MOST_ROWS)} more</p> : null;
}

/** What the switch would do with a frame: nothing is sent. */
function Trace({ lab, name, rows, choose }: { lab: string; name: string; rows: Row[]; choose: Choose }) {
  const numbered = rows.filter(({ number }) => number !== null);
  const [port, setPort] = useState("");
  const [match, setMatch] = useState("icmp");
  const [traced, setTraced] = useState<FlowTraced | null>(null);
  const [why, setWhy] = useState<string | null>(null);
  const from = port || String(numbered[0]?.number ?? 1);
  const words = [`in_port=${from}`, ...match.split(/[\s,]+/).filter(Boolean)].join(",");
  const trace = async () => {
    setWhy(null);
    setTraced(null);
    try {
      setTraced(await ask<FlowTraced>("POST", `${path("switches", name)}/trace`, { match: words }));
    } catch (error) {
      setWhy((error as Error).message);
    }
  };
  return (
    <form
      class="impair"
      id="trace"
      onSubmit={(event) => {
        event.preventDefault();
        void trace();
      }}
    >
      <div class="fields">
        <label class="field">
          <span>Comes in by</span>
          <select value={from} onChange={(event) => setPort(event.currentTarget.value)}>
            {numbered.map((row) => <option key={row.number} value={String(row.number)}>{row.number} {shown(row.name)}</option>)}
          </select>
        </label>
        <label class="field">
          <span>Frame</span>
          <input name="match" value={match} placeholder="tcp,nw_dst=10.0.0.2,tp_dst=80" autocomplete="off" spellcheck={false} onInput={(event) => setMatch(event.currentTarget.value)} />
        </label>
      </div>
      <Command lines={[`netloom -l ${quoted(lab)} flow trace ${quoted(name)} ${quoted(words)}`]} />
      <div class="buttons"><button type="submit" class="primary">Trace</button></div>
      {why && <Trouble words={why} />}
      {traced && <Traced traced={traced} rows={rows} choose={choose} />}
    </form>
  );
}

function Traced({ traced, rows, choose }: { traced: FlowTraced; rows: Row[]; choose: Choose }) {
  const { steps = [], effects = [], drops = [], sent = [] } = traced;
  const linkOf = (port: number) => rows.find(({ number }) => number === port)?.link;
  return (
    <div class="traced" role="status">
      {traced.standalone && <p class="muted">No controller is connected: it forwards as a learning switch.</p>}
      <ol class="steps">
        {steps.map(({ table, entry }, at) => <li key={at}><b>Table {table}</b> <code>{shown(entry ?? "no entry matches")}</code></li>)}
        {effects.length > 0 && <li><b>Does</b> <code>{shown(effects.join(" "))}</code></li>}
        {sent.map(({ port, name }, at) => {
          const link = linkOf(port);
          return <li key={`s${at}`}><b>Leaves by</b> {link ? <Pick choice={{ kind: "links", names: [link] }} choose={choose}>{port} {shown(name)}</Pick> : `${port} ${shown(name)}`}</li>;
        })}
        {(traced.packet_ins ?? 0) > 0 && <li><b>Controllers</b> get {things(traced.packet_ins!, "message")}</li>}
        {drops.map((words, at) => <li key={`d${at}`} class="bad"><b>Dropped</b> {shown(words)}</li>)}
        {traced.decided_by && <li class="muted"><b>Decided by</b> <code>{shown(traced.decided_by)}</code></li>}
      </ol>
    </div>
  );
}

export function SwitchPanel({ store, name, choose }: { store: Store; name: string; choose: Choose }) {
  useStore(store);
  const one = store.switches.get(name);
  if (!one) return <p class="muted gone">This switch is not there any more.</p>;
  const Kind = one.openflow ? FlowPanel : one.kind === "shm" ? ShmPanel : PlainPanel;
  return <Kind store={store} one={one} choose={choose} />;
}

interface KindProps {
  store: Store;
  one: SwitchStatus;
  choose: Choose;
}

function Head({ one, kind, children }: { one: SwitchStatus; kind: string; children?: preact.ComponentChildren }) {
  return (
    <div class="panel-head">
      <p class="kind">{kind}</p>
      <h2>{shown(one.name)}</h2>
      {children}
    </div>
  );
}

function PlainPanel({ store, one, choose }: KindProps) {
  const rows = rowsOf(store, one, null, null);
  return (
    <>
      <Head one={one} kind={one.kind === "hub" ? "Hub" : "Bridge"} />
      <Section title="Ports"><Ports store={store} one={one} rows={rows} choose={choose} /></Section>
      <Section title="About">
        <Facts facts={[["Kind", shown(one.kind)], ["Interface", shown(one.bridge)]]} />
      </Section>
      <Remove store={store} kind="switches" name={one.name} choose={choose} />
    </>
  );
}

function ShmPanel({ store, one, choose }: KindProps) {
  const requests = `${path("switches", one.name)}/requests`;
  const { answer, why } = useAnswer<{ shown: SwitchShown }>(requests, EVERY_MS, "show");
  const macs = useAnswer<{ macs: MacTable[] }>(requests, EVERY_MS, ASK_MACS);
  const shm = answer?.shown ?? null;
  const rows = rowsOf(store, one, shm, null);
  const named = (port: number) => rows.find(({ number }) => number === port)?.name ?? `port ${port}`;
  const facts: [string, string][] = [["Kind", "in shared memory"]];
  if (one.vde) facts.push(["VDE", one.vde]);
  for (const { to, sources, filter } of Object.values(shm?.mirrors ?? {})) {
    const from = sources.map(({ port, direction }) => `${named(port)} (${direction})`).join(", ");
    facts.push([`Mirror to ${place(named(to))}`, `${from}${filter ? `, filter ${filter}` : ""}`]);
  }
  return (
    <>
      <Head one={one} kind="Switch" />
      <Section title="Ports"><Ports store={store} one={one} rows={rows} choose={choose} /></Section>
      <Section title="Addresses">
        <Addresses tables={macs.answer?.macs ?? []} rows={rows} />
        {why && <Trouble words={why} />}
      </Section>
      <Section title="About"><Facts facts={facts.map(([name, value]) => [shown(name), shown(value)])} /></Section>
      <Remove store={store} kind="switches" name={one.name} choose={choose} />
    </>
  );
}

const ASK_MACS = { macs: {} };

function FlowPanel({ store, one, choose }: KindProps) {
  const { answer: flow, why } = useAnswer<FlowShown>(`${path("switches", one.name)}/openflow`, EVERY_MS);
  const rows = rowsOf(store, one, null, flow);
  const status = one.openflow!;
  const lab = store.lab?.name ?? "";
  const facts: [string, string][] = [
    ["Datapath", status.datapath],
    ["Entries", flow?.max_entries ? `${count(status.entries)} of at most ${count(flow.max_entries)}` : count(status.entries)],
  ];
  if (flow) facts.push(["Groups, meters", `${count(flow.groups ?? 0)}, ${count(flow.meters ?? 0)}`]);
  facts.push(["Moves frames", status.plane ?? "–"], ["Alone", status.standalone ? "yes: no controller is connected" : "no"]);
  for (const { controller, connected, reason } of status.controllers) {
    facts.push([controller, connected ? "connected" : (reason ?? "not connected")]);
  }
  return (
    <>
      <Head one={one} kind="OpenFlow switch">
        <div class="badges"><Badge tone={status.running ? "ok" : "bad"}>{status.running ? "running" : "does not answer"}</Badge></div>
        {status.trouble && <p class="reason">{shown(status.trouble)}</p>}
      </Head>
      <Section title="Ports">
        <Ports store={store} one={one} rows={rows} choose={choose} />
        {why && <Trouble words={why} />}
      </Section>
      <Section title="Trace a frame"><Trace lab={lab} name={one.name} rows={rows} choose={choose} /></Section>
      {/* Below the form, which stays where it is while entries come and go. */}
      <Section title="Flows"><Flows one={one} /></Section>
      <Section title="About">
        <Facts facts={facts.map(([name, value]) => [shown(name), shown(value)])} />
        <Command lines={[`netloom -l ${quoted(lab)} flow dump ${quoted(one.name)}`]} />
      </Section>
      <Remove store={store} kind="switches" name={one.name} choose={choose} />
    </>
  );
}
