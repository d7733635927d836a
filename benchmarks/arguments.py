"""Arguments of a benchmark that trains: its own, and settings of the training among them."""

from __future__ import annotations

import argparse
import re
import sys

__all__ = ["parse_with_settings"]


def parse_with_settings(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, list[str]]:
    """Return the parsed arguments, and every ``name=value`` among them, in any place.

    argparse alone would take settings that follow ``--seeds 1 2`` for more seeds.
    """
    parser.epilog = "name=value: a setting of the training, as of python -m ppo_trainer"
    given = sys.argv[1:]
    settings = [own for own in given if re.match(r"[A-Za-z_][\w.]*=", own)]
    return parser.parse_args([own for own in given if own not in settings]), settings
