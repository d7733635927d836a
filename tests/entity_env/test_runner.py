"""Playing in the terminal: what is shown, what is asked, and how answers are understood."""

from __future__ import annotations

import io
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.tiny_envs import BrokenAtBirth, Chain, Farm, Replay

import entity_env.agent
import entity_env.plugins
import entity_env.registry
from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Discrete,
    Entity,
    Environment,
    GlobalCategoricalAction,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    Observation,
    ObsSpace,
    SelectEntityActionMask,
    SelectEntityActionSpace,
    batch_obs,
    errors,
)
from entity_env.agent import Decision, RandomAgent, decided_actions, load_agent
from entity_env.batching.frame_reader import FrameReader
from entity_env.check import main as check_main
from entity_env.command_line import game_words, parse_setting
from entity_env.drawing.table_text import entity_name, entity_table, id_text
from entity_env.fitting import fit_environment
from entity_env.runner import main, play_in_terminal
from entity_env.terminal.questions import (
    Choice,
    Question,
    percent,
    questions,
    read_answer,
    write_choices,
)

OBS_SPACE = ObsSpace(
    global_features=["time", Discrete("season", 4)],
    entities={"Dog": Entity(["x", "y"]), "Cat": Entity(["age"]), "Rock": Entity([])},
)
ACTION_SPACE = {
    "Walk": CategoricalActionSpace(["left", "right", "run"]),
    "Chase": SelectEntityActionSpace(),
    "Weather": GlobalCategoricalActionSpace(["sun", "rain"]),
}


def zoo(done=False, reward=0.0, **changes):
    """Two dogs that walk, one of which chases a cat; cat 3 cannot be chased."""
    values = {
        "features": {"Dog": [[1, 2], [-10.5, 0]], "Cat": [[3], [4.25]], "Rock": [[]]},
        "ids": {"Dog": ["rex", "ben"], "Cat": [("Cat", 0), ("Cat", 1)]},
        "global_features": [7, 2],
        "actions": {
            "Walk": CategoricalActionMask(
                actor_types=["Dog"], mask=[[True, True, True], [True, False, True]]
            ),
            "Chase": SelectEntityActionMask(
                actor_ids=["ben"], actee_ids=["rex", ("Cat", 1)], mask=[[True, True]]
            ),
            "Weather": GlobalCategoricalActionMask([True, False]),
        },
    }
    return Observation(**{**values, **changes}, done=done, reward=reward)


def read(observation):
    return FrameReader(OBS_SPACE, ACTION_SPACE).read(observation)


class Zoo(Replay):
    """One step, whose actions can be looked at afterwards."""

    made: list[Zoo] = []  # noqa: RUF012

    def __init__(self, steps=1):
        frames = [zoo() for _ in range(steps)]
        super().__init__([*frames, zoo(done=True, reward=1.5)], OBS_SPACE, ACTION_SPACE)
        Zoo.made.append(self)


class Endless(Zoo):
    """The same, again and again."""

    def reset(self):
        self.observations = [zoo(), zoo(done=True, reward=1.0)]
        return super().reset()


@pytest.fixture
def typed(monkeypatch):
    """Sets what is typed, one line after the other."""
    return lambda *lines: monkeypatch.setattr(
        sys, "stdin", io.StringIO("".join(line + "\n" for line in lines))
    )


# The table.


def test_the_table_shows_index_id_and_features_in_aligned_columns():
    assert entity_table(read(zoo()), OBS_SPACE) == "\n".join(
        [
            "  time 7, season 2",
            "  #  Dog        x  y",
            "  0  rex        1  2",
            "  1  ben    -10.5  0",
            "  #  Cat     age",
            "  2  Cat 0     3",
            "  3  Cat 1  4.25",
            "  #  Rock",
            "  4  -",
        ]
    )


def test_hidden_entities_are_marked():
    lines = entity_table(read(zoo(visible={"Cat": [True, False]}, actions={})), OBS_SPACE)
    lines = lines.splitlines()
    assert lines[5:7] == ["  2  Cat 0     3", "  3  Cat 1  4.25  hidden"]


def test_values_with_names_are_shown_by_name():
    names = ("spring", "summer", "autumn", "winter")
    season = Discrete("season", 4, names=names)
    space = ObsSpace(global_features=[season], entities={"Dog": Entity(["x", season])})
    reader = FrameReader(space, ACTION_SPACE)
    observation = Observation(features={"Dog": [[1, 3], [2, 0]]}, global_features=[2])
    lines = entity_table(reader.read(observation), space).splitlines()
    assert [line.split() for line in lines] == [
        ["season", "autumn"],
        ["#", "Dog", "x", "season"],
        ["0", "-", "1", "winter"],
        ["1", "-", "2", "spring"],
    ]


@pytest.mark.parametrize("columns", [30, 45, 60])
def test_tables_and_choices_fit_the_terminal(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    long = "a-name-of-forty-characters-and-without-space"
    space = ObsSpace(
        global_features=[f"number{i}" for i in range(9)],
        entities={long: Entity(["x", "y", long]), "Dog": Entity(["hp"])},
    )
    observation = Observation(
        features={long: [[1, 2, 3]] * 60, "Dog": [[0.12345678]] * 10_000},
        ids={long: [f"{long}{i}" for i in range(60)]},
        global_features=[1.5] * 9,
    )
    text = entity_table(FrameReader(space, ACTION_SPACE).read(observation), space)
    lines = text.splitlines()
    assert max(map(len, lines)) <= columns
    assert [line.strip() for line in lines if "..." in line and "and" in line.split()[:2]] == [
        "... and 10 more",
        "... and 9,950 more",
    ]
    assert all(f"number{i} 1.5" in text for i in range(9))
    many = [Choice(i, str(i), (f"choice{i}",), i) for i in range(70)]
    assert max(map(len, write_choices(Question("Go", 0, "you", many)).splitlines())) <= columns


def test_an_empty_frame_says_so():
    space = ObsSpace(entities={"Dog": Entity(["x"])})
    frame = FrameReader(space, ACTION_SPACE).read(Observation())
    assert entity_table(frame, space) == "  (no entities)"


def test_many_entities_are_cut_and_many_features_folded():
    space = ObsSpace(entities={"Dog": Entity([f"feature{i}" for i in range(20)])})
    frame = FrameReader(space, ACTION_SPACE).read(Observation(features={"Dog": [[0.5] * 20] * 60}))
    lines = entity_table(frame, space, limit=2, width=80).splitlines()
    assert max(map(len, lines)) <= 82
    assert lines[-1].strip() == "... and 58 more"
    words = " ".join(lines).split()
    assert [word for word in words if word.startswith("feature")] == list(
        space.entities["Dog"].names
    )
    assert words.count("0.5") == 40
    # One column is wider than the line: it stands alone.
    narrow = entity_table(frame, space, limit=1, width=3).splitlines()
    assert len(narrow) == 20 * 2 + 1


@pytest.mark.parametrize(
    ("entity_id", "text"),
    [
        (None, "-"),
        (7, "7"),
        ("rex", "rex"),
        (("Robot", 1), "Robot 1"),
        (("a", ("b", 2)), "a b 2"),
        ("two\nlines", "'two\\nlines'"),
        ("x" * 50, "x" * 37 + "..."),
    ],
)
def test_ids_are_short_text(entity_id, text):
    assert id_text(entity_id) == text


def test_entities_are_called_by_type_and_id():
    frame = read(zoo())
    assert [entity_name(frame, OBS_SPACE, i) for i in range(6)] == [
        "Dog rex",
        "Dog ben",
        "Cat 0",
        "Cat 1",
        "Rock",
        "you",
    ]


@pytest.mark.parametrize(
    "value",
    [3, 0.5, True, None, "aggressive", "3", "None", "true", "two words", [1, "a"], {"b": 2}],
)
def test_settings_survive_as_words(value):
    target, words = game_words({"_target_": "zoo", "steps": value})
    assert (target, [parse_setting(word) for word in words]) == ("zoo", [("steps", value)])


# Choices.


def asked(name, observation=None):
    every = questions(read(observation or zoo()), OBS_SPACE, ACTION_SPACE)
    return [own for own in every if own.action == name]


def pick(text, question):
    (index,) = read_answer(text, question)
    return index


def test_questions_name_the_actor_and_all_its_choices():
    rex, ben = asked("Walk")
    assert (rex.actor, rex.row, ben.actor, ben.row) == ("Dog rex", 0, "Dog ben", 1)
    assert write_choices(rex) == "  0 left   1 right   2 run"
    assert write_choices(ben) == "  0 left   2 run"
    (chase,) = asked("Chase")
    assert write_choices(chase) == "  0 Dog rex   3 Cat 1"
    (weather,) = asked("Weather")
    assert weather.actor == "you"
    assert asked("Weather", zoo(actions={})) == []


def test_probabilities_stand_beside_their_choices():
    _, ben = asked("Walk")
    probs = np.array([0.996, 0.0, 0.004], np.float32)
    assert write_choices(ben, probs) == "  0 left >99%   2 run <1%"
    shown = [percent(p) for p in (0.0, 1.0, 0.256, 0.0099, 0.01, 0.99, 0.9999)]
    assert shown == ["0%", "100%", "26%", "<1%", "1%", "99%", ">99%"]


def test_long_lists_of_choices_are_wrapped_and_cut():
    many = [Choice(i, str(i), (f"choice{i}",), i) for i in range(100)]
    lines = write_choices(Question("Go", 0, "you", many), width=40).splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[0] == "  0 choice0   1 choice1   2 choice2"
    assert lines[-1].endswith("... and 40 more")


@pytest.mark.parametrize(
    ("action", "text", "index"),
    [
        ("Walk", "0", 0),
        ("Walk", " 2 ", 2),
        ("Walk", "left", 0),
        ("Walk", "RIGHT", 1),
        ("Walk", "l", 0),
        ("Walk", "ri", 1),
        ("Chase", "3", 3),
        ("Chase", "rex", 0),
        ("Chase", "Dog rex", 0),
        ("Chase", "dog", 0),  # the other dog cannot be chased
        ("Chase", "cat 1", 3),
        ("Chase", "c", 3),
        ("Chase", "CAT_1", 3),
        ("Chase", "dogrex", 0),
        ("Weather", "s", 0),
    ],
)
def test_answers_are_understood(action, text, index):
    assert pick(text, asked(action)[0]) == index


def test_what_is_forbidden_makes_no_beginning_ambiguous():
    assert pick("r", asked("Walk")[1]) == 2  # run, as right is not allowed


@pytest.mark.parametrize(
    ("action", "row", "text", "words"),
    [
        ("Walk", 0, "r", ("can mean several", "1 right, 2 run", "number")),
        ("Walk", 0, "3", ("no choice '3'", "'0 left', '1 right'")),
        ("Walk", 0, "-1", ("no choice",)),
        ("Walk", 0, "", ("no choice ''",)),
        ("Walk", 0, "lift", ("did you mean 'left'?",)),
        ("Walk", 1, "right", ("no choice 'right' for Dog ben now", "'0 left', '2 run'")),
        ("Walk", 1, "1", ("'0 left', '2 run'",)),
        ("Chase", 0, "1", ("no choice '1'", "'3 Cat 1'")),
        ("Chase", 0, "Cat 0", ("no choice 'Cat 0'",)),
        ("Chase", 0, "9", ("no choice '9'",)),
        ("Weather", 0, "rain", ("for you now",)),
    ],
)
def test_wrong_answers_say_what_is_valid(action, row, text, words):
    with pytest.raises(errors.ActionError) as caught:
        pick(text, asked(action)[row])
    for word in words:
        assert word in str(caught.value)


def test_labels_that_are_numbers_have_no_other_numbers():
    space = GlobalCategoricalActionSpace(["1", "2", "3"])
    reader = FrameReader(OBS_SPACE, {"Take": space})
    frame = reader.read(zoo(actions={"Take": GlobalCategoricalActionMask()}))
    (question,) = questions(frame, OBS_SPACE, {"Take": space})
    assert write_choices(question) == "  1   2   3"
    assert pick("1", question) == 0
    assert pick("3", question) == 2
    with pytest.raises(errors.ActionError):
        pick("0", question)


# Whole games.


def test_what_is_typed_is_what_the_environment_gets(typed, capsys):
    typed("ri", "2", "Cat 1", "")
    play_in_terminal(Zoo, seed=0, episodes=1)
    walk, chase, weather = Zoo.made[-1].received[0].values()
    assert (list(walk.actors), walk.indices.tolist()) == (["rex", "ben"], [1, 2])
    assert (chase.actors, chase.actees) == (["ben"], [("Cat", 1)])
    assert weather == GlobalCategoricalAction(0, "sun")
    out = capsys.readouterr().out
    assert "Zoo, seed 0\n  Walk: left, right, run\n  Chase: select an entity\n" in out
    assert "--- episode 1, step 0\n  time 7, season 2\n  #  Dog        x  y" in out
    assert "Walk, Dog rex:\n  0 left   1 right   2 run\n  [random] > ri\n  -> right\n" in out
    assert "Chase, Dog ben:\n  0 Dog rex   3 Cat 1\n  [random] > Cat 1\n  -> Cat 1\n" in out
    assert "Weather, you:\n  0 sun\n  [random] > \n  -> sun\n" in out
    assert "--- episode 1, step 1: reward 1.5, return 1.5" in out
    assert out.endswith("episode 1 is over after 1 step\n  return  1.5\n")


def test_wrong_input_is_explained_and_asked_again(typed, capsys):
    typed("jump", "?", "0", "right", "0", "rex", "sun")
    play_in_terminal(Zoo, seed=0, episodes=1)
    assert Zoo.made[-1].received[0]["Walk"].indices.tolist() == [0, 0]
    out = capsys.readouterr().out
    explained = "> jump\n  there is no choice 'jump' for Dog rex now\n    valid:    '0 left', "
    assert f"{explained}'1 right', '2 run'\n" in out
    assert "there is no choice 'right' for Dog ben now" in out
    assert "quit" in out[out.index("> ?") :]


def test_a_dot_leaves_the_rest_of_a_step_to_chance(typed, capsys):
    typed("1", ".", "q")
    play_in_terminal(lambda: Zoo(steps=2), seed=0)
    received = Zoo.made[-1].received
    assert len(received) == 1  # the next step is asked about again
    assert received[0]["Walk"].indices[0] == 1
    assert capsys.readouterr().out.count(" > ") == 3


@pytest.mark.parametrize("lines", [[], ["0"], ["q"], ["0", "Quit"]])
def test_the_end_of_the_input_and_q_are_polite(typed, capsys, lines):
    typed(*lines)
    play_in_terminal(Zoo, seed=0)
    assert capsys.readouterr().out.endswith("\nThank you for playing.\n")
    assert not Zoo.made[-1].received


@pytest.mark.parametrize(("answers", "episodes"), [(["n"], 1), (["", "No"], 2), (["y", "Y"], 3)])
def test_another_episode_is_offered(typed, capsys, answers, episodes):
    typed(*[line for answer in answers for line in (".", answer)], ".")
    play_in_terminal(Endless, seed=0)
    out = capsys.readouterr().out
    assert out.count(" is over after 1 step") == episodes
    assert ("episodes, mean return 1" in out) == (
        answers[-1].lower() in ("n", "no") and episodes > 1
    )


def test_without_questions_so_many_episodes_are_played(typed, capsys):
    typed()
    play_in_terminal(Endless, seed=0, auto=True, episodes=3)
    out = capsys.readouterr().out
    assert out.count(" is over after 1 step") == 3
    assert out.endswith("\n3 episodes, mean return 1\n")
    assert " > " not in out
    assert "again?" not in out
    play_in_terminal(Endless, seed=0, auto=True)
    assert capsys.readouterr().out.count(" is over after 1 step") == 1


def test_a_seed_gives_one_game_and_none_is_named(typed, capsys):
    def game(**options):
        play_in_terminal(Farm, auto=True, episodes=3, **options)
        return capsys.readouterr().out

    assert game(seed=5) == game(seed=5) != game(seed=6)
    fresh = game()
    seed = int(fresh.splitlines()[0].removeprefix("Farm, seed "))
    assert game(seed=seed) == fresh


def test_metrics_and_limits_are_told_at_the_end(typed, capsys):
    play_in_terminal(lambda: Chain(2, truncates=True), seed=0, auto=True)
    out = capsys.readouterr().out
    assert "episode 1 is cut off by a limit after 2 steps\n  return" in out
    assert out.endswith("  return  3\n  twice   4  (mean 2, from 0 to 4)\n")


def test_the_own_text_of_an_environment_comes_first(capsys):
    class Written(Chain):
        def render_text(self):
            return f"it is {self.time} o'clock"

    play_in_terminal(lambda: Written(1), seed=0, auto=True)
    out = capsys.readouterr().out
    assert "it is 0 o'clock\n\n  #  Walker  time\n  0  w          0\n" in out


def test_a_step_in_which_nobody_acts_waits_for_enter(typed, capsys):
    nobody = zoo(actions={})

    def make():
        return Replay([nobody, zoo(done=True)], OBS_SPACE, ACTION_SPACE)

    typed("", "n")
    play_in_terminal(make, seed=0)
    assert "nobody can act in this step [Enter to continue]" in capsys.readouterr().out
    play_in_terminal(make, seed=0, auto=True)
    assert "nobody" not in capsys.readouterr().out


# Agents.


class Sure:
    """Always the last allowed choice, with made-up probabilities."""

    def __init__(self, obs_space=OBS_SPACE, action_space=ACTION_SPACE):
        self.obs_space, self.action_space = obs_space, action_space

    def decide(self, obs):
        assert len(obs) == 1
        return Decision(
            chosen={"Walk": np.array([2, 2]), "Chase": np.array([3]), "Weather": np.array([0])},
            probs={
                "Walk": np.array([[0.25, 0.25, 0.5], [0.125, 0, 0.875]], np.float32),
                "Chase": np.array([[0.25, 0.75]], np.float32),
                "Weather": np.array([[1.0, 0.0]], np.float32),
            },
            value=0.875,
        )


@pytest.fixture
def sure(monkeypatch):
    """Any path leads to the sure agent."""
    loaded = []

    def load(path, seed):
        loaded.append((path, seed))
        return Sure()

    monkeypatch.setattr(entity_env.agent, "load_plugins", lambda group: [load])
    return loaded


def test_an_agent_shows_its_probabilities_and_enter_takes_its_choice(typed, capsys, sure):
    typed("", "left", "", "")
    play_in_terminal(Zoo, "runs/sure", seed=4, episodes=1)
    assert sure == [("runs/sure", 4)]
    received = Zoo.made[-1].received[0]
    assert received["Walk"].indices.tolist() == [2, 0]
    assert received["Chase"].actees == [("Cat", 1)]
    out = capsys.readouterr().out
    assert "the agent expects a return of 0.875 from this step on" in out
    assert "Walk, Dog rex:\n  0 left 25%   1 right 25%   2 run 50%\n  [run] > \n  -> run\n" in out
    assert "Walk, Dog ben:\n  0 left 12%   2 run 88%\n  [run] > left\n  -> left\n" in out
    assert "  0 Dog rex 25%   3 Cat 1 75%\n  [Cat 1] > \n" in out


def test_an_agent_plays_alone(typed, capsys, sure):
    play_in_terminal(Zoo, "runs/sure", seed=4, auto=True)
    assert Zoo.made[-1].received[0]["Walk"].indices.tolist() == [2, 2]
    assert "Walk, Dog ben:\n  0 left 12%   2 run 88%\n  -> run\n" in capsys.readouterr().out


LARGER = ObsSpace(
    ["wind", *OBS_SPACE.global_features],
    {"Owl": Entity(["x"]), **OBS_SPACE.entities, "Cat": Entity(["fur", "age"])},
)


def test_an_agent_plays_where_it_does_not_know_everything(typed, capsys, sure):
    larger = zoo(
        features={"Owl": [[9]], "Dog": [[1, 2], [3, 4]], "Cat": [[8, 3], [8, 4]], "Rock": [[]]},
        global_features=[5, 7, 2],
    )
    env = Replay([larger, replace(larger, done=True)], LARGER, ACTION_SPACE)
    assert fit_environment(Zoo(), Sure()).obs_space() == OBS_SPACE
    typed("", "", "3", "")
    play_in_terminal(lambda: env, "runs/sure", seed=0, episodes=1)
    out = capsys.readouterr().out
    assert "Replay, seed 0" in out
    assert "time 7, season 2\n  #  Dog     x  y\n" in out
    assert "Owl" not in out
    assert env.received[0]["Chase"].actees == [("Cat", 1)]


@pytest.mark.parametrize(
    ("obs_space", "action_space", "words"),
    [
        (ObsSpace(entities=OBS_SPACE.entities), ACTION_SPACE, ("no global feature 'time'",)),
        (
            ObsSpace(OBS_SPACE.global_features, {"Dog": Entity(["x", "y"])}),
            ACTION_SPACE,
            ("no entity type 'Cat'",),
        ),
        (
            ObsSpace(OBS_SPACE.global_features, {**OBS_SPACE.entities, "Cat": Entity(["fur"])}),
            ACTION_SPACE,
            ("'Cat'", "'age'", "'fur'"),
        ),
        (OBS_SPACE, {"Chase": SelectEntityActionSpace()}, ("has no action 'Walk'",)),
        (
            OBS_SPACE,
            {**ACTION_SPACE, "Run": SelectEntityActionSpace()},
            ("the agent has no action 'Run'",),
        ),
        (
            OBS_SPACE,
            {**ACTION_SPACE, "Walk": CategoricalActionSpace(["left", "up"])},
            ("action 'Walk' differs", "'up'", "'right'"),
        ),
    ],
)
def test_an_agent_of_another_environment_is_refused(obs_space, action_space, words):
    env = Replay([], obs_space, action_space)
    with pytest.raises(errors.SpaceError, match="trained on another environment") as caught:
        fit_environment(env, Sure())
    for word in words:
        assert word in str(caught.value)


def test_decisions_become_typed_actions_with_probabilities():
    frame = read(zoo())
    actions = decided_actions(frame, Sure().decide([0]), ACTION_SPACE)
    assert actions["Walk"].labels == ["run", "run"]
    assert actions["Walk"].probs.tolist() == [[0.25, 0.25, 0.5], [0.125, 0, 0.875]]
    assert actions["Chase"].probs.tolist() == [[0.25, 0.75]]
    assert actions["Weather"].probs.tolist() == [1.0, 0.0]
    nothing_known = Decision({"Walk": np.array([0, 0])})
    only_walking = {"Walk": ACTION_SPACE["Walk"]}
    assert decided_actions(frame, nothing_known, only_walking)["Walk"].probs is None


def test_the_random_agent_takes_what_is_allowed_evenly():
    agent = RandomAgent(OBS_SPACE, ACTION_SPACE, seed=0)
    obs = batch_obs([zoo()], OBS_SPACE, ACTION_SPACE)
    drawn = [agent.decide(obs).chosen for _ in range(600)]
    walks = np.array([chosen["Walk"] for chosen in drawn])
    # Shares of 1/3 and 1/2 of 600 draws; 5 standard deviations are 58 and 61.
    assert np.abs(np.bincount(walks[:, 0], minlength=3) - 200).max() < 58
    assert np.abs(np.bincount(walks[:, 1], minlength=3) - [300, 0, 300]).max() < 61
    assert {int(chosen["Chase"][0]) for chosen in drawn} == {0, 3}
    assert agent.decide(obs).probs == {}


def test_agents_are_loaded_by_the_first_that_can(monkeypatch):
    def refuses(path, seed):
        raise errors.StateError(f"{path} is not mine")

    monkeypatch.setattr(entity_env.agent, "load_plugins", lambda group: [refuses, lambda p, s: p])
    assert load_agent("there", 0) == "there"
    monkeypatch.setattr(entity_env.agent, "load_plugins", lambda group: [refuses])
    with pytest.raises(errors.StateError, match="there is not mine"):
        load_agent("there", 0)
    monkeypatch.setattr(entity_env.agent, "load_plugins", lambda group: [])
    with pytest.raises(
        errors.EntityEnvError, match=r"no installed package can load the agent 'there'"
    ):
        load_agent("there", 0)


# Plug-ins.


@pytest.fixture
def installed(monkeypatch):
    """A package that declares a module of environments, and a broken one."""
    module = types.ModuleType("the_games")
    registered = []

    class Point:
        group = "entity_env.environments"

        def __init__(self, name, value):
            self.name, self.value = name, value

        def __lt__(self, other):
            return self.name < other.name

        def load(self):
            if self.value == "broken":
                raise ImportError("no such module")
            entity_env.registry.register("the_chain", "support.tiny_envs.Chain")
            registered.append(self.name)
            return module

    monkeypatch.setattr(
        entity_env.plugins,
        "entry_points",
        lambda group: [Point("b", "the_games"), Point("a", "broken")],
    )
    monkeypatch.setattr(entity_env.registry, "_FACTORIES", {})
    return registered


def test_short_names_of_installed_packages_are_found(installed, typed, capsys):
    with pytest.warns(UserWarning, match="plug-in 'a' .* 'broken': ImportError: no such module"):
        assert main(["the_chain", "length=1", "--auto", "--seed", "0"]) == 0
    assert installed == ["b"]
    assert "Chain, seed 0" in capsys.readouterr().out
    # From now on the name is known, and nothing is searched.
    assert check_main(["the_chain", "length=1"]) == 0
    assert installed == ["b"]


def test_the_command_plays_an_environment_by_its_import_path():
    words = ["tiny_envs.Chain", "length=2", "--seed", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "entity_env.runner", *words],
        input="nonsense\n",
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[1] / "support",
    )
    assert done.returncode == 0, done.stderr
    assert "there is no choice 'nonsense'" in done.stdout
    assert done.stdout.endswith("\nThank you for playing.\n")
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_a_game(monkeypatch, capsys):
    def interrupted(prompt):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    assert main(["support.tiny_envs.Chain", "--seed", "0"]) == 130
    assert capsys.readouterr().err == "stopped\n"


def test_dotted_paths_search_no_packages(installed):
    assert entity_env.registry.resolve("support.tiny_envs.Farm") is Farm
    assert installed == []


# The command line.


def test_the_command_line_plays(typed, capsys):
    typed(".", "n")
    assert main(["support.tiny_envs.Chain", "--seed", "3", "length=1", "truncates=true"]) == 0
    assert "cut off by a limit after 1 step" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["support.tiny_envs.Chian"], ("UnknownEnvironmentError", "did you mean 'Chain'?")),
        (["support.tiny_envs.Chain", "lenght=1"], ("SettingError", "did you mean 'length'?")),
        (["support.tiny_envs.Chain", "length"], ("SettingError", "name=value")),
        (["support.tiny_envs.Chain", "--seed", "-1"], ("SettingError",)),
        (["support.tiny_envs.Chain", "--episodes", "0"], ("SettingError", "episodes")),
        (["support.tiny_envs.BrokenAtBirth"], ("EnvironmentFailedError", "no parts left")),
        (["support.tiny_envs.row_seed", "seed=1", "row=1"], ("UnknownEnvironmentError", "-> Env")),
    ],
    ids=str,
)
def test_mistakes_on_the_command_line_are_explained(arguments, words, capsys):
    assert main(arguments) == 1
    error = capsys.readouterr().err
    for word in words:
        assert word in error


class Failing(Chain):
    def __init__(self, how):
        super().__init__(3)
        self.how = how

    def act(self, actions):
        if self.how == "raise":
            raise NotImplementedError("no motor")
        return Observation(features={"Walker": [[float("nan")]]})

    def render_text(self):
        if self.how == "text":
            raise RuntimeError("no ink")
        return super().render_text()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raise", ("EnvironmentFailedError", "NotImplementedError in act: no motor", "Traceback")),
        ("nan", ("FeatureError: step 1, seat 'you', act: entity type 'Walker'",)),
        ("text", ("RuntimeError in render_text: no ink",)),
    ],
)
def test_an_environment_that_fails_says_where(how, words, capsys):
    closed = []

    class Closing(Failing):
        def close(self):
            closed.append(self)

    with pytest.raises(errors.EntityEnvError) as caught:
        play_in_terminal(lambda: Closing(how), seed=0, auto=True)
    text = f"{type(caught.value).__name__}: {caught.value}"
    for word in words:
        assert word in text
    assert len(closed) == 1


def test_only_environments_are_played():
    with pytest.raises(errors.ObservationError, match="did not return an environment"):
        play_in_terminal(dict, seed=0)
    with pytest.raises(errors.EnvironmentFailedError, match="no parts left"):
        play_in_terminal(BrokenAtBirth, seed=0)
    assert issubclass(Zoo, Environment)


def test_a_script_sees_the_ids_and_all_masks_of_the_game(capsys):
    """The cannon cannot fire in the first step: its mask is there, and names nobody."""
    pytest.importorskip("numba")
    play_in_terminal(
        lambda: entity_env.registry.make("minesweeper"),
        "ragged_envs.minesweeper_script.walk_and_defuse",
        seed=1,
        auto=True,
    )
    assert "episode 1 is over" in capsys.readouterr().out
