"""What is learned from experience: advantages, losses, and the update of the network."""

__all__: list[str] = []
