"""The body of the network: embedding of entities, and attention within each frame."""

__all__: list[str] = []
