"""A small HTTP service: which job should start next?

    pip install -e '.[serve]' -c constraints.txt
    python examples/dispatch_service.py runs/job_shop --port 8000

    curl localhost:8000/next -H 'content-type: application/json' -d '{
      "now": 12, "machines": {"saw": 0, "drill": 15},
      "jobs": [{"name": "chair", "operations": [["saw", 3], ["drill", 2]]},
               {"name": "stool", "operations": [["saw", 5]], "done": 0, "ready_at": 7}]}'

The answer names the job, its machine, when it starts there, and how likely the network finds each
job to choose from; if none can start now, when one can. A start later than now keeps the machine
free for that job: tell the next question that its operation is done, and its job and machine free
again at its end. Nothing is kept between two questions: the plan is told with each, and jobs that
are done belong to it. Jobs may have a "release", the time from which on they can start, and, all of
them, a time when they are "due" and a "weight".

``/schedule`` takes the same plan, and answers with all operations that have not been started: the
best of two schedules, or of ``?tries=64``, half of them found backwards where nothing has begun.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import numpy as np
import torch
import uvicorn
from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from ragged_envs.industry.job_shop import JobShop, JobShopRows
from ragged_envs.industry.job_shop_instances import HEAVIEST, MOST_MACHINES, Instance
from ragged_envs.industry.job_shop_schedules import best_schedule

from entity_env import Observation
from entity_env.batching.unbatch import observations_of
from entity_env.errors import EntityEnvError, shorten
from entity_env.fitting import fit_environment
from ppo_trainer.agent import load_agent

__all__ = ["Job", "Plan", "make_app"]

MOST_OPERATIONS = 20_000


def _whole(value: object) -> object:
    # JSON has one kind of number, and many programs write 3 as 3.0.
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, Field(strict=True), BeforeValidator(_whole)]
Time = Annotated[Whole, Field(ge=0, le=100_000_000)]
Duration = Annotated[Whole, Field(ge=0, le=1_000_000)]


def _encodable(name: str) -> str:
    name.encode()  # of half a surrogate pair, which JSON allows, no answer can be made
    return name


Name = Annotated[str, AfterValidator(_encodable)]


class Job(BaseModel):
    """A job: its machines and durations in order, and what is known of it.

    ``done`` operations have been started, the next one can start at ``ready_at``.
    """

    model_config = ConfigDict(extra="forbid")
    name: Name
    operations: list[tuple[Name, Duration]] = Field(min_length=1)
    done: Annotated[Whole, Field(ge=0)] = 0
    ready_at: Time = 0
    release: Time = 0
    due: Time | None = None
    weight: Annotated[Whole, Field(ge=0, le=HEAVIEST)] = 1

    @model_validator(mode="after")
    def _check(self) -> Job:
        if self.done > len(self.operations):
            raise ValueError(f"done is {self.done}, of {len(self.operations)} operations")
        if self.due is None and "weight" in self.model_fields_set:
            raise ValueError("a weight counts for nothing without a time when the job is due")
        return self


class Plan(BaseModel):
    """The shop at a moment: the time, when each machine is free, and the jobs."""

    model_config = ConfigDict(extra="forbid")
    now: Time = 0
    machines: dict[Name, Time] = Field({}, max_length=MOST_MACHINES)
    jobs: list[Job] = Field(min_length=1, max_length=2000)

    @model_validator(mode="after")
    def _check(self) -> Plan:
        names: set[str] = set()
        for job in self.jobs:
            if job.name in names:
                raise ValueError(f"two jobs are called {shorten(job.name)}")
            names.add(job.name)
        count = sum(len(job.operations) for job in self.jobs)
        if count > MOST_OPERATIONS:
            raise ValueError(f"{count:,} operations: at most {MOST_OPERATIONS:,} in one plan")
        if len(self.machine_names) > MOST_MACHINES:
            raise ValueError(f"{len(self.machine_names):,} machines: at most {MOST_MACHINES}")
        undated = [job.name for job in self.jobs if job.due is None]
        if 0 < len(undated) < len(self.jobs):
            raise ValueError(
                f"{shorten(undated[0])} has no due time: all jobs need one, or none; weight 0 for "
                "a job that may be late"
            )
        if not any(job.weight for job in self.jobs):
            raise ValueError("all weights are 0")
        return self

    @property
    def machine_names(self) -> list[str]:
        """Return the names of the machines that are described or that operations need."""
        needed = (machine for job in self.jobs for machine, _ in job.operations)
        return list(dict.fromkeys([*self.machines, *needed]))

    def start_of(self, job: Job) -> int:
        """Return the time at which the next operation of a job can start."""
        machine, _ = job.operations[job.done]
        return max(job.ready_at, job.release, self.machines.get(machine, 0))


def make_app(run: str) -> FastAPI:
    """Return the service that asks the network of a run folder."""
    agent = load_agent(run, seed=0, greedy=True)
    # Another game stops here.
    seen = agent.obs_space.entities.get("Job")
    labels = seen is not None and "machine" in seen.features
    fit_environment(JobShop(labels=labels), agent)
    rules = {"labels": labels, "waiting": agent.loaded.config.env.get("waiting", True)}
    JobShopRows(None, **rules).reset()  # compiles, so that the first question need not wait
    app = FastAPI(title="Which job next?")

    @app.exception_handler(RequestValidationError)
    def refuse(_: Request, error: RequestValidationError) -> Response:
        # Without the input: NaN and lone surrogates cannot be sent back.
        detail = [{"loc": own["loc"], "msg": own["msg"]} for own in error.errors()[:20]]
        return Response(json.dumps({"detail": detail}), 422, media_type="application/json")

    @app.post("/next")
    def next_job(plan: Plan) -> dict[str, Any]:
        with _refusing():
            shop = JobShopRows(None, instance=_instance(plan), **rules)
            observation = _observed(shop, plan)
        left = [job for job in plan.jobs if job.done < len(job.operations)]
        if not left:
            return {"job": None, "reason": "all jobs are done"}
        if (soonest := min(map(plan.start_of, left))) > plan.now:
            return {"job": None, "next_time": soonest}
        ready: Any = observation.actions["Dispatch"]
        action: Any = agent.act(observation)["Dispatch"]
        # One column for each job to choose from; they are numbered as those that are left.
        probs = zip(ready.actee_ids, action.probs[0].tolist(), strict=True)
        chosen = left[action.actees[0][1]]
        return {
            "job": chosen.name,
            "machine": chosen.operations[chosen.done][0],
            "start": max(plan.now, plan.start_of(chosen)),
            "probabilities": {left[job].name: round(prob, 4) for (_, job), prob in probs},
        }

    @app.post("/schedule")
    def schedule(plan: Plan, tries: Annotated[int, Query(ge=1, le=512)] = 2) -> dict[str, Any]:
        if all(job.done == len(job.operations) for job in plan.jobs):
            return {"makespan": 0, "operations": []}
        player = copy.deepcopy(agent)  # remembers and draws for itself
        player.greedy = tries <= 2
        begin = _moment(plan)
        has_begun = any(map(np.any, begin.values()))
        with _refusing():
            found = best_schedule(
                player, _instance(plan), tries, begin if has_begun else None, **rules
            )
        return {"makespan": found.makespan, "operations": found.operations}

    return app


@contextmanager
def _refusing() -> Iterator[None]:
    """Answer what is wrong with a plan."""
    try:
        yield
    except (EntityEnvError, ValueError) as error:
        raise HTTPException(422, str(error)) from error


def _moment(plan: Plan) -> dict[str, Any]:
    """Return the moment that the plan tells of, as ``JobShopRows.begin_at`` takes it."""
    return {
        "now": plan.now,
        "op": [job.done for job in plan.jobs],
        "job_free": [job.ready_at for job in plan.jobs],
        "machine_free": [plan.machines.get(name, 0) for name in plan.machine_names],
    }


def _instance(plan: Plan) -> Instance:
    """Return all operations of the plan, the ones that are done among them."""
    number = {name: i for i, name in enumerate(plan.machine_names)}
    due = [job.due for job in plan.jobs if job.due is not None]
    return Instance.of(
        [[time for _, time in job.operations] for job in plan.jobs],
        [[number[machine] for machine, _ in job.operations] for job in plan.jobs],
        len(number),
        release=[job.release for job in plan.jobs],
        due=due,
        weight=[job.weight for job in plan.jobs] if due else [],
        jobs=[job.name for job in plan.jobs],
        machine_names=plan.machine_names,
    )


def _observed(shop: JobShopRows, plan: Plan) -> Observation:
    """Return what the network sees of the plan, as in an episode of the game."""
    seen = shop.begin_at(**_moment(plan))
    return observations_of(seen, shop.obs_space(), shop.action_space())[0]


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="the run folder")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    uvicorn.run(make_app(given.run), port=given.port, log_level="warning")


if __name__ == "__main__":
    main()
