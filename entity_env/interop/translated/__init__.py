"""The common parts of environments of other packages that are played here."""

__all__: list[str] = []
