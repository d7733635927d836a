"""The steps of episodes that a network or another agent plays, to be shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from entity_env import Environment
from entity_env.agent import Agent, ObservationAgent
from entity_env.batching.frame import Frame
from entity_env.batching.frame_reader import FrameReader
from entity_env.batching.unbatch import answers_in_frame
from entity_env.batching.vec_obs import batch_frames
from entity_env.drawing import Chosen, choices_of, chosen_lines, entity_table
from entity_env.drawing.canvas import Picture
from entity_env.environment import begin_episode, call_environment, seed_environment
from entity_env.errors import SettingError
from entity_env.kinds.answers import flat_answers
from entity_env.kinds.table import answer_forms, typed_actions
from entity_env.rows.vec_env import check_count
from entity_env.seats.masked import who_is_who
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.players.network_agent import NetworkAgent
from ppo_trainer.runs.load_run import LoadedRun

__all__ = ["Step", "play", "play_agent"]

T = TypeVar("T")


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


def play(
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
    env: Environment, agent: Agent, *, episodes: int, seed: int, draw: bool = False
) -> Iterator[Step]:
    """Yield every step of some fresh episodes that an agent plays.

    Args:
        env: The environment, which is closed at the end.
        agent: The agent.
        episodes: See ``play``.
        seed: Seed of the environment.
        draw: See ``play``.
    """
    seed_environment(env, seed)
    spaces = env.obs_space(), env.action_space()
    reader = FrameReader(*spaces)
    forms = answer_forms(reader.action_space)
    try:
        for episode in range(1, episodes + 1):
            seen = call_environment("reset", begin_episode, env.reset)
            agent.reset()
            total, number = 0.0, 0
            while True:
                frame = reader.read(seen)
                total += frame.reward if number else 0.0
                chosen = {}
                if not frame.done and isinstance(agent, ObservationAgent):  # which needs the ids
                    chosen = answers_in_frame(agent.act(seen), frame, reader.action_space)
                elif not frame.done:
                    actions = agent.act_rows(batch_frames([frame], *spaces))
                    chosen = {
                        name: flat_answers(actions[name], form) for name, form in forms.items()
                    }
                every = choices_of(frame, reader.obs_space, reader.action_space, chosen)
                yield Step(
                    episode=episode,
                    step=number,
                    reward=frame.reward,
                    total=total,
                    done=frame.done,
                    text=_text(env, reader, frame),
                    frame=frame,
                    picture=call_environment("render", _own, env.render) if draw else None,
                    chosen=every,
                    choices=chosen_lines(every, frame, reader.obs_space),
                    who=who_is_who(env),
                )
                if frame.done:
                    break
                typed = typed_actions(frame, chosen, reader.action_space)
                seen, number = call_environment("act", env.act, typed), number + 1
    finally:
        env.close()


def _text(env: Environment, reader: FrameReader, frame: Frame) -> str:
    text = call_environment("render_text", _own, env.render_text)
    return entity_table(frame, reader.obs_space) if text is None else text


def _own(draw: Callable[[], T]) -> T | None:
    """Return the environment's own picture or text, or None if it has none."""
    try:
        return draw()
    except NotImplementedError:
        return None
