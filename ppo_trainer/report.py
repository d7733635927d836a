"""What a run says when it ends."""

from __future__ import annotations

from ppo_trainer.checkpoint import latest_checkpoint
from ppo_trainer.curve import draw_curve
from ppo_trainer.evaluate import Evaluation, evaluate_all, table, write_evaluation
from ppo_trainer.session import Session

__all__ = ["finish"]


def finish(session: Session, interrupted: bool) -> list[Evaluation]:
    """Draw the curves; evaluate a run that is over; say what to type next."""
    run, state, config = session.run, session.state, session.config
    curve = draw_curve(run)
    if interrupted:
        print(f"stopped at step {state.steps:,}, saved; to go on:")
        print(f"  python -m ppo_trainer resume={run.path}")
        return []
    results: list[Evaluation] = []
    if config.eval.episodes:
        results = evaluate_all(
            state.net, session.create_env, config, session.device, config.eval.episodes
        )
        write_evaluation(run, state.steps, results)
        print(f"\nafter {state.steps:,} steps, {config.eval.episodes:,} fresh episodes each:")
        print(table(results))
    print(f"\ncheckpoint      {latest_checkpoint(run)}")
    if curve is not None:
        print(f"learning curve  {curve}")
    more = 2 * config.total_timesteps
    print("\nWhat next:")
    print(f"  watch it play       python -m ppo_trainer.watch {run.path}")
    print(f"  train it further    python -m ppo_trainer resume={run.path} total_timesteps={more}")
    print("  your own game       python -m ppo_trainer env._target_=my_pkg.my_env.MyEnv")
    return results
