"""Runs at play: evaluated, watched, recorded, or as an agent elsewhere."""

__all__: list[str] = []
