"""Spaces and features from the objects that a game has anyway."""

__all__: list[str] = []
