"""Record a run's games: ``python -m ppo_trainer.record <run> games.episodes [--episodes N]``.

``entity_env.recording.Recording`` reads the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from entity_env import Metric
from entity_env.errors import SettingError
from entity_env.recording import RecordEpisodes
from entity_env.registry import Factory
from entity_env.rows.vec_env import check_count
from ppo_trainer.experience.tensors import to_actions, to_batch
from ppo_trainer.machine.commands import command_parser, run_main
from ppo_trainer.machine.device import use_threads
from ppo_trainer.machine.screen import say
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.machine.torch_state import usual_torch
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.runs.load_run import load_policy
from ragged_net import ActionOutput, ContinuousActors, NetOutput, RaggedTensor
from ragged_net.actors import Actors

__all__ = ["Recorded", "main", "record_run"]


@dataclass(frozen=True)
class Recorded:
    """The file that ``record_run`` wrote.

    Args:
        path: The file.
        frames: Observations that the agent acted on.
        rewards: The rewards of the episodes that ended.
        size: The number of bytes that the file has now.
    """

    path: Path
    frames: int
    rewards: Metric
    size: int

    def __str__(self) -> str:
        mean = f" of mean reward {self.rewards.mean:.3f}" if self.rewards.count else ""
        return (
            f"{self.path}: {self.rewards.count:,} episodes{mean}, {self.frames:,} frames; "
            f"the file has {self.size:,} bytes"
        )


@usual_torch()
@torch.no_grad()
def record_run(
    run: str | Path,
    path: str | Path,
    env: Factory | None = None,
    *,
    episodes: int = 100,
    greedy: bool = False,
    logits: bool = False,
    seed: int | None = None,
    rows: int = 16,
    append: bool = False,
    overwrite: bool = False,
    trust: bool = False,
) -> Recorded:
    """Record games of a run's newest network with the log-probabilities of its choices.

    Each row plays its share of the episodes to the end. Rows that are done sooner go on meanwhile,
    so the file has some episodes more, and some unfinished ones.

    Args:
        run: The run folder.
        path: The file to write.
        env: The environment's class, only where it cannot be imported.
        episodes: The least number of episodes. No row plays longer than ``eval.max_steps`` of the
            run's settings for each episode of its share.
        greedy: Take the likeliest choices. The log-probabilities are those of drawing them.
        logits: Record the log-probabilities of all choices, too: these are logits, normalised. A
            forbidden choice has -inf.
        seed: Other games than the run's own.
        rows: Environments that play at once.
        append: Go on with a recording.
        overwrite: Replace it.
        trust: The consent to import the environment that somebody else's run names.
    """
    check_count("number of episodes", episodes, error=SettingError)
    check_count("number of rows", rows)
    loaded = load_policy(run, env, trust=trust)
    use_threads(loaded.config, loaded.device)
    if seed is None:
        seed = derived_seed(loaded.config.seed, "record")
    drawn = derived_seed(seed, "actions")
    agent = NetworkAgent(loaded.net, seed=drawn, greedy=greedy, precision=loaded.config.precision)
    share = -(-episodes // rows)
    most_steps = share * loaded.config.eval.max_steps
    inner = loaded.game.rows(loaded.game.whole(min(rows, episodes)), seed)
    with inner, RecordEpisodes(inner, path, append=append, overwrite=overwrite) as recorder:
        left = np.full(len(recorder), share)
        rewards, steps, frames = Metric(), 0, 0
        obs = recorder.reset()
        while (left > 0).any() and (steps < most_steps or not most_steps):
            batch = to_batch(obs, loaded.device)
            frames += obs.num_frames
            output = agent.output(obs, batch)
            obs = recorder.act(
                to_actions(output),
                log_probs={name: _array(own.log_prob) for name, own in output.actions.items()},
                logits=_logits(output, batch.actions) if logits else None,
            )
            left -= obs.done
            steps += 1
            ended = obs.metrics.get("episodic_reward")
            rewards = rewards if ended is None else rewards.merge(Metric.of(ended))
    return Recorded(Path(path), frames, rewards, Path(path).stat().st_size)


def _logits(output: NetOutput, actors: Mapping[str, Actors]) -> dict[str, npt.NDArray[np.float32]]:
    return {name: _array(_log(own, actors[name])) for name, own in output.actions.items()}


def _log(action: ActionOutput, actors: Actors) -> Tensor:
    """Return log-probabilities (A, C) or (P,); -inf only where a choice is forbidden.

    Of a continuous action means and deviations, (A, 2 * K).
    """
    if isinstance(actors, ContinuousActors):
        assert action.mean is not None
        assert action.std is not None
        return torch.cat([action.mean, action.std], dim=1)
    probs = action.probs.values if isinstance(action.probs, RaggedTensor) else action.probs
    assert probs is not None
    log_probs = probs.clamp_min(torch.finfo(probs.dtype).tiny).log()
    mask = actors.mask if isinstance(actors.mask, Tensor | None) else actors.mask.values
    return log_probs if mask is None else log_probs.masked_fill(~mask, float("-inf"))


def _array(tensor: Tensor) -> npt.NDArray[np.float32]:
    array: npt.NDArray[np.float32] = tensor.cpu().numpy()
    return array


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("record", __doc__)
    parser.add_argument("run", help="run folder")
    parser.add_argument("path", help="file to write")
    parser.add_argument("--episodes", type=int, default=100, help="at least so many")
    parser.add_argument("--greedy", action="store_true", help="always the likeliest choice")
    parser.add_argument("--logits", action="store_true", help="record all choices' logits")
    parser.add_argument("--seed", type=int, default=None, help="other games")
    parser.add_argument("--rows", type=int, default=16, help="environments that play at once")
    exists = parser.add_mutually_exclusive_group()
    exists.add_argument("--append", action="store_true", help="go on with the file")
    exists.add_argument("--overwrite", action="store_true", help="replace the file")
    options: dict[str, Any] = vars(parser.parse_args(arguments))
    say(str(record_run(**options)), is_read=True)


if __name__ == "__main__":
    run_main(main)
