from entity_env.errors import BatchError, EntityEnvError


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
