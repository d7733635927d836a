// The side: reward and value, the entity that is looked at, who does what, what there is.

import { featureText, percent, short } from "./api.js";
import { $, heading, make, pair } from "./dom.js";
import { signElement } from "./paint.js";

const MOST_LINES = 60;
const MOST_OPTIONS = 40;

function number(label, value, kind = "") {
  const text = make("b", short(value));
  if (kind === "signed" && value) text.classList.add(value > 0 ? "good" : "bad");
  if (kind === "value") text.classList.add("valued");
  return make("div", text, make("span", label));
}

export function showNumbers(frame) {
  const given = frame.given;
  const parts = [
    number("reward", given.reward ?? 0, "signed"),
    number("return so far", given.total ?? 0),
    number("value", given.value ?? null, "value"),
  ];
  $("numbers").replaceChildren(...parts);
}

export function optionRow(option, tag = "div") {
  const bar = make("span.bar");
  bar.style.width = option.prob === null ? "0" : `${100 * option.prob}%`;
  const right = make("span", option.prob === null ? "" : percent(option.prob));
  const row = make(`${tag}.option`, bar, make("span", option.label), right);
  row.classList.toggle("chosen", option.chosen);
  row.classList.toggle("masked", !option.allowed);
  return row;
}

function actionParts(frame, action, row) {
  const name = heading(action.name);
  if (action.space.labels || action.actees) {
    let options = frame.options(action, row);
    const many = options.length > MOST_OPTIONS;
    if (options.length > 12) {
      options = options.filter((own) => own.allowed || own.chosen);
      options.sort((a, b) => b.chosen - a.chosen || (b.prob ?? 0) - (a.prob ?? 0));
    }
    const rows = options.slice(0, MOST_OPTIONS).map((option) => optionRow(option));
    const more = many && options.length > MOST_OPTIONS
      ? make("div.more", `and ${options.length - MOST_OPTIONS} more`) : null;
    return make("section", name, ...rows, more);
  }
  const each = action.actors.length ? (action.mean?.length ?? 0) / action.actors.length : 0;
  const known = action.mean
    ? pair("drawn around", Array.from(action.mean.subarray(row * each, (row + 1) * each),
      (mean, i) => `${short(mean, 3)} ± ${short(action.std[row * each + i], 2)}`).join(", "))
    : null;
  return make("section", name, pair("numbers", frame.chosenText(action, row) || "–"), known);
}

export function describe(frame, index, full) {
  const found = frame.find(index);
  const parts = [];
  if (found) {
    const { group, row } = found;
    const title = make("span.named", signElement(group.type.sign), make("strong", frame.name(index)));
    parts.push(title);
    const features = make("section");
    group.type.features.forEach((feature, column) => {
      features.append(pair(feature.name, featureText(feature, group.at(row, column))));
    });
    if (group.visible && !group.visible[row]) features.append(pair("hidden from the policy", ""));
    parts.push(full ? features : make("div", ...features.childNodes));
  } else {
    parts.push(make("strong", "the player as a whole"));
  }
  for (const { action, row } of frame.taken.get(index) ?? []) {
    if (full) parts.push(actionParts(frame, action, row));
    else if (action.chosen) parts.push(pair(action.name, make("b", frame.chosenText(action, row))));
  }
  return parts;
}

export function showEntity(frame, index) {
  const box = $("entity");
  box.hidden = index === null || (index >= frame.count && !frame.taken.has(index));
  if (!box.hidden) box.replaceChildren(...describe(frame, index, true));
}

export function showPanel(frame, about, onLook) {
  const parts = [];
  const lines = [];
  for (const action of frame.actions) {
    action.actors.forEach((actor, row) => {
      const text = frame.chosenText(action, row);
      if (!text || lines.length > MOST_LINES) return;
      const prob = chosenProb(frame, action, row);
      const line = make("div.line", make("span", `${frame.name(actor)}`),
        make("span", text, prob === null ? "" : make("span.more", ` ${percent(prob)}`)));
      line.title = action.name;
      line.addEventListener("click", () => onLook(actor));
      lines.push(line);
    });
  }
  if (lines.length) {
    const rest = lines.splice(MOST_LINES);
    const more = rest.length ? make("div.more", "and more") : null;
    parts.push(make("section", heading("Actions"), make("div.actions", ...lines, more)));
  }
  const given = frame.given;
  const metrics = Object.entries(given.metrics ?? {}).map(([name, own]) => pair(name, short(own)));
  if (metrics.length) parts.push(make("section", heading("Metrics"), ...metrics));
  const globals = about.globals.map((feature, i) =>
    pair(feature.name, featureText(feature, given.globals[i] ?? 0)));
  if (globals.length && given.globals.length) {
    parts.push(make("section", heading("Global features"), ...globals));
  }
  const scene = given.scene ?? { legend: [], lists: [] };
  const signs = [...scene.legend, ...scene.lists.map((own) => own.sign)].map((own) => {
    const line = pair(make("span.named", signElement(own), own.meaning), own.value);
    line.classList.add("type");
    return line;
  });
  if (signs.length) parts.push(make("section", heading("Entities"), ...signs));
  $("panel").replaceChildren(...parts);
}

function chosenProb(frame, action, row) {
  if (!action.probs) return null;
  const own = frame.options(action, row).filter((option) => option.chosen);
  return own.length === 1 ? own[0].prob : null;
}
