"""Swinging up a pole with continuous torques, beside Stable-Baselines3's PPO at equal steps.

python -m benchmarks.pendulum --seeds 1 2 3

Both train on 100,352 steps of Pendulum-v1, ours with the recipe of ``env=pendulum``, the peer with
the hyperparameters of RL Baselines3 Zoo for this environment. Then each plays 100 fresh episodes
greedily. About three minutes a run.
"""

from __future__ import annotations

import argparse
import tempfile

import gymnasium
import torch

from entity_env.interop import GymnasiumEnv
from ppo_trainer import recipe, train
from ppo_trainer.environments import make_factory
from ppo_trainer.evaluation.comparison import evaluate

STEPS = 100_352
EPISODES = 100


def ours(seed: int, steps: int) -> tuple[float, float]:
    """Return the mean return of the trained player, and its standard error."""
    with tempfile.TemporaryDirectory() as folder:
        config = recipe(
            "pendulum", f"seed={seed}", f"total_timesteps={steps}", "device=cpu",
            f"run_dir={folder}", "eval.episodes=0", "env.render_mode=null",
        )  # fmt: skip
        net = train(config).net
        game = make_factory(config, GymnasiumEnv)
        played = evaluate(net, game, config, EPISODES, greedy=True)
    return _spread(torch.as_tensor(played.metrics["episodic_reward"]))


def peer(seed: int, steps: int) -> tuple[float, float]:
    """Return the mean return of Stable-Baselines3, and its standard error."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    model = PPO(
        "MlpPolicy", make_vec_env("Pendulum-v1", 4, seed=seed), n_steps=1024, gamma=0.9,
        gae_lambda=0.95, n_epochs=10, ent_coef=0.0, learning_rate=1e-3, clip_range=0.2,
        use_sde=True, sde_sample_freq=4, seed=seed, device="cpu",
    )  # fmt: skip
    model.learn(steps)
    fresh = make_vec_env("Pendulum-v1", 1, seed=1000 + seed)
    returns, _ = evaluate_policy(model, fresh, EPISODES, return_episode_rewards=True)
    return _spread(torch.as_tensor(returns))


def _spread(returns: torch.Tensor) -> tuple[float, float]:
    returns = returns.double()
    return float(returns.mean()), float(returns.std() / len(returns) ** 0.5)


def main() -> None:
    """Print a row for each seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    assert gymnasium.spec("Pendulum-v1")
    print("seed  ragged-rl           stable-baselines3   (mean return, +- standard error)")
    for seed in given.seeds:
        cells = [f"{mean:8.1f} +- {error:5.1f}" for mean, error in (
            ours(seed, given.steps), peer(seed, given.steps)
        )]  # fmt: skip
        print(f"{seed:4d}  {'   '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
