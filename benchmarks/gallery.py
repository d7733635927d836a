"""The films of ``docs/games.md``: ``python -m benchmarks.gallery [name ...]``, ten minutes for all.

Each recipe is played by its scripted player, or by an agent that this command trains, and drawn as
``watch --video`` draws it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops
from ragged_envs.mmo.scripts import Player

from entity_env import Environment, MaskedEnvironment
from entity_env.agent import Agent
from entity_env.environment import hints_of
from entity_env.registry import alone, resolve, seated
from entity_env.scripted_agent import ScriptedAgent, load_script
from ppo_trainer import recipe, train
from ppo_trainer.evaluation.steps import play_agent
from ppo_trainer.evaluation.video import draw_steps
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.runs.load_run import load_policy

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "games"
COLORS = 128


@dataclass(frozen=True)
class Film:
    """The film of a recipe.

    Args:
        episodes: Number of episodes.
        pictures: Largest number of pictures.
        every: Steps from one picture to the next one.
        pause: Milliseconds for each picture.
        trained: Steps of training; 0 for a scripted player.
        script: Dotted path of the script; None is that of the recipe.
        settings: Settings of the environment that differ from the recipe.
        seed: Seed of the environment.
        width: Largest width in pixels.
    """

    episodes: int = 1
    pictures: int = 40
    every: int = 1
    pause: int = 300
    trained: int = 0
    script: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 4
    width: int = 640


ONE_STEP = Film(episodes=4, pause=1500)
FILMS = {
    "capture_the_flag": Film(
        script="ragged_envs.rts.scripts.bring_the_flag_home", pictures=24, every=4, pause=250
    ),
    "cartpole": Film(trained=60_000, every=4, pause=100),
    "cherry_pick": Film(settings={"num_cherries": 8, "num_picks": 4}, pause=1000),
    "connect_four": Film(pause=700),
    "count": ONE_STEP,
    "fill_order": ONE_STEP,
    "floor_is_lava": Film(episodes=4, pause=1500, settings={"world": 2}),
    "job_shop": Film(settings={"jobs": 6, "machines": 6}),
    "kuhn_poker": Film(episodes=5, trained=400_000, pause=1500),
    "leduc_poker": Film(episodes=3, trained=400_000, pause=1500),
    "minefield": Film(every=2, pause=200, seed=3),
    "minesweeper": Film(episodes=2, pause=400),
    "minesweeper_boards": Film(episodes=3, pause=400),
    "minesweeper_cannon": Film(episodes=2, pause=400, seed=0),
    "minirts": Film(script="ragged_envs.rts.scripts.simple", pictures=30, every=3, pause=250),
    "mmo": Film(),
    "move_to_origin": Film(pause=200),
    "multi_armed_bandit": Film(pictures=10, pause=700),
    "multi_snake": Film(pictures=60, pause=150),
    "not_hotdog": ONE_STEP,
    "pendulum": Film(trained=100_000, every=3, pause=120, seed=3, width=320),
    "photosynthesis": Film(pictures=40, every=2, pause=500),
    "pursuit": Film(pause=300),
    "repeat_after_k": Film(trained=150_000, episodes=3, pause=1000),
    "rock_paper_scissors": ONE_STEP,
    "tic_tac_toe": Film(episodes=2, pause=900),
    "tower_defence": Film(trained=21_500, pause=300),
    "vehicle_routing": Film(pause=400),
    "warehouse": Film(every=2, pause=150),
    "xor": ONE_STEP,
}
FORAGED = 120
"""Steps of the film of ``mmo``, of which every fifth one is drawn."""


def played(name: str, film: Film) -> list[Image.Image]:
    """Return the pictures of some episodes of a game."""
    config = recipe(name)
    settings = {k: v for k, v in config.env.items() if k != "_target_"} | film.settings
    factory: Any = resolve(config.env["_target_"])
    players: Any = seated(factory)
    script = film.script or config.eval.scripted
    if players is None:
        game: Environment = alone(factory)(**settings)
    else:
        others = "random" if script is None else load_script(script, "script")
        game = MaskedEnvironment(players(**settings), others)
    agent: Agent
    if film.trained:
        agent = trained(name, film)
    else:
        agent = ScriptedAgent(load_script(script, "script"), game.obs_space(), game.action_space())
    every = play_agent(game, agent, episodes=film.episodes, seed=film.seed, draw=True)
    steps = [
        step
        for step in islice(every, film.pictures * film.every)
        if step.step % film.every == 0 or step.done
    ]
    steps = [replace(step, who="") for step in steps]  # the text above the films names the players
    pictures = draw_steps(steps, game.obs_space(), hints=hints_of(game))
    return [Image.fromarray(picture) for picture in pictures]


def trained(name: str, film: Film) -> Agent:
    """Return an agent that has been trained by the recipe, for fewer steps."""
    with tempfile.TemporaryDirectory() as folder:
        words = [f"total_timesteps={film.trained}", "eval.episodes=0", f"run_dir={folder}"]
        loaded = load_policy(train(recipe(name, *words)).run)
    return NetworkAgent(loaded.net, seed=0, greedy=True)


def foraging() -> Iterator[Image.Image]:
    """Yield pictures of a world in which all forage and fight."""
    rows = resolve("mmo")(num_envs=128, seed=4, agents=128, populations=8)
    player, obs = Player("forage", attack="melee", seed=1), rows.reset()
    for step in range(FORAGED):
        if step % 5 == 0:
            yield Image.fromarray(rows.draw_row(0, cell=4))
        obs = rows.act(player(obs))


def write(path: Path, pictures: Sequence[Image.Image], film: Film) -> None:
    """Write a film of few colours, without the empty space around it."""
    width, height = pictures[0].size
    corner = Image.new("RGB", (width, height), pictures[0].getpixel((width - 1, height - 1)))
    boxes = [ImageChops.difference(own, corner).getbbox() for own in pictures]
    left, top, right, bottom = zip(*[box for box in boxes if box], strict=True)
    room = 8
    box = (
        max(min(left) - room, 0),
        max(min(top) - room, 0),
        min(max(right) + room, width),
        min(max(bottom) + room, height),
    )
    pages = [own.crop(box) for own in pictures]
    for page in pages:
        page.thumbnail((film.width, film.width), Image.Resampling.LANCZOS)
    sheet = Image.new("RGB", (pages[0].width, pages[0].height * len(pages)))
    for i, page in enumerate(pages):
        sheet.paste(page, (0, i * page.height))
    # One palette for all, because pixels that stay the same are not stored again.
    counted: Any = sheet.getcolors(sheet.width * sheet.height)
    palette = Image.new("P", (1, 1))
    palette.putpalette([v for _, color in sorted(counted, reverse=True)[:COLORS] for v in color])
    pages = [page.quantize(palette=palette, dither=Image.Dither.NONE) for page in pages]
    pauses = [film.pause] * (len(pages) - 1) + [max(film.pause, 1500)]
    first, *others = pages
    first.save(path, save_all=True, append_images=others, duration=pauses, loop=0, optimize=True)


def main() -> None:
    """Draw the games that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help="game (default: all)")
    given = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in given.names or FILMS:
        path, film = FOLDER / f"{name}.gif", FILMS[name]
        write(path, list(foraging()) if name == "mmo" else played(name, film), film)
        print(f"{path}: {path.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
