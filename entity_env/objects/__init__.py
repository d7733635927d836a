"""Spaces and features from the objects of a game."""

__all__: list[str] = []
