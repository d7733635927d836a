"""A viewer in the browser for recordings, environments, and agents that play.

python -m entity_env.viewer games.episodes
python -m entity_env.viewer minesweeper width=6
python -m entity_env.viewer runs/minesweeper

It needs no other packages, and loads nothing from the internet: Python's HTTP server serves a page
to this computer only, under an address that cannot be guessed. ``frames.py`` converts frames to
JSON; ``recorded.py``, ``replayed.py`` and ``live.py`` are sources of episodes; ``server.py`` serves
them, and ``pages/`` draws them.
"""

from __future__ import annotations

from entity_env.viewer.server import Viewer
from entity_env.viewer.source import Source
from entity_env.viewer.sources import open_source

__all__ = ["Source", "Viewer", "open_source"]
