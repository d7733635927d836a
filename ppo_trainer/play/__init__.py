"""Games of trained networks: evaluations, agents, videos, ratings."""

__all__: list[str] = []
