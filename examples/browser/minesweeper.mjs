// The rules of MineSweeper, as in envs/minesweeper.py without cannons; nothing here draws or decides.

export const MOVES = ["right", "left", "up", "down", "defuse"];
const STEPS = [[1, 0], [-1, 0], [0, 1], [0, -1]];
export const DEFUSE = 4;

/** A generator of numbers from 0 to 1 (mulberry32): one seed gives one game. */
export function randomNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A fresh game: mines and robots are lists of [x, y] on different tiles, y up. */
export function newGame({ width, height, mines, robots, random }) {
  const tiles = Array.from({ length: width * height }, (_, tile) => [tile % width, Math.floor(tile / width)]);
  for (let last = tiles.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [tiles[last], tiles[other]] = [tiles[other], tiles[last]];
  }
  return { width, height, mines: tiles.slice(0, mines), robots: tiles.slice(mines, mines + robots), steps: 0 };
}

/** Which of the five moves each robot has: it may not leave the board. */
export function masks({ width, height, robots }) {
  return robots.map(([x, y]) => [x < width - 1, x > 0, y < height - 1, y > 0, true]);
}

export function isWon(game) {
  return game.mines.length === 0;
}

export function isOver(game, mostSteps = 100) {
  return isWon(game) || game.robots.length === 0 || game.steps >= mostSteps;
}

/** The game after each robot has made its move, an index into MOVES; the given game stays as it is. */
export function play(game, moves) {
  const cleared = new Set();
  const moved = game.robots.map(([x, y], robot) => {
    if (moves[robot] !== DEFUSE) {
      const [dx, dy] = STEPS[moves[robot]];
      return [x + dx, y + dy];
    }
    for (const [dx, dy] of [[0, 0], ...STEPS]) cleared.add(`${x + dx},${y + dy}`);
    return [x, y];
  });
  const mines = game.mines.filter((tile) => !cleared.has(`${tile}`));
  const mined = new Set(mines.map(String));
  const robots = moved.filter((tile) => !mined.has(`${tile}`)); // who steps on a mine is lost
  return { ...game, mines, robots, steps: game.steps + 1 };
}
