import pytest

from entity_env.errors import BatchError, EntityEnvError
from ragged_net.tensor_checks import check_names


def test_a_message_has_all_parts():
    error = BatchError("here", expected=1, received=2, options=["a", "b"], hint="look")
    assert isinstance(error, EntityEnvError)
    assert isinstance(error, ValueError)
    assert str(error).splitlines() == [
        "here",
        "  expected: 1",
        "  received: 2",
        "  valid:    'a', 'b'",
        "  hint:     look",
    ]


def test_an_unknown_name_brings_the_nearest():
    with pytest.raises(BatchError, match="did you mean 'Robot'"):
        check_names("entity type", "the batch", ["Robots"], ["Robot", "Mine"])


def test_a_missing_name_is_named():
    with pytest.raises(BatchError, match="the batch lacks the action 'Move'"):
        check_names("action", "the batch", [], ["Move"])


def test_equal_names_in_another_order_are_fine():
    check_names("action", "the batch", ["b", "a"], ["a", "b"])
