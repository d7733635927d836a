"""The environments of rows, with the row and the step in their errors."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from entity_env.actions import Action
from entity_env.batching.step_results import is_over
from entity_env.environment import (
    MOST_RESETS,
    Environment,
    check_seed,
    environment_failed,
    never_begins,
    seed_environment,
)
from entity_env.errors import FAILURES, EntityEnvError, ObservationError, shorten
from entity_env.observation import Observation
from entity_env.spaces import ActionName, check_same_spaces

__all__ = ["RowEnvironments"]


class RowEnvironments:
    """The environments of rows, which are made, seeded, played and closed together.

    Args:
        first_row: The number of the first row in errors and seeds.
        on_row: Called with (row, step) before a row's environment runs.
    """

    def __init__(self, first_row: int, on_row: Callable[[int, int], None] | None) -> None:
        self.step = 0
        self.running: int | None = None
        """The row whose environment is running."""
        self._first_row = first_row
        self._on_row = on_row
        self._envs: list[Environment] = []
        self._seed = 0

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._envs)

    def __iter__(self) -> Iterator[Environment]:
        """Return the environments, in row order."""
        return iter(self._envs)

    def make(self, create_env: Callable[[], Environment], count: int) -> dict[str, Any]:
        """Make all environments; after an error, those made so far can be closed.

        Returns:
            Their ``obs_space`` and ``action_space``, which must be the same.
        """
        for row in range(count):
            self._envs.append(self._made(row, "create_env", create_env))
        self._check_apart("create_env", self._envs)
        spaces = self._spaces(self._envs)
        check_same_spaces(spaces, self.where)
        return spaces[0]

    def wrap(self, wrapper: Callable[[Environment], Environment]) -> None:
        """Wrap each environment; check that the spaces do not change. After an error none is."""
        wrapped = [self._made(row, "wrapper", wrapper, env) for row, env in enumerate(self._envs)]
        self._check_apart("wrapper", wrapped)
        spaces = [*self._spaces(self._envs[:1]), *self._spaces(wrapped)]
        check_same_spaces(spaces, lambda i: f"{self.where(max(i - 1, 0))}, wrapper")
        self._envs = wrapped
        self.seed(self._seed)  # wrappers may have random numbers, too

    def seed(self, seed: int) -> None:
        """Seed all environments; row i uses the i-th random stream spawned from ``seed``."""
        self._seed = seed = check_seed(seed)
        for row, env in enumerate(self._envs):
            stream = np.random.SeedSequence(seed, spawn_key=(self._first_row + row,))
            # 32 bits, because all seeding functions, such as numpy.random.seed, accept these.
            self.call(row, "seed", seed_environment, env, int(stream.generate_state(1)[0]))

    def reset(self, observations: list[Observation], rows: Sequence[int]) -> None:
        """Reset ``rows``, and write their observations into ``observations``.

        Rows whose episode is over before its first step are reset again.
        """
        for _ in range(MOST_RESETS):
            for row in rows:
                observations[row : row + 1] = [self.call(row, "reset", self._envs[row].reset)]
            rows = [row for row in rows if is_over(observations[row])]
            if not rows:
                return
        raise never_begins().located(self.where(rows[0]))

    def act(self, actions: Sequence[dict[ActionName, Action]]) -> list[Observation]:
        """Step each environment; like ``call``, without an additional call for each row."""
        observations = []
        row, note = 0, self._on_row
        try:
            for row, (env, own) in enumerate(zip(self._envs, actions, strict=True)):
                self.running = row
                if note is not None:
                    note(self._first_row + row, self.step)
                observations.append(env.act(own))
        except FAILURES as error:
            self._blame(row, "act", error)
        finally:
            self.running = None
        return observations

    def close(self) -> None:
        """Close all environments, then raise the first error."""
        self._on_row = None  # keep reporting the row that ran before
        failed: EntityEnvError | None = None
        for row, env in enumerate(self._envs):
            try:
                self.call(row, "close", env.close)
            except EntityEnvError as error:  # close the other environments, too
                failed = failed or error
        if failed is not None:
            raise failed

    def call(self, row: int, what: str, function: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        """Call a function of an environment; errors name the row and the step."""
        if self._on_row is not None:
            self._on_row(self._first_row + row, self.step)
        self.running = row
        try:
            return function(*args, **kw)
        except FAILURES as error:
            self._blame(row, what, error)
        finally:
            self.running = None

    def where(self, row: int) -> str:
        """Return the place of a row, for errors."""
        return f"environment {self._first_row + row}, step {self.step}"

    def places(
        self, what: str, rows: Sequence[int] | None = None, new: Container[int] = ()
    ) -> Callable[[int], str]:
        """Return a function that names the place of the i-th of ``rows`` in errors."""

        def place(i: int) -> str:
            row = i if rows is None else rows[i]
            return f"{self.where(row)}, {'reset' if row in new else what}"

        return place

    def _blame(self, row: int, what: str, error: BaseException) -> NoReturn:
        if isinstance(error, EntityEnvError):
            raise error.located(f"{self.where(row)}, {what}") from error.__cause__
        raise environment_failed(what, error).located(self.where(row)) from error

    def _made(
        self, row: int, what: str, make: Callable[..., Environment], *inside: Environment
    ) -> Environment:
        env = self.call(row, what, make, *inside) if callable(make) else make
        if env is make or not isinstance(env, Environment):
            raise ObservationError(
                f"{what} did not make an environment",
                expected="a subclass of entity_env.Environment, or a function that makes one",
                received=shorten(env),
                hint=_WRAP_IT
                if hasattr(env, "step")
                else "pass the class, MyEnv and not MyEnv(): each row has its own environment"
                if isinstance(make, Environment)
                else None,
            ).located(self.where(row))
        return env

    def _check_apart(self, what: str, envs: Sequence[Environment]) -> None:
        seen = dict[int, int]()
        for row, env in enumerate(envs):
            if seen.setdefault(id(env), row) != row:
                raise ObservationError(
                    f"{what} made environment {self._first_row + seen[id(env)]} again",
                    expected="a new environment for each row",
                ).located(self.where(row))

    def _spaces(self, envs: Sequence[Environment]) -> list[dict[str, Any]]:
        return [
            {
                "obs_space": self.call(row, "obs_space", env.obs_space),
                "action_space": self.call(row, "action_space", env.action_space),
            }
            for row, env in enumerate(envs)
        ]


_WRAP_IT = "entity_env.interop.GymnasiumEnv wraps an environment of Gymnasium"
