"""What ``entity_env.runner`` plays with: the choices of a step, and who is asked for them."""

__all__: list[str] = []
