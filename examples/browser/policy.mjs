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

/** The probabilities of each robot's moves, the most likely move of each, and the value of the board. */
export async function decide(ort, session, game, masks) {
  const observation = {
    features: { Mine: game.mines, Robot: game.robots },
    actions: { Move: { actors: game.robots.map((_, robot) => ["Robot", robot]), mask: masks } },
  };
  const { "Move/logits": logits, value } = await session.run(inputsOf(ort, observation, SPACES));
  const probs = game.robots.map((_, robot) => softmax(Array.from(logits.data.slice(5 * robot, 5 * robot + 5))));
  return { probs, moves: probs.map((own) => own.indexOf(Math.max(...own))), value: value.data[0] };
}

function softmax(logits) {
  const most = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - most));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}
