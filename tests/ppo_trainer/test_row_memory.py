"""Memory states of rows, from the rollout to the gradient, in checkpoints and in play."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from ragged_envs.repeat_after_k import RepeatAfterK
from safetensors.torch import load_file, save_file
from support.trainer_envs import SavedForaging
from support.trainer_runs import (
    SMALL_NET,
    assert_same_checkpoint,
    checkpoints,
    collect_with,
    metrics,
    network,
    reseal,
    resuming,
    run_named,
    small_config,
)
from support.turn_rows import TurnRows
from torch.testing import assert_close

from entity_env import ListEnv
from entity_env.errors import CheckpointError, SettingError
from entity_env.recording import EpisodeDataset
from ppo_trainer import PPOConfig, RolloutConfig, train
from ppo_trainer.agent import NetworkAgent, load_agent
from ppo_trainer.algorithms.advantage import estimate
from ppo_trainer.algorithms.clone import Clone
from ppo_trainer.algorithms.ppo import PPO
from ppo_trainer.evaluation.comparison import evaluate
from ppo_trainer.evaluation.steps import play_run
from ppo_trainer.experience.acting import RowMemory, values_of
from ppo_trainer.experience.pending import pending_from_tensors, pending_to_tensors
from ppo_trainer.experience.rollout import Decisions, Sequences, Trajectories
from ppo_trainer.experience.rollout_buffer import RolloutBuffer
from ppo_trainer.learner.minibatches import minibatch_numbers
from ppo_trainer.learner.optimizers import frozen_copy, make_optimizers
from ppo_trainer.learner.update import add_gradients, update
from ppo_trainer.machine.stopwatch import Stopwatch
from ppo_trainer.record import record_run
from ppo_trainer.runs.load_run import load_policy
from ragged_net import EntityBatch, RaggedTensor

LSTM = replace(SMALL_NET, memory="lstm", memory_size=8)


def remembering(kind="lstm", **changes):
    return small_config(net=replace(LSTM, memory=kind), **changes)


def slow_turns(num_envs=8, seed=1) -> TurnRows:
    return TurnRows(num_envs, seed, slow=0.6)


def foraging_rows():
    return ListEnv(SavedForaging, 5, seed=1)


CASES = [(slow_turns, "lstm"), (foraging_rows, "gru")]
ROWS = pytest.mark.parametrize(("make_rows", "kind"), CASES)


class Player:
    """Collects rollouts, one after the other, and shakes the network between them if asked."""

    def __init__(self, rows, config, shaken=False):
        self.env, self.config, self.shaken = rows, config, shaken
        self.net = network(rows, config)
        self.obs = rows.reset()
        self.net.update_statistics(EntityBatch.from_obs(self.obs))
        self.memory, self.pending = RowMemory(self.net, len(rows)), None
        self.generator = torch.Generator().manual_seed(0)
        self.buffer = RolloutBuffer(len(rows), 4)

    def rollout(self):
        rows = self.net, self.env, self.obs, self.config, self.generator
        result = collect_with(*rows, self.buffer, self.pending, self.memory)
        self.obs, self.pending = result.next_obs, result.pending
        return result.trajectories

    def shake(self):
        """Change the weights, as an update does."""
        with torch.no_grad():
            for parameter in self.net.parameters():
                parameter += 0.1 * torch.randn_like(parameter)


def config_for(rows, kind, steps=12):
    return remembering(
        kind,
        rollout=RolloutConfig(num_envs=len(rows), steps=steps),
        ppo=PPOConfig(minibatch_size=20, epochs=1),
    )


# ------------------------------------------------------------------------------- by hand


def test_sequences_of_two_rows():
    # Row 1 decides at 0, 2, 3 and 5, and its episode ends after 2; row 0 decides at 1 and 4. The
    # decisions 0 and 1 are those of an earlier rollout.
    rows = np.array([1, 0, 1, 1, 0, 1])
    ends = np.array([False, False, True, False, False, False])
    memory = torch.arange(6.0)[:, None]
    decisions = Decisions(None, {}, {}, torch.zeros(6), rows, np.zeros(6, np.float32), memory)
    nothing = np.zeros(6, np.float32)

    def found(carried):
        staleness = (np.arange(6) < carried).astype(np.int64)
        own = replace(decisions, staleness=staleness)
        sequences = Sequences.of(Trajectories(own, ends, nothing, nothing[:2]))
        frames = [
            part.tolist() for part in sequences.frames.values.split(sequences.lengths.tolist())
        ]
        return frames, sequences.states.flatten().tolist()

    assert found(0) == ([[1, 4], [0, 2], [3, 5]], [1, 0, 3])
    assert found(2) == ([[1], [4], [0], [2], [3, 5]], [1, 4, 0, 2, 3])


def test_sequences_of_a_network_that_does_not_change():
    # The same decisions, some of an earlier rollout. Row 0 begins with 10, row 1 with 20, and with
    # 0 after its episode ended.
    rows, nothing = np.array([1, 0, 1, 1, 0, 1]), np.zeros(6, np.float32)
    ends = np.array([False, False, True, False, False, False])
    decisions = Decisions(None, {}, {}, torch.zeros(6), rows, nothing).later(1)
    trajectories = Trajectories(decisions, ends, nothing, nothing[:2])
    sequences = Sequences.from_rows(trajectories, torch.tensor([[10.0], [20.0]]))
    assert sequences.frames.values.tolist() == [1, 4, 0, 2, 3, 5]
    assert sequences.lengths.tolist() == [2, 2, 2]
    assert sequences.states.flatten().tolist() == [10, 20, 0]


def test_a_state_is_cut_where_its_episode_ends_and_rows_that_wait_keep_theirs():
    memory = RowMemory(network(slow_turns(), remembering("gru")), 3)
    first = memory.of(np.arange(3))
    memory.keep(np.array([0, 2]), torch.tensor([[1.0] * 8, [2.0] * 8]))
    assert memory.states[:, 0].tolist() == [1, 0, 2]
    assert memory.of(np.array([2]))[:, 0].tolist() == [2]
    memory.cut(np.array([False, False, True]))
    assert memory.states[:, 0].tolist() == [1, 0, 0]
    assert first.eq(0).all(), "a state that was handed out has changed"


@pytest.mark.parametrize("parts", [1, 3, 7, 50])
def test_minibatches_hold_each_sequence_once_and_about_as_many_frames(parts):
    lengths = torch.randint(1, 9, (40,), generator=torch.Generator().manual_seed(parts))
    frames = torch.arange(int(lengths.sum()))
    sequences = Sequences(RaggedTensor.from_lengths(frames, lengths), torch.zeros(40, 1))
    found = list(sequences.minibatches(parts, torch.Generator().manual_seed(0)))
    assert sorted(torch.cat(found).tolist()) == list(range(40))
    assert torch.cat(found).tolist() != list(range(40))
    sizes = [int(lengths[part].sum()) for part in found]
    assert len(found) <= parts
    assert max(abs(size - len(frames) / parts) for size in sizes) <= 8
    own = [part.tolist() for part in sequences.within(10)]
    assert [number for part in own for number in part] == list(range(40))
    assert all(int(lengths[part].sum()) <= 10 or len(part) == 1 for part in own)


# ------------------------------------------------- the rollout, against a slow reference


@ROWS
def test_each_decision_has_the_state_that_its_row_had(make_rows, kind):
    """One decision after the other of each row, with nothing but the network and the definition."""
    rows = make_rows()
    player = Player(rows, config_for(rows, kind))
    states = {row: player.net.initial_state(1) for row in range(len(rows))}
    finals, checked = 0, 0
    for _ in range(3):
        trajectories = player.rollout()
        decisions = trajectories.decisions
        for k in np.flatnonzero(decisions.staleness == 0):
            row = int(decisions.rows[k])
            assert_close(decisions.memory[k : k + 1], states[row], rtol=1e-5, atol=1e-6)
            with torch.no_grad():
                one = decisions.batch.select(torch.tensor([k]))
                output = player.net(one, memory=states[row], greedy=True)
            assert_close(output.value, decisions.values[k : k + 1], rtol=1e-5, atol=1e-5)
            states[row] = output.memory
            if trajectories.ends[k]:
                finals += bool(trajectories.final_values[k])
                states[row] = player.net.initial_state(1)
            checked += 1
        if player.pending is not None:  # whose states have been noted already as the last ones
            for k in range(len(player.pending)):
                row = int(player.pending.rows[k])
                with torch.no_grad():
                    one = player.pending.batch.select(torch.tensor([k]))
                    states[row] = player.net(one, memory=states[row], greedy=True).memory
    assert checked > 100
    assert finals > 2


def test_values_of_what_follows_know_what_the_row_remembers():
    rows = foraging_rows()
    player = Player(rows, config_for(rows, "lstm"))
    trajectories = player.rollout()
    with torch.no_grad():
        expected = player.net.value(EntityBatch.from_obs(player.obs), memory=player.memory.states)
    np.testing.assert_allclose(trajectories.next_values, expected.numpy(), rtol=1e-5)
    assert player.memory.states.abs().max() > 0
    # A final observation is seen with the state after the last decision, before it is cut.
    decisions, sequences = trajectories.decisions, Sequences.of(trajectories)
    after = {}
    for part, state in zip(
        sequences.frames.values.split(sequences.lengths.tolist()), sequences.states, strict=True
    ):
        with torch.no_grad():
            frames = decisions.batch.select(part)
            known = player.net(frames, memory=state[None], sequences=[len(part)]).memory
        after[int(part[-1])] = known
    cut = np.flatnonzero(trajectories.final_values)
    finals = EntityBatch.cat([EntityBatch.from_obs(obs) for obs in player.buffer.finals])
    assert len(cut) == finals.num_frames > 2
    with torch.no_grad():
        # In order of time, and within a step of rows: as the decisions before them.
        expected = player.net.value(finals, memory=torch.cat([after[k] for k in cut.tolist()]))
    np.testing.assert_allclose(trajectories.final_values[cut], expected.numpy(), rtol=1e-4)


# --------------------------------------------------------------------------- the gradient


def log_ratios(net, rollout, numbers):
    part = rollout.part(numbers)
    output = net(
        part.batch,
        memory=part.sequences.states,
        sequences=part.sequences.lengths,
        given=values_of(part.chosen),
    )
    ratios = [output.actions[n].log_prob - old.values for n, old in part.log_probs.items()]
    return torch.cat(ratios), output.value - part.values


@ROWS
@pytest.mark.parametrize("shaken", [False, True])
def test_at_the_first_gradient_step_every_ratio_is_one(make_rows, kind, shaken):
    rows = make_rows()
    player = Player(rows, config_for(rows, kind))
    carried = 0
    for number in range(4):
        trajectories = player.rollout()
        rollout = estimate(trajectories, player.config.ppo)
        stale = trajectories.decisions.staleness > 0
        carried += stale.sum()
        assert len(rollout.sequences) < len(rollout)
        for numbers in minibatch_numbers(rollout, player.config.ppo, player.generator):
            if shaken and number:  # what was decided by another network is another matter
                firsts = rollout.sequences.select(numbers).frames
                own = stale[firsts.values[firsts.offsets[:-1]].numpy()]
                numbers = numbers[torch.from_numpy(~own)]
            ratio, value = log_ratios(player.net, rollout, numbers)
            assert ratio.abs().max() < 2e-6
            assert value.abs().max() < 1e-5
        if shaken:
            player.shake()
    assert (carried > 5) == (make_rows is slow_turns)


def test_an_update_begins_where_the_rollout_was():
    rows = foraging_rows()  # 60 frames, in one minibatch
    config = config_for(rows, "lstm")
    config = replace(config, ppo=PPOConfig(epochs=1, minibatch_size=60))
    player = Player(rows, config)
    rollout = estimate(player.rollout(), config.ppo)
    before = {name: p.clone() for name, p in player.net.named_parameters()}
    optimizers = make_optimizers(player.net, config)
    generator = torch.Generator().manual_seed(0)
    numbers = update(
        PPO(config.ppo), player.net, optimizers, rollout, config, 0.0, generator, Stopwatch()
    )
    assert abs(numbers["policy/kl"]) < 1e-9
    assert numbers["policy/clip_fraction"] == 0
    for name, parameter in player.net.named_parameters():
        if "memory" in name:
            assert not torch.equal(parameter, before[name]), f"{name} has not learned"


def test_micro_batches_of_whole_sequences_change_nothing():
    rows = slow_turns()
    player = Player(rows, config_for(rows, "lstm"))
    rollout = estimate(player.rollout(), player.config.ppo)
    minibatch = rollout.part(torch.arange(len(rollout.sequences)))
    gradients = []
    for size in (0, 1, 7):
        config = replace(player.config, ppo=PPOConfig(minibatch_size=20, microbatch_size=size))
        player.net.zero_grad()
        algorithm = PPO(config.ppo)
        coefs = algorithm.coefficients(progress=0.0)
        add_gradients(algorithm, player.net, minibatch, config, coefs, Stopwatch())
        gradients.append([p.grad.clone() for p in player.net.parameters() if p.grad is not None])
    assert_close(gradients[0], gradients[1], rtol=1e-4, atol=1e-6)
    assert_close(gradients[0], gradients[2], rtol=1e-4, atol=1e-6)


# -------------------------------------------------------------- the penalty on leaving a clone


def log_probs_by_definition(net, states, trajectories):
    """One decision after the other of each row; ``states`` are those of the rows, and change."""
    decisions, found = trajectories.decisions, {name: [] for name in trajectories.decisions.chosen}
    for k, row in enumerate(decisions.rows.tolist()):
        one = decisions.select(np.array([k]))
        with torch.no_grad():
            output = net(one.batch, memory=states[row], given=values_of(one.chosen))
        for name, action in output.actions.items():
            found[name].append(action.log_prob)
        states[row] = output.memory * (not trajectories.ends[k])
    return {name: torch.cat(parts) for name, parts in found.items()}


@pytest.mark.parametrize(
    ("make_rows", "kind", "shaken"), [(slow_turns, "gru", False), *((*c, True) for c in CASES)]
)
def test_a_clone_remembers_what_each_row_has_seen(make_rows, kind, shaken):
    rows = make_rows()
    player = Player(rows, config_for(rows, kind))
    clone = Clone(net := frozen_copy(player.net), RowMemory(net, len(rows)))
    algorithm = PPO(player.config.ppo, clone=clone)
    states = {row: net.initial_state(1) for row in range(len(rows))}
    ended, waited, apart = 0, 0, []
    for number in range(4):
        trajectories = player.rollout()
        rollout = algorithm.estimate(trajectories, player.net)
        expected = log_probs_by_definition(net, states, trajectories)
        for name, own in rollout.clone_log_probs.items():
            assert_close(own.values, expected[name], rtol=1e-4, atol=1e-5)
            apart.append((own.values - rollout.log_probs[name].values).abs())
            if not shaken:
                assert apart[-1].max() < 1e-5, f"it is the policy, rollout {number}"
        remembered = torch.cat([states[row] for row in range(len(rows))])
        assert_close(clone.memory.states, remembered, rtol=1e-4, atol=1e-5)
        ended, waited = ended + trajectories.ends.sum(), waited + (player.pending is not None)
        if shaken:
            player.shake()
    assert ended > 5
    assert (waited > 0) == (make_rows is slow_turns)
    assert (torch.cat(apart).mean() > 0.01) == shaken


# ---------------------------------------------------------------------------- checkpoints


def test_a_run_that_stays_near_its_beginning_goes_on_bit_for_bit(tmp_path):
    config = remembering(
        run_dir=str(tmp_path),
        rollout=RolloutConfig(num_envs=6, steps=8),
        total_timesteps=48,
        ppo=PPOConfig(minibatch_size=16, epochs=1),
    )
    begin = train(config, env=slow_turns).run
    near = replace(config.ppo, clone_kl=0.5, clone_kl_fade=0.8)
    config = replace(config, init=str(begin), ppo=near, total_timesteps=240)
    whole, whole_run = run_named(config, "whole")
    train(whole, env=slow_turns)
    half, half_run = run_named(config, "half")
    assert train(half, env=slow_turns, stop=lambda update: update == 3).interrupted
    folder = checkpoints(half_run)[-1]
    assert load_file(folder / "clone_memory.safetensors")["states"].abs().max() > 0
    train(resuming(half, half_run), env=slow_turns)
    assert_same_checkpoint(whole_run, half_run)
    assert metrics(whole_run) == metrics(half_run)
    # At the end the penalty has faded. A longer run has one again.
    assert not (checkpoints(half_run)[-1] / "clone_memory.safetensors").exists()
    assert "loss/clone_kl" not in metrics(half_run)[-1]
    train(resuming(half, half_run, total_timesteps=384), env=slow_turns)
    assert metrics(half_run)[5]["loss/clone_kl"] > 0


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "cannot be read|No such file"),
        (lambda path: save_file({"states": torch.zeros(4, 3)}, path), "'states' differs in shape"),
        (lambda path: save_file({"other": torch.zeros(4, 16)}, path), "another network"),
        (lambda path: save_file({"states": torch.full((4, 16), float("nan"))}, path), "finite"),
    ],
)
def test_damaged_states_are_an_error(damage, message, tmp_path):
    config, run = run_named(remembering(run_dir=str(tmp_path)), "run")
    train(config, env=SavedForaging, stop=lambda update: update == 2)
    folder = checkpoints(run)[-1]
    damage(folder / "memory.safetensors")
    if (folder / "memory.safetensors").exists():
        reseal(folder, len)
    with pytest.raises(CheckpointError, match=message):
        train(resuming(config, run), env=SavedForaging)


def test_pending_decisions_keep_what_was_remembered():
    player = Player(slow_turns(), config_for(slow_turns(), "lstm"))
    while player.pending is None:
        player.rollout()
    pending, tensors = player.pending, pending_to_tensors(player.pending)
    again = pending_from_tensors(tensors, player.net, 8)
    assert torch.equal(again.memory, pending.memory)
    for wrong in (pending.memory[:, :3], pending.memory[1:], pending.memory * float("nan"), None):
        damaged = {**tensors, '["memory"]': wrong}
        if wrong is None:
            del damaged['["memory"]']
        with pytest.raises(CheckpointError, match="damaged"):
            pending_from_tensors(damaged, player.net, 8)


# ----------------------------------------------------------------------------------- play


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A network with a memory, hardly trained."""
    folder = tmp_path_factory.mktemp("runs")
    config = small_config(
        net=replace(LSTM, dim=16, memory_size=16), total_timesteps=48, run_dir=str(folder)
    )
    return train(config, env=RepeatAfterK).run


def game(seed, k=3):
    """The observations of a game until the question, which do not depend on what is done."""
    env = RepeatAfterK(k)
    env.seed(seed)
    return [env.reset(), *(env.act({}) for _ in range(k))]


def said(actions):
    return actions["say"].probs


def test_an_agent_remembers_the_game_until_it_is_reset(run):
    agent, games = load_agent(run, greedy=True), [game(seed) for seed in range(6)]
    assert len({shown[0].features["Symbol"][0][0] for shown in games}) > 1
    alone = []
    for shown in games:
        agent.reset()
        value = [agent.value(observation) for observation in shown]  # which remembers nothing
        assert value[-1] == agent.value(shown[-1])
        alone.append(said([agent.act(observation) for observation in shown][-1]))
    assert max(np.abs(own - alone[0]).max() for own in alone) > 1e-6
    # All games at once, and in turns, by name.
    agent.reset()
    for step in range(4):
        together = agent.act_many([shown[step] for shown in games])
    for own, actions in zip(alone, together, strict=True):
        np.testing.assert_allclose(said(actions), own, rtol=1e-5)
    agent.reset()
    for step in range(4):
        turns = {name: agent.act(games[name][step], game=name) for name in (4, 1)}
        if step == 2:  # a third game comes later
            agent.act_many([games[0][0]], games=["late"])
    np.testing.assert_allclose(said(turns[4]), alone[4], rtol=1e-5)
    np.testing.assert_allclose(said(turns[1]), alone[1], rtol=1e-5)
    # Forgetting one game leaves the others, and another name is another game.
    agent.reset(4)
    assert np.abs(said(agent.act(games[4][-1], game=4)) - alone[4]).max() > 1e-7


def test_a_game_that_is_over_is_forgotten(run):
    agent = load_agent(run, greedy=True)
    first = game(0)
    begun = said(agent.act(first[-1]))
    agent.act(replace_done(first[1]))
    np.testing.assert_array_equal(said(agent.act(first[-1])), begun)


def replace_done(observation):
    return replace(observation, done=True)


def test_games_that_cannot_be_told_apart(run):
    agent, shown = load_agent(run), game(0)
    with pytest.raises(SettingError, match="two observations are of the same game"):
        agent.act_many(shown[:2], games=["a", "a"])
    with pytest.raises(SettingError, match="number of observations and of games differ"):
        agent.act_many(shown[:2], games=["a"])
    with pytest.raises(SettingError, match="not hashable"):
        agent.act(shown[0], game=[])


@pytest.fixture(scope="module")
def loaded(run):
    """A network whose answers, right or wrong, depend on what was shown."""
    loaded = load_policy(run, RepeatAfterK)
    memory, head = loaded.net.memory, loaded.net.heads[0]
    torch.manual_seed(0)
    for weight in (memory.cell.weight_ih_l0, memory.to_entity.weight, head.logits.weight):
        torch.nn.init.normal_(weight)
    # Logits whose mean over the symbols is 0: all of them cannot have the same largest one.
    logits = np.log([probs for _, probs in answers_of(loaded).values()])
    with torch.no_grad():
        head.logits.bias -= torch.from_numpy(logits.mean(axis=0))
    return loaded


def answers_of(loaded):
    """What an agent with that network, which plays one game after the other, answers to each.

    By symbol: the answer, and the probabilities of all answers.
    """
    agent, found, seed = NetworkAgent(loaded.nets, greedy=True), {}, 0
    while len(found) < 4:
        agent.reset()
        shown = game(seed)
        last = [agent.act(observation) for observation in shown][-1]
        symbol = int(shown[0].features["Symbol"][0][0])
        found[symbol] = int(last["say"].indices[0]), said(last)[0]
        seed += 1
    return found


@pytest.fixture(scope="module")
def answers(loaded):
    found = {symbol: answer for symbol, (answer, _) in answers_of(loaded).items()}
    assert len(set(found.values())) > 1
    return found


def test_rows_of_an_evaluation_remember(loaded, answers):
    env = ListEnv(RepeatAfterK, 7, seed=3)
    policy = NetworkAgent(loaded.net, greedy=True).act_rows
    obs, compared = env.reset(), 0
    for step in range(24):
        chosen = policy(obs)
        if step % 4 == 0:
            symbols = obs.features["Symbol"].as_array()[:, 0].astype(int).tolist()
        elif step % 4 == 3:
            expected = [answers[symbol] for symbol in symbols]
            assert chosen["say"].as_array()[:, 0].tolist() == expected
            compared += 1
        obs = env.act(chosen)
    assert compared == 6
    result = evaluate(loaded.net, loaded.game, loaded.config, 400, greedy=True)
    right = np.mean([symbol == answer for symbol, answer in answers.items()])
    # Each symbol comes in a quarter of 400 episodes: the standard deviation is 0.025 at most.
    assert result.mean("win") == pytest.approx(right, abs=0.1)


def test_an_evaluation_in_new_rows_begins_without_memories(loaded):
    env = ListEnv(RepeatAfterK, 2, seed=3)
    agent = NetworkAgent(loaded.net, greedy=True)
    obs = env.reset()
    agent.act_rows(obs)
    begun = agent._memories[0].states
    agent.act_rows(obs)
    assert not torch.equal(agent._memories[0].states, begun)
    agent.reset()
    agent.act_rows(obs)
    assert torch.equal(agent._memories[0].states, begun)


def test_watched_episodes_are_remembered(loaded, answers):
    for step in play_run(loaded, episodes=8, greedy=True):
        if step.step == 0:
            symbol = int(step.frame.features["Symbol"][0, 0])
        elif step.step == 3:
            assert step.chosen[0].what == str(answers[symbol])


def test_recorded_rows_remember(run, tmp_path):
    record_run(run, tmp_path / "games", RepeatAfterK, episodes=6, rows=2)
    sure = {}  # by the symbol that was shown: how sure the agent is of each answer
    agent = load_agent(run)
    for seed in range(40):
        agent.reset()
        shown = game(seed)
        symbol = int(shown[0].features["Symbol"][0][0])
        sure[symbol] = said([agent.act(observation) for observation in shown][-1])[0]
    compared = 0
    for episode in EpisodeDataset(tmp_path / "games").episodes():
        steps = episode.steps
        if episode.is_whole and episode.done:
            symbol = int(steps.obs.features["Symbol"].as_array()[0, 0])
            (choice,) = steps.actions["say"].as_array()[:, 0].tolist()
            (log_prob,) = steps.log_probs["say"].as_array()[:, 0].tolist()
            assert np.exp(log_prob) == pytest.approx(sure[symbol][choice], rel=1e-6)
            compared += 1
    assert compared >= 6


# -------------------------------------------------------------------------------- settings


def test_settings_that_contradict_each_other():
    with pytest.raises(SettingError, match=r"minibatch_size is smaller.*\n.*rollout.steps = 6"):
        remembering(ppo=PPOConfig(minibatch_size=5))
    assert remembering(value_net=True).value_config.memory == "none"  # it reads the policy's


def test_without_memory_nothing_is_stored():
    rows = foraging_rows()
    config = small_config(rollout=RolloutConfig(num_envs=5, steps=6))
    player = Player(rows, config)
    trajectories = player.rollout()
    assert trajectories.decisions.memory is None
    assert estimate(trajectories, config.ppo).sequences is None
    assert player.memory.states is None
