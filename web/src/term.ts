// A terminal on the page: xterm, and the connection to the shell in a node. A bundle of its own, loaded with the first terminal.
//
// It takes what it shows in its own time: what it has taken is told, and the server waits for that.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import css from "@xterm/xterm/css/xterm.css";
import { adopt, dressedDocument } from "./dressed";

const LINES_KEPT = 5000;
// A pasted text goes in pieces that the server takes.
const PIECE = 32 << 10;

const DARK = {
  background: "#0d1218", foreground: "#e5eaf1", cursor: "#86a9ff", cursorAccent: "#0d1218", selectionBackground: "#2f4a86",
  black: "#1b2430", red: "#ff8d86", green: "#56cf93", yellow: "#f0b654", blue: "#86a9ff", magenta: "#cbb6ff", cyan: "#4cc3d3", white: "#cdd6e1",
  brightBlack: "#7f8ea1", brightRed: "#ffaaa5", brightGreen: "#7be0ae", brightYellow: "#ffd080", brightBlue: "#a9c2ff", brightMagenta: "#dfd0ff", brightCyan: "#7fdbe6", brightWhite: "#ffffff",
};
const LIGHT = {
  background: "#ffffff", foreground: "#18212d", cursor: "#2457d6", cursorAccent: "#ffffff", selectionBackground: "#bcd0ff",
  black: "#18212d", red: "#bb2430", green: "#14713f", yellow: "#8a5200", blue: "#2457d6", magenta: "#8a2d9a", cyan: "#0c6c7a", white: "#556172",
  brightBlack: "#5d6a7b", brightRed: "#a11621", brightGreen: "#0e5a31", brightYellow: "#704200", brightBlue: "#1b46b0", brightMagenta: "#6f1f7e", brightCyan: "#08535e", brightWhite: "#18212d",
};

export interface Hooks {
  /** The shell runs, or has ended with this exit code, or cannot be reached. */
  state(state: { kind: "runs" } | { kind: "ended"; code: number } | { kind: "lost" }): void;
}

let styled = false;

/** A terminal in a box, connected to a shell. */
export class Term {
  private readonly terminal: Terminal;
  private readonly fit = new FitAddon();
  private readonly watcher: ResizeObserver;
  private socket: WebSocket | null = null;

  constructor(private readonly box: HTMLElement, theme: string, label: string, private readonly address: string, private readonly protocols: string[], private readonly hooks: Hooks) {
    if (!styled) {
      styled = true;
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(css);
      adopt(sheet);
    }
    this.terminal = new Terminal({
      documentOverride: dressedDocument,
      fontFamily: 'ui-monospace, "SF Mono", "Cascadia Mono", "Roboto Mono", "DejaVu Sans Mono", "Liberation Mono", monospace',
      fontSize: 13,
      scrollback: LINES_KEPT,
      // What the contrast of colours needs, whatever a program chooses.
      minimumContrastRatio: 4.5,
      theme: theme === "dark" ? DARK : LIGHT,
    });
    this.terminal.loadAddon(this.fit);
    this.terminal.open(box);
    this.terminal.textarea?.setAttribute("aria-label", label);
    // What scrolls can be reached by keys.
    box.querySelector(".xterm-viewport")?.setAttribute("tabindex", "0");
    this.terminal.onData((text) => this.type(new TextEncoder().encode(text)));
    this.terminal.onBinary((text) => this.type(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
    this.terminal.onResize(({ cols, rows }) => this.tell({ size: [cols, rows] }));
    this.watcher = new ResizeObserver(() => this.fits());
    this.watcher.observe(box);
    this.connect();
  }

  /** Begins a shell, or another one after its end. */
  connect(): void {
    this.terminal.reset();
    this.fits();
    let code: number | null = null;
    const socket = new WebSocket(this.address, this.protocols);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => {
      this.tell({ size: [this.terminal.cols, this.terminal.rows] });
      this.hooks.state({ kind: "runs" });
      this.focus();
    };
    socket.onmessage = ({ data }: MessageEvent<string | ArrayBuffer>) => {
      if (typeof data === "string") code = (JSON.parse(data) as { ended: number }).ended;
      else this.terminal.write(new Uint8Array(data), () => this.tell({ taken: data.byteLength }));
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = null;
      this.hooks.state(code === null ? { kind: "lost" } : { kind: "ended", code });
    };
  }

  focus(): void {
    this.terminal.focus();
  }

  colour(theme: string): void {
    this.terminal.options.theme = theme === "dark" ? DARK : LIGHT;
  }

  /** Ends the shell, too. */
  end(): void {
    const { socket } = this;
    this.socket = null;
    socket?.close();
    this.watcher.disconnect();
    this.terminal.dispose();
  }

  private fits(): void {
    // A box that is hidden has no size; it is told when it has one.
    if (this.box.clientWidth > 0 && this.box.clientHeight > 0) this.fit.fit();
  }

  private tell(message: unknown): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  private type(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length && this.socket?.readyState === WebSocket.OPEN; at += PIECE) {
      this.socket.send(bytes.slice(at, at + PIECE));
    }
  }
}
