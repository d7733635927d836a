"""Every game of the registry has a section with a film in ``docs/games.md``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from benchmarks.gallery import FILMS, FOLDER
from entity_env.registry import path_of, registered

PAGE = (Path(__file__).parents[1] / "docs" / "games.md").read_text()
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
OURS = [name for name in registered() if path_of(name).startswith("ragged_envs.")]
MOST_BYTES = 150_000


@pytest.mark.parametrize("name", OURS)
def test_a_game_has_a_section_with_a_film(name):
    (section,) = [
        own
        for own in SECTIONS
        if name in re.split(r"[, ]+", own.splitlines()[0]) or f"`{name}`" in own
    ]
    assert re.search(r"!\[\w+\]\(images/games/\w+\.gif\)", section), section


def test_the_films_are_those_of_the_page_and_small():
    shown = set(re.findall(r"images/games/(\w+)\.gif", PAGE))
    assert shown == set(FILMS) == {path.stem for path in FOLDER.glob("*.gif")}
    for path in FOLDER.glob("*.gif"):
        assert path.stat().st_size < MOST_BYTES, path
        assert Image.open(path).n_frames > 3, path
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 4_000_000
