"""Built-in players that play by sight: what they order, and that they can sit in any seat."""

import numpy as np
import pytest

from entity_env import GlobalCategoricalAction, GlobalCategoricalActionMask, Observation
from envs.rts.capture_the_flag import CaptureTheFlag, CaptureTheFlagDuel
from envs.rts.minirts import ACTIONS
from envs.rts.minirts_rows import MiniRts
from envs.rts.scripts import bring_the_flag_home, hit_n_run, simple
from envs.rts.tower_defence import TowerDefence

RESOURCE, WORKER, MELEE, RANGE, BARRACKS, BASE = range(6)


def seen(own, enemies=(), forbidden=()):
    """Return the observation of a Mini-RTS player with units of these kinds."""
    return Observation(
        features={
            "Own": [[kind, 3, 3, 1, 0] for kind in own],
            "Enemy": [[kind, 9, 9, 1] for kind in enemies],
        },
        actions={
            "Order": GlobalCategoricalActionMask([[name not in forbidden for name in ACTIONS]])
        },
    )


QUIET = ("Defend", "AttackInRange")
"""Orders that are impossible while no enemy is visible."""


@pytest.mark.parametrize(
    ("script", "own", "enemies", "forbidden", "order"),
    [
        (simple, [BASE, WORKER, WORKER], [], QUIET, "BuildWorker"),
        (simple, [BASE, *[WORKER] * 3], [], QUIET, "BuildBarracks"),
        (simple, [BASE, *[WORKER] * 3, BARRACKS], [], QUIET, "BuildMelee"),
        (simple, [BASE, *[WORKER] * 3, BARRACKS], [], (*QUIET, "BuildMelee"), "Idle"),
        (simple, [BASE, *[WORKER] * 3, BARRACKS, *[MELEE] * 5], [], QUIET, "Attack"),
        (simple, [BASE, *[MELEE] * 5], [WORKER], (), "Defend"),
        (hit_n_run, [BASE, *[WORKER] * 3, BARRACKS], [], QUIET, "BuildRange"),
        (hit_n_run, [BASE, RANGE, RANGE], [WORKER], QUIET, "HitAndRun"),
        (hit_n_run, [BASE, RANGE, RANGE], [], QUIET, "Attack"),
    ],
)
def test_the_first_thing_that_matters_and_can_be_done(script, own, enemies, forbidden, order):
    chosen = script(seen(own, enemies, forbidden))["Order"]
    assert (chosen.label, ACTIONS[chosen.index]) == (order, order)


def test_the_flag_comes_home_from_either_seat():
    """The script brings it home while the other seat does nothing."""
    for seat in (0, 1):
        env = CaptureTheFlagDuel(max_tick=2000)
        env.seed(seat)
        told = env.reset()
        while not told[0].done and told[seat].global_features[0] == 0:
            nothing = {"Order": GlobalCategoricalAction(0, "Nothing")}
            actions = {0: nothing, 1: nothing}
            actions[seat] = bring_the_flag_home(told[seat])
            told = env.act(actions)
        assert told[seat].global_features[0] == 1
        assert told[1 - seat].global_features[0] == 0


@pytest.mark.parametrize("kind", [CaptureTheFlag, TowerDefence, MiniRts])
def test_pictures_show_the_map(kind):
    env = kind()
    env.seed(1)
    env.reset()
    picture = env.render(cell=8)
    assert (picture.ndim, picture.dtype) == (3, np.uint8)
    assert picture.shape[0] > 20 * 8 + 16, "a legend stands below"
    # Walls are dark only where there are some: in the maze.
    walls = (picture == (90, 86, 80)).all(2).any()
    assert walls == (kind is TowerDefence)
