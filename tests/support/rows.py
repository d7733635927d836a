"""Single rows of a ``VecObs`` as plain Python values, and compiled games that Python runs."""

from __future__ import annotations

import functools
import math

from support.tiny_envs import lists

from entity_env import VecSelectEntityActionMask


def interpret_all(monkeypatch, kind, resets=False):
    """Let Python run all games of a class of rows: to compile them would take most of a test."""
    begin = kind.__init__

    @functools.wraps(begin)
    def interpreted(self, *values, **settings):
        begin(self, *values, **settings)
        self.interpret(resets)

    monkeypatch.setattr(kind, "__init__", interpreted)


def rows_of(obs):
    """A dict for each row; parts that may be left out where they say nothing are always there."""
    rows = []
    finals = iter([] if obs.final is None else rows_of(obs.final))
    features = {name: lists(buffer) for name, buffer in obs.features.items()}
    visible = {name: lists(buffer) for name, buffer in obs.visible.items()}
    masks = {name: _mask(mask) for name, mask in obs.action_masks.items()}
    for i in range(len(obs)):
        shown = {
            name: [one for (one,) in visible[name][i]] if name in visible else [True] * len(own[i])
            for name, own in features.items()
        }
        truncated = bool(obs.truncated[i])
        rows.append(
            {
                "features": {name: own[i] for name, own in features.items()},
                "visible": shown,
                "masks": {name: own[i] for name, own in masks.items()},
                "global_features": obs.global_features[i].tolist(),
                "reward": float(obs.reward[i]),
                "done": bool(obs.done[i]),
                "truncated": truncated,
                "metrics": {
                    name: float(own[i])
                    for name, own in obs.metrics.items()
                    if not math.isnan(own[i])
                },
                "final": {**next(finals), "done": True} if truncated and obs.final else None,
            }
        )
    assert next(finals, None) is None
    return rows


def _mask(mask):
    """For each frame its actors, what each can choose, and which of that it may."""
    actors = [[one for (one,) in frame] for frame in lists(mask.actors)]
    if not isinstance(mask, VecSelectEntityActionMask):
        allowed = lists(mask.mask)
        actees = [list(range(mask.mask.size2()))] * len(actors)
    else:
        actees = [[one for (one,) in frame] for frame in lists(mask.actees)]
        allowed = [[[True] * len(e)] * len(a) for a, e in zip(actors, actees, strict=True)]
        if mask.mask is not None:
            pairs = [[one for (one,) in frame] for frame in lists(mask.mask)]
            allowed = [
                [flat[k * len(e) : (k + 1) * len(e)] for k in range(len(a))]
                for flat, a, e in zip(pairs, actors, actees, strict=True)
            ]
    return [
        {"actors": a, "actees": e, "mask": m}
        for a, e, m in zip(actors, actees, allowed, strict=True)
    ]
