"""Many environments as the rows of one ``VecEnv``, in this process."""

__all__: list[str] = []
