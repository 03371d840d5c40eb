// The panel without a choice: the lab in figures, what is wrong, what is busy, and what happened.

import { Badge, type Choose, Pick, Section, useStore } from "./parts";
import { linkState } from "./link";
import { nodeTone } from "./node";
import { type Note, type Store, wireText } from "./store";
import { age, clock, count, perSecond, rate, shown } from "./text";

const MOST_ROWS = 8;

function Tile({ name, value, more, tone }: { name: string; value: string; more?: string; tone?: string }) {
  return (
    <div class={`tile ${tone ?? ""}`}>
      <span class="muted">{name}</span>
      <b>{value}</b>
      {more && <span class="muted">{more}</span>}
    </div>
  );
}

function pick(note: Note) {
  if (!note.about) return null;
  return note.about.kind === "link" ? { kind: "links" as const, names: [note.about.name] } : { kind: note.about.kind, name: note.about.name };
}

export function Overview({ store, choose }: { store: Store; choose: Choose }) {
  useStore(store);
  const nodes = [...store.nodes.values()];
  const links = [...store.links.values()];
  const wrong = nodes.filter(({ status }) => status.state !== "up" && status.state !== "starting");
  const down = links.filter(({ status }) => !status.up);
  const sum = (of: (link: (typeof links)[number]) => number) => links.reduce((total, link) => total + of(link), 0);
  const bits = sum(({ rates }) => rates.bits[0] + rates.bits[1]);
  const lost = sum(({ rates }) => rates.lost[0] + rates.lost[1]);
  const total = ({ rates }: (typeof links)[number]) => rates.bits[0] + rates.bits[1];
  const busy = links.filter((link) => total(link) > 0).sort((one, other) => total(other) - total(one)).slice(0, MOST_ROWS);
  const wired = links.filter(({ status }) => wireText(status) !== "").slice(0, MOST_ROWS);
  const most = busy[0] ? total(busy[0]) : 1;
  const up = nodes.filter(({ status }) => status.state === "up").length;
  return (
    <>
      <div class="panel-head">
        <p class="kind">Lab</p>
        <h2>{shown(store.lab?.name ?? "")}</h2>
        {store.lab && <p class="muted">up for {age(store.time - store.lab.since)}, process {store.lab.pid}</p>}
      </div>
      <div class="tiles">
        <Tile name="Nodes" value={count(nodes.length)} more={up === nodes.length ? "all up" : `${count(up)} up`} tone={wrong.length > 0 ? "bad" : ""} />
        <Tile name="Links" value={count(links.length)} more={links.length === 0 ? "none" : down.length === 0 ? "all up" : `${count(down.length)} down`} tone={down.length > 0 ? "warn" : ""} />
        <Tile name="Traffic" value={rate(bits)} more="all links" />
        <Tile name="Lost" value={perSecond(lost, "")} more="packets" tone={lost > 0 ? "warn" : ""} />
      </div>
      {wrong.length + down.length > 0 && (
        <Section title="Attention">
          <ul class="plain-list">
            {wrong.slice(0, MOST_ROWS).map(({ status }) => (
              <li key={`node ${status.name}`}>
                <Pick choice={{ kind: "node", name: status.name }} choose={choose}>{shown(status.name)}</Pick>
                <Badge tone={nodeTone(status.state)}>{status.state}</Badge>
                {status.reason && <span class="muted full">{shown(status.reason)}</span>}
              </li>
            ))}
            {down.slice(0, MOST_ROWS).map(({ status }) => (
              <li key={`link ${status.name}`}>
                <Pick choice={{ kind: "links", names: [status.name] }} choose={choose}>{shown(status.name)}</Pick>
                <Badge tone={linkState(status).tone}>{linkState(status).words}</Badge>
              </li>
            ))}
          </ul>
        </Section>
      )}
      <Section title="Busiest links">
        {busy.length === 0 && <p class="muted">Nothing is sent just now.</p>}
        <ul class="plain-list bars">
          {busy.map((link) => (
            <li key={link.status.name}>
              <Pick choice={{ kind: "links", names: [link.status.name] }} choose={choose}>{shown(link.status.name)}</Pick>
              <span>{rate(total(link))}</span>
              <div class="bar"><div style={{ width: `${(100 * total(link)) / most}%` }} /></div>
            </li>
          ))}
        </ul>
      </Section>
      {wired.length > 0 && (
        <Section title="Impaired links">
          <ul class="plain-list">
            {wired.map(({ status }) => (
              <li key={status.name}>
                <Pick choice={{ kind: "links", names: [status.name] }} choose={choose}>{shown(status.name)}</Pick>
                <Badge tone="wire">{shown(wireText(status))}</Badge>
              </li>
            ))}
          </ul>
        </Section>
      )}
      <Section title="Events">
        {store.notes.length === 0 && <p class="muted">Nothing has changed since this page was opened.</p>}
        <ol class="notes">
          {store.notes.slice(0, 30).map((note, at) => {
            const choice = pick(note);
            return (
              <li key={`${note.time} ${at}`} class={note.tone}>
                <time>{clock(note.time)}</time>
                {choice ? <Pick choice={choice} choose={choose}>{shown(note.text)}</Pick> : <span>{shown(note.text)}</span>}
              </li>
            );
          })}
        </ol>
      </Section>
    </>
  );
}
