"""Rows in worker processes, and the messages between processes."""

__all__: list[str] = []
