// The scene of a frame on the page: scale, zoom, and what the pointer is at.

import { color, prepared } from "./dom.js";
import { outline, paint } from "./paint.js";

const MARGIN = 10;
const MOST_ZOOM = 40;
const NEAR = 6; // pixels around small entities that count as a hit

export class Stage {
  constructor(canvas) {
    this.canvas = canvas;
    this.frame = null;
    this.scene = null;
    this.zoom = 1;
    this.shift = [0, 0];
    this.hovered = null;
    this.selected = null;
    this.actor = null; // of the question that a person answers
    this.choices = null; // entities that can be chosen
    this.spots = new Map(); // where entities are in the scene
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  get isFitted() {
    return this.zoom === 1 && this.shift[0] === 0 && this.shift[1] === 0;
  }

  fit() {
    this.zoom = 1;
    this.shift = [0, 0];
    this.draw();
  }

  show(frame) {
    if (frame !== this.frame) {
      this.frame = frame;
      this.scene = frame.given.scene;
      this.spots = new Map();
      for (const { index, x, y, size, tall, shape } of this.scene.shapes) {
        if (!index) continue;
        for (let i = 0; i < index.length; i++) {
          const wide = size[i];
          this.spots.set(index[i], { x: x[i], y: y[i], wide, tall: tall === null ? wide : tall[i], shape });
        }
      }
    }
    this.draw();
  }

  get view() {
    const { width, height } = this.scene;
    const fitting = Math.min((this.size[0] - 2 * MARGIN) / width, (this.size[1] - 2 * MARGIN) / height);
    const scale = fitting * this.zoom;
    return {
      scale,
      left: this.size[0] / 2 + this.shift[0] - (width / 2) * scale,
      top: this.size[1] / 2 + this.shift[1] - (height / 2) * scale,
    };
  }

  draw() {
    const ready = this.scene && prepared(this.canvas);
    if (!ready) return;
    const c = ready.context;
    this.size = [ready.width, ready.height];
    paint(c, this.scene.shapes, this.view);
    for (const index of this.choices ?? []) this.mark(c, index, "accent", 1.8, [4, 3], 2);
    if (this.actor !== null) this.mark(c, this.actor, "accent", 3, [], 4);
    if (this.selected !== null) this.mark(c, this.selected, "ink", 2, [], 3);
    if (this.hovered !== null) this.mark(c, this.hovered, "ink", 2, [], 1);
    this.canvas.dataset.step = this.frame.step;
    this.canvas.dataset.drawn = this.spots.size;
  }

  mark(c, index, name, width, dash, margin) {
    const spot = this.spots.get(index);
    if (!spot) return;
    const { left, top, scale } = this.view;
    const [a, b] = [spot.wide * scale + margin, spot.tall * scale + margin];
    c.beginPath();
    outline(c, spot.shape === "cross" ? "box" : spot.shape, left + spot.x * scale, top + spot.y * scale, a, b);
    c.setLineDash(dash);
    c.strokeStyle = color(name);
    c.lineWidth = width;
    c.stroke();
    c.setLineDash([]);
  }

  /** Where an entity is, in pixels of the page; null where it has no place. */
  where(index) {
    const spot = this.spots.get(index);
    if (!spot) return null;
    const box = this.canvas.getBoundingClientRect();
    const { left, top, scale } = this.view;
    return [box.left + left + spot.x * scale, box.top + top + spot.y * scale];
  }

  /** The smallest entity at a place of the canvas, or null. */
  pick(px, py) {
    if (!this.scene) return null;
    const { left, top, scale } = this.view;
    const [x, y] = [(px - left) / scale, (py - top) / scale];
    let found = null;
    let best = [Infinity, Infinity];
    for (const [index, spot] of this.spots) {
      const [dx, dy] = [Math.abs(spot.x - x), Math.abs(spot.y - y)];
      if (dx > Math.max(spot.wide, NEAR / scale) || dy > Math.max(spot.tall, NEAR / scale)) continue;
      const own = [spot.wide * spot.tall, Math.hypot(dx, dy)];
      if (own[0] < best[0] || (own[0] === best[0] && own[1] <= best[1])) [found, best] = [index, own];
    }
    return found;
  }

  zoomAt(x, y, factor) {
    const zoom = Math.min(MOST_ZOOM, Math.max(1, this.zoom * factor));
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
