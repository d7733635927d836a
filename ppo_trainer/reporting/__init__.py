"""Reports of a run: on the screen, in files, as curves, and in words at its end."""

__all__: list[str] = []
