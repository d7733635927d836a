"""Exception classes of all packages, one for each mistake that a program may catch apart.

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
    "ActionError",
    "AdoptionError",
    "BatchError",
    "CallbackError",
    "CapacityError",
    "CheckpointError",
    "ClosedError",
    "DeviceError",
    "DivergedError",
    "DtypeError",
    "EntityEnvError",
    "EnvironmentFailedError",
    "ExportError",
    "FeatureError",
    "GradientError",
    "LearnerLostError",
    "MaskError",
    "MissingPackageError",
    "NonFiniteError",
    "ObservationError",
    "RecordingError",
    "ResetNeededError",
    "RunFolderError",
    "SeatError",
    "SettingError",
    "SpaceError",
    "StateError",
    "UnknownEnvironmentError",
    "UntrustedRunError",
    "WorkerDiedError",
    "check_known",
    "counted",
    "nearest",
    "shorten",
    "unknown_name",
]


class EntityEnvError(ValueError):
    """Base of all errors that these packages raise for mistakes of users.

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
    """An observation that does not fit its space, or has a wrong type, id, reward or metric."""


class FeatureError(ObservationError):
    """Features of the wrong shape or type, not finite, or outside of their range."""


class MaskError(ObservationError):
    """An action mask of the wrong class, shape or type, without a choice, or for unknown actors."""


class SeatError(EntityEnvError):
    """A contradiction about the seats of a game of several players."""


class ActionError(EntityEnvError):
    """Actions that do not answer the observation, do not exist, or are forbidden by the mask."""


class SettingError(EntityEnvError):
    """A setting or an argument that is unknown, is not valid, or contradicts another one."""


class UnknownEnvironmentError(SettingError):
    """A short name or dotted path of an environment that does not exist."""


class MissingPackageError(EntityEnvError):
    """An optional package that is not installed."""


class ResetNeededError(EntityEnvError):
    """A call of ``act`` before ``reset``."""


class ClosedError(EntityEnvError):
    """A call on a closed vector environment."""


class EnvironmentFailedError(EntityEnvError):
    """An exception of an environment's code; its traceback is part of the message."""


class WorkerDiedError(EntityEnvError):
    """A worker process ended without an answer."""


class StateError(EntityEnvError):
    """A saved state that does not fit, or an environment that cannot save its state."""


class RecordingError(EntityEnvError):
    """A recording or a video that cannot be read, drawn or written."""


class CapacityError(EntityEnvError):
    """More entities or actors than fit into padded arrays."""


class BatchError(EntityEnvError):
    """Tensors of the wrong shape, or parts of a batch that contradict each other."""


class DtypeError(BatchError, TypeError):
    """A tensor of the wrong dtype, or an object of the wrong class."""


class DeviceError(EntityEnvError):
    """A device that this machine lacks, or tensors on different devices."""


class GradientError(EntityEnvError):
    """A derivative that an operation does not have, such as a second one."""


class AdoptionError(EntityEnvError):
    """Networks that differ in more than their spaces, so that weights cannot be copied."""


class ExportError(EntityEnvError):
    """A network that cannot be exported, or an exported graph with other outputs."""


class RunFolderError(EntityEnvError):
    """A folder that is not a run, or a run whose environment cannot be found again."""


class UntrustedRunError(RunFolderError):
    """A run that names code to import, without the user's consent."""


class CheckpointError(EntityEnvError):
    """A checkpoint that is missing, damaged, or belongs to other settings."""


class CallbackError(EntityEnvError):
    """A callback of the user that raised an exception."""


class NonFiniteError(EntityEnvError):
    """A loss or a gradient that is NaN or infinite."""


class DivergedError(NonFiniteError):
    """A network whose outputs are not finite, so that its parameters are not worth saving."""


class LearnerLostError(EntityEnvError):
    """A process of the same training that has ended or does not answer any more."""


FAILURES = (Exception, SystemExit)
"""Exceptions of a user's code, with ``sys.exit()``, which must not end the program silently."""
DAMAGES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions while reading a saved state with missing or wrong parts."""


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
