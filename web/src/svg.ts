// Paints the map as SVG: elements that CSS gives colours to. For labs of some hundred elements; others go on a canvas.

import { ICONS, isBoxed } from "./icons";
import { arrowheads, beside, dashes, type Drawn, drawnOf, lineOf, type Line, NOTHING_OVER, type Over, type View, wireLabel } from "./look";
import type { Mark } from "./marks";
import type { Scene } from "./scene";
import type { Store } from "./store";
import { shown } from "./text";

export interface Painter {
  readonly element: SVGSVGElement | HTMLCanvasElement;
  /** Draws everything as it is now; `chosen` and `over` have keys of vertices, and `link NAME`. */
  paint(scene: Scene, store: Store, view: View, chosen: Set<string>, over: string | null, lying?: Over): void;
  /** Colours have changed. */
  recolour(): void;
}

type Attributes = Record<string, string | number>;

const SPACE = "http://www.w3.org/2000/svg";

function make<K extends keyof SVGElementTagNameMap>(name: K, attributes: Attributes = {}): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SPACE, name);
  set(element, attributes);
  return element;
}

/** Sets what differs: most of a second's picture is that of the second before. */
function set(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    const text = String(value);
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
}

function say(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

const fixed = (value: number) => value.toFixed(1);

class VertexElement {
  readonly group: SVGGElement;
  private readonly shape: SVGElement;
  private readonly halo: SVGElement;
  private readonly icon = make("path", { class: "icon" });
  private readonly label = make("text", { class: "label", "text-anchor": "middle" });
  private readonly boxed: boolean;

  constructor(kind: keyof typeof ICONS, key: string) {
    this.boxed = isBoxed(kind);
    this.group = make("g", { "data-key": key });
    this.halo = make(this.boxed ? "rect" : "circle", { class: "halo" });
    this.shape = make(this.boxed ? "rect" : "circle", { class: "shape" });
    this.icon.setAttribute("d", ICONS[kind]);
    this.group.append(this.halo, this.shape, this.icon, this.label);
  }

  show(kind: string, of: Drawn, chosen: boolean, over: boolean): void {
    const state = `vertex ${kind} ${of.tone}${chosen ? " chosen" : ""}${over ? " over" : ""}`;
    set(this.group, { class: state, transform: `translate(${fixed(of.x)} ${fixed(of.y)})` });
    this.size(this.shape, of.radius);
    this.size(this.halo, of.radius + 4);
    set(this.icon, { transform: `scale(${(of.radius / 19).toFixed(3)})`, visibility: of.radius < 7 ? "hidden" : "visible" });
    set(this.label, { y: fixed(of.radius + 14) });
    say(this.label, of.label === null ? "" : shown(of.label));
  }

  private size(shape: SVGElement, r: number): void {
    if (!this.boxed) return set(shape, { r: fixed(r) });
    set(shape, { x: fixed(-r), y: fixed(-r), width: fixed(2 * r), height: fixed(2 * r), rx: fixed(r * 0.38) });
  }
}

class LinkElement {
  readonly group = make("g");
  private readonly line = make("path", { class: "line" });
  private readonly halo = make("path", { class: "halo" });
  private readonly heads = make("path", { class: "heads" });
  private readonly tints = make("g", { class: "tints" });
  private readonly pill = make("g", { class: "pill" });
  private readonly box = make("rect", { rx: 8, height: 16, y: -8 });
  private readonly words = make("text", { "text-anchor": "middle", y: 3.7 });
  private readonly rate = make("text", { class: "rate", "text-anchor": "middle" });

  constructor(name: string) {
    this.group.setAttribute("data-link", name);
    this.pill.append(this.box, this.words);
    this.group.append(this.halo, this.tints, this.line, this.heads, this.rate, this.pill);
  }

  show(of: Line, chosen: boolean, over: boolean, mark: Mark | undefined, slices: number[]): void {
    const d = pathOf(of);
    set(this.group, { class: `link ${of.tone}${of.wire === null ? "" : " wired"}${chosen ? " chosen" : ""}${over ? " over" : ""}${mark ? (mark.lost ? " marked lost" : " marked") : ""}` });
    const heads = mark ? arrowheads(of, mark) : [];
    set(this.heads, { d: heads.map((points) => `M${points.map(([x, y]) => `${fixed(x)} ${fixed(y)}`).join("L")}Z`).join("") });
    this.tint(d, of.width, slices);
    set(this.line, { d, "stroke-width": fixed(of.width) });
    set(this.halo, { d, "stroke-width": fixed(of.width + 8) });
    const [x, y] = of.middle;
    const text = of.wire === null ? "" : shown(wireLabel(of.wire));
    set(this.pill, { transform: `translate(${fixed(x)} ${fixed(y)})`, visibility: of.wire === null ? "hidden" : "visible" });
    const width = text === "" ? 8 : text.length * 5.9 + 14;
    const height = text === "" ? 8 : 16;
    set(this.box, { x: fixed(-width / 2), width: fixed(width), height, y: -height / 2, rx: height / 2 });
    say(this.words, text);
    set(this.rate, rateAt(of));
    say(this.rate, mark?.words ?? of.rate ?? "");
  }

  private tint(d: string, width: number, slices: number[]): void {
    while (this.tints.childElementCount > slices.length) this.tints.lastElementChild!.remove();
    while (this.tints.childElementCount < slices.length) this.tints.append(make("path"));
    dashes(slices).forEach(({ colour, dash, offset }, at) => {
      const path = this.tints.children[at] as SVGPathElement;
      set(path, { d, "stroke-width": fixed(width + 6), "stroke-dasharray": dash.join(" ") || "none", "stroke-dashoffset": offset });
      // The name of a colour's variable, which the theme gives a value to.
      path.style.stroke = `var(${colour})`;
    });
  }
}

/** A straight line, or one that is bent through its middle. */
function pathOf({ points: [x1, y1, x2, y2], middle: [mx, my], bent }: Line): string {
  const begin = `M${fixed(x1)} ${fixed(y1)}`;
  if (!bent) return `${begin}L${fixed(x2)} ${fixed(y2)}`;
  return `${begin}Q${fixed(2 * mx - (x1 + x2) / 2)} ${fixed(2 * my - (y1 + y2) / 2)} ${fixed(x2)} ${fixed(y2)}`;
}

/** Where what is said at a link stands. */
function rateAt(of: Line): Attributes {
  const { x, y, turn, off } = beside(of);
  return { transform: `translate(${fixed(x)} ${fixed(y)}) rotate(${fixed((turn * 180) / Math.PI)})`, y: fixed(-off) };
}

export class SvgPainter implements Painter {
  readonly element = make("svg", { "aria-hidden": "true" });
  private readonly lines = make("g");
  private readonly vertices = make("g");
  private readonly made = new Map<string, LinkElement>();
  private readonly put = new Map<string, { kind: string; of: VertexElement }>();

  constructor() {
    this.element.append(this.lines, this.vertices);
  }

  recolour(): void {}

  paint(scene: Scene, store: Store, view: View, chosen: Set<string>, over: string | null, { marks, slices } = NOTHING_OVER): void {
    set(this.element, { width: view.width, height: view.height, class: marks ? "marking" : slices ? "sliced" : "" });
    for (const [name, edge] of scene.edges) {
      let link = this.made.get(name);
      if (!link) {
        link = new LinkElement(name);
        this.made.set(name, link);
        this.lines.append(link.group);
      }
      const key = `link ${name}`;
      link.show(lineOf(edge, store, view), chosen.has(key), over === key, marks?.get(name), slices?.get(name) ?? []);
    }
    for (const [name, link] of this.made) {
      if (scene.edges.has(name)) continue;
      link.group.remove();
      this.made.delete(name);
    }
    this.paintVertices(scene, drawnOf(scene, store, view, chosen), chosen, over);
  }

  private paintVertices(scene: Scene, drawn: Map<string, Drawn>, chosen: Set<string>, over: string | null): void {
    for (const [key, vertex] of scene.vertices) {
      let known = this.put.get(key);
      if (known?.kind !== vertex.kind) {
        known?.of.group.remove();
        known = { kind: vertex.kind, of: new VertexElement(vertex.kind, key) };
        this.put.set(key, known);
        this.vertices.append(known.of.group);
      }
      known.of.show(vertex.kind, drawn.get(key)!, chosen.has(key), over === key);
    }
    for (const [key, known] of this.put) {
      if (scene.vertices.has(key)) continue;
      known.of.group.remove();
      this.put.delete(key);
    }
  }
}
