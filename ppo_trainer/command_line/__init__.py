"""Hydra's command line, and sweeps of runs."""

__all__: list[str] = []
