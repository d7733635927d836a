"""Functions that play whole episodes, with policies for rows or for single observations."""

from __future__ import annotations

from entity_env.player.episodes import (
    Policy,
    VecPolicy,
    play_episodes,
    play_rows,
    play_scripted,
    random_policy,
)

__all__ = ["Policy", "VecPolicy", "play_episodes", "play_rows", "play_scripted", "random_policy"]
