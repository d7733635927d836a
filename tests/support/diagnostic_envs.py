"""Tiny environments with a known best return, each of which needs one mechanism to be learned.

A policy that lacks the mechanism stays far below the best return; the docstrings say how far.
``best_actions`` of each class plays perfectly.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from entity_env import (
    Action,
    ActionSpace,
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Continuous,
    Discrete,
    Entity,
    Environment,
    GlobalCategoricalAction,
    GlobalCategoricalActionMask,
    GlobalCategoricalActionSpace,
    Observation,
    ObsSpace,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)

__all__ = [
    "Bandit",
    "DelayedReward",
    "DiagnosticEnv",
    "MaskedChoice",
    "SelectMatching",
    "SeveralActors",
]


class DiagnosticEnv(Environment):
    """An environment that knows how good a policy can be at it."""

    best_return: float
    """The expected return of an episode that is played perfectly."""
    without_mechanism: float
    """The most that a policy without the mechanism can get."""
    random_return: float
    """The expected return of even choices among all that are allowed."""

    @staticmethod
    @abstractmethod
    def best_actions(observation: Observation) -> dict[str, Action]:
        """Return the actions of a perfect player."""


class Bandit(DiagnosticEnv):
    """Pull one arm.

    Entities: none. With ``contexts`` > 1 the global feature ``context`` says which of several
        bandits this is.
    Actions: ``Pull``, global: one of 4 arms.
    Reward: PAYS of the arm, +-0.25 with even odds. Context c moves all arms c places down.
    End: after one pull.
    Best return: max(PAYS) = 1. Random arms get (0.2 + 1 + 0.6 + 0) / 4 = 0.45; so does, in 4
        contexts, whoever cannot see the context, whatever they pull.
    """

    PAYS = (0.2, 1.0, 0.6, 0.0)
    NOISE = 0.25
    best_return = 1.0
    without_mechanism = 0.45
    random_return = 0.45

    def __init__(self, contexts: int = 1) -> None:
        self.contexts = contexts
        self.context = 0

    def obs_space(self) -> ObsSpace:
        """No entities."""
        features = [Discrete("context", self.contexts)] if self.contexts > 1 else []
        return ObsSpace(global_features=features)

    def action_space(self) -> dict[str, ActionSpace]:
        """One global action."""
        return {"Pull": GlobalCategoricalActionSpace(["a", "b", "c", "d"])}

    def reset(self) -> Observation:
        """Draw a context."""
        self.context = int(self.rng.integers(self.contexts))
        return self._observe(actions={"Pull": GlobalCategoricalActionMask()})

    def act(self, actions: Mapping[str, Action]) -> Observation:
        """Pay out."""
        pull = actions["Pull"]
        assert isinstance(pull, GlobalCategoricalAction)
        noise = self.NOISE * float(self.rng.choice([-1.0, 1.0]))
        return self._observe(reward=self.PAYS[(pull.index + self.context) % 4] + noise, done=True)

    def _observe(self, **rest: Any) -> Observation:
        features = [self.context] if self.contexts > 1 else []
        return Observation(global_features=features, **rest)

    @staticmethod
    def best_actions(observation: Observation) -> dict[str, Action]:
        """The arm that the context moved to place 1."""
        context = int(observation.global_features[0]) if len(observation.global_features) else 0
        index = (1 - context) % 4
        return {"Pull": GlobalCategoricalAction(index, "abcd"[index])}


class MaskedChoice(DiagnosticEnv):
    """Pick the best choice that is allowed; only the mask says which ones are.

    Entities: ``Player`` without features.
    Actions: ``Pick``: one of 5 choices, of which a random 2 to 4 are allowed.
    Reward: 1 for the allowed choice that comes first in RANKING, else 0; for a forbidden choice 0.
    End: after one pick.
    Best return: 1. Without the mask all frames look alike. A fixed choice is right if it is allowed
        and nothing better is. Of k = 2, 3, 4 allowed among 5 the first in the ranking is allowed
        with probability k / 5, on average (2 + 3 + 4) / (3 * 5) = 0.6. Random allowed choices get
        (1/2 + 1/3 + 1/4) / 3 = 0.361.
    """

    RANKING = (2, 4, 0, 3, 1)
    best_return = 1.0
    without_mechanism = 0.6
    random_return = 0.361

    def __init__(self) -> None:
        self.allowed = np.ones(5, dtype=np.bool_)

    def obs_space(self) -> ObsSpace:
        """Nothing to see."""
        return ObsSpace(entities={"Player": Entity()})

    def action_space(self) -> dict[str, ActionSpace]:
        """One actor, 5 choices."""
        return {"Pick": CategoricalActionSpace(["a", "b", "c", "d", "e"])}

    def reset(self) -> Observation:
        """Draw what is allowed."""
        self.allowed = np.zeros(5, dtype=np.bool_)
        self.allowed[self.rng.permutation(5)[: self.rng.integers(2, 5)]] = True
        mask = CategoricalActionMask(actor_types=["Player"], mask=self.allowed[None])
        return Observation(entities={"Player": np.zeros((1, 0))}, actions={"Pick": mask})

    def act(self, actions: Mapping[str, Action]) -> Observation:
        """Compare with the best allowed choice."""
        pick = actions["Pick"]
        assert isinstance(pick, CategoricalAction)
        right = pick.indices[0] == self._best(self.allowed)
        return Observation(entities={}, reward=float(right), done=True)

    @classmethod
    def _best(cls, allowed: Any) -> int:
        return next(choice for choice in cls.RANKING if allowed[choice])

    @staticmethod
    def best_actions(observation: Observation) -> dict[str, Action]:
        """The first in the ranking that the mask allows."""
        mask = observation.actions["Pick"]
        assert isinstance(mask, CategoricalActionMask)
        best = MaskedChoice._best(mask.mask[0])
        return {"Pick": CategoricalAction([None], np.array([best]), "abcde")}


class SelectMatching(DiagnosticEnv):
    """Each chooser selects the one box that has its colour.

    Entities: 1 to 3 ``Chooser`` [colour], 2 to 6 ``Box`` [colour]. Choosers are red or green. One
        box is red, one is green, and the others, which nobody wants, are grey.
    Actions: ``Select``: each chooser selects a box.
    Reward: the share of choosers that selected the box of their colour.
    End: after one selection.
    Best return: 1. Random boxes get the mean of 1/n for n = 2 to 6 boxes, (1/2 + 1/3 + 1/4 + 1/5 +
        1/6) / 5 = 0.29. Whoever knows the coloured boxes but not the choosers gets 0.5. One colour
        for all choosers of a frame, that of the most, suits all of 1, on average 1.5 of 2 and 2.25
        of 3: (1 + 0.75 + 0.75) / 3 = 0.833.
    """

    RED, GREEN, GREY = 0, 1, 2
    best_return = 1.0
    without_mechanism = 0.833
    random_return = 0.29

    def __init__(self) -> None:
        self.wanted = np.zeros(0, dtype=np.int64)
        self.boxes = np.zeros(0, dtype=np.int64)

    def obs_space(self) -> ObsSpace:
        """Boxes come first, so that no chooser stands at the index that counts choosers."""
        return ObsSpace(
            entities={
                "Box": Entity([Discrete("colour", 3)]),
                "Chooser": Entity([Discrete("colour", 2)]),
            }
        )

    def action_space(self) -> dict[str, ActionSpace]:
        """Choosers select boxes."""
        return {"Select": SelectEntityActionSpace()}

    def reset(self) -> Observation:
        """Draw the colours and the order of the boxes."""
        self.wanted = self.rng.integers(2, size=self.rng.integers(1, 4))
        grey = [self.GREY] * int(self.rng.integers(0, 5))
        self.boxes = self.rng.permutation([self.RED, self.GREEN, *grey])
        mask = SelectEntityActionMask(actor_types=["Chooser"], actee_types=["Box"])
        ids = [("Box", i) for i in range(len(self.boxes))]
        entities = {
            "Box": (self.boxes[:, None], ids),
            "Chooser": (self.wanted[:, None], [("Chooser", i) for i in range(len(self.wanted))]),
        }
        return Observation(entities=entities, actions={"Select": mask})

    def act(self, actions: Mapping[str, Action]) -> Observation:
        """Compare the colours of each chooser and its box."""
        select = actions["Select"]
        assert isinstance(select, SelectEntityAction)
        found = {
            actor[1]: self.boxes[actee[1]]
            for actor, actee in zip(select.actors, select.actees, strict=True)
        }
        right = [found[i] == colour for i, colour in enumerate(self.wanted)]
        return Observation(entities={}, reward=float(np.mean(right)), done=True)

    @staticmethod
    def best_actions(observation: Observation) -> dict[str, Action]:
        """The box of its own colour for each chooser."""
        boxes = [int(row[0]) for row in observation.features["Box"]]
        wanted = [int(row[0]) for row in observation.features["Chooser"]]
        actees = [("Box", boxes.index(colour)) for colour in wanted]
        return {"Select": SelectEntityAction(observation.ids["Chooser"], actees)}


class SeveralActors(DiagnosticEnv):
    """Each of several actors must do what its own feature says, for one reward for all.

    Entities: 0 to 3 ``Bystander`` without features, which come first in the frame, and 1 to 5
        ``Actor`` [goal].
    Actions: ``Go``: each actor picks one of 3 ways.
    Reward: the share of actors that picked the way ``(goal + 1) % 3``; not which of them did.
    End: after one step.
    Best return: 1. Random ways get 1/3. One way for all actors of a frame suits at best the most
        frequent of their goals: all of 1, on average 4/6 of 2, 17/27 of 3, 48/81 of 4 and 135/243
        of 5 actors, (1 + 0.667 + 0.630 + 0.593 + 0.556) / 5 = 0.689.
    """

    best_return = 1.0
    without_mechanism = 0.689
    random_return = 1 / 3

    def __init__(self) -> None:
        self.goals = np.zeros(0, dtype=np.int64)

    def obs_space(self) -> ObsSpace:
        """Bystanders shift the actors within the frame."""
        entities = {"Bystander": Entity(), "Actor": Entity([Discrete("goal", 3)])}
        return ObsSpace(entities=entities)

    def action_space(self) -> dict[str, ActionSpace]:
        """Three ways."""
        return {"Go": CategoricalActionSpace(["left", "ahead", "right"])}

    def reset(self) -> Observation:
        """Draw the actors and their goals."""
        self.goals = self.rng.integers(3, size=self.rng.integers(1, 6))
        entities = {
            "Bystander": np.zeros((self.rng.integers(4), 0)),
            "Actor": (self.goals[:, None], list(range(len(self.goals)))),
        }
        mask = CategoricalActionMask(actor_types=["Actor"])
        return Observation(entities=entities, actions={"Go": mask})

    def act(self, actions: Mapping[str, Action]) -> Observation:
        """Count the actors that went the right way."""
        go = actions["Go"]
        assert isinstance(go, CategoricalAction)
        way = dict(zip(go.actors, go.indices, strict=True))
        right = [way[i] == (goal + 1) % 3 for i, goal in enumerate(self.goals)]
        return Observation(entities={}, reward=float(np.mean(right)), done=True)

    @staticmethod
    def best_actions(observation: Observation) -> dict[str, Action]:
        """The way of each actor's goal."""
        goals = np.array(observation.features["Actor"])[:, 0]
        labels = ["left", "ahead", "right"]
        return {"Go": CategoricalAction(observation.ids["Actor"], (goals + 1) % 3, labels)}


class DelayedReward(DiagnosticEnv):
    """Resist a small reward now, and follow a sign, for a large reward at the end.

    Entities: ``Walker`` [path, sign, left]: the sign (which of 2 doors is right) is readable in the
        first step only, then ``path`` says whether the walker went through the right or the wrong
        door, and ``left`` how many steps remain.
    Actions: ``Go``: in the first step ``take`` or a door; later the same three, without effect.
    Reward: ``take`` gives 0.3. The last of 8 steps gives 1 on the right path.
    End: at once after ``take``, else after 8 steps.
    Best return: 1. Whoever sees rewards of the same step only takes the 0.3; so does whoever counts
        what follows the end of an episode, 0.3 in each step being more than 1 in 8. A door without
        a look at the sign is worth 0.5. Random choices get 0.3 / 3 + 1 / 3 = 0.433.
    """

    STEPS = 8
    AT_THE_DOORS, WRONG, RIGHT = 0, 1, 2
    best_return = 1.0
    without_mechanism = 0.5
    random_return = 0.433

    def __init__(self) -> None:
        self.path, self.sign, self.left = self.AT_THE_DOORS, 0, self.STEPS

    def obs_space(self) -> ObsSpace:
        """One walker."""
        left = Continuous("left", mean=self.STEPS / 2, std=self.STEPS / 4)
        return ObsSpace(
            entities={"Walker": Entity([Discrete("path", 3), Discrete("sign", 3), left])}
        )

    def action_space(self) -> dict[str, ActionSpace]:
        """Take the small reward, or one of the doors."""
        return {"Go": CategoricalActionSpace(["take", "door 1", "door 2"])}

    def reset(self) -> Observation:
        """Draw the right door."""
        self.path, self.sign = self.AT_THE_DOORS, int(self.rng.integers(1, 3))
        self.left = self.STEPS
        return self._observe()

    def act(self, actions: Mapping[str, Action]) -> Observation:
        """Go through a door, or walk on."""
        go = actions["Go"]
        assert isinstance(go, CategoricalAction)
        if self.path == self.AT_THE_DOORS:
            if go.indices[0] == 0:
                return self._observe(reward=0.3, done=True)
            self.path = self.RIGHT if go.indices[0] == self.sign else self.WRONG
        self.left -= 1
        done = self.left == 0
        return self._observe(reward=float(done and self.path == self.RIGHT), done=done)

    def _observe(self, **rest: Any) -> Observation:
        sign = self.sign if self.path == self.AT_THE_DOORS else 0
        mask = CategoricalActionMask(actor_types=["Walker"])
        walker = [[self.path, sign, self.left]]
        return Observation(entities={"Walker": walker}, actions={"Go": mask}, **rest)

    @staticmethod
    def best_actions(observation: Observation) -> dict[str, Action]:
        """The door that the sign shows; any later choice is as good."""
        sign = int(observation.features["Walker"][0][1])
        labels = ["take", "door 1", "door 2"]
        return {"Go": CategoricalAction([None], np.array([sign]), labels)}
