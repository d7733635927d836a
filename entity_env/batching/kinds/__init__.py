"""Kinds of actions, each of which is defined in one file."""

__all__: list[str] = []
