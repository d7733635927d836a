"""Changes batches in every way that public Python allows, between calls and before gradients.

Run by ``test_net_memory.py`` as a process of its own, for what it looks for is a crash::

    python tests/ragged_net/mutate_batches.py SEED ROUNDS
"""

import random
import sys
import threading
import time
from collections import Counter

import torch
from net_support import GLOBAL_ACTIONS, GLOBAL_OBS, make_batch

from entity_env.errors import EntityEnvError
from ragged_net import EntityBatch, GrowingBatch, Layout, NetConfig, RaggedNet, RaggedTensor

HUGE = [-(2**62), -(10**6), -1, 1, 7, 10**6, 2**40, 2**62]


def tensors_of(batch):
    """All tensors of a batch, by name."""
    found = {"global": batch.global_features, **batch.visible}
    for name, rows in batch.entities.items():
        if isinstance(rows, RaggedTensor):
            found |= {f"{name} values": rows.values, f"{name} offsets": rows.offsets}
    for name, action in batch.actions.items():
        for part in ("actors", "actees", "mask"):
            ragged = getattr(action, part, None)
            if isinstance(ragged, torch.Tensor):
                found[f"{name} {part}"] = ragged
            elif isinstance(ragged, RaggedTensor):
                found |= {f"{name} {part}": ragged.values, f"{name} {part} ends": ragged.offsets}
    return found


def write(tensor, dice):
    """Other numbers, by a way that autograd sees or by one that it does not."""
    if not tensor.numel():
        return
    place, number = dice.randrange(tensor.numel()), dice.choice(HUGE)
    number = bool(number % 2) if tensor.dtype == torch.bool else number
    match dice.randrange(4):
        case 0:
            tensor.view(-1)[place] = number
        case 1:
            tensor.data.view(-1)[place] = number
        case 2:
            tensor.detach().numpy().reshape(-1)[place] = number
        case 3:
            tensor.fill_(number)


def other_size(tensor, dice):
    """A tensor of the same kind with another first dimension, or another number of them."""
    count = max(0, tensor.shape[0] + dice.choice([-3, -1, 1, 5, 100_000]))
    shape = dice.choice([(count, *tensor.shape[1:]), (count,), (count, 1, 1), (3,), ()])
    return torch.zeros(
        shape,
        dtype=dice.choice(
            [tensor.dtype, torch.float64, torch.int32, torch.bfloat16, torch.complex64]
        ),
    )


def resize(tensor, dice):
    """Another size, in the same memory or in other memory."""
    other = other_size(tensor, dice)
    match dice.randrange(4):
        case 0:
            tensor.resize_(other.shape)
        case 1:
            tensor.set_(other.to(tensor.dtype))
        case 2:
            tensor.data = other
        case 3:
            tensor.untyped_storage().resize_(dice.choice([0, 8]))


def replace_part(batch, dice):
    """Something else in the place of a part."""
    parts = dice.choice([batch.entities, batch.actions])
    name = dice.choice(list(parts))
    parts[name] = dice.choice([None, [1, 2], *batch.entities.values(), *batch.actions.values()])


def change(batch, net, dice):
    """One change of a batch, or of a network's weights or buffers."""
    kind = dice.choices(["write", "resize", "replace", "weight"], [8, 5, 1, 2])[0]
    if kind == "replace":
        replace_part(batch, dice)
        return kind
    found = dict(net.named_parameters()) | dict(net.named_buffers())
    found = found if kind == "weight" else tensors_of(batch)
    name = dice.choice(list(found))
    try:
        with torch.no_grad():
            (write if kind == "write" or dice.random() < 0.3 else resize)(found[name], dice)
    except (RuntimeError, OverflowError, IndexError, ValueError, TypeError):
        pass  # torch does not let everybody do everything
    return f"{kind} {name}"


def use(batch, net, given, dice, between):
    """One of the things that are done with a batch; ``between`` is called before gradients."""
    match dice.randrange(8):
        case 0:
            with torch.no_grad():
                net(batch)
        case 1:
            net.value(batch)
        case 2:
            net.update_statistics(batch)
        case 3:
            batch.select(torch.tensor([3, 0, 0])).select(torch.tensor([2]))
        case 4:
            grown = GrowingBatch(2)
            grown.add(batch)
            grown.add(batch)
            net(grown.all(), greedy=True)
        case 5:
            net.encoder.embedding(batch, Layout.of(batch, with_global=True))
        case 6 | 7:
            output = net(batch, given=given, trusted=dice.random() < 0.7)
            total = output.value.sum() + sum(a.log_prob.sum() for a in output.actions.values())
            between()
            total.backward()


def race(seed, rounds):
    """Passes of a network, while another thread writes to all that counts rows or names them."""
    dice, stop = random.Random(seed), threading.Event()
    torch.manual_seed(seed)
    net = RaggedNet(GLOBAL_OBS, GLOBAL_ACTIONS, NetConfig(dim=32, layers=1, heads=2))
    counts = [2, 0, 3, 1, 9] * 40
    batch = make_batch(counts, counts, [n % 2 for n in counts], with_global=True)
    arrays = [t.numpy() for t in tensors_of(batch).values() if t.dtype == torch.int64]
    given = {name: action.chosen.values for name, action in net(batch).actions.items()}
    arrays += [choices.numpy() for choices in given.values()]

    def disturb():
        while not stop.is_set():
            array = dice.choice(arrays)
            place = dice.randrange(len(array))
            before = array[place]
            array[place] = dice.choice(HUGE)
            time.sleep(0)  # lets the network look
            array[place] = before
            time.sleep(0)

    thread, outcomes = threading.Thread(target=disturb), Counter()
    thread.start()
    for number in range(rounds):
        try:
            output = net(batch, given=given, trusted=bool(number % 2))
            (output.value.sum() + output.actions["Fire"].log_prob.sum()).backward()
            outcomes["fine"] += 1
        except (EntityEnvError, RuntimeError, IndexError) as error:  # torch reads them, too
            outcomes[type(error).__name__] += 1
    stop.set()
    thread.join()
    print(dict(outcomes))


def main(seed, rounds):
    """Prints how often each kind of thing happened."""
    outcomes = Counter()
    for number in range(rounds):
        dice = random.Random(seed * 1_000_003 + number)
        torch.manual_seed(number)
        net = RaggedNet(GLOBAL_OBS, GLOBAL_ACTIONS, NetConfig(dim=32, layers=1, heads=2))
        batch = make_batch(
            [2, 0, 3, 1, 9], [1, 0, 2, 3, 4], [1, 0, 2, 0, 1],
            with_global=True, pair_mask=dice.random() < 0.5, seed=number,
        )  # fmt: skip
        if dice.random() < 0.3:
            visible = {"Mine": torch.ones(15, dtype=torch.bool)}
            batch = EntityBatch(batch.entities, batch.global_features, visible, batch.actions)
        given = {name: a.chosen.values for name, a in net(batch).actions.items()}
        done = []

        def mutate(batch=batch, net=net, dice=dice, done=done):
            done.append(change(batch, net, dice))

        for _ in range(dice.randrange(1, 4)):
            if dice.random() < 0.7:
                mutate()
            try:
                between = mutate if dice.random() < 0.5 else lambda: None
                use(batch, net, given, dice, between)
                outcomes["fine"] += 1
            except EntityEnvError as error:
                outcomes[type(error).__name__] += 1
            except Exception as error:
                # Torch's own words about what autograd has saved, or about layers of its own.
                expected = "modified by an inplace operation" in str(error)
                if not expected and not any(what.startswith("weight") for what in done):
                    print("round", number, done, flush=True)
                    raise
                outcomes["noticed by torch"] += 1
    print(dict(outcomes))


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.setswitchinterval(1e-5)
    main(int(sys.argv[1]), int(sys.argv[2]))
    race(int(sys.argv[1]), int(sys.argv[2]))
