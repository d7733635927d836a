"""The conformance test for anybody's environment, ``check_env``."""

__all__: list[str] = []
