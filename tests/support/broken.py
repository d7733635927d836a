"""Broken observations, spaces, actions and calls: how each is broken, and what must be said."""

# ruff: noqa: E501  (one line for each mistake)
# fmt: off

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import ragged_envs  # noqa: F401  (registers minesweeper)
from support.tiny_envs import BrokenAtBirth, Chain, Failing, Farm

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Continuous,
    Discrete,
    Entity,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    ListEnv,
    Observation,
    ObsSpace,
    ParallelEnv,
    RaggedBufferF32,
    RaggedBufferI64,
    SelectEntityActionMask,
    SelectEntityActionSpace,
    errors,
    make,
    register,
)
from entity_env.batching.frame_reader import FrameReader
from entity_env.errors import EntityEnvError
from entity_env.play import play_episodes, random_policy

OBS_SPACE = ObsSpace(
    global_features=["time", Discrete("phase", 3)],
    entities={
        "Mine": Entity(["x", "y"]),
        "Robot": Entity(["x", "y", Discrete("kind", 4)]),
        "Cannon": Entity(["cooldown"]),
    },
)
ACTION_SPACE = {
    "Move": CategoricalActionSpace(["left", "right", "stay"]),
    "Fire": SelectEntityActionSpace(),
    "Mode": GlobalCategoricalActionSpace(["calm", "bold"]),
}
T, F = True, False
NAN, INF = float("nan"), float("inf")


def valid_parts() -> dict[str, Any]:
    """The arguments of a valid observation: 2 mines, 2 robots, 1 cannon; entity indices 0 to 4."""
    return {
        "features": {
            "Mine": [[0, 2], [0, 1]],
            "Robot": [[1, 1, 0], [2, 0, 3]],
            "Cannon": [[0.0]],
        },
        "ids": {"Mine": ["m0", "m1"], "Robot": [("Robot", 0), ("Robot", 1)], "Cannon": [7]},
        "actions": {
            "Move": CategoricalActionMask(actor_types=["Robot"], mask=[[T, F, T], [T, T, T]]),
            "Fire": SelectEntityActionMask(
                actor_types=["Cannon"], actee_ids=["m0", "m1", ("Robot", 0)], mask=[[T, T, F]]
            ),
            "Mode": GlobalCategoricalActionMask([T, F]),
        },
        "reward": 0.5,
        "done": False,
        "truncated": False,
        "global_features": [3.0, 2],
        "visible": {"Mine": [T, T]},
        "metrics": {"score": 1.0},
    }


def read(parts: dict[str, Any]) -> Any:
    """The frame of an observation made of ``parts``."""
    return FrameReader(OBS_SPACE, ACTION_SPACE).read(Observation(**parts))


@dataclass(frozen=True)
class Case:
    """One mistake: ``run`` must raise exactly ``error``, with all ``words`` in its message."""

    name: str
    error: type[EntityEnvError]
    words: tuple[str, ...]
    run: Callable[[], object] = field(repr=False)


def _put(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Set the value at a path of keys: ``_put("features", "Mine", [[1]])``."""
    *keys, value = path

    def damage(parts: dict[str, Any]) -> None:
        for key in keys[:-1]:
            parts = parts[key]
        parts[keys[-1]] = value

    return damage


def _obs(name: str, error: type[EntityEnvError], words: tuple[str, ...], *path: Any) -> Case:
    def run() -> object:
        parts = valid_parts()
        _put(*path)(parts)
        return read(parts)

    return Case(name, error, words, run)


def _mask(name: str, error: type[EntityEnvError], words: tuple[str, ...], action: str, mask: Any) -> Case:
    return _obs(name, error, words, "actions", action, mask)


class Sulky:
    """Raises whatever is asked of it."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no arrays from me")

    def __len__(self) -> int:
        raise RuntimeError("no length from me")

    def __iter__(self) -> Any:
        raise RuntimeError("no items from me")

    def __hash__(self) -> int:
        raise RuntimeError("no hash from me")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison with me")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth from me")

    def __float__(self) -> float:
        raise RuntimeError("no number from me")

    def __repr__(self) -> str:
        raise RuntimeError("no name from me")


def _move(**kwargs: Any) -> CategoricalActionMask:
    return CategoricalActionMask(**kwargs)


def _fire(**kwargs: Any) -> SelectEntityActionMask:
    return SelectEntityActionMask(**{"actor_types": ["Cannon"], **kwargs})


def _nameless(actions: dict[str, Any], **changes: Any) -> object:
    """Read an observation whose entities have no ids."""
    return read({**valid_parts(), "ids": None, "actions": actions, **changes})


E = errors
R0, R1 = ("Robot", 0), ("Robot", 1)

OBSERVATIONS = [
    # Features.
    _obs("rows too wide", E.FeatureError, ("'Mine'", "(entities, 2): x, y", "shape (2, 3)"), "features", "Mine", [[0, 2, 9], [0, 1, 9]]),
    _obs("rows too narrow", E.FeatureError, ("'Robot'", "(entities, 3): x, y, kind", "shape (2, 2)"), "features", "Robot", [[1, 1], [2, 0]]),
    _obs("rows of different widths", E.FeatureError, ("'Mine'", "different widths", "2 numbers in each row", "[0] at [1]"), "features", "Mine", [[0, 2], [0]]),
    _obs("one bad number of many", E.FeatureError, ("'Mine'", "None at [731][1]"), "features", "Mine", [[0, 2]] * 731 + [[0, None]]),
    _obs("a long number", E.FeatureError, ("'Mine'", "64 bits", f"{2**70} at [0][1]"), "features", "Mine", [[0.0, 2**70]]),
    _obs("one flat row", E.FeatureError, ("'Mine'", "shape (2,)"), "features", "Mine", [0, 2]),
    _obs("three dimensions", E.FeatureError, ("'Cannon'", "shape (1, 1, 1)"), "features", "Cannon", [[[0.0]]]),
    _obs("a number for rows", E.FeatureError, ("'Cannon'", "shape ()"), "features", "Cannon", 3.0),
    _obs("no rows of the wrong width", E.FeatureError, ("'Mine'", "shape (0, 5)"), "features", "Mine", np.zeros((0, 5))),
    _obs("text for features", E.FeatureError, ("'Mine'", "real numbers", "'0' at [0][0]"), "features", "Mine", [["0", "two"], ["0", "1"]]),
    _obs("objects for features", E.FeatureError, ("'Mine'", "dtype object"), "features", "Mine", [[0, None], [0, 1]]),
    _obs("complex features", E.FeatureError, ("'Mine'", "complex"), "features", "Mine", np.ones((2, 2), np.complex64)),
    _obs("dates for features", E.FeatureError, ("'Cannon'", "datetime64"), "features", "Cannon", np.zeros((1, 1), "datetime64[s]")),
    _obs("a NaN feature", E.FeatureError, ("'Mine', row 1", "'y'", "not finite", "nan"), "features", "Mine", [[0, 2], [0, NAN]]),
    _obs("an infinite feature", E.FeatureError, ("'Robot', row 0", "'x'", "-inf"), "features", "Robot", [[-INF, 1, 0], [2, 0, 3]]),
    _obs("a feature that overflows float32", E.FeatureError, ("'Cannon', row 0", "'cooldown'", "range of float32"), "features", "Cannon", [[1e39]]),
    _obs("a discrete feature too large", E.FeatureError, ("'Robot', row 1", "'kind'", "from 0 to 3", "4.0"), "features", "Robot", [[1, 1, 0], [2, 0, 4]]),
    _obs("a negative discrete feature", E.FeatureError, ("'Robot', row 0", "'kind'", "-1.0"), "features", "Robot", [[1, 1, -1], [2, 0, 3]]),
    _obs("a discrete feature between two values", E.FeatureError, ("'Robot', row 1", "'kind'", "2.5"), "features", "Robot", [[1, 1, 0], [2, 0, 2.5]]),
    _obs("an unknown entity type", E.ObservationError, ("'Mien'", "in features", "'Mine', 'Robot', 'Cannon'", "did you mean 'Mine'?"), "features", "Mien", [[1, 1]]),
    _obs("features that are a list", E.ObservationError, ("features", "a dict"), "features", [[1, 2]]),
    _obs("features that are partly masked", E.FeatureError, ("'Mine' have masked values", "--", "filled()"), "features", "Mine", np.ma.array([[0, 2], [0, 1]], mask=[[F, F], [F, T]])),
    _obs("a row that is partly masked", E.FeatureError, ("'Mine' have masked values", "filled()"), "features", "Mine", [np.zeros(2), np.ma.array([0.0, 1.0], mask=[F, T])]),
    _obs("features that refuse to be read", E.FeatureError, ("'Mine' cannot be read", "RuntimeError('no arrays from me')"), "features", "Mine", Sulky()),
    # Global features.
    _obs("too many global features", E.FeatureError, ("global_features", "(2,) for time, phase", "shape (3,)"), "global_features", [1, 2, 3]),
    Case("global features of a space without any", E.FeatureError, ("(0,) for a space without global features", "shape (1,)"), lambda: FrameReader(ObsSpace(), ACTION_SPACE).read(Observation(global_features=[1]))),
    _obs("no global features", E.FeatureError, ("global_features", "shape (0,)"), "global_features", None),
    _obs("nested global features", E.FeatureError, ("global_features", "shape (1, 2)"), "global_features", [[1, 2]]),
    _obs("a NaN global feature", E.FeatureError, ("global_features", "'time'", "nan"), "global_features", [NAN, 2]),
    _obs("a discrete global feature too large", E.FeatureError, ("global_features", "'phase'", "from 0 to 2"), "global_features", [0.0, 3]),
    _obs("text for global features", E.FeatureError, ("global_features", "real numbers"), "global_features", ["noon", "late"]),
    # Ids.
    _obs("too few ids", E.ObservationError, ("'Robot'", "2 entities and 1 id", "2 ids"), "ids", "Robot", [R0]),
    _obs("too many ids", E.ObservationError, ("'Mine'", "2 entities and 3 ids"), "ids", "Mine", ["m0", "m1", "m2"]),
    _obs("ids for an absent type", E.ObservationError, ("'Cannon'", "0 entities and 1 id"), "features", "Cannon", None),
    _obs("ids that are one string", E.ObservationError, ("'Mine'", "not a list", "'m0'"), "ids", "Mine", "m0"),
    _obs("ids that are an array without dimensions", E.ObservationError, ("'Mine'", "not a list", "array(5)"), "ids", "Mine", np.array(5)),
    _obs("ids that can be read once", E.ObservationError, ("'Mine'", "not a list", "list(...)"), "ids", "Mine", iter(["m0", "m1"])),
    _obs("one id twice", E.ObservationError, ("'Mine'", "'m0'", "unique"), "ids", "Mine", ["m0", "m0"]),
    _obs("one id in two types", E.ObservationError, ("'Robot'", "'m1'", "already taken"), "ids", "Robot", [R0, "m1"]),
    _obs("equal numbers as ids", E.ObservationError, ("'Robot'", "7.0"), "ids", {"Mine": [7, 8], "Robot": [7.0, 9]}),
    _obs("None as the id of two entities", E.ObservationError, ("'Mine'", "id None is already taken", "leave out the ids"), "ids", "Mine", [None, None]),
    Case("None as an id twice before another one", E.ObservationError, ("'Cannon'", "id None is already taken"), lambda: _nameless({}, features={"Cannon": [[0.0]] * 3}, ids={"Cannon": [None, None, 1]})),
    Case("an id twice behind types without ids", E.ObservationError, ("'Robot'", "id 5 is already taken"), lambda: _nameless({}, ids={"Robot": [5, 5]})),
    Case("None as the id of entities of two types", E.ObservationError, ("'Cannon'", "id None is already taken"), lambda: _nameless({}, ids={"Robot": [None, 1], "Cannon": [None]})),
    _obs("an unhashable id", E.ObservationError, ("'Robot'", "['Robot', 1]", "hashable"), "ids", "Robot", [R0, ["Robot", 1]]),
    _obs("ids of an unknown type", E.ObservationError, ("'Robots'", "in ids", "did you mean 'Robot'?"), "ids", "Robots", [1]),
    _obs("ids that are a list", E.ObservationError, ("ids", "a dict"), "ids", ["m0"]),
    # Visibility.
    _obs("a visibility mask too short", E.ObservationError, ("visible['Mine']", "(2,)", "(1,)"), "visible", "Mine", [T]),
    _obs("visibility as text", E.ObservationError, ("visible['Mine']", "not boolean", "'yes'"), "visible", "Mine", ["yes", "no"]),
    _obs("a ragged visibility mask", E.ObservationError, ("visible['Mine']", "different widths"), "visible", "Mine", [[T], [T, F]]),
    _obs("visibility that is partly masked", E.ObservationError, ("visible['Mine'] has masked values", "True and False", "--"), "visible", "Mine", np.ma.array([T, T], mask=[F, T])),
    _obs("visibility of an unknown type", E.ObservationError, ("'Ghost'", "in visible"), "visible", "Ghost", [T]),
    _obs("a hidden actor", E.ObservationError, ("'Move'", "actor ('Robot', 1) is hidden"), "visible", {"Robot": [T, F]}),
    _obs("a hidden actee", E.ObservationError, ("'Fire'", "actee 'm0' is hidden"), "visible", {"Mine": [F, T]}),
    Case("a hidden actor without an id", E.ObservationError, ("'Move': entity 1 of type 'Robot' is hidden", "actors that the policy"), lambda: _nameless({"Move": _move(actor_types=["Robot"])}, visible={"Robot": [T, F]})),
    Case("a hidden actee without an id", E.ObservationError, ("'Fire': entity 0 of type 'Mine' is hidden", "actees that the policy"), lambda: _nameless({"Fire": _fire(actee_types=["Mine"])}, visible={"Mine": [F, T]})),
    _obs("visibility that is a list", E.ObservationError, ("visible", "a dict"), "visible", [T, T]),
    # Reward, end, metrics.
    _obs("a NaN reward", E.ObservationError, ("reward", "nan"), "reward", NAN),
    _obs("an infinite reward", E.ObservationError, ("reward", "inf"), "reward", INF),
    _obs("a reward that overflows float32", E.ObservationError, ("reward", "1e+39"), "reward", 1e39),
    _obs("a whole reward that overflows float64", E.ObservationError, ("reward", "10000"), "reward", 10**400),
    _obs("a reward per robot", E.ObservationError, ("reward", "[0.5, 0.5]"), "reward", [0.5, 0.5]),
    _obs("a reward as text", E.ObservationError, ("reward", "'1'"), "reward", "1"),
    _obs("no reward", E.ObservationError, ("reward", "None"), "reward", None),
    _obs("a complex reward", E.ObservationError, ("reward", "1j"), "reward", 1j),
    _obs("a complex reward of NumPy", E.ObservationError, ("reward", "2j"), "reward", np.complex64(1 + 2j)),
    _obs("done as a number", E.ObservationError, ("done", "True or False", "2"), "done", 2),
    _obs("done as text", E.ObservationError, ("done", "True or False", "'yes'"), "done", "yes"),
    _obs("done as an array of one", E.ObservationError, ("done", "True or False", "array([ True])"), "done", np.array([True])),
    _obs("done as None", E.ObservationError, ("done", "None"), "done", None),
    _obs("truncated as text", E.ObservationError, ("truncated", "'no'"), "truncated", "no"),
    _obs("truncated but not done", E.ObservationError, ("truncated but not done", "done=True"), "truncated", T),
    _obs("a NaN metric", E.ObservationError, ("'score'", "nan"), "metrics", {"score": NAN}),
    _obs("a metric as text", E.ObservationError, ("'score'", "'high'"), "metrics", {"score": "high"}),
    _obs("a metric as a list", E.ObservationError, ("'score'", "[1.0]"), "metrics", {"score": [1.0]}),
    _obs("a metric that overflows", E.ObservationError, ("'score'", "10000"), "metrics", {"score": 10**400}),
    _obs("a metric named by a number", E.ObservationError, ("the name of a metric is not a string", "a dict from name to number", "received: 3"), "metrics", {3: 1.0}),
    _obs("metrics as pairs", E.ObservationError, ("metrics", "a dict"), "metrics", [("score", 1.0)]),
    # Actions.
    _obs("an unknown action", E.ActionError, ("'Mvoe'", "'Move', 'Fire', 'Mode'", "did you mean 'Move'?"), "actions", {"Mvoe": _move()}),
    _obs("actions as a list", E.ObservationError, ("actions", "a dict"), "actions", [_move()]),
    _mask("a mask of the wrong class", E.MaskError, ("'Move'", "CategoricalActionMask", "SelectEntityActionMask("), "Move", _fire()),
    _mask("a categorical mask for a global action", E.MaskError, ("'Mode'", "GlobalCategoricalActionMask"), "Mode", _move()),
    _mask("a bare array as an action mask", E.MaskError, ("'Move'", "CategoricalActionMask", "[[True]]"), "Move", [[True]]),
    _mask("an actor that is not there", E.MaskError, ("'Move'", "actor ('Robot', 2)", "'m0'"), "Move", _move(actor_ids=[R0, ("Robot", 2)])),
    _mask("an actor twice", E.MaskError, ("'Move'", "twice", "('Robot', 0)"), "Move", _move(actor_ids=[R0, R0])),
    _mask("an actor type twice", E.MaskError, ("'Move'", "twice", "('Robot', 0)"), "Move", _move(actor_types=["Robot", "Robot"])),
    _mask("an actor as text whose id is a number", E.MaskError, ("actor '7'", "'m0', 'm1', ('Robot', 0), ('Robot', 1), 7"), "Move", _move(actor_ids=["7"])),
    Case("an actor without an id twice", E.MaskError, ("'Move'", "twice", "received: entity 0 of type 'Robot'"), lambda: _nameless({"Move": _move(actor_types=["Robot", "Robot"])})),
    _mask("an unhashable actor", E.ObservationError, ("'Move'", "['Robot', 0]"), "Move", _move(actor_ids=[["Robot", 0]])),
    _mask("an actor of an unknown type", E.ObservationError, ("'Move'", "'Robbot'", "actor_types", "did you mean 'Robot'?"), "Move", _move(actor_types=["Robbot"])),
    _mask("actor types as one string", E.MaskError, ("'Move'", "not a list", "'Robot'"), "Move", _move(actor_types="Robot")),
    _mask("an actee that is not there", E.MaskError, ("'Fire'", "actee 'm9'"), "Fire", _fire(actee_ids=["m9"])),
    _mask("an actee of an unknown type", E.ObservationError, ("'Fire'", "'Rock'", "actee_types"), "Fire", _fire(actee_types=["Rock"])),
    _mask("a mask with a row too few", E.MaskError, ("'Move'", "(2 actors, 3 choices)", "(1, 3)"), "Move", _move(actor_types=["Robot"], mask=[[T, T, T]])),
    _mask("a mask with a column too many", E.MaskError, ("'Move'", "(2 actors, 3 choices)", "(2, 4)"), "Move", _move(actor_types=["Robot"], mask=np.ones((2, 4), bool))),
    _mask("a flat mask", E.MaskError, ("'Move'", "(3,)"), "Move", _move(actor_ids=[R0], mask=[T, T, T])),
    _mask("a mask with ragged rows", E.MaskError, ("'Move'", "different widths"), "Move", _move(actor_types=["Robot"], mask=[[T], [T, T]])),
    _mask("a mask for nobody", E.MaskError, ("'Move'", "(0 actors, 3 choices)", "(1, 3)"), "Move", _move(actor_ids=[], mask=[[T, T, T]])),
    _mask("a pair mask of the wrong shape", E.MaskError, ("'Fire'", "(1 actor, 2 actees)", "(1, 3)"), "Fire", _fire(actee_types=["Mine"], mask=[[T, T, T]])),
    _mask("a global mask too long", E.MaskError, ("'Mode'", "(2 choices,)", "(3,)"), "Mode", GlobalCategoricalActionMask([T, T, T])),
    _mask("a mask of fractions", E.MaskError, ("'Move'", "not boolean", "float64"), "Move", _move(actor_ids=[R0], mask=[[0.5, 1.0, 0.0]])),
    _mask("a mask of text", E.MaskError, ("'Move'", "True and False", "'yes' at [0][0]"), "Move", _move(actor_ids=[R0], mask=[["yes", "no", "no"]])),
    _mask("a mask of numbers above 1", E.MaskError, ("'Move'", "[[0, 1, 2]]"), "Move", _move(actor_ids=[R0], mask=[[0, 1, 2]])),
    _mask("an all-false row", E.MaskError, ("'Move'", "leaves actor ('Robot', 1) without", "at least one True among 3"), "Move", _move(actor_types=["Robot"], mask=[[T, F, F], [F, F, F]])),
    _mask("a pair mask that is partly masked", E.MaskError, ("'Fire'", "masked values", "--"), "Fire", _fire(actee_types=["Mine"], mask=np.ma.array([[T, T]], mask=[[T, F]]))),
    _mask("a row of a pair mask that is partly masked", E.MaskError, ("'Fire'", "masked values"), "Fire", _fire(actee_types=["Mine"], mask=[np.ma.array([T, T], mask=[T, F])])),
    _mask("a row of a mask that is partly masked", E.MaskError, ("'Move'", "masked values"), "Move", _move(actor_ids=[R0], mask=[np.ma.array([T, T, F], mask=[T, F, F])])),
    _mask("an all-false pair row", E.MaskError, ("'Fire'", "actor 7", "2 actees"), "Fire", _fire(actee_types=["Mine"], mask=[[F, F]])),
    Case("an all-false row of an actor without an id", E.MaskError, ("leaves entity 1 of type 'Robot' without", "leave the actor out"), lambda: _nameless({"Move": _move(actor_types=["Robot"], mask=[[T, F, F], [F, F, F]])})),
    _mask("an all-false global mask", E.MaskError, ("'Mode'", "leaves the player without", "leave the action out"), "Mode", GlobalCategoricalActionMask([F, F])),
    # What is not an observation.
    Case("a dict for an observation", E.ObservationError, ("entity_env.Observation", "{'Mine': []}"), lambda: FrameReader(OBS_SPACE, ACTION_SPACE).read({"Mine": []})),  # type: ignore[arg-type]
    Case("None for an observation", E.ObservationError, ("reset, act or set_state", "None"), lambda: FrameReader(OBS_SPACE, ACTION_SPACE).read(None)),  # type: ignore[arg-type]
    _mask("actors that are an array without dimensions", E.MaskError, ("'Move'", "not a list", "array(1)"), "Move", CategoricalActionMask(actor_ids=np.array(1))),  # type: ignore[arg-type]
    Case("actors without ids named by id", E.ObservationError, ("'Move'", "no ids", "actor_types"), lambda: read({**valid_parts(), "ids": None, "actions": {"Move": _move(actor_ids=[R0])}})),
    Case("entities given twice", E.ObservationError, ("twice", "both"), lambda: Observation(features={}, entities={})),
    Case("entities that are a list", E.ObservationError, ("Observation.entities", "a dict"), lambda: Observation(entities=[[1]])),  # type: ignore[arg-type]
    Case("an entity as a triple", E.ObservationError, ("'Mine'", "tuple of length 3", "(rows, ids)"), lambda: Observation(entities={"Mine": ([[1, 2]], [0], True)})),
    Case("actors by id and by type", E.MaskError, ("actor_ids and actor_types", "one of them"), lambda: _move(actor_ids=[R0], actor_types=["Robot"])),
    Case("actees by id and by type", E.MaskError, ("actee_ids and actee_types",), lambda: _fire(actee_ids=["m0"], actee_types=["Mine"])),
]

SPACES = [
    Case("features as one string", E.SpaceError, ("not a list", "'xy'"), lambda: Entity("xy")),
    Case("features as a number", E.SpaceError, ("not a list", "3"), lambda: Entity(3)),  # type: ignore[arg-type]
    Case("a feature of an unknown kind", E.SpaceError, ("unknown kind", "4"), lambda: Entity(["x", 4])),  # type: ignore[list-item]
    Case("one feature twice", E.SpaceError, ("feature 'x' is given twice", "['x', 'y', 'x']"), lambda: Entity(["x", "y", Discrete("x", 2)])),
    Case("a feature without a name", E.SpaceError, ("feature name", "''"), lambda: Entity([""])),
    Case("one global feature twice", E.SpaceError, ("'t'", "twice"), lambda: ObsSpace(global_features=["t", "t"])),
    Case("a discrete feature without values", E.SpaceError, ("'kind'", "a whole number >= 1", "0"), lambda: Discrete("kind", 0)),
    Case("a discrete feature with half a value", E.SpaceError, ("'kind'", "2.5"), lambda: Discrete("kind", 2.5)),  # type: ignore[arg-type]
    Case("a mean without a std", E.SpaceError, ("'hp'", "only one of mean and std", "std=None"), lambda: Continuous("hp", mean=1.0)),
    Case("a negative std", E.SpaceError, ("'hp'", "std > 0", "-1.0"), lambda: Continuous("hp", mean=0.0, std=-1.0)),
    Case("a NaN mean", E.SpaceError, ("'hp'", "mean", "nan"), lambda: Continuous("hp", mean=NAN, std=1.0)),
    Case("entities as a list", E.SpaceError, ("ObsSpace.entities", "a dict"), lambda: ObsSpace(entities=["Mine"])),  # type: ignore[arg-type]
    Case("an entity that is a list", E.SpaceError, ("'Mine'", "Entity([", "['x']"), lambda: ObsSpace(entities={"Mine": ["x"]})),  # type: ignore[dict-item]
    Case("an entity type named by a number", E.SpaceError, ("entity type name", "1"), lambda: ObsSpace(entities={1: Entity()})),  # type: ignore[dict-item]
    Case("no choices", E.SpaceError, ("no choices", "at least one label"), lambda: CategoricalActionSpace([])),
    Case("one label twice", E.SpaceError, ("'up'", "twice"), lambda: CategoricalActionSpace(["up", "up"])),
    Case("labels as one string", E.SpaceError, ("not a list", "'up'"), lambda: GlobalCategoricalActionSpace("up")),
    Case("labels as a set", E.SpaceError, ("not a list", "no fixed order"), lambda: CategoricalActionSpace({"up"})),  # type: ignore[arg-type]
    Case("entity types as global features", E.SpaceError, ("global_features are not a list", "ObsSpace(entities={...})"), lambda: ObsSpace({"Mine": Entity(["x"])})),  # type: ignore[arg-type]
    Case("a discrete feature with too many values", E.SpaceError, ("'kind'", "<= 16777216", "float32"), lambda: Discrete("kind", 2**24 + 1)),
    Case("a label that is a number", E.SpaceError, ("label name", "1"), lambda: GlobalCategoricalActionSpace([1, 2])),  # type: ignore[list-item]
    Case("actions as a list", E.SpaceError, ("action space is not a mapping", "a dict"), lambda: FrameReader(OBS_SPACE, [])),  # type: ignore[arg-type]
    Case("an action without a space", E.SpaceError, ("'Move'", "CategoricalActionSpace", "['up']"), lambda: FrameReader(OBS_SPACE, {"Move": ["up"]})),  # type: ignore[dict-item]
    Case("no observation space", E.ObservationError, ("not an observation space", "expected: entity_env.ObsSpace", "None"), lambda: FrameReader(None, ACTION_SPACE)),  # type: ignore[arg-type]
]


class Table(Chain):
    """Shows the valid observation of this module at every step."""

    def obs_space(self) -> ObsSpace:
        return OBS_SPACE

    def action_space(self) -> dict[str, Any]:
        return dict(ACTION_SPACE)

    def _observe(self) -> Observation:
        return Observation(**valid_parts())


def ragged(values: Any, lengths: Any, kind: Any = RaggedBufferI64, dtype: Any = np.int64) -> Any:
    """A ragged buffer of flat rows and lengths; flat numbers become rows of width 1."""
    rows = np.array(values, dtype)
    rows = rows[:, None] if rows.ndim == 1 else rows
    return kind.from_flattened(rows, np.array(lengths, np.int64))


def valid_actions() -> dict[str, Any]:
    """Choices for two rows of ``Table``: two robots, one cannon and the player in each."""
    return {
        "Move": ragged([0, 1, 2, 2], [2, 2]),
        "Fire": ragged([0, 1], [1, 1]),
        "Mode": ragged([0, 0], [1, 1]),
    }


def act(actions: Any) -> object:
    """Send actions to two rows of ``Table``."""
    with ListEnv(Table, 2) as env:
        env.reset()
        return env.act(actions)


def _act(name: str, error: type[EntityEnvError], words: tuple[str, ...], action: str, chosen: Any) -> Case:
    return Case(name, error, words, lambda: act({**valid_actions(), action: chosen()}))


ACTIONS = [
    Case("actions as a list", E.ActionError, ("not a mapping", "a dict"), lambda: act([1, 2])),
    Case("an unknown action", E.ActionError, ("'Mov'", "'Move', 'Fire', 'Mode'", "did you mean 'Move'?"), lambda: act({**valid_actions(), "Mov": ragged([], [])})),
    Case("an action left out", E.ActionError, ("'Fire' is missing", "choices of 2 actors"), lambda: act({"Move": valid_actions()["Move"]})),
    _act("an array for a ragged buffer", E.ActionError, ("'Move'", "RaggedBufferI64", "array("), "Move", lambda: np.zeros((2, 2), np.int64)),
    _act("a float buffer", E.ActionError, ("'Move'", "RaggedBufferI64"), "Move", lambda: ragged([0, 1, 2, 2], [2, 2], RaggedBufferF32, np.float32)),
    _act("a row too many", E.ActionError, ("'Move'", "2 rows", "3 rows"), "Move", lambda: ragged([0, 1, 2, 2], [2, 1, 1])),
    _act("no rows", E.ActionError, ("'Move'", "2 rows", "0 rows"), "Move", lambda: ragged(np.zeros((0, 1)), [])),
    _act("a choice too few", E.ActionError, ("'Move'", "2 choices", "received: 1 choice", "environment 1"), "Move", lambda: ragged([0, 1, 2], [2, 1])),
    _act("two numbers for each actor", E.ActionError, ("'Move'", "one number", "2 numbers"), "Move", lambda: ragged(np.zeros((4, 2)), [2, 2])),
    _act("a choice too large", E.ActionError, ("'Move'", "no choice 3", "from 0 to 2", "environment 1"), "Move", lambda: ragged([0, 1, 2, 3], [2, 2])),
    _act("a negative choice", E.ActionError, ("'Move'", "-1", "environment 0"), "Move", lambda: ragged([0, -1, 2, 2], [2, 2])),
    _act("a masked choice", E.ActionError, ("'Move'", "choice 1 is masked", "one of 0 (left), 2 (stay)", "1 (right)", "environment 0"), "Move", lambda: ragged([1, 1, 2, 2], [2, 2])),
    _act("a masked global choice", E.ActionError, ("'Mode'", "choice 1 is masked", "one of 0 (calm)", "environment 1"), "Mode", lambda: ragged([0, 1], [1, 1])),
    _act("an entity that is no actee", E.ActionError, ("'Fire'", "entity 3", "[0, 1]", "environment 1"), "Fire", lambda: ragged([0, 3], [1, 1])),
    _act("an entity that is not there", E.ActionError, ("'Fire'", "entity 99", "environment 0"), "Fire", lambda: ragged([99, 0], [1, 1])),
    _act("a masked actee", E.ActionError, ("'Fire'", "entity 2", "environment 1"), "Fire", lambda: ragged([0, 2], [1, 1])),
]


def _after_close() -> object:
    env = ListEnv(Chain, 1)
    env.close()
    return env.reset()


def _row_0_fails(how: str) -> object:
    with ParallelEnv(lambda: Failing(how, row=1, at=0), 2, 2) as env:
        return env.reset()


def _step(env: Any, state: Any = None) -> object:
    with env:
        if state is not None:
            return env.set_state(state)
        env.reset()
        return env.get_state()


def _taken() -> None:
    register("tests-taken", "support.tiny_envs.Chain")
    register("tests-taken", "support.tiny_envs.Farm")


CALLS = [
    Case("0 environments", E.SettingError, ("number of environments", ">= 1", "0"), lambda: ListEnv(Chain, 0)),
    Case("half an environment", E.SettingError, ("number of environments", "1.5"), lambda: ListEnv(Chain, 1.5)),  # type: ignore[arg-type]
    Case("True environments", E.SettingError, ("number of environments", "True"), lambda: ListEnv(Chain, True)),
    Case("0 processes", E.SettingError, ("number of processes", "0"), lambda: ParallelEnv(Chain, 2, 0)),
    Case("more processes than environments", E.SettingError, ("number of processes", "<= 2", "3"), lambda: ParallelEnv(Chain, 2, 3)),
    Case("0 environments in 1 process", E.SettingError, ("number of environments", "0"), lambda: ParallelEnv(Chain, 0, 1)),
    Case("0 episodes", E.SettingError, ("number of episodes", "0"), lambda: play_episodes(Chain, random_policy(0), 0, 0)),
    Case("a negative seed", E.SettingError, ("seed", ">= 0", "-1"), lambda: ListEnv(Chain, 1, seed=-1)),
    Case("a negative seed in processes", E.SettingError, ("seed", "-1"), lambda: ParallelEnv(Chain, 1, 1, seed=-1)),
    Case("a seed as text", E.SettingError, ("seed", "'0'"), lambda: ListEnv(Chain, 1, seed="0")),  # type: ignore[arg-type]
    Case("a seed of an environment that is a fraction", E.SettingError, ("seed", "0.5"), lambda: Farm().seed(0.5)),  # type: ignore[arg-type]
    Case("a negative seed at reset", E.SettingError, ("seed", "-3"), lambda: ListEnv(Chain, 1).reset(seed=-3)),
    Case("a factory of something else", E.ObservationError, ("create_env", "subclass of entity_env.Environment", "environment 0"), lambda: ListEnv(dict, 1)),  # type: ignore[arg-type]
    Case("a constructor that raises", E.EnvironmentFailedError, ("environment 0", "RuntimeError in create_env: no parts left", "Traceback"), lambda: ListEnv(BrokenAtBirth, 1)),
    Case("act before reset", E.ResetNeededError, ("act", "reset()"), lambda: ListEnv(Chain, 1).act({})),
    Case("a call on a closed environment", E.ClosedError, ("closed",), _after_close),
    Case("a worker that is killed", E.WorkerDiedError, ("environment 1, step 0", "signal 9"), lambda: _row_0_fails("kill")),
    Case("an unknown environment", E.UnknownEnvironmentError, ("'minesweper'", "did you mean"), lambda: make("minesweper")),
    Case("a dotted path to nowhere", E.UnknownEnvironmentError, ("'no_such_pkg'", "importable"), lambda: make("no_such_pkg.Env")),
    Case("a class that a module lacks", E.UnknownEnvironmentError, ("'Chian'", "did you mean 'Chain'?"), lambda: make("support.tiny_envs.Chian")),
    Case("a relative path", E.UnknownEnvironmentError, ("'..tiny_envs.Chain'",), lambda: make("..tiny_envs.Chain")),
    Case("a number for an environment", E.UnknownEnvironmentError, ("3",), lambda: make(3)),  # type: ignore[arg-type]
    Case("a name that is taken", E.UnknownEnvironmentError, ("'tests-taken'", "Farm", "Chain"), _taken),
    Case("an unknown setting", E.SettingError, ("Chain", "'lenght'", "'length', 'truncates'", "did you mean 'length'?"), lambda: make("support.tiny_envs.Chain", lenght=3)),
    Case("an environment without state", E.StateError, ("Chain", "get_state"), lambda: _step(ListEnv(Chain, 1))),
    Case("a state with a row too many", E.StateError, ("a list of 1 row", "2 rows"), lambda: _step(ListEnv(Farm, 1), [{}, {}])),
    Case("a state that is a dict", E.StateError, ("a list of 1 row", "{'a': 1}"), lambda: _step(ListEnv(Farm, 1), {"a": 1})),
    Case("a damaged state", E.StateError, ("damaged", "environment 0", "'env'"), lambda: _step(ListEnv(Farm, 1), [{"env": {}}])),
    Case("a state for processes with a row too few", E.StateError, ("the saved state",), lambda: _step(ParallelEnv(Farm, 2, 1), [{}])),
]

ALL = [*OBSERVATIONS, *SPACES, *ACTIONS, *CALLS]
