// The curves of a training, one small picture for each number that it logs.

import { ask, short } from "./api.js";
import { $, color, make, prepared } from "./dom.js";

const PAUSE = 2000; // milliseconds between two looks at a training that goes on

export class Curves {
  constructor(element) {
    this.element = element;
    this.boxes = new Map();
    this.timer = null;
    this.search = make("input");
    this.search.type = "search";
    this.search.placeholder = "names with …";
    this.search.addEventListener("input", () => this.draw());
    this.grid = make("div.curves");
    this.words = make("span.more");
    element.append(make("div.bar-above", this.search, this.words), this.grid);
  }

  start() {
    this.stop();
    const look = async () => {
      const given = await ask("training").catch(() => null);
      if (given) {
        this.steps = given.steps;
        this.metrics = Object.entries(given.metrics);
        this.metrics.sort(([a], [b]) => rank(a) - rank(b));
        this.draw();
      }
      this.timer = setTimeout(look, PAUSE);
    };
    look();
  }

  stop() {
    clearTimeout(this.timer);
  }

  draw() {
    const words = this.search.value.toLowerCase().split(/\s+/);
    const shown = this.metrics.filter(([name]) => words.every((word) => name.toLowerCase().includes(word)));
    const last = this.steps.length ? this.steps[this.steps.length - 1] : 0;
    this.words.textContent = this.steps.length
      ? `${Math.round(last).toLocaleString("en")} steps, ${shown.length} numbers`
      : "nothing has been logged yet";
    this.grid.replaceChildren(...shown.map(([name, values]) => this.box(name, values)));
    document.body.dataset.logged = this.steps.length;
    for (const [name, values] of shown) drawCurve(this.boxes.get(name).querySelector("canvas"), this.steps, values);
  }

  box(name, values) {
    if (!this.boxes.has(name)) {
      const own = make("div.group.curve", make("div.pair", make("span", name), make("b", "")), make("canvas"));
      own.title = name;
      this.boxes.set(name, own);
    }
    const own = this.boxes.get(name);
    const known = Array.from(values).filter(Number.isFinite);
    own.querySelector("b").textContent = known.length ? short(known[known.length - 1]) : "–";
    return own;
  }
}

/** What people look at first: rewards and results, then losses, then times. */
function rank(name) {
  if (name.startsWith("episodic_")) return 0;
  if (!name.includes("/")) return 1;
  if (name.startsWith("eval/") || name.startsWith("env/")) return 2;
  if (/^time|seconds|^memory/.test(name)) return 9;
  return 5;
}

function drawCurve(canvas, steps, values) {
  const ready = prepared(canvas);
  if (!ready) return;
  const { context: c, width, height } = ready;
  const known = values.filter(Number.isFinite);
  if (!known.length) return;
  const low = known.reduce((a, b) => Math.min(a, b));
  const high = known.reduce((a, b) => Math.max(a, b));
  const last = steps[steps.length - 1] || 1;
  const x = (step) => 2 + (step / last) * (width - 4);
  const y = (value) => height - 14 - ((value - low) / (high - low || 1)) * (height - 22);
  c.strokeStyle = color("grid");
  c.lineWidth = 1;
  c.beginPath();
  for (const line of [low, high]) {
    c.moveTo(0, y(line));
    c.lineTo(width, y(line));
  }
  c.stroke();
  c.fillStyle = color("soft");
  c.font = "10.5px system-ui, sans-serif";
  c.textBaseline = "bottom";
  c.textAlign = "left"; // a canvas keeps the last one
  c.fillText(short(low, 3), 2, height);
  c.textAlign = "right";
  c.fillText(high === low ? "" : short(high, 3), width - 2, height);
  c.beginPath();
  let draws = false;
  steps.forEach((step, i) => {
    if (!Number.isFinite(values[i])) return;
    if (draws) c.lineTo(x(step), y(values[i]));
    else c.moveTo(x(step), y(values[i]));
    draws = true;
  });
  c.strokeStyle = color("accent");
  c.lineWidth = 1.8;
  c.lineJoin = "round";
  c.stroke();
}

/** Tabs for the views that there are, of which the first one is shown. */
export function showViews(names, onView) {
  if (names.length < 2) return;
  const tabs = names.map((name) => {
    const tab = make("button", name);
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-selected", name === names[0]);
    tab.addEventListener("click", () => {
      for (const own of tabs) own.setAttribute("aria-selected", own === tab);
      onView(name);
    });
    return tab;
  });
  $("views").replaceChildren(...tabs);
}
