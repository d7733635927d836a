"""Photosynthesis: each rule by hand, whole games by their invariants, and the greedy player."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from ragged_envs import photosynthesis
from ragged_envs.photosynthesis import Photosynthesis, PhotosynthesisRows
from ragged_envs.photosynthesis_board import (
    DIRECTIONS,
    KINDS,
    PRICES,
    SOIL,
    SPACES,
    TOKENS,
    distance,
    space_at,
)
from ragged_envs.photosynthesis_script import grow_greedily

from entity_env import MaskedEnvironment, errors
from entity_env.batching.unbatch import observations_of
from entity_env.play import play_scripted
from entity_env.rows.jit import interpreted
from entity_env.scripted_agent import ScriptedAgent

CENTRE = space_at(0, 0)


class Forest:
    """A game, run by Python, whose fields are read and set as lists and numbers."""

    def __init__(self, players, **settings):
        rows = PhotosynthesisRows(players, players=players, **settings)
        rows.interpret()
        rows.reset()
        vars(self).update(g=SimpleNamespace(**rows._fields, **rows._game.settings), players=players)

    def __getattr__(self, name):
        return getattr(self.g, name)[0].tolist()

    def __setattr__(self, name, value):
        getattr(self.g, name)[0] = value

    def call(self, name, *arguments):
        return interpreted(getattr(photosynthesis, name))(self.g, 0, *arguments)

    @property
    def player(self):
        return self.call("_mover")

    def choices(self):
        """Return all choices in the order of the entities that stand for them."""
        stage = "start" if self.round < 0 else "plant"
        spaces = range(len(SPACES))
        pieces = [space for space in spaces if self.size[space] >= 0]
        used = {3: "collect"}
        return [
            *(("buy", kind) for kind in range(len(KINDS))),
            ("pass", 0),
            *(
                ("from" if self.target >= 0 else used.get(self.size[space], "grow"), space)
                for space in pieces
            ),
            *((stage, space) for space in spaces if space not in pieces),
        ]

    def legal(self):
        self.call("_list_board")
        choices = self.choices()
        mask = np.ones(len(choices), bool)
        self.call("_may_choose", self.player, 0, mask)
        return [choice for choice, allowed in zip(choices, mask, strict=True) if allowed]

    def play(self, choice):
        """Play a choice, and return the rewards if that ends the game."""
        self.call("_list_board")
        reward = np.zeros(self.players)
        self.chosen = self.players + self.choices().index(choice)
        return reward.tolist() if self.call("_resolve", reward) else None

    def put(self, q, r, size, player=0):
        space = space_at(q, r)
        self.g.size[0, space], self.g.owner[0, space] = size, player
        return space


def at_work(light=20, players=2, **settings):
    """Return a game in the first round, on player 0's turn, with an empty board."""
    game = Forest(players, **settings)
    game.round, game.light = 0, light
    return game


def put(game, q, r, size, player=0):
    return game.put(q, r, size, player)


def test_the_board():
    assert len(SPACES) == 37
    assert [SOIL.count(leaves) for leaves in (1, 2, 3, 4)] == [18, 12, 6, 1]
    assert distance(space_at(-3, 0), space_at(3, 0)) == 6
    assert distance(space_at(1, -3), space_at(0, 1)) == 4  # 4 to the top, 1 of them sideways too
    assert [len(pile) for pile in TOKENS] == [9, 7, 5, 3]
    assert [sum(a) for a in zip(*DIRECTIONS, strict=True)] == [0, 0]


def test_players_set_up_on_the_edge_in_turns():
    game = Forest(3)
    order = []
    for _ in range(6):
        order.append(game.player)
        choices = game.legal()
        assert {what for what, _ in choices} == {"start"}
        assert all(SOIL[space] == 1 for _, space in choices)
        game.play(choices[0])
    assert order == [0, 1, 2, 0, 1, 2]
    assert [own[1] for own in game.available] == [2, 2, 2]  # four small trees, two are planted
    assert game.round == 0
    # Whoever is in the light has been paid. Taken are (-3, 0) to (-3, 3), (-2, -1) and (-2, 3).
    # The light runs along (1, 0): (-3, 3) shades (-2, 3), nothing stands before the others.
    taken = [SPACES[space] for space, size in enumerate(game.size) if size == 1]
    assert taken == [(-3, 0), (-3, 1), (-3, 2), (-3, 3), (-2, -1), (-2, 3)]
    assert game.light == [2, 2, 1]


@pytest.mark.parametrize(
    ("tall", "away", "size", "shaded"),
    [
        (1, 1, 1, True),
        (1, 1, 2, False),  # lower than the tree behind it
        (1, 2, 1, False),  # too far away
        (2, 2, 1, True),
        (2, 2, 2, True),
        (2, 1, 3, False),
        (2, 3, 1, False),
        (3, 3, 3, True),
        (0, 1, 1, False),  # seeds block nothing
    ],
)
def test_a_tree_shades_what_is_no_taller_and_no_farther_than_its_size(tall, away, size, shaded):
    game = at_work()
    for angle, (dq, dr) in enumerate(DIRECTIONS):
        game.size = -1
        put(game, 0, 0, tall)
        behind = put(game, away * dq, away * dr, size, 1)
        assert game.call("_is_shaded", behind, size, angle) == shaded
        # with the sun on the other side it is in the light
        assert not game.call("_is_shaded", behind, size, (angle + 3) % 6)


def test_shaded_trees_cast_shadows_on_their_own_colour_too():
    game = at_work()
    put(game, -2, 0, 2)
    first, second = put(game, -1, 0, 1), put(game, 0, 0, 1)
    assert game.call("_is_shaded", first, 1, 0)
    assert game.call("_is_shaded", second, 1, 0)  # by both


def test_the_sun_moves_on_and_pays_at_most_20():
    game = at_work(light=0)
    put(game, -1, 0, 3)
    put(game, 1, 0, 2, 1)  # two spaces behind it in the direction of angle 0, not in that of 1
    put(game, 0, -3, 0, 1)
    game.light = [0, 19]
    game.call("_begin_round")
    assert (game.round, game.call("_sun")) == (1, 1)
    assert game.light == [3, 20]
    for _ in range(5):
        game.call("_begin_round")
    assert (game.round, game.call("_sun")) == (6, 0)
    game.light = 0
    game.round = 5
    game.call("_begin_round")  # angle 0: the tree of size 2 is in the shade
    assert game.light == [3, 0]


def test_buying_goes_from_the_cheapest_slot_up():
    for kind, prices in enumerate(PRICES):
        game, paid = at_work(), []
        while game.call("_price", 0, kind):
            before = game.light[0]
            game.play(("buy", kind))
            paid.append(before - game.light[0])
        assert tuple(paid) == prices
        assert ("buy", kind) not in game.legal()
    game = at_work(light=3)
    assert [where for what, where in game.legal() if what == "buy"] == [0, 1, 2]


def test_growing_takes_a_larger_piece_and_gives_the_smaller_one_back():
    game = at_work()
    tree = put(game, 0, 0, 1)
    game.play(("buy", 1))  # a slot becomes free
    assert game.left[0] == [4, 3, 3, 2]
    game.play(("grow", tree))
    assert game.light[0] == 20 - 2 - 2
    assert game.size[tree] == 2
    assert game.available[0] == [2, 5, 0, 0]  # 4 + 1 small ones, the medium one is planted
    assert game.left[0] == [4, 4, 3, 2]  # its slot, again
    assert ("grow", tree) not in game.legal()  # once a turn, and there is no large one
    seed = put(game, 1, 0, 0)
    game.play(("grow", seed))
    assert game.light[0] == 16 - 1
    assert game.left[0] == [4, 4, 3, 2]  # no slot is free: the seed leaves the game
    assert sum(game.available[0]) == 6


def test_planting_reaches_as_far_as_the_tree_is_tall_and_uses_both_spaces():
    game = at_work()
    tree = put(game, 0, 0, 2)
    targets = [where for what, where in game.legal() if what == "plant"]
    assert len(targets) == 18  # 6 at distance 1, 12 at distance 2
    near = space_at(1, 0)
    game.play(("plant", near))
    assert (game.size[near], game.owner[near], game.light[0]) == (0, 0, 19)
    assert game.available[0][0] == 1
    assert not [what for what, _ in game.legal() if what in ("plant", "grow")]
    game.play(("pass", 0))
    game.play(("pass", 0))
    # In the next round player 1 begins, who has nothing to do but to buy.
    assert (game.round, game.player) == (1, 1)
    assert not any(game.activated)
    assert game.size[tree] == 2


def test_where_several_trees_could_plant_one_is_chosen():
    game = at_work()
    one, other = put(game, 0, 0, 1), put(game, 2, 0, 1)
    put(game, 1, -1, 1, 1)  # another player's
    game.play(("plant", space_at(1, 0)))
    assert game.legal() == [("from", one), ("from", other)]
    game.play(("from", other))
    assert set(np.flatnonzero(game.activated)) == {other, space_at(1, 0)}
    # the first tree still can, and only its own neighbours
    targets = [where for what, where in game.legal() if what == "plant"]
    assert {distance(one, target) for target in targets} == {1}


def test_collecting_pays_the_next_token_of_the_soil_or_of_a_poorer_one():
    game = at_work(players=3)
    game.play(("buy", 3))
    for points in (22, 43, 63, 82):  # 22, 21, 20, then three leaves: 19
        game.light = [4, 0, 0]
        put(game, 0, 0, 3)
        game.activated, game.turn = 0, 0
        game.play(("collect", CENTRE))
        assert game.points[0] == points
        assert game.size[CENTRE] == -1
        game.round = 0
    assert game.taken == [0, 0, 1, 3]
    assert game.left[0][3] == 2
    two = at_work()
    put(two, 0, 0, 3)
    two.play(("collect", CENTRE))
    assert two.points[0] == 19  # two players have no tokens of four leaves
    assert two.light[0] == 16
    two.taken = [9, 7, 5, 3]
    put(two, 0, 1, 3)
    two.play(("collect", space_at(0, 1)))
    assert two.points[0] == 19  # nothing is left


def test_the_start_player_moves_on_and_the_game_ends_after_18_rounds():
    game = at_work(players=3)
    order, paid = [], None
    while paid is None:
        game.light = 5  # so that nobody is passed over
        order.append(game.player)
        paid = game.play(("pass", 0))
    assert order[:9] == [0, 1, 2, 1, 2, 0, 2, 0, 1]
    assert len(order) == 18 * 3


def last_pass(points, light, pieces=(), **settings):
    """Return the rewards, the victories and the scores of a game that ends with these."""
    game = at_work(players=len(points), **settings)
    game.round, game.turn = 17, len(points) - 1
    game.points, game.light = points, light
    for number, player in enumerate(pieces):
        put(game, number, 0, 0, player)
    return game.play(("pass", 0)), game.win, game.score


def test_the_score_counts_light_and_pieces_break_ties():
    # 10 + 5 // 3, 11 + 2 // 3, 9 + 9 // 3
    assert last_pass([10, 11, 9], [5, 2, 9])[2] == [11, 11, 12]
    assert last_pass([10, 11, 8], [5, 2, 9], pieces=[1])[1] == [0.0, 1.0, 0.0]
    assert last_pass([10, 11, 8], [5, 2, 9], pieces=[1, 0])[1] == [0.5, 0.5, 0.0]


def test_ranks_and_scores_are_paid():
    # places 0 and 1 of 0 to 2 are shared
    assert last_pass([30, 50, 30], 0)[0] == [-0.5, 1.0, -0.5]
    assert last_pass([30, 50, 30], 0, reward="first")[0] == [0.0, 0.5, 0.0]
    with pytest.raises(errors.EntityEnvError, match="rank"):
        Photosynthesis(reward="ranks")
    with pytest.raises(errors.EntityEnvError, match="players"):
        Photosynthesis(players=5)


@pytest.mark.parametrize("players", [2, 4])
def test_whole_games_keep_their_pieces(players):
    rng = np.random.default_rng(players)
    game, over = Forest(players), None
    whole = (6, 8, 4, 2)
    while over is None:
        legal = game.legal()
        over = game.play(legal[rng.integers(len(legal))])
        for player in range(players):
            for kind in range(4):
                planted = sum(
                    size == kind and owner == player
                    for size, owner in zip(game.size, game.owner, strict=True)
                )
                held = game.available[player][kind] + game.left[player][kind]
                assert planted + held <= whole[kind]  # fewer where a piece has left the game
            assert 0 <= game.light[player] <= 20
    assert sum(game.points) == sum(
        sum(pile[: taken - (3 if players == 2 and len(pile) == 3 else 0)])
        for pile, taken in zip(TOKENS, game.taken, strict=True)
    )


def test_bad_states_are_refused():
    env = Photosynthesis(players=2)
    env.reset()
    state = env.get_state()
    (saved,) = [own["env"] for own in state["rows"] if own["env"]]
    for name, value in (("size", [7] * 37), ("light", [50, 0]), ("round", 99), ("target", 40)):
        with pytest.raises(errors.StateError, match=name):
            env.set_state(
                {"rows": [{**state["rows"][0], "env": {**saved, name: value}}, *state["rows"][1:]]}
            )
    with pytest.raises(errors.StateError, match="not a state of this game"):
        env.set_state({"size": None})


def test_the_greedy_player_beats_random_ones():
    def create():
        return MaskedEnvironment(Photosynthesis, players=2, rounds=9)

    assert play_scripted(create, grow_greedily, 6, 0)["win"].mean() > 0.8


def test_a_script_sees_only_what_it_can_select():
    """Compiled rows allow some of all entities of a type by a mask of pairs."""
    rows = PhotosynthesisRows(4, seed=1, players=4)
    rows.interpret()
    with rows:
        obs = rows.reset()
        assert obs.action_masks["Choose"].mask is not None
        (options,) = obs.action_masks["Choose"].options()
        (seen,) = observations_of(obs, rows.obs_space(), rows.action_space())
        named = seen.id_to_index(rows.obs_space())
        chosen = seen.actions["Choose"]
        assert [named[actee] for actee in chosen.actee_ids] == options.tolist()
        assert np.asarray(chosen.mask).all()
        agent = ScriptedAgent(grow_greedily, rows.obs_space(), rows.action_space())
        for _ in range(40):
            obs = rows.act(agent.act_rows(obs))
