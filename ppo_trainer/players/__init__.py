"""Who plays which row: agents, opponents, self-play."""

__all__: list[str] = []
