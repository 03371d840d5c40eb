// The document that xterm gets, in its bundle alone: build.mjs puts it in place of the global one, which xterm uses in places.
//
// The page's policy refuses styles in elements and attributes, and xterm makes both. So what it makes as a style element writes to a style
// sheet of the document, and a style attribute to the element's own style; the policy has no word about either.

const real = window.document;

export function adopt(sheet: CSSStyleSheet): void {
  real.adoptedStyleSheets = [...real.adoptedStyleSheets, sheet];
}

/** Stands for a style element: its text is a sheet of the document. */
function styleElement(): HTMLElement {
  const element = real.createElement("span");
  element.hidden = true;
  const sheet = new CSSStyleSheet();
  adopt(sheet);
  Object.defineProperty(element, "textContent", { set: (text: string) => sheet.replaceSync(text) });
  element.remove = () => {
    real.adoptedStyleSheets = real.adoptedStyleSheets.filter((other) => other !== sheet);
    HTMLElement.prototype.remove.call(element);
  };
  return element;
}

function setAttribute(this: HTMLElement, name: string, value: string): void {
  if (name === "style") this.style.cssText = value;
  else HTMLElement.prototype.setAttribute.call(this, name, value);
}

function createElement(name: string): HTMLElement {
  if (name === "style") return styleElement();
  const element = real.createElement(name);
  if (name === "span") element.setAttribute = setAttribute;
  return element;
}

export const dressedDocument: Document = new Proxy(real, {
  get: (target, name) => {
    if (name === "createElement") return createElement;
    const value = Reflect.get(target, name, target) as unknown;
    return typeof value === "function" ? value.bind(target) : value;
  },
  // What it keeps in the document is the document's.
  set: (target, name, value) => Reflect.set(target, name, value, target),
});
