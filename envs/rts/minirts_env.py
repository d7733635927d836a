"""Mini-RTS as environments in Python: one player against a built-in one, and two players."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from entity_env.actions import Action
from entity_env.environment import Environment
from entity_env.errors import nearest, shorten
from entity_env.observation import Observation
from entity_env.seats.multi_player import (
    MultiPlayerEnvironment,
    Seat,
    SeatActions,
    SeatObservations,
)
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

from ..errors import EnvConfigError, check_flag, check_number, check_whole
from .minirts import MiniRts, advantage, hit_n_run, order, simple
from .minirts_units import UNIT_ACTIONS, legal, observe_units, tell_units
from .minirts_view import ACTION_SPACE, OBS_SPACE, observe
from .one_world import OneWorld
from .world import World

__all__ = ["OPPONENTS", "MiniRtsDuel", "MiniRtsEnv", "MiniRtsSettings"]

INTERFACES = ("strategic", "units")
OPPONENTS = ("random", "simple", "hit_n_run", "mixed")
LESS_HELP = 0.99
"""By what the most ticks of help are multiplied after each game."""


@dataclass(frozen=True)
class MiniRtsSettings:
    """The settings of a game against a built-in player, checked.

    Args:
        opponent: ``random``, ``simple``, ``hit_n_run``, or ``mixed``: one of the last two, drawn
            for each game.
        frame_skip: Every how many ticks the learner acts.
        opponent_skip: Every how many ticks the opponent does; None: as the learner.
        max_tick: When a game ends without a winner.
        fog: Whether the learner sees only what its units see.
        curriculum: The built-in player plays the learner's side for so many ticks at most at first.
        draw: The reward of a game that nobody wins. With 0 an untrained player can
            learn that not to lose is enough.
        shaping: So much of each change of ``minirts.advantage`` is added to rewards; it counts as 0
            after the end, so that all additions of a game sum up to what it began with.
        interface: ``strategic``, or ``units``: the learner tells each unit what to do.

    Raises:
        EnvConfigError: Settings that there are not.
    """

    opponent: str = "simple"
    frame_skip: int = 50
    opponent_skip: int | None = None
    max_tick: int = 30_000
    fog: bool = True
    curriculum: int = 0
    draw: float = 0.0
    shaping: float = 0.0
    interface: str = "strategic"

    def __post_init__(self) -> None:
        """Check them."""
        if self.interface not in INTERFACES:
            raise EnvConfigError(
                "there is no such interface",
                expected=f"one of {', '.join(INTERFACES)}",
                received=shorten(self.interface),
                hint=nearest(self.interface, INTERFACES),
            )
        if self.opponent not in OPPONENTS:
            raise EnvConfigError(
                "there is no such opponent",
                expected=f"one of {', '.join(OPPONENTS)}",
                received=shorten(self.opponent),
                hint=nearest(self.opponent, OPPONENTS),
            )
        check_whole("max_tick", self.max_tick, 2, 10_000_000)
        check_whole("frame_skip", self.frame_skip, 1, self.max_tick - 1)
        if self.opponent_skip is not None:
            check_whole("opponent_skip", self.opponent_skip, 1, self.max_tick)
        check_flag("fog", self.fog)
        check_whole("curriculum", self.curriculum, 0, self.max_tick - 1)
        check_number("draw", self.draw, -1000.0, 1000.0)
        check_number("shaping", self.shaping, -1000.0, 1000.0)

    @property
    def skips(self) -> tuple[int, int]:
        """The frame skips of the learner and its opponent."""
        return self.frame_skip, self.opponent_skip or self.frame_skip


class MiniRtsEnv(OneWorld[MiniRts], Environment):
    """Mini-RTS against a built-in player: gather, build an army, destroy the enemy's base.

    Entities:
        ``Own`` [kind, x, y, hp, command], ``Enemy`` [kind, x, y, hp] in sight, ``Resource`` [x, y,
        hp, own], and ``Remembered`` [kind, x, y]: enemy buildings that are out of sight. ``hp`` is
        a share. Global: money and tick.
    Actions:
        ``Order``: one of nine strategic actions; the mask leaves those that would tell any unit
        anything, and to idle. Who hits and runs finds the enemy in the fog, too, but the mask does
        not tell whether there is one. With ``interface=units`` every own unit that may act has a
        ``Command``: none, attack, gather, build something, or move two cells in one of eight
        directions; and who may attack a ``Target`` among enemies and remembered buildings.
    Reward:
        1 for a win, -1 for a defeat, ``draw`` for neither, at the end; and shaping, if any.
    End:
        A player alone has a base; or ``max_tick``, or a crowd in which nobody can move.
    Randomness:
        Places of bases and resources, and units at first.
    Source:
        Tian et al. 2017, "ELF: An Extensive, Lightweight and Flexible Research Platform for
        Real-time Strategy Games".

    Args:
        settings: Those of ``MiniRtsSettings``.
    """

    def __init__(self, **settings: Any) -> None:
        self.settings = _settings(settings)
        self.game, self.has_fog = MiniRts(), self.settings.fog
        self._most_help = float(self.settings.curriculum)
        self._ahead = 0.0
        self._opponent = self.settings.opponent

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return OBS_SPACE

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """``Order``, or ``Command`` and ``Target``."""
        return ACTION_SPACE if self.settings.interface == "strategic" else UNIT_ACTIONS

    def reset(self) -> Observation:
        """Begin a game; with a curriculum the built-in player plays its beginning."""
        while True:
            world = self.begun(self.settings.max_tick)
            self._opponent = self.settings.opponent
            if self._opponent == "mixed":
                self._opponent = OPPONENTS[world.draw(1, 2)]
            help_until = world.draw(0, int(self._most_help))
            self._most_help *= LESS_HELP
            while not world.is_over and world.tick < help_until:
                if world.tick % self.settings.frame_skip == 0:
                    _act_scripted(world, 0, self._opponent)
                self._tick()
            self._until_asked()
            if not world.is_over:
                self._ahead = advantage(world, 0)
                return self._observe(0.0)

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Order something, and let ``frame_skip`` ticks pass."""
        world = self.running()
        _tell(world, 0, actions, self.settings)
        self._tick()
        self._until_asked()
        ahead = 0.0 if world.is_over else advantage(world, 0)
        reward = self.settings.shaping * (ahead - self._ahead)
        self._ahead = ahead
        if world.is_over:
            reward += {0: 1.0, 1: -1.0}.get(world.winner, self.settings.draw)
        return self._observe(reward)

    def _observe(self, reward: float) -> Observation:
        assert self.world is not None
        return _show(self.world, 0, reward, self.settings)

    def _until_asked(self) -> None:
        world = self.world
        assert world is not None
        while not world.is_over and world.tick % self.settings.frame_skip:
            self._tick()

    def _tick(self) -> None:
        world = self.world
        assert world is not None
        if world.tick % self.settings.skips[1] == 0:
            _act_scripted(world, 1, self._opponent)
        world.play_tick()


class MiniRtsDuel(OneWorld[MiniRts], MultiPlayerEnvironment):
    """Mini-RTS for two players, who act every so many ticks; see ``MiniRtsEnv``.

    Args:
        frame_skip: Every how many ticks the first seat acts.
        max_tick: When a game ends without a winner.
        fog: Whether players see only what their units see.
        opponent_skip: Every how many ticks the second seat acts; None: as the first.
        interface: ``strategic``, or ``units``: players tell each unit what to do. Who has no unit
            that may be told anything waits.
    """

    def __init__(
        self,
        frame_skip: int = 50,
        max_tick: int = 30_000,
        fog: bool = True,
        opponent_skip: int | None = None,
        interface: str = "strategic",
    ) -> None:
        self.settings = MiniRtsSettings(
            frame_skip=frame_skip,
            opponent_skip=opponent_skip,
            max_tick=max_tick,
            fog=fog,
            interface=interface,
        )
        self.game, self.has_fog = MiniRts(), fog

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return OBS_SPACE

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """``Order``, or ``Command`` and ``Target``."""
        return ACTION_SPACE if self.settings.interface == "strategic" else UNIT_ACTIONS

    def seats(self) -> list[int]:
        """Player 0 and player 1."""
        return [0, 1]

    def reset(self) -> SeatObservations:
        """Begin a game."""
        self.begun(self.settings.max_tick)
        return self._until_asked()

    def act(self, actions: SeatActions) -> SeatObservations:
        """Let those who are asked order something, and let ticks pass until somebody is again."""
        world = self.running()
        for player in self._asked():
            _tell(world, player, actions[player], self.settings)
        world.play_tick()
        return self._until_asked()

    def _until_asked(self) -> SeatObservations:
        world = self.world
        assert world is not None
        while not world.is_over and not self._asked():
            world.play_tick()
        return self._observe()

    def _asked(self) -> list[int]:
        assert self.world is not None
        turns = [p for p, skip in enumerate(self.settings.skips) if self.world.tick % skip == 0]
        if self.settings.interface == "strategic":
            return turns
        return [p for p in turns if legal(self.world, p, self.settings.fog)]

    def _observe(self) -> SeatObservations:
        world = self.world
        assert world is not None
        won = world.winner if world.is_over else -1
        told: dict[Seat, Observation] = {}
        for p in (0, 1):
            reward = 0.0 if won < 0 else 1.0 if won == p else -1.0
            told[p] = _show(world, p, reward, self.settings)
            if p not in self._asked():
                told[p].actions = {}
        return told


def _settings(given: dict[str, Any]) -> MiniRtsSettings:
    names = list(MiniRtsSettings.__dataclass_fields__)
    for name in given:
        if name not in names:
            raise EnvConfigError(
                f"there is no setting {name!r}", options=names, hint=nearest(name, names)
            )
    return MiniRtsSettings(**given)


def _commands(actions: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the commanded units and their commands."""
    if "Command" not in actions:
        return (), ()
    return actions["Command"].actors, actions["Command"].indices


def _show(world: World, player: int, reward: float, settings: MiniRtsSettings) -> Observation:
    shows = observe if settings.interface == "strategic" else observe_units
    return shows(world, player, reward, settings.fog)


def _tell(
    world: World, player: int, actions: Mapping[ActionName, Action], settings: MiniRtsSettings
) -> None:
    """Let a player who is asked do what it has chosen."""
    given: Any = actions
    if settings.interface == "strategic":
        order(world, player, {int(given["Order"].index)})
        return
    aimed: dict[Any, Any] = {}
    if "Target" in given:
        aimed = dict(zip(given["Target"].actors, given["Target"].actees, strict=True))
    told = zip(*_commands(given), strict=True)
    tell_units(world, player, {uid: (int(i), aimed.get(uid, -1)) for uid, i in told})


def _act_scripted(world: World, player: int, who: str) -> None:
    scripts = {"simple": simple, "hit_n_run": hit_n_run}
    given = {world.draw(0, 8)} if who == "random" else scripts[who](world, player)
    order(world, player, given)
