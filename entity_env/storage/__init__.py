"""Files: written safely, and read although strangers may have made them."""

__all__: list[str] = []
