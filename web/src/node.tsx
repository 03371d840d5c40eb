// The panel of a node: use beside its limits, programs, interfaces, losses and its programs' output.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, path } from "./api";
import { Remove } from "./edit";
import { Badge, type Choose, Command, Facts, Meter, Pick, Section, type Tone, Trouble, useAnswer, useStore } from "./parts";
import { type Marking, Reach } from "./reach";
import type { Store } from "./store";
import { clock, count, logged, quoted, shown, size } from "./text";
import type { LogLine, NodeState, NodeStatus, Program } from "./types";

export function nodeTone(state: NodeState): Tone {
  return state === "up" ? "ok" : state === "starting" ? "warn" : "bad";
}

export function forwards(node: NodeStatus): string {
  if (node.forwarding === true) return "IPv4 and IPv6";
  return node.forwarding === false ? "no" : node.forwarding === "ipv4" ? "IPv4" : "IPv6";
}

/** How a program is: `running`, `exited 3`, ... */
export function programState(program: Program): { tone: Tone; words: string } {
  const ending = program.signal !== null ? `ended by signal ${program.signal}` : program.exit_code !== null ? `exited ${program.exit_code}` : null;
  if (program.pid !== null) return { tone: "ok", words: "running" };
  if (program.restart_in_ms !== null) return { tone: "warn", words: `${ending ?? "ended"}, restarts soon` };
  const bad = program.ended && program.exit_code !== 0;
  return { tone: bad ? "bad" : "plain", words: ending ?? "not started" };
}

const MOST_LINES = 500;

/** Output of the node's programs, read on as it comes. */
function Log({ node }: { node: string }) {
  const [lines, setLines] = useState<LogLine[]>([]);
  const [why, setWhy] = useState<string | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const stays = useRef(true);
  useEffect(() => {
    const stop = new AbortController();
    let after: string | null = null;
    setLines([]);
    setWhy(null);
    const read = async () => {
      while (!stop.signal.aborted) {
        const query = after === null ? "tail=200" : `after=${encodeURIComponent(after)}&wait_ms=20000`;
        try {
          const found = await ask<LogLine[]>("GET", `${path("nodes", node)}/log?${query}`, undefined, stop.signal);
          after = found[found.length - 1]?.cursor ?? after ?? "0";
          if (found.length > 0) setLines((old) => [...old, ...found].slice(-MOST_LINES));
          setWhy(null);
        } catch (error) {
          if (stop.signal.aborted) return;
          setWhy((error as Error).message);
          await new Promise((go) => setTimeout(go, 2000));
        }
      }
    };
    void read();
    return () => stop.abort();
  }, [node]);
  useEffect(() => {
    if (stays.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    stays.current = scrollHeight - scrollTop - clientHeight < 24;
  };
  const several = lines.some(({ name }) => name);
  return (
    <>
      <div class={lines.length === 0 ? "log empty" : "log"} ref={box} onScroll={scrolled} tabIndex={0} role="log" aria-live="off" aria-label="Output of its programs">
        {lines.length === 0 && <p class="muted">No output yet.</p>}
        {lines.map((line) => (
          <div key={line.cursor}>
            <time>{clock(Number(line.time_ns) / 1e9)}</time>
            {several && <b>{shown(line.name ?? String(line.program))}</b>}
            <span>{logged(line.text)}</span>
          </div>
        ))}
      </div>
      {why && <Trouble words={why} />}
    </>
  );
}

function Programs({ programs }: { programs: Program[] }) {
  return (
    <ul class="programs">
      {programs.map((program, at) => {
        const { tone, words } = programState(program);
        return (
          <li key={at}>
            <code>{shown(program.command.map(quoted).join(" "))}</code>
            <span>
              <Badge tone={tone}>{words}</Badge>
              {program.restarts > 0 && <span class="muted"> restarted {program.restarts} ×</span>}
            </span>
          </li>
        );
      })}
    </ul>
  );
}

function Use({ node, cpu, store }: { node: NodeStatus; cpu: number | null; store: Store }) {
  const { limits } = node;
  const counters = store.nodes.get(node.name)!.counters;
  const of = (used: number | null, limit: number | null) => (used !== null && limit ? used / limit : null);
  const text = (used: number | null, limit: number | null, write: (value: number) => string) =>
    used === null ? "–" : limit ? `${write(used)} of ${write(limit)}` : write(used);
  const cpus = limits.cpu_milli === null ? null : limits.cpu_milli / 1000;
  const percents = (value: number) => `${(value * 100).toFixed(value < 0.1 ? 1 : 0)} %`;
  return (
    <div class="meters">
      <Meter name="CPU" text={text(cpu, cpus, percents)} part={of(cpu, cpus)} />
      <Meter name="Memory" text={text(counters.memory, limits.memory, size)} part={of(counters.memory, limits.memory)} />
      <Meter name="Processes" text={text(counters.processes, limits.processes, count)} part={of(counters.processes, limits.processes)} />
      <Meter name="Sockets" text={text(counters.sockets, limits.sockets, count)} part={of(counters.sockets, limits.sockets)} />
    </div>
  );
}

function Interfaces({ node, choose }: { node: NodeStatus; choose: Choose }) {
  return (
    <ul class="interfaces">
      {node.interfaces.map((one) => (
        <li key={one.name}>
          <div>
            <b>{shown(one.name)}</b>
            <Badge tone={one.up ? "ok" : "bad"}>{one.up === null ? "not there" : one.up ? "up" : "down"}</Badge>
            <Pick choice={{ kind: "links", names: [one.link] }} choose={choose}>{shown(one.link)}</Pick>
          </div>
          {one.addresses.map((address) => <code key={address}>{shown(address)}</code>)}
          <span class="muted">{one.mac}, MTU {one.mtu}</span>
          {one.traffic && <span class="muted">received {size(one.traffic.rx_bytes)}, sent {size(one.traffic.tx_bytes)}</span>}
        </li>
      ))}
    </ul>
  );
}

interface NodeProps {
  store: Store;
  name: string;
  choose: Choose;
  mark: Marking;
  /** Opens a terminal on it. */
  enter: (node: string) => void;
}

export function NodePanel({ store, name, choose, mark, enter }: NodeProps) {
  useStore(store);
  const { answer } = useAnswer<NodeStatus>(path("nodes", name), 3000);
  const known = store.nodes.get(name);
  if (!known) return <p class="muted gone">This node is not there any more.</p>;
  const { status, cpu } = known;
  // The answer has the counters of now; the state comes with the events.
  const node: NodeStatus = answer?.name === name ? { ...answer, state: status.state, reason: status.reason, programs: status.programs } : status;
  const facts: [string, string][] = [["Forwards", forwards(node)]];
  if (node.parent) facts.push(["Lives in", node.parent]);
  if (node.pid !== null) facts.push(["Init", `process ${node.pid}`]);
  if (node.ids) facts.push(["Users", node.ids]);
  if (node.privileged) facts.push(["Privileged", "yes"]);
  if (node.health) facts.push(["Health", `${node.health.state}${node.health.reason ? `: ${node.health.reason}` : ""}`]);
  const lab = quoted(store.lab?.name ?? "");
  return (
    <>
      <div class="panel-head">
        <p class="kind">{status.forwarding === false ? "Host" : "Router"}</p>
        <h2>{shown(name)}</h2>
        <div class="badges"><Badge tone={nodeTone(status.state)}>{status.state}</Badge></div>
        <button type="button" class="small enter" id="enter" onClick={() => enter(name)} title="Terminal (s, or double click)">Terminal</button>
        {status.reason && <p class="reason">{shown(status.reason)}</p>}
      </div>
      <Section title="Use"><Use node={node} cpu={cpu} store={store} /></Section>
      {node.programs.length > 0 && <Section title="Programs"><Programs programs={node.programs} /></Section>}
      <Section title="Output"><Log node={name} /></Section>
      <Section title="Reach"><Reach store={store} from={name} to="" mark={mark} /></Section>
      <Section title="Interfaces"><Interfaces node={node} choose={choose} /></Section>
      {node.drops.length > 0 && (
        <Section title="Lost">
          <Facts facts={node.drops.map(({ cause, packets }) => [shown(cause.replaceAll("_", " ")), count(packets)])} />
        </Section>
      )}
      <Section title="About">
        <Facts facts={facts.map(([name, value]) => [name, shown(value)])} />
        <Command lines={[`netloom -l ${lab} shell ${quoted(name)}`]} />
      </Section>
      <Remove store={store} kind="nodes" name={name} choose={choose} />
    </>
  );
}
