"""A run: its folder, its checkpoints, how it goes on, and what it may import."""

__all__: list[str] = []
