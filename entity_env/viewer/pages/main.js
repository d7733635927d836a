// The page: which episode, which step, which seat; playing, seeking, clicking.

import { ask, Frame, short, tell } from "./api.js";
import { Cards } from "./cards.js";
import { Chooser } from "./choose.js";
import { $, make, pair } from "./dom.js";
import { describe, showEntity, showNumbers, showPanel } from "./panel.js";
import { Stage } from "./stage.js";
import { Timeline } from "./timeline.js";

const MOST_KEPT = 240;
const AHEAD = 6;
const MOST_TABS = 8;

const about = await ask("about");
const state = {
  episode: null, // what the server says about it
  step: 0,
  seat: about.people?.[0] ?? 0,
  frame: null,
  plays: false,
  selected: null,
  hovered: null,
  chosen: {}, // by the seats of people, in the step that comes
};
const isLive = about.kind === "game";
const hasPeople = (about.people ?? []).length > 0;
const kept = new Map();
const stage = new Stage($("plane"));
const cards = new Cards($("cards"));
const timeline = new Timeline($("timeline"), (step) => { pause(); show(step); });
const chooser = new Chooser(onChosen, redraw);

function notice(text) {
  $("notice").hidden = !text;
  $("notice").firstElementChild.textContent = text;
}
$("notice").lastElementChild.addEventListener("click", () => notice(""));

async function guarded(work) {
  try {
    return await work();
  } catch (error) {
    pause();
    notice(error.message);
    return null;
  }
}

// Frames

function fetchFrame(episode, step, seat) {
  const key = `${episode} ${step} ${seat}`;
  if (!kept.has(key)) {
    const asked = ask("frame", { episode, step, seat, ...view() }).then((given) => new Frame(given, about));
    asked.catch(() => kept.delete(key));
    keep(key, asked);
  }
  return kept.get(key);
}

function keep(key, frame) {
  kept.set(key, frame);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
}

let sceneZoom = 1; // the zoom that scenes are made for

/** How frames are looked at: magnified, and with the game's own picture. */
function view() {
  const picture = document.body.dataset.view === "picture" ? { picture: 1, layer: $("layer").value } : {};
  return { zoom: sceneZoom, ...picture };
}

/** Drop scenes of another scale than that of a frame: the plane has grown, or was zoomed. */
function forgetOtherScales(frame) {
  const { width, height } = frame.given.scene;
  const scale = `${width} ${height} ${sceneZoom}`;
  if (scale !== forgetOtherScales.last) {
    const key = `${state.episode.number} ${state.step} ${state.seat}`;
    for (const own of kept.keys()) if (own !== key) kept.delete(own);
  }
  forgetOtherScales.last = scale;
}

let zoomTimer = null;
function zoomSoon() {
  clearTimeout(zoomTimer);
  zoomTimer = setTimeout(async () => {
    if (sceneZoom === stage.zoom) return;
    sceneZoom = stage.zoom;
    await lookAgain();
  }, 150);
}

let wanted = 0; // only the newest of the frames that were asked for is shown

async function show(step) {
  const turn = ++wanted;
  const { number, length } = state.episode;
  const place = Math.max(0, Math.min(step, length - 1));
  state.step = place;
  timeline.set(place, length);
  const frame = await guarded(() => fetchFrame(number, place, state.seat));
  if (!frame || turn !== wanted) return;
  state.frame = frame;
  forgetOtherScales(frame);
  redraw();
  for (let i = 1; i <= AHEAD && place + i < length; i++) {
    fetchFrame(number, place + i, state.seat).catch(() => {});
  }
}

function redraw() {
  const { frame } = state;
  if (!frame) return;
  const asking = chooser.isAsking && chooser.frame === frame;
  stage.actor = asking ? chooser.question?.actor ?? null : null;
  stage.choices = asking ? chooser.entities : null;
  stage.selected = state.selected;
  stage.hovered = state.hovered;
  const placed = about.types.some((type) => type.is_placed);
  document.body.classList.toggle("only-cards", !placed);
  const chosen = new Set(asking ? chooser.marked : []);
  for (const action of frame.actions) {
    if (!action.space.selects || !action.chosen) continue;
    action.actors.forEach((_, row) => action.chosenBy(row).forEach((own) => chosen.add(own)));
  }
  cards.show(frame, { choices: stage.choices, chosen, selected: state.selected });
  if (placed) stage.show(frame);
  $("fit").hidden = stage.isFitted;
  showNumbers(frame);
  showEntity(frame, state.selected);
  showPanel(frame, about, (index) => { state.selected = index; redraw(); });
  const { length } = state.episode;
  $("where").replaceChildren("step ", make("b", String(state.step)), ` of ${length - 1}`);
  document.body.dataset.step = frame.step;
  showEnd(frame);
  showPicture(frame);
}

function showEnd(frame) {
  const { done, length } = state.episode;
  const ends = done && state.step === length - 1;
  $("over").hidden = !ends;
  if (!ends) return;
  const how = state.episode.truncated || frame.given.truncated ? "Cut off by a limit" : "The end";
  const metrics = Object.entries(state.episode.metrics ?? {});
  const shown = metrics.filter(([name]) => !/\.(mean|min|max|sum|count)$/.test(name)).slice(0, 8);
  const lines = shown.map(([name, value]) => pair(name.replace(/^return of /, ""), short(value)));
  const parts = [make("strong", how), ...lines];
  if (isLive && state.episode.is_newest) {
    const again = make("button.main", "new game");
    again.addEventListener("click", restart);
    parts.push(again);
  }
  $("over").replaceChildren(...parts);
}

/** The game's own picture, which only the newest step has. */
function showPicture(frame) {
  const { picture } = frame.given;
  const canvas = $("picture");
  canvas.hidden = !picture;
  $("unseen").hidden = !canvas.hidden;
  if (!picture) return;
  const [height, width] = picture.shape;
  const image = new ImageData(width, height);
  for (let i = 0, j = 0; i < image.data.length; i++) image.data[i] = i % 4 === 3 ? 255 : picture[j++];
  [canvas.width, canvas.height] = [width, height];
  canvas.getContext("2d").putImageData(image, 0, 0);
  Object.assign(canvas.dataset, { step: frame.step, layer: $("layer").value });
}
$("layer").append(...(about.layers ?? []).map((name) => new Option(name)));
$("layer").hidden = !about.layers?.length;

/** Ask for the frame again, because it is looked at in another way. */
function lookAgain() {
  kept.clear();
  return show(state.step);
}
$("layer").addEventListener("change", lookAgain);

async function showCurve() {
  const number = state.episode.number;
  const given = await guarded(() => ask("curve", { episode: number, seat: state.seat }));
  if (given && number === state.episode.number) timeline.setCurve(given);
}

/** Show the curve soon: of a game that runs fast not at each step. */
let curveTimer = null;
function showCurveSoon() {
  curveTimer ??= setTimeout(() => { curveTimer = null; showCurve(); }, 250);
}

// Episodes and seats

async function open(number, step = 0) {
  coming = null;
  const episode = await guarded(() => ask("episode", { episode: number }));
  if (!episode) return;
  setEpisode(episode);
  state.selected = null;
  await show(step);
  showCurve();
  follow();
}

/** Ask again while more of a recording is found. */
function follow() {
  if (!state.episode.is_growing || isLive) return;
  setTimeout(async () => {
    const { number } = state.episode;
    const episode = await ask("episode", { episode: number }).catch(() => null);
    if (!episode || number !== state.episode.number) return;
    setEpisode(episode);
    if (episode.notice && episode.notice !== about.notice) notice(about.notice = episode.notice);
    timeline.set(state.step, episode.length);
    redraw();
    showCurve();
    follow();
  }, 400);
}

function setEpisode(episode) {
  state.episode = episode;
  if (isLive) {
    const alone = hasPeople && !about.seats.length;
    $("kind").textContent = alone ? "played by you" : `${hasPeople ? "against" : "played by"} ${episode.who}`;
  }
  $("episode").value = episode.number + 1;
  $("count").textContent = `of ${episode.count.toLocaleString("en")}${episode.is_growing && !isLive ? "+" : ""}`;
  $("previous").disabled = episode.number === 0;
  $("next").disabled = episode.number >= episode.count - 1;
  $("last").disabled = $("next").disabled;
}

function seatName(seat) {
  const name = about.seats[seat] ?? "";
  return /^\d+$/.test(name) ? `seat ${name}` : name;
}

function showSeats() {
  if (about.seats.length > MOST_TABS) {
    const list = make("select", ...about.seats.map((_, seat) => make("option", seatName(seat))));
    list.selectedIndex = state.seat;
    list.addEventListener("change", () => look(list.selectedIndex));
    $("seats").replaceChildren(list);
    return;
  }
  const tabs = about.seats.map((_, seat) => {
    const tab = make("button", seatName(seat));
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-selected", seat === state.seat);
    tab.title = about.people.includes(seat) ? "you" : state.episode?.who ?? "";
    tab.addEventListener("click", () => look(seat));
    return tab;
  });
  $("seats").replaceChildren(...tabs);
}

async function look(seat) {
  state.seat = seat;
  state.selected = null;
  showSeats();
  await show(state.step);
  showCurve();
}

// Playing

let timer = null;

function pause() {
  state.plays = false;
  clearTimeout(timer);
  $("play").textContent = "▶";
}

function play() {
  state.plays = true;
  $("play").textContent = "❚❚";
  tick();
}

async function tick() {
  clearTimeout(timer);
  if (!state.plays) return;
  const begin = performance.now();
  const went = await forward();
  if (!state.plays) return;
  const pace = 1000 / Number($("speed").value);
  const spent = performance.now() - begin;
  if (went) timer = setTimeout(tick, Math.max(went === "end" ? 1400 : 0, pace - spent));
}

/** Show the next step, or play it where there is none yet; say whether to go on. */
async function forward() {
  const { length, done, number, count } = state.episode;
  if (state.step < length - 1) {
    await show(state.step + 1);
    const ends = done && state.step >= length - 1;
    return ends ? "end" : "step";
  }
  if (isLive && state.episode.is_newest) {
    if (done) {
      if (hasPeople || !$("goon").checked) { pause(); return null; }
      await restart();
      return "step";
    }
    if (state.episode.waits_for.length) { askPerson(); return null; }
    return (await advance()) ? (state.episode.done ? "end" : "step") : null;
  }
  if (number < count - 1 && $("goon").checked) {
    await open(number + 1);
    return "step";
  }
  pause();
  return null;
}

let coming = null; // the step that is played already, while the one before it is drawn

function playStep() {
  const { chosen, seat } = state;
  state.chosen = {};
  const played = tell("advance", { chosen, seat, ...view() }).then((episode) => {
    keep(`${episode.number} ${episode.length - 1} ${seat}`, new Frame(episode.frame, about));
    return episode;
  });
  played.catch(() => {}); // whoever waits for it says what is wrong
  return played;
}

async function advance() {
  const played = coming ?? playStep();
  coming = null;
  const episode = await guarded(() => played);
  if (!episode) {
    if (hasPeople && state.episode.waits_for.length) askPerson();
    return false;
  }
  // A person's choice is noted in the frame before: it is fetched anew.
  for (const key of kept.keys()) if (key.startsWith(`${episode.number} ${episode.length - 2} `)) kept.delete(key);
  setEpisode(episode);
  if (state.plays && !hasPeople && !episode.done) coming = playStep();
  await show(episode.length - 1);
  showCurveSoon();
  return true;
}

async function restart() {
  chooser.clear();
  coming = null;
  const episode = await guarded(() => tell("restart"));
  if (!episode) return;
  setEpisode(episode);
  state.selected = null;
  await show(0);
  showCurve();
  if (hasPeople) play();
}

async function askPerson() {
  const seat = state.episode.waits_for.find((own) => !(own in state.chosen));
  if (seat === undefined) return;
  if (seat !== state.seat) await look(seat);
  if (state.step !== state.episode.length - 1) await show(state.episode.length - 1);
  if (state.frame) chooser.ask(state.frame, seat, seatName(seat));
}

async function onChosen(seat, chosen) {
  state.chosen[seat] = chosen;
  if (state.episode.waits_for.some((own) => !(own in state.chosen))) {
    askPerson();
    return;
  }
  if (await advance()) play();
}

// What the user does

const step = (way) => {
  pause();
  if (way > 0) forward();
  else show(state.step + way);
};
$("play").addEventListener("click", () => (state.plays ? pause() : play()));
$("back").addEventListener("click", () => step(-1));
$("forward").addEventListener("click", () => step(1));
$("start").addEventListener("click", () => { pause(); show(0); });
$("end").addEventListener("click", () => { pause(); show(state.episode.length - 1); });
$("previous").addEventListener("click", () => open(state.episode.number - 1));
$("next").addEventListener("click", () => open(state.episode.number + 1));
$("last").addEventListener("click", () => open(-1));
$("new").addEventListener("click", restart);
$("new").hidden = !isLive;
$("episode").addEventListener("change", (event) => open(Number(event.target.value) - 1));
const fit = () => { stage.fit(); redraw(); zoomSoon(); };
$("fit").addEventListener("click", fit);
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  redraw();
  timeline.draw();
});

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input:not([type='checkbox']), select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === " " && event.target.matches("button")) return; // it is pressed anyway
  const keys = {
    " ": () => (state.plays ? pause() : play()),
    ArrowLeft: () => step(-1),
    ArrowRight: () => step(1),
    Home: () => { pause(); show(0); },
    End: () => { pause(); show(state.episode.length - 1); },
    n: () => open(Math.min(state.episode.number + 1, state.episode.count - 1)),
    p: () => open(Math.max(state.episode.number - 1, 0)),
  };
  if (/^[0-9]$/.test(event.key)) chooser.key(event.key);
  else if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});

const plane = $("plane");
let drag = null;
const local = (event) => {
  const box = plane.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};
plane.addEventListener("pointerdown", (event) => {
  drag = { at: [event.clientX, event.clientY], moved: 0 };
});
plane.addEventListener("pointermove", (event) => {
  if (drag && event.buttons) {
    const [dx, dy] = [event.clientX - drag.at[0], event.clientY - drag.at[1]];
    drag.moved += Math.hypot(dx, dy);
    drag.at = [event.clientX, event.clientY];
    if (drag.moved > 4 && !(stage.isFitted && drag.moved < 12)) {
      stage.pan(dx, dy);
      $("fit").hidden = false;
    }
    return;
  }
  const found = stage.pick(...local(event));
  const tip = $("tip");
  if (found !== state.hovered) {
    state.hovered = found;
    stage.hovered = found;
    stage.draw();
    tip.hidden = found === null;
    if (found !== null) tip.replaceChildren(...describe(state.frame, found, false));
  }
  if (found !== null) {
    const right = event.clientX + 16 + 280 > window.innerWidth;
    tip.style.left = `${event.clientX + (right ? -16 - tip.offsetWidth : 16)}px`;
    tip.style.top = `${Math.min(event.clientY + 12, window.innerHeight - tip.offsetHeight - 8)}px`;
  }
});
plane.addEventListener("pointerleave", () => {
  state.hovered = stage.hovered = null;
  $("tip").hidden = true;
  stage.draw();
});
plane.addEventListener("click", (event) => {
  if (drag && drag.moved > 4) return;
  click(stage.pick(...local(event)));
});
plane.addEventListener("dblclick", fit);
plane.addEventListener("wheel", (event) => {
  event.preventDefault();
  stage.zoomAt(...local(event), Math.exp(-event.deltaY / 400));
  $("fit").hidden = stage.isFitted;
  zoomSoon();
}, { passive: false });
cards.onClick = click;

function click(index) {
  if (index !== null && chooser.isAsking && chooser.frame === state.frame && chooser.click(index)) return;
  state.selected = index === state.selected ? null : index;
  redraw();
}

// The beginning

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.dataset.theme = prefersDark ? "dark" : "light";
document.title = about.title;
$("title").textContent = about.title;
if (!isLive) $("kind").textContent = about.kind;
showSeats();
if (about.has_pictures) {
  const tabs = ["game", "picture"].map((name, i) => {
    const tab = make("button", name);
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-selected", i === 0);
    tab.addEventListener("click", () => {
      for (const other of tabs) other.setAttribute("aria-selected", other === tab);
      document.body.dataset.view = name;
      lookAgain();
    });
    return tab;
  });
  $("views").replaceChildren(...tabs);
}
notice(about.notice);
await open(isLive ? -1 : 0);
if (hasPeople) play();
// For tests, and for whoever looks at the page from outside.
window.viewer = { about, state, stage, open, show, forward };
document.body.dataset.ready = "yes";
