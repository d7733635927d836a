"""Job shops: rules by hand, instances, and how episodes begin."""

import contextlib
import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from ragged_envs.industry.job_shop import JobShop, JobShopRows
from ragged_envs.industry.job_shop_instances import Instance, find_instance, read_table
from ragged_envs.industry.job_shop_scripts import (
    RULES,
    apparent_tardiness_cost,
    critical_ratio,
    shortest_processing_time,
    slack_per_operation,
)
from ragged_envs.industry.job_shop_view import JOB

from entity_env import SelectEntityAction
from entity_env.errors import ActionError, SettingError, StateError
from entity_env.play import random_policy
from entity_env.scripted_agent import ScriptedAgent

TINY = Instance.of([[3, 2], [2, 4], [4, 1]], [[0, 1], [0, 1], [1, 0]], 2)
TABLE = """job, machine, duration
chair, saw, 3
chair, drill, 2
table, drill, 4
table, saw, 1
table, drill, 2
stool, saw, 5
"""
DATED = """Job;Machine;Duration;Due;Weight;Release
chair;saw;30;60;2;
chair;drill;20;;;
;;;;;
table;drill;45;200;;5
table;saw;10;;;
table;drill;0;;;
stool;saw;55;70;4;20
"""
FLEXIBLE = """3 3 1.5
3 2 1 5 2 9 1 3 2 2 1 1 3 1
2 3 1 4 2 4 3 2 1 2 7
1 2 1 3 3 4
"""


def dispatch(env, job):
    """Play a step: a job starts."""
    place = env.fields()["here"].index(job)
    return env.act({"Dispatch": SelectEntityAction(actors=[("Clock", 0)], actees=[("Job", place)])})


def bars(env):
    """Return the machine, job, start and end of each operation that has been started."""
    return [
        (int(own["machine"]), int(own["job"]), own["start"], own["end"]) for own in env.schedule()
    ]


def changed(env, **fields):
    """Let the game go on from its state with other fields."""
    state = env.get_state()
    state["rows"][0]["env"] |= fields
    return env.set_state(state)


def feature(seen, name):
    return seen.features["Job"][:, JOB.index(name)].tolist()


def play(env, rule):
    seen = env.reset()
    rewards = []
    while not seen.done:
        seen = env.act(rule(seen))
        rewards.append(seen.reward)
    return seen, rewards


def test_the_first_taillard_instance_is_the_published_one():
    found = find_instance("ta01")
    assert found.durations[0].tolist() == [
        94,
        66,
        10,
        53,
        26,
        15,
        65,
        82,
        10,
        27,
        93,
        92,
        96,
        70,
        83,
    ]
    assert found.machines[0].tolist() == [6, 12, 4, 7, 3, 2, 10, 11, 8, 14, 9, 13, 5, 0, 1]
    assert (found.size, found.best) == ((15, 15), 1231)


def test_a_schedule_by_hand():
    """Jobs 0: M0 3, M1 2. 1: M0 2, M1 4. 2: M1 4, M0 1.

    The bound is max(jobs 5, 6, 5; M0 3 + 2 + 1 = 6, M1 2 + 4 + 4 = 10) = 10. At 0 all can start,
    and job 1 would end first, on M0. It starts there (0 to 2); then 0 cannot (M0 is busy), and 2
    starts by itself on M1 (0 to 4). At 2 job 0 starts by itself on M0 (2 to 5); M1 is free at 4,
    where only job 1 waits (4 to 8); at 5 job 2 on M0 (5 to 6); at 8 job 0 on M1 (8 to 10). Nothing
    was asked but the first.
    """
    env = JobShop(instance=TINY, waiting=False)
    seen = env.reset()
    assert feature(seen, "ready") == [1, 1, 0]
    assert (env.fields()["first"], env.fields()["now"]) == (10, 0)
    seen = dispatch(env, 1)
    assert seen.done
    assert bars(env) == [
        (0, 1, 0, 2), (1, 2, 0, 4), (0, 0, 2, 5), (1, 1, 4, 8), (0, 2, 5, 6), (1, 0, 8, 10),
    ]  # fmt: skip
    assert (seen.reward, seen.metrics) == (0, {"makespan": 10, "ratio": 1.0})


LATECOMER = Instance.of([[100], [10, 10, 100]], [[0], [1, 0, 1]], 2)
"""Job 0: M0 100. Job 1: M1 10, M0 10, M1 100. No schedule is shorter than job 1, 120."""


def test_it_pays_to_wait():
    """Job 1 ends first, on M1 at 10, and starts. Then it would end first on M0, at 20, if M0 waits.

    If so, job 0 follows at 20, and both end at 120. If not, job 1 is on M0 from 100, and ends at
    210: 90 of the bound of 120 are lost. Nobody could choose where all starts that can start.
    """
    env = JobShop(instance=LATECOMER)
    assert feature(env.reset(), "ready") == [0, 1]
    seen = dispatch(env, 1)
    assert (feature(seen, "ready"), env.fields()["now"], env.fields()["until"]) == ([1, 1], 0, 20)
    seen = dispatch(env, 1)
    assert (seen.done, seen.reward, seen.metrics["makespan"]) == (True, 0, 120)
    assert bars(env) == [(1, 1, 0, 10), (0, 1, 10, 20), (0, 0, 20, 120), (1, 1, 20, 120)]
    env.reset()
    dispatch(env, 1)
    seen = dispatch(env, 0)
    assert (seen.done, seen.reward, seen.metrics["makespan"]) == (True, -7.5, 210)
    env = JobShop(instance=LATECOMER, waiting=False)
    assert feature(env.reset(), "ready") == [0, 1]
    assert dispatch(env, 1).metrics["makespan"] == 210


def schedules(env, seen, path=()):
    """Return the starts of all schedules that can be played on, as a set."""
    if seen.done:
        return {tuple(env.fields()["starts"][job][op] for job in range(3) for op in range(3))}
    found, state = set(), env.get_state()
    for _, place in seen.actions["Dispatch"].actee_ids:
        env.set_state(state)
        action = SelectEntityAction(actors=[("Clock", 0)], actees=[("Job", place)])
        found |= schedules(env, env.act({"Dispatch": action}))
    return found


def orders(times, routes):
    """Return the starts of all active schedules of 3 jobs on 3 machines, from all orders of jobs.

    In an active one nothing can start earlier, whatever the order, unless something starts later.
    """
    found = set()
    for order in itertools.product(itertools.permutations(range(3)), repeat=3):
        starts = {}
        for _ in range(9):
            for job, op in itertools.product(range(3), range(3)):
                machine = routes[job][op]
                before = [(j, routes[j].index(machine)) for j in order[machine]]
                before = [*before[: before.index((job, op))], *([(job, op - 1)] if op else [])]
                if all(one in starts for one in before):
                    ends = [starts[j, k] + times[j][k] for j, k in before]
                    starts[job, op] = max(ends, default=0)
        if len(starts) == 9 and not any(
            starts[job, op] > begin >= (starts[job, op - 1] + times[job][op - 1] if op else 0)
            and all(
                begin + times[job][op] <= starts[j, routes[j].index(machine)]
                or starts[j, routes[j].index(machine)] + times[j][routes[j].index(machine)] <= begin
                for j in range(3)
                if j != job
            )
            for (job, op), machine in (((j, k), routes[j][k]) for j, k in starts)
            for begin in range(starts[job, op])
        ):
            found.add(tuple(starts[job, op] for job in range(3) for op in range(3)))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_active_schedules_can_be_played_and_no_others(seed):
    """One of them is a best schedule of any instance; without waiting some are out of reach."""
    rng = np.random.default_rng(seed)
    times = rng.integers(1, 9, (3, 3)).tolist()
    routes = [rng.permutation(3).tolist() for _ in range(3)]
    expected, instance = orders(times, routes), Instance.of(times, routes, 3)
    env = JobShop(instance=instance)
    assert schedules(env, env.reset()) == expected
    env = JobShop(instance=instance, waiting=False)
    assert schedules(env, env.reset()) < expected


TROUBLES = {"breakdowns": 0.1, "repair": 5}


def test_a_machine_waits_for_what_has_been_started_where_nobody_knows_what_comes():
    """M0 and M1 are idle at 0, and can break down. Of what can start at once job 1 ends first.

    Then M0 is asked until 100, when job 0 would end. Job 1 comes to it at 10. M1 breaks down at 5
    for 20: job 1 ends there at 30, and is on M0 from then until 40. M0 breaks down at 35 for 4:
    until 44. Both others follow. With M0 down from 7 to 17 instead, it starts there at 17.
    """
    far = [10**6] * 16
    troubles = (
        # breakdowns of M0 and M1, repairs of both, bars
        ((35, 5), (4, 20), [(1, 1, 0, 30), (0, 1, 30, 44), (0, 0, 44, 144), (1, 1, 44, 144)]),
        ((7, 999), (10, 1), [(1, 1, 0, 10), (0, 1, 17, 27), (0, 0, 27, 127), (1, 1, 27, 127)]),
    )
    for breaks, repairs, expected in troubles:
        env = JobShop(instance=LATECOMER, **TROUBLES)
        env.reset()
        ups = [[breaks[0], *far[1:]], [breaks[1], *far[1:]]]
        downs = [[repairs[0]] * 16, [repairs[1]] * 16]
        changed(env, ups=ups, downs=downs, next_break=list(breaks))
        seen = dispatch(env, 1)
        assert (feature(seen, "ready"), env.fields()["until"]) == ([1, 1], 100)
        dispatch(env, 1)
        assert bars(env) == expected


EVERYTHING = {
    "arrivals": {"arrivals": True, "load": 1.2},
    "breakdowns": {"breakdowns": 0.2, "repair": 2},
    "work centres": {"flexible": 2, "setups": 0.5},
    "everything": {"arrivals": True, "flexible": 3, "setups": 1, "breakdowns": 0.1, "load": 1.2},
}


@pytest.mark.parametrize("name", EVERYTHING)
def test_schedules_keep_the_order_of_operations_and_work_on_one_job_at_a_time(name):
    rows = JobShopRows(None, seed=5, jobs=8, machines=5, **EVERYTHING[name])
    rows.interpret()
    policy, size = random_policy(seed=2), EVERYTHING[name].get("flexible", 1)
    for _ in range(4):
        obs = rows.reset()
        while not obs.done[0]:
            obs = rows.act(policy(obs))
        own = rows.save_game(0)
        on = {machine: [] for machine in range(5)}
        for job in range(8):
            free = own["release"][job]
            for op in range(5):
                start, end = own["starts"][job][op], own["ends"][job][op]
                assert start >= free
                assert end - start >= own["durations"][job][op]
                assert own["places"][job][op] // size == own["route"][job][op] // size
                on[own["places"][job][op]].append((start, end))
                free = end
            assert free == own["job_free"][job]
        for busy in map(sorted, on.values()):
            assert all(end <= start for (_, end), (start, _) in itertools.pairwise(busy))


def test_whose_turn_it_is_by_hand():
    """All can start; 0 and 1 want M0, 2 is alone at M1. M0 is asked, where job 1 would end first.

    Of job 0 3 of 5 are done with its operation, of job 1 2 of 6, of job 2 4 of 5: the best rule
    takes job 1, then 0. Where machines wait, M0 is asked, too, until 2. After job 1 it is M1: until
    4, when job 2 would end; job 1 can start there at 2, so that it would be the second.
    """
    env = JobShop(instance=TINY, waiting=False)
    assert_allclose(feature(env.reset(), "turn"), [1 / 2, 1, 0])
    env = JobShop(instance=TINY)
    assert feature(env.reset(), "turn") == [1 / 2, 1, 0]
    seen = dispatch(env, 1)
    assert feature(seen, "turn") == [0, 1 / 2, 1]
    assert feature(seen, "ready") == [0, 1, 1]


@pytest.mark.parametrize("waiting", [False, True])
@pytest.mark.parametrize("name", ["jobs", "set-ups", *EVERYTHING])
def test_whoever_follows_the_turns_plays_the_best_rule(name, waiting):
    """Flow due date over the work left, or apparent tardiness cost where jobs are due."""
    settings = {"jobs": {}, "set-ups": {"arrivals": True, "setups": 0.8}, **EVERYTHING}[name]
    if settings.get("arrivals"):  # many wait, and most are not late yet
        settings = {**settings, "load": 5, "tightness": [4, 12]}
    rule = apparent_tardiness_cost if settings.get("arrivals") else RULES["flow_due_date"]
    played = []
    for policy in (rule, first_by_turn):
        rows = JobShopRows(None, seed=7, jobs=8, machines=4, waiting=waiting, **settings)
        rows.interpret()
        agent = ScriptedAgent(policy, rows.obs_space(), rows.action_space())
        played.append([])
        for _ in range(3):
            obs = rows.reset()
            while not obs.done[0]:
                obs = rows.act(agent.act_rows(obs))
            played[-1].append(rows.schedule(0))
    assert played[0] == played[1]


def first_by_turn(seen):
    """Start the choice with the greatest ``turn``."""
    turn, actees = feature(seen, "turn"), seen.actions["Dispatch"].actee_ids
    chosen = max(actees, key=lambda actee: turn[actee[1]])
    return {"Dispatch": SelectEntityAction(actors=[("Clock", 0)], actees=[chosen])}


BEGINNINGS = [
    {},
    {"arrivals": True, "load": 1.2, "tightness": (2, 3)},
    {"setups": 0.5, "families": 4, "breakdowns": 0.2, "repair": 2},
    {"arrivals": True, "flexible": 3, "setups": 1, "breakdowns": 0.1, "load": 1.2},
]


@pytest.mark.parametrize("settings", BEGINNINGS)
def test_an_episode_begins_with_a_shop_that_stands_still(settings):
    """Taillard's durations and routes; nothing is left of the episode before."""
    rows = JobShopRows(2, seed=3, **{"jobs": (4, 9), "machines": (3, 6), **settings})
    rows.interpret()
    policy, lengths, weights = random_policy(seed=4), [], []
    for _ in range(4):
        rows.reset()
        for row in range(2):
            own = {name: np.array(value) for name, value in rows.save_game(row).items()}
            jobs, machines = own["jobs"], own["machines"]
            assert 4 <= jobs <= 9
            assert 3 <= machines <= 6
            durations = own["durations"][:jobs, :machines]
            assert 1 <= durations.min() <= durations.max() <= 99
            lengths += durations.ravel().tolist()
            route = own["route"][:jobs, :machines]
            assert (np.sort(route, 1) == np.arange(machines)).all()
            assert len(set(route[:, 0].tolist())) > 1, "in different orders"
            assert own["unit"] == pytest.approx(durations.mean())
            assert not own["op"][:jobs].any()
            assert not own["job_done"][:jobs].any()
            assert not own["machine_free"][:machines].any()
            assert (own["set_for"][:machines] == -1).all()
            assert not own["broken"][:machines].any()
            assert own["now"] == 0
            release = own["release"][:jobs]
            assert (own["job_free"][:jobs] == release).all()
            work = durations.sum(1)
            if settings.get("arrivals"):
                assert release[0] == 0
                assert (np.diff(release) >= 0).all()
                weights += own["weight"][:jobs].tolist()
                low, high = settings.get("tightness", (1.5, 4.0))
                allowed = own["due"][:jobs] - release
                assert (allowed >= low * work - 1).all()
                assert (allowed <= high * work).all()
                assert own["first"] == own["bound"] == 0
            else:
                loads = np.bincount(route.ravel(), durations.ravel())
                bound = max(work.max(), loads.max())
                if "flexible" not in settings:
                    assert own["first"] == own["bound"] == bound
            if "breakdowns" in settings:
                assert (own["next_break"][:machines] == own["ups"][:machines, 0]).all()
                assert min(own["ups"][:machines].min(), own["downs"][:machines].min()) >= 1
            if "setups" in settings:
                times = own["setup_times"]
                assert not times.diagonal().any()
                others = times[~np.eye(len(times), dtype=bool)]
                assert (others >= 0.5 * settings["setups"] * own["unit"] - 1).all()
                assert (others <= 1.5 * settings["setups"] * own["unit"]).all()
        obs = rows.act(policy(rows.reset()))
        for _ in range(12):
            obs = rows.reset() if obs.done.any() else rows.act(policy(obs))
    assert np.mean(lengths) == pytest.approx(50, abs=4)
    if weights:
        assert set(weights) == {1, 2, 4}
        assert weights.count(2) / len(weights) == pytest.approx(0.6, abs=0.2)


def test_instances_are_played_in_turn():
    env = JobShop(instance=["ta01", TINY, "ta02"])
    first = []
    for _ in range(4):
        env.reset()
        first.append(env.fields()["durations"][0][0])
    assert first == [94, 3, find_instance("ta02").durations[0, 0], 94]


@pytest.mark.parametrize(
    "instance", [TINY, read_table(DATED, ""), find_instance({"file": "a.fjs", "text": FLEXIBLE})]
)
def test_a_game_can_begin_at_any_moment_of_an_instance(instance):
    """What is observed there is what the game observes that was played until then."""
    env, rows = JobShop(instance=instance), JobShopRows(2, instance=instance)
    rows.interpret()
    seen, policy = env.reset(), random_policy(0)
    while not seen.done:
        own = env.fields()
        obs = rows.begin_at(own["now"], own["op"], own["job_free"], own["machine_free"])
        for name, features in seen.features.items():
            assert_allclose(obs.features[name][1].as_array(), features, rtol=1e-6)
        for name in ("bound", "left", "job_work", "job_done", "machine_work", "queue", "num_here"):
            assert rows.save_game(1)[name] == own[name]
        env_obs = env._rows._last
        chosen = policy(env_obs)["Dispatch"].as_array()[0, 0]
        seen = dispatch(env, own["here"][chosen])


def test_rewards_add_up_to_what_the_first_bound_was_missed_by():
    env = JobShop(jobs=8, machines=5)
    env.seed(5)
    seen, rewards = play(env, shortest_processing_time)
    assert sum(rewards) == pytest.approx(-10 * (seen.metrics["ratio"] - 1))


def test_with_due_dates_rewards_add_up_to_the_weighted_tardiness():
    env = JobShop(jobs=12, machines=4, arrivals=True, load=1.5, tightness=1.1)
    env.seed(6)
    seen, rewards = play(env, shortest_processing_time)
    own = env.fields()
    columns = own["weight"], own["job_free"], own["due"]
    late = sum(w * max(0, end - due) for w, end, due in zip(*columns, strict=True))
    weights = sum(own["weight"])
    assert late > 0
    assert seen.metrics["tardiness"] == pytest.approx(late / weights)
    # Jobs that have come before the first choice may be late already.
    expected = -10 * (late - own["first"]) / (weights * own["unit"])
    assert sum(rewards) == pytest.approx(expected, rel=1e-5)


# Mean gaps over ta01 to ta10 in percent, from the rules of the benchmark: 25.9, 19.2, 20.5, 17.7.
@pytest.mark.platforms
@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("shortest_processing_time", 25.9),
        ("most_work_remaining", 19.2),
        ("most_operations_remaining", 20.5),
        ("flow_due_date", 17.7),
    ],
)
def test_rules_reach_their_published_gaps(rule, expected):
    """Of instances without ``best``, which have the same machine code as those that are drawn."""
    instances = [find_instance(f"ta{number:02d}") for number in range(1, 11)]
    rows = JobShopRows(10, instance=[replace(one, best=None) for one in instances])
    player = ScriptedAgent(RULES[rule], rows.obs_space(), rows.action_space())
    obs, spans = rows.reset(), np.full(10, np.nan)
    while np.isnan(spans).any():
        obs = rows.act(player.act_rows(obs))
        ended = obs.done & np.isnan(spans)
        spans[ended] = obs.metrics["makespan"][ended] if ended.any() else 0
    gaps = 100 * (spans / [one.best for one in instances] - 1)
    assert gaps.mean() == pytest.approx(expected, abs=0.05)


def test_the_gap_is_what_the_best_makespan_is_missed_by():
    env = JobShop(instance=replace(TINY, best=8), waiting=False)
    env.reset()
    assert dispatch(env, 1).metrics["gap"] == pytest.approx(25)  # it takes 10


def test_rows_do_not_go_on_with_another_instance():
    rows = JobShopRows(2, instance=TINY)
    rows.interpret()
    rows.reset()
    state = rows.get_state()
    other = JobShopRows(2, instance=Instance.of([[3, 2], [2, 4], [4, 9]], [[0, 1]] * 3, 2))
    other.interpret()
    with pytest.raises(StateError, match="another instance"):
        other.set_state(state)
    rows.set_state(state)
    with pytest.raises(StateError, match="wrong list of jobs"):
        rows.load_game({**rows.save_game(0), "op": [2, 2, 2], "num_here": 3})


def test_copies_of_an_instance_stay_together():
    rows = JobShopRows(6, seed=1, copies=3, jobs=(2, 4), machines=(2, 3))
    rows.interpret()
    for _ in range(2):  # also after another reset with a seed
        rows.reset(7)
        states = [rows.save_game(row) for row in range(6)]
        assert states[0]["durations"] == states[1]["durations"] == states[2]["durations"]
        assert states[3]["durations"] == states[4]["durations"] != states[0]["durations"]


BROKEN = {
    "empty": ("", "is empty"),
    "size": ("3\n", "line 1: no size"),
    "jobs": ("2 2\n0 3 1 2\n", "wrong number of jobs"),
    "machine": ("1 2\n0 3 0 2\n", r"line 2: the job does not visit each machine once"),
    "far": ("1 2\n0 3 9 2\n", "line 2: the job does not visit each machine once"),
    "long": ("1 2\n0 3 1 " + "9" * 5000, "line 2: a number is"),
    "endless": ("1 1\n0 0\n", "0 time units of work"),
    "word": ("1 2\n0 3 1 1x0\n", "line 2: a number is '1x0'"),
    "taillard": ("1 2\nTimes\n1 2\nMachines\n1 2 3\n", "line 5: the wrong number of values"),
    "twice": ("1 2\nTimes\n1 2\nMachines\n1 1\n", "line 5: the job does not visit each"),
    "negative": ("1 2\n0 3 1 -2\n", "line 2: a duration is '-2'"),
    "fraction": ("1 2\n0 3 1 2.5\n", "line 2: a number is '2.5'"),
    "short": ("1 2\n0 3 1\n", "line 2: the wrong number of values"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_file_says_which_line_is_wrong(tmp_path, name):
    text, message = BROKEN[name]
    path = tmp_path / "shop.txt"
    path.write_text(text)
    with pytest.raises(SettingError, match=message):
        JobShop(instance=str(path))


def test_a_file_is_read(tmp_path):
    path = tmp_path / "shop.txt"
    path.write_text("# three jobs\n3 2\n0 3 1 2\n0 2 1 4\n1 4 0 1  # the last\n")
    found = find_instance(path)
    assert found.durations.tolist() == TINY.durations.tolist()
    assert found.machines.tolist() == TINY.machines.tolist()


def test_a_misspelt_instance_gets_a_hint():
    with pytest.raises(SettingError, match="did you mean 'ta15'"):
        JobShop(instance="ta 15")


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"jobs": 0}, SettingError),
        ({"load": 0}, SettingError),
        ({"tightness": [3, 2]}, SettingError),
        ({"instance": "ta01", "arrivals": True}, SettingError),
        ({"instance": []}, SettingError),
        ({"breakdowns": 1.0}, SettingError),
        ({"breakdowns": 0.1, "repair": 0}, SettingError),
        ({"setups": -1}, SettingError),
        ({"setups": 1, "families": 0}, SettingError),
        ({"flexible": 0}, SettingError),
    ],
)
def test_bad_settings(settings, error):
    with pytest.raises(error):
        JobShop(**settings)


def test_a_job_that_cannot_start_is_refused_and_a_damaged_state_too():
    env = JobShop(instance=read_table(DATED, ""))
    env.reset()
    with pytest.raises(ActionError, match="cannot be selected"):
        dispatch(env, 1)  # it comes at 5
    with pytest.raises(StateError):
        env.set_state({"durations": [[1]]})


def test_a_table_of_ones_own_has_jobs_of_any_length(tmp_path):
    """The table needs the drill twice. Machines 0 saw, 1 drill."""
    path = tmp_path / "orders.csv"
    path.write_text(TABLE)
    found = find_instance(path)
    assert (found.jobs, found.machine_names) == (("chair", "table", "stool"), ("saw", "drill"))
    assert found.durations.tolist() == [[3, 2, 0], [4, 1, 2], [5, 0, 0]]
    assert found.machines.tolist() == [[0, 1, -1], [1, 0, 1], [0, -1, -1]]
    env = JobShop(instance=str(path))
    seen, _ = play(env, shortest_processing_time)
    schedule = env.schedule()
    assert seen.metrics["makespan"] == max(own["end"] for own in schedule)
    assert len(schedule) == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job,machin,duration\na,b,1\n", "line 1: no column 'machine'(?s:.*)did you mean 'machin'"),
        ("job,machine,duration\na,b,1\na,c,-1\n", "line 3: a duration is '-1'"),
        ("job,machine,duration\na,,1\n", "line 2: a job or a machine without a name"),
        ("job,machine,duration\na,b,1.5\n", "line 2: a duration is '1.5'"),
        ("job,machine,duration\n", "no size of an instance"),
        ("", "line 1: no column 'job'"),
        ("job,machine,duration,deu\na,b,1,3\n", "line 1: unknown column 'deu'(?s:.*)mean 'due'"),
        ("job,machine,duration,job\na,b,1,c\n", "line 1: column 'job' is there twice"),
        ("job,machine,duration\na,b,1\na,b,1,9\n", "line 3: the wrong number of values"),
        ("job,machine,duration\na,b\n", "line 2: the wrong number of values"),
        ("job,machine,duration,due\na,b,1,9\n\na,c,2,8\n", "line 4: job 'a' has another due"),
        ("job,machine,duration,due\na,b,1,9\nb,c,2,\n", "line 3: job 'b' has no due date"),
        ("job,machine,duration,weight\na,b,1,2\n", "line 2: job 'a' has no due date"),
        ("job,machine,duration,due,weight\na,b,1,2,0\n", "all weights are 0"),
        ("job,machine,duration,due\na,b,1,x\n", "line 2: due is 'x'"),
        ("job,machine,duration,release\na,b,1,-1\n", "line 2: release is '-1'"),
        ('job,machine,duration\na,b,1\n"a,b,1\na,b,1\n', "line 3: unexpected end of data"),
        ("job,machine,duration\na,b," + "1" * 200_000, "line 2: field larger than field limit"),
    ],
)
def test_a_damaged_table_says_which_line_is_wrong(tmp_path, text, message):
    path = tmp_path / "orders.csv"
    path.write_text(text)
    with pytest.raises(SettingError, match=message):
        JobShop(instance=str(path))


def test_due_dates_weights_and_release_times_of_a_table_count():
    """Saw 0, drill 1. At 0 only the chair is there: 0 to 30 on the saw. At 5 the table comes:
    5 to 50 on the drill, which both others then need nothing of until 50; the chair waits.

    At 30 the stool alone can start on the saw: 30 to 85, 15 late of weight 4. At 50 the chair on
    the drill: 50 to 70, 10 late of weight 2. The table on the saw from 85 to 95, and then 0 on the
    drill. (15 * 4 + 10 * 2 + 0) / (2 + 1 + 4) is the tardiness, as nothing is there to choose.
    """
    one = read_table(DATED, "")
    assert (one.release, one.due, one.weight) == ((0, 5, 20), (60, 200, 70), (2, 1, 4))
    env = JobShop(instance=one, waiting=False)
    seen = env.reset()
    unit = (30 + 20 + 45 + 10 + 0 + 55) / 6
    of = {name: feature(seen, name) for name in JOB}
    assert_allclose(of["wait"], [0, 5 / unit, 20 / unit])
    assert_allclose(of["slack"], [(60 - 50) / unit, (200 - 60) / unit, (70 - 75) / unit])
    assert (of["weight"], of["age"]) == ([2, 1, 4], [0, 0, 0])
    seen = dispatch(env, 0)
    assert seen.done
    assert seen.metrics == {"makespan": 95, "tardiness": pytest.approx(80 / 7)}
    assert [(own["job"], own["machine"], own["start"], own["end"]) for own in env.schedule()] == [
        ("chair", "saw", 0, 30), ("table", "drill", 5, 50), ("stool", "saw", 30, 85),
        ("chair", "drill", 50, 70), ("table", "saw", 85, 95), ("table", "drill", 95, 95),
    ]  # fmt: skip


def test_the_chart_names_what_is_late():
    """With other due dates, or other names, the picture is another one; what is on time, is not."""
    pytest.importorskip("PIL")
    pictures = []
    dated = DATED.replace("chair", '"a chair\n of oak"')  # a name may have several lines
    for text in (dated, dated.replace("200", "201"), dated.replace("200", "90")):
        env = JobShop(instance=read_table(text, ""), waiting=False)
        env.reset()
        dispatch(env, 0)
        pictures.append(env.render())
    assert pictures[0].shape[1:] == (900, 3)
    assert (pictures[0] == pictures[1]).all()
    assert (pictures[0] != pictures[2]).any()


def test_a_duration_of_nothing_is_played_to_the_end():
    """As in the published orb07, whose last job ends with one. Job 1 first: 3, else 3 + 2."""
    env = JobShop(instance=Instance.of([[3, 0], [0, 2]], [[0, 1], [0, 1]], 2))
    for rule in RULES.values():
        seen, _ = play(env, rule)
        assert seen.metrics["makespan"] in (3, 5)
        assert np.isfinite(seen.reward)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252"])
@pytest.mark.parametrize(("mark", "end"), [(",", "\n"), (";", "\r\n"), ("\t", "\r")])
def test_tables_of_spreadsheets_are_read(tmp_path, encoding, mark, end):
    path = tmp_path / "orders.CSV"
    text = TABLE.replace("chair", "Stühle").replace(", ", mark).replace(",", mark)
    path.write_bytes(text.replace("\n", end).encode(encoding))
    assert find_instance(path).jobs == ("Stühle", "table", "stool")


def test_taillards_own_layout_is_read(tmp_path):
    """The tables of times and machines, which count from 1, with and without his headings."""
    head = "Nb of jobs, Nb of Machines, Time seed, Machine seed, Upper bound, Lower bound\n"
    full = head + " 2 2 840612802 398197754 9 8\nTimes\n 3 4\n 1 2\nMachines\n 2 1\n 1 2\n"
    for text, best in ((full, 9), ("2 2\n3 4\n1 2\n2 1\n1 2\n", None)):
        (tmp_path / "shop.txt").write_text(text)
        found = find_instance(tmp_path / "shop.txt")
        assert found.durations.tolist() == [[3, 4], [1, 2]]
        assert found.machines.tolist() == [[1, 0], [0, 1]]
        assert found.best == best


def test_flexible_files_are_read_and_played(tmp_path):
    """Job 0: M0 5 or M1 9, M2 2, then M0 1 or M2 1. Job 1: M0 4, M1 4 or M2 2, then M1 7. Job 2: M0
    3 or M2 4.

    Job 1 ends first, on M2, at 2. Job 0 on M0, 0 to 5. Job 2 then waits for M2, where it ends at 6:
    on M0 it would at 8. At 2 job 1 on M1, until 9, and job 2 by itself. At 5 job 0 waits for M2,
    6 to 8, and at 8 M0 is the first of two on which it ends at 9.
    """
    path = tmp_path / "shop.fjs"
    path.write_text(FLEXIBLE)
    one = find_instance(path)
    assert one.durations.tolist() == [[5, 2, 1], [2, 7, 0], [3, 0, 0]]
    assert one.machines.tolist() == [[0, 2, 0], [2, 1, -1], [0, -1, -1]]
    env = JobShop(instance=one, waiting=False)
    seen = env.reset()
    assert feature(seen, "ready") == [0, 1, 0]
    for job in (1, 0):
        seen = dispatch(env, job)
    assert (seen.done, seen.metrics["makespan"]) == (True, 9)
    assert bars(env) == [
        (0, 0, 0, 5), (2, 1, 0, 2), (1, 1, 2, 9), (2, 2, 2, 6), (2, 0, 6, 8), (0, 0, 8, 9),
    ]  # fmt: skip
    for job, message in (
        ("1 1 4 5", "a machine is '4'"),
        ("2 1 1 5", "the numbers do not fit together"),
        ("1 1 1 5 3", "the numbers do not fit together"),
        ("1 0", "the numbers do not fit together"),
        ("1 2 1 5 2", "the numbers do not fit together"),
        ("1 -1 1 5", "the numbers do not fit together"),
        ("1 1 1 -5", "a duration is '-5'"),
    ):
        path.write_text(f"1 3\n{job}\n")
        with pytest.raises(SettingError, match=f"line 2: {message}"):
            find_instance(path)
    with pytest.raises(SettingError, match="flexible does not go together"):
        JobShop(instance=one, flexible=2)


def test_whatever_a_file_holds_the_error_is_the_projects_own(tmp_path):
    """Texts and tables with parts put in, taken out and exchanged, as a fuzzer does."""
    rng = np.random.default_rng(1)
    sources = [
        TABLE,
        DATED,
        "2 2\n0 3 1 2\n1 4 0 1\n",
        "2 2\nTimes\n3 4\n1 2\nMachines\n2 1\n1 2\n",
    ]
    odd = [
        ",",
        ";",
        '"',
        "\r",
        "\n",
        "\0",
        "\ufeff",
        "\u2028",
        "-",
        "9" * 30,
        "e5",
        "x" * 140_000,
        " ",
    ]
    suffixes = [".csv", ".txt", ".fjs"]
    for _ in range(300):
        text = sources[rng.integers(len(sources))]
        for _ in range(rng.integers(1, 4)):
            start, end = sorted(rng.integers(0, len(text) + 1, 2))
            part = odd[rng.integers(len(odd))] if rng.random() < 0.7 else text[start:end]
            place = end if rng.random() < 0.5 else start + 1
            text = text[:start] + part + text[place:]
        given = {"file": "shop" + suffixes[rng.integers(3)], "text": text}
        with contextlib.suppress(SettingError):
            find_instance(given)


def test_machines_are_set_up_between_families():
    """One machine, jobs of 5, 3 and 4; jobs 0 and 2 are of one family, 7 from it to job 1's.

    Job 0: 0 to 5, nothing to set up. Job 1: set up until 12, done at 15. Job 2: 2 back, until 21.
    """
    one = Instance.of([[5], [3], [4]], [[0], [0], [0]], 1)
    env = JobShop(instance=one, setups=1.0, families=2)
    env.reset()
    seen = changed(env, family=[0, 1, 0], setup_times=[[0, 7], [2, 0]])
    assert feature(seen, "setup") == [0, 0, 0]
    seen = dispatch(env, 0)
    # In mean durations of 4; job 2 needs no set-up.
    assert feature(seen, "setup") == [7 / 4, 0]
    assert feature(seen, "duration") == [10 / 4, 4 / 4]
    seen = dispatch(env, 1)
    assert bars(env) == [(0, 0, 0, 5), (0, 1, 5, 15), (0, 2, 15, 21)]
    assert (seen.done, seen.metrics["makespan"]) == (True, 21)


def test_what_a_machine_works_on_waits_for_its_repair():
    """One machine, jobs of 5 and 3. It breaks down at 2 for 10, then 6 later, at 18, for 1.

    Job 0: 0 to 5, and 10 for the repair: 15. Job 1: 15 to 18: done when the machine breaks again.
    """
    one = Instance.of([[5], [3]], [[0], [0]], 1)
    env = JobShop(instance=one, breakdowns=0.5)
    env.reset()
    ups, downs = [[2, 6] + [99] * 14], [[10, 1] + [1] * 14]
    changed(env, ups=ups, downs=downs, next_break=[2])
    seen = dispatch(env, 0)
    assert bars(env) == [(0, 0, 0, 15), (0, 1, 15, 18)]
    assert (seen.done, seen.metrics["makespan"]) == (True, 18)


def test_an_idle_machine_breaks_down_too():
    """Job 0: M0 5, M1 2. Job 1: M0 4. M1 is down from 1 to 21; job 0 waits for it until 23."""
    two = Instance.of([[5, 2], [4]], [[0, 1], [0]], 2)
    env = JobShop(instance=two, breakdowns=0.5)
    env.reset()
    far = [10**6] * 16
    changed(env, ups=[far, [1, *far[1:]]], downs=[[20] * 16] * 2, next_break=[10**6, 1])
    dispatch(env, 0)
    assert bars(env) == [(0, 0, 0, 5), (0, 1, 5, 9), (1, 0, 21, 23)]


def test_an_operation_goes_to_the_machine_of_its_centre_on_which_it_ends_first():
    """Machines 0 and 1 do the same. Jobs of 5, 3 and 4: 0 on 0, then 1 and 2 want 1.

    Job 1 on machine 1 until 3, and job 2 there until 7: machine 0 would be free at 5 only.
    """
    env = JobShop(instance=Instance.of([[5], [3], [4]], [[0], [0], [0]], 2), flexible=2)
    seen = env.reset()
    assert env.fields()["first"] == (5 + 3 + 4) // 2
    seen = dispatch(env, 0)
    # Both wait for the same centre; what is left of it is (3 + 4) / 2 for each machine.
    assert feature(seen, "rivals") == [0.5, 0.5]
    assert_allclose(seen.features["Machine"][:, 1], [3.5 / 6, 3.5 / 6], rtol=1e-6)
    seen = dispatch(env, 1)
    assert bars(env) == [(0, 0, 0, 5), (1, 1, 0, 3), (1, 2, 3, 7)]


def test_rules_for_due_dates_by_hand():
    """Job 0: duration 2, work left 4, slack 2, two operations, weight 1. Job 1: 4, 4, -1, 1, 2.

    Critical ratio: (2 + 4) / 4 = 1.5, (-1 + 4) / 4 = 0.75. Slack for each operation: 2 / 2 = 1;
    what is late, -1. Apparent tardiness: mean duration 3: 1/2 exp(-2 / 6), and 2 / 4 with no slack.
    """
    jobs = {
        "duration": np.array([2.0, 4]),
        "work left": np.array([4.0, 4]),
        "slack": np.array([2.0, -1]),
        "operations": np.array([2.0, 1]),
        "weight": np.array([1.0, 2]),
        "mean ready": np.array([3.0, 3]),
    }
    assert critical_ratio.priority(jobs).tolist() == [1.5, 0.75]
    assert slack_per_operation.priority(jobs).tolist() == [1, -1]
    assert_allclose(apparent_tardiness_cost.priority(jobs), [-0.5 * np.exp(-1 / 3), -0.5])
