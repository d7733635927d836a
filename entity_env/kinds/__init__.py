"""Kinds of actions: what tells one from the others, a file for each that has been gathered."""

__all__: list[str] = []
