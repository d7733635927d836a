"""Parts of ``entity_env.runner``: a game in the terminal as text, questions, and answers."""

__all__: list[str] = []
