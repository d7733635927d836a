"""Work as it is done in factories and on roads: scheduling, routing, warehouses."""

__all__: list[str] = []
