// A board as an observation, and the answers of the exported network as moves.

import { inputsOf } from "./observation.mjs";

/** spaces.json of a run of env=minesweeper, as far as the inputs depend on it. */
const SPACES = {
  global_features: [],
  entities: [
    { name: "Mine", features: ["x", "y"] },
    { name: "Robot", features: ["x", "y"] },
    { name: "Orbital Cannon", features: ["cooldown"] }, // none is on this board, and nobody fires one
  ],
  actions: [
    { kind: "categorical", name: "Move", labels: ["Right", "Left", "Up", "Down", "Defuse Mines"] },
    { kind: "select_entity", name: "Fire Orbital Cannon" },
  ],
};

/** Robots are alike if their probabilities of the same move differ by less than this. */
const ALIKE = 0.03;

/** The probabilities of each robot's moves, the greedy move of each, and the value of the board. */
export async function decide(ort, session, game, masks) {
  const observation = {
    features: { Mine: game.mines, Robot: game.robots },
    actions: { Move: { actors: game.robots.map((_, robot) => ["Robot", robot]), mask: masks } },
  };
  const { "Move/logits": logits, value } = await session.run(inputsOf(ort, observation, SPACES));
  const probs = game.robots.map((_, robot) => softmax(Array.from(logits.data.slice(5 * robot, 5 * robot + 5))));
  return { probs, moves: greedyMoves(probs), value: value.data[0] };
}

/**
 * The most likely move of each robot. Robots with the same most likely move and nearly the same probability of it
 * are divided among the moves: the j-th of k takes the move at the quantile (j + 1/2) / k, the most likely first.
 * This is what ragged_net/heads/greedy.py does.
 */
export function greedyMoves(probs) {
  const moves = probs.map((row) => row.indexOf(Math.max(...row)));
  const largest = probs.map((row) => Math.max(...row));
  const order = probs.map((_, robot) => robot).sort((a, b) => moves[a] - moves[b] || largest[a] - largest[b]);
  const groups = [];
  let first, part;
  order.forEach((robot, k) => {
    const last = order[k - 1];
    const isNear = k > 0 && moves[last] === moves[robot] && largest[robot] - largest[last] < ALIKE;
    if (!isNear) first = robot;
    // Neighbours may be alike although the first and the last are not: then the range is cut up.
    const before = part;
    part = Math.floor((largest[robot] - largest[first]) / ALIKE);
    if (isNear && part === before) groups.at(-1).push(robot);
    else groups.push([robot]);
  });
  const greedy = [...moves];
  for (const group of groups.filter((robots) => robots.length > 1)) {
    group.forEach((robot, j) => (greedy[robot] = moveAt((j + 0.5) / group.length, probs[robot])));
  }
  return greedy;
}

function moveAt(quantile, probs) {
  const order = probs.map((_, move) => move).sort((a, b) => probs[b] - probs[a]);
  let sum = 0;
  return order.find((move) => (sum += probs[move]) >= quantile) ?? order[0];
}

function softmax(logits) {
  const most = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - most));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}
