// The same lab as tables, for the keyboard, for screen readers, and to find a row.

import { useState } from "preact/hooks";
import { linkState } from "./link";
import type { Choice } from "./map";
import { forwards, nodeTone, programState } from "./node";
import { Badge, type Choose, Pick, useStore } from "./parts";
import { type Store, wireText } from "./store";
import { count, perSecond, rate, shown, size } from "./text";

// More rows are shown on demand: a reading a second should cost little.
const MOST_ROWS = 200;

interface Column<T> {
  name: string;
  number?: boolean;
  value: (row: T) => string | number;
  show: (row: T) => preact.ComponentChildren;
}

interface TableProps<T> {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  chosen: Set<string>;
  keyOf: (row: T) => string;
}

function Table<T>({ caption, columns, rows, chosen, keyOf }: TableProps<T>) {
  const [by, setBy] = useState<{ column: number; down: boolean } | null>(null);
  const [all, setAll] = useState(false);
  const sorted = by ? [...rows].sort((one, other) => compare(columns[by.column]!.value(one), columns[by.column]!.value(other)) * (by.down ? -1 : 1)) : rows;
  const seen = all ? sorted : sorted.slice(0, MOST_ROWS);
  const sort = (column: number) =>
    setBy((old) => (old?.column === column ? { column, down: !old.down } : { column, down: columns[column]!.number ?? false }));
  return (
    <div class="table-box">
      <table>
        <caption>{caption} <span class="muted">{count(rows.length)}</span></caption>
        <thead>
          <tr>
            {columns.map((column, at) => (
              <th key={column.name} scope="col" class={column.number ? "number" : ""} aria-sort={by?.column === at ? (by.down ? "descending" : "ascending") : "none"}>
                <button type="button" class="sort" onClick={() => sort(at)}>{column.name}</button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {seen.map((row) => (
            <tr key={keyOf(row)} class={chosen.has(keyOf(row)) ? "chosen" : ""}>
              {columns.map((column, at) =>
                at === 0
                  ? <th key={column.name} scope="row">{column.show(row)}</th>
                  : <td key={column.name} class={column.number ? "number" : ""}>{column.show(row)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > seen.length && <button type="button" onClick={() => setAll(true)}>Show all {count(rows.length)}</button>}
    </div>
  );
}

function compare(one: string | number, other: string | number): number {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

interface Props {
  store: Store;
  choose: Choose;
  chosen: Set<string>;
  filter: string;
}

export function List({ store, choose, chosen, filter }: Props) {
  useStore(store);
  const wanted = filter.trim().toLowerCase();
  const has = (...texts: string[]) => wanted === "" || texts.some((text) => text.toLowerCase().includes(wanted));
  const nodes = [...store.nodes.values()].filter(({ status }) => has(status.name, ...status.addresses));
  const links = [...store.links.values()].filter(({ status }) => has(status.name, wireText(status)));
  const switches = [...store.switches.values()].filter(({ name }) => has(name));
  const node = (name: string): Choice => ({ kind: "node", name });
  const link = (name: string): Choice => ({ kind: "links", names: [name] });
  const one = (name: string): Choice => ({ kind: "switch", name });
  return (
    <div class="list">
      <Table
        caption="Nodes"
        rows={nodes}
        chosen={chosen}
        keyOf={({ status }) => `node ${status.name}`}
        columns={[
          { name: "Node", value: ({ status }) => status.name, show: ({ status }) => <Pick choice={node(status.name)} choose={choose}>{shown(status.name)}</Pick> },
          { name: "State", value: ({ status }) => status.state, show: ({ status }) => <Badge tone={nodeTone(status.state)}>{status.state}</Badge> },
          { name: "Forwards", value: ({ status }) => forwards(status), show: ({ status }) => forwards(status) },
          { name: "CPU", number: true, value: ({ cpu }) => cpu ?? -1, show: ({ cpu }) => (cpu === null ? "–" : `${(cpu * 100).toFixed(1)} %`) },
          { name: "Memory", number: true, value: ({ counters }) => counters.memory ?? -1, show: ({ counters }) => (counters.memory === null ? "–" : size(counters.memory)) },
          { name: "Lost", number: true, value: ({ counters }) => counters.lost, show: ({ counters }) => count(counters.lost) },
          { name: "Programs", value: ({ status }) => status.programs.length, show: ({ status }) => (status.programs.length === 0 ? "–" : `${status.programs.filter((program) => programState(program).words === "running").length} of ${status.programs.length} run`) },
          { name: "Addresses", value: ({ status }) => status.addresses[0] ?? "", show: ({ status }) => shown(status.addresses.join(" ")) },
        ]}
      />
      <Table
        caption="Links"
        rows={links}
        chosen={chosen}
        keyOf={({ status }) => `link ${status.name}`}
        columns={[
          { name: "Link", value: ({ status }) => status.name, show: ({ status }) => <Pick choice={link(status.name)} choose={choose}>{shown(status.name)}</Pick> },
          { name: "State", value: ({ status }) => linkState(status).words, show: ({ status }) => <Badge tone={linkState(status).tone}>{linkState(status).words}</Badge> },
          { name: "From first end", number: true, value: ({ rates }) => rates.bits[0], show: ({ rates }) => rate(rates.bits[0]) },
          { name: "From second end", number: true, value: ({ rates }) => rates.bits[1], show: ({ rates }) => rate(rates.bits[1]) },
          { name: "Lost now", number: true, value: ({ rates }) => rates.lost[0] + rates.lost[1], show: ({ rates }) => perSecond(rates.lost[0] + rates.lost[1], "") },
          { name: "Lost", number: true, value: ({ counters }) => counters.lost[0] + counters.lost[1], show: ({ counters }) => count(counters.lost[0] + counters.lost[1]) },
          { name: "Wire", value: ({ status }) => wireText(status), show: ({ status }) => (wireText(status) ? <Badge tone="wire">{shown(wireText(status))}</Badge> : "–") },
        ]}
      />
      {switches.length > 0 && (
        <Table
          caption="Switches"
          rows={switches}
          chosen={chosen}
          keyOf={({ name }) => `switch ${name}`}
          columns={[
            { name: "Switch", value: ({ name }) => name, show: ({ name }) => <Pick choice={one(name)} choose={choose}>{shown(name)}</Pick> },
            { name: "Kind", value: ({ kind }) => kind, show: ({ kind }) => shown(kind) },
            { name: "Ports", number: true, value: ({ links }) => links.length, show: ({ links }) => count(links.length) },
          ]}
        />
      )}
    </div>
  );
}
