"""Play any environment in the terminal, yourself or with an agent."""

from __future__ import annotations

import sys

from entity_env.terminal.runner import main, play_in_terminal

__all__ = ["main", "play_in_terminal"]

if __name__ == "__main__":
    sys.exit(main())
