"""The body of the network: entities to vectors, and attention among those of a frame."""

__all__: list[str] = []
