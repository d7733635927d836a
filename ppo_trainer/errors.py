"""One exception class per kind of mistake in settings, run folders and training."""

from __future__ import annotations

from entity_env.errors import EntityEnvError

__all__ = [
    "CallbackError",
    "CheckpointError",
    "ConfigError",
    "DeviceError",
    "DivergedError",
    "ExportCheckError",
    "LearnerLostError",
    "NonFiniteError",
    "RunFolderError",
    "TrainerError",
    "UntrustedRunError",
    "VideoError",
]


class TrainerError(EntityEnvError):
    """Base class of this package's errors, with the message format of ``entity_env``."""


class ConfigError(TrainerError):
    """A setting that does not exist, has the wrong type, or contradicts another one."""


class DeviceError(TrainerError):
    """A device that this machine does not have."""


class RunFolderError(TrainerError):
    """A folder that is not a run, or a run whose environment cannot be found again."""


class UntrustedRunError(RunFolderError):
    """A run that names code to import, without the user's consent."""


class CallbackError(TrainerError):
    """A callback of the user that raised an exception."""


class CheckpointError(TrainerError):
    """A checkpoint that is missing, damaged, or belongs to other settings."""


class NonFiniteError(TrainerError):
    """A loss or a gradient that is NaN or infinite."""


class DivergedError(NonFiniteError):
    """A network whose outputs are not finite, so that its parameters are not worth saving."""


class LearnerLostError(TrainerError):
    """A process of the same training that has ended or does not answer any more."""


class ExportCheckError(TrainerError):
    """An exported graph whose outputs differ from those of the network."""


class VideoError(TrainerError):
    """A video that cannot be drawn or written."""
