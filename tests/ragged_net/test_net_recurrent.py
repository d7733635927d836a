"""The recurrent memory of a network."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from net_support import (
    ACTIONS,
    GLOBAL_ACTIONS,
    GLOBAL_OBS,
    LENGTHS,
    OBS,
    SMALL,
    TOLERANCE,
    choices,
    disturb,
    hide,
    make_batch,
    ragged,
)
from torch.testing import assert_close

from entity_env.errors import BatchError, SettingError
from ragged_net import CategoricalActors, NetConfig, RaggedNet, SelectActors, plain_torch
from ragged_net.frames import Frames
from ragged_net.model.memory import Memory, Steps, join, shown_means

KINDS = pytest.mark.parametrize("kind", ["lstm", "gru"])
FITS = NetConfig(dim=32, layers=2, heads=2)  # the compiled kernels


def remembering(kind, config=SMALL, *, with_global=True, value_config=None, seed=0):
    torch.manual_seed(seed)
    spaces = (GLOBAL_OBS, GLOBAL_ACTIONS) if with_global else (OBS, ACTIONS)
    return RaggedNet(*spaces, replace(config, memory=kind, memory_size=12), value_config)


# ------------------------------------------------------------------------------- by hand


def test_steps_over_ragged_sequences():
    # Frames 0 and 1 are one sequence, 2 to 5 another, 6 a third. The longest goes first.
    steps = Steps.of([2, 4, 1], 7)
    assert steps.longest_first.tolist() == [1, 0, 2]
    assert steps.frames.tolist() == [2, 0, 6, 3, 1, 4, 5]
    assert steps.sizes.tolist() == [3, 2, 1, 1]


def test_one_more_row_for_each_frame():
    # Frames of 2, 0 and 1 rows become 3, 1 and 2.
    frames = Frames(torch.tensor([0, 2, 2, 3]), 3, torch.tensor([False, True, False]))
    joined = join(torch.tensor([[1.0], [2], [3]]), frames, torch.tensor([[7.0], [8], [9]]))
    assert joined.rows.flatten().tolist() == [1, 2, 7, 8, 3, 9]
    assert joined.frames.offsets.tolist() == [0, 3, 4, 6]
    assert joined.frames.hidden.tolist() == [False, True, False, False, False, False]
    assert joined.shift.tolist() == [0, 0, 2]


def slow_lstm(weights, x, h, c):
    """One step of one frame, from the equations of the paper with a forget gate."""
    gates = weights["weight_ih_l0"] @ x + weights["bias_ih_l0"]
    gates = gates + weights["weight_hh_l0"] @ h + weights["bias_hh_l0"]
    i, f, g, o = gates.chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def slow_gru(weights, x, h):
    own = weights["weight_ih_l0"] @ x + weights["bias_ih_l0"]
    known = weights["weight_hh_l0"] @ h + weights["bias_hh_l0"]
    (r, z, n), (r_h, z_h, n_h) = own.chunk(3), known.chunk(3)
    z = torch.sigmoid(z + z_h)
    return (1 - z) * torch.tanh(n + torch.sigmoid(r + r_h) * n_h) + z * h


@KINDS
def test_the_cells_step_as_their_equations_say_forward_and_backward(kind):
    torch.manual_seed(0)
    memory = Memory(NetConfig(dim=4, heads=1, memory=kind, memory_size=3)).double()
    weights = dict(memory.cell.named_parameters())
    pooled = torch.randn(7, 4, dtype=torch.float64)
    state = torch.randn(3, memory.state_size, dtype=torch.float64)
    lengths = [2, 4, 1]
    recalled = memory(pooled, state, lengths)
    hidden, last, at = [], [], 0
    for own, length in zip(state, lengths, strict=True):
        for x in memory.norm(pooled[at : at + length]):
            own = (
                torch.cat(slow_lstm(weights, x, *own.chunk(2)))
                if kind == "lstm"
                else slow_gru(weights, x, own)
            )
            hidden.append(own[:3])
        last.append(own)
        at += length
    assert_close(recalled.hidden, torch.stack(hidden))
    assert_close(recalled.state, torch.stack(last))
    parameters = list(memory.cell.parameters())
    grade = torch.randn(7, 3, dtype=torch.float64)
    fast = torch.autograd.grad((recalled.hidden * grade).sum(), parameters)
    slow = torch.autograd.grad((torch.stack(hidden) * grade).sum(), parameters)
    assert_close(fast, slow)


@KINDS
def test_gradients_in_float64(kind):
    torch.manual_seed(0)
    memory = Memory(NetConfig(dim=3, heads=1, memory=kind, memory_size=2)).double()
    pooled = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    state = torch.randn(3, memory.state_size, dtype=torch.float64, requires_grad=True)

    def known(pooled, state):
        recalled = memory(pooled, state, [1, 3, 1])
        return recalled.hidden, recalled.entities, recalled.state

    assert torch.autograd.gradcheck(known, (pooled, state))


# ---------------------------------------------------------- the network, at once and in steps


def in_steps(net, batch, states, lengths, given=None):
    """The slow reference: frame by frame, each with the state that the one before left behind."""
    outputs, last, at = [], [], 0
    for number, length in enumerate(lengths):
        state = states[number : number + 1]
        for frame in range(at, at + length):
            one = batch.select(torch.tensor([frame]))
            own = None if given is None else chosen_in(given, frame)
            outputs.append(net(one, memory=state, given=own, greedy=given is None))
            state = outputs[-1].memory
        last.append(state)
        at += length
    return outputs, torch.cat(last)


def chosen_in(given, frame):
    return {name: chosen.select(torch.tensor([frame])).values for name, chosen in given.items()}


@KINDS
@pytest.mark.parametrize("config", [SMALL, FITS], ids=["torch", "kernels"])
@pytest.mark.parametrize("lengths", [[2, 3], [1, 1, 1, 1, 1], [5], [3, 1, 1]], ids=str)
def test_whole_sequences_give_what_their_steps_give_forward_and_backward(kind, config, lengths):
    net = remembering(kind, config)
    batch = make_batch(**LENGTHS, with_global=True, pair_mask=True)
    states = torch.randn(len(lengths), net.memory.state_size)
    first = net(batch, memory=states, sequences=lengths, greedy=True)
    given = {name: action.chosen for name, action in first.actions.items()}
    whole = net(batch, memory=states, sequences=torch.tensor(lengths), given=choices(first))
    steps, last = in_steps(net, batch, states, lengths, given)
    assert_close(whole.memory, last, **TOLERANCE)
    assert_close(whole.value, torch.cat([step.value for step in steps]), **TOLERANCE)
    for name, action in whole.actions.items():
        own = torch.cat([step.actions[name].log_prob for step in steps])
        assert_close(action.log_prob, own, **TOLERANCE)

    def loss(outputs):
        numbers = [output.value.sum() for output in outputs]
        numbers += [a.log_prob.sum() for output in outputs for a in output.actions.values()]
        return sum(numbers)

    parameters = dict(net.named_parameters())
    fast = torch.autograd.grad(loss([whole]), list(parameters.values()), allow_unused=True)
    slow = torch.autograd.grad(loss(steps), list(parameters.values()), allow_unused=True)
    for name, a, b in zip(parameters, fast, slow, strict=True):
        assert (a is None) == (b is None), name
        if a is not None:
            assert_close(a, b, rtol=1e-4, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


@KINDS
def test_kernels_and_torch_say_the_same(kind):
    net = remembering(kind, FITS)
    batch = make_batch(**LENGTHS, with_global=True)
    state = torch.randn(2, net.memory.state_size)
    fast = net(batch, memory=state, sequences=[3, 2], greedy=True)
    with plain_torch():
        slow = net(batch, memory=state, sequences=[3, 2], greedy=True)
    assert_close(fast.value, slow.value, **TOLERANCE)
    assert_close(fast.memory, slow.memory, **TOLERANCE)
    for name, action in fast.actions.items():
        assert_close(action.log_prob, slow.actions[name].log_prob, **TOLERANCE)


@KINDS
def test_the_past_reaches_actions_and_value(kind):
    net = remembering(kind)
    batch = make_batch(**LENGTHS, with_global=True)
    begun = net.initial_state(5)
    assert begun.eq(0).all()
    one = net(batch, memory=begun, greedy=True)
    other = net(batch, memory=torch.randn_like(begun), greedy=True)
    assert (one.value - other.value).abs().min() > 1e-3
    for name, action in one.actions.items():
        assert (action.log_prob - other.actions[name].log_prob).abs().max() > 1e-7, name
    assert_close(net.value(batch, memory=begun), one.value, **TOLERANCE)


def test_a_memory_knows_nothing_of_hidden_entities():
    net = remembering("lstm", with_global=False)
    # Robot 0 acts and is selected by cannon 0; the mine 0 of the frame is neither.
    actions = {
        "Move": CategoricalActors(ragged([[2]]), torch.ones(1, 4, dtype=torch.bool)),
        "Fire": SelectActors(ragged([[3]]), ragged([[1, 2]])),
    }
    hidden = hide(replace(make_batch([2], [1], [1]), actions=actions), Mine=[0])
    begun = net.initial_state(1)
    before = net(hidden, memory=begun).memory
    # Numbers of who is hidden differ, and the memory does not, bit by bit.
    assert torch.equal(net(disturb(hidden, "Mine", 0), memory=begun).memory, before)
    assert not torch.equal(net(disturb(hidden, "Mine", 1), memory=begun).memory, before)


def test_means_of_what_is_shown():
    # Frames [1, 3, 8 hidden], [], [5 hidden].
    rows = torch.tensor([[1.0], [3], [8], [5]])
    frames = Frames(torch.tensor([0, 3, 3, 4]), 4)
    hidden = torch.tensor([False, False, True, True])
    assert shown_means(rows, frames, hidden).flatten().tolist() == [2, 0, 0]
    assert shown_means(rows, frames, None).flatten().tolist() == [4, 0, 5]


@KINDS
@pytest.mark.parametrize("config", [SMALL, FITS], ids=["torch", "kernels"])
def test_frames_of_no_one_and_five_hundred_entities(kind, config):
    net = remembering(kind, config, with_global=False)
    batch = make_batch([0, 1, 500, 0], [0, 0, 0, 1], [0, 0, 0, 0])
    output = net(batch, memory=net.initial_state(4))
    output.value.sum().backward()
    assert output.value.isfinite().all()
    assert all(p.grad.isfinite().all() for p in net.memory.parameters())
    # An empty frame has the memory itself to go by.
    state = torch.randn(1, net.memory.state_size)
    empty = batch.select(torch.tensor([0]))
    assert net(empty, memory=state).value != net(empty, memory=-state).value
    nothing = net(batch.select(torch.tensor([], dtype=torch.int64)), memory=net.initial_state(0))
    assert nothing.memory.shape == (0, net.memory.state_size)
    assert net.initial_state(0).shape == nothing.memory.shape


@KINDS
def test_a_separate_value_network_reads_the_memory_and_does_not_train_it(kind):
    net = remembering(kind, value_config=replace(SMALL, dim=24))
    batch = make_batch(**LENGTHS, with_global=True)
    one, other = net.initial_state(5), torch.randn(5, net.memory.state_size)
    assert not torch.allclose(net.value(batch, memory=one), net.value(batch, memory=other))
    assert_close(net(batch, memory=other).value, net.value(batch, memory=other), **TOLERANCE)
    net(batch, memory=one).value.sum().backward()
    assert all(p.grad is None for p in net.policy_parameters())
    assert all(p.grad is not None for p in net.value_memory.parameters())


def test_half_precision_leaves_states_whole():
    net = remembering("lstm", with_global=False)
    batch = make_batch(**LENGTHS)
    exact = net(batch, memory=net.initial_state(5), greedy=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = net(batch, memory=net.initial_state(5), greedy=True)
    assert output.memory.dtype == torch.float32
    assert_close(output.memory, exact.memory, rtol=0.05, atol=0.05)


def test_outputs_are_concatenated_with_their_states():
    net = remembering("gru")
    batch = make_batch(**LENGTHS, with_global=True)
    state = torch.randn(5, net.memory.state_size)
    whole = net(batch, memory=state, greedy=True)
    parts = [
        net(batch.select(torch.arange(a, b)), memory=state[a:b], greedy=True)
        for a, b in ((0, 2), (2, 5))
    ]
    assert_close(type(whole).cat(parts).memory, whole.memory, **TOLERANCE)


# ---------------------------------------------------------------------------- off, and wrong


def test_without_memory_there_is_nothing_of_it():
    torch.manual_seed(0)
    net = RaggedNet(OBS, ACTIONS, SMALL)
    assert not [name for name in net.state_dict() if "memory" in name]
    batch = make_batch(**LENGTHS)
    assert net(batch).memory is None
    assert net.initial_state(3).shape == (3, 0)
    for wrong in ({"memory": torch.zeros(5, 0)}, {"sequences": [5]}):
        with pytest.raises(BatchError, match="has no memory"):
            net(batch, **wrong)
    with pytest.raises(BatchError, match="has no memory"):
        net.value(batch, memory=torch.zeros(5, 0))


@KINDS
@pytest.mark.parametrize("value_config", [None, SMALL], ids=["shared", "separate"])
def test_a_missing_or_wrong_state_is_one_clear_error(kind, value_config):
    net = remembering(kind, with_global=False, value_config=value_config)
    batch, width = make_batch(**LENGTHS), net.memory.state_size
    for call in (net, net.value):
        with pytest.raises(BatchError, match=rf"no state was given\n.*\(5, {width}\)"):
            call(batch)
        for wrong in (
            torch.zeros(4, width),
            torch.zeros(5, width + 1),
            torch.zeros(5),
            torch.zeros(5, width).double(),
            torch.zeros(5, width, device="meta"),
            [0.0] * 5,
        ):
            with pytest.raises(BatchError, match=rf"\(5, {width}\).*\n.*\n.*initial_state"):
                call(batch, memory=wrong)


@pytest.mark.parametrize(
    "lengths", [[2, 2], [5, 0], [-1, 6], [2.5, 2.5], [[5]], [], torch.tensor([4, 2])], ids=str
)
def test_sequences_of_another_batch(lengths):
    net = remembering("gru", with_global=False)
    state = torch.zeros(len(lengths), net.memory.state_size)
    with pytest.raises(BatchError, match="sequences are not those of the batch"):
        net(make_batch(**LENGTHS), memory=state, sequences=lengths)


def test_settings_that_do_not_exist():
    with pytest.raises(SettingError, match="did you mean 'lstm'"):
        NetConfig(memory="lsmt")
    with pytest.raises(SettingError, match=r"memory_size.*\n.*whole number >= 1"):
        NetConfig(memory="gru", memory_size=0)
    with pytest.raises(SettingError, match="is not a cell"):
        Memory(NetConfig())
    with pytest.raises(SettingError, match="separate value network"):
        RaggedNet(OBS, ACTIONS, NetConfig(memory="gru"), NetConfig(memory="gru"))


def test_long_sequences_do_not_pay_for_the_longest():
    # One of 100 frames and 50 of one: 150 frames in 100 steps, and not 51 x 100.
    steps = Steps.of([1] * 50 + [100], 150)
    assert int(steps.sizes.sum()) == 150
    assert steps.sizes.tolist() == [51, *[1] * 99]
    assert np.array_equal(np.sort(steps.frames.numpy()), np.arange(150))
