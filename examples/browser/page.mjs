// The page: a board, buttons, and a game that goes on by itself.
// With ?games=20&seed=1 it plays so many games at once and writes them down as JSON instead.

import * as ort from "./ort/ort.wasm.min.mjs";
import { MOVES, isOver, isWon, masks, newGame, play, randomNumbers } from "./minesweeper.mjs";
import { decide } from "./policy.mjs";

ort.env.wasm.wasmPaths = new URL("./ort/", import.meta.url).href;
ort.env.wasm.numThreads = 1;

const COLOURS = ["#2563eb", "#d97706", "#059669", "#9333ea", "#db2777", "#0891b2"];
const at = (id) => document.getElementById(id);
const asked = new URLSearchParams(location.search);
const random = randomNumbers(Number(asked.get("seed") ?? Date.now()));
for (const name of ["width", "height", "mines", "robots"]) if (asked.has(name)) at(name).value = asked.get(name);

let session, game, decision, timer;
const tally = { won: 0, played: 0 };

function fresh() {
  const size = Object.fromEntries(["width", "height", "mines", "robots"].map((name) => [name, Number(at(name).value)]));
  size.robots = Math.max(1, Math.min(size.robots, size.width * size.height - 1));
  size.mines = Math.max(1, Math.min(size.mines, size.width * size.height - size.robots));
  return newGame({ ...size, random });
}

async function begin(next) {
  game = next;
  decision = isOver(game) ? null : await decide(ort, session, game, masks(game));
  show();
}

async function step() {
  if (!isOver(game)) await begin(play(game, decision.moves));
  if (isOver(game)) {
    tally.played += 1;
    tally.won += isWon(game);
    show();
  }
}

function run() {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    if (isOver(game)) await begin(fresh());
    else await step();
    run();
  }, isOver(game) ? 1500 : 600);
  at("play").textContent = "pause";
}

function pause() {
  clearTimeout(timer);
  timer = undefined;
  at("play").textContent = "play";
}

function show() {
  draw(at("board").getContext("2d"));
  const outcome = isWon(game) ? "Won" : isOver(game) ? "Lost" : `Step ${game.steps}, value ${decision.value.toFixed(2)}`;
  at("status").textContent = `${outcome}. Won ${tally.won} of ${tally.played} games.`;
  const cells = (kind, texts) => texts.map((text) => `<${kind}>${text}</${kind}>`).join("");
  const rows = (decision?.probs ?? []).map((own, robot) => {
    const numbers = own.map((p, move) => `<td class="${move === decision.moves[robot] ? "chosen" : ""}">${(100 * p).toFixed(0)}%</td>`);
    return `<tr><td style="color:${COLOURS[robot % COLOURS.length]}">robot ${robot + 1}</td>${numbers.join("")}</tr>`;
  });
  at("probs").innerHTML = decision ? `<tr>${cells("th", ["", ...MOVES])}</tr>${rows.join("")}` : "";
}

function tileSize() {
  return Math.min(480 / game.width, 480 / game.height);
}

function draw(context) {
  const tile = tileSize();
  context.canvas.width = tile * game.width;
  context.canvas.height = tile * game.height;
  const centre = ([x, y]) => [(x + 0.5) * tile, (game.height - y - 0.5) * tile]; // y is up
  for (let x = 0; x < game.width; x++) {
    for (let y = 0; y < game.height; y++) {
      context.fillStyle = (x + y) % 2 ? "#eef2f6" : "#f8fafc";
      context.fillRect(x * tile, y * tile, tile, tile);
    }
  }
  const disc = (place, radius, colour) => {
    context.fillStyle = colour;
    context.beginPath();
    context.arc(...centre(place), radius * tile, 0, 2 * Math.PI);
    context.fill();
  };
  for (const mine of game.mines) {
    disc(mine, 0.28, "#1f2933");
    disc([mine[0] - 0.08, mine[1] + 0.08], 0.07, "#cbd2d9");
  }
  game.robots.forEach((robot, k) => {
    const [x, y] = centre(robot);
    context.fillStyle = COLOURS[k % COLOURS.length];
    context.globalAlpha = 0.9; // robots may share a tile
    context.fillRect(x - 0.3 * tile, y - 0.3 * tile, 0.6 * tile, 0.6 * tile);
    context.globalAlpha = 1;
    context.fillStyle = "#fff";
    context.font = `${0.4 * tile}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(decision ? ["→", "←", "↑", "↓", "✕"][decision.moves[k]] : "", x, y);
  });
}

async function lay(event) {
  const tile = tileSize();
  const place = [Math.floor(event.offsetX / tile), game.height - 1 - Math.floor(event.offsetY / tile)];
  const same = ([x, y]) => x === place[0] && y === place[1];
  if (isOver(game) || game.robots.some(same)) return;
  const others = game.mines.filter((mine) => !same(mine));
  await begin({ ...game, mines: others.length < game.mines.length ? others : [...game.mines, place] });
}

/** Games from start to end, with all moves, for tests. */
async function playAll(count) {
  const games = [];
  for (let number = 0; number < count; number++) {
    let one = fresh();
    const { mines, robots, width, height } = one;
    const moves = [];
    while (!isOver(one)) {
      const decided = await decide(ort, session, one, masks(one));
      moves.push(decided.moves);
      one = play(one, decided.moves);
    }
    games.push({ width, height, mines, robots, moves, won: isWon(one) });
    at("status").textContent = `${number + 1} games, ${games.filter((g) => g.won).length} won`;
  }
  at("log").textContent = JSON.stringify(games);
}

try {
  session = await ort.InferenceSession.create("./policy.onnx", { executionProviders: ["wasm"] });
  await begin(fresh());
  if (asked.has("games")) await playAll(Number(asked.get("games")));
  else run();
  at("new").onclick = () => begin(fresh());
  at("step").onclick = () => (pause(), step());
  at("play").onclick = () => (timer ? pause() : run());
  at("board").onclick = lay;
} catch (error) {
  at("status").textContent = `This does not work: ${error.message ?? error}`;
  throw error;
}
