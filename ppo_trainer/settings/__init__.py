"""The building of ``TrainConfig`` from the command line, YAML and Python."""

__all__: list[str] = []
