"""Play of episodes, with scripts and agents by their names."""

__all__: list[str] = []
