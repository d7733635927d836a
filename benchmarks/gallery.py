"""The pictures of ``docs/games.md``: ``python -m benchmarks.gallery [name ...]``, a minute.

Each game is played for some steps by its reference player, else at random, and drawn as ``watch``
draws it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from PIL import Image

from entity_env.agent import RandomAgent
from entity_env.drawing import draw_observation
from entity_env.errors import EntityEnvError
from entity_env.player.scripted_agent import load_script
from entity_env.registry import alone, resolve
from ppo_trainer import recipe

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "games"
MOST = (360, 300)
STEPS = {
    "capture_the_flag": 60,
    "cherry_pick": 2,
    "connect_four": 6,
    "fill_order": 0,
    "floor_is_lava": 0,
    "job_shop": 80,
    "king_of_the_hill": 60,
    "minefield": 6,
    "minesweeper": 1,
    "minirts": 60,
    "move_to_origin": 6,
    "multi_snake": 40,
    "photosynthesis": 40,
    "pick_matching_balls": 3,
    "pursuit": 6,
    "snake_arena": 25,
    "tic_tac_toe": 2,
    "tower_defence": 60,
    "treasure_hunt": 12,
    "vehicle_routing": 25,
    "warehouse": 40,
}
"""How many steps of each game are played before it is drawn."""


def picture(name: str, steps: int) -> Image.Image:
    """Return a picture of a game after some steps."""
    config = recipe(name)
    settings = {key: value for key, value in config.env.items() if key != "_target_"}
    game = alone(resolve(config.env["_target_"]))(**settings)
    game.seed(4)
    seen = game.reset()
    players: list[Any] = [RandomAgent(game.obs_space(), game.action_space(), seed=1)]
    if config.eval.scripted is not None:
        players.insert(0, load_script(config.eval.scripted, "eval.scripted"))
    for _ in range(steps):
        actions = None
        for player in players:
            try:
                actions = player.act(seen) if hasattr(player, "act") else player(seen)
                break
            except (EntityEnvError, AttributeError, TypeError):  # a player of rows, not of one game
                continue
        seen = game.act(actions)
        if seen.done:
            break
    try:
        drawn = game.render()
    except NotImplementedError:
        drawn = draw_observation(seen, game.obs_space())
    image = Image.fromarray(drawn).convert("RGB")
    image.thumbnail(MOST, Image.Resampling.LANCZOS)
    return image.quantize(64)


def main() -> None:
    """Draw the games that are named, or all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or STEPS:
        path = FOLDER / f"{name}.png"
        picture(name, STEPS[name]).save(path, optimize=True)
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
