"""Environments as users write them, with a script each, for ``python -m benchmarks.defaults``."""
