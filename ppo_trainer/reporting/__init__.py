"""Reports of a run: on the screen, in files, as curves, and as text at its end."""

__all__: list[str] = []
