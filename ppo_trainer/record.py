"""Record games: ``python -m ppo_trainer.record <run> games.episodes [--episodes N]``.

It also records a script, or any other opponent by name, with settings in place of the run; and the
players of a replay, people among them::

    python -m ppo_trainer.record env=minesweeper games.episodes --agent script
    python -m ppo_trainer.record mine.replay games.episodes

With ``--search VISITS``, a run's network plays with a tree search (``Search``).

``entity_env.recording.EpisodeDataset`` reads the recording, a folder, and ``ppo_trainer.imitate``
trains on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from entity_env import ListEnv, Metric, Observation, VecEnv, VecObs
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.kinds.table import answer_forms
from entity_env.batching.unbatch import answers_in_frame
from entity_env.errors import SettingError, counted
from entity_env.play import play
from entity_env.recording import RecordEpisodes, Replay
from entity_env.registry import Factory
from entity_env.rows.vec_env import check_count
from entity_env.scripted_agent import is_script
from entity_env.wrappers.wrapper import Wrapper
from ppo_trainer.command_line.configs import config_of
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import make_factory, with_env
from ppo_trainer.evaluation.searched import search_of
from ppo_trainer.machine.commands import command_parser, run_main
from ppo_trainer.machine.device import default_torch_state, use_threads
from ppo_trainer.machine.screen import log
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.players.network_agent import agent_of
from ppo_trainer.players.opponents import make_opponent
from ppo_trainer.runs.load_run import load_policy
from ragged_net import ActionOutput, EntityBatch, NetOutput, RaggedTensor
from ragged_net.actors import Actors

__all__ = ["Recorded", "main", "record_agent", "record_replay", "record_run"]


@dataclass(frozen=True)
class Recorded:
    """The recording that ``record_run`` wrote.

    Args:
        path: Path of the folder.
        frames: Number of observations on which the agent acted.
        rewards: Rewards of the episodes that ended.
        size: Size of its files, in bytes.
    """

    path: Path
    frames: int
    rewards: Metric
    size: int

    def __str__(self) -> str:
        mean = f" of mean reward {self.rewards.mean:.3f}" if self.rewards.count else ""
        return (
            f"{self.path}: {counted(self.rewards.count, 'episode')}{mean}, "
            f"{counted(self.frames, 'frame')}; {self.size:,} bytes"
        )


@default_torch_state()
@torch.no_grad()
def record_run(
    run: str | Path,
    path: str | Path,
    env: Factory | None = None,
    *,
    episodes: int = 100,
    greedy: bool = False,
    logits: bool = False,
    search: int | None = None,
    seed: int | None = None,
    rows: int = 16,
    overwrite: bool = False,
    trust: bool = False,
) -> Recorded:
    """Record games of a run's newest network with the log-probabilities of its choices.

    If each policy of a population has its own seats, all of them play.

    Each row plays its part of the episodes to the end. Rows that finish sooner play on meanwhile,
    so that there are some more episodes, and some unfinished ones.

    Args:
        run: Run folder.
        path: Folder to write.
        env: Class of the environment, needed if it cannot be imported.
        episodes: Minimum number of episodes. A row plays at most ``eval.max_steps`` of the run's
            settings for each episode of its part.
        greedy: True to take the most likely choices; the log-probabilities are those of draws.
        logits: True to record the log-probabilities of all choices, too, which are normalised
            logits. A forbidden choice has -inf.
        search: Number of visits of a search tree for each decision, or None for no search. Choices
            of a search have no log-probabilities.
        seed: Seed of the games; None takes the run's own.
        rows: Number of environments that play at once.
        overwrite: True to replace an existing recording.
        trust: Consent to import the environment that the run of somebody else names.
    """
    if search is not None and (greedy or logits):
        raise SettingError(
            "a search takes the best choice, and has no log-probabilities",
            expected="--search without --greedy and --logits",
        )
    loaded = load_policy(run, env, trust=trust)
    use_threads(loaded.config, loaded.device)
    if seed is None:
        seed = derived_seed(loaded.config.seed, "record")
    drawn = derived_seed(seed, "actions")
    agent = agent_of(loaded.nets, loaded.game, loaded.config, seed=drawn, greedy=greedy)

    def decide(obs: VecObs) -> _Decided:
        output = agent.output(obs)
        log_probs = {name: _array(action.log_prob) for name, action in output.actions.items()}
        batch = EntityBatch.from_obs(obs, loaded.device)
        known = _logits(output, batch.actions) if logits else None
        return output.actions_for(obs), {"log_probs": log_probs, "logits": known}

    def plays(inner: VecEnv) -> Callable[[VecObs], _Decided]:
        if search is None:
            return decide
        chooses = search_of(loaded, inner, search)
        return lambda obs: (chooses(obs), {})

    def make_rows(count: int, seed: int) -> VecEnv:
        return loaded.game.rows(loaded.game.whole(count), seed)

    return _record(
        make_rows, loaded.config, path, plays,
        episodes=episodes, seed=seed, rows=rows, overwrite=overwrite,
    )  # fmt: skip


def record_agent(
    config: TrainConfig,
    path: str | Path,
    env: Factory | None = None,
    *,
    agent: str = "script",
    episodes: int = 100,
    seed: int | None = None,
    rows: int = 16,
    overwrite: bool = False,
) -> Recorded:
    """Record games of a script, or of another player, which plays all seats.

    Args:
        config: Settings with the environment and, in ``eval.scripted``, its script.
        path: Folder to write.
        env: Class of the environment, as for ``train``.
        agent: ``script``, or an opponent as in ``selfplay.opponents``: ``random``, the dotted path
            of another script, or a run folder.
        episodes: Minimum number of episodes.
        seed: Seed of the games; None takes ``config.seed``.
        rows: Number of environments that play at once.
        overwrite: True to replace an existing recording.

    Raises:
        SettingError: There is no such player.
    """
    config = with_env(config, env)
    name = config.eval.scripted if agent == "script" else agent
    if name is None:
        raise SettingError(
            "the environment has no scripted player",
            expected="eval.scripted=my_module.my_player, or --agent my_module.my_player",
        )
    seed = derived_seed(config.seed if seed is None else seed, "record")

    game, shown = make_factory(config, env), list[_LastObservation]()

    def make_rows(count: int, seed: int) -> VecEnv:
        if game.has_seats or not is_script(name):
            return game.rows(game.whole(count), seed)

        def make() -> _LastObservation:
            shown.append(_LastObservation(game()))
            return shown[-1]

        return ListEnv(make, count, seed)

    def plays(inner: VecEnv) -> Callable[[VecObs], _Decided]:
        spaces = inner.obs_space(), inner.action_space()
        player = make_opponent(name, *spaces, seed=derived_seed(seed, "actions"))
        if not shown:
            return lambda obs: (player.act_rows(obs), {})

        reader, forms = FrameReader(*spaces), answer_forms(spaces[1])

        def decide(obs: VecObs) -> _Decided:
            every = [
                answers_in_frame(player.act(row.last), reader.read(row.last), spaces[1])
                for row in shown
            ]
            lengths = {name: mask.actors.size1() for name, mask in obs.action_masks.items()}
            return {
                name: form.buffer(
                    np.concatenate([buffers[name] for buffers in every]), lengths[name]
                )
                for name, form in forms.items()
            }, {}

        return decide

    return _record(
        make_rows, config, path, plays,
        episodes=episodes, seed=seed, rows=rows, overwrite=overwrite,
    )  # fmt: skip


def record_replay(
    replay: str | Path, path: str | Path, *, overwrite: bool = False, trust: bool = False
) -> Recorded:
    """Play the games of a replay again, and record them.

    Args:
        replay: Replay, such as ``entity_env.runner ... --replay mine.replay`` writes.
        path: Folder to write.
        overwrite: True to replace an existing recording.
        trust: Consent to import the environment that the replay of somebody else names.
    """
    known = Replay.read(replay)
    rewards, frames = Metric(), 0
    inner = known.make_rows(trust=trust)
    with inner, RecordEpisodes(inner, path, overwrite=overwrite) as recorder:
        running = np.zeros(len(recorder))
        for moment in known.play(recorder):
            frames += len(moment.choices)
            running += moment.obs.reward
            rewards = rewards.merge(Metric.of(running[moment.obs.done]))
            running[moment.obs.done] = 0.0
    return Recorded(Path(path), frames, rewards, _size(Path(path)))


class _LastObservation(Wrapper):
    """A wrapper that keeps the last observation, for scripts that use the ids of entities."""

    last: Observation

    def observation(self, observation: Observation) -> Observation:
        self.last = observation
        return observation


_Decided = tuple[Mapping[str, Any], Mapping[str, Any]]
"""Actions, and further numbers to record of them."""


def _record(
    make_rows: Callable[[int, int], VecEnv],
    config: TrainConfig,
    path: str | Path,
    plays: Callable[[VecEnv], Callable[[VecObs], _Decided]],
    *,
    episodes: int,
    seed: int,
    rows: int,
    overwrite: bool,
) -> Recorded:
    """Record games of the player that ``plays`` returns for the rows."""
    check_count("number of episodes", episodes, error=SettingError)
    check_count("number of rows", rows)
    inner = make_rows(min(rows, episodes), seed)
    share = -(-episodes // len(inner))  # a game with many seats has more rows than asked for
    most_steps = share * config.eval.max_steps
    with inner, RecordEpisodes(inner, path, overwrite=overwrite) as recorder:
        decide = plays(inner)
        left = np.full(len(recorder), share)
        rewards, steps, frames = Metric(), 0, 0
        played = play(recorder, decide, lambda decided: recorder.act(decided[0], **decided[1]))
        obs = next(played)
        while (left > 0).any() and (steps < most_steps or not most_steps):
            frames += obs.num_frames
            obs = next(played)
            left -= obs.done
            steps += 1
            ended = obs.metrics.get("episodic_reward")
            rewards = rewards if ended is None else rewards.merge(Metric.of(ended))
    return Recorded(Path(path), frames, rewards, _size(Path(path)))


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.iterdir())


def _logits(output: NetOutput, actors: Mapping[str, Actors]) -> dict[str, npt.NDArray[np.float32]]:
    return {name: _array(_log(action, actors[name])) for name, action in output.actions.items()}


def _log(action: ActionOutput, actors: Actors) -> Tensor:
    """Return log-probabilities (A, C) or (P,), -inf only where a choice is forbidden.

    For a continuous action these are means and deviations, (A, 2 * K).
    """
    if action.mean is not None and action.std is not None:
        return torch.cat([action.mean, action.std], dim=1)
    probs = action.probs.values if isinstance(action.probs, RaggedTensor) else action.probs
    assert probs is not None
    log_probs = probs.clamp_min(torch.finfo(probs.dtype).tiny).log()
    given: Any = getattr(actors, "mask", None)
    mask = given.values if isinstance(given, RaggedTensor) else given
    return log_probs if mask is None else log_probs.masked_fill(~mask, float("-inf"))


def _array(tensor: Tensor) -> npt.NDArray[np.float32]:
    array: npt.NDArray[np.float32] = tensor.cpu().numpy()
    return array


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("record", __doc__)
    parser.add_argument(
        "source", nargs="+", help="run folder or replay; with --agent: env=minesweeper"
    )
    parser.add_argument("path", help="folder to write")
    parser.add_argument("--agent", help="script, or the name of an opponent, instead of a network")
    parser.add_argument("--episodes", type=int, default=100, help="minimum number of episodes")
    parser.add_argument("--greedy", action="store_true", help="take the most likely choices")
    parser.add_argument("--logits", action="store_true", help="record the logits of all choices")
    parser.add_argument(
        "--search",
        type=int,
        metavar="VISITS",
        help="play with a search of so many visits for each decision",
    )
    parser.add_argument("--seed", type=int, default=None, help="seed (default: the run's own)")
    parser.add_argument("--rows", type=int, default=16, help="environments that play at once")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing recording")
    options: dict[str, Any] = vars(parser.parse_args(arguments))
    source, agent = options.pop("source"), options.pop("agent")
    if agent is not None or "=" in source[0]:
        options = {
            name: options[name] for name in ("path", "episodes", "seed", "rows", "overwrite")
        }
        config = config_of(source, "record games of")
        made = record_agent(config, agent="script" if agent is None else agent, **options)
    elif len(source) > 1:
        parser.error(f"expected one run or replay, received {len(source)}")
    elif Path(source[0]).is_file():
        options = {name: options[name] for name in ("path", "trust", "overwrite")}
        made = record_replay(source[0], **options)
    else:
        made = record_run(source[0], **options)
    log(str(made), is_read=True)


if __name__ == "__main__":
    run_main(main)
