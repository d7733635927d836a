"""A search for settings: its trials, their trainings, and their comparison."""

__all__: list[str] = []
