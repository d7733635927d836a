// What the server is asked, and frames as the other files read them.

const TYPES = { f4: Float32Array, i4: Int32Array, u1: Uint8Array };

/** What the server answers, as in messages.py: JSON in which arrays of numbers have a `shape`. */
async function answer(response) {
  const bytes = await response.arrayBuffer();
  const first = 4 + new DataView(bytes).getUint32(0, true);
  const text = new TextDecoder().decode(new Uint8Array(bytes, 4, first - 4));
  const given = JSON.parse(text, (_, own) => {
    const Type = TYPES[own?.$array];
    if (!Type) return own;
    const count = own.shape.reduce((a, b) => a * b, 1);
    return Object.assign(new Type(bytes, first + own.at, count), { shape: own.shape });
  });
  if (!response.ok) throw new Error(given.error);
  return given;
}

export function ask(name, query = {}) {
  const text = new URLSearchParams(query).toString();
  return fetch(`api/${name}?${text}`).then(answer);
}

export function tell(name, given = {}) {
  const headers = { "Content-Type": "application/json" };
  return fetch(`api/${name}`, { method: "POST", headers, body: JSON.stringify(given) }).then(answer);
}

export function short(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return String(value);
  if (Math.abs(value) < 1e-3) return value.toExponential(Math.min(digits, 3) - 1);
  return String(Number(value.toPrecision(digits)));
}

export function percent(prob) {
  if (prob > 0 && prob < 0.01) return "<1%";
  return prob > 0.99 && prob < 1 ? ">99%" : `${Math.round(100 * prob)}%`;
}

export function featureText(feature, value) {
  if (feature.names && feature.names.length) return feature.names[value] ?? short(value);
  if (feature.flags) {
    const on = [];
    for (let i = 0; i < feature.flags; i++) if ((value >> i) & 1) on.push(i);
    return on.length ? on.join(" ") : "none";
  }
  return short(value);
}

/** The entities of one type: `at(row, column)` is a feature. */
class Group {
  constructor(type, order, given) {
    this.type = type;
    this.order = order;
    this.first = given.first;
    this.values = given.features;
    [this.count, this.width] = this.values.shape;
    this.ids = given.ids ?? null;
    this.visible = given.visible ?? null;
  }

  at(row, column) {
    return this.values[row * this.width + column];
  }

  get isPlaced() {
    return this.type.is_placed;
  }
}

/** One action in a frame: who takes it, what they can choose, and what was chosen. */
class Action {
  constructor(name, space, given) {
    this.name = name;
    this.space = space;
    for (const part of ["actors", "actees", "mask", "chosen", "probs", "mean", "std"]) {
      this[part] = given[part] ?? null;
    }
    this.width = this.actees ? this.actees.length : space.labels ? space.labels.length : 0;
  }

  /** What an actor, given by its place, chose: labels, entities or numbers. */
  chosenBy(row) {
    if (!this.chosen) return null;
    const each = this.chosen.length / this.actors.length;
    const own = Array.from(this.chosen.subarray(row * each, (row + 1) * each));
    return this.space.selects ? own.filter((index) => index >= 0) : own;
  }

  allows(row, place) {
    return !this.mask || this.mask[row * this.width + place] === 1;
  }
}

export class Frame {
  constructor(given, about) {
    this.given = given;
    this.step = given.step;
    this.groups = [];
    about.types.forEach((type, order) => {
      const own = given.entities[type.name];
      if (own) this.groups.push(new Group(type, order, own));
    });
    this.count = this.groups.reduce((sum, group) => sum + group.count, 0);
    this.actions = Object.entries(given.actions).map(
      ([name, own]) => new Action(name, about.actions[name], own),
    );
    this.taken = new Map(); // from the index of an actor to its actions, each with its place
    for (const action of this.actions) {
      action.actors.forEach((actor, row) => {
        if (!this.taken.has(actor)) this.taken.set(actor, []);
        this.taken.get(actor).push({ action, row });
      });
    }
  }

  /** The type and the row of an entity, null for the player as a whole. */
  find(index) {
    const group = this.groups.find((own) => index >= own.first && index < own.first + own.count);
    return group ? { group, row: index - group.first } : null;
  }

  name(index) {
    const found = this.find(index);
    if (!found) return "you";
    const { group, row } = found;
    if (!group.ids) return group.count > 1 ? `${group.type.name} #${row}` : group.type.name;
    const id = group.ids[row];
    const starts = id.toLowerCase().startsWith(group.type.name.toLowerCase());
    return starts ? id : `${group.type.name} ${id}`;
  }

  /** The name of an entity and the feature that is written on it. */
  title(index) {
    const { group, row } = this.find(index);
    const { label, features } = group.type;
    if (label === null) return this.name(index);
    return `${this.name(index)} · ${featureText(features[label], group.at(row, label))}`;
  }

  /** The choices of an actor; `index` is what the server receives. */
  options(action, row) {
    const chosen = action.chosenBy(row);
    const one = (place, index, label) => ({
      index,
      label,
      allowed: action.allows(row, place),
      prob: action.probs ? action.probs[row * action.width + place] : null,
      chosen: chosen !== null && chosen.includes(index),
    });
    if (action.actees) {
      return Array.from(action.actees, (index, place) => one(place, index, this.title(index)));
    }
    return (action.space.labels ?? []).map((label, place) => one(place, place, label));
  }

  chosenText(action, row) {
    const chosen = action.chosenBy(row);
    if (chosen === null) return "";
    if (action.space.selects) return chosen.map((index) => this.name(index)).join(", ") || "nobody";
    if (action.space.labels) return chosen.map((index) => action.space.labels[index]).join(", ");
    return chosen.map((value) => short(value, 3)).join(", ");
  }
}
