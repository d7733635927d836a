"""Functions that play whole episodes, with policies for rows or for single observations.

``python -m entity_env.play minesweeper`` is a command for people, that of ``entity_env.runner``.
"""

from __future__ import annotations

import sys

from entity_env.player.episodes import (
    Policy,
    VecPolicy,
    play_episodes,
    play_rows,
    play_scripted,
    random_policy,
)

__all__ = ["Policy", "VecPolicy", "play_episodes", "play_rows", "play_scripted", "random_policy"]

if __name__ == "__main__":
    from entity_env.runner import main

    sys.exit(main())
