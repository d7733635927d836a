"""The reference ``VecEnv``: environments one after the other, in this process."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from entity_env.batch import VecObs, batch_frames
from entity_env.environment import Environment, check_seed, seed_environment
from entity_env.errors import (
    EntityEnvError,
    EnvironmentFailedError,
    ObservationError,
    SpaceError,
    StateError,
    shorten,
)
from entity_env.frame import Frame, typed_actions
from entity_env.metrics import EpisodeTracker, metric_columns
from entity_env.ragged import RaggedBufferI64
from entity_env.spaces import ActionName, ActionSpace, ObsSpace
from entity_env.validate import FrameReader
from entity_env.vec_env import VecEnv, check_count

__all__ = ["ListEnv"]


class ListEnv(VecEnv):
    """Steps a list of environments in a loop.

    Args:
        create_env: Makes one environment; called once for each row.
        num_envs: The number of rows R.
        seed: Seeds all rows; row i draws from the i-th stream that is spawned from it.
        first_row: The number of the first row in errors and seeds, where this is a part of a
            larger whole.
        on_row: Called with (row, step) before a row's environment runs.
    """

    def __init__(
        self,
        create_env: Callable[[], Environment],
        num_envs: int,
        seed: int = 0,
        *,
        first_row: int = 0,
        on_row: Callable[[int, int], None] | None = None,
    ) -> None:
        check_count("number of environments", num_envs)
        self._first_row = first_row
        self._on_row = on_row
        self._step = 0
        self._envs: list[Environment] = []
        self._frames: list[Frame] = []
        self._trackers = [EpisodeTracker() for _ in range(num_envs)]
        try:
            for row in range(num_envs):
                self._envs.append(self._environment(row, create_env))
            self._reader = self._common_reader()
            self._seed(check_seed(seed))
        except BaseException:
            with contextlib.suppress(EntityEnvError):  # the first error is the one to tell
                self._close()
            raise

    def obs_space(self) -> ObsSpace:
        """What the rows observe."""
        return self._reader.obs_space

    def action_space(self) -> dict[ActionName, ActionSpace]:
        """What the rows can do."""
        return self._reader.action_space

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._envs)

    def has_state(self) -> bool:
        """Whether every environment saves and restores its state."""
        return all(env.has_state() for env in self._envs)

    def _seed(self, seed: int) -> None:
        for row, env in enumerate(self._envs):
            stream = np.random.SeedSequence(seed, spawn_key=(self._first_row + row,))
            # 32 bits: what every seeding function takes, numpy.random.seed included.
            self._call(row, "seed", seed_environment, env, int(stream.generate_state(1)[0]))

    def _reset(self, seed: int | None) -> VecObs:
        if seed is not None:
            self._seed(check_seed(seed))
        self._step = 0
        self._frames = [self._first_frame(row) for row in range(len(self._envs))]
        return self._batch(self._frames)

    def _act(self, chosen: Mapping[ActionName, RaggedBufferI64]) -> VecObs:
        self._step += 1
        flat = {name: buffer.as_array()[:, 0] for name, buffer in chosen.items()}
        ends = {name: np.cumsum(buffer.size1()).tolist() for name, buffer in chosen.items()}
        summaries: list[dict[str, float] | None] = [None] * len(self._envs)
        cut_off: list[Frame] = []
        for row, env in enumerate(self._envs):
            indices = {
                name: flat[name][(ends[name][row - 1] if row else 0) : ends[name][row]]
                for name in flat
            }
            actions = typed_actions(self._frames[row], indices, self.action_space())
            frame = self._read(row, "act", env.act, actions)
            self._trackers[row].step(frame)
            if frame.done:
                summaries[row] = self._trackers[row].summary()
                if frame.truncated:
                    cut_off.append(frame)
                frame = replace(
                    self._first_frame(row),
                    reward=frame.reward,
                    done=True,
                    truncated=frame.truncated,
                )
            self._frames[row] = frame
        final = self._batch(cut_off) if cut_off else None
        return self._batch(self._frames, metric_columns(summaries), final)

    def _first_frame(self, row: int) -> Frame:
        frame = self._unfinished(row, "reset", self._read(row, "reset", self._envs[row].reset))
        self._trackers[row].start(frame)
        return frame

    def _unfinished(self, row: int, what: str, frame: Frame) -> Frame:
        if frame.done:
            raise ObservationError(
                f"{what} returned an observation that is done",
                expected="done=False: a new episode has at least one step",
            ).located(self._where(row))
        return replace(frame, reward=0.0)

    def _get_state(self) -> list[Any]:
        return [
            {
                "env": self._call(row, "get_state", env.get_state),
                "rng": env.rng.bit_generator.state,
                "episode": tracker.get_state(),
                "step": self._step,
            }
            for row, (env, tracker) in enumerate(zip(self._envs, self._trackers, strict=True))
        ]

    def _set_state(self, state: list[Any]) -> VecObs:
        if not isinstance(state, list) or len(state) != len(self._envs):
            raise StateError(
                "the saved state does not fit",
                expected=f"a list of {len(self._envs)} rows",
                received=f"{len(state)} rows" if isinstance(state, list) else shorten(state),
            )
        frames = []
        for row, saved in enumerate(state):
            env = self._envs[row]
            try:
                env.rng.bit_generator.state = saved["rng"]
                self._trackers[row].set_state(saved["episode"])
                self._step = int(saved["step"])
                own = saved["env"]
            except (KeyError, TypeError, ValueError) as error:
                raise StateError(
                    f"the saved state is damaged: {type(error).__name__}: {error}",
                    received=shorten(saved),
                ).located(self._where(row)) from error
            frame = self._read(row, "set_state", env.set_state, own)
            frames.append(self._unfinished(row, "set_state", frame))
        self._frames = frames
        return self._batch(frames)

    def _render(self, **kwargs: Any) -> list[npt.NDArray[np.uint8]]:
        return [
            self._call(row, "render", env.render, **kwargs) for row, env in enumerate(self._envs)
        ]

    def _close(self) -> None:
        self._on_row = None  # the row to report is the one that ran, not the one that closes
        failed: EntityEnvError | None = None
        for row, env in enumerate(self._envs):
            try:
                self._call(row, "close", env.close)
            except EntityEnvError as error:  # the others hold something to release, too
                failed = failed or error
        if failed is not None:
            raise failed

    def _batch(
        self,
        frames: list[Frame],
        metrics: Mapping[str, npt.NDArray[np.float64]] | None = None,
        final: VecObs | None = None,
    ) -> VecObs:
        return batch_frames(
            frames, self.obs_space(), self.action_space(), metrics=metrics, final=final
        )

    def _read(self, row: int, what: str, function: Callable[..., Any], *args: Any) -> Frame:
        observation = self._call(row, what, function, *args)
        try:
            return self._reader.read(observation)
        except EntityEnvError as error:
            raise error.located(f"{self._where(row)}, {what}") from error.__cause__

    def _call(
        self, row: int, what: str, function: Callable[..., Any], *args: Any, **kw: Any
    ) -> Any:
        """Run the environment's own code; what it raises names the row and the step."""
        if self._on_row is not None:
            self._on_row(self._first_row + row, self._step)
        try:
            return function(*args, **kw)
        except EntityEnvError as error:
            raise error.located(f"{self._where(row)}, {what}") from error.__cause__
        except Exception as error:
            raise EnvironmentFailedError(
                f"the environment raised {type(error).__name__} in {what}: {error}",
                received="".join(traceback.format_exception(error)).rstrip(),
            ).located(self._where(row)) from error

    def _common_reader(self) -> FrameReader:
        """The reader of all rows, which must have the same spaces."""
        spaces = [
            {
                "obs_space": self._call(row, "obs_space", env.obs_space),
                "action_space": self._call(row, "action_space", env.action_space),
            }
            for row, env in enumerate(self._envs)
        ]
        for row, own in enumerate(spaces):
            for kind, space in own.items():
                if space != spaces[0][kind]:
                    raise SpaceError(
                        f"the {kind} differs from that of the first environment",
                        expected=shorten(spaces[0][kind]),
                        received=shorten(space),
                    ).located(self._where(row))
        return FrameReader(**spaces[0])

    def _where(self, row: int) -> str:
        return f"environment {self._first_row + row}, step {self._step}"

    def _environment(self, row: int, create_env: Callable[[], Environment]) -> Environment:
        env = self._call(row, "create_env", create_env)
        if not isinstance(env, Environment):
            raise ObservationError(
                "create_env did not make an environment",
                expected="an instance of a subclass of entity_env.Environment",
                received=shorten(env),
            ).located(self._where(row))
        return env
