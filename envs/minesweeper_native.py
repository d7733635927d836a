"""MineSweeper for all rows at once: the game of ``minesweeper.py``, a hundred times as fast.

rows = MineSweeperVec(128, seed=1, width=6, height=6, nmines=5, nrobots=2)
obs = rows.reset()
obs = rows.act(random_policy(seed=1)(obs))  # from entity_env.play

"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from entity_env.batching.ragged import ActionBuffer, RaggedBufferI64
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import Environment, check_seed
from entity_env.errors import (
    DAMAGES,
    EntityEnvError,
    ObservationError,
    ResetNeededError,
    StateError,
    shorten,
)
from entity_env.metrics import EpisodeTracker
from entity_env.rows.vec_env import VecEnv, check_count, check_saved_rows, damaged_state
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

from .minesweeper import MineSweeper
from .minesweeper_board import (
    HEIGHT,
    LENGTH,
    MINES,
    ROBOTS,
    STEP,
    WIDTH,
    restart,
    rules_of,
)
from .minesweeper_checks import Position, check_state
from .minesweeper_frames import COUNTS, FrameWriter, LastFrames, observe
from .minesweeper_kernels import advance, is_legal
from .minesweeper_rules import ACTION_SPACE, OBS_SPACE

__all__ = ["MineSweeperVec"]

_RANDOM = "SplitMix64"
_LONGEST = 2**30  # steps of an episode, which are counted in 32 bits
_METRICS = ("episodic_length", "episodic_reward", "win")


class MineSweeperVec(VecEnv):
    """R rows of MineSweeper, compiled; ``MineSweeper`` says what the game is.

    The random numbers are not those of ``MineSweeper``: the same seed gives other boards. Row i
    of a seed is the same in any number of rows.

    Args:
        num_envs: The number of rows R.
        seed: Seeds all rows.
        settings: The arguments of ``MineSweeper``.

    Raises:
        EnvConfigError: Settings that ``MineSweeper`` refuses.
    """

    environment: ClassVar[type[Environment]] = MineSweeper

    def __init__(self, num_envs: int, seed: int = 0, **settings: Any) -> None:
        rows = check_count("number of environments", num_envs)
        self._game = MineSweeper(**settings)
        self._settings = own = self._game.settings
        self._rules = rules_of(own)
        self._facts = np.zeros((rows, 6), np.int32)
        self._mines = np.zeros((rows, own.nmines[1], 2), np.int32)
        self._robots = np.zeros((rows, own.nrobots[1], 2), np.int32)
        self._cooldowns = np.zeros((rows, own.ncannons), np.int32)
        self._returns = np.zeros(rows, np.float64)
        self._board = (self._facts, self._mines, self._robots, self._cooldowns)
        most = (rows, own.nmines[1], own.nrobots[1], own.ncannons)
        self._writer, self._last_frames = FrameWriter(*most), LastFrames(*most)
        self._step = 0
        self._seed(seed)

    def obs_space(self) -> ObsSpace:
        """Mines, robots and cannons."""
        return OBS_SPACE

    def action_space(self) -> dict[ActionName, ActionSpace]:
        """``Move`` and ``Fire Orbital Cannon``."""
        return dict(ACTION_SPACE)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._facts)

    def has_state(self) -> bool:
        """Whether ``get_state`` works: it does."""
        return True

    def _seed(self, seed: int) -> None:
        # The words of a longer state begin with those of a shorter one.
        words = np.random.SeedSequence(check_seed(seed))
        self._streams = words.generate_state(len(self), np.uint64).astype(np.uint64, copy=False)

    def _reset(self, seed: int | None) -> VecObs:
        if seed is not None:
            self._seed(seed)
        self._step = 0
        restart(self._rules, self._board, self._streams, self._returns)
        return self._first()

    def _check(
        self, actions: Mapping[ActionName, ActionBuffer], obs: VecObs
    ) -> Mapping[ActionName, ActionBuffer]:
        """A quick yes for what is right; all else goes to the check that knows what is wrong."""
        if type(actions) is dict and len(actions) == 2 and actions.keys() == ACTION_SPACE.keys():
            moves, shots = actions["Move"], actions["Fire Orbital Cannon"]
            if (
                isinstance(moves, RaggedBufferI64)
                and isinstance(shots, RaggedBufferI64)
                and moves.size0() == shots.size0() == len(self)
                and moves.size2() == shots.size2() == 1
            ):
                moves, shots = moves.materialize(), shots.materialize()  # they may be views
                chosen = moves.as_array(), moves.size1(), shots.as_array(), shots.size1()
                if is_legal(self._board, *chosen):
                    return {"Move": moves, "Fire Orbital Cannon": shots}
        return super()._check(actions, obs)

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        self._step += 1
        rows = len(self)
        reward = np.empty(rows, np.float32)
        done, truncated = np.empty(rows, np.bool_), np.empty(rows, np.bool_)
        columns = np.empty((len(_METRICS), rows), np.float64)
        lengths = np.zeros((COUNTS, rows), np.int64)
        (ended, cut_off, nmines, nrobots), totals = advance(
            self._rules,
            self._board,
            self._streams,
            self._returns,
            chosen["Move"].as_array(),
            chosen["Fire Orbital Cannon"].as_array(),
            reward,
            done,
            truncated,
            columns,
            self._last_frames.arrays,
            lengths,
            self._writer.arrays,
        )
        final = None
        if cut_off:
            final = self._last_frames.read(cut_off, nmines, nrobots)
        metrics = dict(zip(_METRICS, columns, strict=True)) if ended else {}
        return self._writer.write(lengths, totals, reward, done, truncated, metrics, final)

    def _first(self) -> VecObs:
        """The observation of a moment that no step led to."""
        rows = len(self)
        reward, done = np.zeros(rows, np.float32), np.zeros(rows, np.bool_)
        lengths = np.zeros((COUNTS, rows), np.int64)
        totals = observe(self._board, lengths, self._writer.arrays)
        return self._writer.write(lengths, totals, reward, done, done.copy(), {}, None)

    def _get_state(self) -> list[Any]:
        if not self._facts[:, WIDTH].all():  # no board yet
            raise ResetNeededError("no episode has been started", hint="call reset() first")
        return [
            {
                "env": self._single(row).get_state(),
                "rng": {"bit_generator": _RANDOM, "state": int(self._streams[row])},
                "episode": {
                    "reward": float(self._returns[row]),
                    "length": int(self._facts[row, LENGTH]),
                    "metrics": {},
                },
                "step": self._step,
            }
            for row in range(len(self))
        ]

    def _set_state(self, state: list[Any]) -> VecObs:
        check_saved_rows(state, len(self))
        rows = []
        for row, saved in enumerate(state):
            try:
                rows.append(self._read_row(saved))
            except EntityEnvError as error:
                raise error.located(f"environment {row}, set_state") from error.__cause__
        for row, place in enumerate(rows):
            self._place(row, *place)
        self._step = int(state[0]["step"])
        return self._first()

    def _read_row(self, saved: Any) -> tuple[Position, int, float, int]:
        """A row's position, random state, reward so far and steps so far."""
        episode = EpisodeTracker()
        try:
            kind, bits = saved["rng"]["bit_generator"], saved["rng"]["state"]
            episode.set_state(saved["episode"])
            own, _ = saved["env"], int(saved["step"])
            if kind == _RANDOM and not 0 <= int(bits) < 2**64:
                raise ValueError(f"random state {bits}")
            if episode.length >= _LONGEST:
                raise ValueError(f"an episode of {episode.length} steps")
        except DAMAGES as error:
            raise damaged_state(saved, error) from error
        if kind != _RANDOM:
            raise StateError(
                "the random numbers are those of another kind of environment",
                expected=_RANDOM,
                received=shorten(kind),
                hint="saved by the readable MineSweeper: env._target_=minesweeper_python",
            )
        position = check_state(own, self._settings)
        if not position.mines or not position.robots or position.steps >= self._game.max_steps:
            raise ObservationError(
                "set_state led to an observation that is done",
                expected="done=False: a new episode has at least one step",
            )
        return position, int(bits), episode.reward, episode.length

    def _place(self, row: int, position: Position, bits: int, reward: float, length: int) -> None:
        mines, robots = position.mines, position.robots
        self._facts[row, [WIDTH, HEIGHT]] = position.size
        self._facts[row, [MINES, ROBOTS]] = len(mines), len(robots)
        self._facts[row, [STEP, LENGTH]] = position.steps, length
        self._mines[row, : len(mines)] = mines
        self._robots[row, : len(robots)] = robots
        self._cooldowns[row] = position.cooldowns
        self._streams[row] = bits
        self._returns[row] = reward

    def _single(self, row: int) -> MineSweeper:
        """The game of one row, on its own."""
        width, height, mines, robots, step, _ = self._facts[row].tolist()
        self._game.set_state(
            {
                "mines": self._mines[row, :mines].tolist(),
                "robots": self._robots[row, :robots].tolist(),
                "cooldowns": self._cooldowns[row].tolist(),
                "steps": step,
                "size": [width, height],
            }
        )
        return self._game

    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        return [self._single(row).render(**kwargs) for row in range(len(self))]

    def _close(self) -> None:
        """There is nothing to release."""
