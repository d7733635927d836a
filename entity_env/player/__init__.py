"""Parts of ``entity_env.runner``: the choices of a step, and players."""

__all__: list[str] = []
