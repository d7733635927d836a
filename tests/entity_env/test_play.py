"""Random play is even over what is allowed; playing counts whole episodes fairly."""

from __future__ import annotations

import numpy as np
import pytest
from support.tiny_envs import Chain, Farm, chain_metrics

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    ListEnv,
    Observation,
    ObsSpace,
    SelectEntityActionMask,
    SelectEntityActionSpace,
    batch_obs,
    errors,
)
from entity_env.play import play_episodes, play_rows, play_scripted, random_policy

OBS_SPACE = ObsSpace(entities={"A": Entity(["x"])})
ACTION_SPACE = {
    "Move": CategoricalActionSpace(["a", "b", "c", "d"]),
    "Grab": SelectEntityActionSpace(),
    "Mode": GlobalCategoricalActionSpace(["calm", "bold"]),
}
ROWS = 6000


def many(actions, entities=3):
    """A batch of ``ROWS`` equal frames."""
    observation = Observation(features={"A": [[i] for i in range(entities)]}, actions=actions)
    return batch_obs([observation] * ROWS, OBS_SPACE, ACTION_SPACE)


def assert_even(counts, options):
    """Each option within 5 standard deviations of its share, all else never."""
    n, p = sum(counts.values()), 1 / len(options)
    assert set(counts) == set(options)
    for option in options:
        assert abs(counts[option] - n * p) < 5 * np.sqrt(n * p * (1 - p)) + 1e-9


def counted(values):
    names, counts = np.unique(np.array(values), return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def test_random_choices_are_even_over_what_each_mask_row_allows():
    mask = [[True, True, True, True], [False, True, False, True], [False, False, True, False]]
    obs = many({"Move": CategoricalActionMask(actor_types=["A"], mask=mask)})
    chosen = random_policy(0)(obs)["Move"]
    assert chosen.size1().tolist() == [3] * ROWS
    flat = chosen.as_array().reshape(ROWS, 3)
    assert_even(counted(flat[:, 0]), [0, 1, 2, 3])
    assert_even(counted(flat[:, 1]), [1, 3])
    assert_even(counted(flat[:, 2]), [2])
    # Actors choose independently: all four pairs of halves occur evenly.
    assert_even(counted((flat[:, 0] >= 2) * 2 + (flat[:, 1] >= 2)), [0, 1, 2, 3])


def test_random_selections_are_even_over_the_actees_of_the_frame():
    obs = many({"Grab": SelectEntityActionMask()})
    flat = random_policy(0)(obs)["Grab"].as_array().reshape(ROWS, 3)
    for actor in range(3):
        assert_even(counted(flat[:, actor]), [0, 1, 2])


def test_random_selections_keep_to_the_pair_mask():
    mask = [[True, False, True], [False, True, False], [True, True, True]]
    obs = many({"Grab": SelectEntityActionMask(mask=mask)})
    flat = random_policy(0)(obs)["Grab"].as_array().reshape(ROWS, 3)
    assert_even(counted(flat[:, 0]), [0, 2])
    assert_even(counted(flat[:, 1]), [1])
    assert_even(counted(flat[:, 2]), [0, 1, 2])


def test_random_global_choices_are_even():
    obs = many({"Mode": GlobalCategoricalActionMask()})
    assert_even(counted(random_policy(0)(obs)["Mode"].as_array()[:, 0]), [0, 1])


def test_random_play_is_the_same_for_the_same_seed_only():
    obs = many({"Move": CategoricalActionMask()})
    first, again, other = (random_policy(seed)(obs)["Move"].as_array() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


class Coin(Environment):
    """Episodes of 1 step, or of 9, with even chance: the first observation says which."""

    def obs_space(self):
        return ObsSpace(entities={"A": Entity(["left"])})

    def action_space(self):
        return {"Go": CategoricalActionSpace(["go"])}

    def reset(self):
        self.left = 1 if self.rng.random() < 0.5 else 9
        return self.observe()

    def act(self, actions):
        self.left -= 1
        return self.observe()

    def observe(self):
        return Observation(
            features={"A": [[self.left]]},
            actions={"Go": CategoricalActionMask(actor_types=["A"])},
            reward=1.0,
            done=self.left == 0,
        )


@pytest.mark.parametrize("episodes", [1, 251])
def test_exactly_the_episodes_asked_for_are_played(episodes):
    played = play_episodes(lambda: Chain(3), random_policy(0), episodes, seed=0)
    assert {name: set(column.tolist()) for name, column in played.items()} == {
        name: {value} for name, value in chain_metrics(3).items()
    }
    assert all(column.shape == (episodes,) for column in played.values())


def test_short_episodes_are_not_favoured():
    # Half of the episodes have 1 step, half have 9. Whoever takes the first 1000 to end sees more
    # short ones. 1000 fair coins: 500 and 5 * 15.8 to either side.
    played = play_episodes(Coin, random_policy(0), 1000, seed=0)
    short = int((played["episodic_length"] == 1).sum())
    assert abs(short - 500) < 80


def test_each_row_plays_its_share_to_the_end():
    # Two rows, 3 episodes: shares 2 and 1. Row lengths 2 and 5.
    made = iter([Chain(2), Chain(5), Chain(2)])
    played = play_episodes(lambda: next(made), random_policy(0), 3, seed=0)
    assert sorted(played["episodic_length"].tolist()) == [2.0, 2.0, 5.0]


def rows_of(create_env):
    """A ``VecEnv`` that knows no limit, as a native one would be."""
    return lambda count, seed: ListEnv(create_env, count, seed)


@pytest.mark.parametrize("max_steps", [0, 6])
def test_any_rows_are_played_as_environments_are(max_steps):
    # A Farm ends after 6 steps at the latest: no limit is passed.
    played = play_rows(rows_of(Farm), random_policy(0), 30, 2, rows=4, max_steps=max_steps)
    expected = play_episodes(Farm, random_policy(0), 30, 2, rows=4)
    assert played.keys() == expected.keys()
    for name in played:
        np.testing.assert_array_equal(played[name], expected[name])


def test_rows_without_an_end_are_cut_off():
    # Two rows with shares of 3 and 2: the second and third episodes come in new rows.
    made = []

    def make(count, seed):
        made.append((count, seed))
        return ListEnv(lambda: Chain(300), count, seed)

    played = play_rows(make, random_policy(0), 5, seed=0, rows=2, max_steps=4)
    # 1 + 2 + 3 + 4 = 10; what the game itself would report is not known in mid-episode.
    assert {name: column.tolist() for name, column in played.items()} == {
        "episodic_length": [4.0] * 5,
        "episodic_reward": [10.0] * 5,
    }
    assert [count for count, _ in made] == [2, 2, 1]
    assert made[0] == (2, 0)
    assert len({seed for _, seed in made}) == 3


def test_cutting_rows_off_favours_no_episode():
    # Coins of 1 or 9 steps, cut off after 5: 600 fair coins, 300 and 5 * 12.2 to either side.
    played = play_rows(rows_of(Coin), random_policy(0), 600, 0, rows=50, max_steps=5)
    lengths = played["episodic_length"]
    assert set(lengths.tolist()) == {1.0, 5.0}
    assert lengths.shape == (600,)
    assert abs(int((lengths == 1).sum()) - 300) < 62
    np.testing.assert_array_equal(played["episodic_reward"], lengths)


def test_an_episode_that_ends_at_the_limit_is_not_cut_off():
    played = play_rows(rows_of(lambda: Chain(4)), random_policy(0), 6, 0, rows=3, max_steps=4)
    assert played["twice"].tolist() == [8.0] * 6


def test_a_metric_that_only_some_episodes_have_is_nan_in_the_others():
    class Sometimes(Chain):
        def reset(self):
            observation = super().reset()
            self.lucky = self.rng.random() < 0.5
            observation.metrics = {}
            return observation

        def act(self, actions):
            observation = super().act(actions)
            observation.metrics = {"luck": 1.0} if self.lucky else {}
            return observation

    luck = play_episodes(Sometimes, random_policy(0), 40, seed=0)["luck"]
    assert luck.shape == (40,)
    assert 0 < np.isnan(luck).sum() < 40
    assert set(luck[~np.isnan(luck)].tolist()) == {1.0}


def test_playing_is_the_same_for_the_same_seed():
    first, again, other = (
        play_episodes(Farm, random_policy(0), 20, seed)["episodic_reward"] for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_script_plays_from_observations_one_episode_after_the_other():
    seen = []

    def script(observation):
        seen.append(observation.features["Walker"][0][0])
        return {"Go": CategoricalAction(["w"], np.array([0]), ["left", "right"])}

    closed = []

    class Closing(Chain):
        def close(self):
            closed.append(self)

    played = play_scripted(lambda: Closing(2), script, 3, seed=0)
    # Never asked about a finished episode.
    assert seen == [0, 1] * 3
    assert played["episodic_reward"].tolist() == [3.0] * 3
    assert played["episodic_length"].tolist() == [2.0] * 3
    assert len(closed) == 1


def test_0_episodes_are_refused():
    for play in (play_episodes, play_scripted):
        with pytest.raises(errors.SettingError, match="number of episodes"):
            play(Chain, lambda observation: {}, 0, 0)
    with pytest.raises(errors.SettingError, match="number of episodes"):
        play_rows(rows_of(Chain), random_policy(0), 0, 0)


def test_a_bad_observation_in_a_scripted_game_is_refused():
    class Bad(Chain):
        def act(self, actions):
            return Observation(features={"Walker": [[np.inf]]})

    with pytest.raises(errors.FeatureError):
        play_scripted(Bad, lambda observation: {}, 1, 0)
