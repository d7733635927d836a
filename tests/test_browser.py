"""An exported network plays in a web page as the network does in Python.

The rules need node; the page also Chromium and ``npm ci`` in examples/browser, or packages where
NODE_MODULES says.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from ragged_envs.minesweeper import MineSweeper
from support.trainer_runs import small_config

from entity_env import CategoricalAction

PAGE = Path(__file__).parents[1] / "examples" / "browser"
NODE = shutil.which("node")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PACKAGES = Path(os.environ.get("NODE_MODULES", PAGE / "node_modules"))
RULES = """
import { masks, newGame, play, randomNumbers } from "{page}/minesweeper.mjs";
const games = JSON.parse(process.argv[1]);
const random = randomNumbers(1);
console.log(JSON.stringify({
  played: games.map(({ game, moves }) => ({ next: play(game, moves), masks: masks(game) })),
  fresh: Array.from({ length: 200 }, () => (
    newGame({ width: 3, height: 2, mines: 2, robots: 1, random })
  )),
}));
"""

needs_node = pytest.mark.skipif(NODE is None, reason="needs node")


def random_board(rng):
    """A game in progress, and moves that it allows."""
    width, height = map(int, rng.integers(1, 6, 2))
    tiles = [(x, y) for x in range(width) for y in range(height)]
    mines = [tile for tile in tiles if rng.random() < 0.3]
    free = [tile for tile in tiles if tile not in mines]
    robots = [free[i] for i in rng.integers(0, len(free), int(rng.integers(1, 4)))] if free else []
    if not mines or not robots or len(mines) + len(robots) > len(tiles):
        return random_board(rng)
    game = MineSweeper.from_state(mines, robots, width=width, height=height)
    mask = game.observe().actions["Move"].mask
    return game, [int(rng.choice(np.flatnonzero(own))) for own in mask]


def as_json(game):
    saved = game.fields()
    return {
        **{name: saved[name] for name in ("width", "height", "steps")},
        "mines": saved["mines"][: saved["nmines"]],
        "robots": saved["robots"][: saved["nrobots"]],
    }


def moved(game, moves):
    """Return the input of ``act`` for the move of each robot."""
    ids = game.observe().ids["Robot"]
    return {"Move": CategoricalAction(ids, np.array(moves), [""] * 5)}


@needs_node
def test_the_rules_are_those_of_the_game_in_python():
    rng = np.random.default_rng(0)
    boards = [random_board(rng) for _ in range(200)]
    asked = [{"game": as_json(game), "moves": moves} for game, moves in boards]
    done = subprocess.run(
        [
            NODE,
            "--input-type=module",
            "-e",
            RULES.replace("{page}", PAGE.as_uri()),
            json.dumps(asked),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answers = json.loads(done.stdout)
    lost = won = 0
    for (game, moves), answer in zip(boards, answers["played"], strict=True):
        seen = game.observe()
        assert answer["masks"] == seen.actions["Move"].mask.tolist()
        after = game.act(moved(game, moves))
        assert answer["next"] == as_json(game)
        lost += len(seen.features["Robot"]) - len(after.features["Robot"])
        won += after.reward
    assert lost > 20
    assert won > 20
    # Fresh boards: all six tiles hold mines and robots, on three different ones each time.
    places = [
        [tuple(tile) for tile in board["mines"] + board["robots"]] for board in answers["fresh"]
    ]
    assert all(len(set(tiles)) == 3 for tiles in places)
    for k in range(3):
        assert len({tiles[k] for tiles in places}) == 6


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from ppo_trainer import train

    folder = tmp_path_factory.mktemp("browser")
    config = small_config(run_dir=str(folder), run_name="mines")
    return train(config, env=MineSweeper).run


@pytest.fixture
def address(run, tmp_path):
    """Give the address of a server of the page with the run's network."""
    pytest.importorskip("onnxscript")
    from ppo_trainer.export import export_run

    export_run(run, tmp_path / "policy.onnx")
    server = subprocess.Popen(
        [NODE, str(PAGE / "serve.mjs"), str(tmp_path / "policy.onnx"), "0"],
        env={**os.environ, "NODE_MODULES": str(PACKAGES)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()


def in_chromium(address, folder):
    """The page as it is when it has come to rest."""
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={folder}",
            "--virtual-time-budget=120000",
            "--dump-dom",
            address,
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@needs_node
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.skipif(
    not (PACKAGES / "onnxruntime-web").is_dir(),
    reason="needs npm ci --ignore-scripts in examples/browser",
)
def test_the_page_plays_as_the_network_does(address, run, tmp_path):
    from ppo_trainer.agent import load_agent

    dom = in_chromium(f"{address}?games=4&seed=3&width=5&height=4&mines=4&robots=3", tmp_path / "c")
    found = re.search(r'<pre id="log">(.+?)</pre>', dom, re.DOTALL)
    assert found is not None, dom[-2000:]
    games = json.loads(html.unescape(found.group(1)))
    assert len(games) == 4
    agent = load_agent(run, greedy=True, device="cpu")
    steps = 0
    for game in games:
        played = MineSweeper.from_state(
            game["mines"], game["robots"], width=game["width"], height=game["height"]
        )
        observation = played.observe()
        for moves in game["moves"]:
            assert list(agent.act(observation)["Move"].indices) == moves
            observation = played.act(moved(played, moves))
            steps += 1
        assert observation.done
        assert observation.metrics["win"] == game["won"]
    assert steps > 8
