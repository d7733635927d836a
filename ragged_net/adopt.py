"""Copying of learned weights into a network for larger spaces: more types, features, choices.

    grown = RaggedNet(larger_space, actions, old.config)
    print(adopt(grown, old))  # lists the new parts, and those that were not copied

Everything with the same name in both networks is copied. New features begin with weights of zero:
until the first gradient step, they change no output. Entities of new types do, because known
entities attend to them; a frame without any has the same output as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from entity_env.errors import AdoptionError
from entity_env.spaces import Feature, ObsSpace, feature_name, num_values
from ragged_net.model.discrete import SharedTable
from ragged_net.model.embedding import TypeEmbedding
from ragged_net.model.input_norm import InputNorm
from ragged_net.network import RaggedNet
from ragged_net.tensor_checks import check_kind

__all__ = ["Adopted", "adopt"]

KNOWN_ROWS = 4096.0
"""Maximum weight of the past, in rows, in the statistics of a type with a new feature."""


@dataclass(frozen=True)
class Adopted:
    """The result of ``adopt``.

    Args:
        new: Parts that only the new network has, such as ``feature 'hp' of 'Robot'``. They keep
            their initial weights, which are zero for features.
        left: Parts that only the old network has, which are not copied.
    """

    new: tuple[str, ...]
    left: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(
            f"{what}: {', '.join(names) or 'nothing'}"
            for what, names in (("new", self.new), ("left behind", self.left))
        )


@torch.no_grad()
def adopt(net: RaggedNet, old: RaggedNet) -> Adopted:
    """Copy the weights of ``old`` into ``net``; the two may be on different devices.

    Args:
        net: Network for other spaces, whose weights and input statistics are overwritten.
        old: Network with the same sizes, which is not changed.

    Raises:
        AdoptionError: The networks differ in sizes or kinds, or a feature or action with the same
            name has another kind. ``net`` may then be partly overwritten.
    """
    for where, one in (("the network", net), ("the network to learn from", old)):
        check_kind(where, one, RaggedNet)
    _check_same_sizes(net, old)
    found = _Found()
    encoders = [(net.encoder, old.encoder), (net.value_encoder, old.value_encoder)]
    for mine, theirs in encoders:
        if mine is not None and theirs is not None:
            _adopt_embedding(net, old, mine, theirs, found)
    _adopt_heads(net, old, found)
    _copy_rest(net, old, found)
    return Adopted(tuple(dict.fromkeys(found.new)), tuple(dict.fromkeys(found.left)))


def _seen(net: RaggedNet) -> ObsSpace:
    """Return the observation space that the encoders of a network read."""
    return net.obs_space if net.translation is None else net.translation.space


class _Found:
    """The parts that only one network has, and the tensors that have been copied."""

    def __init__(self) -> None:
        self.new: list[str] = []
        self.left: list[str] = []
        self.done: set[int] = set()

    def compare(self, what: str, mine: Sequence[str], theirs: Sequence[str]) -> list[str]:
        """Return the names that both have; record the others as ``what``."""
        self.new += [what.format(name) for name in mine if name not in theirs]
        self.left += [what.format(name) for name in theirs if name not in mine]
        return [name for name in mine if name in theirs]

    def see_to(self, module: nn.Module | None) -> None:
        """Mark all tensors of ``module`` as copied."""
        if module is not None:
            tensors = [*module.parameters(), *module.buffers()]
            self.done |= {id(tensor) for tensor in tensors}


def _check_same_sizes(net: RaggedNet, old: RaggedNet) -> None:
    for what in ("config", "value_config"):
        mine, theirs = getattr(net, what), getattr(old, what)
        if (mine is None) != (theirs is None):
            raise AdoptionError(
                "only one of the networks has a separate value network",
                expected="the same value_config, or none in either",
            )
        for name in _SIZES if mine is not None else ():
            if getattr(mine, name) != getattr(theirs, name):
                raise AdoptionError(
                    f"the networks differ in {what}.{name}",
                    expected=repr(getattr(theirs, name)),
                    received=repr(getattr(mine, name)),
                )


_SIZES = (
    "dim", "layers", "heads", "mlp_ratio", "value_norm", "memory", "memory_size",
    "action_order", "embedding",
)  # fmt: skip


def _adopt_embedding(net: RaggedNet, old: RaggedNet, mine: Any, theirs: Any, found: _Found) -> None:
    """Adopt entity types and their features, by name."""
    types, old_types = _types(net, mine), _types(old, theirs)
    found.see_to(mine.embedding)
    for name in found.compare("{}", list(types), list(old_types)):
        where = f"of {name.removeprefix('entity type ')}" if name != _WHOLE else "of the frame"
        _adopt_type(where, *types[name], *old_types[name], found)


_WHOLE = "the entity that stands for a frame as a whole"


def _types(net: RaggedNet, encoder: Any) -> dict[str, tuple[Any, Sequence[Feature]]]:
    """Return the embedding and the features of each entity type, and of the global entity."""
    embedding, entities = encoder.embedding, _seen(net).entities
    found = {
        f"entity type {name!r}": (embedded, entities[name].features)
        for name, embedded in zip(embedding.names, embedding.types, strict=True)
    }
    if embedding.global_type is not None:
        found[_WHOLE] = embedding.global_type, net.obs_space.global_features
    return found


def _adopt_type(
    where: str,
    mine: TypeEmbedding,
    features: Sequence[Feature],
    theirs: TypeEmbedding,
    old_features: Sequence[Feature],
    found: _Found,
) -> None:
    names, old_names = (
        list(map(feature_name, names_given)) for names_given in (features, old_features)
    )
    shared = found.compare("feature {!r} " + where, names, old_names)
    for name in shared:
        kind, other = features[names.index(name)], old_features[old_names.index(name)]
        if (num_values(kind) is None) != (num_values(other) is None):
            raise AdoptionError(
                f"feature {name!r} {where} has another kind",
                expected=repr(other),
                received=repr(kind),
            )
    embedded, old_embedded = _embedded(mine, features), _embedded(theirs, old_features)
    if embedded == old_embedded:
        _copy_module(where, mine, theirs)
        return
    if not (_can_grow(mine) and _can_grow(theirs)):
        raise AdoptionError(
            f"the features {where} differ, and their embeddings can only be copied as a whole",
            expected=", ".join(map(repr, old_embedded)),
            received=", ".join(map(repr, embedded)),
            hint="features can be added to types other than grids, with net.embedding=linear "
            "and no vocabularies",
        )
    mine.type_vector.copy_(theirs.type_vector)
    if mine.project is not None:
        weight = torch.zeros_like(mine.project.weight)
        for column, old_column in _columns(mine.norm, theirs.norm):
            assert theirs.project is not None  # for the type checker
            weight[:, column] = theirs.project.weight[:, old_column].to(weight.device)
        mine.project.weight.copy_(weight)
    tables = dict(zip((f.name for _, f in theirs.discrete), theirs.tables, strict=True))
    for (_, feature), table in zip(mine.discrete, mine.tables, strict=True):
        weight = torch.zeros_like(table.weight)  # type: ignore[arg-type]
        if feature.name in tables:
            known: Any = tables[feature.name].weight
            count = min(len(known), len(weight))
            weight[:count] = known[:count]
            found.new += [
                f"value {k} of {feature.name!r} {where}" for k in range(count, len(weight))
            ]
            found.left += [
                f"value {k} of {feature.name!r} {where}" for k in range(count, len(known))
            ]
        table.weight.copy_(weight)  # type: ignore[operator]
    _adopt_statistics(mine.norm, theirs.norm)


def _embedded(embedding: TypeEmbedding, features: Sequence[Feature]) -> list[Feature]:
    """Return the features without those that only relations or positions read."""
    kept = embedding.norm.names
    return [f for f in features if num_values(f) is not None or feature_name(f) in kept]


def _can_grow(embedding: nn.Module) -> bool:
    """Return True if the parts of an embedding belong to single features."""
    return isinstance(embedding, TypeEmbedding) and not any(
        isinstance(table, SharedTable) for table in embedding.tables
    )


def _copy_module(where: str, mine: nn.Module, theirs: nn.Module) -> None:
    """Copy all weights of an embedding of the same features, of any kind."""
    try:
        mine.load_state_dict(theirs.state_dict())
    except RuntimeError as error:
        raise AdoptionError(
            f"the embeddings {where} differ in kind or size",
            expected="the same settings of the network, the same shape of a grid, and a vocabulary "
            "that the same type has first",
            received=str(error),
        ) from error


def _columns(mine: InputNorm, theirs: InputNorm) -> list[tuple[int, int]]:
    """Return the columns of the continuous features that both networks have."""
    places = {name: k for k, name in enumerate(theirs.names)}
    return [(k, places[name]) for k, name in enumerate(mine.names) if name in places]


def _adopt_statistics(mine: InputNorm, theirs: InputNorm) -> None:
    """Copy means and deviations; those of a new feature start at 0 and 1.

    All columns share one count. If some are new, the past gets a smaller weight, so that new
    columns soon have statistics of their own.
    """
    pairs = _columns(mine, theirs)
    count = theirs.count.to(mine.count.device)
    if len(pairs) < mine.num_columns:
        count = count.clamp_max(KNOWN_ROWS)
    mine.count.copy_(count)
    mine.mean.zero_()
    mine.m2.copy_(count.expand_as(mine.m2))  # a variance of 1
    kept = (count / theirs.count.clamp_min(1.0).to(count.device)).to(mine.m2.dtype)
    for column, old_column in pairs:
        mine.mean[column] = theirs.mean[old_column].to(mine.mean.device)
        mine.m2[column] = theirs.m2[old_column].to(mine.m2.device) * kept
        if not mine.declared[column]:
            mine.shift[column] = theirs.shift[old_column].to(mine.shift.device)
            mine.scale[column] = theirs.scale[old_column].to(mine.scale.device)


def _adopt_heads(net: RaggedNet, old: RaggedNet, found: _Found) -> None:
    """Copy the heads of actions by name, and their choices by label."""
    shared = found.compare("action {!r}", list(net.action_space), list(old.action_space))
    heads = [dict(zip(one.action_space, one.heads, strict=True)) for one in (net, old)]
    for name, module in heads[0].items():
        head: Any = module
        found.see_to(head)
        if name not in shared:
            continue
        space, old_space = net.action_space[name], old.action_space[name]
        other: Any = heads[1][name]
        if type(space) is not type(old_space):
            raise AdoptionError(
                f"action {name!r} has another kind",
                expected=type(old_space).__name__,
                received=type(space).__name__,
            )
        labels = getattr(space, "index_to_label", None)
        if labels is None:
            if not space.selects and space != old_space:
                raise AdoptionError(
                    f"action {name!r} has other bounds", expected=old_space, received=space
                )
            head.load_state_dict(other.state_dict())
            continue
        old_labels = list(old_space.index_to_label)  # type: ignore[union-attr]
        for label in found.compare(f"choice {{!r}} of {name!r}", labels, old_labels):
            to, of = list(labels).index(label), old_labels.index(label)
            head.logits.weight[to] = other.logits.weight[of].to(head.logits.weight.device)
            head.logits.bias[to] = other.logits.bias[of].to(head.logits.bias.device)


def _copy_rest(net: RaggedNet, old: RaggedNet, found: _Found) -> None:
    """Copy the parts that do not depend on the spaces: blocks, norms, memory, value."""
    theirs: Mapping[str, Tensor] = old.state_dict()
    for name, tensor in net.state_dict(keep_vars=True).items():
        if id(tensor) in found.done:
            continue
        if name not in theirs or theirs[name].shape != tensor.shape:
            raise AdoptionError(
                f"the networks differ in {name!r}",
                expected="modules of the same kind and size",
                received=f"{tuple(tensor.shape)}"
                + (f" beside {tuple(theirs[name].shape)}" if name in theirs else ", on one side"),
            )
        tensor.copy_(theirs[name])
