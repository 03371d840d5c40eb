// The map as something to use: zoom, move, choose, drag, and the same by keys. Painters draw it.

import { CanvasPainter } from "./canvas";
import { at, NOTHING_OVER, onScreen, type Over, type View } from "./look";
import { arrange, bounds, fileLayout, type Layout, type Places, type Scene, type Vertex } from "./scene";
import type { Store } from "./store";
import { type Painter, SvgPainter } from "./svg";

// From this number of vertices and links on, a canvas costs less than elements.
const MOST_ELEMENTS = 500;

const MOST_SCALE = 2.5;
// Room around everything: the page's tools stand in the corners, and its legend below; a map on another page has neither.
const ROOM = { above: 64, beside: 92, below: 96 };
const GUEST_ROOM = { above: 32, beside: 48, below: 44 };
// A pointer that moves less than this has clicked.
const CLICK = 4;

/** What is chosen: a node or switch, or links. */
export type Choice = { kind: "node" | "switch"; name: string } | { kind: "links"; names: string[] };

export function keysOf(choice: Choice | null): Set<string> {
  if (!choice) return new Set();
  return new Set(choice.kind === "links" ? choice.names.map((name) => `link ${name}`) : [`${choice.kind} ${choice.name}`]);
}

/** Places that were changed in this browser, by lab. */
class Moved {
  constructor(private readonly lab: string) {}

  private get key(): string {
    return `netloom-places ${this.lab}`;
  }

  read(): Places {
    try {
      return JSON.parse(localStorage.getItem(this.key) ?? "{}") as Places;
    } catch {
      return {};
    }
  }

  write(places: Places): void {
    if (Object.keys(places).length === 0) localStorage.removeItem(this.key);
    else localStorage.setItem(this.key, JSON.stringify(places));
  }
}

export interface Hooks {
  choose(choice: Choice | null): void;
  /** A node is to be opened further: it was pressed twice. */
  enter?(node: string): void;
  /** What the pointer or the keyboard is at, in words. */
  tell(words: string): void;
  /** It stands within a page that scrolls, which others made: no place is kept, and the wheel zooms with Ctrl alone. */
  readonly guest?: boolean;
}

export class MapView {
  private view: View = { scale: 1, x: 0, y: 0, width: 0, height: 0 };
  private scene: Scene = { vertices: new Map(), edges: new Map(), unit: 1 };
  private painter: Painter | null = null;
  private topology = -1;
  /** `null` where the lab process offers none; `undefined` until that is known, since the page's own takes long. */
  private layout: Layout | null | undefined = undefined;
  private chosen = new Set<string>();
  private over: string | null = null;
  private lying: Over = NOTHING_OVER;
  private touched = false;
  private frame = 0;
  private drag: { x: number; y: number; moved: boolean; vertex: Vertex | null } | null = null;
  private readonly watcher: ResizeObserver;
  private readonly stops: (() => void)[] = [];

  constructor(private readonly box: HTMLElement, private readonly store: Store, private readonly hooks: Hooks) {
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(box);
    this.stops.push(store.listen(() => this.refresh()));
    const on = <K extends keyof HTMLElementEventMap>(name: K, act: (event: HTMLElementEventMap[K]) => void) => {
      box.addEventListener(name, act, { passive: false });
      this.stops.push(() => box.removeEventListener(name, act));
    };
    on("wheel", (event) => this.wheel(event));
    on("pointerdown", (event) => this.down(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.up(event));
    on("pointerleave", () => this.hover(null));
    on("dblclick", (event) => this.enter(event));
    on("keydown", (event) => this.key(event));
    this.resize();
    this.refresh();
  }

  end(): void {
    this.watcher.disconnect();
    for (const stop of this.stops) stop();
    cancelAnimationFrame(this.frame);
    this.painter?.element.remove();
  }

  /** The server's layout, once it is known, or again after the lab has changed. */
  setLayout(layout: Layout | null): void {
    this.layout = layout;
    this.topology = -1;
    this.refresh();
  }

  /** The server does not tell a layout: without an earlier one the page makes its own. */
  lacksLayout(): void {
    if (this.layout === undefined) this.setLayout(null);
  }

  setChosen(choice: Choice | null): void {
    this.chosen = keysOf(choice);
    this.draw();
  }

  /** What lies over the picture. */
  setOver(lying: Over): void {
    this.lying = lying;
    this.draw();
  }

  recolour(): void {
    this.painter?.recolour();
    this.draw();
  }

  /** Everything within the window. */
  fit(): void {
    this.touched = false;
    const { x, y, width, height } = bounds(this.scene);
    const { view } = this;
    const { above, beside, below } = this.hooks.guest ? GUEST_ROOM : ROOM;
    const scale = Math.min((view.width - 2 * beside) / (width || 1), (view.height - above - below) / (height || 1), 1.35);
    const good = Math.max(0.02, scale);
    this.view = { ...view, scale: good, x: view.width / 2 - (x + width / 2) * good, y: (view.height + above - below) / 2 - (y + height / 2) * good };
    this.draw();
  }

  zoom(factor: number, x = this.view.width / 2, y = this.view.height / 2): void {
    this.touched = true;
    const { view } = this;
    const scale = Math.max(0.02, Math.min(MOST_SCALE, view.scale * factor));
    const by = scale / view.scale;
    this.view = { ...view, scale, x: x - (x - view.x) * by, y: y - (y - view.y) * by };
    this.draw();
  }

  /** Forgets what was moved by hand. */
  tidy(): void {
    if (this.store.lab) new Moved(this.store.lab.name).write({});
    this.topology = -1;
    this.refresh();
    this.fit();
  }

  /** Where everything stands now, for the lab file. */
  fileLayout(): string {
    return fileLayout(this.scene);
  }

  /** Brings something into the window. */
  reveal(key: string): void {
    const vertex = this.scene.vertices.get(key) ?? this.scene.edges.get(key.replace(/^link /, ""))?.a;
    if (!vertex) return;
    const [x, y] = onScreen(this.view, vertex.x, vertex.y);
    const inside = x > 30 && y > 30 && x < this.view.width - 30 && y < this.view.height - 30;
    if (inside) return;
    this.touched = true;
    this.view = { ...this.view, x: this.view.x + this.view.width / 2 - x, y: this.view.y + this.view.height / 2 - y };
    this.draw();
  }

  private resize(): void {
    const { width, height } = this.box.getBoundingClientRect();
    if (width === this.view.width && height === this.view.height) return;
    this.view = { ...this.view, width, height };
    if (this.touched) this.draw();
    else this.fit();
  }

  private refresh(): void {
    const { store, layout } = this;
    if (this.topology !== store.topology && store.lab && layout !== undefined) {
      this.topology = store.topology;
      this.scene = arrange(store, layout, this.hooks.guest ? {} : new Moved(store.lab.name).read());
      this.choosePainter();
      if (!this.touched) return this.fit();
    }
    this.draw();
  }

  private choosePainter(): void {
    const large = this.scene.vertices.size + this.scene.edges.size > MOST_ELEMENTS;
    if (this.painter && large === this.painter instanceof CanvasPainter) return;
    this.painter?.element.remove();
    this.painter = large ? new CanvasPainter() : new SvgPainter();
    this.box.prepend(this.painter.element);
  }

  private draw(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.painter && this.view.width > 0) this.painter.paint(this.scene, this.store, this.view, this.chosen, this.over, this.lying);
    });
  }

  private placeOf(event: MouseEvent): [number, number] {
    const { left, top } = this.box.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  private wheel(event: WheelEvent): void {
    if (this.hooks.guest && !event.ctrlKey) return;
    event.preventDefault();
    const [x, y] = this.placeOf(event);
    this.zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0015)), x, y);
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0 || (event.target as Element).closest("button")) return;
    const [x, y] = this.placeOf(event);
    const found = at(this.scene, this.store, this.view, x, y);
    this.drag = { x, y, moved: false, vertex: found && "vertex" in found ? found.vertex : null };
    this.box.setPointerCapture(event.pointerId);
  }

  private move(event: PointerEvent): void {
    const [x, y] = this.placeOf(event);
    const { drag } = this;
    if (!drag) {
      const found = at(this.scene, this.store, this.view, x, y);
      return this.hover(found && ("vertex" in found ? found.vertex.key : `link ${found.edge.name}`));
    }
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < CLICK) return;
    drag.moved = true;
    this.touched = true;
    if (drag.vertex) {
      drag.vertex.x += (x - drag.x) / this.view.scale;
      drag.vertex.y += (y - drag.y) / this.view.scale;
    } else {
      this.view = { ...this.view, x: this.view.x + x - drag.x, y: this.view.y + y - drag.y };
    }
    [drag.x, drag.y] = [x, y];
    this.draw();
  }

  private up(event: PointerEvent): void {
    const { drag } = this;
    this.drag = null;
    if (!drag) return;
    if (drag.moved) {
      if (drag.vertex && this.store.lab && !this.hooks.guest) {
        const moved = new Moved(this.store.lab.name);
        moved.write({ ...moved.read(), [drag.vertex.key]: [drag.vertex.x, drag.vertex.y] });
      }
      return;
    }
    this.click(drag.x, drag.y, event.shiftKey || event.ctrlKey || event.metaKey);
  }

  private click(x: number, y: number, more: boolean): void {
    const found = at(this.scene, this.store, this.view, x, y);
    if (!found) return this.hooks.choose(null);
    if ("vertex" in found) return this.chooseKey(found.vertex.key);
    const before = more ? [...this.chosen].filter((key) => key.startsWith("link ")).map((key) => key.slice(5)) : [];
    const { name } = found.edge;
    const names = before.includes(name) ? before.filter((other) => other !== name) : [...before, name];
    this.hooks.choose(names.length > 0 ? { kind: "links", names } : null);
  }

  private enter(event: MouseEvent): void {
    const found = at(this.scene, this.store, this.view, ...this.placeOf(event));
    const key = found && "vertex" in found ? found.vertex.key : "";
    if (key.startsWith("node ")) this.hooks.enter?.(key.slice(5));
  }

  private chooseKey(key: string): void {
    const space = key.indexOf(" ");
    const [kind, name] = [key.slice(0, space), key.slice(space + 1)];
    if (kind === "node" || kind === "switch") this.hooks.choose({ kind, name });
    else if (kind === "link" || kind === "nowhere") this.hooks.choose({ kind: "links", names: [name] });
  }

  private hover(key: string | null): void {
    if (key === this.over) return;
    this.over = key;
    this.box.classList.toggle("over", key !== null);
    this.draw();
  }

  /** Arrows go from vertex to vertex, or move the window with Shift; Space goes through the links of a vertex. */
  private key(event: KeyboardEvent): void {
    if (event.target !== this.box || event.ctrlKey || event.metaKey || event.altKey) return;
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (way) this.step(way[0]!, way[1]!, event.shiftKey);
    else if (event.key === " ") this.nextLink();
    else if (event.key === "Enter" && this.over) this.chooseKey(this.over);
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
  }

  private step(dx: number, dy: number, pan: boolean): void {
    if (pan) {
      this.touched = true;
      this.view = { ...this.view, x: this.view.x - dx * 80, y: this.view.y - dy * 80 };
      return this.draw();
    }
    const all = [...this.scene.vertices.values()];
    const from = this.vertexAt() ?? null;
    let [best, found] = [Infinity, from ? null : (all[0] ?? null)];
    if (from) {
      for (const one of all) {
        const [x, y] = [one.x - from.x, one.y - from.y];
        const along = x * dx + y * dy;
        // What lies straight ahead goes before what is nearer and aside.
        const cost = along + 2.5 * Math.abs(x * dy - y * dx);
        if (one !== from && along > 1 && cost < best) [best, found] = [cost, one];
      }
    }
    if (found) this.pointAt(found.key);
  }

  private vertexAt(): Vertex | undefined {
    const key = this.over ?? [...this.chosen][0];
    if (!key) return undefined;
    return this.scene.vertices.get(key) ?? this.scene.edges.get(key.slice(5))?.a;
  }

  private nextLink(): void {
    const from = this.vertexAt();
    if (!from) return;
    const links = [...this.scene.edges.values()].filter(({ a, b }) => a === from || b === from).map(({ name }) => `link ${name}`);
    const next = links[(links.indexOf(this.over ?? "") + 1) % links.length];
    if (next) this.pointAt(next);
  }

  private pointAt(key: string): void {
    this.hover(key);
    this.reveal(key);
    this.hooks.tell(key);
  }
}
