"""Many processes on many machines: who holds weights, who steps worlds, who runs networks."""

__all__: list[str] = []
