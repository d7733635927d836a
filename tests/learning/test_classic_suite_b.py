"""The quick ones among the games with positions are learned with the recipes of ``conf/experiment``.

The thresholds are those of the results table; what plays without learning stays far below them.
"""

from __future__ import annotations

import pytest
from learning_support import recipe, train_and_play

from entity_env.registry import resolve

pytestmark = pytest.mark.learning
