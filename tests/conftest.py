"""One thread for torch, signals alive, the user's key untouched, and no curves."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

# The tests of entity_env also run on interpreters that have no torch.
with contextlib.suppress(ImportError):
    import torch

    torch.set_num_threads(1)


# Below nohup, or in the background of a script, they are ignored, and tests that wait would hang.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _own_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Sign runs with a key of the tests, also in the processes that they start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _kept_bytecode() -> Iterator[None]:
    """Share bytecode between the processes of tests, also if Python is told to write none.

    Each worker of a vectorised environment would compile all modules again, for a second or two.
    """
    with pytest.MonkeyPatch.context() as patch:
        if sys.dont_write_bytecode:
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            kept = Path(__file__).parents[1] / ".pytest_cache" / "bytecode"
            patch.setenv("PYTHONPYCACHEPREFIX", str(kept))
        yield


@pytest.fixture(scope="module", autouse=True)
def _light_workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers get the classes of a test's file by value: importing it would load torch, too."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


@pytest.fixture(scope="module", autouse=True)
def _no_curves() -> Iterator[None]:
    """Runs draw no curves, which would take most of their time; tests of them set it again."""
    with pytest.MonkeyPatch.context() as patch:
        if "ppo_trainer" in sys.modules:
            patch.setattr("ppo_trainer.training.report.draw_curve", lambda run: None)
        yield
