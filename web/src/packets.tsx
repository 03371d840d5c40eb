// What the lab's recording has: the last packets of a link, and a filter that lights up the links that its packets cross.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "./api";
import { crossed, question } from "./marks";
import { Command, Section, Trouble } from "./parts";
import type { Marking } from "./reach";
import type { Store } from "./store";
import { clock, quoted, shown, things } from "./text";
import type { FoundPackets, PacketSeen } from "./types";

const EVERY_MS = 1000;
// The recorder has a packet some tenths of a second after it passed.
const WINDOW_MS = 3000;
const MOST_MARKED = 5000;
const MOST_KEPT = 200;
const FIRST_MS = 60_000;

const keyOf = ({ time_ns, packet }: PacketSeen) => `${time_ns} ${packet}`;

/** Puts what was found to what is known, the latest first. */
export function merged(known: PacketSeen[], found: PacketSeen[]): PacketSeen[] {
  const all = new Map([...known, ...found].map((one) => [keyOf(one), one]));
  return [...all.values()].sort((one, other) => (BigInt(one.time_ns) < BigInt(other.time_ns) ? 1 : -1)).slice(0, MOST_KEPT);
}

/** Asks again and again, until it is stopped; of the past, which does not change, once. */
function useAsking(active: boolean, body: () => object, take: (found: FoundPackets) => void, key: string, once = false): string | null {
  const [why, setWhy] = useState<string | null>(null);
  const last = useRef({ body, take });
  last.current = { body, take };
  useEffect(() => {
    if (!active) return;
    const stop = new AbortController();
    let timer = 0;
    const next = async () => {
      try {
        const found = await ask<FoundPackets>("POST", "/v1/packets", last.current.body(), stop.signal);
        if (stop.signal.aborted) return;
        setWhy(null);
        last.current.take(found);
        if (once) return;
      } catch (error) {
        if (stop.signal.aborted) return;
        setWhy((error as Error).message);
      }
      timer = window.setTimeout(next, EVERY_MS);
    };
    void next();
    return () => {
      stop.abort();
      clearTimeout(timer);
      setWhy(null);
    };
  }, [active, key, once]);
  return why;
}

let changes = 0;

/** Something else is marked now, or nothing. */
export function marksChanged(): void {
  changes += 1;
}

/** Where one packet went: its sightings within a second, on the map. */
async function follow(store: Store, seen: PacketSeen, mark: Marking): Promise<void> {
  await sightings(store, seen, mark);
  const before = changes;
  // Of one that is on its way, or that the recorder has not seen everywhere, there is more to tell.
  if (store.time - Number(BigInt(seen.time_ns) / 1_000_000n) / 1000 > 2) return;
  await new Promise((go) => setTimeout(go, EVERY_MS));
  if (before === changes) await sightings(store, seen, mark);
}

async function sightings(store: Store, seen: PacketSeen, mark: Marking): Promise<void> {
  const [at, second] = [BigInt(seen.time_ns), 1_000_000_000n];
  const what = [seen.from, seen.to].filter((address): address is string => Boolean(address));
  const body = { what, since_ns: String(at - second), until_ns: String(at + second), most: MOST_MARKED };
  const { packets } = await ask<FoundPackets>("POST", "/v1/packets", body);
  const same = packets.filter(({ packet, from, to }) => packet === seen.packet && from === seen.from && to === seen.to);
  mark({ title: seen.summary, marks: crossed(same, store) });
}

function Rows({ store, packets, mark }: { store: Store; packets: PacketSeen[]; mark: Marking }) {
  const [why, setWhy] = useState<string | null>(null);
  return (
    <>
      <ol class="packets" id="packets" tabIndex={0} aria-label="Last packets, the latest first">
        {packets.map((one) => (
          <li key={keyOf(one)}>
            <button
              type="button"
              class="pick"
              title="Show its way on the map"
              onClick={() => {
                setWhy(null);
                follow(store, one, mark).catch((error: Error) => setWhy(error.message));
              }}
            >
              <time>{clock(Number(BigInt(one.time_ns) / 1_000_000n) / 1000)}.{one.time_ns.slice(-9, -6)}</time>
              <span>{shown(one.summary)}</span>
            </button>
          </li>
        ))}
      </ol>
      {why && <Trouble words={why} />}
    </>
  );
}

/** The last packets of a link, while somebody wants to see them. */
export function LastPackets({ store, link, mark }: { store: Store; link: string; mark: Marking }) {
  const [on, setOn] = useState(false);
  const [packets, setPackets] = useState<PacketSeen[]>([]);
  const [asked, setAsked] = useState(0);
  const body = () => ({ links: [link], last_ms: asked === 0 ? FIRST_MS : WINDOW_MS, most: MOST_MARKED });
  const why = useAsking(on, body, ({ packets: found }) => {
    setAsked(asked + 1);
    setPackets((known) => merged(known, found));
  }, link);
  const lab = quoted(store.lab?.name ?? "");
  return (
    <Section
      title="Packets"
      aside={<button type="button" id="packets-on" aria-pressed={on} onClick={() => setOn(!on)}>{on ? "Stop" : "Show the last"}</button>}
    >
      {why && <><Trouble words={why} /><Command lines={[`netloom -l ${lab} record start`]} /></>}
      {packets.length > 0 && <Rows store={store} packets={packets} mark={mark} />}
      {on && !why && packets.length === 0 && <p class="muted">{asked === 0 ? "Asking …" : "The recording has no packet of this link in the last minute."}</p>}
      {!on && packets.length === 0 && <p class="muted">From the lab's recording; a press on a packet shows its way on the map.</p>}
      <Command lines={[`netloom -l ${lab} capture ${quoted(link)} -w ${quoted("link.pcapng")}`]} />
    </Section>
  );
}

/** Nanoseconds of a time in Unix seconds, as the API takes them. */
const nanoseconds = (seconds: number) => String(BigInt(Math.round(seconds * 1000)) * 1_000_000n);

// How far back the slider goes, in seconds.
const MOST_BACK = 600;

/** Goes back in the recording: `at` is the end of what is shown, null for now. */
function When({ now, at, setAt }: { now: number; at: number | null; setAt: (at: number | null) => void }) {
  // The scale stands still while somebody looks at the past.
  const end = useRef(now);
  if (at === null) end.current = now;
  return (
    <div class="when">
      <input
        id="when"
        type="range"
        min={0}
        max={MOST_BACK}
        step={1}
        value={at === null ? MOST_BACK : MOST_BACK - (end.current - at)}
        aria-label="When: now, or up to ten minutes back in the recording"
        aria-valuetext={at === null ? "now" : clock(at)}
        onInput={(event) => {
          const back = MOST_BACK - Number(event.currentTarget.value);
          setAt(back === 0 ? null : end.current - back);
        }}
      />
      <span>{at === null ? "now" : clock(at)}</span>
      {at !== null && <button type="button" class="small" onClick={() => setAt(null)}>Now</button>}
    </div>
  );
}

/** The field over the map whose filter lights up links. */
export function Marker({ store, marked, mark }: { store: Store; marked: { title: string; live?: boolean } | null; mark: Marking }) {
  const [text, setText] = useState("");
  const [what, setWhat] = useState<string[] | null>(null);
  const [found, setFound] = useState<{ count: number; more: boolean } | null>(null);
  const [at, setAt] = useState<number | null>(null);
  // An answer may come after the end, before that is drawn.
  const goes = useRef(false);
  const key = JSON.stringify([what, at]);
  const span = () => (at === null ? { last_ms: WINDOW_MS } : { since_ns: nanoseconds(at - WINDOW_MS / 1000), until_ns: nanoseconds(at) });
  const why = useAsking(what !== null, () => ({ what: what ?? [], ...span(), most: MOST_MARKED }), ({ packets, more }) => {
    if (!goes.current) return;
    setFound({ count: new Set(packets.map(({ packet, from, to }) => `${packet} ${from} ${to}`)).size, more });
    mark({ title: text, marks: crossed(packets, store), live: true });
  }, key, at !== null);
  // What somebody else marks takes the place of the filter.
  const displaced = marked !== null && !marked.live;
  useEffect(() => {
    if (!displaced) return;
    goes.current = false;
    setWhat(null);
  }, [displaced]);
  const stop = () => {
    goes.current = false;
    setWhat(null);
    setAt(null);
    mark(null);
  };
  const lab = quoted(store.lab?.name ?? "");
  return (
    <div class="marker">
      <form
        role="search"
        aria-label="Mark packets"
        onSubmit={(event) => {
          event.preventDefault();
          const words = question(text, store);
          setFound(null);
          goes.current = true;
          setWhat(words);
          mark({ title: text, marks: new Map(), live: true });
        }}
      >
        <input
          id="marker"
          aria-label="Mark links that packets cross: a flow, or a filter"
          placeholder="Mark packets: h1 web 80/tcp, or a filter"
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button type="submit" class={what === null ? "" : "primary"}>Mark</button>
        {(marked !== null || what !== null) && <button type="button" id="unmark" onClick={stop}>Clear</button>}
      </form>
      {what !== null && !why && (
        <p role="status">{!found ? "Looking" : found.count === 0 ? "No such packet" : `${found.more ? "More than " : ""}${things(found.count, "packet")}`}{at === null ? ` in the last ${WINDOW_MS / 1000} s` : ` in ${WINDOW_MS / 1000} s until ${clock(at)}`}</p>
      )}
      {what !== null && !why && <When now={store.time} at={at} setAt={setAt} />}
      {what === null && marked !== null && <p role="status">{shown(marked.title)}</p>}
      {why && <><Trouble words={why} /><Command lines={[`netloom -l ${lab} record start`]} /></>}
    </div>
  );
}
