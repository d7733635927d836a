"""A module that does what Ray does for ``ppo_trainer.scale``, in threads of this process."""

from __future__ import annotations

import random
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from types import SimpleNamespace
from typing import Any

from ppo_trainer.scale.worlds import World


class RayError(Exception):
    """The base of Ray's errors."""


class RayTaskError(RayError):
    """An error of the function itself."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


class RayActorError(RayError):
    """A process is gone."""


class GetTimeoutError(RayError):
    """A result is not there yet."""


class RuntimeEnvSetupError(RayError):
    """A machine cannot load what the processes need."""


class OutOfMemoryError(RayError):
    """A machine has no memory left."""


class Actor:
    """A process: one thread for each call that may run at once."""

    def __init__(self, ray: FakeRay, kind: type, threads: int, arguments: tuple[Any, ...]) -> None:
        self._ray, self._pool = ray, ThreadPoolExecutor(threads)
        self._made = self._pool.submit(kind, *arguments)
        self.is_gone, self.rollouts = False, 0
        self.arguments = arguments

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return SimpleNamespace(remote=lambda *own: self._call(name, own))

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Future[Any]:
        def run() -> Any:
            made = self._made.result()
            if name == "rollout":
                self._ray.before_rollout(self)
            if self.is_gone:
                raise RayActorError("the process is gone")
            try:
                result = getattr(made, name)(*arguments)
            except Exception as error:
                raise RayTaskError(error) from error
            if self.is_gone:
                raise RayActorError("the process is gone")
            return result

        if name == "rollout":
            self.rollouts += 1
            if self._ray.in_turns:
                self._ray.begun.append(later := Later(run))
                if self._ray.actors.index(self) == self._ray.hangs:
                    self._ray.hanging.add(later)
                return later
        return self._pool.submit(run)

    def end(self) -> None:
        self.is_gone = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._made.done() and isinstance(made := self._made.result(), World):
            made._all_here.abort()  # what waits in it ends with it


class Later:
    """The result of a call that runs when it is asked for."""

    def __init__(self, call: Any) -> None:
        self._call, self._result = call, None

    def result(self, timeout: float | None = None) -> Any:
        if self._call is not None:
            self._result, self._call = self._call(), None
        return self._result


class FakeRay:
    """The functions of the module.

    Args:
        chance: The probability with which a process ends at each rollout.
        cores: The cores of the cluster.
        in_turns: True to run rollouts one after the other, in the order in which they began, when
            their results are asked for. Nothing depends on timing then.
        hangs: Number of the process whose rollouts never end, with ``in_turns``.
    """

    exceptions = SimpleNamespace(
        RayError=RayError,
        RayTaskError=RayTaskError,
        OutOfMemoryError=OutOfMemoryError,
        GetTimeoutError=GetTimeoutError,
        RuntimeEnvSetupError=RuntimeEnvSetupError,
    )
    ObjectRef = Future

    def __init__(
        self,
        chance: float = 0.0,
        cores: float = 8.0,
        in_turns: bool = False,
        hangs: int | None = None,
    ) -> None:
        self.in_turns, self.hangs = in_turns, hangs
        self._random, self._chance, self._cores = random.Random(0), chance, cores
        self.actors: list[Actor] = []
        self._named: dict[tuple[str, str], Actor] = {}
        self.killed = 0
        self.begun: list[Later] = []
        self.hanging: set[Later] = set()

    def before_rollout(self, actor: Actor) -> None:
        if self._random.random() < self._chance:
            self.killed += 1
            actor.is_gone = True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": self._cores}

    def is_initialized(self) -> bool:
        return True

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(gcs_address="here")

    def get_actor(self, name: str, namespace: str) -> Actor:
        return self._named[namespace, name]

    def remote(self, num_cpus: float, max_concurrency: int = 1, **names: str) -> Any:
        def made(kind: type) -> Any:
            def begin(*arguments: Any) -> Actor:
                self.actors.append(Actor(self, kind, max_concurrency, arguments))
                if names:
                    self._named[names["namespace"], names["name"]] = self.actors[-1]
                return self.actors[-1]

            return SimpleNamespace(remote=begin)

        return made

    def put(self, value: Any) -> Any:
        return {name: tensor.clone() for name, tensor in value.items()}

    def get(self, refs: Any, timeout: float | None = None) -> Any:
        every = refs if isinstance(refs, list) else [refs]
        try:
            found = [ref.result(timeout) for ref in every]
        except TimeoutError as error:
            raise GetTimeoutError from error
        return found if isinstance(refs, list) else found[0]

    def wait(self, refs: list[Any], num_returns: int, timeout: float) -> tuple[Any, Any]:
        if self.in_turns:
            ready = sorted((ref for ref in refs if ref not in self.hanging), key=self.begun.index)
            return ready[:1], [ref for ref in refs if ref not in ready[:1]]
        done, rest = wait_for(refs, timeout, FIRST_COMPLETED)
        first = [ref for ref in refs if ref in done][:num_returns]
        return first, [*rest]

    def kill(self, actor: Actor) -> None:
        actor.end()
