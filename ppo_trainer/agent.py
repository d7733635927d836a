"""A trained network as an agent that answers single observations."""

from __future__ import annotations

from ppo_trainer.play.agent import RunAgent, load, load_agent
from ppo_trainer.players.network_agent import NetworkAgent

__all__ = ["NetworkAgent", "RunAgent", "load", "load_agent"]
