// <netloom-map src="lab.json">: the map of a lab on anybody's page, to look at.
//
// It reads what `netloom events --json` prints, or one answer of GET /v1/events: a snapshot, and perhaps changes. It changes nothing in
// the lab, keeps nothing in the browser and asks for no address but those of its attributes.

import { MapView } from "./map";
import css from "./map.css";
import type { Layout } from "./scene";
import { Store } from "./store";
import { shown, things } from "./text";
import type { LabEvent } from "./types";

const DARK = window.matchMedia("(prefers-color-scheme: dark)");

// The host may have a size of its own; a map without height would not be seen.
const FRAME = `
:host { display: block; position: relative; height: 420px; overflow: hidden; border: 1px solid var(--line); border-radius: 10px; color: var(--text);
  font: 14px/1.45 Inter, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", Arial, sans-serif; }
:host([hidden]) { display: none; }
.map:focus-visible { outline: 2px solid var(--accent); }
.why { position: absolute; inset: 0; display: grid; place-items: center; margin: 0; padding: 20px; text-align: center; color: var(--muted); }
.why:empty { display: none; }
.unseen { position: absolute; width: 1px; height: 1px; margin: 0; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`;

/** The events of a text: a list, a single one, or one a line. */
export function eventsOf(text: string): LabEvent[] {
  const lines = text.trimStart().startsWith("[") ? (JSON.parse(text) as LabEvent[]) : text.split("\n").filter((line) => line.trim() !== "").map((line) => JSON.parse(line) as LabEvent);
  if (lines[0]?.kind !== "snapshot") throw new Error("it does not begin with a snapshot, as `netloom events --json` prints it");
  return lines;
}

class NetloomMap extends HTMLElement {
  static readonly observedAttributes = ["src", "layout", "theme", "every"];

  private readonly box = document.createElement("div");
  private readonly words = document.createElement("p");
  private readonly told = document.createElement("p");
  private map: MapView | null = null;
  private store = new Store();
  private timer = 0;
  private turn = 0;
  private readonly recolour = () => this.colour();

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(css + FRAME);
    root.adoptedStyleSheets = [sheet];
    this.box.className = "map";
    this.box.tabIndex = 0;
    this.box.setAttribute("role", "application");
    this.words.className = "why";
    this.told.className = "unseen";
    this.told.setAttribute("aria-live", "polite");
    root.append(this.box, this.words, this.told);
  }

  connectedCallback(): void {
    DARK.addEventListener("change", this.recolour);
    this.colour();
    this.begin();
  }

  disconnectedCallback(): void {
    DARK.removeEventListener("change", this.recolour);
    this.end();
  }

  attributeChangedCallback(name: string): void {
    if (!this.isConnected) return;
    if (name === "theme") this.colour();
    else this.begin();
  }

  /** The lab as it was last read. */
  get lab(): Store {
    return this.store;
  }

  private colour(): void {
    const wanted = this.getAttribute("theme");
    this.dataset.theme = wanted === "dark" || wanted === "light" ? wanted : DARK.matches ? "dark" : "light";
    this.map?.recolour();
  }

  private end(): void {
    this.turn += 1;
    clearTimeout(this.timer);
    this.map?.end();
    this.map = null;
  }

  private begin(): void {
    this.end();
    this.store = new Store();
    this.map = new MapView(this.box, this.store, {
      guest: true,
      choose: (choice) => this.dispatchEvent(new CustomEvent("netloom-choose", { detail: choice, bubbles: true, composed: true })),
      tell: (key) => {
        this.told.textContent = shown(key);
      },
    });
    void this.read(this.turn);
  }

  private async read(turn: number): Promise<void> {
    const text = async (url: string) => {
      const answer = await fetch(url, { cache: "no-store" });
      if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
      return answer.text();
    };
    const src = this.getAttribute("src");
    try {
      if (!src) throw new Error("src: missing; it names what `netloom events --json` printed");
      const layout = this.getAttribute("layout");
      const [events, places] = await Promise.all([text(src), layout ? text(layout) : null]);
      if (turn !== this.turn) return;
      for (const event of eventsOf(events)) this.store.apply(event);
      this.map?.setLayout(places === null ? null : (JSON.parse(places) as Layout));
      this.words.textContent = "";
    } catch (error) {
      if (turn !== this.turn) return;
      // What was read before stays to be seen.
      if (!this.store.lab) this.words.textContent = shown(`${src ?? "netloom-map"}: ${(error as Error).message}`);
    }
    const { lab, nodes, links } = this.store;
    this.box.setAttribute("aria-label", lab ? `Map of the lab ${shown(lab.name)}: ${things(nodes.size, "node")}, ${things(links.size, "link")}` : "Map of a lab");
    const every = Number(this.getAttribute("every"));
    if (every >= 1) this.timer = window.setTimeout(() => void this.read(turn), every * 1000);
  }
}

customElements.define("netloom-map", NetloomMap);
