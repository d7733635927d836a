"""The simulation of ``benchmarks.scale`` where its result is known."""

import pytest

from benchmarks.scale import Costs, simulate, synchronisation

PLAY, LEARN = 1e-3, 1e-4


def costs(play, learn):
    """Nothing but playing and learning takes time."""
    return Costs(play=play, learn=learn, pack=0.0, frame=0.0, weights=0.0, message=0.0)


def test_few_workers_are_the_bottleneck_and_many_wait_for_the_learner():
    # One core does everything, one frame after the other: 1 / (1 ms + 0.1 ms).
    assert simulate(costs(PLAY, LEARN), 2, 1) == pytest.approx(909, rel=0.05)
    # Two workers on cores of their own: 2 / 1 ms, less what waits for the slower one and the
    # learner: a worker that ends while the learner learns is heard 0.1 ms for each frame later.
    assert 1500 < simulate(costs(PLAY, LEARN), 2, 3) < 2000
    # A hundred workers play 100,000 frames per second, and the learner learns 10,000.
    assert simulate(costs(PLAY, LEARN), 100, 101) == pytest.approx(10_000, rel=0.15)


def test_learners_divide_the_frames_and_wait_for_each_other():
    # Each of two learners has 50 of 100 workers, and learns 10,000 frames per second.
    assert simulate(costs(PLAY, LEARN), 100, 102, 2) == pytest.approx(20_000, rel=0.15)
    # Two learners of one core, whose worker ends when both have learned.
    assert simulate(costs(PLAY, LEARN), 2, 1, 2) == pytest.approx(909, rel=0.05)
    # With one worker each, both wait for the slower one: fewer frames than twice those of one.
    one, two = simulate(costs(PLAY, LEARN), 1, 2), simulate(costs(PLAY, LEARN), 2, 4, 2)
    assert 1.7 * one < two < 2 * one


def test_a_cluster_reads_one_gradient_after_the_other():
    cluster = Costs(play=0.0, learn=1e-6, pack=0.0, frame=0.0, weights=0.0, message=0.01)
    # 4 ms of learning, and 10 ms for each gradient and for the weights.
    assert synchronisation(cluster, 1) == pytest.approx(0.024, rel=0.05)
    assert synchronisation(cluster, 100) == pytest.approx(1.014, rel=0.05)
