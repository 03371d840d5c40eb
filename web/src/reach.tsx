// Whether one node reaches another, and why not: `ping` and `netloom why` from the page, with the ways on the map.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, lines, path } from "./api";
import { type Marks, measured, ways } from "./marks";
import { Badge, Command, type Tone, Trouble } from "./parts";
import type { Store } from "./store";
import { count, milliseconds, quoted, shown } from "./text";
import type { MeasuredBlock, PairReachability, WhyCause, WhyReport } from "./types";

/** Marks that a panel puts on the map, with the words that say what they are. */
export type Marking = (marked: { title: string; marks: Marks; live?: boolean } | null) => void;

const VERDICT: Record<WhyReport["verdict"], { tone: Tone; words: string }> = {
  answered: { tone: "ok", words: "arrives, and is answered" },
  delivered: { tone: "warn", words: "arrives, and is not answered" },
  stopped: { tone: "bad", words: "does not arrive" },
  not_known: { tone: "warn", words: "not known" },
};

function Causes({ title, causes }: { title: string; causes: WhyCause[] }) {
  if (causes.length === 0) return null;
  return (
    <>
      <h4>{title}</h4>
      <ul class="causes">
        {causes.map((cause, at) => (
          <li key={at}>
            <b>{shown(cause.place)}</b>
            <p>{shown(cause.text)}</p>
            {cause.evidence.map((words, at) => <code key={at}>{shown(words)}</code>)}
            {cause.mend && <Command lines={[shown(cause.mend)]} />}
          </li>
        ))}
      </ul>
    </>
  );
}

function Why({ report }: { report: WhyReport }) {
  const { tone, words } = VERDICT[report.verdict];
  return (
    <div class="why" id="why" role="status">
      <p><Badge tone={tone}>{words}</Badge></p>
      {report.there.lost && <p class="muted">Last seen: {shown(report.there.last ?? "at its sender")}; missing: {shown(report.there.lost)}.</p>}
      {report.back?.lost && <p class="muted">Its answer: last seen {shown(report.back.last ?? "at its sender")}; missing: {shown(report.back.lost)}.</p>}
      <Causes title="Because" causes={report.causes} />
      <Causes title="It also hinders" causes={report.hindrances} />
      {report.missing.length > 0 && <p class="muted">Not looked at: {shown(report.missing.join("; "))}</p>}
    </div>
  );
}

function Hops({ blocks }: { blocks: MeasuredBlock[] }) {
  return (
    <div class="scroll-x" tabIndex={0} role="group" aria-label="Hops">
      <table class="compact" id="hops">
        <thead><tr><th scope="col">Hop</th><th scope="col" class="number">Packets</th><th scope="col" class="number">Lost</th><th scope="col" class="number">Mean</th></tr></thead>
        {blocks.map(({ from, to, hops }, at) => (
          <tbody key={at}>
            <tr><th scope="rowgroup" colSpan={4}>{shown(`${from} to ${to}`)}</th></tr>
            {hops.map(({ hop, sent, lost, sampled }) => (
              <tr key={hop}><td>{shown(hop)}</td><td class="number">{count(sent)}</td><td class={lost > 0 ? "number bad" : "number"}>{count(lost)}</td><td class="number">{sampled ? milliseconds(sampled.mean_ns / 1000) : "–"}</td></tr>
            ))}
          </tbody>
        ))}
      </table>
    </div>
  );
}

type Answered = { ping: PairReachability } | { blocks: MeasuredBlock[] } | { why: WhyReport } | { wrong: string };

export function Reach({ store, from, to, mark }: { store: Store; from: string; to: string; mark: Marking }) {
  const [target, setTarget] = useState(to);
  const [service, setService] = useState("");
  const [busy, setBusy] = useState(false);
  const [answered, setAnswered] = useState<Answered | null>(null);
  const lab = quoted(store.lab?.name ?? "");
  const wanted = target.trim();
  const known = /^(\d+)\/(tcp|udp)$/.exec(service.trim());
  const flow = known ? { protocol: known[2]!, port: Number(known[1]) } : {};
  const run = async (work: () => Promise<Answered>) => {
    setBusy(true);
    setAnswered(null);
    try {
      setAnswered(await work());
    } catch (error) {
      setAnswered({ wrong: (error as Error).message });
    }
    setBusy(false);
  };
  const ping = () => run(async () => ({ ping: await ask<PairReachability>("POST", `${path("nodes", from)}/ping?to=${encodeURIComponent(wanted)}`) }));
  const why = () => run(async () => {
    const report = await ask<WhyReport>("POST", "/v1/why", { from, to: wanted, ...flow });
    mark({ title: `${from} to ${wanted}`, marks: ways(report, store) });
    return { why: report };
  });
  const stop = useRef<AbortController | null>(null);
  useEffect(() => () => stop.current?.abort(), []);
  // Until it is stopped: each block takes the place of the one before it.
  const measure = () => run(async () => {
    const own = (stop.current = new AbortController());
    const blocks = new Map<string, MeasuredBlock>();
    try {
      await lines<MeasuredBlock>(`${path("nodes", from)}/measure?to=${encodeURIComponent(wanted)}`, own.signal, (line) => {
        if (line.type !== "block") return;
        blocks.set(`${line.from} ${line.families}`, line);
        const all = [...blocks.values()];
        setAnswered({ blocks: all });
        mark({ title: `${from} to ${wanted}, hop by hop`, marks: measured(all, store) });
      });
    } catch (error) {
      if (!own.signal.aborted) throw error;
    } finally {
      stop.current = null;
    }
    return { blocks: [...blocks.values()] };
  });
  const wrongService = service.trim() !== "" && !known;
  return (
    <form
      class="impair"
      id="reach"
      onSubmit={(event) => {
        event.preventDefault();
        void why();
      }}
    >
      <div class="fields">
        <label class="field">
          <span>From {shown(from)} to</span>
          <input name="target" list="nodes-known" value={target} placeholder="node or address" autocomplete="off" spellcheck={false} onInput={(event) => setTarget(event.currentTarget.value)} />
          <datalist id="nodes-known">{[...store.nodes.keys()].filter((name) => name !== from).slice(0, 500).map((name) => <option key={name} value={name} />)}</datalist>
        </label>
        <label class="field">
          <span>Service</span>
          <input name="service" value={service} placeholder="icmp, or 80/tcp" autocomplete="off" spellcheck={false} onInput={(event) => setService(event.currentTarget.value === "icmp" ? "" : event.currentTarget.value)} />
        </label>
      </div>
      {wanted !== "" && !wrongService && <Command lines={[`netloom -l ${lab} why ${quoted(from)} ${quoted(wanted)}${known ? ` ${known[0]}` : ""}`]} />}
      <div class="buttons">
        <button type="submit" class="primary" id="ask-why" disabled={busy || wanted === "" || wrongService}>Why</button>
        <button type="button" id="ask-ping" disabled={busy || !store.nodes.has(wanted)} onClick={() => void ping()}>Ping</button>
        {stop.current
          ? <button key="stop" type="button" id="stop-measure" onClick={() => stop.current?.abort()}>Stop</button>
          : <button key="start" type="button" id="ask-measure" disabled={busy || !store.nodes.has(wanted)} onClick={() => void measure()}>Measure</button>}
        {busy && <span class="muted" role="status">{stop.current ? "measuring …" : "asking …"}</span>}
        {wrongService && <span class="muted">write it as 80/tcp or 53/udp</span>}
      </div>
      {answered && "wrong" in answered && <Trouble words={answered.wrong} />}
      {answered && "why" in answered && <Why report={answered.why} />}
      {answered && "blocks" in answered && <Hops blocks={answered.blocks} />}
      {answered && "ping" in answered && (
        <ul class="plain-list" id="pinged" role="status">
          {answered.ping.families.map(({ version, address, rtt_us }) => (
            <li key={version}><span>{shown(address)}</span><span>{rtt_us.map((us) => (us === null ? "no answer" : milliseconds(us))).join(", ")}</span></li>
          ))}
        </ul>
      )}
    </form>
  );
}
