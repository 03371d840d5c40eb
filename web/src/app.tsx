// The page: who hears the lab, what is chosen, and the frame around the map, the tables and the panel.

import { render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./map.css";
import "./style.css";
import { ask, begin, follow, type Hearing } from "./api";
import { Add } from "./edit";
import { LabFile } from "./labfile";
import { LinkPanel, LinksPanel } from "./link";
import { List } from "./list";
import { type Over, sliceColour } from "./look";
import { type Choice, keysOf, MapView } from "./map";
import { type Marks, slicesOf } from "./marks";
import { NodePanel } from "./node";
import { Overview } from "./overview";
import { Marker, marksChanged } from "./packets";
import { Badge, Command, useAnswer, useStore } from "./parts";
import type { Marking } from "./reach";
import { KnownLayout, type Layout, shape } from "./scene";
import { Search } from "./search";
import { Store } from "./store";
import { SwitchPanel } from "./switch";
import { type Opened, Terminals } from "./terminals";
import { shown, things } from "./text";
import type { SlicesShown } from "./types";

type Theme = "light" | "dark";

const DARK = window.matchMedia("(prefers-color-scheme: dark)");

function startTheme(): Theme {
  const kept = localStorage.getItem("netloom-theme");
  return kept === "light" || kept === "dark" ? kept : DARK.matches ? "dark" : "light";
}

/** Follows the system until somebody chooses. */
function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState(startTheme);
  document.documentElement.dataset.theme = theme;
  useEffect(() => {
    const follow = () => localStorage.getItem("netloom-theme") ?? setTheme(DARK.matches ? "dark" : "light");
    DARK.addEventListener("change", follow);
    return () => DARK.removeEventListener("change", follow);
  }, []);
  const turn = () => {
    const next = theme === "dark" ? "light" : "dark";
    localStorage.setItem("netloom-theme", next);
    setTheme(next);
  };
  return [theme, turn];
}

const SECOND_MS = 1000;

/** Hears the lab for as long as the page is open. */
function useLab(store: Store): Hearing {
  const [hearing, setHearing] = useState<Hearing>({ state: "connecting" });
  useEffect(() => {
    let heard = 0;
    let live = false;
    const take = (event: Parameters<Store["apply"]>[0]) => {
      heard = performance.now();
      store.apply(event);
    };
    const hear = (next: Hearing) => {
      live = next.state === "live";
      setHearing((old) => (old.state === next.state && !("why" in next) ? old : next));
    };
    void follow(take, hear);
    const timer = setInterval(() => {
      const quiet = performance.now() - heard;
      if (live && quiet > 1.5 * SECOND_MS) {
        heard += SECOND_MS;
        store.quiet(store.time + 1);
      }
    }, SECOND_MS);
    return () => clearInterval(timer);
  }, [store]);
  return hearing;
}

function Banner({ hearing, known }: { hearing: Hearing; known: boolean }) {
  if (hearing.state === "live" || hearing.state === "refused" || (hearing.state === "connecting" && !known)) return null;
  const words = {
    connecting: "Connecting …",
    away: "The lab does not answer: it was taken down, or its process has ended and its nodes go on. This page goes on as soon as the lab is up or adopted.",
    unreachable: "netloom serve does not answer. If it was ended, start it again and open the link that it prints.",
  }[hearing.state];
  return <div class="banner" role="status">{words}</div>;
}

function Refused({ why }: { why: string }) {
  return (
    <main class="alone">
      <img src="/icon.svg" alt="" width="56" height="56" />
      <h1>This link does not open a lab</h1>
      <p>Each <code>netloom serve --page</code> prints a link of its own, which is valid until it ends. Open the whole link, or start it again:</p>
      <pre>netloom -l LAB serve --page</pre>
      <p class="muted">{shown(why)}</p>
    </main>
  );
}

function Sign({ path }: { path: string }) {
  return <svg viewBox="0 0 16 16" aria-hidden="true"><path d={path} /></svg>;
}

const SIGNS = {
  in: "M8 3v10M3 8h10",
  out: "M3 8h10",
  fit: "M2.500 6v-3.500h3.500M10 2.500h3.500v3.500M13.500 10v3.500h-3.500M6 13.500h-3.500v-3.500",
  tidy: "M3 4h4v3h-4zM9.500 9h4v3h-4zM7 5.500h2.500q2 0 2 2v1.500",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.500M8 13.500v1.500M1 8h1.500M13.500 8h1.500M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13 9.500a5.500 5.500 0 0 1-6.500-6.500 5.500 5.500 0 1 0 6.500 6.500z",
  close: "M4 4l8 8M12 4l-8 8",
  places: "M3 2.500h7.500l2.500 2.500v8.500h-10zM5.500 2.500v3.500h4v-3.500M5.500 13.500v-4h5v4",
  slices: "M2.500 5.500l5.500-3 5.500 3-5.500 3zM2.500 8.500l5.500 3 5.500-3M2.500 11.200l5.500 3 5.500-3",
};

interface MapProps {
  store: Store;
  choice: Choice | null;
  choose: (choice: Choice | null) => void;
  theme: Theme;
  marked: Marked | null;
  mark: Marking;
  /** Opens a terminal on a node. */
  enter: (node: string) => void;
  /** The map while there is one. */
  view: { current: MapView | null };
}

/** What is marked on the map, in words; `live` while a filter goes on. */
interface Marked {
  title: string;
  marks: Marks;
  live?: boolean;
}

/** The slices of links while they are shown: their names, and the places of each link's in them. */
function useSlices(store: Store, wanted: boolean): { names: string[]; of: Map<string, number[]> } | null {
  const { answer } = useAnswer<SlicesShown>(wanted ? "/v1/slices" : null, 3000);
  const { topology } = store;
  return useMemo(
    () => (wanted && answer ? { names: (answer.slices ?? []).map(({ name }) => name), of: slicesOf(answer, store) } : null),
    [wanted, answer, store, topology],
  );
}

/** The map, and the layout that the lab process offers for it. */
function MapBox({ store, choice, choose, theme, marked, mark, enter, view }: MapProps) {
  const box = useRef<HTMLDivElement>(null);
  const [map, setMap] = useState<MapView | null>(null);
  const [told, tell] = useState("");
  const choosing = useRef(choose);
  choosing.current = choose;
  const entering = useRef(enter);
  entering.current = enter;
  useEffect(() => {
    const made = new MapView(box.current!, store, {
      choose: (choice) => choosing.current(choice),
      enter: (node) => entering.current(node),
      tell: (key) => tell(describe(key, store)),
    });
    setMap(made);
    view.current = made;
    return () => {
      view.current = null;
      made.end();
    };
  }, [store]);
  const [topology, setTopology] = useState(store.topology);
  const [asked, setAsked] = useState(0);
  useEffect(() => store.listen(() => setTopology(store.topology)), [store]);
  useEffect(() => {
    if (!map || topology === 0) return;
    const [known, wanted] = [new KnownLayout(localStorage, store.lab?.name ?? ""), shape(store)];
    const layout = asked === 0 ? known.read(wanted) : null;
    if (layout) {
      map.setLayout(layout);
      return;
    }
    const stop = new AbortController();
    ask<Layout>("GET", "/v1/lab/layout", undefined, stop.signal).then(
      (layout) => {
        known.write(wanted, layout);
        map.setLayout(layout);
      },
      // A lab process of an older version offers none; the one that is known stays.
      () => stop.signal.aborted || map.lacksLayout(),
    );
    return () => stop.abort();
  }, [map, topology, asked]);
  useEffect(() => map?.setChosen(choice), [map, choice]);
  useEffect(() => {
    if (!map || !choice) return;
    for (const key of [...keysOf(choice)].slice(0, 1)) map.reveal(key);
  }, [map, choice]);
  useEffect(() => map?.recolour(), [map, theme]);
  const hasSlices = [...store.switches.values()].some(({ openflow }) => (openflow?.slices ?? []).length > 0);
  const [sliced, setSliced] = useState(false);
  const [places, setPlaces] = useState<string | null>(null);
  const slices = useSlices(store, sliced && hasSlices);
  useEffect(() => map?.setOver({ marks: marked?.marks ?? null, slices: slices?.of ?? null } satisfies Over), [map, marked, slices]);
  return (
    <div class="map-box">
      <div
        class="map"
        id="map"
        ref={box}
        role="application"
        tabIndex={0}
        aria-label={`Map of the lab: ${things(store.nodes.size, "node")}, ${things(store.links.size, "link")}. Arrows move, Space goes through links, Enter opens. The list has the same.`}
      />
      <div class="tools" role="toolbar" aria-label="Map">
        <button type="button" title="Zoom in (+)" aria-label="Zoom in" onClick={() => map?.zoom(1.25)}><Sign path={SIGNS.in} /></button>
        <button type="button" title="Zoom out (-)" aria-label="Zoom out" onClick={() => map?.zoom(0.8)}><Sign path={SIGNS.out} /></button>
        <button type="button" title="Show everything (0)" aria-label="Show everything" onClick={() => map?.fit()}><Sign path={SIGNS.fit} /></button>
        <button type="button" title="Undo moves by hand" aria-label="Undo moves by hand" onClick={() => {
          map?.tidy();
          setAsked(asked + 1);
        }}><Sign path={SIGNS.tidy} /></button>
        <button type="button" id="places" title="Places for the lab file" aria-label="Places for the lab file" onClick={() => setPlaces(map?.fileLayout() ?? null)}><Sign path={SIGNS.places} /></button>
        {hasSlices && <button type="button" id="slices" title="Slices in colours" aria-label="Slices in colours" aria-pressed={sliced} onClick={() => setSliced(!sliced)}><Sign path={SIGNS.slices} /></button>}
      </div>
      <Marker store={store} marked={marked} mark={mark} />
      {places !== null && <Places text={places} close={() => setPlaces(null)} />}
      {slices && (
        <ul class="slices-box" aria-label="Slices">
          {slices.names.map((name, at) => <li key={name}><i style={{ background: `var(${sliceColour(at)})` }} />{shown(name)}</li>)}
        </ul>
      )}
      <ul class="legend-box" aria-label="Colours of links">
        <li><i class="idle" />idle</li>
        <li><i class="busy" />traffic</li>
        <li><i class="lossy" />losing packets</li>
        <li><i class="down" />down</li>
        <li><i class="wire" />impaired</li>
      </ul>
      <p class="unseen" aria-live="polite">{told}</p>
    </div>
  );
}

function describe(key: string, store: Store): string {
  const space = key.indexOf(" ");
  const [kind, name] = [key.slice(0, space), key.slice(space + 1)];
  const state = kind === "node" ? store.nodes.get(name)?.status.state : kind === "link" ? (store.links.get(name)?.status.up ? "up" : "down") : "";
  return `${kind} ${shown(name)}${state ? `, ${state}` : ""}`;
}

const KEYS: [string, string][] = [
  ["/", "search"],
  ["l", "list or map"],
  ["m", "go to the map"],
  ["Arrows", "on the map: to the next node; with Shift: move the map"],
  ["Space", "on the map: through the links of a node"],
  ["Enter", "on the map: open"],
  ["Shift and click", "choose several links"],
  ["+  -  0", "zoom in, out, show everything"],
  ["a", "add a node, a switch or a link"],
  ["f", "the lab file: save it, change it"],
  ["s", "a terminal on the chosen node"],
  ["t", "dark or light"],
  ["Esc", "close"],
];

function Keys({ close }: { close: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => box.current?.showModal(), []);
  return (
    <dialog ref={box} onClose={close} aria-labelledby="keys-title">
      <h2 id="keys-title">Keys</h2>
      <dl class="keys">
        {KEYS.map(([key, what]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}
      </dl>
      <form method="dialog"><button class="primary">Close</button></form>
    </dialog>
  );
}

/** Where everything stands, to be put into the lab file. */
function Places({ text, close }: { text: string; close: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => box.current?.showModal(), []);
  return (
    <dialog ref={box} onClose={close} aria-labelledby="places-title" class="wide-dialog">
      <h2 id="places-title">Places for the lab file</h2>
      <p class="muted small-print">With these lines in its file the lab stands like this everywhere: here, in <code>netloom graph</code>, and for others.</p>
      <Command id="places-text" lines={text.split("\n")} />
      <form method="dialog" class="buttons"><button class="primary">Close</button></form>
    </dialog>
  );
}

function Panel({ store, choice, choose, theme, mark, enter }: Omit<MapProps, "marked" | "view">) {
  if (!choice) return <Overview store={store} choose={choose} />;
  if (choice.kind !== "links") {
    return choice.kind === "node"
      ? <NodePanel key={choice.name} store={store} name={choice.name} choose={choose} mark={mark} enter={enter} />
      : <SwitchPanel key={choice.name} store={store} name={choice.name} choose={choose} />;
  }
  const [first, ...others] = choice.names;
  return others.length > 0
    ? <LinksPanel store={store} names={choice.names} choose={choose} />
    : <LinkPanel key={first!} store={store} name={first!} choose={choose} theme={theme} mark={mark} />;
}

function Page() {
  const store = useMemo(() => new Store(), []);
  const hearing = useLab(store);
  useStore(store);
  const [theme, turnTheme] = useTheme();
  const [choice, choose] = useState<Choice | null>(null);
  const [view, setView] = useState<"map" | "list">("map");
  const [text, setText] = useState("");
  const [keys, setKeys] = useState(false);
  const [adding, setAdding] = useState(false);
  const [marked, setMarked] = useState<Marked | null>(null);
  const [filing, setFiling] = useState(false);
  const mapView = useRef<MapView | null>(null);
  const [opened, setOpened] = useState<Opened[]>([]);
  const [front, show] = useState(0);
  const enter = (node: string) => {
    const id = Math.max(0, ...opened.map(({ id }) => id)) + 1;
    setOpened([...opened, { id, node }]);
    show(id);
  };
  const closeTerminal = (id: number) => {
    const left = opened.filter((one) => one.id !== id);
    setOpened(left);
    show(left[left.length - 1]?.id ?? 0);
  };
  const mark: Marking = (next) => {
    marksChanged();
    setMarked(next);
  };
  useEffect(() => {
    const act = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) choose(null);
      if (document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
      if (event.key === "/") document.getElementById("search")?.focus();
      else if (event.key === "l") setView((old) => (old === "map" ? "list" : "map"));
      else if (event.key === "m") {
        setView("map");
        requestAnimationFrame(() => document.getElementById("map")?.focus());
      } else if (event.key === "a") setAdding(true);
      else if (event.key === "f") setFiling(true);
      else if (event.key === "s" && choice?.kind === "node") enter(choice.name);
      else if (event.key === "t") turnTheme();
      else if (event.key === "?") setKeys(true);
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", act);
    return () => document.removeEventListener("keydown", act);
  });
  const { lab } = store;
  document.title = lab ? `${shown(lab.name)} – netloom` : "netloom";
  document.body.dataset.hearing = hearing.state;
  if (hearing.state === "refused") return <Refused why={hearing.why} />;
  const state = hearing.state === "live" ? (lab?.state ?? "") : hearing.state === "connecting" ? "connecting" : "not heard";
  const tone = state === "up" ? "ok" : state === "degraded" || state === "failed" || state === "broken" ? "bad" : "warn";
  return (
    <>
      <header>
        <img src="/icon.svg" alt="" width="28" height="28" />
        <h1>{lab ? shown(lab.name) : "netloom"}</h1>
        <span role="status"><Badge tone={tone}>{state}</Badge></span>
        {lab && <span class="muted counts">{things(store.nodes.size, "node")}, {things(store.links.size, "link")}</span>}
        <Search store={store} choose={choose} text={text} setText={setText} />
        <button type="button" id="add" onClick={() => setAdding(true)} title="Add a node, a switch or a link (a)">Add</button>
        <button type="button" id="file" onClick={() => setFiling(true)} title="The lab file: save it, change it (f)">File</button>
        <div class="switcher" role="group" aria-label="View">
          <button type="button" aria-pressed={view === "map"} onClick={() => setView("map")}>Map</button>
          <button type="button" aria-pressed={view === "list"} onClick={() => setView("list")}>List</button>
        </div>
        <button type="button" class="icon-button" onClick={turnTheme} aria-label={theme === "dark" ? "Light colours" : "Dark colours"} title="Dark or light (t)">
          <Sign path={theme === "dark" ? SIGNS.sun : SIGNS.moon} />
        </button>
        <button type="button" class="icon-button" onClick={() => setKeys(true)} aria-label="Keys" title="Keys (?)">?</button>
      </header>
      <Banner hearing={hearing} known={lab !== null} />
      <div class="body">
        <div class="middle">
          <main aria-label={view === "map" ? "Map" : "List"}>
            {view === "map"
              ? <MapBox store={store} choice={choice} choose={choose} theme={theme} marked={marked} mark={mark} enter={enter} view={mapView} />
              : <List store={store} choose={choose} chosen={keysOf(choice)} filter={text} />}
          </main>
          <Terminals opened={opened} front={front} show={show} close={closeTerminal} theme={theme} />
        </div>
        <aside aria-label="Details" tabIndex={-1}>
          {choice && <button type="button" class="close icon-button" onClick={() => choose(null)} aria-label="Close" title="Close (Esc)"><Sign path={SIGNS.close} /></button>}
          <Panel store={store} choice={choice} choose={choose} theme={theme} mark={mark} enter={enter} />
        </aside>
      </div>
      {adding && <Add store={store} choose={choose} close={() => setAdding(false)} />}
      {filing && <LabFile store={store} places={() => mapView.current?.fileLayout() ?? null} close={() => setFiling(false)} />}
      {keys && <Keys close={() => setKeys(false)} />}
    </>
  );
}

const root = document.getElementById("app")!;
root.textContent = "";
if (begin()) {
  render(<Page />, root);
} else {
  document.body.dataset.hearing = "refused";
  document.documentElement.dataset.theme = startTheme();
  render(<Refused why="The link has no token." />, root);
}
