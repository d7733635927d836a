"""The settings of a network: what is wrong with them, and what would be right nearby."""

import numpy as np
import pytest

from entity_env.errors import EntityEnvError, SettingError
from ragged_net import NetConfig


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"dim": 33, "heads": 2}, "dim=32 or dim=34 with heads=2; heads=1 or heads=3 with dim=33"),
        ({"dim": 64, "heads": 3}, "dim=63 or dim=66 with heads=3; heads=2 or heads=4 with dim=64"),
        ({"dim": 2, "heads": 4}, "dim=4 with heads=4; heads=1 or heads=2 with dim=2"),
        ({"dim": 7, "heads": 4}, "dim=4 or dim=8 with heads=4; heads=1 or heads=7 with dim=7"),
    ],
)
def test_a_width_that_cannot_be_split_names_its_neighbours(settings, hint):
    with pytest.raises(SettingError) as caught:
        NetConfig(**settings)
    assert f"hint:     {hint}" in str(caught.value)
    for part in hint.split("; "):  # each of which works
        widths, others = part.split(" with ")
        for one in widths.split(" or "):
            pairs = (text.split("=") for text in (one, others))
            NetConfig(**{name: int(number) for name, number in pairs})


@pytest.mark.parametrize("name", ["dim", "layers", "heads", "mlp_ratio"])
@pytest.mark.parametrize("value", [0, -1, 64.0, True, "64", None, [64], np.float32(64)])
def test_sizes_that_are_none(name, value):
    with pytest.raises(SettingError, match=f"NetConfig: invalid {name}"):
        NetConfig(**{name: value})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"dims": 64}, "did you mean 'dim'?"),
        ({"dropout": 0.1}, "NetConfig has no argument 'dropout'"),
        ({"value_norm": "popatr"}, "did you mean 'popart'?"),
        ({"attention": "groupd"}, "did you mean 'grouped'?"),
        ({"attention": ["numba"]}, "did you mean 'numba'?"),
        ({"value_norm": np.zeros(2)}, "does not exist"),
    ],
)
def test_names_that_do_not_exist(settings, words):
    with pytest.raises(EntityEnvError) as caught:
        NetConfig(**settings)
    assert words in str(caught.value)
