"""Safe writing of files, and safe reading of files from other people."""

__all__: list[str] = []
