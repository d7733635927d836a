"""Construction of dataclasses from nested dicts, with errors for unknown names and wrong types."""

from __future__ import annotations

import dataclasses
import enum
import os
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from entity_env.arguments import named_arguments, named_settings
from entity_env.errors import SettingError, nearest, shorten

__all__ = [
    "KINDS",
    "build",
    "fitted",
    "leaves",
    "meant_setting",
    "names_its_settings",
    "path_field",
    "path_names",
    "plain",
    "setting_names",
]

ConfigT = TypeVar("ConfigT")

KINDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Mapping: "names and values",
}
"""The types of settings, in words."""

_HABITS = {
    "algorithm": "algo",
    "checkpoint.best": "save_best save_best_only best_model_save_path",
    "checkpoint.every": "save_freq save_every save_interval checkpoint_freq checkpoint_frequency "
    "checkpoint_interval",
    "device": "gpu use_gpu use_cuda num_gpus gpus accelerator",
    "env": "env_id env_name environment game task",
    "eval.episodes": "n_eval_episodes num_eval_episodes eval_episodes evaluation_duration "
    "evaluation_num_episodes",
    "eval.every": "eval_freq eval_interval eval_every evaluation_interval",
    "init": "load_model load_path model_path pretrained restore restore_from",
    "net.dim": "d_model embed_dim embedding_dim features_dim hidden hidden_dim hidden_size "
    "hidden_sizes hiddens model_dim n_embd num_units",
    "net.heads": "n_head n_heads num_heads attention_heads attention_num_heads",
    "net.layers": "n_layer n_layers num_layers num_hidden_layers depth fcnet_hiddens",
    "net.memory": "lstm gru rnn recurrent use_lstm use_rnn use_recurrent",
    "net.memory_size": "lstm_hidden_size lstm_cell_size rnn_hidden_size",
    "net.value_norm": "norm_reward normalize_reward normalize_returns norm_ret",
    "optim.lr": "learning_rate lrate step_size",
    "optim.schedule": "anneal anneal_lr annealing lr_schedule lr_scheduler lr_decay "
    "learning_rate_schedule scheduler",
    "ppo.clip_coef": "clip clip_eps clip_epsilon clip_param clip_range clip_ratio ppo_clip",
    "ppo.clip_value": "clip_vloss clip_range_vf vf_clip_param",
    "ppo.entropy_coef": "ent_coef entropy_coeff entropy_beta entropy_weight entropy_cost",
    "ppo.epochs": "k_epochs n_epochs noptepochs num_epochs num_sgd_iter update_epochs",
    "ppo.gae_lambda": "gae lam lambda lambda_ lmbda",
    "ppo.gamma": "discount discount_factor discounting",
    "ppo.max_grad_norm": "clip_grad clip_grad_norm clipnorm grad_clip grad_norm gradient_clip",
    "ppo.minibatch_size": "batch_size mini_batch_size minibatch sgd_minibatch_size num_minibatches "
    "nminibatches n_minibatches",
    "ppo.normalize_advantages": "norm_adv normalize_advantage advantage_norm",
    "ppo.target_kl": "kl_target max_kl kl_threshold",
    "ppo.value_coef": "critic_coef value_loss_coef vf_coef vf_loss_coeff v_coef",
    "resume": "resume_from checkpoint_path load_checkpoint",
    "rollout.num_envs": "n_env n_envs nenvs num_actors num_env num_environments "
    "num_envs_per_env_runner num_envs_per_worker",
    "rollout.processes": "n_jobs n_workers num_workers num_rollout_workers num_env_runners",
    "rollout.steps": "horizon n_steps nsteps num_steps rollout_fragment_length rollout_length "
    "rollout_steps unroll_length train_batch_size",
    "run_dir": "log_dir log_path logdir output_dir save_dir save_path tensorboard_log",
    "run_name": "exp_name experiment_name tb_log_name",
    "shown_metrics": "log_metrics",
    "threads": "n_threads num_threads torch_threads",
    "total_timesteps": "max_iterations max_steps max_timesteps n_timesteps num_env_steps "
    "num_iterations num_timesteps steps timesteps total_frames total_steps",
    "wandb.mode": "track use_wandb report_to",
    "wandb.project": "wandb_project wandb_project_name",
}
"""The names that settings have in other libraries."""
_NOT_HERE = {
    "activation activation_fn nonlinearity": "networks have ReLU activations",
    "adam_eps adam_epsilon optimizer_eps eps epsilon": "Adam's epsilon is 1e-5",
    "wandb_entity entity": "W&B reads the variable WANDB_ENTITY",
    "dropout p_dropout attn_dropout": "there is no dropout",
    "weight_decay wd l2 l2_reg": "there is no weight decay",
    "net_arch policy_kwargs model model_config": "the network is net.dim wide and has net.layers "
    "layers",
    "norm_obs normalize_obs normalize_observations": "observations are always normalised",
    "optimizer optimizer_class": "the optimizer is Adam; optim has its settings",
    "policy policy_type policy_class": "one network fits all spaces; net has its settings",
    "progress_bar quiet verbose verbosity": "the screen shows a line for each update; "
    "redirect the output, as in > log.txt, for none",
}
"""Hints on settings of other libraries that do not exist here."""


def meant_setting(key: object, names: Iterable[str], group: Collection[str] = ()) -> str | None:
    """Return a hint on the setting that a user meant by an unknown name, or None.

    Args:
        key: The unknown name, without its group.
        names: The dotted names of all settings.
        group: The names of the settings in the group in which it was looked for.
    """
    names, word = list(names), str(key).lower().replace("-", "_")
    other = [name for name, words in _HABITS.items() if word in words.split()]
    same = [name for name in names if name.rpartition(".")[2] == word]
    longer = [own for own in group if own.startswith(word)]  # such as epsilon for search.eps
    same += [name for name in names if name.rpartition(".")[2] in longer]
    meant = [*(name for name in other if name in names), *same]
    hints = [hint for words, hint in _NOT_HERE.items() if word in words.split() and not longer]
    if meant:
        hints.append(f"did you mean {' or '.join(map(repr, dict.fromkeys(meant)))}?")
    return "; ".join(hints) or nearest(key, group)


def build(kind: type[ConfigT], values: Any) -> ConfigT:
    """Return an instance of the dataclass ``kind`` from nested dicts.

    Args:
        kind: Dataclass whose annotations are the schema.
        values: Settings that differ from their defaults.

    Raises:
        SettingError: A value has the wrong type, or a key is unknown; the message names the group
            that has the key, or the nearest key.
    """
    return _build(kind, values, "", list(setting_names(kind, values, "")))


def leaves(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield single settings with their dotted names; positions of a network are one setting."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value and f"{above}{name}" != "net.relative_position":
            yield from leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def names_its_settings(kind: type[ConfigT]) -> type[ConfigT]:
    """Return a dataclass whose unknown arguments raise SettingError with the nearest setting."""

    def meant(name: str, group: Collection[str]) -> str | None:
        return meant_setting(name, setting_names(kind), group)

    return named_arguments(SettingError, meant)(kind)


def path_field(default: Any) -> Any:
    """Return the field of a setting that is a path; any text on the command line is one."""
    return dataclasses.field(default=default, metadata={"path": True})


def path_names(kind: type, path: str = "") -> Iterator[str]:
    """Yield the dotted names of the settings that are paths."""
    hints = get_type_hints(kind)
    for setting in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[setting.name]):
            yield from path_names(hints[setting.name], _join(path, setting.name))
        elif setting.metadata.get("path"):
            yield _join(path, setting.name)


def setting_names(kind: type, values: Any = None, path: str = "") -> Iterator[str]:
    """Yield the dotted names of all settings, including those in free groups like ``env``."""
    values = values if isinstance(values, Mapping) else {}
    for name, hint in get_type_hints(kind).items():
        within, where = values.get(name), _join(path, name)
        yield where
        group = next((k for k in (hint, *get_args(hint)) if dataclasses.is_dataclass(k)), None)
        if group is not None:
            yield from setting_names(group, within, where)  # type: ignore[arg-type]
        elif isinstance(within, Mapping):
            yield from (_join(where, key) for key in within)


def _build(kind: type[ConfigT], values: Any, path: str, names: Sequence[str]) -> ConfigT:
    """Return the dataclass for the values at ``path``."""
    hints = get_type_hints(kind)
    if not isinstance(values, Mapping):
        raise SettingError(
            f"{path or 'the configuration'} is not a group of settings",
            expected=f"its settings one by one, as in {_join(path, next(iter(hints)))}=...; "
            f"in Python {kind.__name__}, or a dict",
            received=f"{shorten(values)} ({type(values).__name__})",
        )
    for key in values:
        if key not in hints:
            raise SettingError(
                f"unknown setting {_join(path, key)!r}",
                options=hints,
                hint=meant_setting(key, names, hints),
            )
    missing = [
        field.name
        for field in dataclasses.fields(kind)  # type: ignore[arg-type]
        if field.default is field.default_factory is dataclasses.MISSING
        and field.name not in values
    ]
    if missing:
        raise SettingError(
            f"{path or kind.__name__} lacks {', '.join(missing)}",
            expected=f"{_join(path, missing[0])}=...",
            received=shorten(dict(values)),
            options=hints,
        )
    given = {
        key: _value(hints[key], value, _join(path, key), names) for key, value in values.items()
    }
    with named_settings({_join(path, key): value for key, value in values.items()}):
        return kind(**given)


def fitted(config: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, converted to their types.

    Dicts become the dataclasses that they describe. NumPy's numbers, paths and members of enums
    become plain values, and a float such as 1e6 becomes an int if a whole number is expected.

    Raises:
        SettingError: A value has the wrong type, here or in a nested dataclass.
    """
    return _fitted(config, "", ())


def _fitted(config: Any, path: str, names: Sequence[str]) -> dict[str, Any]:
    return {
        name: _value(hint, getattr(config, name), _join(path, name), names)
        for name, hint in get_type_hints(type(config)).items()
    }


def plain(value: Any, path: str) -> Any:
    """Return ``value`` as plain values that YAML can write and read.

    Raises:
        SettingError: It contains other values than plain ones.
    """
    value = _plain(value)
    if isinstance(value, Mapping):
        return {_key(key, path): plain(part, _join(path, key)) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(part, path) for part in value)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [plain(part, path) for part in value]
    return _scalar(value, path, "plain values: None, bool, int, float, str, lists and dicts")


def _scalar(value: Any, path: str, expected: str) -> Any:
    if value is not None and type(value) not in (bool, int, float, str):
        raise SettingError(
            f"{path} cannot be written to config.yaml",
            expected=expected,
            received=f"{shorten(value)} ({type(value).__name__})",
        )
    return value


def _key(key: Any, path: str) -> Any:
    return _scalar(_plain(key), path, "keys of dicts that are None, bool, int, float or str")


def _plain(value: Any) -> Any:
    """Return scalars of NumPy and torch, enums, paths and subclasses as Python's own types."""
    if isinstance(value, enum.Enum):
        value = value.value
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        return str.__str__(value)
    kinds = (kind for kind in (bool, int, float) if isinstance(value, kind))
    return next((kind(value) for kind in kinds), value)


def _value(hint: Any, value: Any, path: str, names: Sequence[str] = ()) -> Any:
    origin, choices = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in choices:
            return None
        return _value(next(c for c in choices if c is not type(None)), value, path, names)
    if dataclasses.is_dataclass(hint):
        kind: Any = hint
        if isinstance(value, kind):
            return dataclasses.replace(value, **_fitted(value, path, names))
        return _build(kind, value, path, names)
    value = _plain(value)
    if origin is Literal:
        if not isinstance(value, str) or value not in choices:
            raise SettingError(
                f"{path} has an unknown value",
                received=shorten(value),
                options=choices,
                hint=nearest(value, choices),
            )
        return value
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)  # YAML reads 1e6 as a float
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if origin is Sequence:  # a single value needs no brackets
        is_nested = get_origin(choices[0]) is Sequence
        parts = [value] if not is_nested and isinstance(value, choices[0]) else value
        if not isinstance(parts, Sequence) or isinstance(parts, str | bytes):
            kind = "a list" if is_nested else KINDS[choices[0]]
            raise _wrong_type(path, f"a list, each item {kind}", value)
        return tuple(_value(choices[0], part, path) for part in parts)
    expected = Mapping if origin is not None else hint
    if not isinstance(value, expected) or (isinstance(value, bool) and hint is not bool):
        raise _wrong_type(path, KINDS.get(expected, str(expected)), value)
    return value


def _wrong_type(path: str, expected: str, value: Any) -> SettingError:
    return SettingError(
        f"{path} has the wrong type",
        expected=expected,
        received=f"{shorten(value)} ({type(value).__name__})",
    )


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)
