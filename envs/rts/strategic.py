"""Any game that is played by orders to all units, as environments: one player, or two.

A game says what it shows and what its orders mean; ``StrategicEnv`` lets one player play against a
built-in one, ``StrategicDuel`` two players against each other. Both are in readable Python.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from entity_env.actions import Action
from entity_env.environment import Environment
from entity_env.errors import nearest, shorten
from entity_env.observation import GlobalCategoricalActionMask, Observation
from entity_env.seats.multi_player import MultiPlayerEnvironment, SeatActions, SeatObservations
from entity_env.spaces import ActionName, ActionSpace, GlobalCategoricalActionSpace, ObsSpace

from ..errors import EnvConfigError, check_flag, check_whole
from .one_world import OneWorld
from .world import Command, Game, World

__all__ = ["Settings", "StrategicDuel", "StrategicEnv", "StrategicGame"]

LESS_HELP = 0.99
"""By what the most ticks of help are multiplied after each game."""

Script = Callable[[World, int], Collection[int]]
"""A built-in player: which orders it gives now."""


class StrategicGame(Game):
    """A game with orders that concern all units of a player.

    A subclass sets ``shows``, ``orders`` (the first one does nothing) and ``scripts`` (built-in
    players by name), and writes ``assign`` and ``show``.
    """

    shows: ClassVar[ObsSpace]
    orders: ClassVar[tuple[str, ...]]
    scripts: ClassVar[Mapping[str, Script]]

    @abstractmethod
    def assign(self, world: World, player: int, actions: Collection[int]) -> dict[int, Command]:
        """Return the command of each unit, by number, for some orders."""

    @abstractmethod
    def show(
        self, world: World, player: int, fog: bool
    ) -> tuple[Mapping[str, list[list[float]]], list[float]]:
        """Return the rows of features for each type, and global features."""

    def marks(self, world: World, player: int) -> tuple[float, ...]:
        """Numbers that ``reward`` compares before and after a decision."""
        return ()

    def reward(self, before: tuple[float, ...], after: tuple[float, ...]) -> float:
        """Return the reward of a player while the game goes on."""
        return 0.0

    def order(self, world: World, player: int, actions: Collection[int]) -> None:
        """Let a player give orders."""
        for uid, command in self.assign(world, player, actions).items():
            world.send(player, uid, command)

    def possible(self, world: World, player: int) -> list[bool]:
        """Return a mask of the orders that would command a unit now, or idle."""
        others = range(1, len(self.orders))
        return [True] + [bool(self.assign(world, player, {action})) for action in others]

    def act(self, world: World, player: int, who: str) -> None:
        """Let a built-in player act; ``random`` takes one of all orders."""
        if who == "random":
            self.order(world, player, {world.draw(0, len(self.orders) - 1)})
        else:
            self.order(world, player, self.scripts[who](world, player))

    def observe(self, world: World, player: int, reward: float, fog: bool) -> Observation:
        """Return the observation of a player; the last one of a game has no actions."""
        features, numbers = self.show(world, player, fog)
        over, actions = world.is_over, {}
        if not over:
            actions = {"Order": GlobalCategoricalActionMask([self.possible(world, player)])}
        won = {"win": float(world.winner == player), "ticks": float(world.tick)}
        return Observation(
            features={name: rows for name, rows in features.items() if rows},
            global_features=numbers,
            actions=actions,
            reward=reward + (won_or_lost(world, player) if over else 0.0),
            done=over,
            metrics=won if over else {},
        )


@dataclass(frozen=True)
class Settings:
    """The settings of a game against a built-in player.

    Args:
        game: What is played.
        opponent: The name of a built-in player of the game, or ``random``.
        frame_skip: Every how many ticks the learner acts.
        opponent_skip: Every how many ticks the opponent does; None: as the learner.
        max_tick: When a game ends without a winner; None: as the game says.
        fog: Whether the learner sees only what its units see.
        curriculum: A built-in player plays the learner's side for so many ticks at most at first.

    Raises:
        EnvConfigError: Settings that there are not.
    """

    game: StrategicGame
    opponent: str
    frame_skip: int = 50
    opponent_skip: int | None = None
    max_tick: int | None = None
    fog: bool = True
    curriculum: int = 0

    def __post_init__(self) -> None:
        """Check them."""
        names = ("random", *self.game.scripts)
        if self.opponent not in names:
            raise EnvConfigError(
                "there is no such opponent",
                expected=f"one of {', '.join(names)}",
                received=shorten(self.opponent),
                hint=nearest(self.opponent, names),
            )
        if self.max_tick is not None:
            check_whole("max_tick", self.max_tick, 2, 10_000_000)
        check_whole("frame_skip", self.frame_skip, 1, self.limit - 1)
        if self.opponent_skip is not None:
            check_whole("opponent_skip", self.opponent_skip, 1, self.limit)
        check_flag("fog", self.fog)
        check_whole("curriculum", self.curriculum, 0, self.limit - 1)

    @property
    def limit(self) -> int:
        """The tick at which a game ends at the latest."""
        return self.game.rules.max_tick if self.max_tick is None else self.max_tick

    @property
    def skips(self) -> tuple[int, int]:
        """The frame skips of the learner and its opponent."""
        return self.frame_skip, self.opponent_skip or self.frame_skip


class StrategicEnv(OneWorld[StrategicGame], Environment):
    """One player of a strategic game against a built-in player.

    Actions:
        ``Order``: one order; the mask leaves those that would tell any unit anything, and the
        first one, which does nothing.
    Reward:
        1 for a win, -1 for a defeat, at the end, and what the game gives before.
    End:
        As the game says; or ``max_tick``, or a crowd in which nobody can move.

    Args:
        game: What is played.
        settings: Those of ``Settings``.
    """

    def __init__(self, game: StrategicGame, **settings: Any) -> None:
        given = {"opponent": next(iter(game.scripts), "random"), **settings}
        names = [name for name in Settings.__dataclass_fields__ if name != "game"]
        for name in given:
            if name not in names:
                raise EnvConfigError(
                    f"there is no setting {name!r}", options=names, hint=nearest(name, names)
                )
        self.game, self.settings = game, Settings(game, **given)
        self.has_fog = self.settings.fog
        self._most_help = float(self.settings.curriculum)

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self.game.shows

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """``Order``."""
        return {"Order": GlobalCategoricalActionSpace(list(self.game.orders))}

    def reset(self) -> Observation:
        """Begin a game; with a curriculum a built-in player plays its beginning."""
        skip, _ = self.settings.skips
        while True:
            world = self.begun(self.settings.limit)
            help_until = world.draw(0, int(self._most_help))
            self._most_help *= LESS_HELP
            while not world.is_over and (world.tick < help_until or world.tick % skip):
                if world.tick % skip == 0:
                    self.game.act(world, 0, next(iter(self.game.scripts), "random"))
                self._tick(world)
            if not world.is_over:
                return self.game.observe(world, 0, 0.0, self.settings.fog)

    def act(self, actions: Mapping[ActionName, Action]) -> Observation:
        """Order something, and let ``frame_skip`` ticks pass."""
        world, own = self.running(), actions["Order"]
        before = self.game.marks(world, 0)
        self.game.order(world, 0, {int(own.index)})  # type: ignore[union-attr]
        self._tick(world)
        while not world.is_over and world.tick % self.settings.frame_skip:
            self._tick(world)
        reward = self.game.reward(before, self.game.marks(world, 0))
        return self.game.observe(world, 0, reward, self.settings.fog)

    def _tick(self, world: World) -> None:
        if world.tick % self.settings.skips[1] == 0:
            self.game.act(world, 1, self.settings.opponent)
        world.play_tick()


class StrategicDuel(OneWorld[StrategicGame], MultiPlayerEnvironment):
    """A strategic game for two players, who both act every ``frame_skip`` ticks.

    Args:
        game: What is played.
        frame_skip: Every how many ticks both act.
        max_tick: When a game ends without a winner; None: as the game says.
        fog: Whether players see only what their units see.
    """

    def __init__(
        self,
        game: StrategicGame,
        frame_skip: int = 50,
        max_tick: int | None = None,
        fog: bool = True,
    ) -> None:
        self.settings = Settings(game, "random", frame_skip, None, max_tick, fog)
        self.game, self.has_fog = game, self.settings.fog

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        return self.game.shows

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """``Order``."""
        return {"Order": GlobalCategoricalActionSpace(list(self.game.orders))}

    def seats(self) -> list[int]:
        """Player 0 and player 1."""
        return [0, 1]

    def reset(self) -> SeatObservations:
        """Begin a game."""
        world = self.begun(self.settings.limit)
        self._until_asked(world)
        return self._observe(world, [0.0, 0.0])

    def act(self, actions: SeatActions) -> SeatObservations:
        """Let both order something, and let ``frame_skip`` ticks pass."""
        world = self.running()
        before = [self.game.marks(world, player) for player in (0, 1)]
        for player in (0, 1):
            own: Any = actions[player]["Order"]
            self.game.order(world, player, {int(own.index)})
        world.play_tick()
        self._until_asked(world)
        return self._observe(
            world, [self.game.reward(before[p], self.game.marks(world, p)) for p in (0, 1)]
        )

    def _until_asked(self, world: World) -> None:
        while not world.is_over and world.tick % self.settings.frame_skip:
            world.play_tick()

    def _observe(self, world: World, rewards: list[float]) -> SeatObservations:
        fog = self.settings.fog
        return {p: self.game.observe(world, p, rewards[p], fog) for p in (0, 1)}


def won_or_lost(world: World, player: int) -> float:
    """1 for who has won, -1 for who has lost, 0 for both where nobody has."""
    return 0.0 if world.winner < 0 else 1.0 if world.winner == player else -1.0
