// Paints the map of a large lab on a canvas, with the colours that CSS gives to the SVG of a small one.

import { ICONS, isBoxed } from "./icons";
import { arrowheads, beside, dashes, type Drawn, drawnOf, type Line, lineOf, NOTHING_OVER, type View, wireLabel } from "./look";
import type { Mark } from "./marks";
import type { Kind, Scene } from "./scene";
import type { Store } from "./store";
import type { Painter } from "./svg";
import { shown } from "./text";

const COLOURS = [
  "--map", "--text", "--muted", "--accent", "--accent-soft", "--ok", "--warn", "--bad", "--link", "--busy", "--wire",
  "--wire-soft", "--wire-text", "--lossy", "--vertex", "--vertex-line", "--switch", "--router", "--mark",
  "--slice-0", "--slice-1", "--slice-2", "--slice-3", "--slice-4", "--slice-5", "--slice-6", "--slice-7",
] as const;

type Colours = Record<(typeof COLOURS)[number], string>;

export class CanvasPainter implements Painter {
  readonly element = document.createElement("canvas");
  private readonly to = this.element.getContext("2d")!;
  private readonly icons = new Map<Kind, Path2D>(Object.entries(ICONS).map(([kind, path]) => [kind as Kind, new Path2D(path)]));
  private colours: Colours | null = null;
  private font = "";

  constructor() {
    this.element.setAttribute("aria-hidden", "true");
  }

  recolour(): void {
    this.colours = null;
  }

  private read(): Colours {
    if (!this.colours) {
      const style = getComputedStyle(this.element);
      this.colours = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(name).trim()])) as Colours;
      this.font = style.fontFamily;
    }
    return this.colours;
  }

  paint(scene: Scene, store: Store, view: View, chosen: Set<string>, over: string | null, { marks, slices } = NOTHING_OVER): void {
    const [dots, colours] = [window.devicePixelRatio || 1, this.read()];
    const [width, height] = [Math.round(view.width * dots), Math.round(view.height * dots)];
    if (this.element.width !== width) this.element.width = width;
    if (this.element.height !== height) this.element.height = height;
    this.element.style.width = `${view.width}px`;
    this.element.style.height = `${view.height}px`;
    this.to.setTransform(dots, 0, 0, dots, 0, 0);
    this.to.clearRect(0, 0, view.width, view.height);
    const lines = [...scene.edges.values()].map((edge) => ({ name: edge.name, key: `link ${edge.name}`, of: lineOf(edge, store, view) }));
    for (const { name, key, of } of lines) {
      const mark = marks?.get(name);
      // What is not marked steps back.
      this.to.globalAlpha = marks && !mark ? 0.3 : 1;
      this.tint(of, colours, slices?.get(name) ?? []);
      this.line(of, colours, chosen.has(key), over === key);
      if (mark) this.mark(of, colours, mark);
    }
    this.to.globalAlpha = 1;
    for (const { name, of } of lines) {
      const words = marks?.get(name)?.words ?? of.rate;
      if (words) this.words(shown(words), of, colours);
      this.wire(of, colours);
    }
    const drawn = drawnOf(scene, store, view, chosen);
    for (const [key, vertex] of scene.vertices) this.vertex(vertex.kind, drawn.get(key)!, colours, chosen.has(key) || over === key);
    this.to.font = `500 11.5px ${this.font}`;
    this.to.textAlign = "center";
    this.to.lineJoin = "round";
    for (const of of drawn.values()) if (of.label !== null) this.label(of, colours);
  }

  private trace({ points: [x1, y1, x2, y2], middle: [mx, my], bent }: Line): void {
    this.to.beginPath();
    this.to.moveTo(x1, y1);
    if (bent) this.to.quadraticCurveTo(2 * mx - (x1 + x2) / 2, 2 * my - (y1 + y2) / 2, x2, y2);
    else this.to.lineTo(x2, y2);
  }

  private line(of: Line, colours: Colours, chosen: boolean, over: boolean): void {
    const { to } = this;
    this.trace(of);
    if (chosen || over) {
      to.strokeStyle = colours["--accent-soft"];
      to.lineWidth = of.width + 7;
      to.stroke();
    }
    const colour = { idle: "--link", busy: "--busy", down: "--bad", lossy: "--lossy" } as const;
    to.strokeStyle = colours[colour[of.tone]];
    to.lineWidth = of.width;
    to.setLineDash(of.tone === "down" ? [5, 4] : []);
    to.stroke();
    to.setLineDash([]);
  }

  private tint(of: Line, colours: Colours, slices: number[]): void {
    for (const { colour, dash, offset } of dashes(slices)) {
      this.trace(of);
      this.to.strokeStyle = colours[colour as keyof Colours];
      this.to.lineWidth = of.width + 6;
      this.to.setLineDash(dash);
      this.to.lineDashOffset = offset;
      this.to.stroke();
    }
    this.to.setLineDash([]);
    this.to.lineDashOffset = 0;
  }

  private mark(of: Line, colours: Colours, mark: Mark): void {
    const { to } = this;
    this.trace(of);
    to.strokeStyle = to.fillStyle = colours[mark.lost ? "--bad" : "--mark"];
    to.lineWidth = of.width + 2;
    to.stroke();
    for (const points of arrowheads(of, mark)) {
      to.beginPath();
      points.forEach(([x, y], at) => (at === 0 ? to.moveTo(x, y) : to.lineTo(x, y)));
      to.closePath();
      to.fill();
    }
  }

  private wire(of: Line, colours: Colours): void {
    if (of.wire === null) return;
    const { to } = this;
    const [x, y] = of.middle;
    const text = shown(wireLabel(of.wire));
    to.font = `500 10.5px ${this.font}`;
    const [width, height] = text === "" ? [7, 7] : [to.measureText(text).width + 13, 16];
    to.beginPath();
    to.roundRect(x - width / 2, y - height / 2, width, height, height / 2);
    to.fillStyle = colours["--wire-soft"];
    to.strokeStyle = colours["--wire"];
    to.lineWidth = 1;
    to.fill();
    to.stroke();
    to.fillStyle = colours["--wire-text"];
    to.textAlign = "center";
    to.fillText(text, x, y + 3.7);
  }

  /** What is said at a link: its rate, or how long packets took. */
  private words(text: string, of: Line, colours: Colours): void {
    const { to } = this;
    const { x, y, turn, off } = beside(of);
    to.save();
    to.translate(x, y);
    to.rotate(turn);
    to.font = `500 10.5px ${this.font}`;
    to.textAlign = "center";
    to.lineJoin = "round";
    to.strokeStyle = colours["--map"];
    to.lineWidth = 3;
    to.strokeText(text, 0, -off);
    to.fillStyle = colours["--muted"];
    to.fillText(text, 0, -off);
    to.restore();
  }

  private vertex(kind: Kind, of: Drawn, colours: Colours, lit: boolean): void {
    const { to } = this;
    const outline = (r: number) => {
      to.beginPath();
      if (isBoxed(kind)) to.roundRect(of.x - r, of.y - r, 2 * r, 2 * r, r * 0.38);
      else to.arc(of.x, of.y, r, 0, 2 * Math.PI);
    };
    if (lit) {
      outline(of.radius + 4);
      to.fillStyle = colours["--accent-soft"];
      to.fill();
    }
    const own = kind === "router" ? colours["--router"] : kind === "switch" || kind === "openflow" ? colours["--switch"] : colours["--vertex-line"];
    const line = of.tone === "bad" ? colours["--bad"] : of.tone === "warn" ? colours["--warn"] : own;
    outline(of.radius);
    to.fillStyle = colours["--vertex"];
    to.strokeStyle = line;
    to.lineWidth = of.radius < 7 ? 1.2 : 1.7;
    to.fill();
    to.stroke();
    if (of.radius < 7) return;
    to.save();
    to.translate(of.x, of.y);
    to.scale(of.radius / 19, of.radius / 19);
    to.lineWidth = 1.7;
    to.lineCap = "round";
    to.lineJoin = "round";
    to.stroke(this.icons.get(kind)!);
    to.restore();
  }

  private label(of: Drawn, colours: Colours): void {
    const { to } = this;
    const [text, y] = [shown(of.label!), of.y + of.radius + 13];
    to.strokeStyle = colours["--map"];
    to.lineWidth = 3;
    to.strokeText(text, of.x, y);
    to.fillStyle = of.tone === "bad" ? colours["--bad"] : colours["--text"];
    to.fillText(text, of.x, y);
  }
}
