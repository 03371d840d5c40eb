// Small parts that panels share.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, Problem } from "./api";
import type { Choice } from "./map";
import type { Store } from "./store";
import { percent, shown } from "./text";

export type Choose = (choice: Choice | null) => void;

/** Renders again with each reading. */
export function useStore(store: Store): void {
  const [, again] = useState(0);
  useEffect(() => store.listen(() => again((count) => count + 1)), [store]);
}

/** What a path answers, asked for again every so often; the last good answer stays while one fails. A body makes it a POST; no path asks nothing. */
export function useAnswer<T>(path: string | null, everyMs: number, body?: unknown): { answer: T | null; why: string | null; again: () => void } {
  const [answer, setAnswer] = useState<T | null>(null);
  const [why, setWhy] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  const sent = JSON.stringify(body);
  useEffect(() => setAnswer(null), [path, sent]);
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    let timer = 0;
    const next = async () => {
      try {
        setAnswer(await ask<T>(sent === undefined ? "GET" : "POST", path, body, stop.signal));
        setWhy(null);
      } catch (error) {
        if (stop.signal.aborted) return;
        // That the lab is away is said by the banner.
        setWhy(error instanceof Problem && error.status !== 503 ? error.message : null);
      }
      if (!stop.signal.aborted) timer = window.setTimeout(next, everyMs);
    };
    void next();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [path, sent, everyMs, turn]);
  return { answer, why, again: () => setTurn((turn) => turn + 1) };
}

export type Tone = "ok" | "warn" | "bad" | "plain" | "wire";

export function Badge({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

export function Section({ title, aside, children }: { title: string; aside?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="section">
      <div class="section-head">
        <h3>{title}</h3>
        {aside}
      </div>
      {children}
    </section>
  );
}

export function Facts({ facts }: { facts: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A part of a limit; without a limit only the figure. */
export function Meter({ name, text, part }: { name: string; text: string; part: number | null }) {
  const tone = part === null ? "" : part > 0.95 ? "bad" : part > 0.8 ? "warn" : "";
  return (
    <div class="meter">
      <div class="meter-head">
        <span class="muted">{name}</span>
        <span>{text}</span>
      </div>
      {part !== null && (
        <div class="bar" role="img" aria-label={`${name}: ${percent(Math.min(1, part))} of its limit`}>
          <div class={tone} style={{ width: `${Math.min(100, part * 100)}%` }} />
        </div>
      )}
    </div>
  );
}

/** A command line, with a button that copies it. */
export function Command({ lines, id }: { lines: string[]; id?: string }) {
  const [copied, setCopied] = useState(false);
  const timer = useRef(0);
  const text = useRef<HTMLElement>(null);
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(lines.join("\n"));
    } catch {
      // Only pages from loopback or by HTTPS have a clipboard: on others the command is marked, to be copied by hand.
      if (text.current) getSelection()?.selectAllChildren(text.current);
      return;
    }
    setCopied(true);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => setCopied(false), 1500);
  };
  return (
    <div class="command">
      <code id={id} ref={text} tabIndex={0}>
        {lines.map((line, at) => <div key={at}>{line.split(" ").map((word, at) => [at > 0 && " ", <span key={at}>{shown(word)}</span>])}</div>)}
      </code>
      <button type="button" class="small" onClick={copy} aria-label="Copy the command">{copied ? "Copied" : "Copy"}</button>
    </div>
  );
}

/** Something that can be chosen, by its name. */
export function Pick({ choice, choose, children }: { choice: Choice; choose: Choose; children: ComponentChildren }) {
  return <button type="button" class="pick" onClick={() => choose(choice)}>{children}</button>;
}

/** Has the browser save a file. */
export function save(name: string, file: Blob): void {
  const url = URL.createObjectURL(file);
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export function Trouble({ words }: { words: string }) {
  return <p class="trouble" role="alert">{shown(words)}</p>;
}
