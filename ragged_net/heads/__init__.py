"""The heads: from vectors to distributions over actions, and to values."""

__all__: list[str] = []
