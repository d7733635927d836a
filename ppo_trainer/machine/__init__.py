"""The machine: devices, memory, signals, random numbers, compiled code."""

__all__: list[str] = []
