"""Keeps torch to one thread, and begins with the longest tests."""

from __future__ import annotations

import contextlib

import pytest

# The tests of entity_env also run on interpreters that have no torch.
with contextlib.suppress(ImportError):
    import torch

    torch.set_num_threads(1)


LONGEST = "test_other_pythons.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first: begun last, they would run while the other worker has nothing."""
    items.sort(key=lambda item: item.path.name != LONGEST)
