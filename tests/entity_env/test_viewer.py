"""The viewer: what a frame is, where frames come from, and who may see them."""

from __future__ import annotations

import http.client
import json
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from support.messages import from_message
from support.recorded import RandomFrames, by_row, random_notes
from support.seat_games import Played, asked, told
from support.turn_rows import TurnRows
from support.walkers import EVIL, Walkers

from entity_env import ListEnv
from entity_env.agent import Decision, RandomAgent, random_policy
from entity_env.batching.frame_reader import FrameReader
from entity_env.drawing import Chosen
from entity_env.drawing.scene_maker import SceneMaker
from entity_env.errors import ActionError, EntityEnvError, RecordingError, SettingError
from entity_env.hints import EntityHints, ViewerHints
from entity_env.recording import EpisodeDataset, RecordEpisodes, RecordReplay, Replay
from entity_env.recording.replays import make_rows
from entity_env.registry import resolve
from entity_env.runner import play_in_terminal
from entity_env.viewer import Viewer, open_source
from entity_env.viewer.__main__ import open_browser
from entity_env.viewer.messages import to_message
from entity_env.viewer.recorded import RecordedSource
from entity_env.viewer.sources import live_source


def record(path, create_env, rows=1, steps=30, notes=False, **settings):
    with RecordEpisodes(ListEnv(create_env, rows, seed=5), path, **settings) as env:
        policy, rng = random_policy(3), np.random.default_rng(4)
        obs = env.reset()
        for _ in range(steps):
            given = random_notes(obs, rng) if notes else {}
            obs = env.act(policy(obs), **given)
    return str(path)


# What a frame is


def test_a_frame_has_entities_actions_and_choices():
    source = live_source(Walkers(), "walkers", agent=_go_right, seed=1)
    about, frame = source.about(), source.frame(0, 0, 0)
    assert [own["name"] for own in about["types"]] == ["Walker", "Tree", EVIL]
    assert about["types"][0]["features"][2]["names"] == ["mine", "<i>yours</i>"]
    assert [own["is_placed"] for own in about["types"]] == [True, True, False]
    walkers = frame["entities"]["Walker"]
    assert walkers["features"].tolist() == [[0, 0, 0], [0, 1, 1]]
    assert walkers["ids"] == ["Walker 0", "Walker 1"]
    assert frame["entities"]["Tree"]["first"] == 2
    go, look = frame["actions"]["Go"], frame["actions"]["Look"]
    assert go["actors"].tolist() == [0, 1]
    assert go["chosen"].tolist() == [1, 1]
    assert go["mask"].tolist() == [[1, 1], [1, 1]]
    assert look["actees"].tolist() == [2, 3, 4]
    assert look["chosen"].tolist() == [4]


def test_a_frame_has_the_scene_that_films_have():
    game = Walkers()
    source = live_source(game, "walkers", agent=_go_right, seed=1)
    scene = source.frame(0, 0, 0)["scene"]
    seen = game.reset()
    frame = FrameReader(game.obs_space(), game.action_space()).read(seen)
    chosen = [Chosen("Go", 0, "<b>right</b>"), Chosen("Go", 1, "<b>right</b>")]
    chosen.append(Chosen("Look", 0, "Tree 2", 4))
    expected = SceneMaker(game.obs_space()).scene(frame, chosen)
    assert to_message(scene) == to_message(expected.to_json())
    # The walkers and the trees are drawn, each once; the rest is listed.
    drawn = [own["index"].tolist() for own in scene["shapes"] if own.get("index") is not None]
    assert sorted(index for own in drawn for index in own) == [0, 1, 2, 3, 4]
    assert [own["sign"]["meaning"] for own in scene["lists"]] == [EVIL]
    texts = [text for own in scene["shapes"] for text in own.get("text", ())]
    assert texts.count("<b>right</b>") == 2
    # A magnified scene has the same places.
    other = source.frame(0, 0, 0, zoom=4.0)["scene"]
    assert (other["width"], other["height"]) == (scene["width"], scene["height"])


def test_a_message_holds_json_and_the_arrays_that_stand_in_it():
    given = {
        "mask": np.array([[True], [False], [True]]),
        "places": np.array([[1.5, np.nan]]),
        "chosen": np.array([7, -1], np.int64),
        "none": np.zeros((0, 3), np.float32),
        "named": {"$array": {"<b>": "é"}},
    }
    sent = to_message(given)
    size = int.from_bytes(sent[:4], "little")
    assert size % 4 == 0
    # Three bytes and one that fills up, two real numbers, two whole ones.
    assert len(sent) == 4 + size + 4 + 8 + 8
    read = from_message(sent)
    assert {name: own.dtype.str for name, own in read.items() if name != "named"} == {
        "mask": "|u1",
        "places": "<f4",
        "chosen": "<i4",
        "none": "<f4",
    }
    for name in ("mask", "places", "chosen", "none"):
        np.testing.assert_array_equal(read[name], given[name])
    assert read["named"] == given["named"]
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_message({"value": np.nan})


def _go_right(observation):
    """Walk where the mask allows it, and look at the last tree; by the ids of the game itself."""
    from entity_env import CategoricalAction, SelectEntityAction

    allowed = observation.actions["Go"].mask[:, 1].astype(int)
    ids = observation.ids
    return {
        "Go": CategoricalAction(ids["Walker"], allowed, ["stay", "<b>right</b>"]),
        "Look": SelectEntityAction([("Walker", 0)], [ids["Tree"][-1]]),
    }


# Games that are played


def test_a_game_is_played_step_by_step_and_can_be_gone_back_in():
    source = live_source(Walkers(length=4), "walkers", agent=_go_right, seed=1)
    assert source.episode(-1)["length"] == 1
    ends = [source.advance({})["done"] for _ in range(4)]
    assert ends == [False, False, False, True]
    for step in (0, 1, 2, 3, 4):
        frame = source.frame(0, step, 0)
        assert (frame["step"], frame["globals"], frame["reward"]) == (step, [step], step)
        assert frame["total"] == sum(range(step + 1))
        # The second walker goes at each step, the first in every other one.
        places = frame["entities"]["Walker"]["features"][:, 0].tolist()
        assert places == [(step + 1) // 2, step]
    assert source.frame(0, 99, 0)["step"] == 4
    assert source.episode(0)["metrics"] == {
        EVIL: 7.0,
        "episodic_reward": 10.0,
        "episodic_length": 4.0,
    }
    curve = source.curve(0, 0)
    assert curve["total"].tolist() == [0, 1, 3, 6, 10]
    assert curve["reward"].tolist() == [0, 1, 2, 3, 4]
    # The next step is the next episode.
    after = source.advance({})
    assert (after["number"], after["count"], after["length"]) == (1, 2, 1)
    assert source.frame(0, 2, 0)["globals"] == [2]
    with pytest.raises(SettingError, match="the episode does not exist"):
        source.episode(5)


def test_what_is_long_ago_is_forgotten(monkeypatch):
    source = live_source(Walkers(length=30), "walkers", seed=1)
    size = source._bytes
    monkeypatch.setattr("entity_env.viewer.live._MOST_BYTES", 20 * size)
    for _ in range(29):
        source.advance({})
    # Of the only episode its first half.
    assert source._bytes <= 21 * size
    with pytest.raises(SettingError, match="no longer stored"):
        source.frame(0, 3, 0)
    assert source.frame(0, 29, 0)["globals"] == [29]
    for _ in range(40):
        source.advance({})
    # Then whole ones: their numbers stay.
    assert source.episode(-1)["number"] == 2
    with pytest.raises(SettingError, match="the episode does not exist"):
        source.episode(0)


def test_a_person_plays_what_is_clicked_and_a_mask_forbids():
    source = live_source(Walkers(), "walkers", people="you", seed=1)
    assert source.episode(-1)["waits_for"] == [0]
    assert "chosen" not in source.frame(0, 0, 0)["actions"]["Go"]
    source.advance({"0": {"Go": [1, 0], "Look": [3]}})
    assert source.table.game.at.tolist() == [1, 0]
    assert source.table.game.looked == [("Tree", 1)]
    # What was chosen belongs to the frame before; the next one is open.
    assert source.frame(0, 0, 0)["actions"]["Go"]["chosen"].tolist() == [1, 0]
    assert "chosen" not in source.frame(0, 1, 0)["actions"]["Go"]
    with pytest.raises(ActionError):
        source.advance({"0": {"Go": [1, 0], "Look": [3]}})
    for wrong in ({}, {"0": {}}, {"0": {"Go": [0]}}, {"0": {"Go": ["a", 0], "Look": [3]}}):
        with pytest.raises((SettingError, ActionError)):
            source.advance(wrong)
    assert source.episode(-1)["length"] == 2
    source.advance({"0": {"Go": [0, 1], "Look": [4]}})
    assert source.table.game.at.tolist() == [1, 1]


def test_each_seat_sees_its_own_and_waits_between_its_turns():
    game = Played(
        {"a": asked(1.0)},
        {"b": asked(2.0, reward=3.0)},
        {"a": told(0.5, done=True), "b": told(-0.5, done=True)},
        seats=("a", "b"),
    )
    source = live_source(game, "played", people="b", seed=1)
    assert (source.about()["seats"], source.about()["people"]) == (["a", "b"], [1])
    assert source.frame(0, 0, 1)["entities"] == {}
    assert source.advance({})["waits_for"] == [1]
    assert game.heard[0].keys() == {"a"}
    frame = source.frame(0, 1, 1)
    assert frame["entities"]["Card"]["features"].tolist() == [[2.0]]
    assert frame["total"] == 3.0
    # Seat a still has what it saw last, and cannot act.
    waiting = source.frame(0, 1, 0)
    assert waiting["actions"] == {}
    assert waiting["entities"]["Card"]["features"].tolist() == [[1.0]]
    ended = source.advance({"1": {"Go": [1]}})
    assert game.heard[1] == {"b": "right"}
    assert ended["done"]
    assert ended["metrics"] == {"return of a": 0.5, "return of b": 2.5}


def test_an_agent_is_asked_once_for_each_frame():
    class Counting(RandomAgent):
        asked = 0

        def decide(self, obs):
            self.asked += 1
            return super().decide(obs)

    game = Walkers(length=3)
    agent = Counting(game.obs_space(), game.action_space(), 1)
    source = live_source(game, "walkers", agent=agent, seed=1)
    for _ in range(3):
        source.frame(0, 0, 0)
        source.advance({})
    assert agent.asked == 3


def test_hints_say_how_a_game_looks():
    pytest.importorskip("numba")
    source = open_source("connect_four", seed=1)
    assert [own["is_placed"] for own in source.about()["types"]] == [False, True]
    shapes = source.frame(0, 0, 0)["scene"]["shapes"]
    columns = next(own for own in shapes if own["kind"] == "Marks")
    assert columns["index"].tolist() == [1, 2, 3, 4, 5, 6, 7]

    class Hinted(Walkers):
        green = EntityHints(size="x", range=2.5, colors=("#00ff00",))
        hints = ViewerHints({"Tree": green}, bounds=(0, 9, 0, 9), owners=("red", "blue"))

        def viewer_hints(self):
            return self.hints

    scene = live_source(Hinted(), "hinted", seed=1).frame(0, 0, 0)["scene"]
    assert scene["width"] > 10  # from -0.5 to 9.5, and a margin
    (reach,) = (own for own in scene["shapes"] if own.get("alpha", 1) < 1)
    assert (reach["fill"], reach["size"].tolist()) == ("#00ff00", [2.5, 2.5, 2.5])
    edges = {own["edge"] for own in scene["shapes"] if own.get("index") is not None}
    assert edges == {"red", "blue", "card"}
    for wrong in (
        ViewerHints({"Trees": EntityHints()}),
        ViewerHints({"Tree": EntityHints(shape="star")}),
        ViewerHints({"Tree": EntityHints(color="x", colors=("#12345g",))}),
        ViewerHints({"Tree": EntityHints(ground="x", grounds=("url(x)",))}),
        ViewerHints(owners=("rgb(1 2 3)",)),
        ViewerHints({"Tree": EntityHints(stack=["x", "hight"])}),
        ViewerHints(bounds=(0, 9)),
        ViewerHints(bounds=(9, 0, 0, 9)),
        {"Tree": "green"},
    ):
        Hinted.hints = wrong
        with pytest.raises(SettingError, match=r"viewer_hints|not a rectangle"):
            live_source(Hinted(), "hinted", seed=1)


def test_the_game_draws_its_newest_step_with_an_overlay():
    class Drawn(Walkers):
        overlays = ("rain", "values")

        def render(self, overlay="", value=None, seat=0, **kwargs):
            if overlay == "values":
                return np.full((1, 1, 3), value(None), np.uint8)
            return np.full((1, 1, 3), [len(overlay), self.step, value is None], np.uint8)

    about = live_source(Walkers(), "walkers", seed=1).about()
    assert (about["has_pictures"], about["layers"]) == (False, [])
    source = live_source(Drawn(length=5), "drawn", seed=1)
    about = source.about()
    assert (about["has_pictures"], about["layers"]) == (True, ["rain", "values"])
    source.advance({})
    assert source.frame(-1, 1, 0)["picture"] is None
    assert source.frame(-1, 1, 0, layer="")["picture"].tolist() == [[[0, 1, 1]]]
    assert source.frame(-1, 99, 0, layer="rain")["picture"].tolist() == [[[4, 1, 1]]]
    assert source.frame(-1, 0, 0, layer="rain")["picture"] is None
    source.agents[0].decide_rows = lambda obs: [Decision({}, value=v) for v in (7.0, 8.0, 9.0)]
    assert source.frame(-1, 1, 0, layer="values")["picture"].tolist() == [[[7, 8, 9]]]
    with pytest.raises(SettingError, match="the overlay does not exist"):
        source.frame(-1, 1, 0, layer="snow")


# Recordings


@pytest.mark.parametrize("rows", [1, 3])
def test_a_recording_is_read_by_seeking_as_it_is_read_whole(tmp_path, rows):
    path = record(tmp_path / "a.episodes", RandomFrames, rows, 40, notes=True, part_frames=7 * rows)
    source = RecordedSource(path)
    whole = by_row(path)
    count = _read_to_the_end(source)
    assert count == len(whole)
    shown = sorted((source.episode(i) for i in range(count)), key=_row)
    assert [_row(own) for own in shown] == [own.row for own in whole]
    for episode, own in zip(shown, whole, strict=True):
        assert episode["length"] == len(own) + 1
        assert (episode["done"], episode["truncated"]) == (own.done, own.truncated)
        assert episode["metrics"] == pytest.approx(dict(own.metrics))
        paid = [0.0, *own.steps.reward.tolist()]
        for step in range(episode["length"]):
            frame = source.frame(episode["number"], step, 0)
            obs, place = own.steps.obs, step
            if step == len(own):  # without an observation after it, the last one is shown again
                obs, place = (obs, step - 1) if own.next_obs is None else (own.next_obs, 0)
                assert frame["actions"] == {}
            for name, rows_of in obs.features.items():
                expected = np.asarray(rows_of[place].as_array())
                if len(expected):
                    given = frame["entities"][name]["features"]
                    np.testing.assert_array_equal(given, expected)
                else:
                    assert name not in frame["entities"]
            assert frame["reward"] == pytest.approx(paid[step])
            if step < len(own):
                for name, given in frame["actions"].items():
                    expected = own.steps.actions[name][step].as_array().ravel()
                    assert given["chosen"].ravel().tolist() == expected.tolist()
                    probs = given["probs"]
                    np.testing.assert_allclose(probs.sum(axis=1), 1, rtol=1e-5)
        last = source.frame(episode["number"], episode["length"], 0)
        assert last["total"] == pytest.approx(sum(paid))


def _row(episode):
    return int(episode["who"].removeprefix("row "))


def _read_to_the_end(source):
    with source._changed:
        assert source._changed.wait_for(lambda: source._is_read, 30)
    return source.episode(0)["count"]


def test_rows_that_wait_have_the_steps_in_which_they_decided(tmp_path):
    path = tmp_path / "turns.episodes"
    with RecordEpisodes(TurnRows(4), path, part_frames=6) as env:
        policy, obs = random_policy(1), env.reset()
        for _ in range(20):
            obs = env.act(policy(obs))
    source = RecordedSource(path)
    whole = by_row(path)
    count = _read_to_the_end(source)
    shown = sorted((source.episode(i) for i in range(count)), key=_row)
    for episode, own in zip(shown, whole, strict=True):
        last = source.frame(episode["number"], episode["length"], 0)
        assert last["step"] + 1 == episode["length"]
        if own.done:
            assert last["total"] == pytest.approx(own.steps.reward.sum())


def test_a_long_recording_is_not_read_whole(tmp_path, monkeypatch):
    path = record(tmp_path / "a.episodes", Walkers, 1, 60, part_frames=5)
    read = []
    frames = EpisodeDataset.frames
    monkeypatch.setattr(EpisodeDataset, "frames", lambda own, n: read.append(n) or frames(own, n))
    source = RecordedSource(path)
    _read_to_the_end(source)
    for step in (7, 8, 9, 8):
        assert source.frame(4, step, 0)["globals"] == [step]
    # Steps 40 to 49 of the file: the tenth of its twelve parts.
    assert read == [9]
    assert source.frame(0, 0, 0)["globals"] == [0]
    assert read == [9, 0]


def test_a_damaged_recording_says_so_and_shows_the_rest(tmp_path):
    path = tmp_path / "a.episodes"
    record(path, Walkers, 1, 60, part_frames=5)
    file = sorted(path.iterdir())[6]
    file.write_bytes(file.read_bytes()[:-1])
    source = RecordedSource(path)
    assert "is damaged" in source.about()["notice"]
    assert 1 < _read_to_the_end(source) <= 7
    assert source.frame(0, 3, 0)["globals"] == [3]


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"\x89EPS\r\n\x1a\n\x07\0\0\0\0\0\0\0\0\0\0\0"])
def test_what_is_no_recording_is_refused(tmp_path, data):
    path = tmp_path / "a.episodes"
    path.write_bytes(data)
    with pytest.raises(RecordingError):
        open_source(str(path))


def test_what_is_not_there_is_refused():
    with pytest.raises(EntityEnvError, match="unknown environment"):
        open_source("no_such_thing")
    with pytest.raises(EntityEnvError):
        open_source("no.episodes")


# The server


@pytest.fixture(scope="module")
def viewer():
    with Viewer(live_source(Walkers(), "walkers", seed=1)) as viewer:
        yield viewer


def send(viewer, path="", method="GET", body=None, token=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=10)
    own = viewer.address.rsplit("/", 2)[1] if token is None else token
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, f"/{own}/{path}", body, given)
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return response, data


def test_the_page_and_its_files_are_sent_with_a_strict_policy(viewer):
    response, data = send(viewer)
    assert response.status == 200
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert b"<script>" not in data
    assert b"style=" not in data
    for name in (b"main.js", b"viewer.css", b"icon.svg"):
        assert name in data
        assert send(viewer, name.decode())[0].status == 200


def test_only_who_knows_the_address_gets_an_answer(viewer):
    assert send(viewer, "api/about")[0].status == 200
    for token in ("", "x", "x" * 24, viewer.address.rsplit("/", 2)[1][:-1]):
        assert send(viewer, "api/about", token=token)[0].status == 404
    connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=10)
    connection.request("GET", "/")
    assert connection.getresponse().status == 404


def test_foreign_hosts_and_pages_are_refused(viewer):
    assert send(viewer, "api/about", Host=f"localhost:{viewer.port}")[0].status == 200
    for host in ("evil.example", f"evil.example:{viewer.port}", "127.0.0.1", ""):
        assert send(viewer, "api/about", Host=host)[0].status == 403
    assert send(viewer, "api/about", Origin="http://evil.example")[0].status == 403
    kind = {"Content_Type": "application/json"}
    foreign = send(viewer, "api/restart", "POST", "{}", Origin="null", **kind)
    assert foreign[0].status == 403


@pytest.mark.parametrize(
    "path",
    [
        "//[::1",
        "../server.py",
        "pages/../../server.py",
        "..%2fserver.py",
        "server.py",
        "api/close",
        "api/",
    ],
)
def test_nothing_else_is_sent(viewer, path):
    assert send(viewer, path)[0].status == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("api/frame?episode=0&step=0&seat=0", 200),
        ("api/frame?episode=x", 400),
        ("api/frame?episode=99", 400),
        (f"api/frame?step={'9' * 5000}", 400),
        (f"api/frame?step={'9' * 4200}", 400),
        (f"api/episode?episode=-{'9' * 4200}", 400),
        ("api/episode?episode=4294967296", 400),
        *((f"api/{name}?seat={seat}", 400) for name in ("frame", "curve") for seat in (7, -1)),
        ("api/frame?seat=0&picture=1&layer=%ff", 400),
    ],
)
def test_wrong_questions_are_answered_with_what_is_wrong(viewer, path, status):
    response, data = send(viewer, path)
    assert response.status == status
    assert ("error" in from_message(data)) == (status != 200)


def test_playing_takes_json_of_a_sensible_size(viewer):
    def post(body, kind="application/json", **headers):
        return send(viewer, "api/advance", "POST", body, Content_Type=kind, **headers)[0].status

    before = from_message(send(viewer, "api/episode?episode=-1")[1])["length"]
    assert post("{}") == 200
    played = from_message(
        send(viewer, "api/advance", "POST", '{"seat": 0}', Content_Type="application/json")[1]
    )
    assert played["frame"]["step"] == played["length"] - 1 == before + 1
    assert post("{}", kind="text/plain") == 415
    assert post("[1]") == 400
    assert post("{") == 400
    assert post("[" * 100_000) == 400
    assert post("", Content_Length=str(1 << 40)) == 413
    assert from_message(send(viewer, "api/episode?episode=-1")[1])["length"] == before + 2
    assert send(viewer, "api/advance")[0].status == 404  # reading changes nothing


@pytest.mark.parametrize(
    "given",
    [
        {"chosen": "abc"},
        {"chosen": ["abc"]},
        {"chosen": 3},
        {"chosen": None},
        {"seat": 7},
        {"seat": int("9" * 4200)},
        {"seat": 1e300},
        {"seat": [0]},
        {"seat": {}},
        *({"chosen": {"0": own}} for own in ("Go", [0], 7, None)),
        *(
            {"chosen": {"0": {"Go": own, "Look": [3]}}}
            for own in (
                "abc",
                {"a": 1},
                None,
                [[0, 0], [0]],
                [int("9" * 4200), 0],
                [1e300, 0],
                [-1, 0],
                [2**31, 0],
                [2**63, 0],
                [0.5, 0],
                [float("nan"), 0],
                [float("inf"), 0],
            )
        ),
    ],
    ids=lambda given: str(given)[:40],
)
def test_wrong_choices_are_answered_with_what_is_wrong(played, given):
    body = json.dumps(given)
    response, data = send(played, "api/advance", "POST", body, Content_Type="application/json")
    assert response.status == 400
    assert from_message(data)["error"]
    assert from_message(send(played, "api/episode?episode=-1")[1])["length"] == 1


@pytest.fixture(scope="module")
def played():
    with Viewer(live_source(Walkers(), "walkers", people="you", seed=1)) as viewer:
        yield viewer


def test_other_users_cannot_read_the_address_from_the_browsers_command_line(monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    address = "http://127.0.0.1:1/secret/"
    with open_browser(address):
        (url,) = opened
        assert "secret" not in url
        path = Path(urlsplit(url).path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert f"url={address}" in path.read_text()
    assert not path.parent.exists()


def test_the_command_says_what_is_wrong_in_a_line():
    done = subprocess.run(
        [sys.executable, "-m", "entity_env.viewer", "minesweper", "--no-browser"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "minesweeper" in done.stderr
    assert "Traceback" not in done.stderr


# Replays


def test_a_game_of_the_terminal_is_seen_again_by_all_its_seats(tmp_path):
    path = tmp_path / "played.replay"
    play_in_terminal(
        resolve("tic_tac_toe"),
        "random",
        seats="",
        seed=4,
        auto=True,
        episodes=2,
        replay=(str(path), "tic_tac_toe", {}),
    )
    replay = Replay.read(path)
    source = open_source(str(path))
    assert source.about()["seats"] == ["X", "O"]
    assert _read_to_the_end(source) == 2
    choices = [own for step in replay.steps for own in step.choices.items()]
    shown = []
    for game in (0, 1):
        length = source.episode(game)["length"]
        assert source.episode(game)["done"]
        for step in range(length - 1):
            seat = step % 2
            frame = source.frame(game, step, seat)
            shown.append((seat, frame["actions"]["Mark"]["chosen"].tolist()))
        ends = source.frame(game, length - 1, 0)
        assert ends["metrics"]["win"] in (0, 0.5, 1)
    assert shown == [(row, own["Mark"]) for row, own in choices]


def test_rows_of_seats_are_games_with_seats(tmp_path):
    path, factory = tmp_path / "rows.replay", resolve("tic_tac_toe")
    rows = RecordReplay(make_rows(factory, {}, 4, 1), path, "tic_tac_toe", {}, 1)
    with rows, RecordEpisodes(rows, tmp_path / "same.episodes") as env:
        policy, obs = random_policy(2), env.reset()
        for _ in range(90):
            obs = env.act(policy(obs))
    source = open_source(str(path))
    count = _read_to_the_end(source)
    assert (source.about()["kind"], source.about()["seats"]) == ("replay", ["X", "O"])
    played = []
    for game in range(count):
        last = source.frame(game, 99, 0)
        turns = [source.frame(game, step, 0)["actions"] for step in range(0, last["step"], 2)]
        chosen = [own["Mark"]["chosen"].tolist() for own in turns]  # X and O take turns
        if source.episode(game)["done"]:
            played.append((chosen, last["total"], source.episode(game)["metrics"]))
    whole = [own for own in by_row(tmp_path / "same.episodes") if own.row % 2 == 0 and own.done]
    expected = [
        (
            [own.steps.actions["Mark"][i].as_array().ravel().tolist() for i in range(len(own))],
            float(own.steps.reward.sum()),
            dict(own.metrics),
        )
        for own in whole
    ]
    assert len(played) > 2
    assert sorted(played, key=str) == sorted(expected, key=str)
    # The other seat sees its own marks: what is own to one is other to the other.
    first, second = (source.frame(0, 3, seat)["entities"]["Cell"] for seat in (0, 1))
    marks = [seen["features"][:, 2] for seen in (first, second)]
    assert ((marks[0] == 1) <= (marks[1] == 2)).all()
    assert (marks[1] == 1).any()
    assert source.frame(0, 0, 1)["entities"] == {}


def test_a_replay_of_other_rules_says_so(tmp_path):
    path, factory = tmp_path / "rows.replay", resolve("tic_tac_toe")
    with RecordReplay(make_rows(factory, {}, 2, 1), path, "tic_tac_toe", {}, 1) as rows:
        policy, obs = random_policy(2), rows.reset()
        for _ in range(9):
            obs = rows.act(policy(obs))
    text = path.read_text()
    at = text.index('"checksum":', text.index('"step":6')) + 11
    path.write_text(
        f"{text[:at]}1{text[at + 1 :]}" if text[at] != "1" else f"{text[:at]}2{text[at + 1 :]}"
    )
    source = open_source(str(path))
    with pytest.raises(SettingError):
        source.episode(99)  # waits until all is read
    assert "differs from the recorded one" in source.about()["notice"]
