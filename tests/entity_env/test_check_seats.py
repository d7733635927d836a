"""``check_env`` is content with sound games of several players, and tells broken ones apart."""

from __future__ import annotations

import numpy as np
import pytest
from ragged_envs.tic_tac_toe import TicTacToe
from support.seat_games import Secrets, asked, told

from entity_env import (
    CategoricalActionSpace,
    Entity,
    MultiPlayerEnvironment,
    ObsSpace,
    check_env,
    errors,
)
from entity_env.check import main
from entity_env.seats import seat_rows


class Sound(MultiPlayerEnvironment):
    """Three players call numbers in turn, six turns in all; c joins late and is out before the end.

    Whoever is not asked is paid what the others call.
    """

    def obs_space(self):
        return ObsSpace(entities={"Card": Entity(["number"])})

    def action_space(self):
        return {"Go": CategoricalActionSpace(["zero", "one"])}

    def seats(self):
        return ["a", "b", "c"]

    def teams(self):
        return {"red": ["a", "b"], "blue": ["c"]}

    def reset(self):
        self.time, self.card = 0, int(self.rng.integers(5))
        return {"a": asked(self.card)}

    def turn(self):
        return "abcaba"[self.time]

    def act(self, actions):
        called = self.called(actions)
        self.time += 1
        if self.time == 6:
            return {"a": told(float(called), True), "b": told(float(self.card), True)}
        shown = {self.turn(): asked(self.card + self.time)}
        if self.time == 1:
            shown["b"].reward = float(called)
        if self.time == 3:
            shown["c"] = told(1.0, True)
        return shown

    def called(self, actions):
        return int(actions[self.turn()]["Go"].indices[0])

    def get_state(self):
        return {"time": self.time, "card": self.card}

    def set_state(self, state):
        self.time, self.card = state["time"], state["card"]
        return {self.turn(): asked(self.card + self.time)}


def test_sound_games_pass(monkeypatch):
    checked = check_env(Sound)
    assert checked.notes == ()
    assert checked.steps >= 200
    assert checked.episodes >= 60  # three seats end in each game of six steps
    monkeypatch.setattr("entity_env.check._LEAST_STEPS", 40)  # most of its time
    assert check_env(Sound(), episodes=1).notes == ()
    assert check_env(lambda: Sound(), episodes=1).notes == ()
    assert check_env(TicTacToe).notes == ()
    assert check_env(lambda: Secrets(4)).notes == ()


def test_a_seat_that_is_never_asked_is_noted():
    class Watched(Sound):
        def seats(self):
            return ["a", "b", "c", "watcher"]

    (note,) = check_env(Watched).notes
    assert "['watcher'] never had to act" in note


class WantsOthers(Sound):
    def called(self, actions):
        return int(actions["b"]["Go"].indices[0])


class Invents(Sound):
    def act(self, actions):
        shown = super().act(actions)
        return {**shown, "d": asked()} if self.time == 2 else shown


class Vanishes(Sound):
    """b is not heard of again when the others are out."""

    def act(self, actions):
        if self.time == 6:
            return {}
        shown = super().act(actions)
        if self.time == 6:
            del shown["b"]
        return shown


class LeavesInside(Vanishes):
    def is_over(self):
        return self.time == 6


class AsksNobody(Sound):
    def act(self, actions):
        return {}


class GoesOnAlone(Sound):
    """All are out, and the game says that it goes on."""

    def is_over(self):
        return False

    def act(self, actions):
        return super().act(actions) if self.time < 6 else {}


class NotFinite(Sound):
    def act(self, actions):
        shown = super().act(actions)
        next(iter(shown.values())).reward = float("nan") if self.time == 4 else 0.0
        return shown


class SharesObservation(Sound):
    def act(self, actions):
        shown = super().act(actions)
        if self.time == 6:
            shown["b"] = shown["a"]
        return shown


class Forgets(Sound):
    """The card is not in the state."""

    def get_state(self):
        return {"time": self.time}

    def set_state(self, state):
        self.time, self.card = state["time"], 7
        return {self.turn(): asked(self.card + self.time)}


class AsksAnother(Sound):
    """A restored game asks somebody else."""

    def set_state(self, state):
        shown = super().set_state(state)
        if self.time < 2:
            return shown
        (own,) = shown.values()
        return {"b" if self.turn() == "a" else "a": own}


class RestoresNothing(Sound):
    def set_state(self, state):
        super().set_state(state)


class UnknownMember(Sound):
    def teams(self):
        return {"red": ["a", "x"]}


class TwoTeams(Sound):
    def teams(self):
        return {"red": ["a", "b"], "blue": ["b", "c"]}


class EmptyTeam(Sound):
    def teams(self):
        return {"red": ["a", "b", "c"], "blue": []}


class TeamsThatChange(Sound):
    time = 0

    def teams(self):
        return {"red": ["a", "b"]} if self.time < 3 else {"red": ["a"]}


class TeamsAsList(Sound):
    def teams(self):
        return ["a", "b"]


class OneName(Sound):
    def teams(self):
        return {"red": "ab"}


class Unseeded(Sound):
    def reset(self):
        self.time, self.card = 0, int(np.random.default_rng().integers(10**6))
        return {"a": asked(self.card)}


class ResetsToList(Sound):
    def reset(self):
        super().reset()
        return [asked()]


class ResetsToNobody(Sound):
    def reset(self):
        super().reset()
        return {}


class EndsAtOnce(Sound):
    def reset(self):
        return {**super().reset(), "b": told(0.0, True)}


class EndsTwice(Sound):
    """c is out, and at the end once more."""

    def act(self, actions):
        shown = super().act(actions)
        return {**shown, "c": told(0.0, True)} if self.time == 5 else shown


class SeatsThatChange(Sound):
    time = 0

    def seats(self):
        return ["a", "b", "c"] if self.time < 2 else ["a", "b", "c", "d"]


class Rewrites(Sound):
    """Changes what it has returned."""

    def act(self, actions):
        if self.time:
            self.shown.features["Card"][0][0] = 99.0
        shown = super().act(actions)
        self.shown = next(iter(shown.values()))
        return shown


class GoesOnWithIt(Sound):
    """Its own numbers lie in what it has returned."""

    def reset(self):
        shown = super().reset()
        self.own = shown["a"].features["Card"]
        return shown

    def act(self, actions):
        if self.time == 3:
            self.card = self.own[0][0]
        return super().act(actions)


BROKEN = {
    WantsOthers: (errors.SeatError, "reads the actions of seat 'b', which did not have to act"),
    Invents: (errors.SeatError, "observation of seat 'd', which does not exist"),
    Vanishes: (errors.SeatError, r"seats \['b'\] are still in the game"),
    LeavesInside: (errors.SeatError, "the game is over, but seats are still in it"),
    AsksNobody: (errors.SeatError, "no seat had to act in 50 steps"),
    GoesOnAlone: (errors.SeatError, "all seats are out, the game is not over"),
    NotFinite: (errors.ObservationError, "finite"),
    SharesObservation: (errors.SeatError, "'a' and 'b' are given the same Observation object"),
    Forgets: (errors.StateError, "set_state returns another observation: features.Card differs"),
    AsksAnother: (errors.StateError, "set_state returns another observation: rows differs"),
    RestoresNothing: (errors.SeatError, "set_state did not return a dict"),
    UnknownMember: (errors.SeatError, "team 'red' has a seat that does not exist"),
    TwoTeams: (errors.SeatError, "seat 'b' is in two teams"),
    EmptyTeam: (errors.SeatError, "team 'blue' has no seats"),
    TeamsThatChange: (errors.SeatError, r"teams\(\) is not the same at every call"),
    TeamsAsList: (errors.SeatError, r"teams\(\) is not a dict"),
    OneName: (errors.SeatError, "the seats of team 'red' are not a list"),
    Unseeded: (errors.ObservationError, "reset with the same seed plays another game"),
    ResetsToList: (errors.SeatError, "reset did not return a dict"),
    ResetsToNobody: (errors.SeatError, "reset returned no observation"),
    EndsAtOnce: (errors.SeatError, "reset returned an observation of seat 'b' that is done"),
    EndsTwice: (errors.SeatError, "seat 'c' is done, and was done already"),
    SeatsThatChange: (errors.SeatError, r"seats\(\) is not the same at every call"),
    Rewrites: (errors.ObservationError, "changes features.Card of an observation"),
    GoesOnWithIt: (errors.ObservationError, "uses memory that it has returned"),
}


@pytest.mark.parametrize("game", BROKEN, ids=lambda game: game.__name__)
def test_broken_games_are_told_apart(game, monkeypatch):
    monkeypatch.setattr(seat_rows, "MOST_IDLE_STEPS", 50)
    error, words = BROKEN[game]
    with pytest.raises(error, match=words) as caught:
        check_env(game)
    assert type(caught.value) is error


def test_the_command_checks_all_seats(capsys):
    assert main(["tic_tac_toe"]) == 0
    # Two seats end in each game: of one seat alone it would be 3 episodes at the least.
    assert "no mistakes found in games of" in capsys.readouterr().out
    assert main(["ragged_envs.tic_tac_toe.TicTacToe", "size=4"]) == 1
    assert "no setting 'size'" in capsys.readouterr().err
