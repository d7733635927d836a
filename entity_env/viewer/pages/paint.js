// Shapes of a scene on a canvas, as scene.py has them: no rule of a game is here.

import { color, make } from "./dom.js";

const [LEAST_WORD, MOST_WORD] = [10.5, 13]; // pixels of words beside shapes
const PARTS = new Set(["ink", "soft", "ground", "grid", "card"]);
const css = (name) => (PARTS.has(name) ? color(name) : name);

const CORNERS = {
  diamond: [[0, -1.15], [1.15, 0], [0, 1.15], [-1.15, 0]],
  hexagon: Array.from({ length: 6 }, (_, k) => [Math.sin((k * Math.PI) / 3), Math.cos((k * Math.PI) / 3)]),
};

/** Add the outline of a shape around a place to the path, with these half widths and heights. */
export function outline(c, shape, x, y, a, b) {
  if (shape === "box" || a < 3) {
    c.rect(x - a, y - b, 2 * a, 2 * b); // of a few pixels, and far quicker than a circle
  } else if (shape === "square") {
    c.roundRect(x - 0.86 * a, y - 0.86 * b, 1.72 * a, 1.72 * b, 0.2 * Math.min(a, b));
  } else if (shape in CORNERS) {
    CORNERS[shape].forEach(([u, v], i) => c[i ? "lineTo" : "moveTo"](x + u * a, y + v * b));
    c.closePath();
  } else if (shape === "cross") {
    c.moveTo(x - a, y - b);
    c.lineTo(x + a, y + b);
    c.moveTo(x - a, y + b);
    c.lineTo(x + a, y - b);
  } else {
    const r = shape === "ring" ? 0.85 * a : a;
    c.moveTo(x + r, y);
    c.arc(x, y, r, 0, 2 * Math.PI);
  }
}

const at = (numbers, i) => (numbers.length === undefined ? numbers : numbers[i]);

const painters = {
  Marks(c, own, { left, top, scale }) {
    const isLine = own.shape === "cross" || own.shape === "ring";
    c.globalAlpha = own.alpha;
    c.beginPath();
    let wide = 0;
    for (let i = 0; i < own.x.length; i++) {
      const a = scale * at(own.size, i);
      const b = own.tall === null ? a : scale * at(own.tall, i);
      wide = Math.max(wide, a);
      outline(c, own.shape, left + scale * own.x[i], top + scale * own.y[i], a, b);
    }
    if (own.fill !== null && !isLine) {
      c.fillStyle = css(own.fill);
      c.fill();
    }
    if (isLine || own.edge !== null) {
      c.strokeStyle = css(isLine ? own.fill : own.edge);
      c.lineWidth = isLine ? 0.32 * wide : Math.max(1, scale * own.line);
      c.stroke();
    }
    c.globalAlpha = 1;
  },

  Arrows(c, own, { left, top, scale }) {
    c.strokeStyle = c.fillStyle = css(own.color);
    c.lineWidth = Math.max(1, scale * own.line);
    const head = scale * own.head;
    for (let i = 0; i < own.x.length; i++) {
      const [x, y] = [left + scale * own.x[i], top + scale * own.y[i]];
      const [tx, ty] = [left + scale * own.to_x[i], top + scale * own.to_y[i]];
      const length = Math.hypot(tx - x, ty - y) || 1;
      const [ux, uy] = [(tx - x) / length, (ty - y) / length];
      const [nx, ny] = [tx - head * ux, ty - head * uy];
      c.beginPath();
      c.moveTo(x, y);
      c.lineTo(nx, ny);
      c.stroke();
      if (!head) continue;
      c.beginPath();
      c.moveTo(tx, ty);
      c.lineTo(nx - 0.45 * head * uy, ny + 0.45 * head * ux);
      c.lineTo(nx + 0.45 * head * uy, ny - 0.45 * head * ux);
      c.fill();
    }
  },

  Words(c, own, { left, top, scale }) {
    const size = own.grows ? scale * own.size : Math.max(LEAST_WORD, Math.min(MOST_WORD, scale * own.size));
    c.font = `${own.grows ? 600 : 400} ${size}px system-ui, sans-serif`;
    c.textAlign = { l: "left", m: "center", r: "right" }[own.anchor[0]];
    c.textBaseline = { t: "top", m: "middle", b: "bottom" }[own.anchor[1]];
    c.fillStyle = css(own.color);
    own.text.forEach((text, i) => {
      const [x, y] = [left + scale * own.x[i], top + scale * own.y[i]];
      if (own.halo) {
        c.lineJoin = "round";
        c.lineWidth = 2 * scale * own.halo;
        c.strokeStyle = color("ground");
        c.strokeText(text, x, y);
      }
      c.fillText(text, x, y);
    });
  },
};

/** Paint shapes; a view has the pixels of the upper left corner, and those of a unit. */
export function paint(c, shapes, view) {
  for (const own of shapes) painters[own.kind](c, own, view);
}

/** A small picture of a mark in a legend. */
export function signElement(own) {
  const [side, ratio] = [14, window.devicePixelRatio || 1];
  const canvas = make("canvas.sign");
  canvas.height = side * ratio;
  canvas.width = canvas.height * own.width;
  paint(canvas.getContext("2d"), own.shapes, { left: 0, top: 0, scale: side * ratio });
  return canvas;
}
