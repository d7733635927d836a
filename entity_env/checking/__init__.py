"""The check of environments, ``check_env``."""

__all__: list[str] = []
