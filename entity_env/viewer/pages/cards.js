// Entities that have no place: as cards where there is little to say, else as tables.

import { featureText, short } from "./api.js";
import { heading, make, pair, sign } from "./dom.js";
import { PALETTE } from "./stage.js";

const MOST_CARDS = 24;
const MOST_PAIRS = 5; // features of a card
const MOST_ROWS = 100;
const MOST_MAPS = 6;

export class Cards {
  constructor(element) {
    this.element = element;
    this.onClick = () => {};
    element.addEventListener("click", (event) => {
      const own = event.target.closest("[data-index]");
      if (own) this.onClick(Number(own.dataset.index));
    });
  }

  /** Show a frame; `marks` says which entities can be chosen, and which was hovered. */
  show(frame, marks) {
    const groups = frame.groups.filter((group) => !group.isPlaced && this.matters(group, marks));
    const parts = groups.map((group) => {
      if (group.type.grid) return this.maps(group);
      const few = group.count <= MOST_CARDS && group.width <= MOST_PAIRS;
      const body = few ? this.cards(frame, group, marks) : this.table(frame, group, marks);
      const count = make("span.progress", group.count.toLocaleString("en"));
      return make("div.group", heading(sign(group.type), group.type.name, count), body);
    });
    this.element.replaceChildren(...parts);
    document.body.classList.toggle("has-cards", parts.length > 0);
  }

  /** Something without features is worth a card where it can be chosen, or was. */
  matters(group, marks) {
    if (group.type.features.length) return group.count > 0;
    const own = Array.from({ length: group.count }, (_, row) => group.first + row);
    return own.length > 1 || own.some((index) => marks.choices?.has(index) || marks.chosen.has(index));
  }

  mark(element, frame, index, marks) {
    element.dataset.index = index;
    element.classList.toggle("can-choose", marks.choices?.has(index) ?? false);
    element.classList.toggle("is-chosen", marks.chosen.has(index) || marks.selected === index);
    return element;
  }

  /** A map for each feature of the cells of a grid. */
  maps(group) {
    const [height, width] = group.type.grid;
    const side = Math.max(2, Math.min(14, Math.floor(230 / width)));
    const maps = group.type.features.slice(0, MOST_MAPS).map((feature, column) => {
      const canvas = make("canvas.map");
      canvas.width = width * side;
      canvas.height = height * side;
      const c = canvas.getContext("2d");
      let [low, high] = [Infinity, -Infinity];
      for (let row = 0; row < group.count; row++) {
        low = Math.min(low, group.at(row, column));
        high = Math.max(high, group.at(row, column));
      }
      for (let row = 0; row < group.count; row++) {
        const value = group.at(row, column);
        c.fillStyle = feature.n
          ? PALETTE[value % PALETTE.length]
          : `rgb(36 87 214 / ${Math.round((100 * (value - low)) / (high - low || 1))}%)`;
        c.fillRect((row % width) * side, Math.floor(row / width) * side, side - 0.5, side - 0.5);
      }
      canvas.title = feature.names?.length ? "" : `from ${short(low)} to ${short(high)}`;
      const names = (feature.names ?? []).map((name, value) => {
        const dot = make("span.sign.square");
        dot.style.background = PALETTE[value % PALETTE.length];
        return make("span.named", dot, name);
      });
      return make("figure", make("figcaption", feature.name), canvas, make("div.names", ...names));
    });
    const title = heading(sign(group.type), group.type.name, make("span.progress", `${height} × ${width}`));
    return make("div.group", title, make("div.maps", ...maps));
  }

  cards(frame, group, marks) {
    const grid = make("div.grid");
    for (let row = 0; row < group.count; row++) {
      const index = group.first + row;
      const card = make("div.entity", make("strong", frame.name(index)));
      card.style.setProperty("--color", group.type.color);
      card.classList.toggle("is-hidden", Boolean(group.visible && !group.visible[row]));
      group.type.features.forEach((feature, column) => {
        card.append(pair(feature.name, featureText(feature, group.at(row, column))));
      });
      for (const { action, row: place } of frame.taken.get(index) ?? []) {
        const text = frame.chosenText(action, place);
        if (text) card.append(pair(action.name, make("b", text)));
      }
      grid.append(this.mark(card, frame, index, marks));
    }
    return grid;
  }

  table(frame, group, marks) {
    const names = group.type.features.map((feature) => make("th", feature.name));
    const body = make("tbody");
    for (let row = 0; row < Math.min(group.count, MOST_ROWS); row++) {
      const index = group.first + row;
      const cells = group.type.features.map((feature, column) =>
        make("td", featureText(feature, group.at(row, column))),
      );
      body.append(this.mark(make("tr", make("td", frame.name(index)), ...cells), frame, index, marks));
    }
    const table = make("table", make("thead", make("tr", make("th", ""), ...names)), body);
    const rest = group.count - MOST_ROWS;
    const more = rest > 0 ? make("div.more", `and ${rest.toLocaleString("en")} more`) : null;
    return make("div.scroll", table, more);
  }
}
