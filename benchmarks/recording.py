"""Recordings: CPU microseconds a frame to write and to read, and bytes a frame.

python -m benchmarks.recording minesweeper --rows 128 --steps 512
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from entity_env.play import random_policy
from entity_env.recording import EpisodeDataset, RecordEpisodes
from entity_env.recording.replays import make_rows
from entity_env.registry import resolve
from entity_env.rows.vec_env import VecEnv


def seconds_of(calls: Iterator[object]) -> float:
    """Return the CPU seconds that it takes to use up an iterator."""
    begun = time.process_time()
    for _ in calls:
        pass
    return time.process_time() - begun


def measure(env: str, rows: int, steps: int) -> str:
    """Return the figures of random play in an environment."""

    def made() -> VecEnv:
        return make_rows(resolve(env), {}, rows, 1)

    frames, played, policy = 0, [], random_policy(0)
    with made() as inner:
        obs = inner.reset()
        for _ in range(steps):
            played.append(policy(obs))
            frames += obs.num_frames
            obs = inner.act(played[-1])

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "games.episodes"

        def write(recorded: bool) -> float:
            inner: VecEnv = RecordEpisodes(made(), path, overwrite=True) if recorded else made()
            begun = time.process_time()
            with inner as env:
                env.reset()
                for actions in played:
                    env.act(actions)
            return time.process_time() - begun

        plain, written = (min(write(kind) for _ in range(3)) for kind in (False, True))
        size = sum(file.stat().st_size for file in path.iterdir())
        dataset = EpisodeDataset(path)
        shuffled = min(seconds_of(dataset.minibatches(256, seed=1)) for _ in range(3))
        blocks = min(seconds_of(dataset.blocks(50_000, seed=1)) for _ in range(3))
    costs = [1e6 * cost / frames for cost in (written - plain, shuffled, blocks)]
    return (
        f"{env}, {frames:,} frames: write {costs[0]:.2f} us, read shuffled {costs[1]:.2f} us, "
        f"by episodes {costs[2]:.2f} us, {size / frames:.1f} bytes a frame"
    )


def main() -> None:
    """Print the figures of each environment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("envs", nargs="*", default=["minesweeper", "tic_tac_toe"])
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--steps", type=int, default=512)
    given = parser.parse_args()
    for env in given.envs:
        print(measure(env, given.rows, given.steps), flush=True)


if __name__ == "__main__":
    main()
