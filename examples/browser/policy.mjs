// What the exported network is fed with, and what its answers mean. ragged_net/export.py has a table.

/** One frame as tensors: only counts and rows, whatever there is on the board. */
export function feedsOf(ort, { mines, robots }, masks) {
  const rows = (list) => new ort.Tensor("float32", Float32Array.from(list.flat()), [list.length, 2]);
  const counts = (...numbers) => new ort.Tensor("int64", BigInt64Array.from(numbers.map(BigInt)), [numbers.length]);
  const flags = (list, width) => new ort.Tensor("bool", Uint8Array.from(list.flat(), Number), [list.length, width]);
  return {
    "Mine/features": rows(mines),
    "Mine/lengths": counts(mines.length),
    "Robot/features": rows(robots),
    "Robot/lengths": counts(robots.length),
    // Entities are numbered in the order of their types: mines first.
    "Move/actors": counts(...robots.map((_, robot) => mines.length + robot)),
    "Move/lengths": counts(robots.length),
    "Move/mask": flags(masks, 5),
    // No cannon is on this board, and nobody fires one.
    "Orbital Cannon/features": new ort.Tensor("float32", new Float32Array(0), [0, 1]),
    "Orbital Cannon/lengths": counts(0),
    "Fire Orbital Cannon/actors": counts(),
    "Fire Orbital Cannon/lengths": counts(0),
    "Fire Orbital Cannon/actees": counts(),
    "Fire Orbital Cannon/actee_lengths": counts(0),
    "Fire Orbital Cannon/mask": flags([], 0),
  };
}

/** The probabilities of each robot's moves, the likeliest move of each, and the value of the board. */
export async function decide(ort, session, game, masks) {
  const { "Move/logits": logits, value } = await session.run(feedsOf(ort, game, masks));
  const probs = game.robots.map((_, robot) => softmax(Array.from(logits.data.slice(5 * robot, 5 * robot + 5))));
  return { probs, moves: probs.map((own) => own.indexOf(Math.max(...own))), value: value.data[0] };
}

function softmax(logits) {
  const most = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - most));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}
