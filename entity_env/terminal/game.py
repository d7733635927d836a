"""Games in the terminal, for one player or for people and agents."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.agent import Proposer
from entity_env.batching.frame import RESERVED_METRICS, Frame
from entity_env.batching.kinds.table import kind_of
from entity_env.batching.ragged import ActionBuffer
from entity_env.batching.vec_obs import VecObs
from entity_env.drawing import entity_table
from entity_env.environment import Environment, draw_or_none
from entity_env.metrics import EpisodeTracker
from entity_env.play import play
from entity_env.rows.vec_env import VecEnv
from entity_env.seats.masked import who_is_who
from entity_env.seats.seat_agents import call_if_there
from entity_env.seats.table_rows import TableRows
from entity_env.spaces import ActionName
from entity_env.terminal.asker import ask, ask_choices

__all__ = ["TerminalGame"]


class TerminalGame:
    """A game in the terminal, with its players.

    Args:
        table: The game.
        agents: For each seat the agent that plays it, or that proposes choices to a person.
        people: The names of the seats that people play.
        auto: True to take every proposal without asking.

    Attributes:
        rows: The table, or a wrapper that writes a replay of it.
        returns: The returns of the seats in each game. Shape of each: (seats,).
    """

    def __init__(
        self, table: TableRows, agents: Sequence[Proposer], people: Collection[str], *, auto: bool
    ) -> None:
        self.table, self._agents, self._people = table, agents, people
        self.rows: VecEnv = table
        self._spaces = table.obs_space(), table.action_space()
        self._auto = auto
        self._what = "episode" if table.is_alone else "game"
        self.returns: list[list[float]] = []

    def introduce(self, seed: int, who: str) -> None:
        """Print the game, its players, its actions and how to type."""
        game = self.table.game
        print(f"{type(getattr(game, 'unwrapped', game)).__name__}, seed {seed}")
        if not self.table.is_alone:
            seats = (f"{n}: {'you' if n in self._people else who}" for n in self.table.names)
            print(f"  {', '.join(seats)}")
        for name, space in self._spaces[1].items():
            print(f"  {name}: {kind_of(space).task(space)}")
        if not self._auto:
            print("? for help, q to quit")

    def play(self, episodes: int | None) -> None:
        """Play a number of games; None asks for another one after each."""
        while True:
            self._play_one(len(self.returns) + 1)
            if len(self.returns) == episodes:
                break
            if episodes is None and ask("\nagain? [Y/n] ").casefold() in ("n", "no"):
                break
        if len(self.returns) > 1:
            means = zip(self.table.names, np.mean(self.returns, axis=0), strict=True)
            each = ", ".join(f"{name} {mean:g}" for name, mean in means)
            text = each.removeprefix("you") if self.table.is_alone else f": {each}"
            print(f"\n{len(self.returns)} {self._what}s, mean return{text}")

    def _play_one(self, number: int) -> None:
        table, trackers = self.table, [EpisodeTracker() for _ in self.table.names]
        for agent in self._agents:
            call_if_there(agent, "reset")  # one that remembers
        chosen: list[Mapping[ActionName, npt.NDArray[Any]]] = []

        def answer(obs: VecObs) -> Mapping[ActionName, ActionBuffer]:
            names = chosen[0] if chosen else ()
            return obs.ragged_actions(
                {n: np.concatenate([choices[n] for choices in chosen]) for n in names}
            )

        for step, _ in enumerate(play(self.rows, answer)):
            for seat, frame in table.told.items():
                trackers[seat].add(frame.reward, frame.metrics, steps=int(step > 0))
            self._print_state(f"{self._what} {number}, step {step}", step, trackers)
            if table.is_over:
                break
            chosen = [self._choose(seat, frame) for seat, frame in table.asked.items()]
        self.returns.append([tracker.reward for tracker in trackers])
        self._print_end(f"{self._what} {number} is", trackers)

    def _print_state(self, head: str, step: int, trackers: Sequence[EpisodeTracker]) -> None:
        """Print the game's text, and the news of the seats."""
        game, told = self.table.game, self.table.told
        text = draw_or_none(game.render_text)
        if isinstance(game, Environment):
            news = f": reward {told[0].reward:g}, return {trackers[0].reward:g}" if step else ""
            print(f"\n--- {head}{news}")
            if not step and (who := who_is_who(game)):
                print(who)
            print(("" if text is None else f"{text}\n\n") + self._entities(told[0]))
            return
        print(f"\n--- {head}")
        if text is not None:
            print(text)
        for seat, frame in told.items():
            notes = [f"reward {frame.reward:g}"] if frame.reward else []
            if frame.done:
                notes.append("cut off by a limit" if frame.truncated else "out")
                notes += [f"{metric} {value:g}" for metric, value in frame.metrics.items()]
            if notes:
                print(f"  {self.table.names[seat]}: {', '.join(notes)}")

    def _choose(self, seat: int, frame: Frame) -> Mapping[ActionName, npt.NDArray[Any]]:
        """Return the typed choices, or those of the seat's agent, in the format of ``Decision``."""
        decision = self.table.decide(seat, self._agents[seat])
        name = self.table.names[seat]
        if not self.table.is_alone:
            if name not in self._people:
                # Choices of other seats stay hidden, because a player may have to guess them.
                return decision.chosen
            print(f"\nseat {name} sees\n{self._entities(frame)}")
        return ask_choices(frame, decision, *self._spaces, auto=self._auto)

    def _entities(self, frame: Frame) -> str:
        return entity_table(frame, self._spaces[0])

    def _print_end(self, head: str, trackers: Sequence[EpisodeTracker]) -> None:
        if self.table.is_alone:
            how = "cut off by a limit" if self.table.told[0].truncated else "over"
            steps = trackers[0].length
            print(f"\n{head} {how} after {steps} step{'' if steps == 1 else 's'}")
            print(_summary(trackers[0].summary()))
            return
        print(f"\n{head} over")
        width = max(map(len, self.table.names))
        for name, tracker in zip(self.table.names, trackers, strict=True):
            print(f"  {name:<{width}}  return {tracker.reward:g}")


def _summary(metrics: Mapping[str, float]) -> str:
    """Return the metrics as lines; metrics of several steps with their mean and range."""
    lines = {"return": f"{metrics['episodic_reward']:g}"}
    several = [name for name in metrics if f"{name}.count" in metrics]
    parts = {
        f"{name}.{part}" for name in several for part in ("mean", "min", "max", "sum", "count")
    }
    for name, value in metrics.items():
        if name not in parts and name not in RESERVED_METRICS:
            lines[name] = f"{value:g}"
    for name in several:
        mean, low, high = (metrics[f"{name}.{part}"] for part in ("mean", "min", "max"))
        lines[name] += f"  (mean {mean:g}, from {low:g} to {high:g})"
    width = max(map(len, lines))
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in lines.items())
