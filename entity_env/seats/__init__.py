"""Games of several players: seats, rows of seats, and one seat alone among opponents."""

__all__: list[str] = []
