"""Words and forms of other libraries, for the hints of errors.

The letters of ``terminated`` are closest to ``truncated``, but its meaning is that of ``done``.
Words that come from elsewhere are therefore listed by their meaning; letters decide about others.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from entity_env.errors import UnknownEnvironmentError, nearest

__all__ = ["argument_hint", "check_methods", "returned_hint"]

_ARGUMENTS = {
    "done": "terminat* terminal* done* finish* end ends ended over game_over episode_over",
    "truncated": "truncat* timeout* time_limit* timelimit* cut_off cutoff",
    "metrics": "info infos log logs stats statistics",
    "features": "obs observation observations data",
    "actions": "mask masks action_mask* legal* valid* available* allowed*",
    "visible": "hidden visibility",
    "reward": "rew rews returns",
    "global_features": "global globals global_obs global_state state",
    "num_envs": "n_envs n_env nenvs envs n_rows num_rows rows batch_size n",
    "num_processes": "n_proc* n_workers num_workers workers processes n_jobs",
    "max_steps": "max_episode_steps max_episode_length max_length limit steps horizon",
    "index_to_label": "labels label choices names n num_actions n_actions",
    "episodes": "n_episodes num_episodes n_eval_episodes",
}
"""The words of other libraries for each argument; ``*`` stands for any ending."""
_ALSO = {
    "truncated": "set done=True, too",
    "metrics": "metrics={name: number} is logged at the end of the episode",
    "features": "features={type: rows}, one row for each entity",
    "actions": "actions={name: mask}, such as CategoricalActionMask(mask=...)",
    "visible": "visible={type: mask}, with False for hidden entities",
    "index_to_label": "a list with a label for each choice",
}
_METHODS = {
    "act": ("step",),
    "obs_space": ("observation_space", "observation_spaces"),
    "action_space": ("action_spaces",),
    "seats": ("possible_agents", "agents", "players"),
}
"""The methods of an environment, and their names in other libraries."""


def argument_hint(word: str, valid: Iterable[str]) -> str | None:
    """Return the hint for an unknown argument: the one that it means, or the closest one."""
    valid = list(valid)
    plain = word.lower().strip("_").removeprefix("is_")
    for name, words in _ARGUMENTS.items():
        if name in valid and any(_is_form(plain, word) for word in words.split()):
            return f"did you mean {name!r}?" + (f" {_ALSO[name]}" if name in _ALSO else "")
    return nearest(word, valid)


def _is_form(word: str, form: str) -> bool:
    return word.startswith(form[:-1]) if form.endswith("*") else word == form


def check_methods(kind: type) -> None:
    """Raise UnknownEnvironmentError if a class lacks a method, or has something else in its place.

    Args:
        kind: A class of environments, of games of several players, or of rows.
    """
    names = [key for key in dir(kind) if not key.startswith("_")]
    for method in sorted(getattr(kind, "__abstractmethods__", ())):
        others = [name for name in _METHODS.get(method, ()) if name in names]
        defined = [key for key in vars(kind) if not key.startswith("_")]
        raise UnknownEnvironmentError(
            f"{kind.__name__} has no method {method!r}",
            expected=f"def {method}{inspect.signature(getattr(kind, method))}",
            received=f"a class with {', '.join(defined)}" if defined else "an empty class",
            hint=f"rename {others[0]!r} to {method!r}" if others else nearest(method, defined),
        )
    for method in ("obs_space", "action_space"):
        if not callable(getattr(kind, method)):
            raise UnknownEnvironmentError(
                f"{method} of {kind.__name__} is not a method",
                expected=f"def {method}(self), which returns the space",
                received=type(getattr(kind, method)).__name__,
            )


def returned_hint(returned: object, wanted: str) -> str | None:
    """Return the hint for a value that ``reset`` or ``act`` returned.

    Args:
        returned: The value.
        wanted: The value that it should have returned, as text.
    """
    if isinstance(returned, tuple) and len(returned) == 2:
        return f"return {wanted} alone; numbers to log are Observation(metrics={{name: number}})"
    if isinstance(returned, tuple) and len(returned) in (4, 5):
        return (
            f"return {wanted} alone, with the rest in it: Observation(features=..., reward=..., "
            "done=terminated or truncated, truncated=truncated, metrics=info)"
        )
    if returned is None:
        return "does the method end without a return statement?"
    return None
