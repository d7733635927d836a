"""The world: its ticks, and its agents as rows.

rows = MmoRows(1280)      # ten worlds of 128 seats, side by side
obs = rows.reset()        # obs.rows are the seats of living agents

"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env import VecObs
from entity_env.arguments import check_fields
from entity_env.errors import SettingError, counted, nearest
from entity_env.hints import ViewerHints
from entity_env.rows.compiled import CompiledGame, CompiledRows, Field, random_int
from entity_env.rows.jit import called, inlined, interpreted
from entity_env.rows.single_game import CompiledPlayers

from .body import (
    AGE,
    COLUMN,
    DAMAGE,
    FROZEN,
    HEALTH,
    IMMUNE,
    LEVEL,
    LIVING,
    MARKED,
    MOVE,
    NEXT,
    ROW,
    XP,
    Progression,
)
from .combat import Combat, Safety, fight, protect
from .foraging import Foraging, forage, regrow
from .observation import Observing, choose, choose_move
from .overlays import (
    Picture,
    draw_map,
    hints_of_world,
    population_colours,
    values_over_map,
    with_heat,
    with_populations,
    with_visits,
)
from .settings import numbers
from .spawning import Spawning, remove_marked, spawn
from .terrain import FOREST, LAKE, LAVA, SCRUB, STONE, TILES, Terrain

__all__ = ["Mmo", "MmoRows", "MmoSettings", "mmo_game"]

_ALONE = 64
"""Number of worlds at a time in which values are computed."""
_STEPS = np.array([(-1, 0), (1, 0), (0, 1), (0, -1), (0, 0)])  # of MOVES


@dataclass(frozen=True)
class MmoSettings(Terrain, Spawning, Foraging, Combat, Progression, Safety, Observing):
    """All settings of a world; each system declares its own, in its file.

    Raises:
        SettingError: A value of the wrong type or range.
    """

    def __post_init__(self) -> None:
        """Check all values."""
        check_fields(self)
        if self.agents % self.populations:
            raise SettingError(
                "the seats do not divide into populations",
                expected=f"agents, a multiple of {counted(self.populations, 'population')}",
                received=self.agents,
                about="agents populations",
            )


@called
def _update(g: Any, game: int, count: int) -> None:
    """Update the ``count`` oldest agents; mark those without health or on lava."""
    for k in range(count):
        me = g.agents[game, g.order[game, k]]
        if me[HEALTH] <= 0 or g.tiles[game, me[ROW], me[COLUMN]] == LAVA:
            me[MARKED] = 1
            continue
        me[FROZEN] = max(me[FROZEN] - 1, 0)
        protect(g, me, me[IMMUNE] - 1)
        if g.foraging:
            forage(g, game, me)
        me[DAMAGE] = 0
        me[AGE] += 1


@called
def _move(agents: Any, order: Any, tiles: Any) -> None:
    for k in range(len(order)):
        me = agents[order[k]]
        if me[FROZEN] > 0:
            continue
        row, column = me[ROW] + _STEPS[me[MOVE], 0], me[COLUMN] + _STEPS[me[MOVE], 1]
        if tiles[row, column] != LAKE and tiles[row, column] != STONE:
            me[ROW], me[COLUMN] = row, column


@called
def _take_off_tiles(agents: Any, order: Any, first: Any) -> None:
    for k in range(len(order)):
        first[agents[order[k], ROW], agents[order[k], COLUMN]] = -1


@called
def _put_on_tiles(agents: Any, order: Any, first: Any) -> None:
    for k in range(len(order) - 1, -1, -1):  # the oldest last, and so the first of its tile
        me = agents[order[k]]
        me[NEXT] = first[me[ROW], me[COLUMN]]
        first[me[ROW], me[COLUMN]] = order[k]


@inlined
def tick(g: Any, game: int, reward: Any, left: Any) -> bool:
    """Play a tick; the newcomer of it first acts in the next one."""
    count = g.alive[game]
    agents, order, tiles = g.agents[game], g.order[game], g.tiles[game]
    _take_off_tiles(agents, order[:count], g.first[game])
    spawn(g, game)
    _update(g, game, count)
    _move(agents, order[:count], tiles)
    fight(g, game, count)
    g.alive[game] = remove_marked(agents, order, g.alive[game], reward, left, g.death_reward)
    regrow(tiles, g.random, game, g.regrowth)
    _put_on_tiles(agents, order[: g.alive[game]], g.first[game])
    return False


def _reset(g: Any, game: int) -> None:
    g.map[game] = random_int(g.random, game, 0, g.terrain.shape[1] - 1)
    for y in range(g.tiles.shape[1]):  # loops compile in a fraction of the time of whole arrays
        for x in range(g.tiles.shape[2]):
            g.tiles[game, y, x] = g.terrain[game, g.map[game], y, x]
            g.first[game, y, x] = -1
    for seat in range(g.agents.shape[1]):
        g.agents[game, seat, LIVING] = 0
    g.alive[game] = 0
    spawn(g, game)
    _put_on_tiles(g.agents[game], g.order[game, : g.alive[game]], g.first[game])


def _lives(g: Any, game: int, seat: int) -> bool:
    return bool(g.agents[game, seat, LIVING])


def _problems(g: Any, game: int) -> dict[str, bool]:
    """Return descriptions of invalid states, with True for those of a saved state."""
    agents, order, margin = g.agents[game], g.order[game, : g.alive[game]], g.radius + 1
    seats, (height, width) = np.flatnonzero(agents[:, LIVING]), g.tiles[game].shape
    rows, columns = agents[seats, ROW], agents[seats, COLUMN]
    near_edge = (np.minimum(rows, columns) < margin - 1) | (rows > height - margin)
    grown = [
        np.where(own == SCRUB, FOREST, own) for own in (g.tiles[game], g.terrain[game, g.map[game]])
    ]
    return {
        "another order than that of who lives": sorted(order) != seats.tolist(),
        "an agent at the edge of the map": bool((near_edge | (columns > width - margin)).any()),
        "an agent on water or stone": bool(
            np.isin(g.tiles[game][rows, columns], (LAKE, STONE)).any()
        ),
        "an agent without levels": bool((agents[seats, LEVEL:XP] < 1).any()),
        "the tiles of another map": not np.array_equal(grown[0], grown[1]),
    }


def mmo_game(settings: MmoSettings, maps: int, shape: tuple[int, ...], spawns: int) -> CompiledGame:
    """Return the compiled game of a world.

    A world with another rule is this game with another ``resolve``, which calls ``tick``: see
    ``README.md`` beside this file.

    Args:
        settings: All settings.
        maps: The number of maps M.
        shape: Height and width of each.
        spawns: The number of cells S where newcomers come in.
    """
    agents, combat = settings.agents, bool(settings.combat)
    obs_space, action_space = settings.spaces(settings.populations, combat)
    entities, actions = settings.sources(agents, combat)
    return CompiledGame(
        obs_space=obs_space,
        action_space=action_space,
        state={
            "terrain": Field((maps, *shape), np.int8, fixed=True),
            "spawns": Field((spawns, 2), fixed=True),
            "map": Field(least=0, most=maps - 1),
            "tiles": Field(shape, np.int8, least=0, most=len(TILES) - 1),
            **settings.spawning_fields(agents),
            **settings.observing_fields(agents, shape),
        },
        settings={name: own for name, own in numbers(settings).items() if name != "agents"},
        reset=_reset,
        step=choose if combat else choose_move,
        entities=entities,
        actions=actions,
        seats=agents,
        asks=_lives,
        resolve=tick,
        problems=_problems,
    )


class MmoRows(CompiledRows):
    """Rows of several worlds, a row for each seat; see ``Mmo`` for the game.

    Args:
        num_envs: The number of rows R, a multiple of ``agents``; None: those of one world.
        seed: Seed of all worlds.
        threads: See ``CompiledRows``.
        settings: Settings of ``settings_type``.

    Attributes:
        settings_type: The class of the settings; a subclass with a system of its own names another.
        endless: True, so that evaluations count lives instead of games.
    """

    endless = True

    settings_type: type[MmoSettings] = MmoSettings

    def __init_subclass__(cls) -> None:
        """Let a subclass show its own settings, or the arguments of its own constructor."""
        super().__init_subclass__()
        own = None if "__init__" in cls.__dict__ else _signature(cls.settings_type)
        cls.__signature__ = own  # type: ignore[attr-defined]

    def __init__(
        self, num_envs: int | None = None, seed: int = 0, threads: int = 1, **settings: Any
    ) -> None:
        names = [own.name for own in fields(self.settings_type)]
        for name in settings:
            if name not in names:
                raise SettingError(
                    f"there is no setting {name!r}",
                    options=names,
                    hint=nearest(name, names),
                    about=name,
                )
        self.settings = self.settings_type(**settings)
        maps, spawns = self.settings.make_maps(self.settings.radius + 1)
        game = self.make_game(len(maps), maps.shape[1:], len(spawns))
        super().__init__(game, num_envs, seed, threads=threads)
        self._fields["terrain"][:] = maps
        self._fields["spawns"][:] = spawns

    def make_game(self, maps: int, shape: tuple[int, ...], spawns: int) -> CompiledGame:
        """Return the game; a subclass with other rules changes it. Arguments: ``mmo_game``."""
        return mmo_game(self.settings, maps, shape, spawns)

    def load_game(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields, with the lists of agents by tile, or raise StateError."""
        fields = super().load_game(saved)
        fields["first"] = np.full_like(self._fields["first"][0], -1)
        order = fields["order"][: fields["alive"]]
        interpreted(_put_on_tiles)(fields["agents"], order, fields["first"])
        return fields

    def places(self, rows: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return row and column of the tiles on which the agents of rows stand. Shape: (K, 2).

        Args:
            rows: Their numbers. Shape: (K,).
        """
        agents = self._fields["agents"].reshape(len(self), -1)
        return agents[np.asarray(rows)][:, [ROW, COLUMN]].astype(np.int64)

    def draw_row(
        self, row: int, cell: int = 8, over: Callable[[Picture], Picture] | None = None, **_: Any
    ) -> Picture:
        """Return a picture of the world of a row: its tiles, and agents by their population.

        Shape: (H, W, 3), uint8.

        Args:
            row: The number of the row.
            cell: The size of a tile in pixels.
            over: Changes the map before agents are drawn, such as an overlay.
        """
        self._check_begun()
        game = self.save_game(row // self._seats)
        picture, rim = draw_map(game["tiles"], cell), max(cell // 4, 1)
        picture = picture if over is None else over(picture)
        colours = population_colours(self.settings.populations)
        for seat in game["order"][: game["alive"]]:
            y, x = (game["agents"][seat][place] * cell for place in (ROW, COLUMN))
            picture[y : y + cell, x : x + cell] = 0
            colour = colours[seat % self.settings.populations]
            picture[y + rim : y + cell - rim, x + rim : x + cell - rim] = colour
        return picture


def _signature(settings: type[MmoSettings]) -> inspect.Signature:
    """Return the signature of rows with these settings."""
    own = ((field.name, field.default) for field in fields(settings))
    return inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
            for name, default in (("num_envs", None), ("seed", 0), ("threads", 1), *own)
        ]
    )


MmoRows.__signature__ = _signature(MmoSettings)  # type: ignore[attr-defined]


class Mmo(CompiledPlayers):
    """Agents spawn, forage, fight, grow and die in a world that never ends.

    In each tick all living agents move and may attack; then some may die, and an agent may be born.
    It takes a free seat of a random population, so that a seat has many lives, each of which is an
    episode.

    Entities:
        ``Self`` [population, damage, age, food, water, health, frozen, immune, wilderness, level,
        fishing, ...]: damage of the last tick and age are hundredths; food, water and health are
        parts of the agent's own maximum, minus 0.5; frozen and immune are the ticks that are left,
        of 3 and 10, minus 0.5; level is that in fights; then the levels of seven skills.
        ``Agent`` [row, column, population, damage, ...]: the others in the crop, with their places
        in it; (radius, radius) is the agent's own. ``Strike`` [row, column, style, population,
        damage, ..., chance]: a style and an agent in its reach, with the probability of a hit.
        ``Tile`` [kind]: a grid of (2 radius + 1)^2, the crop of the map around the agent.
    Actions:
        ``Move``: North, South, East, West or Stay; water and stone are in the way, lava kills.
        ``Attack``: ``Self`` selects a ``Strike``, or itself for none; it does not act if no agent
        is in reach.
    Reward:
        -1 at death (``death_reward``).
    End:
        The world has none. A seat's episode ends at the agent's death.
    Randomness:
        The map, the births of agents, hits, and the forests that grow again.
    Source:
        Suarez et al., "Neural MMO v1.3: A Massively Multiagent Game Environment for Training and
        Evaluating Neural Networks", 2020.

    Args:
        settings: Settings of ``MmoSettings``, which each system declares in its file.

    Raises:
        SettingError: A setting of the wrong type or range, or a map without room for newcomers.
    """

    rows = MmoRows
    overlays = ("visits", "populations", "values")
    _visits: npt.NDArray[np.float64] | None = None

    def viewer_hints(self) -> ViewerHints:
        """Return the colours of tiles and populations, and the places of agents on the map."""
        rows: Any = self._rows
        return hints_of_world(rows.settings.radius, rows.settings.populations)

    def render(
        self,
        overlay: str = "",
        value: Callable[[VecObs], npt.ArrayLike] | None = None,
        seat: int = 0,
        **kwargs: Any,
    ) -> Picture:
        """Return a picture of the world. Shape: (H, W, 3), uint8.

        Args:
            overlay: One of ``overlays``: where agents have been since the reset; of which
                populations they were; the value of a place for a newcomer. Empty: none.
            value: Returns the value of each frame, for ``values``.
            seat: Seat whose population's values are shown.
            kwargs: Those of ``MmoRows.draw_row``.

        Raises:
            SettingError: An unknown overlay, or values without a function.
        """
        self._begun()
        if overlay not in ("", *self.overlays) or (overlay == "values" and value is None):
            raise SettingError(
                "there is no such overlay",
                options=self.overlays,
                received=overlay or value,
                hint="values are those of a policy: render('values', value)",
            )
        visits = self._visits
        if visits is not None and overlay == "visits":
            kwargs["over"] = lambda picture: with_visits(picture, visits)
        elif visits is not None and overlay == "populations":
            kwargs["over"] = lambda picture: with_populations(picture, visits)
        elif value is not None and overlay:
            kwargs["over"] = lambda picture: with_heat(picture, self._values(value, seat))
        return self._rows.draw_row(0, **kwargs)

    def _values(
        self, value: Callable[[VecObs], npt.ArrayLike], seat: int
    ) -> npt.NDArray[np.float64]:
        """Return the value of each tile of the current map for a single agent of a population."""
        rows: Any = self._rows
        own = {field.name: getattr(rows.settings, field.name) for field in fields(rows.settings)}
        now = rows.copy_games([0]).fields
        own |= {"tiles": now["tiles"][0], "spawns": now["spawns"][0], "agents": own["populations"]}
        alone = self.rows(_ALONE * own["populations"], **own)
        alone.interpret()
        return values_over_map(alone, value, seat % own["populations"])

    def _reset(self) -> VecObs:
        self._visits = None
        return super()._reset()

    def _show(self, obs: VecObs) -> VecObs:
        rows: Any = self._rows
        count = rows.settings.populations
        if self._visits is None:
            self._visits = np.zeros((count, *rows.copy_games([0]).fields["tiles"][0].shape))
        np.add.at(self._visits, (obs.rows % count, *rows.places(obs.rows).T), 1)
        return super()._show(obs)


MmoRows.environment = Mmo
