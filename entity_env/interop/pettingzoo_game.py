"""A PettingZoo environment as a game of several players.

rows = SeatRows(lambda: PettingZooGame("classic/tictactoe"), num_envs=16)

python -m ppo_trainer env._target_=entity_env.interop.PettingZooGame env.env=classic/connect_four

one = MaskedEnvironment(PettingZooGame("classic/tictactoe"))  # one agent; the others are random

"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from entity_env.arguments import named_arguments
from entity_env.errors import SettingError
from entity_env.interop.translated.pettingzoo_play import News, make_pettingzoo, play_of
from entity_env.interop.translated.roles import translations_of
from entity_env.interop.translated.rows import Entities
from entity_env.interop.translated.translated_env import TranslatedPlay
from entity_env.multi_player import MultiPlayerEnvironment, SeatActions, SeatObservations
from entity_env.spaces import ActionName, ActionSpace, ObsSpace

__all__ = ["PettingZooGame"]


@named_arguments(SettingError)
class PettingZooGame(TranslatedPlay, MultiPlayerEnvironment):
    """A game whose seats are the agents of a PettingZoo environment, parallel or turn-based.

    Entities:
        Read from the agents' observation space, as in ``GymnasiumEnv``. In observations with the
        keys ``observation`` and ``action_mask``, the second is the mask.

        If agents have different spaces, they have roles. The role of an agent is its name without
        the number at its end (``adversary`` of ``adversary_0``). Each role is an entity type with
        one entity, whose features are the observation of an agent. All other names of the role's
        spaces begin with the role, such as the action ``adversary/action``.
    Actions:
        Read from the agents' action space, as in ``GymnasiumEnv``. Each role has its own actions.
    Reward:
        The reward of each agent. Agents that take turns get the reward of ``last()`` at their
        turn.
    End:
        An agent is terminated, truncated or removed.
    Randomness:
        The environment's, seeded by the reset after ``seed``.

    Args:
        env: An id of PettingZoo's registry, such as ``classic/tictactoe``; or the path of a module
            with a function ``parallel_env`` or ``env``; or a function or class that makes an
            environment; or an environment. A parallel environment is preferred if there is one.
        ignore: Parts of the observation to leave out, as in ``GymnasiumEnv``.
        entities: Tables in the observation that become entities, as in ``GymnasiumEnv``.
        **kwargs: Arguments of the environment. With ``render_mode="rgb_array"`` the environment
            draws pictures.

    Raises:
        UnknownEnvironmentError: The id or the path does not exist.
        SettingError: There are no agents, or ``ignore`` or ``entities`` name a part that does not
            exist.
        SpaceError: A space cannot be translated.
    """

    def __init__(
        self,
        env: Any,
        *,
        ignore: str | Iterable[str] = (),
        entities: Entities | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(make_pettingzoo(env, kwargs))
        self._agents = list(self.env.possible_agents)
        if not self._agents:
            raise SettingError("the environment has no agents")
        spaces = {
            agent: (self.env.observation_space(agent), self.env.action_space(agent))
            for agent in self._agents
        }
        self._translations = translations_of(spaces, ignore, entities)
        self._play = play_of(self.env)

    def obs_space(self) -> ObsSpace:
        """Return the observation space."""
        each = [own.obs_space for own in self._translations.values()]
        types = {name: entity for own in each for name, entity in own.entities.items()}
        return ObsSpace(each[0].global_features, types)

    def action_space(self) -> Mapping[ActionName, ActionSpace]:
        """Return the action space."""
        each = [own.action_space for own in self._translations.values()]
        return {name: space for own in each for name, space in own.items()}

    def seats(self) -> Sequence[Any]:
        """Return all possible agents."""
        return list(self._agents)

    def _begin(self, seed: int | None) -> SeatObservations:
        return self._observations(self._play.reset(seed))

    def _step(self, actions: SeatActions) -> SeatObservations:
        taken = {agent: self._translations[agent].act(own) for agent, own in actions.items()}
        return self._observations(self._play.step(taken))

    def _is_over(self, seen: SeatObservations) -> bool:
        return not self._play.inside

    def _observations(self, news: Mapping[Any, News]) -> SeatObservations:
        return {agent: self._translations[agent].observe(*own) for agent, own in news.items()}
