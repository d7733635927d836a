"""Rows of text in aligned columns."""

from __future__ import annotations

from collections.abc import Container, Sequence

__all__ = ["aligned"]


def aligned(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> str:
    """Return a line for each row, with columns of equal width.

    Args:
        rows: Cells of each row.
        right: Numbers of the columns whose cells are on the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(map(str.rstrip, lines))
