"""A trunk of the user: any module on rows and offsets that replaces the transformer."""

from __future__ import annotations

from torch import Tensor, nn

from entity_env.errors import BatchError, SettingError
from ragged_net.model.encoder import Encoder
from ragged_net.model.frames import Frames
from ragged_net.model.layout import Layout
from ragged_net.tensor_checks import check_kind, check_rows

__all__ = ["OwnTrunk"]


class OwnTrunk(nn.Module):
    """A module that calls ``module(rows, offsets)`` in place of the transformer.

    Args:
        module: Module from rows (N, D) and offsets (B + 1,) int64 to rows (N, D).
        encoder: Encoder whose transformer it replaces.

    Raises:
        SettingError: The encoder has relative positions, which a trunk does not support.
    """

    def __init__(self, module: nn.Module, encoder: Encoder) -> None:
        super().__init__()
        check_kind("the trunk of a network", module, nn.Module)
        if encoder.waves is not None or encoder.read_places is not None:
            raise SettingError(
                "a trunk of your own does not support relative positions and relations",
                expected="relative_position=RelativePosition(kind='none') and no relations, or no "
                "trunk",
                received=type(module).__name__,
            )
        self.module = module

    def forward(self, x: Tensor, frames: Frames | Layout) -> Tensor:
        """Return rows (N, D) from rows (N, D).

        Raises:
            BatchError: The batch has hidden entities, which the module does not know.
            BatchError, DtypeError: The result of the module is not rows of that shape.
        """
        frames = Frames.of(frames)
        if frames.hidden is not None:
            raise BatchError(
                "a trunk of your own does not know which entities are hidden from the policy",
                expected="a batch without hidden entities",
            )
        rows: Tensor = self.module(x, frames.offsets)
        check_rows("the rows that the trunk returns", rows, x.shape[1])
        if len(rows) != len(x):
            raise BatchError(
                "the trunk returns another number of rows than it was given",
                expected=len(x),
                received=len(rows),
            )
        return rows
