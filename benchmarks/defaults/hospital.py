"""Free beds take patients who wait; who waits gets worse, who is too ill dies."""

from __future__ import annotations

from typing import Any

from entity_env import (
    Entity,
    Environment,
    Observation,
    ObsSpace,
    SelectEntityAction,
    SelectEntityActionMask,
    SelectEntityActionSpace,
)


class Hospital(Environment):
    """1 for a patient who goes home, -3 for one who dies. Long episodes of 300 steps."""

    def __init__(self, beds: int = 6, steps: int = 300) -> None:
        self.num_beds, self.limit = beds, steps

    def obs_space(self) -> ObsSpace:
        """Return beds and patients."""
        return ObsSpace(
            entities={
                "Bed": Entity(["number", "intensive care", "illness of its patient"]),
                "Patient": Entity(["illness", "gets worse by", "age", "room of arrival"]),
            }
        )

    def action_space(self) -> dict[str, Any]:
        """Return the choice of a patient."""
        return {"Admit": SelectEntityActionSpace()}

    def reset(self) -> Observation:
        """Open an empty ward."""
        self.steps = self.serial = 0
        self.beds: list[float] = [0.0] * self.num_beds
        self.patients: dict[str, list[float]] = {}
        self.arrive()
        return self.observe(0.0)

    def arrive(self) -> None:
        """Let somebody come to the door."""
        self.serial += 1
        illness, worse = self.rng.uniform(2, 8), self.rng.choice([0.05, 0.2, 0.5])
        extra = [float(self.rng.integers(1, 95)), float(self.rng.integers(0, 40))]
        self.patients[f"p{self.serial}"] = [float(illness), float(worse), *extra]

    def act(self, actions: Any) -> Observation:
        """Admit, heal, and see who has waited too long."""
        self.steps += 1
        reward = 0.0
        admitted = actions.get("Admit")
        if admitted is not None:
            for bed, patient in zip(admitted.actors, admitted.actees, strict=True):
                if patient in self.patients:  # two beds may want the same one
                    self.beds[bed] = self.patients.pop(patient)[0]
        for k, illness in enumerate(self.beds):
            if illness:
                self.beds[k] = max(0.0, illness - (1.5 if k < 2 else 1.0))
                reward += self.beds[k] == 0.0
        for name, patient in list(self.patients.items()):
            patient[0] += patient[1]
            if patient[0] > 10:
                reward -= 3
                del self.patients[name]
        for _ in range(min(int(self.rng.poisson(1.6)), 20 - len(self.patients))):
            self.arrive()
        return self.observe(reward)

    def observe(self, reward: float) -> Observation:
        """Return the ward and the waiting room."""
        over = self.steps == self.limit
        free = [k for k, illness in enumerate(self.beds) if not illness]
        return Observation(
            features={
                "Bed": [[k, k < 2, illness] for k, illness in enumerate(self.beds)],
                "Patient": [list(patient) for patient in self.patients.values()],
            },
            ids={"Bed": list(range(self.num_beds)), "Patient": list(self.patients)},
            actions={"Admit": SelectEntityActionMask(actor_ids=free, actee_types=["Patient"])}
            if free and self.patients
            else {},
            reward=reward,
            done=over,
            truncated=over,
        )


def script(observation: Observation) -> dict[str, Any]:
    """Admit who would die first."""
    if "Admit" not in observation.actions:
        return {}
    patients = dict(zip(observation.ids["Patient"], observation.features["Patient"], strict=True))
    urgent = sorted(patients, key=lambda name: (10 - patients[name][0]) / patients[name][1])
    beds = list(observation.actions["Admit"].actor_ids)
    chosen = [urgent[min(k, len(urgent) - 1)] for k in range(len(beds))]
    return {"Admit": SelectEntityAction(beds, chosen)}
