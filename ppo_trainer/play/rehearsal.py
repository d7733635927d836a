"""First steps of the scripts and environments of a run, played before it trains."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from entity_env import Observation
from entity_env.actions import Action
from entity_env.agent import Policy, RandomAgent
from entity_env.environment import begin_episode, seed_environment
from entity_env.errors import SettingError, shorten
from entity_env.player.scripted_agent import ScriptedAgent, is_script, load_script
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.errors import ConfigError
from ppo_trainer.players.opponents import make_opponent

__all__ = ["rehearse", "rehearse_opponents", "rehearse_script"]


def rehearse(config: TrainConfig, game: Game) -> None:
    """Play one step with the scripted player, each scripted opponent and ``eval.env``.

    It reports mistakes in them now, which otherwise would end the run later.

    Args:
        config: Settings of the training that is about to begin.
        game: Game of the training.

    Raises:
        ConfigError: One of them does not exist or fails; the message shows an example of actions.
    """
    if config.eval.episodes or config.eval.every or config.selfplay.ratings:
        whole = replace(game.evaluated(config), shown=None)
        if config.eval.env:
            _play_rows(config, whole)
        rehearse_script(config.eval.scripted, whole)
    elif config.eval.scripted is not None:
        load_script(config.eval.scripted, "eval.scripted", ConfigError)
    rehearse_opponents("selfplay.opponents", config.selfplay.opponents, game)


def rehearse_script(scripted: str | None, game: Game) -> None:
    """Play one step with the scripted player of evaluations, if there is one.

    Raises:
        ConfigError: It does not exist or fails; the message shows an example of actions.
    """
    if scripted is None:
        return
    script = load_script(scripted, "eval.scripted", ConfigError)
    whole = replace(game, shown=None, replays=None)
    # It plays compiled games in rows, and their single games are slow.
    play = _play_row if whole.is_compiled else _play_alone
    play(whole, _Rehearsed(scripted, script))


def rehearse_opponents(setting: str, names: Sequence[str], game: Game) -> None:
    """Play one step with each opponent that is a script.

    Raises:
        ConfigError: One of them does not exist or fails.
    """
    scripts = [name for name in names if is_script(name)]
    if not scripts:
        return
    with replace(game, replays=None).rows(game.whole(1), seed=0) as rows:
        obs, spaces = rows.reset(), (rows.obs_space(), rows.action_space())
        for name in scripts:
            agent = make_opponent(name, *spaces)
            try:
                agent.act_rows(obs)
            except Exception as error:  # a script may raise any exception
                raise _failed(setting, f"the script {name!r}", error) from error


def _play_rows(config: TrainConfig, game: Game) -> None:
    """Play the first step of the rows of an evaluation at random."""
    try:
        # Rows, not one environment: in a crowded world a single seat may wait for ever.
        with game.rows(game.whole(1), seed=0) as rows:
            agent = RandomAgent(rows.obs_space(), rows.action_space(), seed=0)
            rows.act(agent.act_rows(rows.reset()))
    except Exception as error:  # an environment may raise anything
        raise _failed("eval.env", f"the environment with {config.eval.env}", error) from error


class _Rehearsed:
    """A script that keeps the observation for an example of actions in its error."""

    def __init__(self, name: str, script: Policy) -> None:
        self._name, self._script = name, script
        self._seen: Observation | None = None

    def __call__(self, observation: Observation) -> Mapping[str, Action]:
        self._seen = observation
        actions = self._script(observation)
        if not isinstance(actions, Mapping):
            raise TypeError(f"it returned {shorten(actions)}, which is not a dict of actions")
        return actions

    def failed(self, chance: RandomAgent, error: BaseException) -> ConfigError:
        """Return the error for the exception of the step."""
        example = None if self._seen is None else _written(chance.act(self._seen))
        return _failed("eval.scripted", f"the script {self._name!r}", error, example)


def _play_alone(game: Game, script: _Rehearsed) -> None:
    """Play the first step of a single game with a script."""
    with contextlib.closing(game()) as env:
        seed_environment(env, 0)
        observation = begin_episode(env.reset)
        try:
            env.act(script(observation))
        except Exception as error:  # scripts and environments may raise anything
            chance = RandomAgent(env.obs_space(), env.action_space(), seed=0)
            raise script.failed(chance, error) from error


def _play_row(game: Game, script: _Rehearsed) -> None:
    """Play the first step of a row with a script."""
    with game.rows(1, seed=0) as rows:
        spaces, obs = (rows.obs_space(), rows.action_space()), rows.reset()
        try:
            rows.act(ScriptedAgent(script, *spaces).act_rows(obs))
        except Exception as error:  # a script may raise anything
            own = error.__cause__ if isinstance(error, SettingError) else None  # that of the script
            raise script.failed(RandomAgent(*spaces, seed=0), own or error) from error


def _failed(
    setting: str, what: str, error: BaseException, written: str | None = None
) -> ConfigError:
    return ConfigError(
        f"{setting}: {what} failed in its first step: {type(error).__name__}: {error}",
        expected=None if written is None else f"actions such as {written}",
    )


def _written(actions: Mapping[str, Any]) -> str:
    """Return actions as the Python code of a script."""
    parts = []
    for name, action in actions.items():
        own = {field.name: getattr(action, field.name) for field in fields(action)}
        given = [f"{key}={_value(value)}" for key, value in own.items() if value is not None]
        parts.append(f"{name!r}: {type(action).__name__}({', '.join(given)})")
    return "{" + ", ".join(parts) + "}"


def _value(value: Any) -> str:
    return f"np.array({value.tolist()})" if isinstance(value, np.ndarray) else shorten(value)
