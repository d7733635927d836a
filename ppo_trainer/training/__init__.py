"""A training in progress: its session, callbacks, and report."""

__all__: list[str] = []
