"""Exception classes, one for each kind of mistake, and the format of their messages.

A message names the mistake, the expected and the received value, and the valid options. The code
that finds a mistake rarely knows the environment and the step; its callers add this place with
``located``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

__all__ = [
    "DAMAGES",
    "FAILURES",
    "ActionIndexError",
    "ActionMaskError",
    "ActionShapeError",
    "ActorError",
    "CapacityError",
    "ClosedError",
    "DeterminismError",
    "DuplicateIdError",
    "EmptyMaskError",
    "EntityEnvError",
    "EnvironmentFailedError",
    "FeatureShapeError",
    "FeatureTypeError",
    "FeatureValueError",
    "IdError",
    "MaskShapeError",
    "MaskTypeError",
    "MaskedActionError",
    "MetricError",
    "MissingPackageError",
    "NotReadyError",
    "NumEnvsError",
    "ObservationError",
    "RecordingError",
    "ResetNeededError",
    "RewardError",
    "RowsError",
    "SeatError",
    "SeedError",
    "SettingError",
    "SpaceError",
    "StateError",
    "TimeoutValueError",
    "UnhashableIdError",
    "UnknownActionError",
    "UnknownEntityTypeError",
    "UnknownEnvironmentError",
    "VisibilityError",
    "WorkerDiedError",
    "check_known",
    "counted",
    "nearest",
    "shorten",
    "unknown_name",
]


class EntityEnvError(ValueError):
    """Base of all errors that this package raises for mistakes of users.

    Args:
        what: The mistake, with the name of the entity type, feature or action.
        expected: The expected value, as text.
        received: The received value.
        options: The valid names or values, if they can be listed.
        hint: A hint on how to correct the mistake.
        where: The place, such as ``environment 3, step 17``; see ``located``.
        about: The names of the arguments that are wrong, separated by spaces; see
            ``arguments.named_settings``.
    """

    def __init__(
        self,
        what: str,
        *,
        expected: object = None,
        received: object = None,
        options: Iterable[object] | None = None,
        hint: str | None = None,
        where: str | None = None,
        about: str = "",
    ) -> None:
        super().__init__(what)
        self.what = what
        self.expected = None if expected is None else _text(expected)
        self.received = None if received is None else _text(received)
        self.options = None if options is None else ", ".join(map(_option, options)) or "(none)"
        self.hint = hint
        self.where = where
        self.about = about

    def located(self, where: str) -> EntityEnvError:
        """Add the place unless there is one already, and return the error itself."""
        self.where = self.where or where
        return self

    def fields(self) -> dict[str, Any]:
        """Return the parts of the message as strings, to send them to another process."""
        return {
            name: getattr(self, name)
            for name in ("what", "expected", "received", "options", "hint", "where", "about")
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> EntityEnvError:
        """Return the error with these ``fields``."""
        error = cls(fields["what"])
        for name, value in fields.items():
            setattr(error, name, value)
        return error

    def __str__(self) -> str:
        lines = [f"{self.where}: {self.what}" if self.where else self.what]
        for label, text in (
            ("expected", self.expected),
            ("received", self.received),
            ("valid", self.options),
            ("hint", self.hint),
        ):
            if text is not None:
                lines.append(f"  {label + ':':<10}{text}")
        return "\n".join(lines)


E = TypeVar("E", bound=EntityEnvError)


class SpaceError(EntityEnvError):
    """An observation or action space that contradicts itself."""


class ObservationError(EntityEnvError):
    """An observation that is not an ``Observation``, or whose parts have the wrong type."""


class UnknownEntityTypeError(EntityEnvError):
    """An entity type that the observation space does not declare."""


class FeatureShapeError(EntityEnvError):
    """Feature rows of the wrong width, ragged rows, or the wrong number of dimensions."""


class FeatureTypeError(EntityEnvError):
    """Features that are not real numbers."""


class FeatureValueError(EntityEnvError):
    """A feature that is NaN, infinite, or outside the range of a discrete feature."""


class VisibilityError(EntityEnvError):
    """A visibility mask of the wrong shape or type, or an actor hidden from its own policy."""


class IdError(EntityEnvError):
    """Too many, too few or missing entity ids."""


class DuplicateIdError(IdError):
    """One id for two entities of a frame."""


class UnhashableIdError(IdError):
    """An id that cannot be a dictionary key."""


class UnknownActionError(EntityEnvError):
    """An action that the action space does not declare, or that an ``act`` call leaves out."""


class ActionMaskError(EntityEnvError):
    """An action mask of the wrong class for its action space, or one that contradicts itself."""


class ActorError(EntityEnvError):
    """An actor or actee that is not in the frame."""


class MaskShapeError(EntityEnvError):
    """A mask whose shape does not match its actors and choices."""


class MaskTypeError(EntityEnvError):
    """A mask whose values are not booleans."""


class EmptyMaskError(EntityEnvError):
    """A mask that leaves an actor without any choice."""


class RewardError(EntityEnvError):
    """A reward that is not one finite number."""


class MetricError(EntityEnvError):
    """A metric that is not one finite number."""


class ActionShapeError(EntityEnvError):
    """Actions whose number of frames or actors differs from the observation they answer."""


class ActionIndexError(EntityEnvError):
    """A choice or an entity index that does not exist."""


class MaskedActionError(EntityEnvError):
    """A choice that the observation's mask forbids."""


class SeatError(EntityEnvError):
    """A contradiction about the seats of a game of several players."""


class SeedError(EntityEnvError):
    """A seed that is not an integer of at least 0."""


class NumEnvsError(EntityEnvError):
    """A number of environments or processes below 1."""


class UnknownEnvironmentError(EntityEnvError):
    """A short name or dotted path of an environment that does not exist."""


class SettingError(EntityEnvError):
    """A setting that is unknown, or has a value that is not valid."""


class RecordingError(EntityEnvError):
    """A file that is not a recording or is damaged, or a step that does not fit one."""


class ResetNeededError(EntityEnvError):
    """A call of ``act`` before ``reset``."""


class RowsError(EntityEnvError):
    """Actions for rows that do not act, or a wait for rows that have no actions."""


class NotReadyError(EntityEnvError):
    """A wait that ended before the requested number of rows was ready."""


class TimeoutValueError(EntityEnvError):
    """A timeout that is not a number of seconds."""


class ClosedError(EntityEnvError):
    """A call on a closed vector environment."""


class StateError(EntityEnvError):
    """A saved state that does not fit, or an environment that cannot save its state."""


FAILURES = (Exception, SystemExit)
"""Exceptions of a user's code, with ``sys.exit()``, which must not end the program silently."""
DAMAGES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions while reading a saved state with missing or wrong parts."""


class EnvironmentFailedError(EntityEnvError):
    """An exception of an environment's code; its traceback is part of the message."""


class DeterminismError(EntityEnvError):
    """An environment that plays different games from one seed."""


class CapacityError(EntityEnvError):
    """More entities or actors than fit into padded arrays."""


class MissingPackageError(EntityEnvError):
    """An optional package that is not installed."""


class WorkerDiedError(EntityEnvError):
    """A worker process ended without an answer."""


def nearest(name: object, options: Iterable[object]) -> str | None:
    """Return a hint with the closest valid name or value, or None if nothing is close."""
    by_text = {_text(option): option for option in options}
    close = get_close_matches(_text(name), by_text, n=1, cutoff=0.6)
    return f"did you mean {by_text[close[0]]!r}?" if close else None


def check_known(
    error: type[E], what: str, names: Iterable[object], options: Collection[object]
) -> None:
    """Raise ``error`` for the first name that is not one of the valid options.

    Args:
        error: The class of the error.
        what: The mistake, with ``{}`` in the place of the name.
        names: The names to check.
        options: The valid names.
    """
    for name in names:
        try:
            is_known = name in options
        except TypeError:  # it cannot be hashed
            is_known = False
        if not is_known:
            raise unknown_name(error, what.replace("{}", shorten(name)), name, options)


def unknown_name(error: type[E], what: str, name: object, options: Iterable[object]) -> E:
    """Return the error for a name that is not one of the valid options, with the closest one."""
    options = list(options)
    return error(what, options=options, hint=nearest(name, options))


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, such as ``1 row``, ``2 rows`` or ``1,000 entities``."""
    if count != 1:
        ending = "ies" if noun.endswith("y") else "es" if noun.endswith(("s", "ch")) else "s"
        noun = noun.removesuffix("y") + ending
    return f"{count:,} {noun}"


def shorten(value: object, limit: int = 120) -> str:
    """Return ``repr(value)``, cut to ``limit`` characters; never raise."""
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _text(value: object) -> str:
    """Return ``str(value)`` in full; never raise."""
    try:
        return str(value)
    except Exception:
        return shorten(value)


def _option(value: object) -> str:
    return shorten(value, 200)  # long enough for a path to copy
