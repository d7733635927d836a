"""Players of rows: agents, opponents, self-play."""

__all__: list[str] = []
