"""Run folders: their files, checkpoints, resumes, and consent to what they import."""

__all__: list[str] = []
