"""What is written to files, and read from files that strangers may have made."""

__all__: list[str] = []
