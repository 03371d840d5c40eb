// Terminals below the map: a tab for each, and what loads them.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, path, webSocket } from "./api";
import { Badge } from "./parts";
import type { Term } from "./term";
import { shown } from "./text";

export interface Opened {
  id: number;
  node: string;
}

type State = { kind: "starts" } | { kind: "runs" } | { kind: "ended"; code: number } | { kind: "lost"; why: string };

/** Loads the bundle of terminals when it is needed for the first time. */
function load(): Promise<typeof import("./term")> {
  // A name in a variable: the bundler leaves it to the browser.
  const name = "/terminal.js";
  return import(name) as Promise<typeof import("./term")>;
}

/** One shell. It stays while it is hidden. */
function Screen({ node, theme, hidden, tell }: { node: string; theme: string; hidden: boolean; tell: (state: State, again: (() => void) | null) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const term = useRef<Term | null>(null);
  useEffect(() => {
    let gone = false;
    const telling = (state: State) => gone || tell(state, () => {
      telling({ kind: "starts" });
      term.current?.connect();
    });
    const address = `${path("nodes", node)}/terminal`;
    load().then(({ Term }) => {
      if (gone) return;
      const { url, protocols } = webSocket(address);
      term.current = new Term(box.current!, theme, `Terminal of ${shown(node)}`, url, protocols, {
        state: (state) => {
          if (state.kind !== "lost") return telling(state);
          telling({ kind: "lost", why: "The connection has ended, and its shell with it." });
          // A browser does not say why it has no connection; a plain request is told.
          ask("GET", address).catch((error: Error) => error.message.includes("WebSocket") || telling({ kind: "lost", why: error.message }));
        },
      });
    }, (error: Error) => telling({ kind: "lost", why: error.message }));
    return () => {
      gone = true;
      term.current?.end();
    };
  }, [node]);
  useEffect(() => term.current?.colour(theme), [theme]);
  useEffect(() => {
    if (!hidden) term.current?.focus();
  }, [hidden]);
  return <div class="screen" ref={box} hidden={hidden} role="tabpanel" aria-label={`Terminal of ${shown(node)}`} />;
}

interface Props {
  opened: Opened[];
  front: number;
  show: (id: number) => void;
  close: (id: number) => void;
  theme: string;
}

export function Terminals({ opened, front, show, close, theme }: Props) {
  const [states, setStates] = useState<Map<number, { state: State; again: (() => void) | null }>>(new Map());
  const [tall, setTall] = useState(false);
  if (opened.length === 0) return null;
  const at = states.get(front);
  const state = at?.state ?? { kind: "starts" };
  return (
    <section class={tall ? "terminals tall" : "terminals"} aria-label="Terminals">
      <div class="terminals-head">
        <div role="tablist" aria-label="Terminals">
          {opened.map(({ id, node }) => (
            <button key={id} type="button" role="tab" aria-selected={id === front} onClick={() => show(id)}>{shown(node)}</button>
          ))}
        </div>
        <span role="status" class="terminal-state">
          {state.kind === "starts" && <span class="muted">starts …</span>}
          {state.kind === "ended" && <Badge tone={state.code === 0 ? "plain" : "warn"}>{`ended with ${state.code}`}</Badge>}
          {state.kind === "lost" && <span class="trouble">{shown(state.why)}</span>}
        </span>
        {(state.kind === "ended" || state.kind === "lost") && at?.again && <button type="button" class="small" id="terminal-again" onClick={at.again}>Start again</button>}
        <button type="button" class="small" id="terminal-size" aria-pressed={tall} onClick={() => setTall(!tall)}>{tall ? "Lower" : "Taller"}</button>
        <button type="button" class="small" id="terminal-close" onClick={() => close(front)}>Close</button>
      </div>
      {opened.map(({ id, node }) => (
        <Screen key={id} node={node} theme={theme} hidden={id !== front} tell={(state, again) => setStates((old) => new Map(old).set(id, { state, again }))} />
      ))}
    </section>
  );
}
