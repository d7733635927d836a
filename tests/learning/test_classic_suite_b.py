"""The quick ones among the games with positions are learned with their own recipes.

The thresholds are those that each game is known for; what plays without learning gets far less.
"""

from __future__ import annotations

import pytest
from learning_support import played_by

pytestmark = pytest.mark.learning


def test_the_high_ground_is_found_by_a_network_that_sees_offsets(tmp_path):
    # Random play gets 0.125. Nothing says so but the positions that the space declares.
    assert played_by(tmp_path, "floor_is_lava")[0] > 0.97


def test_but_not_by_one_that_reads_coordinates_as_numbers(tmp_path):
    # Neighbours differ by a thousandth of the deviation of a coordinate.
    assert played_by(tmp_path, "floor_is_lava", "net.relative_position={kind: none}")[0] < 0.4


def test_a_ship_learns_to_thrust_and_to_brake(tmp_path):
    # Random play ends farther away than it starts; 0 is the return of whoever stays where it is.
    assert played_by(tmp_path, "move_to_origin")[0] > 0.9
