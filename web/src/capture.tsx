// Captures of a link: they come into this tab as pcapng, go on while other panels are looked at, and are saved as a file.

import { useEffect, useState } from "preact/hooks";
import { path, stream } from "./api";
import { Command, save, Section, Trouble } from "./parts";
import type { Store } from "./store";
import { quoted, shown, size, things } from "./text";

// What a tab keeps of one link.
const MOST_BYTES = 64 << 20;

/** Block types of pcapng whose blocks are packets (simple, enhanced). */
const PACKETS = [3, 6];

/** Counts the whole blocks of a pcapng file that comes in pieces. */
export class Blocks {
  /** Bytes of whole blocks. */
  whole = 0;
  packets = 0;
  private head = new Uint8Array(8);
  private have = 0;
  /** Bytes of the present block that have not come. */
  private left = 0;
  private length = 0;

  add(piece: Uint8Array): void {
    let at = 0;
    while (at < piece.length) {
      if (this.left === 0) {
        const take = Math.min(8 - this.have, piece.length - at);
        this.head.set(piece.subarray(at, at + take), this.have);
        this.have += take;
        at += take;
        if (this.have < 8) return;
        // Written by a machine of the same make: the first of its blocks says so (little-endian).
        this.length = new DataView(this.head.buffer).getUint32(4, true);
        // A length that no block has would be counted for ever.
        this.left = Math.max(this.length, 12) - 8;
      }
      const take = Math.min(this.left, piece.length - at);
      this.left -= take;
      at += take;
      if (this.left === 0) {
        this.have = 0;
        this.whole += this.length;
        if (PACKETS.includes(new DataView(this.head.buffer).getUint32(0, true))) this.packets += 1;
      }
    }
  }
}

interface Capture {
  stop: AbortController;
  pieces: Uint8Array[];
  blocks: Blocks;
  runs: boolean;
  why: string | null;
  full: boolean;
}

const captures = new Map<string, Capture>();
const listeners = new Set<() => void>();

function changed(): void {
  for (const listener of listeners) listener();
}

async function run(link: string, filter: string, own: boolean): Promise<void> {
  const capture: Capture = { stop: new AbortController(), pieces: [], blocks: new Blocks(), runs: true, why: null, full: false };
  captures.set(link, capture);
  changed();
  try {
    const reader = await stream(`${path("links", link)}/capture?filter=${encodeURIComponent(filter)}&own=${own}`, capture.stop.signal);
    let bytes = 0;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      capture.pieces.push(value);
      capture.blocks.add(value);
      bytes += value.length;
      if (bytes > MOST_BYTES) {
        capture.full = true;
        break;
      }
      changed();
    }
  } catch (error) {
    if (!capture.stop.signal.aborted) capture.why = (error as Error).message;
  }
  capture.stop.abort();
  capture.runs = false;
  changed();
}

/** The whole blocks that have come. */
function file({ pieces, blocks }: Capture): Blob {
  return new Blob(pieces as BlobPart[], { type: "application/x-pcapng" }).slice(0, blocks.whole);
}

function fileName(link: string): string {
  return `${link.replace(/[^A-Za-z0-9_.-]+/g, "-")}.pcapng`;
}

export function CaptureOf({ store, link }: { store: Store; link: string }) {
  const [, again] = useState(0);
  const [filter, setFilter] = useState("");
  const [own, setOwn] = useState(false);
  useEffect(() => {
    const listener = () => again((count) => count + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  const capture = captures.get(link);
  const lab = quoted(store.lab?.name ?? "");
  const wanted = filter.trim();
  const words = ["netloom -l", lab, "capture", quoted(`link:${link}`), "-w", "FILE.pcapng", ...(wanted ? ["--filter", quoted(wanted)] : []), ...(own ? ["--own"] : [])];
  const begin = (event: Event) => {
    event.preventDefault();
    void run(link, wanted, own);
  };
  return (
    <Section title="Capture">
      <form class="capture" onSubmit={begin}>
        <label class="field">
          Filter
          <input name="capture-filter" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} placeholder="tcp port 80" autocomplete="off" spellcheck={false} disabled={capture?.runs ?? false} />
        </label>
        <label class="check">
          <input type="checkbox" name="capture-own" checked={own} onChange={(event) => setOwn(event.currentTarget.checked)} disabled={capture?.runs ?? false} />
          with netloom's own probes
        </label>
        {/* Two buttons, by their keys: one that became the other while it is pressed would send the form. */}
        {capture?.runs
          ? <button key="stop" type="button" id="capture-stop" onClick={() => capture.stop.abort()}>Stop</button>
          : <button key="start" type="submit" class="primary" id="capture-start">{capture ? "Start again" : "Start"}</button>}
      </form>
      {capture && !capture.why && (
        <p id="captured" role="status">
          <span>{things(capture.blocks.packets, "packet")}, {size(capture.blocks.whole)}</span>
          {!capture.runs && <button type="button" class="small" id="capture-save" onClick={() => save(fileName(link), file(capture))}>Save the file</button>}
        </p>
      )}
      {capture?.full && <p class="muted small-print">It was stopped: this tab keeps no more than {size(MOST_BYTES)} of a link. The command below has no such bound.</p>}
      {capture?.why && <Trouble words={shown(capture.why)} />}
      <Command lines={[words.join(" ")]} />
    </Section>
  );
}
