"""Photosynthesis: two to four players grow trees that take each other's light.

game = Photosynthesis(players=4)
seats = game.reset()
seats = game.act({"player 0": grow_greedily(seats["player 0"])})  # of photosynthesis_script

"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from entity_env.arguments import check_whole
from entity_env.errors import SettingError, nearest, shorten
from entity_env.hints import EntityHints, ViewerHints
from entity_env.rows.compiled import Actors, CompiledGame, CompiledRows, Entities, Field, compiled
from entity_env.rows.single_game import CompiledPlayers
from entity_env.spaces import (
    ActionName,
    ActionSpace,
    Discrete,
    Entity,
    ObsSpace,
    SelectEntityActionSpace,
)

from .photosynthesis_board import (
    AVAILABLE,
    BEFORE,
    COLLECT_PRICE,
    DIRECTIONS,
    KINDS,
    MOST_LIGHT,
    PRICES,
    SOIL,
    SPACES,
    TOKENS,
    distance,
)

__all__ = ["ACTION_SPACE", "OBS_SPACE", "REWARDS", "Photosynthesis", "PhotosynthesisRows"]

REWARDS = ("rank", "first")
_SHADED = [f"shaded{i}" for i in range(len(DIRECTIONS))]
OBS_SPACE = ObsSpace(
    global_features=[
        "round",
        "rounds_left",
        "setup",
        "choosing_tree",
        *(f"sun{i}" for i in range(len(DIRECTIONS))),
    ],
    entities={
        "Player": Entity(
            ["seat", "turn", "light", "points", "pieces"]
            + [f"available_{kind.lower()}" for kind in KINDS]
            + [f"left_{kind.lower()}" for kind in KINDS]
        ),
        "Kind": Entity([Discrete("kind", len(KINDS), names=KINDS), "available", "left", "price"]),
        "Pass": Entity([]),
        "Piece": Entity(
            [
                "x",
                "y",
                "soil",
                "own",
                "seat",
                Discrete("size", len(KINDS), names=KINDS),
                "activated",
                *_SHADED,
            ]
        ),
        "Space": Entity(["x", "y", "soil", "activated", "target", *_SHADED]),
        "Pile": Entity(["soil", "left", "next"]),
    },
)
ACTION_SPACE: dict[ActionName, ActionSpace] = {"Choose": SelectEntityActionSpace()}
_PLACES = [(q + r / 2, r * 3**0.5 / 2) for q, r in SPACES]

_SOIL_COLORS = ("", "#e4ecd2", "#cfdfb0", "#b3cc8b", "#93b56a")
_TREE_COLORS = ("#1f7a4d", "#d0762b", "#3f6fc4", "#8a4fb0")

_BOARD, _KINDS, _ANGLES = len(SPACES), len(KINDS), len(DIRECTIONS)
_SEED, _SMALL, _LARGE = 0, 1, 3
_SOILS = len(TOKENS)


def _padded(rows: Any, fill: int) -> Any:
    """Rows of different lengths as one array."""
    filled = np.full((len(rows), max(map(len, rows))), fill, np.int64)
    for row, own in zip(filled, rows, strict=True):
        row[: len(own)] = own
    return filled


_PRICE, _SLOTS = _padded(PRICES, 0), np.array([len(own) for own in PRICES])
_TOKEN, _PILE = _padded(TOKENS, 0), np.array([len(own) for own in TOKENS])
_LEAVES, _PLACE = np.array(SOIL), np.array(_PLACES)
_DISTANCE = np.array([[distance(a, b) for b in range(_BOARD)] for a in range(_BOARD)])
_STOCK = np.array(AVAILABLE)
# The space that the light passes k + 1 spaces before another one; -1 off the board.
_LIGHT_BEFORE = np.array(
    [_padded([[space for space, _ in own] for own in angle], -1) for angle in BEFORE]
)


@compiled
def _sun(g: Any, game: int) -> int:
    angle: int = max(g.round[game], 0) % _ANGLES
    return angle


@compiled
def _mover(g: Any, game: int) -> int:
    """Return the player whose turn it is."""
    player: int = (max(g.round[game], 0) + g.turn[game]) % g.players
    return player


@compiled
def _is_shaded(g: Any, game: int, space: int, size: int, angle: int) -> bool:
    for k in range(3):
        other = _LIGHT_BEFORE[angle, space, k]
        if other >= 0 and g.size[game, other] >= max(k + 1, size):
            return True
    return False


@compiled
def _price(g: Any, game: int, player: int, kind: int) -> int:
    """Return the price of the next piece of a kind; 0 if none is left."""
    left = g.left[game, player, kind]
    price: int = _PRICE[kind, _SLOTS[kind] - left] if left > 0 else 0
    return price


@compiled
def _may_buy(g: Any, game: int, player: int, kind: int) -> bool:
    price = _price(g, game, player, kind)
    return bool(0 < price <= g.light[game, player])


@compiled
def _may_use(g: Any, game: int, player: int, space: int) -> bool:
    """Return True if the player may grow or collect what stands there."""
    if g.owner[game, space] != player or g.activated[game, space]:
        return False
    size, light = g.size[game, space], g.light[game, player]
    if size == _LARGE:
        return bool(light >= COLLECT_PRICE)
    return bool(light >= size + 1 and g.available[game, player, size + 1] > 0)


@compiled
def _is_origin(g: Any, game: int, player: int, tree: int, target: int) -> bool:
    """Return True if the player has a tree there that can plant a seed."""
    return bool(
        g.owner[game, tree] == player
        and not g.activated[game, tree]
        and g.size[game, tree] >= max(_DISTANCE[tree, target], 1)
    )


@compiled
def _may_plant(g: Any, game: int, player: int, target: int) -> bool:
    if g.size[game, target] >= 0 or g.activated[game, target]:
        return False
    if g.light[game, player] < 1 or g.available[game, player, _SEED] < 1:
        return False
    for tree in range(_BOARD):  # noqa: SIM110 - what Numba can compile
        if _is_origin(g, game, player, tree, target):
            return True
    return False


@compiled
def _can_do_something(g: Any, game: int) -> bool:
    """Return True if the player whose turn it is has another choice than to pass."""
    if g.round[game] < 0:
        return True
    player = _mover(g, game)
    for kind in range(_KINDS):
        if _may_buy(g, game, player, kind):
            return True
    for space in range(_BOARD):
        if _may_use(g, game, player, space) or _may_plant(g, game, player, space):
            return True
    return False


@compiled
def _list_board(g: Any, game: int) -> None:
    """Note the spaces with and without pieces, in order."""
    pieces, spaces = 0, 0
    for space in range(_BOARD):
        if g.size[game, space] >= 0:
            g.piece_at[game, pieces] = space
            pieces += 1
        else:
            g.empty_at[game, spaces] = space
            spaces += 1
    g.pieces[game], g.spaces[game] = pieces, spaces


@compiled
def _begin_round(g: Any, game: int) -> None:
    g.round[game] += 1
    g.turn[game] = 0
    g.activated[game] = 0
    if g.round[game] == g.rounds:
        return
    sun = _sun(g, game)
    for space in range(_BOARD):
        size = g.size[game, space]
        if size >= _SMALL and not _is_shaded(g, game, space, size, sun):
            owner = g.owner[game, space]
            g.light[game, owner] = min(g.light[game, owner] + size, MOST_LIGHT)


@compiled
def _pass_turn(g: Any, game: int) -> None:
    g.activated[game] = 0
    g.turn[game] += 1
    if g.turn[game] == g.players:
        _begin_round(g, game)


@compiled
def _put(g: Any, game: int, space: int, size: int, player: int) -> None:
    g.size[game, space] = size
    g.owner[game, space] = player


@compiled
def _put_back(g: Any, game: int, player: int, kind: int) -> None:
    g.left[game, player, kind] = min(g.left[game, player, kind] + 1, _SLOTS[kind])


@compiled
def _plant(g: Any, game: int, player: int, tree: int) -> None:
    target = g.target[game]
    g.light[game, player] -= 1
    g.available[game, player, _SEED] -= 1
    _put(g, game, target, _SEED, player)
    g.activated[game, tree] = 1
    g.activated[game, target] = 1
    g.target[game] = -1


@compiled
def _choose_target(g: Any, game: int, player: int, target: int) -> None:
    """Plant there, at once if only one tree can."""
    g.target[game] = target
    origins, last = 0, -1
    for tree in range(_BOARD):
        if _is_origin(g, game, player, tree, target):
            origins += 1
            last = tree
    if origins == 1:
        _plant(g, game, player, last)


@compiled
def _collect(g: Any, game: int, player: int, space: int) -> None:
    g.light[game, player] -= COLLECT_PRICE
    _put_back(g, game, player, _LARGE)
    _put(g, game, space, -1, -1)
    g.activated[game, space] = 1
    for pile in range(_LEAVES[space] - 1, -1, -1):
        taken = g.taken[game, pile]
        if taken < _PILE[pile]:
            g.points[game, player] += _TOKEN[pile, taken]
            g.taken[game, pile] += 1
            return


@compiled
def _grow(g: Any, game: int, player: int, space: int) -> None:
    size = g.size[game, space]
    g.light[game, player] -= size + 1
    g.available[game, player, size + 1] -= 1
    _put_back(g, game, player, size)
    _put(g, game, space, size + 1, player)
    g.activated[game, space] = 1


@compiled
def _play(g: Any, game: int, entity: int) -> None:
    """Do what selecting this entity means."""
    player = _mover(g, game)
    kind = entity - g.players
    piece = kind - _KINDS - 1  # behind the kinds and Pass
    if piece >= g.pieces[game]:
        space = g.empty_at[game, piece - g.pieces[game]]
        if g.round[game] >= 0:
            _choose_target(g, game, player, space)
            return
        g.available[game, player, _SMALL] -= 1
        _put(g, game, space, _SMALL, player)
        g.turn[game] += 1
        if g.turn[game] == 2 * g.players:
            _begin_round(g, game)
    elif piece >= 0:
        space = g.piece_at[game, piece]
        if g.target[game] >= 0:
            _plant(g, game, player, space)
        elif g.size[game, space] == _LARGE:
            _collect(g, game, player, space)
        else:
            _grow(g, game, player, space)
    elif kind == _KINDS:
        _pass_turn(g, game)
    else:
        g.light[game, player] -= _price(g, game, player, kind)
        g.left[game, player, kind] -= 1
        g.available[game, player, kind] += 1


@compiled
def _on_board(g: Any, game: int, player: int) -> int:
    """Return the number of a player's pieces on the board."""
    count = 0
    for space in range(_BOARD):
        if g.owner[game, space] == player:
            count += 1
    return count


@compiled
def _standing(g: Any, game: int, player: int) -> int:
    """Return the score, and behind it the pieces on the board, as one number."""
    score: int = g.points[game, player] + g.light[game, player] // 3
    standing: int = score * (_BOARD + 1) + _on_board(g, game, player)
    return standing


def _reset(g: Any, game: int) -> None:
    g.size[game] = -1
    g.owner[game] = -1
    g.activated[game] = 0
    for player in range(g.players):
        for kind in range(_KINDS):
            g.available[game, player, kind] = _STOCK[kind]
            g.left[game, player, kind] = _SLOTS[kind]
    g.light[game] = 0
    g.points[game] = 0
    g.taken[game] = 0
    if g.players == 2:
        g.taken[game, _SOILS - 1] = _PILE[_SOILS - 1]
    g.round[game] = -1
    g.turn[game] = 0
    g.target[game] = -1
    g.win[game] = 0.0
    g.score[game] = 0.0
    _list_board(g, game)


def _step(g: Any, game: int, seat: int, chosen: Any) -> None:
    g.chosen[game] = chosen[0]


def _resolve(g: Any, game: int, reward: Any) -> bool:
    _play(g, game, g.chosen[game])
    while g.round[game] < g.rounds and g.target[game] < 0 and not _can_do_something(g, game):
        _pass_turn(g, game)
    _list_board(g, game)
    if g.round[game] < g.rounds:
        return False
    for player in range(g.players):
        own = _standing(g, game, player)
        better, equal, worse = 0, 0, 0
        for other in range(g.players):
            standing = _standing(g, game, other)
            better += standing > own
            equal += standing == own
            worse += standing < own
        g.score[game, player] = g.points[game, player] + g.light[game, player] // 3
        g.win[game, player] = 1.0 / equal if better == 0 else 0.0
        if g.pays_first:
            reward[player] += g.win[game, player] * g.score[game, player] / 100
        else:
            reward[player] += 2 * (worse + (equal - 1) / 2) / (g.players - 1) - 1
    return True


def _asks(g: Any, game: int, seat: int) -> bool:
    return bool(_mover(g, game) == seat)


def _global(g: Any, game: int, seat: int, out: Any) -> None:
    out[0] = g.round[game]
    out[1] = g.rounds - 1 - g.round[game]
    out[2] = g.round[game] < 0
    out[3] = g.target[game] >= 0
    sun = _sun(g, game)
    for angle in range(_ANGLES):
        out[4 + angle] = angle == sun


def _player_row(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    player = (seat + i) % g.players
    out[0] = i
    out[1] = (player - max(g.round[game], -1) - 1) % g.players
    out[2] = g.light[game, player]
    out[3] = g.points[game, player]
    out[4] = _on_board(g, game, player)
    for kind in range(_KINDS):
        out[5 + kind] = g.available[game, player, kind]
        out[5 + _KINDS + kind] = g.left[game, player, kind]


def _kind_row(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    out[0] = i
    out[1] = g.available[game, seat, i]
    out[2] = g.left[game, seat, i]
    out[3] = _price(g, game, seat, i)


def _pass_row(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    pass


def _piece_row(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    space = g.piece_at[game, i]
    size, owner = g.size[game, space], g.owner[game, space]
    out[0], out[1] = _PLACE[space, 0], _PLACE[space, 1]
    out[2] = _LEAVES[space]
    out[3] = owner == seat
    out[4] = (owner - seat) % g.players
    out[5] = size
    out[6] = g.activated[game, space]
    sun = _sun(g, game)
    for angle in range(_ANGLES):
        out[7 + angle] = _is_shaded(g, game, space, max(size, 1), (sun + angle) % _ANGLES)


def _space_row(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    space = g.empty_at[game, i]
    out[0], out[1] = _PLACE[space, 0], _PLACE[space, 1]
    out[2] = _LEAVES[space]
    out[3] = g.activated[game, space]
    out[4] = space == g.target[game]
    sun = _sun(g, game)
    for angle in range(_ANGLES):
        out[5 + angle] = _is_shaded(g, game, space, 1, (sun + angle) % _ANGLES)


def _pile_row(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    left = _PILE[i] - g.taken[game, i]
    out[0] = i + 1
    out[1] = left
    out[2] = _TOKEN[i, g.taken[game, i]] if left > 0 else 0


def _acts(g: Any, game: int, seat: int, i: int) -> bool:
    return i == 0


def _may_choose(g: Any, game: int, seat: int, i: int, out: Any) -> None:
    is_setup, target = g.round[game] < 0, g.target[game]
    is_free = not is_setup and target < 0
    for kind in range(_KINDS):
        out[kind] = is_free and _may_buy(g, game, seat, kind)
    out[_KINDS] = is_free
    for k in range(g.pieces[game]):
        space = g.piece_at[game, k]
        if target >= 0:
            out[_KINDS + 1 + k] = _is_origin(g, game, seat, space, target)
        else:
            out[_KINDS + 1 + k] = is_free and _may_use(g, game, seat, space)
    for k in range(g.spaces[game]):
        space = g.empty_at[game, k]
        may = _LEAVES[space] == 1 if is_setup else is_free and _may_plant(g, game, seat, space)
        out[_KINDS + 1 + g.pieces[game] + k] = may


def _problems(g: Any, game: int) -> dict[str, bool]:
    """Return descriptions of invalid states, with True for those of a saved state."""
    is_setup, size, target = g.round[game] < 0, g.size[game], g.target[game]
    lists = ("piece_at", "empty_at", "pieces", "spaces")
    before = [getattr(g, name)[game].copy() for name in lists]
    _list_board(g, game)
    pieces = g.pieces[game]
    return {
        "a turn of nobody": not is_setup and g.turn[game] >= g.players,
        "a piece without a player": not np.array_equal(size >= 0, g.owner[game] >= 0),
        "a wrong list of the board": any(
            not np.array_equal(old, getattr(g, name)[game])
            for old, name in zip(before, lists, strict=True)
        ),
        "an impossible beginning": is_setup
        and (pieces != g.turn[game] or (_LEAVES[size >= 0] != 1).any() or target >= 0),
        "a seed that no tree can plant": target >= 0
        and (not _may_plant(g, game, _mover(g, game), target)),
    }


class PhotosynthesisRows(CompiledRows):
    """Games of Photosynthesis, a row for each player; see ``Photosynthesis``.

    Args:
        num_envs: The number of rows R, a multiple of the players.
        seed: No effect, because the game draws no random numbers.
        players: See ``Photosynthesis``.
        rounds: See ``Photosynthesis``.
        reward: See ``Photosynthesis``.
    """

    def __init__(
        self, num_envs: int, seed: int = 0, players: int = 4, rounds: int = 18, reward: str = "rank"
    ) -> None:
        seats, rounds = (
            check_whole("players", players, 2, 4),
            check_whole("rounds", rounds, 1, 1000),
        )
        if reward not in REWARDS:
            raise SettingError(
                f"there is no reward {shorten(reward)}",
                options=REWARDS,
                hint=nearest(reward, REWARDS),
                about="reward",
            )
        game = CompiledGame(
            obs_space=OBS_SPACE,
            action_space=ACTION_SPACE,
            state={
                "size": Field((_BOARD,), least=-1, most=3),
                "owner": Field((_BOARD,), least=-1, most=seats - 1),
                "activated": Field((_BOARD,), least=0, most=1),
                "available": Field((seats, _KINDS), least=0, most=8),
                "left": Field((seats, _KINDS), least=0, most=tuple(_SLOTS)),
                "light": Field((seats,), least=0, most=MOST_LIGHT),
                "points": Field((seats,), least=0, most=1000),
                "taken": Field((_SOILS,), least=0, most=tuple(_PILE)),
                "round": Field(least=-1, most=rounds - 1),
                "turn": Field(least=0, most=2 * seats - 1),
                "target": Field(least=-1, most=_BOARD - 1),
                "chosen": Field(least=0, most=seats + _KINDS + 1 + _BOARD),
                "pieces": Field(least=0, most=_BOARD),
                "spaces": Field(least=0, most=_BOARD),
                "piece_at": Field((_BOARD,), least=0, most=_BOARD - 1),
                "empty_at": Field((_BOARD,), least=0, most=_BOARD - 1),
                "win": Field((seats,), dtype="float64", least=0, most=1),
                "score": Field((seats,), dtype="float64", least=0, most=1100),
            },
            settings={"players": seats, "rounds": rounds, "pays_first": reward == "first"},
            reset=_reset,
            step=_step,
            entities={
                "Player": Entities(_player_row, count=seats, most=seats),
                "Kind": Entities(_kind_row, count=_KINDS, most=_KINDS),
                "Pass": Entities(_pass_row, count=1, most=1),
                "Piece": Entities(_piece_row, count="pieces", most=_BOARD),
                "Space": Entities(_space_row, count="spaces", most=_BOARD),
                "Pile": Entities(_pile_row, count=_SOILS, most=_SOILS),
            },
            actions={
                "Choose": Actors(
                    "Player",
                    when=_acts,
                    mask=_may_choose,
                    targets=("Kind", "Pass", "Piece", "Space"),
                )
            },
            global_features=_global,
            metrics={"win": "win", "score": "score"},
            seats=seats,
            asks=_asks,
            resolve=_resolve,
            problems=_problems,
        )
        super().__init__(game, num_envs, seed)


class Photosynthesis(CompiledPlayers):
    """Players grow trees on a hexagonal board, and those in the light earn what more trees cost.

    A decision is a single action of a player. A player that can only pass does not act.

    Entities:
        ``Player`` [seat, turn, light, points, pieces, available_*, left_*], that of the seat
        first: ``seat`` is 0 for them and counts on in the order of turns, ``turn`` is how many
        players' turns come before theirs in the round to come; points are those of the tokens, and
        pieces those on the board. ``Kind`` [kind, available, left, price], the four kinds of one's
        own pieces, price 0 where none is left. ``Pass``. ``Piece`` [x, y, soil, own, seat, size,
        activated, shaded0, ...], the seeds and trees on the board: ``shaded0`` says whether it is
        shaded now, ``shaded1`` at the next angle of the sun, and so on; for a seed, whether a
        small tree would be. ``Space`` [x, y, soil, activated, target, shaded0, ...], the empty
        ones; ``target`` is 1 for the one that a seed has been chosen for. ``Pile`` [soil, left,
        next], the scoring tokens that are left of each soil, and what the next one is worth.
        Global features: the round from 0, -1 while players set up, how many follow, whether
        players set up, whether it is the tree that is to be chosen, and where the sun is.
    Actions:
        ``Choose``: the seat's ``Player`` selects a ``Space`` to put a small tree at the start or to
        plant a seed; a ``Piece`` to grow or, if it is a large tree, to collect; a ``Kind`` to buy;
        or ``Pass``. Where several trees could plant the seed, the next decision selects one.
    Reward:
        At the end. ``rank``: 1.0 for the first, -1.0 for the last, evenly between; those who are
        equal get the mean of their places. ``first``: a hundredth of the own score for the first,
        0.0 for the others; those who are first together share it.
    End:
        After the last round. The last observations have the metrics ``win``, the own part of the
        victory, and ``score``.
    Randomness:
        None. Seats are in the order of turns.
    Source:
        The game of H. Hach, 2017.

    Args:
        players: 2 to 4.
        rounds: 18, or 24 for the advanced game; at least 1.
        reward: ``rank`` or ``first``.

    Raises:
        SettingError: A parameter of the wrong type or range.
    """

    rows = PhotosynthesisRows

    def seats(self) -> Sequence[str]:
        """Return the players in the order of the first round."""
        return [f"player {i}" for i in range(self.num_seats)]

    def viewer_hints(self) -> ViewerHints:
        """Return the board of hexagons, the darker the richer; seeds and trees by their size."""
        space = EntityHints(tile="hexagon", ground="soil", grounds=_SOIL_COLORS)
        piece = replace(space, color="seat", colors=_TREE_COLORS, size="size", label="size")
        return ViewerHints({"Space": space, "Piece": piece})

    def render_text(self) -> str:
        """Return the board row by row: the owner and size of a piece, the leaves of a space."""
        game = self.fields()
        sun = max(game["round"], 0) % len(DIRECTIONS)
        lines = [f"round {game['round'] + 1} of {game['rounds']}, light runs {DIRECTIONS[sun]}"]
        for r in range(3, -4, -1):
            row = [
                f"{'ABCD'[game['owner'][i]]}{size}" if size >= 0 else f".{SOIL[i]}"
                for i, size in enumerate(game["size"])
                if SPACES[i][1] == r
            ]
            lines.append("  " * abs(r) + "  ".join(row))
        lines += [
            f"{'ABCD'[i]}: light {game['light'][i]}, points {game['points'][i]}, "
            f"available {game['available'][i]}, on the own board {game['left'][i]}"
            for i in range(self.num_seats)
        ]
        return "\n".join(lines)


PhotosynthesisRows.environment = Photosynthesis
