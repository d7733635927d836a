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

export function sign(type) {
  const element = make(`span.sign.${type.shape}`);
  element.style.background = type.color;
  return element;
}

export function heading(text, ...more) {
  return make("h2", text, ...more);
}
