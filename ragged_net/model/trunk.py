"""A trunk of your own: any module on rows and offsets in the place of the transformer."""

from __future__ import annotations

from torch import Tensor, nn

from ragged_net.errors import NetConfigError, ShapeError, VisibilityError, check_kind, check_rows
from ragged_net.model.encoder import Encoder
from ragged_net.model.frames import Frames
from ragged_net.model.layout import Layout

__all__ = ["OwnTrunk"]


class OwnTrunk(nn.Module):
    """Calls ``module(rows, offsets)`` where the encoder calls its transformer.

    Args:
        module: Rows (N, D) and offsets (B + 1,) int64 -> rows (N, D).
        encoder: Whose transformer it replaces.

    Raises:
        NetConfigError: The encoder has relative positions, which only its own blocks can see.
    """

    def __init__(self, module: nn.Module, encoder: Encoder) -> None:
        super().__init__()
        check_kind("the trunk of a network", module, nn.Module)
        if encoder.waves is not None or encoder.read_places is not None:
            raise NetConfigError(
                "a trunk of your own sees no relative positions and no relations",
                expected="relative_position=RelativePosition(kind='none') and no relations, or no "
                "trunk",
                received=type(module).__name__,
            )
        self.module = module

    def forward(self, x: Tensor, frames: Frames | Layout) -> Tensor:
        """Return rows (N, D) from rows (N, D).

        Raises:
            VisibilityError: Hidden entities, of which the module cannot know.
            ShapeError, DtypeError: It returns something else than rows of that shape.
        """
        frames = Frames.of(frames)
        if frames.hidden is not None:
            raise VisibilityError(
                "a trunk of your own does not know which entities are hidden from the policy",
                expected="a batch without hidden entities",
            )
        rows: Tensor = self.module(x, frames.offsets)
        check_rows("the rows that the trunk returns", rows, x.shape[1])
        if len(rows) != len(x):
            raise ShapeError(
                "the trunk returns another number of rows than it was given",
                expected=len(x),
                received=len(rows),
            )
        return rows
