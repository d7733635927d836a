"""All commands end with the same exit codes: 2 unknown flag, 1 mistake, 130 Ctrl-C."""

from __future__ import annotations

import pytest

from entity_env import check, replay, runner
from entity_env.command_line import INTERRUPTED
from entity_env.viewer import __main__ as viewer

COMMANDS = {
    "check": (check.main, "entity_env.check.check_env"),
    "replay": (replay.main, "entity_env.replay.show"),
    "runner": (runner.main, "entity_env.runner.play_in_terminal"),
    "viewer": (viewer.main, "entity_env.viewer.__main__.open_source"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_exit_codes(name, monkeypatch, capsys):
    main, work = COMMANDS[name]
    with pytest.raises(SystemExit) as caught:
        main(["minefeild", "--no-such-flag"])
    assert caught.value.code == 2
    capsys.readouterr()
    assert main(["minefeild"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(("UnknownEnvironmentError: ", "RecordingError: "))
    assert "'minefeild'" in said

    def stopped(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(work, stopped)
    assert main(["minefield"]) == INTERRUPTED == 130
    assert capsys.readouterr().err == "stopped\n"
