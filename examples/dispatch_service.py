"""A small HTTP service: which job should start next?

    pip install 'ragged-rl[serve]'
    python examples/dispatch_service.py runs/job_shop --port 8000

    curl localhost:8000/next -H 'content-type: application/json' -d '{
      "now": 12, "machines": {"saw": 0, "drill": 15},
      "jobs": [{"name": "chair", "operations": [["saw", 3], ["drill", 2]]},
               {"name": "stool", "operations": [["saw", 5]], "done": 0, "ready_at": 7}]}'

The answer names the job, how likely the network finds each that can start, and, if none can, when
one can. Nothing is kept between two questions: the plan is told with each.
"""

from __future__ import annotations

import argparse
from typing import Annotated, Any

import torch
import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, Field
from ragged_envs.industry.job_shop import JobShop

from entity_env.errors import EntityEnvError
from ppo_trainer.agent import load_agent

__all__ = ["Job", "Plan", "make_app"]

Time = Annotated[int, Field(ge=0, le=100_000_000)]


class Job(BaseModel):
    """A job: its machines and durations in order, how many of them are done, when it is there."""

    name: str
    operations: list[tuple[str, Annotated[int, Field(ge=1, le=1_000_000)]]] = Field(min_length=1)
    done: int = 0
    ready_at: Time = 0


class Plan(BaseModel):
    """The shop at a moment: the time, when each machine is free, and the jobs."""

    now: Time = 0
    machines: dict[str, Time] = {}
    jobs: list[Job] = Field(min_length=1, max_length=2000)


def make_app(run: str) -> FastAPI:
    """The service that asks the network of a run folder."""
    agent = load_agent(run, seed=0, greedy=True)
    app = FastAPI(title="Which job next?")

    @app.post("/next")
    def next_job(plan: Plan) -> dict[str, Any]:
        shop = JobShop()
        try:
            observation = shop.set_state(_state(plan))
        except EntityEnvError as error:
            raise HTTPException(422, str(error)) from error
        if not shop.here:
            return {"job": None, "reason": "all jobs are done"}
        ready = [i for i in shop.here if shop.start_of(i) <= plan.now]
        if not ready:
            return {"job": None, "next_time": min(shop.start_of(i) for i in shop.here)}
        action: Any = agent.act(observation)["Dispatch"]
        probs = dict(zip(shop.here, action.probs[0], strict=False))
        return {
            "job": plan.jobs[action.actees[0][1]].name,
            "probabilities": {plan.jobs[i].name: round(float(probs[i]), 4) for i in ready},
        }

    return app


def _state(plan: Plan) -> dict[str, Any]:
    """The plan as a job shop saves it."""
    names = dict.fromkeys([*plan.machines, *(m for job in plan.jobs for m, _ in job.operations)])
    number = {name: i for i, name in enumerate(names)}
    count = len(plan.jobs)
    here = [i for i, job in enumerate(plan.jobs) if job.done < len(job.operations)]
    free = [plan.machines.get(name, 0) for name in names]
    longest = max(sum(t for _, t in job.operations) for job in plan.jobs)
    return {
        "durations": [[t for _, t in job.operations] for job in plan.jobs],
        "machines": [[number[m] for m, _ in job.operations] for job in plan.jobs],
        "release": [0] * count,
        "due": [0] * count,
        "weight": [0] * count,
        "op": [min(job.done, len(job.operations)) for job in plan.jobs],
        "job_free": [job.ready_at for job in plan.jobs],
        "machine_free": free,
        "here": here,
        "now": plan.now,
        "bars": [],
        "first": max(float(longest), 1.0),
        "bound": float(longest),
        "best": None,
        "family": [0] * count,
        "setup_times": [[0]],
        "set_for": [-1] * len(names),
        "last_job": [-1] * len(names),
        "ups": [[0]] * len(names),
        "downs": [[0]] * len(names),
        "broken": [0] * len(names),
        "next_break": [2_000_000_000] * len(names),
        "steps": 0,
        "turn": 0,
    }


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
