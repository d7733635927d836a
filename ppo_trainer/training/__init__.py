"""A training in progress: its session, the callbacks, the report at its end."""

__all__: list[str] = []
