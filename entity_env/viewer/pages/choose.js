// A person's turn: one question for each actor, answered by a click.

import { $, heading, make } from "./dom.js";
import { optionRow } from "./panel.js";

const MOST_BUTTONS = 60;

export class Chooser {
  constructor(onDone, onChange) {
    this.onDone = onDone;
    this.onChange = onChange;
    this.clear();
  }

  clear() {
    this.frame = null;
    this.questions = [];
    this.answers = [];
    $("choose").hidden = true;
  }

  get isAsking() {
    return this.frame !== null;
  }

  get question() {
    return this.questions[this.answers.length] ?? null;
  }

  /** The entities that answer the question. */
  get entities() {
    const question = this.question;
    if (!question || !question.action.actees) return null;
    const own = question.options.filter((option) => option.allowed);
    return new Set(own.map((option) => option.index));
  }

  get marked() {
    return new Set(this.picked);
  }

  ask(frame, seat, name) {
    this.frame = frame;
    this.seat = seat;
    this.seatName = name;
    this.answers = [];
    this.picked = [];
    this.questions = [];
    for (const action of frame.actions) {
      action.actors.forEach((actor, row) => {
        this.questions.push({ action, row, actor, options: frame.options(action, row) });
      });
    }
    if (!this.questions.length) this.finish();
    else this.draw();
  }

  finish() {
    const chosen = {};
    this.questions.forEach(({ action }, i) => {
      (chosen[action.name] ??= []).push(this.answers[i]);
    });
    const seat = this.seat;
    this.clear();
    this.onDone(seat, chosen);
  }

  answer(value) {
    this.answers.push(value);
    this.picked = [];
    if (this.question) this.draw();
    else this.finish();
  }

  pick(option) {
    if (!this.question || !option?.allowed) return;
    const most = this.question.action.space.at_most;
    if (!most) {
      this.answer(option.index);
      return;
    }
    const place = this.picked.indexOf(option.index);
    if (place >= 0) this.picked.splice(place, 1);
    else if (this.picked.length < most) this.picked.push(option.index);
    this.draw();
  }

  /** A click on an entity: the answer, or the next actor that has not chosen yet. */
  click(index) {
    if (!this.question) return false;
    if (!this.entities?.has(index)) return false;
    this.pick(this.question.options.find((option) => option.index === index));
    return true;
  }

  /** The keys of the options that are allowed: the numbers in their names, else their places. */
  get keys() {
    const own = this.question?.options.filter((option) => option.allowed) ?? [];
    const numbers = own.map((option) => /(?:^|\D)(\d)$/.exec(option.label)?.[1]);
    const areNumbers = numbers.every(Boolean) && new Set(numbers).size === own.length;
    return new Map(own.slice(0, areNumbers ? 10 : 9).map((option, i) => [areNumbers ? numbers[i] : `${i + 1}`, option]));
  }

  key(text) {
    const option = this.keys.get(text);
    if (option) this.pick(option);
  }

  /** The most likely choice that an agent proposes, or any that is allowed. */
  proposed(question) {
    const own = question.options.filter((option) => option.allowed);
    const { space } = question.action;
    if (!question.action.actees && !space.labels) return this.middle(question);
    const best = own.reduce((a, b) => ((b.prob ?? 0) > (a.prob ?? 0) ? b : a));
    const any = best.prob === null ? own[Math.floor(Math.random() * own.length)] : best;
    if (!space.at_most) return any.index;
    return [any.index, ...Array(space.at_most - 1).fill(-1)];
  }

  middle({ action }) {
    return action.space.low.map((low, i) => {
      const high = action.space.high[i];
      return low !== null && high !== null ? (low + high) / 2 : low ?? high ?? 0;
    });
  }

  draw() {
    const box = $("choose");
    box.hidden = false;
    const { action, options, actor } = this.question;
    const count = this.questions.length;
    const place = count > 1 ? `${this.answers.length + 1} of ${count}` : "";
    const who = this.seatName ? `Your turn, ${this.seatName}` : "Your turn";
    const parts = [heading(who, make("span.progress", place))];
    const actorName = this.frame.name(actor);
    parts.push(make("div", make("strong", actorName === "you" ? action.name : `${actorName}: ${action.name}`)));
    if (action.actees || action.space.labels) {
      const shown = options.filter((option) => option.allowed || options.length <= 12);
      const keys = new Map(Array.from(this.keys, ([key, option]) => [option, key]));
      for (const option of shown.slice(0, MOST_BUTTONS)) {
        const chosen = this.picked.includes(option.index);
        const row = optionRow({ ...option, chosen }, "button");
        if (keys.has(option)) row.title = `key ${keys.get(option)}`;
        row.disabled = !option.allowed;
        row.addEventListener("click", () => this.pick(option));
        parts.push(row);
      }
      if (action.actees) parts.push(make("div.more", "or click on it"));
    }
    if (action.space.at_most) {
      const done = make("button.main", `choose these ${this.picked.length}`);
      done.addEventListener("click", () => {
        this.answer([...this.picked, ...Array(action.space.at_most - this.picked.length).fill(-1)]);
      });
      parts.push(done);
    }
    if (action.space.low) parts.push(this.numbers());
    const rest = make("button", count > 1 ? "decide the rest for me" : "decide for me");
    rest.addEventListener("click", () => {
      while (this.question) {
        const own = this.proposed(this.question);
        if (this.answers.length + 1 === count) {
          this.answer(own);
          return;
        }
        this.answers.push(own);
      }
    });
    parts.push(make("div", rest));
    box.replaceChildren(...parts);
    this.onChange();
  }

  numbers() {
    const { action } = this.question;
    const middle = this.middle(this.question);
    const fields = middle.map((value, i) => {
      const field = make("input");
      field.type = "number";
      field.step = "any";
      if (action.space.low[i] !== null) field.min = action.space.low[i];
      if (action.space.high[i] !== null) field.max = action.space.high[i];
      field.value = value;
      return field;
    });
    const done = make("button.main", "set");
    done.addEventListener("click", () => this.answer(fields.map((field) => Number(field.value))));
    return make("div", ...fields, done);
  }
}
