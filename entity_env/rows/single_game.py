"""Single games of compiled rows, for checks, pictures, the terminal, replays and other libraries.

    class Snake(CompiledEnvironment):
        rows = SnakeRows

    observation = Snake(size=8).reset()

They call the same functions as the rows, without compiling them. ``Snake(compiled=True)`` compiles
them: it begins later, but plays large games much faster.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from entity_env.actions import Action
from entity_env.batching.unbatch import batched_actions, observations_of
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import Environment, Playable
from entity_env.errors import ResetNeededError, StateError, shorten
from entity_env.multi_player import MultiPlayerEnvironment, SeatActions, SeatObservations
from entity_env.observation import Observation
from entity_env.rows.compiled import CompiledRows
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["CompiledEnvironment", "CompiledPlayers"]

_OF_EPISODES = ("episodic_reward", "episodic_length")
"""Metrics that are added by the rows or functions that play the environment."""


def render(game: _SingleGame, **kwargs: Any) -> npt.NDArray[np.uint8]:
    """Return a picture of the first seat that must act; arguments: those of ``draw_row``."""
    return game._rows.draw_row(int(game._begun().rows[0]), **kwargs)


class _SingleGame(Playable):
    """One game of ``rows``, with its settings.

    The random numbers are those of the rows: ``seed`` starts the stream of the first row of
    ``rows(seed=...)``, and a saved state contains it.
    """

    rows: ClassVar[Callable[..., CompiledRows]]
    """The class of rows that plays the game; it takes ``num_envs``, ``seed`` and the settings."""

    # Its random numbers are not those of ``self.rng``, so that a search would know them.
    hides_state = True

    def __init_subclass__(cls) -> None:
        """Copy the signature of the rows, and their lists of settings with files, to the class.

        The keyword ``compiled`` is added to the signature. If the rows define ``draw_row``, the
        game has a ``render`` method.
        """
        if "rows" in vars(cls):
            given = inspect.signature(cls.rows).parameters.values()
            settings = [own for own in given if own.name not in ("num_envs", "seed")]
            signature = inspect.Signature(_with_compiled(settings))
            cls.__signature__ = signature  # type: ignore[attr-defined]
            draw_row = getattr(cls.rows, "draw_row", CompiledRows.draw_row)
            if draw_row is not CompiledRows.draw_row and cls.render is Playable.render:
                cls.render = render  # type: ignore[assignment]
            for name in ("consent_settings", "kept_settings"):
                if hasattr(cls.rows, name):
                    setattr(cls, name, inspect.getattr_static(cls.rows, name))

    def __init__(self, *args: Any, **settings: Any) -> None:
        named = inspect.signature(type(self)).bind(*args, **settings).arguments
        settings |= named.pop("settings", {}) | named
        self._settings = settings
        of_rows = {name: own for name, own in settings.items() if name != "compiled"}
        self._rows = type(self).rows(num_envs=None, **of_rows)
        if settings.get("compiled", False):
            self._rows.keep_over()
        else:
            self._rows.interpret()
        self._seed: int | None = None
        self._shown: list[Observation] = []
        self._obs: VecObs | None = None
        self._is_over = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return a separate game with the same state; copied rows would not share arrays."""
        made = type(self)(**self._settings)
        kept = {"_obs": self._obs, "_shown": self._shown}  # never changed
        own = {name: value for name, value in vars(self).items() if name not in ("_rows", *kept)}
        vars(made).update(deepcopy(own, memo), **kept)
        if self._obs is not None:
            made._rows.reset()
            made._rows.put_games([0], self._rows.copy_games([0]))
        return made

    @property
    def num_seats(self) -> int:
        """The number of seats."""
        return self._rows.num_seats

    def fields(self) -> dict[str, Any]:
        """Return the state and the settings of the game by name, as numbers and lists."""
        return {**self._rows._game.settings, **self._rows.save_game(0)}

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self._rows.obs_space()

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Return the action space."""
        return self._rows.action_space()

    def seed(self, seed: int) -> None:
        """Seed the game from its next reset on."""
        super().seed(seed)
        self._seed = seed

    def get_state(self) -> dict[str, Any]:
        """Return the state of the game and its random numbers as JSON values."""
        if self._is_over:
            raise StateError("the game is over, and cannot be saved", hint="call reset() first")
        return {"rows": self._rows.get_state()}

    def close(self) -> None:
        """Release the resources of the rows."""
        self._rows.close()

    def _reset(self) -> VecObs:
        if self._obs is None and self._seed is None:
            self._seed = int(self.rng.integers(2**32))
        seed, self._seed = self._seed, None
        return self._show(self._rows.reset(seed))

    def _set_state(self, state: Mapping[str, Any]) -> VecObs:
        if not isinstance(state, Mapping) or "rows" not in state:
            raise StateError(
                "the saved state is not a state of this game",
                expected='{"rows": ...}',
                received=shorten(state),
            )
        obs = self._rows.set_state(state["rows"])
        self._seed = None  # the state has its own random numbers
        return self._show(obs)

    def _play(self, actions: Sequence[Mapping[ActionName, Action]]) -> VecObs:
        """Play a step with the actions of each row that must act."""
        obs = self._begun()
        if self._is_over:
            raise ResetNeededError("the game is over", hint="call reset() first")
        spaces = self.obs_space(), self.action_space()
        return self._show(self._rows.act(batched_actions(actions, self._shown, obs, *spaces)))

    def _begun(self) -> VecObs:
        if self._obs is None:
            raise ResetNeededError("no game has been started", hint="call reset() first")
        return self._obs

    def _show(self, obs: VecObs) -> VecObs:
        self._obs = obs
        self._is_over = bool((obs.done if obs.over is None else obs.over).any())
        self._shown = observations_of(obs, self.obs_space(), self.action_space())
        return obs

    def _observation(self, number: int) -> Observation:
        """Return the observation of a frame, with the reward and the end of its row."""
        seen = _copied(self._shown[number])  # the caller may change it
        return self._told(seen, int(self._begun().rows[number]))

    def _told(self, seen: Observation, row: int) -> Observation:
        """Add the reward and the end of a row to an observation."""
        obs = self._begun()
        seen.reward = float(obs.reward[row])
        seen.done, seen.truncated = bool(obs.done[row]), bool(obs.truncated[row])
        if seen.done:
            numbers = {name: float(own[row]) for name, own in obs.metrics.items()}
            seen.metrics = {name: own for name, own in numbers.items() if name not in _OF_EPISODES}
        return seen


def _with_compiled(settings: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """Add the keyword ``compiled``, before a parameter for all other keywords."""
    own = inspect.Parameter("compiled", inspect.Parameter.KEYWORD_ONLY, default=False)
    rest = [one for one in settings if one.kind is inspect.Parameter.VAR_KEYWORD]
    return [*(one for one in settings if one not in rest), own, *rest]


def _copied(seen: Observation) -> Observation:
    """Return an observation with lists and arrays of its own, faster than ``deepcopy``."""
    made: Any = copy(seen)
    for name in ("features", "ids", "visible"):
        own = getattr(seen, name)
        setattr(made, name, {key: part.copy() for key, part in own.items()})
    made.global_features = np.array(seen.global_features)
    made.actions = {name: copy(mask) for name, mask in made.actions.items()}
    for mask in made.actions.values():
        for part in fields(mask):
            value = getattr(mask, part.name)
            if isinstance(value, list | np.ndarray):
                setattr(mask, part.name, value.copy())
    return made  # type: ignore[no-any-return]


class CompiledEnvironment(_SingleGame, Environment):
    """One game of compiled rows as an environment; a subclass names the class of the rows.

    The keyword ``compiled=True`` runs compiled functions. The id of an entity is its type and its
    place among those of its type, such as ``("Robot", 0)``.
    """

    def reset(self) -> Observation:
        """Start a game."""
        self._reset()
        return self.observe()

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Play one step."""
        self._play([actions])
        return self.observe()

    def set_state(self, state: Mapping[str, Any]) -> Observation:
        """Go back to what ``get_state`` returned."""
        self._set_state(state)
        return self.observe()

    def observe(self) -> Observation:
        """Return the observation of the current state."""
        return self._observation(0)


class CompiledPlayers(_SingleGame, MultiPlayerEnvironment):
    """One game of compiled rows for several players; a subclass names the class of the rows.

    The keyword ``compiled=True`` runs compiled functions. The name of a seat is its number, unless
    the subclass overrides ``seats``.
    """

    def seats(self) -> Sequence[Any]:
        """Return the seats in the order of their rows."""
        return range(self.num_seats)

    def is_over(self) -> bool | None:
        """Return True if the game is over, for games whose seats leave and join; else None."""
        return self._is_over if self._rows.seats_may_leave else None

    def reset(self) -> SeatObservations:
        """Start a game."""
        self._reset()
        return self._observations()

    def act(self, actions: SeatActions) -> SeatObservations:
        """Play one step with the actions of the seats that must act."""
        seats = self.seats()
        self._play([actions.get(seats[row], {}) for row in self._begun().rows])
        return self._observations()

    def set_state(self, state: Mapping[str, Any]) -> SeatObservations:
        """Go back to what ``get_state`` returned."""
        self._set_state(state)
        return self._observations()

    def _observations(self) -> SeatObservations:
        """Return observations for the seats that must act, and rewards and ends of the others."""
        obs, seats = self._begun(), self.seats()
        seen = {seats[row]: self._observation(i) for i, row in enumerate(obs.rows)}
        for row in np.flatnonzero((obs.reward != 0) | obs.done):
            if seats[row] not in seen:
                unseen = [0.0] * len(self.obs_space().global_features)
                told = Observation(features={}, global_features=unseen, reward=0.0)
                seen[seats[row]] = self._told(told, int(row))
        return seen
