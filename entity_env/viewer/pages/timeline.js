// The steps of an episode as a line to seek on: rewards as bars, return and value as curves.

import { short } from "./api.js";
import { color, prepared } from "./dom.js";

const LEFT = 8;

export class Timeline {
  constructor(canvas, onSeek) {
    this.canvas = canvas;
    this.step = 0;
    this.length = 1;
    this.curve = null;
    this.hover = null;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      const part = (event.clientX - box.left - LEFT) / Math.max(box.width - 2 * LEFT, 1);
      return Math.round(Math.min(1, Math.max(0, part)) * (this.length - 1));
    };
    let drags = false;
    canvas.addEventListener("pointerdown", (event) => {
      drags = true;
      canvas.setPointerCapture(event.pointerId);
      onSeek(at(event));
    });
    canvas.addEventListener("pointermove", (event) => {
      this.hover = at(event);
      if (drags) onSeek(this.hover);
      this.draw();
    });
    canvas.addEventListener("pointerup", () => { drags = false; });
    canvas.addEventListener("pointerleave", () => { this.hover = null; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  setCurve(given) {
    this.curve = given;
    this.draw();
  }

  set(step, length) {
    this.step = step;
    this.length = Math.max(length, 1);
    this.canvas.setAttribute("aria-valuemin", 0);
    this.canvas.setAttribute("aria-valuemax", this.length - 1);
    this.canvas.setAttribute("aria-valuenow", step);
    this.draw();
  }

  x(step) {
    return LEFT + (step / Math.max(this.length - 1, 1)) * (this.width - 2 * LEFT);
  }

  draw() {
    const ready = prepared(this.canvas);
    if (!ready) return;
    const { context: c, height } = ready;
    this.width = ready.width;
    const bottom = height - 10;
    const top = 6;
    c.fillStyle = color("ground");
    c.beginPath();
    c.roundRect(0, 0, this.width, height, 8);
    c.fill();
    const curve = this.curve;
    if (curve && curve.length > 1) this.drawCurves(c, top, bottom);
    c.fillStyle = color("line");
    c.fillRect(LEFT, bottom + 3, this.width - 2 * LEFT, 3);
    c.fillStyle = color("accent");
    c.fillRect(LEFT, bottom + 3, this.x(this.step) - LEFT, 3);
    const mark = (step, name, width) => {
      c.fillStyle = color(name);
      c.fillRect(this.x(step) - width / 2, 2, width, bottom + 2);
    };
    if (this.hover !== null) mark(this.hover, "soft", 1);
    mark(this.step, "accent", 2);
    c.beginPath();
    c.arc(this.x(this.step), bottom + 4.5, 5.5, 0, 2 * Math.PI);
    c.fill();
    if (this.hover !== null) {
      c.font = "11px system-ui, sans-serif";
      c.textBaseline = "top";
      c.textAlign = this.x(this.hover) > this.width / 2 ? "right" : "left";
      c.fillStyle = color("ink");
      c.fillText(`step ${this.hover}`, this.x(this.hover) + (c.textAlign === "left" ? 5 : -5), 4);
    }
  }

  drawCurves(c, top, bottom) {
    const { steps, reward, total, value } = this.curve;
    const height = bottom - top;
    const most = reward.reduce((found, own) => Math.max(found, Math.abs(own)), 0);
    const middle = top + height / 2;
    if (most > 0) {
      const wide = Math.min(5, Math.max(1, ((this.width - 2 * LEFT) / this.length) * 0.7));
      steps.forEach((step, i) => {
        if (!reward[i]) return;
        const tall = (0.42 * height * reward[i]) / most;
        c.fillStyle = color(reward[i] > 0 ? "good" : "bad");
        c.globalAlpha = 0.4;
        c.fillRect(this.x(step) - wide / 2, middle - Math.max(tall, 0), wide, Math.abs(tall));
      });
      c.globalAlpha = 1;
    }
    const words = [];
    const line = (values, name, label) => {
      const known = values.filter(Number.isFinite);
      const low = Math.min(...known);
      const high = Math.max(...known);
      const y = (own) => bottom - 2 - ((own - low) / (high - low || 1)) * (height - 6);
      c.beginPath();
      let draws = false;
      steps.forEach((step, i) => {
        if (!Number.isFinite(values[i])) {
          draws = false;
          return;
        }
        if (draws) c.lineTo(this.x(step), y(values[i]));
        else c.moveTo(this.x(step), y(values[i]));
        draws = true;
      });
      c.strokeStyle = color(name);
      c.lineWidth = 1.8;
      c.lineJoin = "round";
      c.stroke();
      words.push([`${label} ${short(low, 3)} … ${short(high, 3)}`, name]);
    };
    line(total, "accent", "return");
    if (value) line(value, "value", "value");
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "top";
    c.textAlign = "left";
    let x = LEFT + 4;
    for (const [text, name] of words) {
      const wide = c.measureText(text).width;
      c.fillStyle = color("ground");
      c.globalAlpha = 0.75;
      c.fillRect(x - 3, 3, wide + 6, 14);
      c.globalAlpha = 1;
      c.fillStyle = color(name);
      c.fillText(text, x, 4);
      x += wide + 16;
    }
  }
}
