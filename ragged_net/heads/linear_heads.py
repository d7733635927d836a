"""Heads: entity vectors -> categorical choices, selected entities, values. Always in float32."""

from __future__ import annotations

from torch import Tensor, nn

from ragged_net.compiled import autograd as compiled
from ragged_net.compiled import heads as compiled_heads
from ragged_net.compiled.chain import chain, is_plain, weights_of
from ragged_net.compiled.layers import Value
from ragged_net.errors import check_kind, check_rows, check_tensor, whole
from ragged_net.heads.distributions import CategoricalDist, SelectDist
from ragged_net.heads.orthogonal import orthogonal
from ragged_net.heads.pairs import Pairs
from ragged_net.heads.popart import PopArt
from ragged_net.model.transformer import make_activation
from ragged_net.precision import full_precision

__all__ = ["CategoricalHead", "SelectEntityHead", "ValueHead"]

# Nearly uniform first policies explore best (Andrychowicz et al. 2021, "What matters for on-policy
# deep actor-critic methods").
POLICY_GAIN = 0.01


def _orthogonal(fan_in: int, fan_out: int, gain: float) -> nn.Linear:
    layer = nn.Linear(fan_in, fan_out)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class CategoricalHead(nn.Module):
    """Each actor picks one of C choices.

    Args:
        dim: D, the width of an actor's vector.
        choices: C.
    """

    def __init__(self, dim: int, choices: int) -> None:
        super().__init__()
        dim, choices = whole("the width of a head", dim), whole("the choices of a head", choices)
        self.logits = orthogonal(dim, choices, POLICY_GAIN)

    def forward(self, actors: Tensor, mask: Tensor) -> CategoricalDist:
        """Distributions over the choices.

        Args:
            actors: (A, D) the vectors of the actors.
            mask: (A, C) bool, True where allowed; at least one in each row.
        """
        check_rows("the vectors of the actors", actors)
        check_tensor("the mask of a categorical action", mask)
        with full_precision(actors):
            return CategoricalDist(self.logits(actors.float()), mask)


class SelectEntityHead(nn.Module):
    """Each actor selects one of the actees of its frame, by query-key similarity.

    Args:
        dim: D, the width of an entity's vector.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        dim = whole("the width of a head", dim)
        # With keys of variance 1 and small queries all scores start close to 0.
        self.query = orthogonal(dim, dim, POLICY_GAIN)
        self.key = orthogonal(dim, dim, 1.0)

    def forward(self, actors: Tensor, actees: Tensor, pairs: Pairs) -> SelectDist:
        """Distributions over the actees.

        Args:
            actors: (A, D) the vectors of the actors.
            actees: (E, D) the vectors of the actees.
            pairs: Who may select whom; each actor has at least one actee.
        """
        check_rows("the vectors of the actors", actors)
        check_rows("the vectors of the actees", actees)
        check_kind("the pairs of a selection", pairs, Pairs, hint="Pairs.of(select_actors)")
        with full_precision(actors):
            query, key = self.query(actors.float()), self.key(actees.float())
            if compiled_heads.can_select(query, key):
                return SelectDist(compiled_heads.select(query, key, pairs), pairs)
            products = query.index_select(0, pairs.actor) * key.index_select(0, pairs.actee)
            scores = products.sum(-1) / query.shape[-1] ** 0.5
            if pairs.mask is not None:
                scores = scores.masked_fill(~pairs.mask, float("-inf"))
            # Log-softmax over each actor's segment. The shift cancels, so it needs no gradient.
            scores = scores - pairs.max(scores.detach()).index_select(0, pairs.actor)
            log_total = pairs.sum(scores.exp()).log()
            return SelectDist(scores - log_total.index_select(0, pairs.actor), pairs)


class ValueHead(nn.Module):
    """The value of each frame: an MLP on the mean of its entities.

    Args:
        dim: D, the width of an entity's vector.
        activation: ``relu`` or ``gelu``.
        norm: ``none``, or ``popart`` for values of any size.
    """

    def __init__(self, dim: int, activation: str = "relu", norm: str = "none") -> None:
        super().__init__()
        dim = whole("the width of a head", dim)
        self.mlp = nn.Sequential(
            orthogonal(dim, dim, 2**0.5), make_activation(activation), orthogonal(dim, 1, 1.0)
        )
        self.norm = PopArt() if norm == "popart" else None
        self._arrays = compiled.WeightArrays()

    def update_norm(self, returns: Tensor) -> None:
        """Count ``returns`` (B,) in, if values are normalised."""
        if self.norm is not None:
            self.norm.update(returns, self.mlp[-1])

    def forward(self, means: Tensor) -> Tensor:
        """The means of the frames' vectors (B, D) -> values (B,) float32."""
        check_rows("the means of the frames", means)
        weights = self._weights() if compiled.can_run(means) else None
        if weights is not None:
            values = chain([Value(weights)], means, self._arrays).squeeze(-1)
        else:
            with full_precision(means):
                values = self.mlp(means.float()).squeeze(-1)
        return values if self.norm is None else self.norm(values)

    def _weights(self) -> list[Tensor] | None:
        """Those of the kernel, if it does what these modules do."""
        mlp = self.mlp
        if not is_plain(mlp, nn.Sequential) or len(mlp) != 3:
            return None
        hidden, activation, last = mlp
        weights = weights_of((hidden, last), (nn.Linear, nn.Linear))
        if weights is None or not is_plain(activation, nn.ReLU):
            return None
        sizes = weights[1].shape[0], weights[3].shape[0]  # of the hidden layer, of the last
        return weights if compiled.widths_fit(sizes[0]) and sizes[1] == 1 else None
