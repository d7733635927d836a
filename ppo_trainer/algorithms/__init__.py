"""Algorithms: advantages, losses, and the update of the network."""

__all__: list[str] = []
