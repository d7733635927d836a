"""Replays, which hold the settings and the seed of games, and the choices of each step.

    rows = RecordReplay(make_rows(4, seed=1), "games.replay", env="minirts", settings={}, seed=1)
    ...                                   # play as usual
    replay = Replay.read("games.replay")
    for moment in replay.play(): ...      # the same games again, step by step

A replay is small, because playing the games again computes everything else. The file consists of
JSON lines: one with the settings, then one for each step, which is written with one call, so that a
program that is killed loses at most the current step. A step ends with a checksum of the
observation after it, which shows when playing again if the game is still the same.
"""

from __future__ import annotations

import functools
import json
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from entity_env.batching.kinds.answers import AnswerForm, answers_of_frames
from entity_env.batching.kinds.table import answer_forms
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.environment import check_seed
from entity_env.errors import (
    EntityEnvError,
    RecordingError,
    SettingError,
    SpaceError,
    UnknownEnvironmentError,
    counted,
    shorten,
)
from entity_env.recording.parts import DamageWarning
from entity_env.registry import (
    Factory,
    alone,
    check_settings,
    has_seats,
    is_registered,
    is_rows,
    needing_consent,
    registered_packages,
    resolve,
    seated,
)
from entity_env.rows.list_env import ListEnv
from entity_env.rows.vec_env import VecEnv
from entity_env.seats.seat_rows import SeatRows
from entity_env.seats.table_rows import TableRows
from entity_env.spaces import ActionName, ObsSpace
from entity_env.storage.bounded_json import parse_json
from entity_env.storage.files import UnfitFileError, read_file
from entity_env.storage.space_json import spaces_from_json, spaces_to_json
from entity_env.wrappers.feature_filter import FeatureFilter, VecFeatureFilter
from entity_env.wrappers.vec_wrapper import VecWrapper

__all__ = ["Moment", "RecordReplay", "Replay", "ReplayStep", "make_rows"]

_FORMAT, _VERSION = "replay of ragged-rl", 3
_KINDS = {"env": str, "settings": dict, "seed": int, "rows": int, "start": int}
_MOST_BYTES = 1 << 30
_MOST_VALUES, _MOST_SAVED = 1 << 20, 1 << 25  # of a line, and of the first one
_MOST_IDLE_ROWS, _MOST_SEATS = 1024, 64

RowChoices: TypeAlias = Mapping[ActionName, list[Any]]
"""For each action the choices of a row's actors: indices of labels or entities, or real numbers."""


@dataclass(frozen=True)
class ReplayStep:
    """One step of all rows.

    Args:
        choices: The choices of each row that acted.
        checksum: The checksum of the observation after the step.
    """

    choices: Mapping[int, RowChoices]
    checksum: int


@dataclass(frozen=True)
class Moment:
    """One step of a replay that is played again.

    Args:
        step: The number of the step; -1 before the first one.
        choices: The choices of each row that acted.
        obs: The observation of all rows after the step.
    """

    step: int
    choices: Mapping[int, RowChoices]
    obs: VecObs


@dataclass(frozen=True)
class Replay:
    """Games to be played again.

    Args:
        env: The short name or dotted path of the environment.
        settings: Its settings.
        seed: The seed of the rows, or of the one environment.
        rows: The number of rows; 0 for one game that was played by ``TableRows``.
        start: The checksum of the first observation.
        steps: The steps.
        state: The saved state from which the rows start; None for a reset.
        table: True if ``rows`` is 0 and the game was played with all of its seats.
        shown: The observation space to which a filter reduced the rows, or None.
    """

    env: str
    settings: Mapping[str, Any]
    seed: int
    rows: int
    start: int
    steps: tuple[ReplayStep, ...] = field(repr=False)
    state: list[Any] | None = field(repr=False, default=None)
    table: bool = False
    shown: ObsSpace | None = field(repr=False, default=None)

    @classmethod
    def read(cls, path: str | Path) -> Replay:
        """Read a file; leave out an incomplete step at its end.

        Steps from a damaged line on cannot be played, and are left out with a ``DamageWarning``.

        Args:
            path: Path of the file.

        Raises:
            RecordingError: The file does not exist, is not a replay, or its first line is damaged.
        """
        where = f"replay {path}"
        try:
            data = read_file(path, _MOST_BYTES)
        except (OSError, UnfitFileError) as error:
            raise RecordingError(f"{where} cannot be read: {error}") from error
        # A line without an end is incomplete.
        lines = [line for line in data.splitlines(keepends=True) if line.endswith(b"\n")]
        if not lines:
            raise RecordingError(f"{where} is empty", expected="a file that RecordReplay wrote")
        known = _read_head(lines[0], where)
        steps: list[ReplayStep] = []
        try:
            for line in lines[1:]:
                steps.append(_read_step(line, where, len(steps)))
        except RecordingError as error:
            warnings.warn(
                f"{error.what}; read: {counted(len(steps), 'step')} before it",
                DamageWarning,
                stacklevel=2,
            )
        acting = {row for step in steps for row in step.choices}
        if known["rows"] > _MOST_IDLE_ROWS + _MOST_SEATS * len(acting):
            raise RecordingError(
                f"{where} has {counted(known['rows'], 'row')}, of which only {len(acting):,} "
                "ever act"
            )
        return cls(**known, steps=tuple(steps))

    def play(self, rows: VecEnv | None = None, *, trust: bool = False) -> Iterator[Moment]:
        """Play the games again, and check after each step that they are the same.

        Args:
            rows: The rows, which are not closed; None makes them from the settings of the replay.
            trust: Consent to import an environment that is not registered.

        Raises:
            RecordingError: A decision of the replay is not possible, or the games differ from the
                recorded ones.
            UnknownEnvironmentError: The environment does not exist, or there is no consent to
                import it.
            SettingError: A setting names code or files, and there is no consent.
        """
        if rows is None:
            with self.make_rows(trust=trust) as made:
                yield from self.play(made)
            return
        inner = rows.env if isinstance(rows, VecWrapper) else rows
        forms = answer_forms(rows.action_space())
        try:
            obs = rows.reset() if self.state is None else rows.set_state(self.state)
        except EntityEnvError as error:
            raise RecordingError(f"the replay cannot be started: {error}") from error
        _check_same(obs, self.start, "at the beginning")
        yield Moment(-1, {}, obs)
        for number, step in enumerate(self.steps):
            try:
                if isinstance(inner, TableRows) and inner.is_over:
                    obs = rows.reset()
                else:
                    obs = rows.act(_actions_of(step.choices, obs, forms, number))
            except RecordingError:
                raise
            except EntityEnvError as error:
                raise RecordingError(
                    f"a decision of the replay is not possible at step {number}: {error}"
                ) from error
            _check_same(obs, step.checksum, f"from step {number} on")
            yield Moment(number, step.choices, obs)

    def make_rows(self, *, trust: bool = False) -> VecEnv:
        """Make the rows with the settings of the replay."""
        # Packages that register environments are trusted.
        known = is_registered(self.env) or self.env.split(".")[0] in registered_packages()
        if not trust and not known:
            raise UnknownEnvironmentError(
                f"the replay names the environment {self.env!r}, which is not registered",
                expected="consent to import it: trust=True, or --trust",
            )
        factory = resolve(self.env)
        for setting, value in () if trust else needing_consent(factory, self.settings):
            raise SettingError(
                f"the replay names code or files: {setting}={shorten(value)}",
                expected="consent to import or read them: trust=True, or --trust",
            )
        settings = dict(self.settings)
        check_settings(factory, settings)
        try:
            if self.rows == 0:
                make: Any = (seated(factory) if self.table else None) or alone(factory)
                game = make(**settings)
                game = game if self.shown is None else FeatureFilter(game, self.shown)
                return TableRows(game, self.seed)
            rows = make_rows(factory, settings, self.rows, self.seed)
            return rows if self.shown is None else VecFeatureFilter(rows, self.shown)
        except EntityEnvError:
            raise
        except Exception as error:  # settings of an untrusted file may have any effect
            raise RecordingError(
                f"the rows of the replay cannot be made: {type(error).__name__}: {error}",
                received=f"{counted(self.rows, 'row')} of {self.env} {shorten(self.settings)}",
            ) from error


def make_rows(factory: Factory, settings: Mapping[str, Any], rows: int, seed: int) -> VecEnv:
    """Make rows of an environment: compiled, of seats, or of single environments.

    Args:
        factory: Function or class that makes the environment, the game or the rows.
        settings: Its arguments.
        rows: The number of rows.
        seed: The seed of the rows.
    """
    make: Any = factory
    if has_seats(factory) and not is_rows(factory):
        return SeatRows(lambda: make(**settings), rows, seed=seed)
    if is_rows(factory):
        made: VecEnv = make(rows, seed=seed, **settings)
        return made
    return ListEnv(functools.partial(alone(factory), **settings), rows, seed)


class RecordReplay(VecWrapper):
    """A wrapper of rows that writes their games as a replay.

    Args:
        rows: The rows, not yet reset.
        path: Path of the file to write, which must not exist.
        env: The short name or dotted path of the environment.
        settings: Its settings, as JSON values.
        seed: The seed of the rows.
        shown: The observation space to which a filter reduces the rows, or None.

    Raises:
        RecordingError: The file exists, or cannot be written.
        SettingError: The settings are not JSON values.
    """

    def __init__(
        self,
        rows: VecEnv,
        path: str | Path,
        env: str,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        shown: ObsSpace | None = None,
    ) -> None:
        super().__init__(rows)
        given = dict(settings or {})
        try:
            json.dumps(given, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise SettingError(
                f"the settings of a replay are not JSON values: {error}", received=shorten(given)
            ) from error
        facts = {"env": str(env), "settings": given, "seed": check_seed(seed), "rows": len(rows)}
        if shown is not None:
            facts["shown"] = spaces_to_json(shown, rows.action_space())
        if isinstance(rows, TableRows):
            facts |= {"rows": 0} if rows.is_alone else {"rows": 0, "table": True}
        self._head = {"format": _FORMAT, "version": _VERSION, **facts}
        self._forms = answer_forms(rows.action_space())
        self._step = 0
        path = Path(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("xb", buffering=0)
        except FileExistsError:
            raise RecordingError(
                f"the file {path} exists already", hint="choose another path, or remove it"
            ) from None
        except OSError as error:
            raise RecordingError(f"the replay {path} cannot be written: {error}") from error

    def _reset(self, seed: int | None) -> VecObs:
        if self._inner is not None and isinstance(self.env, TableRows) and self.env.is_over:
            return self._end_step({}, super()._reset(seed))
        self._check_first("reset")
        return self._begin(super()._reset(seed), {} if seed is None else {"seed": int(seed)})

    def _set_state(self, state: list[Any]) -> VecObs:
        self._check_first("set_state")
        return self._begin(super()._set_state(state), {"state": state})

    def _act(self, chosen: Mapping[ActionName, ActionBuffer]) -> VecObs:
        before: Any = self._inner
        obs = super()._act(chosen)
        answers = answers_of_frames(chosen, before.action_masks, self._forms)
        choices = {
            row: {name: values.tolist() for name, values in chosen.items() if len(values)}
            for row, chosen in zip(before.rows.tolist(), answers, strict=True)
        }
        return self._end_step(choices, obs)

    def _check_first(self, what: str) -> None:
        if self._inner is not None:
            raise RecordingError(
                f"rows with a replay cannot be restarted by {what}",
                hint="make new rows with another replay",
            )

    def _begin(self, obs: VecObs, head: Mapping[str, Any]) -> VecObs:
        self._file.write(_line({**self._head, **head, "start": _checksum(obs)}))
        return obs

    def _end_step(self, choices: Mapping[int, RowChoices], obs: VecObs) -> VecObs:
        """Write a step with one unbuffered call, so that no complete step is lost."""
        step = {"step": self._step, "choices": choices, "checksum": _checksum(obs)}
        self._file.write(_line(step))
        self._step += 1
        return obs

    def _close(self) -> None:
        self._file.close()
        super()._close()


def _line(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


def _checksum(obs: VecObs) -> int:
    """Return a checksum (CRC-32) of the acting rows, their features, and all rewards and ends."""
    total = 0
    parts: list[Any] = [obs.rows, obs.reward, obs.done]
    for name in sorted(obs.features):
        features = obs.features[name]
        parts += [features.size1(), features.as_array()]
    if obs.global_features is not None:
        parts.append(obs.global_features)
    for part in parts:
        total = zlib.crc32(np.ascontiguousarray(part).tobytes(), total)
    return total


def _check_same(obs: VecObs, checksum: int, when: str) -> None:
    """Raise RecordingError if the observation is not the recorded one."""
    if _checksum(obs) != checksum:
        raise RecordingError(
            f"the game differs from the recorded one {when}",
            hint="the file was damaged, or the rules or settings of the environment have changed",
        )


def _read_head(line: bytes, where: str) -> dict[str, Any]:
    """Return the arguments of ``Replay`` in the first line."""
    head = _parse(line, where, 1, _MOST_SAVED)
    if head.get("format") != _FORMAT:
        raise RecordingError(
            f"{where} is not a replay",
            expected=f'a first line with "format": "{_FORMAT}"',
            received=shorten(line[:200].decode(errors="replace")),
        )
    if head.get("version") != _VERSION:
        raise RecordingError(
            f"{where} was written by another version",
            expected=f"format {_VERSION}",
            received=head.get("version"),
        )
    for name, kind in _KINDS.items():
        if type(head.get(name)) is not kind:
            raise _damaged(where, 1, f"a {kind.__name__} called {name}", head.get(name))
    if head["seed"] < 0 or head["rows"] < 0:
        raise _damaged(where, 1, "seed and rows >= 0", head)
    known = {name: head[name] for name in _KINDS}
    if "shown" in head:
        try:
            known["shown"] = spaces_from_json(head["shown"])[0]
        except SpaceError as error:
            raise _damaged(where, 1, "an observation space called shown", error.what) from error
    return {**known, "state": head.get("state"), "table": head.get("table") is True}


def _read_step(line: bytes, where: str, number: int) -> ReplayStep:
    """Return the step in a line."""
    at = number + 2
    step = _parse(line, where, at, _MOST_VALUES)
    choices, checksum = step.get("choices"), step.get("checksum")
    if step.get("step") != number or type(checksum) is not int or not isinstance(choices, dict):
        raise _damaged(where, at, f"step {number}, choices and a checksum", step)
    for row, actions in choices.items():
        lists = actions.values() if isinstance(actions, dict) else [None]
        if not (row.isascii() and row.isdecimal()) or not all(isinstance(a, list) for a in lists):
            raise _damaged(where, at, "lists of choices by row and action", {row: actions})
    return ReplayStep({int(row): actions for row, actions in choices.items()}, checksum)


def _parse(line: bytes, where: str, number: int, most_values: int) -> dict[str, Any]:
    try:
        values = parse_json(line, most_values)
    except ValueError as error:
        raise RecordingError(f"{where} is damaged at line {number}: {error}") from error
    if not isinstance(values, dict):
        raise _damaged(where, number, "a JSON object", values)
    return values


def _damaged(where: str, line: int, expected: object, received: object) -> RecordingError:
    return RecordingError(
        f"{where} is damaged at line {line}", expected=expected, received=shorten(received)
    )


def _actions_of(
    choices: Mapping[int, RowChoices],
    obs: VecObs,
    forms: Mapping[ActionName, AnswerForm],
    step: int,
) -> dict[ActionName, ActionBuffer]:
    """Return the choices of a step in the format of ``VecEnv.act``.

    Raises:
        RecordingError: The choices do not match the observation.
    """
    rows = obs.rows.tolist()
    if list(choices) != rows:
        raise RecordingError(
            f"other rows act in the replay at step {step} than must act",
            expected=shorten(rows),
            received=shorten(list(choices)),
        )
    chosen = {}
    for name, form in forms.items():
        lengths = obs.action_masks[name].actors.size1()
        parts = [actions.get(name, []) for actions in choices.values()]
        try:
            values = np.array([v for part in parts for v in part], np.float64)
            fits = form.is_real or bool((values == np.floor(values)).all())
            fits = fits and values.size == int(lengths.sum()) * form.width
            fits = fits and [len(part) for part in parts] == lengths.tolist()
        except (TypeError, ValueError, OverflowError):
            fits = False
        if not fits or any(set(actions) - set(forms) for actions in choices.values()):
            raise RecordingError(
                f"the replay has a wrong number of choices at step {step}: action {name!r}",
                expected=f"one for each of {shorten(lengths.tolist())} actors",
                received=shorten(parts),
            )
        chosen[name] = form.buffer(values, lengths)
    return chosen
