// The lab's API: the token, one request, and the stream of events.
//
// The token comes in the fragment of the link, which browsers send to nobody. It is kept for this tab alone and goes out in a
// header, which no other page can send. Whatever is refused becomes a Problem with the server's own words.

import type { LabEvent } from "./types";

const KEPT = "netloom-token";

/** Takes the token out of the address, so that neither history nor a screenshot has it. */
function takeToken(): string | null {
  const found = /^#(?:token=)?([A-Za-z0-9\-._~+/=]{16,512})$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEPT, found[1]!);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(KEPT);
}

let token: string | null = null;

/** Reads the token; whether there is one. */
export function begin(): boolean {
  token = takeToken();
  return token !== null;
}

/** What the server refused, in its words. */
export class Problem extends Error {
  constructor(readonly status: number, words: string) {
    super(words);
  }
}

function headers(more: Record<string, string> = {}): Record<string, string> {
  return { authorization: `Bearer ${token ?? ""}`, ...more };
}

async function refusal(answer: Response): Promise<Problem> {
  const text = await answer.text();
  try {
    return new Problem(answer.status, JSON.parse(text).detail ?? text);
  } catch {
    return new Problem(answer.status, text || answer.statusText);
  }
}

/** One request; its answer. */
export async function ask<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const json = body === undefined ? {} : { "content-type": "application/json" };
  const init: RequestInit = { method, headers: headers(json), cache: "no-store" };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (signal) init.signal = signal;
  const answer = await fetch(path, init);
  if (!answer.ok) throw await refusal(answer);
  return (await answer.json()) as T;
}

/** What comes as an answer, piece by piece. */
export async function stream(path: string, signal: AbortSignal): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const answer = await fetch(path, { headers: headers(), cache: "no-store", signal });
  if (!answer.ok || !answer.body) throw await refusal(answer);
  return answer.body.getReader();
}

/** The same by lines of JSON. */
export async function lines<T>(path: string, signal: AbortSignal, take: (line: T) => void): Promise<void> {
  const reader = await stream(path, signal);
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = parts.pop()!;
    for (const part of parts) take(JSON.parse(part) as T);
  }
}

/** The path of an object of this kind. */
export function path(kind: "nodes" | "links" | "switches", name: string): string {
  return `/v1/${kind}/${encodeURIComponent(name)}`;
}

/** Where a path's WebSocket is, and the protocols that it offers: a page can send no header with it, so one of them has the token. */
export function webSocket(path: string): { url: string; protocols: string[] } {
  const bytes = [...new TextEncoder().encode(token ?? "")];
  const hex = bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return { url: `${location.origin.replace(/^http/, "ws")}${path}`, protocols: ["netloom.terminal", `netloom.token.${hex}`] };
}

export interface Message {
  id: string;
  data: string;
}

/** Cuts a stream of Server-Sent Events into its messages. */
export class Cutter {
  private rest = "";

  add(text: string): Message[] {
    const parts = (this.rest + text).split("\n\n");
    this.rest = parts.pop()!;
    return parts.flatMap((part) => {
      const fields = part.split("\n").filter((line) => !line.startsWith(":"));
      const field = (name: string) =>
        fields.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2)).join("\n");
      return fields.length > 0 ? [{ id: field("id"), data: field("data") }] : [];
    });
  }
}

/** How the page hears of the lab. */
export type Hearing =
  | { state: "connecting" | "live" }
  /** Nobody answers for the lab: its process has ended, or it was taken down. */
  | { state: "away"; why: string }
  /** `netloom serve` does not answer. */
  | { state: "unreachable"; why: string }
  /** The link of this page is not valid any more; asking again is of no use. */
  | { state: "refused"; why: string };

// The server sends at least a comment every 15 s.
const SILENCE_MS = 40_000;
const FIRST_PAUSE_MS = 250;
const MOST_PAUSE_MS = 4_000;

/** Follows the lab's events for as long as the page is open, and goes on where it was after each interruption. */
export async function follow(take: (event: LabEvent) => void, hear: (hearing: Hearing) => void): Promise<void> {
  let last = "";
  let pause = FIRST_PAUSE_MS;
  for (;;) {
    const stop = new AbortController();
    try {
      const more: Record<string, string> = { accept: "text/event-stream" };
      if (last) more["last-event-id"] = last;
      const answer = await fetch("/v1/events", { headers: headers(more), cache: "no-store", signal: stop.signal });
      if (!answer.ok || !answer.body) throw await refusal(answer);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      const cutter = new Cutter();
      for (;;) {
        const timer = setTimeout(() => stop.abort(), SILENCE_MS);
        const { value, done } = await reader.read().finally(() => clearTimeout(timer));
        if (done) break;
        for (const message of cutter.add(value)) {
          take(JSON.parse(message.data) as LabEvent);
          last = message.id;
          pause = FIRST_PAUSE_MS;
          hear({ state: "live" });
        }
      }
      hear({ state: "away", why: "the stream of events ended" });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (error instanceof Problem && [401, 403].includes(error.status)) {
        hear({ state: "refused", why });
        return;
      }
      hear({ state: error instanceof Problem ? "away" : "unreachable", why });
    } finally {
      stop.abort();
    }
    await new Promise((go) => setTimeout(go, pause));
    pause = Math.min(MOST_PAUSE_MS, pause * 2);
  }
}
