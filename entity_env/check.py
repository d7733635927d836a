"""Command line of the check of environments."""

from __future__ import annotations

import sys

from entity_env.checking.check_env import Checked, check_env, main

__all__ = ["Checked", "check_env"]

if __name__ == "__main__":
    sys.exit(main())
