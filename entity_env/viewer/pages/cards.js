// Entities that have no place: as cards where there is little to say, else as tables.

import { heading, make, pair } from "./dom.js";
import { signElement } from "./paint.js";

export class Cards {
  constructor(element) {
    this.element = element;
    this.onClick = () => {};
    element.addEventListener("click", (event) => {
      const own = event.target.closest("[data-index]");
      if (own) this.onClick(Number(own.dataset.index));
    });
  }

  /** Show a frame; `marks` says which entities can be chosen, and which were. */
  show(frame, marks) {
    const lists = frame.given.scene?.lists ?? [];
    const parts = lists.filter((own) => this.matters(own, marks)).map((own) => {
      const body = own.are_cards ? this.cards(frame, own, marks) : this.table(frame, own, marks);
      const count = make("span.progress", own.sign.value);
      return make("div.group", heading(signElement(own.sign), own.sign.meaning, count), body);
    });
    this.element.replaceChildren(...parts);
    document.body.classList.toggle("has-cards", parts.length > 0);
  }

  /** Something without features is worth a card where it can be chosen, or was. */
  matters({ header, count, first }, marks) {
    if (header.length) return count > 0;
    return count > 1 || (count === 1 && (marks.choices?.has(first) || marks.chosen.has(first)));
  }

  mark(element, index, marks) {
    element.dataset.index = index;
    element.classList.toggle("can-choose", marks.choices?.has(index) ?? false);
    element.classList.toggle("is-chosen", marks.chosen.has(index) || marks.selected === index);
    return element;
  }

  cards(frame, list, marks) {
    const cards = list.cells.map((cells, row) => {
      const index = list.first + row;
      const card = make("div.entity", make("strong", frame.name(index)));
      card.classList.toggle("is-hidden", list.hidden[row]);
      cells.forEach((text, column) => card.append(pair(list.header[column], text)));
      for (const { action, row: place } of frame.taken.get(index) ?? []) {
        const text = frame.chosenText(action, place);
        if (text) card.append(pair(action.name, make("b", text)));
      }
      return this.mark(card, index, marks);
    });
    return make("div.grid", ...cards);
  }

  table(frame, list, marks) {
    const names = list.header.map((name) => make("th", name));
    const rows = list.cells.map((cells, row) => {
      const index = list.first + row;
      const parts = cells.map((text) => make("td", text));
      return this.mark(make("tr", make("td", frame.name(index)), ...parts), index, marks);
    });
    const head = make("thead", make("tr", make("th", ""), ...names));
    const rest = list.count - list.cells.length;
    const more = rest > 0 ? make("div.more", `and ${rest.toLocaleString("en")} more`) : null;
    return make("div.scroll", make("table", head, make("tbody", ...rows)), more);
  }
}
