"""One exception class per kind of mistake in settings, run folders and training."""

from __future__ import annotations

from entity_env.errors import EntityEnvError

__all__ = [
    "CallbackError",
    "CheckpointError",
    "ConfigError",
    "DeviceError",
    "ExportCheckError",
    "LearnerLostError",
    "NonFiniteError",
    "RunFolderError",
    "TrainerError",
    "UntrustedRunError",
    "VideoError",
]


class TrainerError(EntityEnvError):
    """Base of this package's errors; the message format is the one of ``entity_env``."""


class ConfigError(TrainerError):
    """A setting that does not exist, has the wrong type, or contradicts another one."""


class DeviceError(TrainerError):
    """A device that this machine does not have."""


class RunFolderError(TrainerError):
    """A folder that is not a run, or a run whose environment cannot be found again."""


class UntrustedRunError(RunFolderError):
    """A run that names code to import, without the user's consent."""


class CallbackError(TrainerError):
    """A callback of the user's that has failed."""


class CheckpointError(TrainerError):
    """A checkpoint that is missing, damaged, or belongs to other settings."""


class NonFiniteError(TrainerError):
    """A loss or a gradient that is NaN or infinite."""


class LearnerLostError(TrainerError):
    """A process that learns together with this one and has ended, or answers no more."""


class ExportCheckError(TrainerError):
    """An exported graph that does not do what its network does."""


class VideoError(TrainerError):
    """A video that cannot be drawn or written."""
