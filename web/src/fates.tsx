// What the wire of a link did with each packet, while somebody wants to know: `netloom link fates` in a panel.

import { useEffect, useState } from "preact/hooks";
import { ask, path } from "./api";
import { Command, Section, Trouble } from "./parts";
import type { Store } from "./store";
import { clock, count, quoted, shown } from "./text";
import type { FateView, LinkStatus } from "./types";

const KEEP = 4096;
const MOST_SHOWN = 100;
const WAIT_MS = 2000;

/** A direction in figures: how many had which fate, and how long those that were sent were held, in milliseconds. */
export function summary(fates: FateView[]): { by: [string, number][]; held: { least: number; middle: number; most: number } | null } {
  const by = new Map<string, number>();
  for (const { fate } of fates) by.set(fate, (by.get(fate) ?? 0) + 1);
  const times = fates.flatMap(({ delay_ns }) => (delay_ns === null || delay_ns === undefined ? [] : [delay_ns / 1e6])).sort((one, other) => one - other);
  const held = times.length === 0 ? null : { least: times[0]!, middle: times[Math.floor(times.length / 2)]!, most: times[times.length - 1]! };
  return { by: [...by].sort((one, other) => other[1] - one[1]), held };
}

/** A fate in words. */
export function fateWords({ fate, delay_ns, duplicated, corrupted }: FateView): string {
  const words = fate === "sent" ? `held ${((delay_ns ?? 0) / 1e6).toFixed(2)} ms` : `lost: ${fate.replaceAll("_", " ")}`;
  return [words, ...(duplicated ? ["sent twice"] : []), ...(corrupted ? ["corrupted"] : [])].join(", ");
}

/** Reads the directions that have a wire on, as they come. */
function useFates(link: string, on: boolean, wired: string): { fates: [FateView[], FateView[]]; why: string | null } {
  const [fates, setFates] = useState<[FateView[], FateView[]]>([[], []]);
  const [why, setWhy] = useState<string | null>(null);
  useEffect(() => {
    if (!on) return;
    const stop = new AbortController();
    setFates([[], []]);
    setWhy(null);
    const read = async (end: 0 | 1) => {
      let after = "";
      while (!stop.signal.aborted) {
        try {
          const found = await ask<{ fates: FateView[] }>("GET", `${path("links", link)}/fates?end=${end}&wait_ms=${WAIT_MS}${after}`, undefined, stop.signal);
          const last = found.fates[found.fates.length - 1];
          if (last) {
            after = `&after=${last.sequence}`;
            setFates(([a, b]) => (end === 0 ? [[...a, ...found.fates].slice(-KEEP), b] : [a, [...b, ...found.fates].slice(-KEEP)]));
          }
        } catch (error) {
          if (stop.signal.aborted) return;
          setWhy((error as Error).message);
          await new Promise((go) => setTimeout(go, WAIT_MS));
        }
      }
    };
    const note = (keep: number) => ask("PUT", `${path("links", link)}/fates?keep=${keep}`);
    const ends = ([0, 1] as const).filter((end) => wired.includes(String(end)));
    note(KEEP).then(() => Promise.all(ends.map(read)), (error: Error) => setWhy(error.message));
    return () => {
      stop.abort();
      // Recording costs the wire a little; a lab that is gone records nothing.
      note(0).catch(() => undefined);
    };
  }, [link, on, wired]);
  return { fates, why };
}

export function Fates({ store, link }: { store: Store; link: LinkStatus }) {
  const [on, setOn] = useState(false);
  const wired = (link.wire?.directions ?? []).map((of, end) => (of && Object.keys(of.impairments).length > 0 ? end : "")).join("");
  const { fates, why } = useFates(link.name, on, wired);
  const all = [...fates[0], ...fates[1]].sort((one, other) => (BigInt(one.time_ns) < BigInt(other.time_ns) ? 1 : -1)).slice(0, MOST_SHOWN);
  return (
    <Section title="Fates" aside={<button type="button" id="fates-on" aria-pressed={on} onClick={() => setOn(!on)}>{on ? "Stop" : "Record"}</button>}>
      {([0, 1] as const).map((end) => {
        const { by, held } = summary(fates[end]);
        return fates[end].length > 0 && (
          <div class="way" key={end}>
            <h4>From {shown(link.ends[end])}</h4>
            <p class="small-print">
              {by.map(([fate, packets]) => `${count(packets)} ${fate === "sent" ? "sent" : `lost by ${fate.replaceAll("_", " ")}`}`).join(", ")}
              {held && `; held ${held.least.toFixed(2)} to ${held.most.toFixed(2)} ms, ${held.middle.toFixed(2)} in the middle`}
            </p>
          </div>
        );
      })}
      {all.length > 0 && (
        <ol class="packets" id="fates" tabIndex={0} aria-label="Fates of the last packets, the latest first">
          {all.map((one) => (
            <li key={`${one.end} ${one.sequence}`} class={one.fate === "sent" ? "" : "bad"}>
              <time>{clock(Number(BigInt(one.time_ns) / 1_000_000n) / 1000)}.{one.time_ns.slice(-9, -6)}</time>
              <span>{one.end === 0 ? "→" : "←"} {count(one.bytes)} bytes, {shown(fateWords(one))}</span>
            </li>
          ))}
        </ol>
      )}
      {on && all.length === 0 && !why && <p class="muted">No packet yet.</p>}
      {!on && all.length === 0 && <p class="muted">What the wire does with each packet: how long it holds it, or why it loses it.</p>}
      {why && <Trouble words={why} />}
      <Command lines={[`netloom -l ${quoted(store.lab?.name ?? "")} link fates ${quoted(link.name)}`]} />
    </Section>
  );
}
