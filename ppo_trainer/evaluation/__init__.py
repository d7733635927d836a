"""Games of trained networks: comparisons of players, matches, ratings, films."""

__all__: list[str] = []
