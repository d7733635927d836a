"""What rows observe, decide and get, until it is enough for an update."""

__all__: list[str] = []
