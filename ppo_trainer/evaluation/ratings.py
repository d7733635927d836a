"""Ratings of the versions of a run: ``python -m ppo_trainer.league <run> --follow``.

A version is a checkpoint. It plays against random play, the scripted player of the run, and the
three versions that were rated before it, and all games of all versions are fitted together. The
rating of random play is 0, and 400 points are odds of 10 to 1.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from entity_env.agent import Agent
from entity_env.errors import CheckpointError, RunFolderError, SettingError
from entity_env.registry import Factory
from entity_env.rows.vec_env import check_count
from entity_env.storage.files import folder_lock, remove, remove_leftovers
from ppo_trainer.evaluation.matches import count_results, play_pair, rate
from ppo_trainer.machine.screen import log
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.players.opponents import make_opponent
from ppo_trainer.runs.checkpoint import load_network, network_of, own_checkpoints, save_network
from ppo_trainer.runs.folder import RunFolder, named_policy, refuse_link, writing
from ppo_trainer.runs.load_run import LoadedRun, load_policy
from ppo_trainer.runs.results import RatedPlayer, read_ratings, write_ratings
from ragged_net import RaggedNet

__all__ = ["GAMES", "Ratings", "follow"]

GAMES = 20
"""Number of games of a version against each player, if none is given."""

_LAST_VERSIONS = 3
"""Number of earlier versions that a version plays against."""
_PAUSE = 0.5
"""Seconds between two looks for new versions."""


def follow(
    run: str | Path, env: Factory | None = None, *, games: int = GAMES, trust: bool = False
) -> None:
    """Rate each version of a run when it appears, until this process is ended.

    Args:
        run: Run folder; the run may be in training, on this machine or on another one.
        env: Class of its environment, needed if that cannot be imported.
        games: Number of games of a version against each player.
        trust: Consent to import the code that the run names.

    Raises:
        SettingError: The game is for one player, or never ends, or there are no games.
        RunFolderError: Another process rates the run.
    """
    loaded = load_policy(run, env, "cpu", trust=trust, scripted=True)
    with _alone(loaded.run):
        ratings = Ratings(loaded, games)
        while True:
            name = ratings.rate_next()
            if name is None:
                time.sleep(_PAUSE)
            else:
                rating, deviation = ratings.ratings[name]
                log(f"{name}: {rating:.0f} +- {1.96 * deviation:.0f}")


class Ratings:
    """The ratings of the versions of a run, which continue those in its folder.

    The newest version is rated first, so that the ratings keep up with the training; older ones
    that still exist follow.

    Args:
        loaded: The run.
        games: See ``follow``.

    Attributes:
        ratings: Rating and standard deviation of each player.
    """

    def __init__(self, loaded: LoadedRun, games: int = GAMES) -> None:
        check_count("number of games", games, error=SettingError)
        loaded.game.sides()  # raises for a game for one player
        self._loaded, self._run, config = loaded, loaded.run, loaded.config
        self._count = games
        names = {"random": "random"}
        if config.eval.scripted is not None:
            names["scripted"] = config.eval.scripted
        spaces = loaded.net.obs_space, loaded.net.action_space
        seed = derived_seed(config.seed, "rating reference")
        self._agents: dict[str, Agent] = {
            name: make_opponent(path, *spaces, seed=seed, device="cpu")
            for name, path in names.items()
        }
        self._references = tuple(names)
        known = {player.player: player for player in read_ratings(self._run)}
        self._games = {name: dict(known[name].games) if name in known else {} for name in names}
        self._games |= {name: dict(player.games) for name, player in known.items()}
        self.ratings = {name: (player.rating, player.deviation) for name, player in known.items()}

    def rate_next(self) -> str | None:
        """Rate the newest version without a rating, and return its name; None without any."""
        copies, checkpoints = self._copies(), self._checkpoints()
        waiting = [name for name in {**checkpoints, **copies} if name not in self._games]
        if not waiting:
            return None
        newest = max(map(_steps_of, waiting))
        name = min(version for version in waiting if _steps_of(version) == newest)
        if name not in copies and not self._copy(checkpoints[name], name):
            return None
        earlier = [version for version in copies if version in self._games and version < name]
        opponents = [*self._references, *sorted(earlier)[-_LAST_VERSIONS:]]
        self._games[name] = {
            opponent: self._play(name, opponent, place) for place, opponent in enumerate(opponents)
        }
        self._fit()
        self._write()
        self._remove_old_copies()
        return name

    def _copies(self) -> dict[str, Path]:
        """Return the versions in the folder ``rated``, where they stay until they have a rating."""
        return {folder.name: folder for folder in self._run.rated.glob("step_*")}

    def _checkpoints(self) -> dict[str, Path]:
        """Return the checkpoints of all policies that play alone, by the names of versions."""
        found: dict[str, Path] = {}
        for policy in range(self._loaded.config.selfplay.policies):
            run = RunFolder(named_policy(f"{self._run.path}:{policy}"))
            end = f"_policy_{policy}" if policy else ""
            found |= {f"{folder.name}{end}": folder for folder in own_checkpoints(run)}
        return found

    def _copy(self, checkpoint: Path, name: str) -> bool:
        """Copy the network of a checkpoint; return False if the checkpoint has been removed."""
        try:
            net = self._network(checkpoint)
        except CheckpointError:
            time.sleep(_PAUSE)  # until the training has removed all of its files
            if checkpoint.is_dir():
                raise
            return False
        facts = {"steps": _steps_of(name)}
        save_network(self._run.rated / name, net.state_dict(), facts)
        return True

    def _network(self, folder: Path) -> RaggedNet:
        spaces = self._loaded.net.obs_space, self._loaded.net.action_space
        net = network_of(folder, *spaces, self._loaded.config).requires_grad_(False)
        load_network(folder, net)
        return net

    def _agent(self, name: str) -> Agent:
        if name not in self._agents:
            seed = derived_seed(self._loaded.config.seed, "rated", _steps_of(name))
            self._agents[name] = NetworkAgent(self._network(self._run.rated / name), seed=seed)
        return self._agents[name]

    def _play(self, name: str, opponent: str, place: int) -> tuple[int, int, int]:
        """Return the numbers of games that a version has won, drawn and lost."""
        game, config = self._loaded.game, self._loaded.config
        seed = derived_seed(config.seed, f"rating {place}", len(self._games))
        players = self._agent(name), self._agent(opponent)
        return count_results(play_pair(*players, game, config, self._count, seed))

    def _fit(self) -> None:
        """Fit the ratings of all players to all their games."""
        place = {name: number for number, name in enumerate(self._games)}
        won = np.zeros((len(place), len(place)))
        drawn = np.zeros_like(won)
        for name, games in self._games.items():
            for other, (wins, draws, losses) in games.items():
                i, j = place[name], place[other]
                won[i, j] += wins
                won[j, i] += losses
                drawn[[i, j], [j, i]] += draws
        fitted = zip(*rate(won, drawn, place["random"]), strict=True)
        self.ratings = {
            name: (float(rating), float(deviation))
            for name, (rating, deviation) in zip(place, fitted, strict=True)
        }

    def _write(self) -> None:
        write_ratings(
            self._run,
            [
                RatedPlayer(
                    name,
                    None if name in self._references else _steps_of(name),
                    *self.ratings[name],
                    games,
                )
                for name, games in self._games.items()
            ],
        )

    def _remove_old_copies(self) -> None:
        """Remove copies of versions that have a rating, except those that later ones meet."""
        rated = sorted(name for name in self._copies() if name in self._games)
        kept = max(_LAST_VERSIONS, self._loaded.config.selfplay.policies)
        for name in rated[:-kept]:
            remove(self._run.rated / name)
            self._agents.pop(name, None)


def _steps_of(name: str) -> int:
    """Return the steps of a version by its name, ``step_<steps>`` or with ``_policy_<i>``."""
    return int(name.split("_")[1])


@contextmanager
def _alone(run: RunFolder) -> Iterator[None]:
    """Lock the ratings of a run, so that no version is rated by two processes."""
    with ExitStack() as stack, writing(run.rated):
        refuse_link(run.rated)
        run.rated.mkdir(exist_ok=True)
        try:
            stack.enter_context(folder_lock(run.rated))
        except BlockingIOError:
            raise RunFolderError(
                f"another process rates the run {str(run.path)!r}",
                hint="selfplay.ratings=true starts such a process beside a training",
            ) from None
        remove_leftovers(run.rated)
        stack = stack.pop_all()
    with stack:
        yield
