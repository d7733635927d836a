"""Parts of ``entity_env.runner``: the choices of a step, and players that are asked."""

__all__: list[str] = []
