"""First steps of the scripts and environments of a run, played before it trains."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from entity_env import Observation, VecEnv
from entity_env.agent import RandomAgent
from entity_env.batching.unbatch import observations_of
from entity_env.environment import begin_episode, seed_environment
from entity_env.errors import SettingError, shorten
from entity_env.play import VecPolicy, play
from entity_env.scripted_agent import ScriptedAgent, is_script, load_script
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.players.opponents import make_opponent

__all__ = ["rehearse", "rehearse_opponents", "rehearse_script"]


def rehearse(config: TrainConfig, game: Game) -> None:
    """Play one step with the scripted player, each scripted opponent and ``eval.env``.

    It reports mistakes in them now, which otherwise would end the run later.

    Args:
        config: Settings of the training that is about to begin.
        game: Game of the training.

    Raises:
        SettingError: One of them does not exist or fails; the message shows an example of actions.
    """
    if config.eval.episodes or config.eval.every or config.selfplay.ratings:
        whole = replace(game.evaluated(config), shown=None)
        if config.eval.env:
            # Rows, not one environment: in a crowded world a single seat may wait for ever.
            with (
                _explained("eval.env", f"the environment with {config.eval.env}"),
                whole.rows(whole.whole(1), seed=0) as rows,
            ):
                _play_a_step(rows, RandomAgent(*_spaces(rows), seed=0).act_rows)
        rehearse_script(config.eval.scripted, whole)
    elif config.eval.scripted is not None:
        load_script(config.eval.scripted, "eval.scripted", SettingError)
    rehearse_opponents("selfplay.opponents", config.selfplay.opponents, game)


def rehearse_script(scripted: str | None, game: Game) -> None:
    """Play one step with the scripted player of evaluations, if there is one.

    Raises:
        SettingError: It does not exist or fails; the message shows an example of actions.
    """
    if scripted is None:
        return
    script = load_script(scripted, "eval.scripted", SettingError)
    failing, whole = f"the script {scripted!r}", replace(game, shown=None, replays=None)
    if whole.is_compiled:  # it plays these in rows, and their single games are slow
        with whole.rows(1, seed=0) as rows:
            spaces = _spaces(rows)
            (shown,) = observations_of(rows.reset(), *spaces)
            with _explained("eval.scripted", failing, spaces, shown):
                _play_a_step(rows, ScriptedAgent(script, *spaces).act_rows)
        return
    with contextlib.closing(whole()) as env:
        spaces = env.obs_space(), env.action_space()
        seed_environment(env, 0)
        shown = begin_episode(env.reset)
        with _explained("eval.scripted", failing, spaces, shown):
            env.act(ScriptedAgent(script, *spaces).act(shown))


def rehearse_opponents(setting: str, names: Sequence[str], game: Game) -> None:
    """Play one step with each opponent that is a script.

    Raises:
        SettingError: One of them does not exist or fails.
    """
    for name in filter(is_script, names):
        with replace(game, replays=None).rows(game.whole(1), seed=0) as rows:
            agent = make_opponent(name, *_spaces(rows))
            with _explained(setting, f"the script {name!r}"):
                _play_a_step(rows, agent.act_rows)


def _play_a_step(rows: VecEnv, policy: VecPolicy) -> None:
    steps = play(rows, policy)
    next(steps)
    next(steps)


def _spaces(rows: VecEnv) -> tuple[Any, Any]:
    return rows.obs_space(), rows.action_space()


@contextlib.contextmanager
def _explained(
    setting: str,
    failing: str,
    spaces: tuple[Any, Any] | None = None,
    shown: Observation | None = None,
) -> Iterator[None]:
    """Raise a SettingError for any error in the block, with actions for ``shown`` as an example."""
    try:
        yield
    except Exception as error:  # scripts and environments may raise anything
        cause: BaseException = error
        example = None
        if isinstance(error, SettingError) and error.__cause__ is not None:
            cause = error.__cause__  # that of the script
        if spaces is not None and shown is not None:
            example = f"actions such as {_written(RandomAgent(*spaces, seed=0).act(shown))}"
        raise SettingError(
            f"{setting}: {failing} failed in its first step: {type(cause).__name__}: {cause}",
            expected=example,
        ) from cause


def _written(actions: Mapping[str, Any]) -> str:
    """Return actions as the Python code of a script."""
    parts = []
    for name, action in actions.items():
        values = {field.name: getattr(action, field.name) for field in fields(action)}
        given = [f"{key}={_value(value)}" for key, value in values.items() if value is not None]
        parts.append(f"{name!r}: {type(action).__name__}({', '.join(given)})")
    return "{" + ", ".join(parts) + "}"


def _value(value: Any) -> str:
    return f"np.array({value.tolist()})" if isinstance(value, np.ndarray) else shorten(value)
