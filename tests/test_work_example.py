"""The example from a table of orders to a service, as it stands in examples/work.md."""

import re
import sys
from pathlib import Path

import pytest

from ppo_trainer import recipe, train

EXAMPLES = Path(__file__).parents[1] / "examples"
TEXT = (EXAMPLES / "work.md").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the orders of the example, and a run that has hardly begun."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "orders.csv").write_text(re.search(r"```text\n(job,.*?)```", TEXT, re.DOTALL)[1])
    config = recipe(
        "job_shop", "total_timesteps=512", "rollout.num_envs=8", "rollout.steps=32",
        "ppo.minibatch_size=128", "eval.episodes=0", f"run_dir={folder / 'runs'}", "run_name=shop",
    )  # fmt: skip
    train(config)
    return folder


def test_the_python_of_the_example_writes_two_charts(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    exec(re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)[1], {})
    # Eight operations, the drill works 85, and nothing can make it shorter than that.
    spans = [float(span) for span in re.findall(r"'makespan': ([\d.]+)", capsys.readouterr().out)]
    assert len(spans) == 2
    assert all(85 <= span <= 220 for span in spans)
    assert (folder / "network.png").stat().st_size > 1000
    assert (folder / "rule.png").stat().st_size > 1000


@pytest.fixture(scope="module")
def client(folder):
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    sys.path.insert(0, str(EXAMPLES))
    try:
        from dispatch_service import make_app

        yield TestClient(make_app(str(folder / "runs" / "shop")))
    finally:
        sys.path.remove(str(EXAMPLES))


def test_the_service_names_a_job_that_can_start(client):
    plan = {
        "now": 12,
        "machines": {"saw": 0, "drill": 15},
        "jobs": [
            {"name": "chair", "operations": [["saw", 30], ["drill", 20]]},
            {"name": "stool", "operations": [["saw", 55]], "ready_at": 7},
            {"name": "late", "operations": [["saw", 5]], "ready_at": 50},
            {"name": "table", "operations": [["saw", 5], ["drill", 45]], "done": 1},
            {"name": "done", "operations": [["saw", 5]], "done": 1},
        ],
    }
    answer = client.post("/next", json=plan).json()
    assert set(answer["probabilities"]) == {"chair", "stool"}  # the drill is busy until 15
    assert answer["job"] == max(answer["probabilities"], key=answer["probabilities"].get)
    assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-3)


def test_where_nothing_can_start_it_says_when(client):
    jobs = [{"name": "chair", "operations": [["saw", 3]], "ready_at": 30}]
    plan = {"now": 1, "machines": {"saw": 20}, "jobs": jobs}
    assert client.post("/next", json=plan).json() == {"job": None, "next_time": 30}
    jobs[0]["done"] = 1
    assert client.post("/next", json=plan).json()["reason"] == "all jobs are done"


@pytest.mark.parametrize(
    "jobs",
    [
        [],
        [{"name": "a", "operations": []}],
        [{"name": "a", "operations": [["saw", -1]]}],
        [{"name": "a", "operations": [["saw", 1.5]]}],
        [{"operations": [["saw", 1]]}],
    ],
)
def test_a_plan_that_cannot_be_is_refused(client, jobs):
    answer = client.post("/next", json={"jobs": jobs})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"][:2] == ["body", "jobs"]
