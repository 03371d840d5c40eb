// The panel of a link, or of several: plots, what its wire does, the form, the cable.

import { useState } from "preact/hooks";
import { ask, path } from "./api";
import { CaptureOf } from "./capture";
import { Remove } from "./edit";
import { Fates } from "./fates";
import { Impair } from "./form";
import { place } from "./marks";
import { LastPackets } from "./packets";
import { Badge, type Choose, Facts, Pick, Section, Trouble, useAnswer, useStore } from "./parts";
import { Plot } from "./plot";
import { type Marking, Reach } from "./reach";
import type { Link, Store } from "./store";
import { count, impairments, perSecond, rate, shown, size, things } from "./text";
import type { Direction, LinkStatus } from "./types";

export function linkState(link: LinkStatus): { tone: "ok" | "warn" | "bad"; words: string } {
  if (link.up) return { tone: "ok", words: "up" };
  return link.down ? { tone: "warn", words: "cable out" } : { tone: "bad", words: "down" };
}

/** What is at an end, to go there. */
function End({ end, store, choose }: { end: string; store: Store; choose: Choose }) {
  const colon = end.lastIndexOf(":");
  const name = colon < 0 ? end : end.slice(0, colon);
  if (colon >= 0 && store.nodes.has(name)) return <Pick choice={{ kind: "node", name }} choose={choose}>{shown(end)}</Pick>;
  if (colon < 0 && store.switches.has(name)) return <Pick choice={{ kind: "switch", name }} choose={choose}>{shown(end)}</Pick>;
  return <span>{shown(end)}</span>;
}

function Cable({ links }: { links: LinkStatus[] }) {
  const [why, setWhy] = useState<string | null>(null);
  const out = links.every((link) => link.down);
  const pull = async () => {
    setWhy(null);
    for (const link of links) {
      await ask("PATCH", path("links", link.name), { up: out }).catch((error: Error) => setWhy(error.message));
    }
  };
  return (
    <>
      <button type="button" class={out ? "primary" : "danger"} onClick={pull} id="cable">{out ? "Plug the cable in" : "Pull the cable"}</button>
      {why && <Trouble words={why} />}
    </>
  );
}

function Traffic({ link }: { link: Link }) {
  const { status, rates, counters } = link;
  return (
    <div class="scroll-x">
      <table class="compact">
        <thead>
          <tr><th scope="col">From</th><th scope="col" class="number">Rate</th><th scope="col" class="number">Packets</th><th scope="col" class="number">Sent</th><th scope="col" class="number">Lost</th></tr>
        </thead>
        <tbody>
          {([0, 1] as const).map((side) => (
            <tr key={side}>
              <th scope="row"><i class={`swatch ${side === 0 ? "there" : "back"}`} />{shown(status.ends[side])}</th>
              <td class="number">{rate(rates.bits[side])}</td>
              <td class="number">{perSecond(rates.packets[side], "")}</td>
              <td class="number">{size(counters.bytes[side])}</td>
              <td class={`number${counters.lost[side] > 0 ? " lost" : ""}`}>{count(counters.lost[side])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Way({ of }: { of: Direction }) {
  const lost = Object.entries(of.lost).filter(([, packets]) => packets > 0);
  const facts: [string, string][] = [
    ["Does", impairments(of.impairments) || "nothing"],
    ["Offered", things(of.offered_packets, "packet")],
    ["Sent on", things(of.sent_packets, "packet")],
    ["Held now", things(of.held_packets, "packet")],
    ["Lost", lost.map(([cause, packets]) => `${count(packets)} by ${cause}`).join(", ") || "0"],
  ];
  for (const [name, value] of [["Duplicated", of.duplicated], ["Corrupted", of.corrupted], ["Reordered", of.reordered]] as const) {
    if (value > 0) facts.push([name, count(value)]);
  }
  facts.push(["Late", `${of.late_us[0].toFixed(1)} µs in the mean, ${of.late_us[1].toFixed(0)} µs at worst`]);
  return (
    <div class="way">
      <h4>From {shown(of.from)}</h4>
      <Facts facts={facts.map(([name, value]) => [name, shown(value)])} />
    </div>
  );
}

export function LinkPanel({ store, name, choose, theme, mark }: { store: Store; name: string; choose: Choose; theme: string; mark: Marking }) {
  useStore(store);
  const { answer } = useAnswer<LinkStatus>(path("links", name), 2000);
  const link = store.links.get(name);
  if (!link) return <p class="muted gone">This link is not there any more.</p>;
  const { status } = link;
  const state = linkState(status);
  const nodes = status.ends.map(place).filter((end) => store.nodes.has(end));
  const series = store.series(name);
  const names: [string, string] = [`from ${shown(status.ends[0])}`, `from ${shown(status.ends[1])}`];
  const wire = answer?.name === name ? answer.wire : status.wire;
  const other = (answer ?? status).lost.filter(({ cause }) => !cause.startsWith("wire: "));
  return (
    <>
      <div class="panel-head">
        <p class="kind">Link</p>
        <h2>{shown(name)}</h2>
        <div class="badges">
          <Badge tone={state.tone}>{state.words}</Badge>
          {status.wire && <Badge tone="wire">wire {shown(status.wire.state)}</Badge>}
        </div>
        <p class="ends"><End end={status.ends[0]} store={store} choose={choose} /><span aria-hidden="true">⟷</span><End end={status.ends[1]} store={store} choose={choose} /></p>
      </div>
      <Section title="Traffic" aside={<Cable links={[status]} />}>
        <Traffic link={link} />
        <Plot title="Rate" times={series.times} lines={series.bits} names={names} format={rate} theme={theme} />
        <Plot title="Lost packets" times={series.times} lines={series.lost} names={names} format={(value) => perSecond(value, "")} theme={theme} />
        {other.length > 0 && <Facts facts={other.map(({ from, cause, packets }) => [`Lost from ${shown(from)}`, `${count(packets)} (${shown(cause)})`])} />}
      </Section>
      <Section title="Impairments">
        <Impair store={store} links={[status]} />
      </Section>
      <CaptureOf store={store} link={name} />
      <LastPackets store={store} link={name} mark={mark} />
      {nodes.length > 0 && <Section title="Reach"><Reach store={store} from={nodes[0]!} to={nodes[1] ?? ""} mark={mark} /></Section>}
      {wire && (
        <Section title="Wire">
          {wire.directions.map((of) => of && <Way key={of.from} of={of} />)}
        </Section>
      )}
      {status.wire && <Fates store={store} link={status} />}
      <Remove store={store} kind="links" name={name} choose={choose} />
    </>
  );
}

export function LinksPanel({ store, names, choose }: { store: Store; names: string[]; choose: Choose }) {
  useStore(store);
  const links = names.flatMap((name) => store.links.get(name) ?? []);
  const all = links.map(({ status }) => status);
  return (
    <>
      <div class="panel-head">
        <p class="kind">Links</p>
        <h2>{things(links.length, "link")}</h2>
      </div>
      <Section title="Chosen" aside={<Cable links={all} />}>
        <ul class="plain-list">
          {links.map(({ status, rates }) => (
            <li key={status.name}>
              <Pick choice={{ kind: "links", names: [status.name] }} choose={choose}>{shown(status.name)}</Pick>
              <span class="muted">{rate(rates.bits[0] + rates.bits[1])}</span>
            </li>
          ))}
        </ul>
      </Section>
      <Section title="Impairments of all">
        <Impair store={store} links={all} />
      </Section>
    </>
  );
}
