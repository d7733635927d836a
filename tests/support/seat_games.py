"""Games of several players for the tests of seats."""

from __future__ import annotations

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    MultiPlayerEnvironment,
    Observation,
    ObsSpace,
)


def asked(number=0.0, reward=0.0):
    """An observation that asks, and shows a number."""
    return Observation(
        features={"Card": [[number]]},
        ids={"Card": ["card"]},
        actions={"Go": CategoricalActionMask(actor_types=["Card"])},
        reward=reward,
        done=False,
    )


def told(reward=0.0, done=False, truncated=False, **metrics):
    """An observation without anything to choose."""
    return Observation(
        features={"Card": [[0.0]]}, reward=reward, done=done, truncated=truncated, metrics=metrics
    )


class Played(MultiPlayerEnvironment):
    """Plays a list of what ``reset`` and ``act`` return, again and again; notes what seats do."""

    def __init__(self, *script, seats=("a", "b", "c"), teams=None):
        self.script, self.names, self.own_teams = script, seats, teams or {}
        self.heard, self.at = [], 0

    def obs_space(self):
        return ObsSpace(entities={"Card": Entity(["number"])})

    def action_space(self):
        return {"Go": CategoricalActionSpace(["left", "right"])}

    def seats(self):
        return self.names

    def teams(self):
        return self.own_teams

    def reset(self):
        self.at = 0
        return self.script[0]

    def act(self, actions):
        self.heard.append({seat: own["Go"].labels[0] for seat, own in actions.items()})
        self.at += 1
        return self.script[self.at]

    def get_state(self):
        return {"at": self.at}

    def set_state(self, state):
        self.at = state["at"]
        return {seat: own for seat, own in self.script[self.at].items() if own.actions}


class Secrets(MultiPlayerEnvironment):
    """Each seat gets a bit that only it sees, and guesses the bit of the next seat: 1 or -1.

    Whoever sees another's bit always wins 1; without it the best return is 0.
    """

    def __init__(self, seats=3):
        self.count = seats

    def obs_space(self):
        return ObsSpace(entities={"Card": Entity(["number"])})

    def action_space(self):
        return {"Go": CategoricalActionSpace(["zero", "one"])}

    def seats(self):
        return range(self.count)

    def reset(self):
        self.bits = self.rng.integers(2, size=self.count).tolist()
        return {seat: asked(float(bit)) for seat, bit in enumerate(self.bits)}

    def act(self, actions):
        return {
            seat: told(
                1.0 if own["Go"].indices[0] == self.bits[(seat + 1) % self.count] else -1.0, True
            )
            for seat, own in actions.items()
        }
