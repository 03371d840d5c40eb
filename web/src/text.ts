// Numbers and foreign text as people read them. Nothing here becomes markup: Preact and textContent write text only.

// Control characters, and those that turn the direction of what follows: a name with them would look like another one.
const ACTING = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

// What a terminal would obey: CSI and OSC sequences, and other escapes of two characters.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;

/** A name or a message, with characters that act written out. */
export function shown(text: string): string {
  return text.replace(ACTING, (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);
}

/** A line of a program's output, without what a terminal would obey. */
export function logged(text: string): string {
  return shown(text.replace(ESCAPES, "").replace(/\t/g, "    ").replace(/\r+$/, ""));
}

/** A word as a shell takes it. */
export function quoted(word: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

function scaled(value: number, base: number, units: string[]): string {
  let step = 0;
  while (value >= base * 0.9995 && step < units.length - 1) {
    value /= base;
    step += 1;
  }
  const digits = step === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[step]}`;
}

/** Bits a second. */
export function rate(bits: number): string {
  return scaled(bits, 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);
}

/** Bytes. */
export function size(bytes: number): string {
  return scaled(bytes, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
}

/** A whole number with its thousands apart. */
export function count(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

/** Events a second. */
export function perSecond(value: number, what: string): string {
  return `${value > 0 && value < 9.95 ? value.toFixed(1) : count(value)} ${what}/s`;
}

/** A number of things. */
export function things(number: number, one: string): string {
  return `${count(number)} ${one}${number === 1 ? "" : /(ch|s|x)$/.test(one) ? "es" : "s"}`;
}

/** A part of the whole. */
export function percent(part: number): string {
  const value = part * 100;
  return `${value.toFixed(value < 0.95 && value > 0 ? 2 : value < 9.95 ? 1 : 0)} %`;
}

/** Seconds since something began. */
export function age(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${whole % 60} s` : `${whole} s`;
}

/** The time of day of a moment in Unix seconds. */
export function clock(seconds: number): string {
  return new Date(seconds * 1000).toTimeString().slice(0, 8);
}

/** Impairments in a few words: `delay 50ms, loss 1%`. */
export function impairments(of: Record<string, string>): string {
  return Object.entries(of).map(([key, value]) => `${key} ${value}`).join(", ");
}

export function milliseconds(us: number): string {
  return `${(us / 1000).toFixed(us < 9995 ? 2 : 1)} ms`;
}
