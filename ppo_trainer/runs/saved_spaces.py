"""Environments that show more than a network was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from entity_env import ActionSpace, ObsSpace
from entity_env.errors import CheckpointError, SpaceError
from entity_env.wrappers.selection import Selection, check_same_actions
from ppo_trainer.environments import Game
from ppo_trainer.machine.screen import say
from ppo_trainer.runs.folder import RunFolder

__all__ = ["FittedGame", "fit_game"]


@dataclass(frozen=True)
class FittedGame:
    """A game with the observations that the network of a run was trained on.

    Args:
        game: Game that shows what the network was trained on.
        obs_space: Observation space of the network, in its order.
        action_space: Action space of the network, in its order.
        whole: Observation space of the game itself.
    """

    game: Game
    obs_space: ObsSpace
    action_space: Mapping[str, ActionSpace]
    whole: ObsSpace


def fit_game(run: RunFolder, game: Game) -> FittedGame:
    """Reduce a game to the spaces of the network of ``run``, and print what is left out.

    A run without saved spaces takes those of the game.

    Raises:
        CheckpointError: The game lacks a part of the network's spaces, has it with another type, or
            has an action that the network lacks.
    """
    saved = run.read_spaces()
    with game.rows(game.whole(1), seed=0) as example:
        own_obs_space, own_action_space = example.obs_space(), example.action_space()
    if saved is None:
        return FittedGame(game, own_obs_space, own_action_space, own_obs_space)
    obs_space, action_space = saved
    try:
        check_same_actions(action_space, own_action_space)
        selection = Selection.of(own_obs_space, obs_space)
    except SpaceError as error:
        what = f"the network of run {str(run.path)!r} does not fit the environment: {error.what}"
        raise CheckpointError.from_fields({**error.fields(), "what": what}) from error
    if selection.is_whole:
        return FittedGame(game, obs_space, action_space, own_obs_space)
    if left_out := selection.left_out():
        say(f"not seen, as the network does not know it: {', '.join(left_out)}")
    return FittedGame(replace(game, shown=obs_space), obs_space, action_space, own_obs_space)
