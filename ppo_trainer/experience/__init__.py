"""Experience: observations, decisions and outcomes of rows, collected for an update."""

__all__: list[str] = []
