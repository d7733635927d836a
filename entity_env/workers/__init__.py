"""Rows that are played by other processes, and the messages between them."""

__all__: list[str] = []
