"""Check that an environment continues the same game from a saved state."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

from entity_env.agent import random_policy
from entity_env.batching.vec_obs import VecObs
from entity_env.checking.check_tools import COPIES, difference, pack_obs
from entity_env.environment import Environment
from entity_env.errors import StateError, shorten
from entity_env.own_methods import OwnMethodWarning
from entity_env.rows.list_env import ListEnv
from entity_env.rows.vec_env import VecEnv

__all__ = ["check_state"]

_CONTINUED = 20
"""Number of steps for which a restored game is compared."""
_SHOWN = ("rows", "features", "global_features", "visible", "masks")
"""The parts of an observation that ``set_state`` restores."""


def _alone(create_env: Callable[[], Environment], seed: int) -> VecEnv:
    return ListEnv(create_env, 1, seed)


def check_state(
    create_env: Callable[[], Environment],
    steps: int,
    seed: int,
    make_rows: Callable[[Callable[[], Any], int], VecEnv] = _alone,
) -> None:
    """Save a game after some random steps, and compare its next steps with those of a copy.

    Args:
        create_env: Function that makes one environment, or one game of several players.
        steps: Number of steps before the game is saved.
        seed: Seed of the environment and of the random actions.
        make_rows: Function that makes the rows of ``create_env`` with a seed.
    """
    where = f"saved after step {steps}"
    with make_rows(create_env, seed) as env:
        first = _continue(env, env.reset(seed), steps, seed)[-1]
        state = env.get_state()
        try:
            text = json.dumps(state, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise StateError(f"the state is not JSON: {error}", received=shorten(state)) from error
        expected = _continue(env, first, _CONTINUED, seed + 1)
        if json.dumps(state) != text:
            raise StateError("a saved state changes when the game continues", hint=COPIES)
    with make_rows(create_env, seed + 1) as env:
        restored = _restored(env, json.loads(text), where)
        part = difference("", *({n: pack_obs(obs)[n] for n in _SHOWN} for obs in (first, restored)))
        if part is not None:
            raise StateError(f"set_state returns another observation: {part} differs", where=where)
        received = _continue(env, restored, _CONTINUED, seed + 1)
    for step, (a, b) in enumerate(zip(expected[1:], received[1:], strict=True), 1):
        part = difference("", pack_obs(a), pack_obs(b))
        if part is not None:
            raise StateError(
                f"a restored game continues differently: {part} differs in step {step}",
                hint="get_state must return everything that reset and act change, except self.rng",
                where=where,
            )


def _restored(env: VecEnv, state: list[Any], where: str) -> VecObs:
    with warnings.catch_warnings():
        warnings.simplefilter("error", OwnMethodWarning)  # rows themselves begin new episodes
        try:
            return env.set_state(state)
        except OwnMethodWarning as warning:
            raise StateError(
                "set_state does not return an observation",
                expected="the Observation at the step of the saved state",
                received=str(warning),
                where=where,
            ) from None


def _continue(env: VecEnv, obs: VecObs, steps: int, seed: int) -> list[VecObs]:
    """Return ``obs`` and the observations of the next ``steps`` random steps."""
    policy = random_policy(seed)
    game = [obs]
    for _ in range(steps):
        game.append(env.act(policy(game[-1])))
    return game
