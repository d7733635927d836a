"""Jobs choose one of eight servers of different speeds; each job costs 0.01 a step."""

from __future__ import annotations

from typing import Any

from entity_env import (
    Entity,
    Environment,
    Observation,
    ObsSpace,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)

SPEEDS = (1, 1, 1, 1, 2, 2, 3, 5)


class Cluster(Environment):
    """Costs run on whatever is done: nothing is won, jobs only leave sooner or later."""

    def __init__(self, steps: int = 150) -> None:
        self.limit = steps

    def obs_space(self) -> ObsSpace:
        """Return servers and new jobs."""
        return ObsSpace(
            entities={
                "Server": Entity(["speed", "jobs", "work"]),
                "Job": Entity(["work", "customer number"]),
            }
        )

    def action_space(self) -> dict[str, Any]:
        """Return the choice of a server."""
        return {"Send": SelectEntityActionSpace()}

    def reset(self) -> Observation:
        """Begin with empty queues."""
        self.steps = 0
        self.queues: list[list[float]] = [[] for _ in SPEEDS]
        self.arrive()
        return self.observe(0.0)

    def arrive(self) -> None:
        """Draw the new jobs."""
        self.new = [
            [float(self.rng.geometric(0.2)), float(self.rng.integers(0, 1000))]
            for _ in range(self.rng.poisson(2.3))
        ]

    def act(self, actions: Any) -> Observation:
        """Send all new jobs, then work one step."""
        self.steps += 1
        if "Send" in actions:
            for job, server in zip(actions["Send"].actors, actions["Send"].actees, strict=True):
                self.queues[server[1]].append(self.new[job[1]][0])
        for queue, speed in zip(self.queues, SPEEDS, strict=True):
            work = float(speed)
            while queue and work:
                used = min(work, queue[0])
                queue[0] -= used
                work -= used
                if not queue[0]:
                    queue.pop(0)
        waiting = sum(map(len, self.queues))
        self.arrive()
        return self.observe(-0.01 * waiting)

    def observe(self, reward: float) -> Observation:
        """Return queues and new jobs."""
        over = self.steps == self.limit
        return Observation(
            features={
                "Server": [
                    [speed, len(queue), sum(queue)]
                    for queue, speed in zip(self.queues, SPEEDS, strict=True)
                ],
                "Job": [list(job) for job in self.new],
            },
            ids={
                "Server": [("server", k) for k in range(len(SPEEDS))],
                "Job": [("job", k) for k in range(len(self.new))],
            },
            actions={"Send": SelectEntityActionMask(actor_types=["Job"], actee_types=["Server"])},
            reward=reward,
            done=over,
            truncated=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Send each job where it ends first."""
    servers = [list(server) for server in observation.features["Server"]]
    chosen = []
    for work, _ in observation.features["Job"]:
        best = min(range(len(servers)), key=lambda k: (servers[k][2] + work) / servers[k][0])
        servers[best][2] += work
        chosen.append(observation.ids["Server"][best])
    return {"Send": SelectEntityAction(list(observation.ids["Job"]), chosen)} if chosen else {}
