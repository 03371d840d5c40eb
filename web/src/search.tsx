// The search field: names of nodes, links and switches, addresses of nodes; Enter goes there.

import { useState } from "preact/hooks";
import type { Choice } from "./map";
import type { Choose } from "./parts";
import type { Store } from "./store";
import { shown } from "./text";

const MOST_FOUND = 9;

interface Found {
  choice: Choice;
  kind: string;
  name: string;
  more: string;
}

/** What a text means: those whose name begins with it, then those that have it. */
export function find(store: Store, text: string): Found[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return [];
  const all: Found[] = [
    ...[...store.nodes.values()].map(({ status: { name, addresses } }): Found => ({ choice: { kind: "node", name }, kind: "node", name, more: addresses.join(" ") })),
    ...[...store.switches.values()].map(({ name, kind }): Found => ({ choice: { kind: "switch", name }, kind: "switch", name, more: kind })),
    ...[...store.links.values()].map(({ status: { name, ends } }): Found => ({ choice: { kind: "links", names: [name] }, kind: "link", name, more: ends.join(" ") })),
  ];
  const rank = ({ name, more }: Found) => {
    const at = name.toLowerCase();
    return at === wanted ? 0 : at.startsWith(wanted) ? 1 : at.includes(wanted) ? 2 : more.toLowerCase().includes(wanted) ? 3 : 4;
  };
  return all.map((one) => ({ one, rank: rank(one) })).filter(({ rank }) => rank < 4).sort((a, b) => a.rank - b.rank).slice(0, MOST_FOUND).map(({ one }) => one);
}

export function Search({ store, choose, text, setText }: { store: Store; choose: Choose; text: string; setText: (text: string) => void }) {
  const [at, setAt] = useState(0);
  const [open, setOpen] = useState(false);
  const found = open ? find(store, text) : [];
  const go = (one: Found | undefined) => {
    if (!one) return;
    choose(one.choice);
    setText("");
    setOpen(false);
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt((at + 1) % Math.max(1, found.length));
    else if (event.key === "ArrowUp") setAt((at - 1 + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter") go(found[at]);
    else if (event.key === "Escape" && (text !== "" || open)) {
      setText("");
      setOpen(false);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const active = found[at] ? `found-${at}` : undefined;
  return (
    <div class="search">
      <svg viewBox="0 0 16 16" aria-hidden="true"><path d="M7 2.500a4.500 4.500 0 1 0 0 9 4.500 4.500 0 0 0 0-9zM10.400 10.400L14 14" /></svg>
      <input
        id="search"
        type="text"
        role="combobox"
        aria-label="Search nodes, links, switches and addresses"
        aria-expanded={found.length > 0}
        aria-controls="found"
        aria-autocomplete="list"
        {...(active ? { "aria-activedescendant": active } : {})}
        placeholder="Search"
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
          setOpen(true);
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={key}
      />
      <kbd aria-hidden="true">/</kbd>
      <ul id="found" role="listbox" aria-label="Found" hidden={found.length === 0}>
        {found.map((one, index) => (
          <li
            key={`${one.kind} ${one.name}`}
            id={`found-${index}`}
            role="option"
            aria-selected={index === at}
            onMouseDown={(event) => {
              event.preventDefault();
              go(one);
            }}
          >
            <span class="kind">{one.kind}</span>
            <b>{shown(one.name)}</b>
            <span class="muted">{shown(one.more)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
