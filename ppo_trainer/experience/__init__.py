"""Experience: observations, decisions and outcomes of rows until they suffice for an update."""

__all__: list[str] = []
