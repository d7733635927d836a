"""Python runs all games here, which finds the same faults without the time to compile them.

Tests with the mark ``compiled`` compare compiled games with those that Python runs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.rows import interpret_all

from entity_env.rows.compiled import CompiledRows


@pytest.fixture(autouse=True)
def _in_python(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if not request.node.get_closest_marker("compiled"):
            interpret_all(patch, CompiledRows, resets=True)
        yield
