"""The kernel of a compiled game, whose source is generated as text.

Numba cannot call functions from a list, and a call for each part of an observation would take
longer than the part itself. The loops over games are therefore generated with calls of the game's
functions, and compiled as one function. ``print(kernel_text(game))`` shows them.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from entity_env.rows.compiled_game import Actors, CompiledGame, Entities, Function
from entity_env.rows.jit import inlined, interpreted, kernel, with_arrays, wrapping
from entity_env.spaces import ActionName

__all__ = [
    "RESAMPLE",
    "RESET",
    "SHOW",
    "STEP",
    "STEP_ONLY",
    "KernelPlan",
    "fixed_counts",
    "game_kernel",
    "kernel_text",
]

STEP, RESET, SHOW, STEP_ONLY, RESAMPLE = range(5)
"""Modes of a call of the kernel: play a step and reset games that are over, begin all episodes,
only observe, or play a step after which games that are over stay as they are."""

WRONG_COUNT, WRONG_REWARD, WRONG_WINDOW = 1, 2, 3
"""Values of the first of the kernel's ``totals`` for errors; 0 without an error."""


@dataclass(frozen=True)
class KernelPlan:
    """The lists of a frame, and their places.

    Each list has a row in ``lengths`` and a buffer of the same number. The buffers after them are
    for masks of categorical actions, which are as long as the list of their actors, and for global
    features.

    Args:
        actors: The list of each action's actors; the first lists are those of entities, in order.
        actees: The list of each select-entity action's actees.
        pairs: The list of its mask, if it has one.
        masks: The buffer of each categorical action's mask.
        lists: The number of lists L.
        metrics: The names of all metrics, in order.
    """

    actors: Mapping[ActionName, int]
    actees: Mapping[ActionName, int]
    pairs: Mapping[ActionName, int]
    masks: Mapping[ActionName, int]
    lists: int
    metrics: tuple[str, ...]

    @property
    def global_features(self) -> int:
        """The buffer of global features."""
        return self.lists + len(self.masks)

    @classmethod
    def of(cls, game: CompiledGame) -> KernelPlan:
        """Return the lists of a game's frames."""
        lists = len(game.entities)
        actors, actees, pairs = dict[str, int](), dict[str, int](), dict[str, int]()
        for name, space in game.action_space.items():
            actors[name], lists = lists, lists + 1
            if space.selects:
                actees[name], lists = lists, lists + 1
                if game.actions[name].mask is not None:
                    pairs[name], lists = lists, lists + 1
        categorical = [name for name in game.action_space if name not in actees]
        masks = {name: lists + i for i, name in enumerate(categorical)}
        metrics = tuple(sorted(("episodic_length", "episodic_reward", *game.metrics)))
        return cls(actors, actees, pairs, masks, lists, metrics)


def game_kernel(game: CompiledGame, in_python: bool = False) -> Any:
    """Return the kernel of a game; see ``kernel_text`` for its arguments.

    Args:
        game: The game.
        in_python: True to return a Python function.
    """
    functions = tuple(_functions(game).items())
    if in_python:
        return _exec_kernel(kernel_text(game), functions, game)
    return _compiled(kernel_text(game), functions, tuple(game.state), tuple(game.settings))


@functools.cache
def _compiled(
    text: str,
    functions: tuple[tuple[str, Function], ...],
    fields: tuple[str, ...],
    settings: tuple[str, ...],
) -> Any:
    first = getattr(functions[0][1], "py_func", functions[0][1])
    # Numba keeps the cache beside the file of ``reset``, under the name of the function.
    named = "\n".join(f"{part} {function.__qualname__}" for part, function in functions)
    name = f"play_{hashlib.sha256((text + named).encode()).hexdigest()[:12]}"
    names = (*fields, "random", "steps", *settings, "max_steps")
    scope: dict[str, Any] = {"__name__": first.__module__, "np": np, "G": namedtuple("G", names)}
    scope |= {part: _prepared(part, function) for part, function in functions}
    exec(compile(text.replace("def play(", f"def {name}("), inspect.getfile(first), "exec"), scope)
    return kernel(scope[name], text + named)


def _exec_kernel(text: str, functions: tuple[tuple[str, Function], ...], game: CompiledGame) -> Any:
    names = (*game.state, "random", "steps", *game.settings, "max_steps")
    scope: dict[str, Any] = {"np": np, "G": namedtuple("G", names)}
    scope |= {part: interpreted(function) for part, function in functions}
    exec(compile(text, f"<kernel of {functions[0][1].__module__}>", "exec"), scope)
    return wrapping(scope["play"])


@functools.cache
def _prepared(part: str, function: Function) -> Any:
    """Compile a function: ``reset``, which runs rarely, to be called, all others to be inlined."""
    if hasattr(function, "py_func"):
        return function
    return with_arrays(function) if part == "reset" else inlined(function)


def fixed_counts(game: CompiledGame) -> tuple[int, ...]:
    """Return the ``counts`` of ``kernel_text``."""
    return tuple(_fixed(game).values())


def _fixed(game: CompiledGame) -> dict[str, int]:
    """Return constant counts of entity types and sizes of grids, by their names in the text."""
    fixed = dict[str, int]()
    for k, name in enumerate(game.obs_space.entities):
        own = game.entities[name]
        if isinstance(own.count, int):
            fixed[f"count{k}"] = own.count
        if own.window is not None:
            fixed[f"height{k}"], fixed[f"width{k}"] = game.obs_space.grids[name].shape
    return fixed


def _functions(game: CompiledGame) -> dict[str, Function]:
    """Return the game's functions by their names in the text."""
    named: dict[str, Any] = {
        "reset": game.reset,
        "step": game.step,
        "resolve": game.resolve,
        "resample": game.resample,
        "asks": game.asks,
        "global_features": game.global_features,
    }
    for k, name in enumerate(game.obs_space.entities):
        own = game.entities[name]
        named |= {f"rows{k}": own.rows, f"count{k}": own.count, f"window{k}": own.window}
    for j, name in enumerate(game.action_space):
        named |= {f"when{j}": game.actions[name].when, f"mask{j}": game.actions[name].mask}
    return {name: function for name, function in named.items() if callable(function)}


def kernel_text(game: CompiledGame) -> str:
    """Return the source of ``play(mode, ...)``, which plays G games of S seats, R = G * S rows.

    Arguments of ``play``, filled or changed except where it says otherwise:
        mode: ``STEP``, ``RESET``, ``SHOW``, ``STEP_ONLY`` or ``RESAMPLE``; read. ``RESAMPLE`` draws
            anew what the acting seats of the games in ``over`` cannot see. After ``STEP_ONLY``, all
            seats of a game that is over are shown, and none acts.
        fields: The game's state, then ``random`` and ``steps``. Shape of each: (G, ...).
        settings: The game's, then ``max_steps``; read. Numbers are not written into the text, as
            a game with other settings would be compiled again.
        counts: The numbers of entities of types with a constant number, and the heights and widths
            of windows; read.
        returns, taken: Of running episodes: rewards, float64, and decisions, int32. Shape: (R,).
        reward, done, truncated: See ``VecObs``. Shape: (R,).
        metrics: Those of ``KernelPlan``, NaN where no episode ended. Shape: (M, R).
        chosen: The choices of all actors for each action, int64, (A, 1); read.
        shown: A copy of ``lengths`` for users.
        over: True for games that have ended in the step. Shape: (G,), bool.
        asked, rows: True for rows that must act, and their numbers. Shape: (R,), bool and int64.
        lengths: The lengths of the lists of each frame, see ``KernelPlan``; before the call those
            of the frames of ``chosen``. Shape: (L, R), int64.
        frames: The lists, one frame after the other.
        last_lengths, last: The same for the entities of truncated rows, (K, R).
        totals: A status with three numbers about it; the numbers of ended episodes, of rows that
            were cut off, and of frames; then the length of each list in all frames, and of each in
            ``last``. Shape: (7 + L + K,), int64.
    """
    plan = KernelPlan.of(game)
    types = range(len(game.entities))
    lines = [
        "def play(mode, fields, settings, counts, returns, taken, reward, done, truncated, "
        "metrics, chosen, shown, over, asked, rows, lengths, frames, last_lengths, last, totals):",
        f"    g = G({_items('fields', len(game.state) + 2)}"
        f"{_items('settings', len(game.settings) + 1)})",
        f"    stays = mode == {STEP_ONLY}",
        "    seats = len(reward) // len(g.steps)" if game.seats else "    seats = 1",
        *[f"    {name} = counts[{i}]" for i, name in enumerate(_fixed(game))],
        "    totals[:] = 0",
        *[f"    most{k} = frames[{k}].shape[0] // len(reward)" for k in types],
        *_indent(4, _resample_lines(game)),
        f"    if stays or mode == {STEP}:",
        *_indent(8, _step_lines(game, plan)),
        "    else:",
        f"        over[:] = mode == {RESET}",
        f"    if mode == {RESET}:",
        "        returns[:], taken[:] = 0.0, 0",
        "    if not stays:",
        *_indent(8, _end_lines(game, plan)),
        f"    if mode == {RESET}:",
        "        over[:] = False",
        *_indent(4, _show_lines(game, plan)),
    ]
    return "\n".join(lines) + "\n"


def _resample_lines(game: CompiledGame) -> list[str]:
    """Return the lines that draw anew what the seats that act cannot see."""
    if game.resample is None:
        return []
    one = ["resample(g, game)"]
    each = [
        "for seat in range(seats):",
        "    if asked[game * seats + seat]:",
        "        resample(g, game, seat)",
    ]
    return [
        f"if mode == {RESAMPLE}:",
        "    for game in range(len(g.steps)):",
        "        if over[game]:",
        *_indent(12, each if game.seats else one),
    ]


def _step_lines(game: CompiledGame, plan: KernelPlan) -> list[str]:
    """Return the lines that play a step in all games and store its results."""
    actions, leave = range(len(plan.actors)), game.may_leave
    who = "game" if game.seats is None else "game, seat"
    # Arrays of choices begin where those of the frame before ended.
    choices = [
        line
        for j, row in zip(actions, plan.actors.values(), strict=True)
        for line in (
            f"to{j} = at{j} + lengths[{row}, frame]",
            f"chosen{j}, at{j} = chosen[{j}][at{j}:to{j}, 0], to{j}",
        )
    ]
    call = f"step(g, {', '.join([who, *(f'chosen{j}' for j in actions)])})"
    if game.seats is None:
        play = ["frame = game", *choices, f"gain, ended = {call}", "reward[game] = gain"]
    else:
        play = [
            "for seat in range(seats):",
            "    if asked[game * seats + seat]:",
            *_indent(8, choices),
            f"        {call}",
            "        frame += 1",
            "        taken[game * seats + seat] += 1",
            "own = reward[game * seats : (game + 1) * seats]",
            "own[:] = 0",
            *(["left = done[game * seats : (game + 1) * seats]", "left[:] = False"] * leave),
            f"ended = resolve(g, game, own{', left' * leave})",
        ]
    numbers = {"episodic_length": "taken[row]", "episodic_reward": "returns[row]"} | {
        metric: f"g.{name}[game{', seat' if game.state[name].shape else ''}]"
        for metric, name in game.metrics.items()
    }
    # A seat without decisions has no episode that could end.
    ends = (
        [
            "truncated[row] = cut and not done[row] and taken[row] > 0",
            "done[row] = (done[row] or over[game]) and taken[row] > 0",
        ]
        if leave
        else ["done[row], truncated[row] = over[game], cut"]
    )
    return [
        "metrics[:] = np.nan",
        "finite = True",
        "frame = 0",
        *[f"at{j} = 0" for j in actions],
        "for game in range(len(g.steps)):",
        *_indent(4, play),
        "    g.steps[game] += 1",
        "    cut = (not ended) and g.steps[game] >= g.max_steps",
        "    over[game] = ended or cut",
        *_indent(4, _each_seat(game)),
        *([] if game.seats else ["        taken[row] += 1"]),
        "        returns[row] += reward[row]" if game.seats else "        returns[row] += gain",
        "        finite &= np.isfinite(returns[row])",
        *_indent(8, ends),
        "        if done[row]:",
        "            totals[4] += 1",
        *[f"            metrics[{m}, row] = {numbers[n]}" for m, n in enumerate(plan.metrics)],
        "            returns[row], taken[row] = 0.0, 0",
        "if not finite:",
        f"    totals[0] = {WRONG_REWARD}",
        "    return",
    ]


def _end_lines(game: CompiledGame, plan: KernelPlan) -> list[str]:
    """Return the lines that store the last entities of truncated rows and reset games."""
    types = range(len(game.entities))
    return [
        "cut_off = 0",
        *[f"a{k} = 0" for k in types],
        "for game in range(len(g.steps)):",
        "    if not over[game]:",
        "        continue",
        *_indent(4, _each_seat(game)),
        "        if truncated[row]:",
        *_indent(12, _entity_lines(game, plan, "last")),
        "            cut_off += 1",
        "    reset(g, game)",
        "    g.steps[game] = 0",
        "totals[5] = cut_off",
        *[f"totals[{7 + plan.lists + k}] = a{k}" for k in types],
    ]


def _show_lines(game: CompiledGame, plan: KernelPlan) -> list[str]:
    """Return the lines that write frames: of rows that must act, or whose game stays over."""
    types, others = range(len(game.entities)), range(len(game.entities), plan.lists)
    asks = f"asks(g, {_who(game)})" if game.asks else "True"
    if game.may_leave:
        asks = f"(over[game] or not done[row]) and {asks}"
    # A seat that has left has no frame.
    asks = f"{'truncated' if game.may_leave else 'done'}[row] if stays and over[game] else {asks}"
    nobody = [f"{_lengths(row)} = 0" for row in others]
    actions = [
        "if stays and over[game]:",
        *_indent(4, nobody or ["pass"]),
        "else:",
        *_indent(4, _action_lines(game, plan)),
    ]
    only_asked = [f"asked[row] = {asks}", "if not asked[row]:", "    continue"]
    return [
        "frame = 0",
        *[f"a{k} = 0" for k in (*types, *others)],
        "for game in range(len(g.steps)):",
        *_indent(4, _each_seat(game)),
        *_indent(8, only_asked if game.seats else []),
        *_indent(8, _entity_lines(game, plan, "frames")),
        *_indent(8, actions),
        *(["        rows[frame] = row"] if game.seats else []),
        "        frame += 1",
        "totals[6] = frame",
        *[f"totals[{7 + k}] = a{k}" for k in (*types, *others)],
    ]


def _entity_lines(game: CompiledGame, plan: KernelPlan, buffers: str) -> list[str]:
    """Return the lines that write the entities and global features of one row."""
    who, lines = _who(game), list[str]()
    for k, name in enumerate(game.obs_space.entities):
        source, columns = game.entities[name], range(len(game.obs_space.entities[name].features))
        lengths = _lengths(k) if buffers == "frames" else f"last_lengths[{k}, cut_off]"
        if source.window is not None:
            flat = len(game.state[source.rows].shape) == 2  # type: ignore[index]
            lines += [
                f"y0, x0 = window{k}(g, {who})",
                f"most_y, most_x = g.{source.rows}.shape[1:3]",
                f"if y0 < 0 or x0 < 0 or y0 + height{k} > most_y or x0 + width{k} > most_x:",
                f"    totals[0], totals[1], totals[2], totals[3] = {WRONG_WINDOW}, row, {k}, "
                "max(y0, x0)",
                "    return",
                f"for y in range(height{k}):",
                # Slices of a line, because Numba checks each index that might be negative.
                f"    line = g.{source.rows}[game, y0 + y, x0 : x0 + width{k}]",
                f"    into = {buffers}[{k}][a{k} + y * width{k} : a{k} + (y + 1) * width{k}]",
                f"    for x in range(width{k}):",
                *[f"        into[x, {f}] = line[x{'' if flat else f', {f}'}]" for f in columns],
                f"n{k} = height{k} * width{k}",
                f"{lengths} = n{k}",
                f"a{k} += n{k}",
            ]
            continue
        lines += [
            f"n{k} = {_count(game, source, k)}",
            f"if n{k} < 0 or n{k} > most{k}:",
            f"    totals[0], totals[1], totals[2], totals[3] = {WRONG_COUNT}, row, {k}, n{k}",
            "    return",
            f"for i in range(n{k}):",
        ]
        if callable(source.rows):
            lines.append(f"    rows{k}(g, {who}, i, {buffers}[{k}][a{k} + i])")
        else:
            flat = len(game.state[source.rows].shape) == 1
            lines += [
                f"    {buffers}[{k}][a{k} + i, {f}] = "
                f"g.{source.rows}[game, i{'' if flat else f', {f}'}]"
                for f in columns
            ]
        lines += [f"{lengths} = n{k}", f"a{k} += n{k}"]
    if game.global_features:
        last = f"last[{len(game.entities)}][cut_off]"
        out = f"frames[{plan.global_features}][frame]" if buffers == "frames" else last
        lines.append(f"global_features(g, {who}, {out})")
    return lines


def _action_lines(game: CompiledGame, plan: KernelPlan) -> list[str]:
    """Return the lines that write the actors of each action in one row, and their masks."""
    types = list(game.obs_space.entities)
    base = {name: " + ".join(["0", *(f"n{i}" for i in range(k))]) for k, name in enumerate(types)}
    lines: list[str] = []
    for j, (name, row) in enumerate(plan.actors.items()):
        actors = game.actions[name]
        if name in plan.actees:
            lines += _select_lines(game, plan, name, j, base)
            continue
        every = " + ".join(["0", *(f"n{k}" for k in range(len(types)))])
        index = f"{base[actors.of]} + i" if actors.of else every
        act = [
            f"frames[{row}][a{row} + actors, 0] = {index}",
            f"allowed = frames[{plan.masks[name]}][a{row} + actors]",
            "for c in range(len(allowed)):",
            "    allowed[c] = True",
            *_mask(game, actors, j, "allowed"),
            "actors += 1",
        ]
        lines += [
            "actors = 0",
            *_each_actor(game, actors, j, types, act),
            f"{_lengths(row)} = actors",
            f"a{row} += actors",
        ]
    return lines


def _select_lines(
    game: CompiledGame, plan: KernelPlan, name: ActionName, j: int, base: Mapping[str, str]
) -> list[str]:
    """Return the lines of a select-entity action, which has neither actors nor actees alone."""
    row, to, types = plan.actors[name], plan.actees[name], list(base)
    actors = game.actions[name]
    targets = [k for k, kind in enumerate(types) if kind in actors.targets]
    act = [f"frames[{row}][a{row} + actors, 0] = {base[actors.of or '']} + i"]
    done = [f"{_lengths(row)} = actors", f"{_lengths(to)} = actees"]
    if name in plan.pairs:
        pairs = plan.pairs[name]
        act += [
            f"allowed = frames[{pairs}][a{pairs} + actors * actees : "
            f"a{pairs} + (actors + 1) * actees, 0]",
            "allowed[:] = True",
            *_mask(game, actors, j, "allowed"),
        ]
        done += [f"{_lengths(pairs)} = actors * actees", f"a{pairs} += actors * actees"]
    return [
        f"actors, actees = 0, {' + '.join(f'n{k}' for k in targets)}",
        "if actees > 0:",
        *_indent(4, _each_actor(game, actors, j, types, [*act, "actors += 1"])),
        "if actors == 0:",
        "    actees = 0",
        "else:",
        f"    e = a{to}",
        *[
            line
            for k in targets
            for line in (
                f"    for i in range(n{k}):",
                f"        frames[{to}][e + i, 0] = {base[types[k]]} + i",
                f"    e += n{k}",
            )
        ],
        *done,
        f"a{row} += actors",
        f"a{to} += actees",
    ]


def _each_actor(
    game: CompiledGame, actors: Actors, j: int, types: list[str], act: list[str]
) -> list[str]:
    """Return the lines ``act`` for each entity ``i`` that acts, or once for a global action."""
    arguments = f"g, {_who(game)}" + ("" if actors.of is None else ", i")
    if actors.when is not None:
        act = [f"if when{j}({arguments}):", *_indent(4, act)]
    if actors.of is None:
        return act
    return [f"for i in range(n{types.index(actors.of)}):", *_indent(4, act)]


def _mask(game: CompiledGame, actors: Actors, j: int, out: str) -> list[str]:
    if actors.mask is None:
        return []
    return [f"mask{j}(g, {_who(game)}, {'' if actors.of is None else 'i, '}{out})"]


def _count(game: CompiledGame, source: Entities, k: int) -> str:
    if callable(source.count):
        return f"count{k}(g, {_who(game)})"
    if isinstance(source.count, str):
        return f"g.{source.count}[game]"
    return f"g.{source.rows}.shape[1]" if source.count is None else f"count{k}"


def _lengths(row: int) -> str:
    return f"lengths[{row}, frame] = shown[{row}, frame]"


def _each_seat(game: CompiledGame) -> list[str]:
    """Return the head of a loop over the rows of a game, or of a block without seats."""
    if game.seats is None:
        return ["if True:", "    row = game"]
    return ["for seat in range(seats):", "    row = game * seats + seat"]


def _who(game: CompiledGame) -> str:
    return "game" if game.seats is None else "game, seat"


def _items(name: str, count: int) -> str:
    return "".join(f"{name}[{i}], " for i in range(count))


def _indent(spaces: int, lines: list[str]) -> list[str]:
    return [" " * spaces + line for line in lines]
