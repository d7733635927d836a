// Elements with text: names come from games and files of others, and are never read as HTML.

export const $ = (id) => document.getElementById(id);

/** make("b.wide", "text", child, ...): an element with a class and with children. */
export function make(what, ...children) {
  const [tag, ...classes] = what.split(".");
  const element = document.createElement(tag);
  element.classList.add(...classes);
  for (const child of children) if (child !== null) element.append(child);
  return element;
}

export function pair(name, value) {
  return make("div.pair", make("span", name), make("span", value));
}

export function heading(text, ...more) {
  return make("h2", text, ...more);
}

/** The context of a canvas that is as large as the page shows it, cleared; null while it is hidden. */
export function prepared(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!width) return null;
  const size = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

const palettes = new Map(); // asking for a style makes the browser work out all styles

/** The colour of a name, as the style sheet has it for light or dark. */
export function color(name) {
  const root = document.documentElement;
  const key = `${root.dataset.theme} ${name}`;
  if (!palettes.has(key)) palettes.set(key, getComputedStyle(root).getPropertyValue(`--${name}`).trim());
  return palettes.get(key);
}
