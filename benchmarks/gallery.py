"""The pictures of ``docs/games.md``: ``python -m benchmarks.gallery [name ...]``, two minutes.

Each game is played for some steps by its reference player, else at random, and drawn as ``watch``
draws it; of some there is a film. ``python -m benchmarks.gallery --curves RUN ...`` draws the
learning curves of runs, one panel for each.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image, ImageChops
from ragged_envs.mmo.scripts import Player

from entity_env.agent import RandomAgent
from entity_env.drawing import draw_observation
from entity_env.errors import EntityEnvError
from entity_env.player.scripted_agent import load_script
from entity_env.registry import alone, resolve
from ppo_trainer import recipe
from ppo_trainer.runs.curve import panels
from ppo_trainer.runs.folder import RunFolder
from ppo_trainer.runs.logger import read_metrics

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
    "minesweeper_dark": 1,
    "minirts": 60,
    "move_to_origin": 6,
    "multi_snake": 40,
    "photosynthesis": 40,
    "pick_matching_balls": 3,
    "pursuit": 6,
    "rock_paper_scissors": 0,
    "snake_arena": 25,
    "tic_tac_toe": 2,
    "tower_defence": 60,
    "treasure_hunt": 12,
    "vehicle_routing": 25,
    "warehouse": 40,
    "xor": 0,
}
"""Number of steps of each game that are played before it is drawn."""
FILMS = ("leduc_poker", "mmo")
FORAGED = 120
"""Steps of the film of ``mmo``, of which every fifth one is drawn."""


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
    return small(drawn)


def small(drawn: Any) -> Image.Image:
    """Return a picture of few colours without the empty space around it."""
    image = Image.fromarray(drawn).convert("RGB")
    empty = Image.new("RGB", image.size, image.getpixel((image.width - 1, image.height - 1)))
    left, top, right, bottom = ImageChops.difference(image, empty).getbbox() or (0, 0, 1, 1)
    room = 8
    box = (max(left - room, 0), max(top - room, 0), right + room, bottom + room)
    image = image.crop((*box[:2], min(box[2], image.width), min(box[3], image.height)))
    image.thumbnail(MOST, Image.Resampling.LANCZOS)
    return image.quantize(64)


def foraging() -> Iterator[Image.Image]:
    """Yield pictures of a world in which all forage and fight."""
    rows = resolve("mmo")(num_envs=128, seed=4, agents=128, populations=8)
    player, obs = Player("forage", attack="melee", seed=1), rows.reset()
    for step in range(FORAGED):
        if step % 5 == 0:
            yield small(rows.draw_row(0, cell=4))
        obs = rows.act(player(obs))


def betting() -> Iterator[Image.Image]:
    """Yield what the player to move sees, in a game that is played at random."""
    game = alone(resolve("leduc_poker"))()
    game.seed(23)
    seen = game.reset()
    agent = RandomAgent(game.obs_space(), game.action_space(), seed=2)
    while not seen.done:
        yield small(draw_observation(seen, game.obs_space()))
        seen = game.act(agent.act(seen))
    yield small(draw_observation(seen, game.obs_space()))


def film(path: Path, name: str) -> None:
    """Write a film."""
    pictures = list(betting() if name == "leduc_poker" else foraging())
    size = max(own.width for own in pictures), max(own.height for own in pictures)
    pages = [Image.new("RGB", size, "white") for _ in pictures]
    for page, own in zip(pages, pictures, strict=True):
        page.paste(own.convert("RGB"))
    pause = 1500 if name == "leduc_poker" else 250
    first, *others = [page.quantize(64) for page in pages]
    first.save(path, save_all=True, append_images=others, duration=pause, loop=0)


def curves(runs: Sequence[Path]) -> None:
    """Draw one sheet of learning curves: the wins of each run, else its rewards or lengths."""
    columns = 4
    lines = -(-len(runs) // columns)
    sheet = Figure(figsize=(3 * columns, 1.9 * lines), layout="constrained", dpi=80)
    for axes, path in zip(sheet.subplots(lines, columns).flat, runs, strict=False):
        run = RunFolder.open(path)
        config = run.read_config()
        every = panels(read_metrics(run), config.rollout.num_envs, ())
        panel = next(one for one in every if not one.is_constant)  # wins, rewards, lengths
        steps, values = zip(*panel.points, strict=True)
        axes.plot([step / 1e6 for step in steps], values, linewidth=1.2)
        axes.set_title(f"{path.name}, {panel.label}", fontsize=8)
        axes.tick_params(labelsize=7)
    for axes in sheet.axes[len(runs) :]:
        axes.set_axis_off()
    sheet.supxlabel("million steps", fontsize=8)
    FigureCanvasAgg(sheet).print_png(str(FOLDER / "curves.png"))


def main() -> None:
    """Draw the games that are named, or all, or the curves of runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help="game (default: all)")
    parser.add_argument("--curves", nargs="+", type=Path, metavar="RUN", help="runs to draw")
    given = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if given.curves:
        curves(given.curves)
        return
    for name in given.names or [*STEPS, *FILMS]:
        path = FOLDER / f"{name}.{'gif' if name in FILMS else 'png'}"
        if name in FILMS:
            film(path, name)
        else:
            picture(name, STEPS[name]).save(path, optimize=True)
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
