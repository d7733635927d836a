"""Common parts of the adapters of other packages' environments."""

__all__: list[str] = []
