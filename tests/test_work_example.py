"""The example from a table of orders to a service, as it stands in examples/work.md."""

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from ragged_envs.industry.job_shop import JobShop, JobShopRows
from ragged_envs.industry.job_shop_instances import Instance
from support.rows import interpret_all

from ppo_trainer import recipe, train
from ppo_trainer.agent import load_agent
from ppo_trainer.watch import main as watch

EXAMPLES = Path(__file__).parents[1] / "examples"
TEXT = (EXAMPLES / "work.md").read_text()


@pytest.fixture(scope="module", autouse=True)
def _in_python():
    with pytest.MonkeyPatch.context() as patch:
        interpret_all(patch, JobShopRows, resets=True)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the orders of the example, and a run that has hardly begun."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "orders.csv").write_text(re.search(r"```text\n(job,.*?)```", TEXT, re.DOTALL)[1])
    config = recipe(
        "job_shop", "total_timesteps=32", "rollout.num_envs=4", "rollout.steps=8",
        "ppo.minibatch_size=32", "eval.episodes=0", f"run_dir={folder / 'runs'}", "run_name=shop",
    )  # fmt: skip
    train(config)
    return folder


def test_the_python_of_the_example_writes_two_charts(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    exec(re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)[1], {})
    # Eight operations, the drill works 85, and nothing can make it shorter than that.
    printed = capsys.readouterr().out
    spans = [float(span) for span in re.findall(r"(?:network|rule) ([\d.]+)", printed)]
    assert len(spans) == 2
    assert all(85 <= span <= 220 for span in spans)
    assert (folder / "network.png").stat().st_size > 1000
    assert (folder / "rule.png").stat().st_size > 1000


def test_the_joinery_gets_a_plan_as_a_table_and_a_chart(folder, monkeypatch, capsys):
    shutil.copy(EXAMPLES / "joinery.csv", folder)
    config = recipe(
        "job_shop_dynamic", "env.jobs=[20,40]", "env.machines=[5,7]", "total_timesteps=16",
        "rollout.num_envs=2", "rollout.steps=8", "ppo.minibatch_size=16", "eval.episodes=0",
        f"run_dir={folder / 'runs'}", "run_name=joinery",
    )  # fmt: skip
    train(config)
    monkeypatch.chdir(folder)
    code = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[1]
    assert "tries=64" in code
    exec(code.replace("tries=64", "tries=2"), {})  # Python runs the shop here: fewer tries
    late = dict(re.findall(r"(\w+) is late by ([\d.]+)", capsys.readouterr().out))
    assert float(late["rule"]) == pytest.approx(3.51, abs=0.01)
    assert set(late) == {"rule", "network"}
    lines = (folder / "joinery-plan.csv").read_text().splitlines()
    assert lines[0] == "job,machine,start,end"
    assert len(lines) == 125
    assert any(line.startswith("chair for Ann,saw,") for line in lines)
    assert (folder / "joinery-plan.png").stat().st_size > 1000


def test_watching_writes_the_schedule_of_ones_own_orders(folder, monkeypatch):
    monkeypatch.chdir(folder)
    watch(
        ["runs/shop", "env.instance=orders.csv", "--episodes", "1", "--greedy", "--csv", "plan.csv"]
    )
    lines = (folder / "plan.csv").read_text().splitlines()
    assert lines[0] == "episode,job,machine,start,end"
    assert len(lines) == 1 + 8
    assert "1,stool,saw," in (folder / "plan.csv").read_text()


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


def test_whole_numbers_may_be_written_with_a_point(client):
    job = {"name": "chair", "operations": [["saw", 30.0]], "ready_at": 7.0, "done": 0.0}
    plan = {"now": 12.0, "machines": {"saw": 1e1}, "jobs": [job | {"due": 5e1, "weight": 2.0}]}
    answer = client.post("/next", json=plan).json()
    assert (answer["job"], answer["start"]) == ("chair", 12)


def test_where_nothing_can_start_it_says_when(client):
    jobs = [{"name": "chair", "operations": [["saw", 3]], "ready_at": 30}]
    plan = {"now": 1, "machines": {"saw": 20}, "jobs": jobs}
    assert client.post("/next", json=plan).json() == {"job": None, "next_time": 30}
    jobs[0]["done"] = 1
    assert client.post("/next", json=plan).json()["reason"] == "all jobs are done"


def test_the_service_answers_as_the_network_does_in_the_game(client, folder):
    """At each choice of whole schedules, in a shop that has no due dates, and in one that has."""
    rng = np.random.default_rng(1)
    times, routes = rng.integers(1, 99, (7, 4)), [rng.permutation(4) for _ in range(7)]
    dates = {"release": [0, 40, 0, 0, 9, 0, 300], "due": [200] * 7, "weight": [1, 2, 4, 0, 1, 1, 2]}
    agent = load_agent(folder / "runs" / "shop", greedy=True)
    for given in ({}, dates):
        shop = JobShop(instance=Instance.of(times.tolist(), routes, 4, **given))
        seen = shop.reset()
        while not seen.done:
            own = shop.fields()
            jobs = [
                {
                    "name": f"job {i}",
                    "operations": [
                        [f"m{m}", int(t)] for m, t in zip(routes[i], times[i], strict=True)
                    ],
                    "done": own["op"][i],
                    "ready_at": own["job_free"][i],
                    **{name: values[i] for name, values in given.items()},
                }
                for i in range(7)
            ]
            machines = {f"m{m}": free for m, free in enumerate(own["machine_free"])}
            plan = {"now": own["now"], "machines": machines, "jobs": jobs}
            decided = agent.act(seen)
            answer = client.post("/next", json=plan).json()
            assert answer["job"] == f"job {own['here'][decided['Dispatch'].actees[0][1]]}"
            assert list(answer["probabilities"].values()) == pytest.approx(
                decided["Dispatch"].probs[0].tolist(), abs=1e-4
            )
            chosen, op = int(answer["job"][4:]), own["op"][int(answer["job"][4:])]
            seen = shop.act(decided)
            assert answer["start"] == shop.fields()["starts"][chosen][op]
            assert answer["machine"] == f"m{shop.fields()['places'][chosen][op]}"


def test_the_service_answers_with_a_whole_schedule(client):
    """Of what is left: of the table only the saw, of the stool nothing."""
    jobs = [
        {"name": "chair", "operations": [["saw", 3], ["drill", 2]]},
        {"name": "table", "operations": [["drill", 4], ["saw", 1]]},
        {"name": "stool", "operations": [["saw", 5]]},
    ]
    for tries in (2, 6):
        answer = client.post(f"/schedule?tries={tries}", json={"jobs": jobs}).json()
        assert 9 <= answer["makespan"] <= 13  # the saw takes 9
        assert len(answer["operations"]) == 5
    jobs[1] |= {"done": 1, "ready_at": 14}
    jobs[2] |= {"done": 1, "ready_at": 15}
    plan = {"now": 12, "jobs": jobs, "machines": {"saw": 15, "drill": 14}}
    answer = client.post("/schedule", json=plan).json()
    starts = {(own["job"], own["machine"]): own["start"] for own in answer["operations"]}
    assert set(starts) == {("chair", "saw"), ("chair", "drill"), ("table", "saw")}
    assert sorted(starts[job, "saw"] for job in ("chair", "table")) in ([15, 16], [15, 18])
    for job in jobs:
        job["done"] = len(job["operations"])
    answer = client.post("/schedule", json={"jobs": jobs}).json()
    assert answer == {"makespan": 0, "operations": []}
    assert client.post("/schedule?tries=0", json=plan).status_code == 422


def test_a_machine_waits_only_for_a_job_that_comes_before_another_could_end(client):
    jobs = [
        {"name": "late", "operations": [["saw", 5]], "ready_at": 50},
        {"name": "stool", "operations": [["saw", 51]]},
    ]
    answer = client.post("/next", json={"jobs": jobs}).json()
    assert set(answer["probabilities"]) == {"late", "stool"}
    assert (answer["machine"], answer["start"]) == ("saw", 50 if answer["job"] == "late" else 0)
    jobs[1]["operations"] = [["saw", 50]]
    answer = client.post("/next", json={"jobs": jobs}).json()
    expected = {"job": "stool", "machine": "saw", "start": 0, "probabilities": {"stool": 1.0}}
    assert answer == expected


SAW = {"name": "a", "operations": [["saw", 1]]}


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"jobs": []}, "at least 1 item"),
        ({"jobs": [{"name": "a", "operations": [["saw", 1.5]]}]}, "integer"),
        ({"jobs": [{**SAW, "deadline": 3}]}, "Extra inputs"),
        ({"jobs": [SAW], "machine": {"saw": 3}}, "Extra inputs"),
        ({"jobs": [{**SAW, "done": 2}]}, "done is 2, of 1 operations"),
        ({"jobs": [SAW, {**SAW, "done": 1}]}, "two jobs are called 'a'"),
        ({"jobs": [{**SAW, "weight": 2}]}, "a weight counts for nothing"),
        ({"jobs": [{**SAW, "due": 5}, {**SAW, "name": "b"}]}, "'b' has no due time"),
        ({"jobs": [{**SAW, "due": 5, "weight": 0}]}, "all weights are 0"),
        ({"jobs": [{"name": "a", "operations": [["saw", 0]]}]}, "0 time units of work"),
        ({"jobs": [SAW], "machines": {f"m{i}": 0 for i in range(100_000)}}, "at most 200"),
        ({"jobs": [{"name": "a", "operations": [[str(i), 1] for i in range(201)]}]}, "at most 200"),
        ({"jobs": [{"name": "a", "operations": [["m", 1]] * 20_001}]}, "at most 20,000 in one"),
        ('{"now": NaN, "jobs": []}', "valid integer"),
        ('{"jobs": [{"name": "\\ud800", "operations": [["saw", 1]]}]}', "surrogates"),
        ('{"jobs": [{"\\ud800": 1}]}', "unicode"),
        ("[" * 100_000, ""),
        ("{", "JSON"),
    ],
)  # fmt: skip
def test_a_plan_that_cannot_be_is_refused(client, plan, message):
    text = plan if isinstance(plan, str) else json.dumps(plan)
    answer = client.post("/next", content=text, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500
    assert message in answer.text
