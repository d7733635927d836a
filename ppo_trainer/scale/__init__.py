"""Training with processes of Ray: learners, processes that step worlds, and rollout workers."""

__all__: list[str] = []
