// The plane: entities where they are, lines to what is selected, words beside who acts.

import { featureText, short } from "./api.js";
import { color, prepared } from "./dom.js";

const MOST_WORDS = 80; // beside entities: more could not be read
const MOST_LABELS = 600;
const MOST_SPREAD = 3000; // entities, up to which those of one place are drawn beside each other
const MOST_NEAR = 300; // entities, up to which the gaps between them are looked at
const RING = 6;
const MARGIN = 34;

const nice = (length, parts) => {
  const rough = (length || 1) / parts;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => rough <= n * 1.0000001);
};

/** The distance to the nearest other place that three quarters of all entities keep. */
const gap = (frame) => {
  const points = [];
  for (const group of frame.groups) {
    const { x, y } = group.type;
    if (!group.isPlaced || y === null) continue;
    for (let row = 0; row < group.count; row++) points.push([group.at(row, x), group.at(row, y)]);
  }
  const nearest = points.map(([x, y]) => points.reduce((found, [a, b]) => {
    const distance = Math.hypot(a - x, b - y);
    return distance > 0 && distance < found ? distance : found;
  }, Infinity));
  return nearest.sort((a, b) => a - b)[Math.floor(nearest.length / 4)] ?? Infinity;
};

const isDark = (color) => {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b < 150;
};

/** The first letters of a name, as many of three as tell it from the other names. */
const initials = (names, name) => {
  const clashes = (length) => names.some((own) => own !== name && own.slice(0, length) === name.slice(0, length));
  const length = [1, 2].find((own) => !clashes(own)) ?? 3;
  return name.slice(0, 1).toUpperCase() + name.slice(1, length);
};

// Okabe and Ito (2008): told apart with any kind of colour vision.
export const PALETTE = [
  "#545a66", "#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#d6c828",
];

export const valueColor = (type, value) =>
  type.colors.length ? type.colors[value] ?? "" : PALETTE[Math.abs(value) % PALETTE.length];

export class Stage {
  constructor(canvas, about) {
    this.canvas = canvas;
    this.about = about;
    this.frame = null;
    this.extent = null;
    this.isGrid = true;
    this.most = 1;
    this.between = Infinity; // the gap that most entities have around them
    this.largest = 0; // of the features that sizes are in proportion to
    this.fullBars = new Map();
    this.zoom = 1;
    this.shift = [0, 0];
    this.hovered = null;
    this.selected = null;
    this.actor = null; // of the question that a person answers
    this.choices = null; // entities that can be chosen
    this.overlay = null; // { points, kind }: where those who act have been
    this.spots = new Map();
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  get isFitted() {
    return this.zoom === 1 && this.shift[0] === 0 && this.shift[1] === 0;
  }

  /** True if the game has cells of its own, which need no lines and numbers. */
  get isBoard() {
    return this.about.types.some((type) => type.tile || type.stack.length);
  }

  fit() {
    this.zoom = 1;
    this.shift = [0, 0];
    this.draw();
  }

  show(frame) {
    this.frame = frame;
    const nothing = [Infinity, -Infinity, Infinity, -Infinity];
    let [left, right, low, high] = this.extent ?? this.about.bounds ?? nothing;
    let count = 0;
    for (const group of frame.groups) {
      if (!group.isPlaced) continue;
      const { x, y, stack, size } = group.type;
      const tall = Math.max(stack.length - 1, 0);
      count += group.count * (1 + tall);
      for (let row = 0; row < group.count; row++) {
        const a = group.at(row, x);
        const b = y === null ? 0 : group.at(row, y);
        if (size !== null) this.largest = Math.max(this.largest, group.at(row, size));
        if (group.type.bar !== null) {
          const most = this.fullBars.get(group.type.name) ?? 0;
          this.fullBars.set(group.type.name, Math.max(most, group.at(row, group.type.bar)));
        }
        left = Math.min(left, a);
        right = Math.max(right, a);
        low = Math.min(low, b);
        high = Math.max(high, b + tall);
        if (this.isGrid && (a % 1 !== 0 || b % 1 !== 0)) this.isGrid = false;
      }
    }
    this.most = Math.max(this.most, count);
    if (!this.isGrid && count <= MOST_NEAR) this.between = Math.min(this.between, gap(frame));
    if (count) this.extent = [left, right, low, high];
    this.draw();
  }

  /** The scale and the middle of the plane in pixels, and its area. */
  layout() {
    const [width, height] = this.size;
    let [left, right, low, high] = this.extent ?? [0, 1, 0, 1];
    const round = this.isGrid ? 1 : nice(Math.max(right - left, high - low), 8);
    left = Math.floor(left / round) * round;
    right = Math.ceil(right / round) * round;
    low = Math.floor(low / round) * round;
    high = Math.ceil(high / round) * round;
    const isBoard = this.isBoard;
    const room = isBoard ? 1.16 : this.isGrid ? 1 : 0;
    const inner = isBoard ? 14 : this.isGrid ? MARGIN : MARGIN + 16;
    const scale = Math.min(
      (width - 2 * inner) / (right - left + room || 1),
      (height - 2 * inner) / (high - low + room || 1),
    );
    this.scale = scale * this.zoom;
    this.middle = [(left + right) / 2, (low + high) / 2];
    this.centre = [width / 2 + this.shift[0], height / 2 + this.shift[1]];
    this.turn = this.about.y_axis === "up" ? -1 : 1;
    this.bounds = [left, right, low, high];
    const side = Math.min(width, height);
    const even = Math.min(side / 20, (0.3 * side) / Math.sqrt(this.most));
    const cell = this.about.bounds ? 0.42 * scale : 0; // games that know their size count in cells
    const free = Math.max(Math.min(even, 0.62 * this.between * scale), Math.min(even, 6.5), cell);
    const radius = this.isGrid ? Math.min(even * 1.35, 0.4 * scale) : free;
    this.radius = Math.max(1.5, radius * (this.isGrid ? this.zoom : Math.sqrt(this.zoom)));
  }

  pixel(x, y) {
    return [
      this.centre[0] + (x - this.middle[0]) * this.scale,
      this.centre[1] + (y - this.middle[1]) * this.scale * this.turn,
    ];
  }

  /** Where an entity is, in pixels of the page; null where it has no place. */
  where(index) {
    const spot = this.spots.get(index);
    if (!spot) return null;
    const box = this.canvas.getBoundingClientRect();
    return [box.left + spot.x, box.top + spot.y];
  }

  draw() {
    const ready = this.frame && prepared(this.canvas);
    if (!ready) return;
    const c = ready.context;
    this.size = [ready.width, ready.height];
    this.layout();
    const names = ["ground", "grid", "ink", "soft", "card", "accent"];
    const colors = Object.fromEntries(names.map((name) => [name, color(name)]));
    this.drawGround(c, colors);
    this.place();
    for (const group of this.placed()) this.drawTiles(c, colors, group);
    this.drawOverlay(c);
    this.drawLines(c, colors);
    for (const group of this.placed()) this.drawGroup(c, colors, group);
    this.drawMarks(c, colors);
    this.drawWords(c, colors);
    this.canvas.dataset.step = this.frame.step;
    this.canvas.dataset.drawn = this.spots.size;
  }

  drawGround(c, colors) {
    if (this.isBoard) return;
    const [left, right, low, high] = this.bounds;
    const half = this.isGrid ? 0.5 : 0;
    const [x0, y0] = this.pixel(left - half, low - half);
    const [x1, y1] = this.pixel(right + half, high + half);
    const inset = this.isGrid ? 0 : this.radius + 6;
    const box = [
      Math.min(x0, x1) - inset,
      Math.min(y0, y1) - inset,
      Math.abs(x1 - x0) + 2 * inset,
      Math.abs(y1 - y0) + 2 * inset,
    ];
    c.fillStyle = colors.ground;
    c.beginPath();
    c.roundRect(...box, 8);
    c.fill();
    c.strokeStyle = colors.grid;
    c.lineWidth = 1;
    c.stroke();
    const step = Math.max(
      nice(Math.max(right - left, high - low) / this.zoom, 8),
      this.isGrid ? 1 : 0,
    );
    c.beginPath();
    c.fillStyle = colors.soft;
    c.font = "11px system-ui, sans-serif";
    const between = this.isGrid && this.scale > 9;
    const lines = (from, to, axis) => {
      const unit = between ? 1 : step;
      for (let n = Math.ceil((from - half) / unit); n * unit <= to + half; n++) {
        const value = n * unit + (between ? 0.5 : 0);
        if (value > to + half - 1e-9) continue;
        const [x, y] = this.pixel(axis ? 0 : value, axis ? value : 0);
        if (axis) {
          c.moveTo(box[0], y);
          c.lineTo(box[0] + box[2], y);
        } else {
          c.moveTo(x, box[1]);
          c.lineTo(x, box[1] + box[3]);
        }
      }
      for (let n = Math.ceil(from / step); n * step <= to + 1e-9; n++) {
        const value = n * step;
        const [x, y] = this.pixel(axis ? 0 : value, axis ? value : 0);
        c.textAlign = axis ? "right" : "center";
        c.textBaseline = axis ? "middle" : "top";
        if (axis) c.fillText(short(value), Math.max(box[0] - 6, 26), y);
        else c.fillText(short(value), x, Math.min(box[1] + box[3] + 6, this.size[1] - 14));
      }
    };
    lines(left, right, 0);
    lines(low, high, 1);
    c.stroke();
  }

  /** Find a spot for each entity; those of one place stand in a ring around it. */
  place() {
    this.spots = new Map();
    const spread = this.frame.count <= MOST_SPREAD;
    const places = new Map();
    for (const group of this.frame.groups) {
      if (!group.isPlaced) continue;
      const { x, y, stack, tile } = group.type;
      for (let row = 0; row < group.count; row++) {
        const low = y === null ? 0 : group.at(row, y);
        const [px, py] = this.pixel(group.at(row, x), low + Math.max(stack.length - 1, 0) / 2);
        const spot = { x: px, y: py, radius: this.sized(group, row), group, row, shown: true };
        if (tile || stack.length) spot.box = [this.scale / 2, (this.scale * Math.max(stack.length, 1)) / 2];
        this.spots.set(group.first + row, spot);
        if (!spread || spot.box) continue;
        const key = Math.round(px) * 65536 + Math.round(py);
        if (places.has(key)) places.get(key).push(spot);
        else places.set(key, [spot]);
      }
    }
    this.crowds = [];
    for (const own of places.values()) {
      if (own.length < 2) continue;
      const ring = Math.min(own.length, RING);
      const radius = this.radius * Math.min(0.62, 0.75 * Math.sin(Math.PI / ring));
      const { x, y } = own[0];
      own.forEach((spot, i) => {
        const angle = Math.PI + (2 * Math.PI * i) / ring;
        spot.x = x + 0.72 * this.radius * Math.cos(angle);
        spot.y = y + 0.72 * this.radius * Math.sin(angle);
        spot.radius = radius;
        spot.shown = i < RING;
      });
      if (own.length > RING) this.crowds.push({ x, y, count: own.length });
    }
  }

  outline(c, shape, x, y, r) {
    if (r < 3) {
      c.rect(x - r, y - r, 2 * r, 2 * r); // of a few pixels, and far quicker than a circle
    } else if (shape === "square") {
      c.roundRect(x - 0.86 * r, y - 0.86 * r, 1.72 * r, 1.72 * r, 0.22 * r);
    } else if (shape === "diamond") {
      c.moveTo(x, y - 1.15 * r);
      c.lineTo(x + 1.15 * r, y);
      c.lineTo(x, y + 1.15 * r);
      c.lineTo(x - 1.15 * r, y);
      c.closePath();
    } else {
      c.moveTo(x + r, y);
      c.arc(x, y, r, 0, 2 * Math.PI);
    }
  }

  placed() {
    return this.frame.groups.filter((group) => group.isPlaced);
  }

  sized(group, row) {
    const { size, features } = group.type;
    if (size === null) return this.radius;
    const value = group.at(row, size);
    const part = features[size].n ? (value + 1) / features[size].n : value / (this.largest || 1);
    return this.radius * (0.4 + 0.75 * Math.min(1, Math.max(0, part)));
  }

  colorOf(type, group, row) {
    if (type.value_color === null) return type.color;
    return valueColor(type, group.at(row, type.value_color));
  }

  hexagon(c, spot, part) {
    const side = (this.scale / Math.sqrt(3)) * part;
    for (let k = 0; k < 6; k++) {
      const angle = Math.PI / 6 + (k * Math.PI) / 3;
      c.lineTo(spot.x + side * Math.cos(angle), spot.y + side * Math.sin(angle));
    }
    c.closePath();
  }

  /** Cells that are the stronger the more often somebody was there, or the higher the value. */
  drawOverlay(c) {
    if (!this.overlay) return;
    const { points, kind } = this.overlay;
    const [left, right, low, high] = this.bounds;
    const cell = this.isGrid ? 1 : Math.max(right - left, high - low) / 36 || 1;
    const sums = new Map();
    for (let i = 0; i < points.length; i += 3) {
      const weight = kind === "value" ? points[i + 2] : 1;
      if (!Number.isFinite(weight)) continue;
      const key = `${Math.round(points[i] / cell)} ${Math.round(points[i + 1] / cell)}`;
      const [sum, count] = sums.get(key) ?? [0, 0];
      sums.set(key, [sum + weight, count + 1]);
    }
    const shown = [...sums].map(([key, [sum, count]]) => [key, kind === "value" ? sum / count : sum]);
    const least = kind === "value" ? Math.min(...shown.map(([, own]) => own)) : 0;
    const most = Math.max(...shown.map(([, own]) => own));
    for (const [key, own] of shown) {
      const [column, row] = key.split(" ").map(Number);
      const [x, y] = this.pixel(column * cell, row * cell);
      const part = (own - least) / (most - least || 1);
      c.fillStyle = kind === "value" ? `hsl(${10 + 130 * part} 75% 50%)` : "#e0701b";
      c.globalAlpha = kind === "value" ? 0.4 : 0.08 + 0.55 * part;
      const side = cell * this.scale;
      c.fillRect(x - side / 2, y - side / 2, side, side);
    }
    c.globalAlpha = 1;
  }

  /** Cells of a board, and columns of spaces with discs in them. */
  drawTiles(c, colors, group) {
    const { type, first } = group;
    if (!type.tile && !type.stack.length) return;
    for (let row = 0; row < group.count; row++) {
      const spot = this.spots.get(first + row);
      const [wide, tall] = spot.box;
      c.beginPath();
      if (type.tile === "hexagon") {
        this.hexagon(c, spot, 0.97);
      } else {
        c.roundRect(spot.x - wide * 0.96, spot.y - tall + 0.04 * wide, wide * 1.92, 2 * tall - 0.08 * wide, 0.18 * wide);
      }
      const ground = type.ground === null ? "" : type.grounds[group.at(row, type.ground)];
      c.fillStyle = type.stack.length ? "#2b5fb8" : ground || colors.grid;
      c.fill();
      type.stack.forEach((column, k) => {
        const y = spot.y + this.turn * (k - (type.stack.length - 1) / 2) * this.scale;
        const disc = valueColor(type, group.at(row, column));
        c.beginPath();
        c.arc(spot.x, y, 0.78 * wide, 0, 2 * Math.PI);
        c.fillStyle = disc || colors.ground;
        c.fill();
        if (!disc) return;
        c.beginPath();
        c.arc(spot.x, y, 0.56 * wide, 0, 2 * Math.PI);
        c.strokeStyle = "rgb(255 255 255 / 45%)";
        c.lineWidth = 0.07 * wide;
        c.stroke();
      });
    }
  }

  drawGroup(c, colors, group) {
    const { type, first } = group;
    if ((type.tile && type.value_color === null) || type.stack.length) return;
    this.drawRanges(c, group);
    const looks = new Map(); // entities of one look are one path
    const isOneLook = type.owner === null && type.value_color === null && !group.visible;
    if (isOneLook) looks.set("", { owner: -1, hidden: false, color: type.color, spots: [] });
    for (let row = 0; row < group.count; row++) {
      const spot = this.spots.get(first + row);
      if (!spot.shown) continue;
      if (isOneLook) {
        looks.get("").spots.push(spot);
        continue;
      }
      const hidden = Boolean(group.visible && !group.visible[row]);
      const owner = type.owner === null ? -1 : group.at(row, type.owner);
      const color = this.colorOf(type, group, row);
      if (!color) continue;
      const key = `${owner} ${hidden} ${color}`;
      if (!looks.has(key)) looks.set(key, { owner, hidden, color, spots: [] });
      looks.get(key).spots.push(spot);
    }
    for (const { owner, hidden, color, spots } of looks.values()) {
      c.beginPath();
      for (const spot of spots) this.outline(c, type.shape, spot.x, spot.y, spot.radius);
      c.fillStyle = hidden ? colors.ground : color;
      c.fill();
      if (this.radius < 3 && !hidden && owner < 0) continue;
      const edge = owner < 0 ? colors.card : this.about.owners[owner] || colors.ink;
      c.strokeStyle = hidden ? color : edge;
      c.lineWidth = owner >= 0 ? Math.max(1.5, 0.16 * this.radius) : Math.max(1, 0.08 * this.radius);
      c.stroke();
    }
    this.drawBars(c, colors, group);
    if (type.heading !== null) {
      c.beginPath();
      for (let row = 0; row < group.count; row++) {
        const spot = this.spots.get(first + row);
        const angle = group.at(row, type.heading);
        const length = 1.5 * spot.radius;
        c.moveTo(spot.x, spot.y);
        c.lineTo(spot.x + length * Math.cos(angle), spot.y + this.turn * length * Math.sin(angle));
      }
      c.strokeStyle = colors.ink;
      c.lineWidth = 2;
      c.stroke();
    }
    if (this.frame.count > MOST_LABELS || type.stack.length) return;
    c.textAlign = "center";
    c.textBaseline = "middle";
    for (let row = 0; row < group.count; row++) {
      const spot = this.spots.get(first + row);
      if (!spot.shown || spot.radius < 7) continue;
      const hidden = group.visible && !group.visible[row];
      const size = spot.radius * (this.label(group, row).length < 3 ? 0.95 : 0.75);
      const color = this.colorOf(type, group, row);
      if (!color) continue;
      c.font = `600 ${size}px system-ui, sans-serif`;
      c.fillStyle = hidden ? color : isDark(color) ? "#ffffff" : "#1d2738";
      c.fillText(this.label(group, row), spot.x, spot.y + 0.05 * spot.radius);
    }
  }

  label(group, row) {
    const { label, features, name } = group.type;
    if (label !== null) {
      const text = featureText(features[label], group.at(row, label));
      return features[label].names?.length ? initials(features[label].names, text) : text.slice(0, 3);
    }
    const initial = name.slice(0, 1).toUpperCase();
    if (!group.ids) return initial;
    const number = /\d+$/.exec(group.ids[row]);
    return number && number[0].length < 3 ? initial + number[0] : initial;
  }

  drawRanges(c, group) {
    const { range, circle, color } = group.type;
    if (range === null && circle === null) return;
    c.globalAlpha = 0.1;
    c.fillStyle = color;
    for (let row = 0; row < group.count; row++) {
      const spot = this.spots.get(group.first + row);
      c.beginPath();
      c.arc(spot.x, spot.y, (range === null ? circle : group.at(row, range)) * this.scale, 0, 2 * Math.PI);
      c.fill();
    }
    c.globalAlpha = 1;
  }

  /** How much is left of what an entity can have, such as health. */
  drawBars(c, colors, group) {
    const { bar, name } = group.type;
    if (bar === null || this.radius < 5 || this.frame.count > MOST_LABELS) return;
    const full = this.fullBars.get(name) || 1;
    for (let row = 0; row < group.count; row++) {
      const spot = this.spots.get(group.first + row);
      if (!spot.shown) continue;
      const part = Math.min(1, Math.max(0, group.at(row, bar) / full));
      const [wide, x, y] = [1.7 * spot.radius, spot.x - 0.85 * spot.radius, spot.y + spot.radius + 2];
      c.fillStyle = colors.grid;
      c.fillRect(x, y, wide, 3);
      c.fillStyle = part > 0.5 ? "#1d9a6c" : part > 0.25 ? "#e69f00" : "#d0413a";
      c.fillRect(x, y, wide * part, 3);
    }
  }

  /** Lines from actors to what they select; a ring where the actor has no place. */
  drawLines(c, colors) {
    const rings = [];
    for (const action of this.frame.actions) {
      if (!action.space.selects || !action.chosen) continue;
      action.actors.forEach((actor, row) => {
        const from = this.spots.get(actor);
        for (const actee of action.chosenBy(row)) {
          const to = this.spots.get(actee);
          if (!to) continue;
          if (!from || from === to) {
            rings.push(to);
            continue;
          }
          this.drawArrow(c, from, to, from.group.type.color);
        }
      });
    }
    c.strokeStyle = colors.ink;
    c.lineWidth = 2.5;
    for (const spot of rings) {
      c.beginPath();
      if (spot.group.type.tile === "hexagon") {
        this.hexagon(c, spot, 0.95);
      } else if (spot.box) {
        const [wide, tall] = spot.box;
        c.roundRect(spot.x - wide, spot.y - tall, 2 * wide, 2 * tall, 0.2 * wide);
      } else {
        c.arc(spot.x, spot.y, 1.15 * spot.radius + 4, 0, 2 * Math.PI);
      }
      c.stroke();
    }
  }

  drawArrow(c, from, to, color) {
    const [dx, dy] = [to.x - from.x, to.y - from.y];
    const length = Math.hypot(dx, dy) || 1;
    const [ux, uy] = [dx / length, dy / length];
    const bend = Math.min(0.14 * length, 26);
    const control = [(from.x + to.x) / 2 - uy * bend, (from.y + to.y) / 2 + ux * bend];
    const [tx, ty] = [to.x - control[0], to.y - control[1]];
    const end = Math.hypot(tx, ty) || 1;
    const away = to.radius + 3;
    const tip = [to.x - (tx / end) * away, to.y - (ty / end) * away];
    c.strokeStyle = c.fillStyle = color;
    c.globalAlpha = 0.85;
    c.lineWidth = 2;
    c.beginPath();
    c.moveTo(from.x, from.y);
    c.quadraticCurveTo(control[0], control[1], tip[0] - (tx / end) * 5, tip[1] - (ty / end) * 5);
    c.stroke();
    c.beginPath();
    c.moveTo(...tip);
    const [hx, hy] = [(tx / end) * 9, (ty / end) * 9];
    c.lineTo(tip[0] - hx + 0.5 * hy, tip[1] - hy - 0.5 * hx);
    c.lineTo(tip[0] - hx - 0.5 * hy, tip[1] - hy + 0.5 * hx);
    c.fill();
    c.globalAlpha = 1;
  }

  drawMarks(c, colors) {
    const ring = (index, color, width, dash, more) => {
      const spot = this.spots.get(index);
      if (!spot) return;
      c.beginPath();
      c.setLineDash(dash);
      if (spot.group.type.tile === "hexagon") {
        this.hexagon(c, spot, 0.9);
      } else if (spot.box) {
        const [wide, tall] = spot.box;
        c.roundRect(spot.x - wide + 1, spot.y - tall + 1, 2 * wide - 2, 2 * tall - 2, 0.2 * wide);
      } else {
        c.arc(spot.x, spot.y, 1.15 * spot.radius + more, 0, 2 * Math.PI);
      }
      c.strokeStyle = color;
      c.lineWidth = width;
      c.stroke();
      c.setLineDash([]);
    };
    for (const index of this.choices ?? []) ring(index, colors.accent, 1.8, [4, 3], 3);
    if (this.actor !== null) ring(this.actor, colors.accent, 3, [], 5);
    if (this.selected !== null) ring(this.selected, colors.ink, 2, [], 4);
    if (this.hovered !== null) ring(this.hovered, colors.ink, 2, [], 2);
    c.font = "600 11px system-ui, sans-serif";
    c.textAlign = "left";
    c.textBaseline = "bottom";
    c.fillStyle = colors.ink;
    for (const { x, y, count } of this.crowds) c.fillText(`×${count}`, x + this.radius, y - this.radius);
  }

  /** What the actors choose, beside them. */
  drawWords(c, colors) {
    const words = [];
    for (const action of this.frame.actions) {
      if (action.space.selects || !action.chosen || action.actors.length > MOST_WORDS) continue;
      action.actors.forEach((actor, row) => {
        const spot = this.spots.get(actor);
        if (spot && spot.shown) words.push([spot, this.frame.chosenText(action, row)]);
      });
    }
    c.font = "600 12px system-ui, sans-serif";
    c.textAlign = "left";
    c.textBaseline = "middle";
    c.lineJoin = "round";
    c.lineWidth = 4;
    for (const [spot, text] of words) {
      const wide = c.measureText(text).width;
      const right = spot.x + spot.radius + 5;
      const x = right + wide > this.size[0] - 4 ? spot.x - spot.radius - 5 - wide : right;
      c.strokeStyle = colors.ground;
      c.strokeText(text, x, spot.y);
      c.fillStyle = colors.ink;
      c.fillText(text, x, spot.y);
    }
  }

  /** The entity at a place of the canvas, or null. */
  pick(x, y) {
    let found = null;
    let nearest = Infinity;
    for (const [index, spot] of this.spots) {
      if (!spot.shown) continue;
      if (spot.box) {
        const [wide, tall] = spot.box;
        const isIn = Math.abs(spot.x - x) < wide && Math.abs(spot.y - y) < tall;
        if (isIn && nearest === Infinity) found = index;
        continue;
      }
      const distance = Math.hypot(spot.x - x, spot.y - y);
      if (distance < Math.max(spot.radius * 1.2, 6) && distance <= nearest) {
        found = index;
        nearest = distance;
      }
    }
    return found;
  }

  zoomAt(x, y, factor) {
    const zoom = Math.min(40, Math.max(1, this.zoom * factor));
    const ratio = zoom / this.zoom;
    const [width, height] = this.size;
    this.shift = zoom === 1 ? [0, 0] : [
      x - width / 2 - (x - width / 2 - this.shift[0]) * ratio,
      y - height / 2 - (y - height / 2 - this.shift[1]) * ratio,
    ];
    this.zoom = zoom;
    this.draw();
  }

  pan(dx, dy) {
    this.shift = [this.shift[0] + dx, this.shift[1] + dy];
    this.draw();
  }
}
