"""From the command line, YAML and Python to ``TrainConfig``."""

__all__: list[str] = []
