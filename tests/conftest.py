"""Makes ``tests/support`` importable as ``support``, and keeps torch to one thread."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# The tests of entity_env also run on interpreters that have no torch.
with contextlib.suppress(ImportError):
    import torch

    torch.set_num_threads(1)
