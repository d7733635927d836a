"""A viewer in the browser: recordings, environments that run, and agents that play in them.

python -m entity_env.viewer games.episodes
python -m entity_env.viewer minesweeper width=6
python -m entity_env.viewer runs/minesweeper

Nothing is installed for it, and nothing is loaded from elsewhere: Python's own HTTP server gives a
page to this computer alone, under an address that nobody can guess. ``frames.py`` says what a frame
is, ``recorded.py``, ``replayed.py`` and ``live.py`` where frames come from, ``server.py`` who may
see them, and ``pages/`` draws them.
"""

from __future__ import annotations

from entity_env.viewer.server import Viewer
from entity_env.viewer.source import Source
from entity_env.viewer.sources import open_source

__all__ = ["Source", "Viewer", "open_source"]
