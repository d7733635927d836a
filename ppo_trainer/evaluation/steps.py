"""The steps of episodes that a network or another agent plays, to be shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from entity_env import Environment, VecObs
from entity_env.agent import Proposer
from entity_env.batching.frame import Frame
from entity_env.batching.ragged import ActionBuffer
from entity_env.drawing import Chosen, choices_of, chosen_lines, entity_table
from entity_env.drawing.canvas import Picture
from entity_env.environment import draw_or_none
from entity_env.errors import SettingError
from entity_env.play import play
from entity_env.rows.vec_env import check_count
from entity_env.seats.masked import who_is_who
from entity_env.seats.seat_agents import call_if_there
from entity_env.seats.table_rows import TableRows
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.runs.load_run import LoadedRun

__all__ = ["Step", "play_agent", "play_run"]


@dataclass(frozen=True)
class Step:
    """One step of an episode, or its start.

    Args:
        episode: Number of the episode, from 1 on.
        step: Number of steps taken in the episode; 0 is its start.
        reward: Reward of the step that led here.
        total: Sum of rewards of the episode so far.
        done: True if the episode is over.
        text: State in lines of text.
        frame: The observation.
        picture: The environment's picture of the state, (H, W, 3) uint8; None if it was not asked
            for, or there is none.
        chosen: Choices of the actors in this state; empty at the end.
        choices: Choices in lines of text.
        who: Text on the players of the seats in a game of several players; else empty.
    """

    episode: int
    step: int
    reward: float
    total: float
    done: bool
    text: str
    frame: Frame
    picture: Picture | None
    chosen: Sequence[Chosen] = ()
    choices: Sequence[str] = ()
    who: str = ""

    @property
    def end(self) -> str:
        """A text on the end of the episode, with its metrics; empty before the end."""
        if not self.done:
            return ""
        numbers = "".join(f", {name} {v:.4g}" for name, v in self.frame.metrics.items())
        return f"{'cut off by a limit' if self.frame.truncated else 'the end'}{numbers}"


def play_run(
    loaded: LoadedRun,
    *,
    episodes: int,
    greedy: bool,
    seed: int | None = None,
    draw: bool = False,
    env: Environment | None = None,
) -> Iterator[Step]:
    """Yield every step of some fresh episodes, with their starts and ends.

    Args:
        loaded: The run.
        episodes: Number of episodes.
        greedy: True to take the most likely choices instead of drawing.
        seed: Seed of the episodes; None derives it from the seed of the run.
        draw: True to add pictures to the steps.
        env: Environment, which is closed at the end; None makes one.
    """
    count = check_count("number of episodes", episodes, error=SettingError)
    if seed is None:
        seed = derived_seed(loaded.config.seed, "watch")
    agent = NetworkAgent(loaded.net, seed=seed, greedy=greedy, precision=loaded.config.precision)
    env = loaded.game() if env is None else env
    yield from play_agent(env, agent, episodes=count, seed=seed, draw=draw)


def play_agent(
    env: Environment, agent: Proposer, *, episodes: int, seed: int, draw: bool = False
) -> Iterator[Step]:
    """Yield every step of some fresh episodes that an agent plays.

    Args:
        env: The environment, which is closed at the end.
        agent: The agent.
        episodes: See ``play_run``.
        seed: Seed of the environment.
        draw: See ``play_run``.
    """
    table = TableRows(env, seed)
    with table:
        spaces, chosen = (table.obs_space(), table.action_space()), dict[str, Any]()
        episode, step, total = 1, 0, 0.0

        def answer(obs: VecObs) -> Mapping[str, ActionBuffer]:
            return obs.ragged_actions(chosen)

        for _ in play(table, answer):
            if not step:
                call_if_there(agent, "reset")  # one that remembers
            frame, text = table.told[0], draw_or_none(env.render_text)
            total += frame.reward if step else 0.0
            chosen = {} if frame.done else dict(table.decide(0, agent).chosen)
            every = choices_of(frame, *spaces, chosen)
            yield Step(
                episode=episode,
                step=step,
                reward=frame.reward,
                total=total,
                done=frame.done,
                text=entity_table(frame, spaces[0]) if text is None else text,
                frame=frame,
                picture=draw_or_none(env.render) if draw else None,
                chosen=every,
                choices=chosen_lines(every, frame, spaces[0]),
                who=who_is_who(env),
            )
            step += 1
            if frame.done:
                if episode == episodes:
                    return
                episode, step, total = episode + 1, 0, 0.0
