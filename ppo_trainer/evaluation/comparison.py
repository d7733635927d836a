"""Evaluation of a network in fresh episodes, and of scripts, random play and opponents."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from entity_env import VecEnv
from entity_env.agent import RandomAgent, SpacedAgent
from entity_env.errors import FAILURES, SettingError
from entity_env.play import PlayBudget, Policy, play_episodes, play_lives, play_rows, play_scripted
from entity_env.rows.slow_calls import SLOW_CALL, naming_slow_calls
from entity_env.rows.vec_env import check_count
from entity_env.scripted_agent import ScriptedAgent, load_script
from ppo_trainer.config import TrainConfig
from ppo_trainer.environments import Game
from ppo_trainer.evaluation.matches import play_sides
from ppo_trainer.machine.screen import warn
from ppo_trainer.machine.seeding import derived_seed
from ppo_trainer.players.network_agent import NetworkAgent, agent_of
from ppo_trainer.players.opponents import make_opponent, opponent_labels
from ppo_trainer.reporting.evaluation import RANDOM, SCRIPTED, Evaluation
from ppo_trainer.reporting.progress import EvaluationProgress
from ragged_net import RaggedNet

__all__ = ["evaluate", "evaluate_against", "evaluate_all", "named_opponents"]


def evaluate(
    net: RaggedNet,
    game: Game,
    config: TrainConfig,
    episodes: int,
    *,
    greedy: bool,
    temperature: float = 1.0,
    number: int = 0,
    budget: PlayBudget | None = None,
    others: Sequence[RaggedNet] = (),
) -> Evaluation:
    """Play fresh episodes, other than those of the training; each ``number`` gives others.

    ``others`` are the other policies of a population, each of which plays its own seats.
    """
    seed = derived_seed(config.seed, "evaluation", number)
    agent = agent_of(
        (net, *others), game, config, seed=seed, greedy=greedy, temperature=temperature
    )
    name, budget = _player(greedy, temperature), PlayBudget() if budget is None else budget
    return _evaluate(name, agent, game, config, episodes, seed, budget=budget)


def evaluate_all(
    net: RaggedNet,
    game: Game,
    config: TrainConfig,
    episodes: int,
    *,
    only_greedy: bool = False,
    others: Sequence[RaggedNet] = (),
    temperature: float = 1.0,
) -> list[Evaluation]:
    """Evaluate the agent, greedy and sampled, the scripted player if there is one, and random play.

    Args:
        net: The network.
        game: The game.
        config: Settings; of ``config.eval`` it uses ``scripted``, ``max_steps`` and ``seconds``.
        episodes: Number of episodes of each player.
        only_greedy: True to leave out the sampled agent and random play.
        others: Other policies, each of which plays its own seats.
        temperature: The divisor of the sampled agent's logits.
    """
    seed = derived_seed(config.seed, "evaluation")
    players: dict[str, Callable[..., Evaluation | None]] = {}
    for greedy in (True,) if only_greedy else (True, False):
        players[_player(greedy, temperature)] = partial(
            evaluate,
            net,
            game,
            config,
            episodes,
            greedy=greedy,
            temperature=temperature,
            others=others,
        )
    if config.eval.scripted is not None:
        scripted = load_script(config.eval.scripted, "eval.scripted", SettingError)
        players[SCRIPTED] = partial(_evaluate_script, game, scripted, config, episodes, seed)
    if not only_greedy:
        chance = RandomAgent(net.obs_space, net.action_space, seed)
        players[RANDOM] = partial(_evaluate, RANDOM, chance, game, config, episodes, seed)
    results, start = [], time.monotonic()
    with (
        naming_slow_calls(SLOW_CALL, warn),
        EvaluationProgress(list(players), episodes, config.eval.seconds) as progress,
    ):
        for number, (name, play) in enumerate(players.items()):
            left = config.eval.seconds - (time.monotonic() - start)
            # Time that one player does not use is left to the others; each plays at least one step.
            share = max(left / (len(players) - number), 1e-9) if config.eval.seconds else 0.0
            results.append(play(budget=PlayBudget(share, progress.heard(name))))
    return [result for result in results if result is not None]


def evaluate_against(
    net: RaggedNet,
    game: Game,
    config: TrainConfig,
    episodes: int,
    opponents: Sequence[str],
    *,
    greedy: bool = False,
    others: Sequence[RaggedNet] = (),
    temperature: float = 1.0,
) -> list[Evaluation]:
    """Evaluate the network against each opponent; opponents draw their choices.

    Args:
        net: The network.
        game: Game for several players.
        config: Settings, of which seed, precision and ``eval.seconds`` are used.
        episodes: Number of games against each opponent, rounded up to the same number from each
            side.
        opponents: Names of opponents, as in ``selfplay.opponents``.
        greedy: True to let the network take the most likely choices.
        others: Other policies, each of which plays its own seats.
        temperature: The divisor of the logits from which it draws otherwise.

    Raises:
        SettingError: The game is for one player, or an opponent does not exist or does not fit.
    """
    check_count("number of episodes", episodes, error=SettingError)
    game.sides()  # raises for a game for one player
    made = named_opponents(net, config, opponents)
    results, seed = [], derived_seed(config.seed, "against")
    for label, opponent in made.items():
        agent = agent_of(
            (net, *others), game, config, seed=seed, greedy=greedy, temperature=temperature
        )
        budget = PlayBudget(config.eval.seconds / len(made))
        played = play_sides(agent, game, config, episodes, opponent, seed=seed, budget=budget)
        results.append(Evaluation(f"against {label}", played))
    return results


def named_opponents(
    net: RaggedNet, config: TrainConfig, opponents: Sequence[str]
) -> dict[str, SpacedAgent]:
    """Return opponents, made for the spaces of ``net``, by the names to show."""
    made, device = {}, str(next(net.parameters()).device)
    for number, name in enumerate(opponents):
        seed = derived_seed(config.seed, "against", number)
        made[name] = make_opponent(name, net.obs_space, net.action_space, seed=seed, device=device)
    return {label: made[name] for name, label in opponent_labels(made).items()}


def _player(greedy: bool, temperature: float) -> str:
    if greedy:
        return "agent, greedy"
    return "agent, sampled" if temperature == 1.0 else f"agent, temperature {temperature:g}"


def _evaluate_script(
    game: Game, scripted: Policy, config: TrainConfig, episodes: int, seed: int, budget: PlayBudget
) -> Evaluation | None:
    """Evaluate the scripted player; return None if it fails."""
    # A script gets the whole observation, not the part that the network was trained on.
    whole = replace(game, shown=None, replays=None)
    limit = config.eval.max_steps
    try:
        if whole.is_compiled:  # rows show the same as the single game, in a tenth of the time
            with whole.rows(1, seed) as row:
                agent = ScriptedAgent(scripted, row.obs_space(), row.action_space())
            metrics = play_rows(
                whole.rows, agent.act_rows, episodes, seed, rows=1, max_steps=limit, budget=budget
            )
        else:
            metrics = play_scripted(whole, scripted, episodes, seed, max_steps=limit, budget=budget)
    except FAILURES as error:
        warn("".join(traceback.format_exception(error, limit=-3)).rstrip())
        warn(f"left out: the scripted player eval.scripted={config.eval.scripted} failed")
        return None
    return Evaluation(SCRIPTED, metrics, episodes, budget.cut_off)


def _evaluate(
    name: str,
    agent: SpacedAgent,
    game: Game,
    config: TrainConfig,
    episodes: int,
    seed: int,
    budget: PlayBudget,
) -> Evaluation:
    """Evaluate an agent that plays rows."""

    def make_rows(count: int, seed: int) -> VecEnv:
        agent.reset()
        return game.rows(count, seed)

    is_population = isinstance(agent, NetworkAgent) and len(agent.nets) > 1
    policy, rows, max_steps = agent.act_rows, config.rollout.num_envs, config.eval.max_steps
    if game.is_endless:
        rows = game.whole(rows)
        metrics = play_lives(
            make_rows, policy, episodes, seed, rows=rows, max_steps=max_steps, budget=budget
        )
    elif game.has_seats and (game.is_native or is_population):
        chance = RandomAgent(agent.obs_space, agent.action_space, seed)
        metrics = play_sides(agent, game, config, episodes, chance, seed=seed, budget=budget)
    elif game.is_native or game.replays is not None:
        metrics = play_rows(
            make_rows, policy, episodes, seed, rows=rows, max_steps=max_steps, budget=budget
        )
    else:
        metrics = play_episodes(
            game, policy, episodes, seed, rows=rows, max_steps=max_steps, budget=budget
        )
    return Evaluation(name, metrics, episodes, budget.cut_off)
