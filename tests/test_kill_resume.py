"""A kill -9 at a random moment; ``python tests/support/kill_resume.py --kills 30`` for more."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "support" / "kill_resume.py"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
def test_a_run_killed_at_random_moments_resumes_and_ends_as_if_it_had_not_been():
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--kills", "1"], capture_output=True, text=True, timeout=300
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    assert len(re.findall(r"^kill +\d+ of run", text, re.MULTILINE)) == 1, text
    assert "equals the unbroken one" in text, text
