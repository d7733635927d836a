"""Games of several players in the terminal: who is asked, what is shown, how a game ends."""

from __future__ import annotations

import pytest
from ragged_envs.tic_tac_toe import TicTacToe
from support.seat_games import Secrets
from support.tricky_games import SCRIPTS, Tricky

from entity_env import MaskedEnvironment, ObsSpace, SelectEntityAction, errors
from entity_env.agent import SpacedAgent
from entity_env.runner import main, play_in_terminal


@pytest.fixture
def typed(monkeypatch):
    def use(*lines):
        answers = iter(lines)

        def answer(prompt):
            print(prompt, end="")
            try:
                return next(answers)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr("builtins.input", answer)

    return use


def test_two_people_play_at_one_table(typed, capsys):
    typed("Cell 0", "Cell 3", "Cell 1", "Cell 4", "Cell 2")
    play_in_terminal(TicTacToe, seats="all", seed=0, episodes=1)
    out = capsys.readouterr().out
    assert "TicTacToe, seed 0\n  X: you, O: you\n  Mark: select an entity\n" in out
    assert "--- game 1, step 5\nX X X\nO O .\n. . .\n  X: reward 1, out, win 1\n" in out
    assert out.endswith("game 1 is over\n  X  return 1\n  O  return -1\n")
    # Each sees the marks as its own and the other's.
    first, second = out.split("seat O sees")[:2]
    assert "seat X sees" in first
    assert "1  Cell 0  0  0  other" in second


def test_one_person_plays_against_agents_and_does_not_see_what_they_see(typed, capsys):
    typed("one")
    play_in_terminal(lambda: Secrets(3), seats="1", seed=4, episodes=1)
    out = capsys.readouterr().out
    assert "0: random, 1: you, 2: random" in out
    assert out.count("sees") == 1
    assert "seat 1 sees" in out
    assert out.count("  return ") == 3


@pytest.mark.parametrize("name", SCRIPTS)
def test_agents_play_all_tricky_games_to_their_end(name, capsys):
    play_in_terminal(lambda: Tricky(name), seats="", auto=True, seed=1, episodes=2)
    out = capsys.readouterr().out
    assert "game 2 is over" in out
    totals = dict.fromkeys("abc", 0.0)
    for told in SCRIPTS[name]:
        for seat, observation in told.items():
            totals[seat] += observation.reward
    for seat, total in totals.items():
        assert out.count(f"  {seat}  return {total:g}\n") == 2


def test_the_command_names_seats(capsys, typed):
    assert main(["tic_tac_toe", "--seats", "all", "--auto", "--seed", "1"]) == 0
    assert "game 1 is over" in capsys.readouterr().out
    assert main(["tic_tac_toe", "--seats", "Y", "--auto"]) == 1
    assert "there is no seat 'Y'" in capsys.readouterr().err
    assert main(["xor", "--seats", "all", "--auto"]) == 1
    assert "not return a game of several players" in capsys.readouterr().err
    typed("q")
    assert main(["tic_tac_toe", "--seats", "X", "--seed", "1"]) == 0
    assert "Thank you for playing" in capsys.readouterr().out


def test_a_masked_game_says_who_is_who(capsys):
    play_in_terminal(
        lambda: MaskedEnvironment(TicTacToe, shuffle_seats=False, seat="O"), seed=0, auto=True
    )
    assert "X: random, O: the learner" in capsys.readouterr().out


def test_a_game_with_a_mistake_names_the_seat(typed):
    broken = Tricky("teams")
    broken.script = [{"a": SCRIPTS["teams"][0]["a"], "d": SCRIPTS["teams"][0]["b"]}]
    with pytest.raises(errors.SeatError, match="seat 'd', which does not exist"):
        play_in_terminal(lambda: broken, seats="", auto=True)


def test_compiled_games_are_played_by_their_readable_form(typed, capsys):
    pytest.importorskip("numba")
    typed("q")
    assert main(["connect_four", "--seats", "first", "--seed", "1"]) == 0
    assert "ConnectFour, seed 1\n  first: you, second: random\n" in capsys.readouterr().out


class Counting:
    """A script that remembers how often it has been called, and marks the first empty cell."""

    def __init__(self, calls=None):
        self.calls, self.count = [] if calls is None else calls, 0

    def __deepcopy__(self, memo):
        return Counting(self.calls)  # what the test reads is shared, what it remembers is not

    def __call__(self, observation):
        self.count += 1
        self.calls.append(self.count)
        ids = observation.ids
        empty = [
            cell
            for cell, (*_, mark) in zip(ids["Cell"], observation.features["Cell"], strict=False)
            if not mark
        ]
        return {"Mark": SelectEntityAction(ids["Player"], empty[:1])}

    def reset(self):
        self.count = 0


counting = Counting()


def test_what_an_agent_remembers_belongs_to_a_game_and_a_seat(capsys):
    script = Counting()
    play_in_terminal(TicTacToe, script, seats="", auto=True, seed=1, episodes=2)
    assert "X: Counting, O: Counting" in capsys.readouterr().out
    # X marks cells 0, 2, 4, 6 and wins; O three cells in between.
    assert script.calls == [1, 1, 2, 2, 3, 3, 4] * 2


def test_scripts_are_agents_by_their_dotted_paths(capsys):
    path = f"{__name__}.counting"
    for more in (["--seats", ""], []):
        assert main(["tic_tac_toe", "--agent", path, "--auto", "--seed", "1", *more]) == 0
    assert counting.calls
    assert f"X: {path}, O: {path}" in capsys.readouterr().out


@pytest.mark.parametrize("more", [["--seats", "X"], []])
@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (f"{__name__}.Counting", "is not a scripted player"),
        (f"{__name__}.countin", "did you mean 'counting'?"),
        (f"{__name__}.fails", "the script fails failed: KeyError: 'Robot'"),
        ("no_such_module.player", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_scripts_that_cannot_play_are_refused(agent, words, more, capsys):
    assert main(["tic_tac_toe", "--agent", agent, "--auto", "--seed", "1", *more]) == 1
    assert words in capsys.readouterr().err


def fails(observation):
    """Play another game."""
    return observation.features["Robot"]


class Elsewhere:
    """An agent of another game."""

    obs_space, action_space = Secrets(2).obs_space(), Secrets(2).action_space()

    def decide(self, obs):
        raise AssertionError


@pytest.mark.parametrize("game", [TicTacToe, lambda: MaskedEnvironment(TicTacToe)])
def test_an_agent_of_another_game_is_refused(game):
    with pytest.raises(errors.SpaceError, match=r"(?s)trained on another environment: .*valid:"):
        play_in_terminal(game, Elsewhere(), seed=0, auto=True)
    known = SpacedAgent(ObsSpace(), TicTacToe().action_space())
    if game is TicTacToe:
        with pytest.raises(errors.SpaceError, match="does not know all entities and features"):
            play_in_terminal(game, known, seed=0, auto=True)
