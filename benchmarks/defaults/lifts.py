"""Lifts in an office building: callers select a lift, lifts move or open their doors.

Written by a new user; with the settings of that time its greedy agent delivered nobody.
"""

from __future__ import annotations

from typing import Any

from entity_env import (
    CategoricalAction,
    CategoricalActionMask,
    CategoricalActionSpace,
    Discrete,
    Entity,
    Environment,
    Observation,
    ObsSpace,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)

UP, DOWN, OPEN = range(3)


class Lifts(Environment):
    """Three lifts serve ten floors.

    Every person in the system costs 0.01 a step, and a delivery pays 0.05. With ``paid`` a delivery
    pays 0.25, and nobody costs anything: 0.05 + 0.01 / (1 - 0.95), see docs/rewards.md.
    """

    def __init__(
        self,
        floors: int = 10,
        lifts: int = 3,
        capacity: int = 6,
        rate: float = 0.35,
        max_steps: int = 100,
        paid: bool = False,
    ) -> None:
        self.floors, self.num_lifts, self.capacity = floors, lifts, capacity
        self.rate, self.max_steps, self.paid = rate, max_steps, paid

    def obs_space(self) -> ObsSpace:
        """Return lifts and people."""
        return ObsSpace(
            global_features=["time left"],
            entities={
                "Lift": Entity(
                    ["x", "y", Discrete("lift", 8, vocabulary="lift"), "riders", "assigned"]
                ),
                "Caller": Entity(["x", "y", "to", "waited"]),
                "Waiting": Entity(["x", "y", "to", "waited", Discrete("by", 8, vocabulary="lift")]),
                "Rider": Entity(["x", "y", "to", "waited", Discrete("by", 8, vocabulary="lift")]),
            },
        )

    def action_space(self) -> dict[str, Any]:
        """Return the moves, and the choice of a lift."""
        return {
            "Move": CategoricalActionSpace(["Up", "Down", "Open"]),
            "Assign": SelectEntityActionSpace(),
        }

    def reset(self) -> Observation:
        """Begin with all lifts on the ground floor."""
        self.steps = 0
        self.serial = 0
        self.lifts: list[dict[str, Any]] = [
            {"floor": 0, "riders": []} for _ in range(self.num_lifts)
        ]
        self.callers, self.waiting = [], []
        self.delivered = 0
        self.total_wait = 0
        self.arrive()
        return self.observe(0.0)

    def arrive(self) -> None:
        """Let people call."""
        for _ in range(self.rng.poisson(self.rate * 2)):
            if self.rng.random() < 0.6:
                start, to = 0, int(self.rng.integers(1, self.floors))
            else:
                start = int(self.rng.integers(1, self.floors))
                to = 0 if self.rng.random() < 0.7 else int(self.rng.integers(0, self.floors))
                if to == start:
                    to = 0
            self.serial += 1
            self.callers.append({"id": f"p{self.serial}", "floor": start, "to": to, "waited": 0})

    def act(self, actions: Any) -> Observation:
        """Assign, move and open, then let more people call."""
        self.steps += 1
        if "Assign" in actions:
            by_id = {p["id"]: p for p in self.callers}
            for who, lift in zip(actions["Assign"].actors, actions["Assign"].actees, strict=True):
                person = by_id.pop(who)
                person["by"] = int(lift[1:])
                self.waiting.append(person)
            self.callers = list(by_id.values())
        delivered = 0
        for lift_id, move in zip(actions["Move"].actors, actions["Move"].indices, strict=True):
            k = int(lift_id[1:])
            lift = self.lifts[k]
            if move == UP:
                lift["floor"] += 1
            elif move == DOWN:
                lift["floor"] -= 1
            else:
                out = [p for p in lift["riders"] if p["to"] == lift["floor"]]
                lift["riders"] = [p for p in lift["riders"] if p["to"] != lift["floor"]]
                delivered += len(out)
                self.total_wait += sum(p["waited"] for p in out)
                for p in list(self.waiting):
                    if (
                        p["by"] == k
                        and p["floor"] == lift["floor"]
                        and len(lift["riders"]) < self.capacity
                    ):
                        lift["riders"].append(p)
                        self.waiting.remove(p)
        self.delivered += delivered
        people = [*self.callers, *self.waiting, *(p for lift in self.lifts for p in lift["riders"])]
        for p in people:
            p["waited"] += 1
        self.arrive()
        costs = -0.01 * len(people) + 0.05 * delivered
        return self.observe(0.25 * delivered if self.paid else costs)

    def observe(self, reward: float) -> Observation:
        """Return lifts and people."""
        over = self.steps >= self.max_steps
        riders = [(k, p) for k, lift in enumerate(self.lifts) for p in lift["riders"]]
        last = self.floors - 1
        names = [f"L{k}" for k in range(self.num_lifts)]
        return Observation(
            global_features=[self.max_steps - self.steps],
            features={
                "Lift": [
                    [
                        2.0 * k,
                        lift["floor"],
                        k,
                        len(lift["riders"]),
                        sum(p["by"] == k for p in self.waiting),
                    ]
                    for k, lift in enumerate(self.lifts)
                ],
                "Caller": [[-2, p["floor"], p["to"], p["waited"]] for p in self.callers],
                "Waiting": [
                    [2.0 * p["by"] - 0.7, p["floor"], p["to"], p["waited"], p["by"]]
                    for p in self.waiting
                ],
                "Rider": [
                    [2.0 * k, self.lifts[k]["floor"], p["to"], p["waited"], k] for k, p in riders
                ],
            },
            ids={
                "Lift": names,
                "Caller": [p["id"] for p in self.callers],
                "Waiting": [p["id"] for p in self.waiting],
                "Rider": [p["id"] for _, p in riders],
            },
            actions={
                "Move": CategoricalActionMask(
                    actor_types=["Lift"],
                    mask=[[lift["floor"] < last, lift["floor"] > 0, True] for lift in self.lifts],
                ),
                "Assign": SelectEntityActionMask(actor_types=["Caller"], actee_types=["Lift"]),
            },
            reward=reward,
            done=over,
            truncated=over,
            metrics={"delivered": self.delivered, "wait": self.total_wait / max(self.delivered, 1)}
            if over
            else {},
        )


def script(observation: Observation) -> dict[str, Any]:
    """Send the nearest lift with few riders; a lift goes on while there is something ahead."""
    lifts = observation.features["Lift"]
    names = observation.ids["Lift"]
    callers = observation.features["Caller"]
    actions: dict[str, Any] = {}
    load = [row[3] + row[4] for row in lifts]
    chosen = []
    for _, floor, _, _ in callers:
        best = min(range(len(lifts)), key=lambda k: abs(lifts[k][1] - floor) + 3 * load[k])
        load[best] += 1
        chosen.append(names[best])
    if callers:
        actions["Assign"] = SelectEntityAction(list(observation.ids["Caller"]), chosen)
    moves = []
    for k, row in enumerate(lifts):
        floor = row[1]
        out = [r[2] for r in observation.features["Rider"] if r[4] == k]
        calls = [w[1] for w in observation.features["Waiting"] if w[4] == k]
        full = row[3] >= 6
        if floor in out or (floor in calls and not full):
            moves.append("Open")
            continue
        targets = out + ([] if full else calls)
        if not targets:
            moves.append("Open" if floor == 0 else "Down")
            continue
        goal = min(targets, key=lambda t: abs(t - floor))
        moves.append("Up" if goal > floor else "Down")
    labels = ["Up", "Down", "Open"]
    actions["Move"] = CategoricalAction(list(names), [labels.index(m) for m in moves], labels)
    return actions
