"""Evaluations of a run while it trains, and its report at the end."""

from __future__ import annotations

import shlex
from pathlib import Path

from entity_env.command_line import game_words
from entity_env.errors import RunFolderError
from ppo_trainer.environments import UNIMPORTABLE, evaluated, name_in_script
from ppo_trainer.evaluation.comparison import evaluate, evaluate_all
from ppo_trainer.machine.commands import python_command
from ppo_trainer.machine.interrupt import Interrupt
from ppo_trainer.machine.screen import log, warn
from ppo_trainer.reporting.diagnosis import diagnose
from ppo_trainer.reporting.evaluation import Evaluation, left_out, table
from ppo_trainer.runs.checkpoint import latest_checkpoint
from ppo_trainer.runs.results import describe, read_metrics, write_evaluation
from ppo_trainer.training.callbacks import Callbacks
from ppo_trainer.training.curve import draw_curve
from ppo_trainer.training.evidence import is_zero_sum, lacks_positions, out_of_sight
from ppo_trainer.training.goals import read_best
from ppo_trainer.training.session import Session

__all__ = ["conclude", "evaluate_now", "finish"]

_MOST_EPISODES = 100
"""Number of episodes of an evaluation during the training."""
_ENVIRONMENTS = Path(__file__).parents[1] / "conf" / "env"


def evaluate_now(session: Session) -> dict[str, float]:
    """Return the means of a few greedy episodes, as ``eval/<metric>``."""
    config, state = session.config, session.state
    result = evaluate(
        state.acting,
        session.game.evaluated(config),
        config,
        min(config.eval.episodes or _MOST_EPISODES, _MOST_EPISODES),
        greedy=True,
        number=state.update,
        others=session.others_at_seats,
    )
    state.evaluations = [result]
    state.evaluated = {f"eval/{name}": result.mean(name) for name in result.metrics}
    return state.evaluated


def conclude(session: Session, hooks: Callbacks, interrupted: bool, *, played: bool) -> bool:
    """End a run with its report and the last callbacks; return True if a signal cut it short.

    Args:
        session: The run, saved.
        hooks: Called with the evaluations, and at the end.
        interrupted: True if the training was stopped before its end.
        played: False if the network has learned from recordings.
    """
    with Interrupt() as interrupt:
        results = interrupt.attempt(finish, session, interrupted, played)
    signalled = results is None
    if signalled and not interrupted:
        results = finish(session, interrupted=True)
    session.state.evaluations = results or []
    if session.state.evaluations:
        hooks.call("on_evaluation", session)
    hooks.call("on_end", session)
    return signalled


def finish(session: Session, interrupted: bool, played: bool = True) -> list[Evaluation]:
    """Draw the curves, evaluate a run that is over, and print the commands to continue with.

    If nothing was ``played``, the network was trained on recordings.
    """
    run, state, config = session.run, session.state, session.config
    if interrupted:  # printed first, because drawing may be interrupted, too
        log(f"stopped at step {state.steps:,}, saved; to resume:")
        log(f"  {session.resume_command()}")
    try:
        curve = draw_curve(run)
    except RunFolderError as error:  # a missing picture does not stop the evaluation
        curve = None
        warn(f"\nno learning curve: {error}")
    if interrupted:
        return []
    if (reached := session.goals_reached()) is not None:
        log(f"\nthe training has reached its goals at step {state.steps:,}: {reached}")
    log(f"\ncheckpoint      {latest_checkpoint(run)}")
    if config.checkpoint.best is not None and (best := read_best(run)) is not None:
        log(f"best            {run.best}: {best.metric} {best.value:.3f} at step {best.steps:,}")
    if curve is not None:
        log(f"learning curve  {curve}")
    results = _evaluate(session, played) if config.eval.episodes else []
    if played and reached is None:
        records = read_metrics(run)
        equals = session.game.has_seats and config.selfplay.meets_equals
        # Against earlier versions the mean return is not 0, so that it does not show a zero-sum
        # game.
        equals = equals and (not config.selfplay.plays_itself or is_zero_sum(records))
        lines = diagnose(
            records,
            results,
            config.rollout.num_envs,
            meets_equals=equals,
            lacks_positions=lacks_positions(state.net),
            out_of_sight=lambda: out_of_sight(session.game) if config.net.memory == "none" else [],
        )
        if lines:
            log("\n".join(["\nWhat the numbers suggest:", *(f"  {line}" for line in lines)]))
            if len(lines) > 1 and (command := _tune_command(session)):
                log(f"  or search for better settings: {command}")
    log("\nWhat next:")
    for what, command in ([] if played else _improve(session)) + _next_steps(session):
        log(f"  {what:<18}  {command}")
    return results


def _evaluate(session: Session, played: bool) -> list[Evaluation]:
    run, state, config = session.run, session.state, evaluated(session.config)
    episodes, seconds = config.eval.episodes, config.eval.seconds
    if played and not any(record.get("episodes") for record in read_metrics(run)):
        limit = f" or {seconds:g} seconds" if seconds else ""
        log(
            "\nno episode has ended so far; if the game never ends, this evaluation plays "
            f"eval.max_steps={config.eval.max_steps} steps of each{limit} (Ctrl-C skips it)"
        )
    log(f"\nplaying {episodes:,} fresh episodes with each player ...")
    results = evaluate_all(
        state.acting,
        session.game.evaluated(config),
        config,
        episodes,
        others=session.others_at_seats,
    )
    log(f"after {state.steps:,} steps:")
    log(table(results, session.config.shown_metrics))
    if missing := left_out(results):
        log(f"left out, as eval.seconds={seconds:g} were over:\n{missing}")
    if len(session.learners) > 1:
        log(f"that was policy 0; the next: {python_command()} -m ppo_trainer.evaluate {run.path}:1")
    write_evaluation(run, describe(run.path, state.steps, config, episodes, results))
    return results


def _tune_command(session: Session) -> str | None:
    """Return the command that searches settings for the run's environment, or None."""
    target, *settings = session.config.env["_target_"], *game_words(session.config.env)[1]
    if target.startswith(UNIMPORTABLE):
        return None
    words = [f"env._target_={target}", *(f"env.{setting}" for setting in settings)]
    return f"{python_command()} -m ppo_trainer.tune {shlex.join(words)} --minutes 30"


def _improve(session: Session) -> list[tuple[str, str]]:
    """Return the command that trains on from a network that was trained on recordings."""
    path, target = str(session.run.path), session.config.env["_target_"]
    if target.startswith(UNIMPORTABLE):
        env = name_in_script(session.config)
        call = f"train(TrainConfig(init={path!r}, ppo={{'clone_kl': 0.1}}), env={env})"
        return [("improve it by play", call)]
    has_recipe = (_ENVIRONMENTS / f"{target}.yaml").is_file()
    named = f"env={target}" if has_recipe else f"env._target_={target}"
    words = [f"env.{setting}" for setting in game_words(session.config.env)[1]]
    command = shlex.join([named, *words, f"init={path}", "ppo.clone_kl=0.1"])
    return [("improve it by play", f"{python_command()} -m ppo_trainer {command}")]


def _next_steps(session: Session) -> list[tuple[str, str]]:
    path, more = str(session.run.path), 2 * session.state.steps
    python = python_command()
    goals = [name for name in ("stop_at", "stop_below") if getattr(session.config, name)]
    if session.goals_reached() is not None:
        more = max(more, session.config.total_timesteps)
    else:
        goals = []
    if session.config.env["_target_"].startswith(UNIMPORTABLE):
        # The commands cannot import a class that lives in a script or notebook.
        env = name_in_script(session.config)
        moved = env if env.isidentifier() else "MyEnv"
        free = "".join(f", {name}=None" for name in goals)
        call = f"resume({path!r}, env={env}, total_timesteps={more}{free})"
        return [
            ("watch it play", f"from ppo_trainer.watch import watch; watch({path!r}, env={env})"),
            (
                "film it",
                f"from ppo_trainer.watch import film; film({path!r}, 'game.gif', env={env})",
            ),
            (
                "evaluate it again",
                f"from ppo_trainer.evaluate import evaluate_run; evaluate_run({path!r}, {env})",
            ),
            (
                "export its network",
                f"from ppo_trainer.export import export_run; export_run({path!r}, 'policy.pt2')",
            ),
            ("train it further", f"from ppo_trainer import resume; {call}"),
            (
                "from the terminal",
                f"move it to a module my_env, then {python} -m ppo_trainer "
                f"resume={shlex.quote(path)} env._target_=my_env.{moved}",
            ),
        ]
    quoted = shlex.quote(path)
    target, settings = game_words(evaluated(session.config).env)
    play = shlex.join(["entity_env.runner", target, *settings, "--agent", path])
    free = "".join(f" {name}=null" for name in goals)
    return [
        ("watch it play", f"{python} -m ppo_trainer.watch {quoted}"),
        ("in the browser", f"{python} -m entity_env.viewer {quoted}"),
        ("play it yourself", f"{python} -m {play}"),
        ("evaluate it again", f"{python} -m ppo_trainer.evaluate {quoted}"),
        ("film it", f"{python} -m ppo_trainer.watch {quoted} --video game.gif"),
        ("export its network", f"{python} -m ppo_trainer.export {quoted} policy.pt2"),
        (
            "train it further",
            f"{python} -m ppo_trainer resume={quoted} total_timesteps={more}{free}",
        ),
        ("your own game", f"{python} -m ppo_trainer env._target_=my_pkg.my_env.MyEnv"),
    ]
