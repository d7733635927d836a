"""List of commands, printed by ``python -m entity_env``."""

import sys

from entity_env.command_line import version_text

COMMANDS = """\
python -m entity_env.check my_pkg.my_env.MyEnv    check an environment for mistakes
python -m entity_env.runner my_pkg.my_env.MyEnv   play it in the terminal
python -m entity_env.viewer games.episodes        look at games in the browser
python -m entity_env.replay games.replay          play recorded games again"""

if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        print(version_text())
        sys.exit()
    print(f"entity_env is not a command; use one of these:\n{COMMANDS}", file=sys.stderr)
    sys.exit(2)
