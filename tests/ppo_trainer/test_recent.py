"""Means over the last episodes: 100 of them, or two for each row."""

import pytest

from ppo_trainer.reporting.recent_episodes import RecentEpisodes


def fed(rows, updates, each=10):
    """The mean win rate after ``updates``, each with so many episodes that all end alike."""
    recent, means = RecentEpisodes(rows), {}
    for win in updates:
        means = recent.add({"episodes": float(each), "win": float(win)})
    return means["win"], recent


@pytest.mark.parametrize(
    ("rows", "window"),
    [(1, 100), (50, 100), (51, 110), (100, 200)],  # updates of 10 episodes fill it to the next ten
)
def test_a_mean_is_over_the_last_hundred_episodes_or_two_for_each_row(rows, window):
    updates = window // 10
    # One update that was won is in the window until as many others as fill it have come.
    assert fed(rows, [1, *[0] * (updates - 1)])[0] == pytest.approx(10 / window)
    assert fed(rows, [1, *[0] * updates])[0] == 0
    # Of half as many it is twice the share: nothing is dropped before the window is full.
    assert fed(rows, [1, *[0] * (updates // 2 - 1)])[0] == pytest.approx(1 / (updates // 2))


def test_it_is_full_after_as_many_episodes_as_it_wants():
    assert not fed(4, [1] * 9)[1].is_full
    assert fed(4, [1] * 10)[1].is_full
    assert not fed(100, [1] * 19)[1].is_full
    assert fed(100, [1] * 20)[1].is_full


def test_an_update_counts_as_often_as_it_has_episodes():
    recent = RecentEpisodes(4)
    recent.add({"episodes": 30.0, "win": 1.0})
    assert recent.add({"episodes": 10.0, "win": 0.0})["win"] == pytest.approx(0.75)
    assert recent.add({"episodes": 0.0})["win"] == pytest.approx(0.75)
