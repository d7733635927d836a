"""``make bench``: every benchmark in a fresh process, then one table."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import subprocess
import sys
import time

from benchmarks.measure import Row, print_rows

PARTS = (
    "attention", "network", "select_entity", "environments", "tutorial_game", "list_env", "workers",
    "train", "threads", "memory", "recurrent", "positions", "inputs", "peers",
)  # fmt: skip
# One pinned thread, for every library that would start more.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def main() -> None:
    """Run the parts that are named on the command line, or all of them."""
    if len(sys.argv) == 3 and sys.argv[1] == "--rows":
        rows = importlib.import_module(f"benchmarks.{sys.argv[2]}").rows()
        print("\n" + json.dumps([dataclasses.asdict(row) for row in rows]))
        return
    collected: list[Row] = []
    failed: list[str] = []
    for part in sys.argv[1:] or PARTS:
        start = time.perf_counter()
        print(f"{part} ...", end="", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks", "--rows", part],
            env={**os.environ, **ONE_THREAD},
            stdout=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            failed.append(part)
            print(" failed", flush=True)
            continue
        rows = [Row(**row) for row in json.loads(done.stdout.splitlines()[-1])]
        collected += [dataclasses.replace(row, case=f"{part}: {row.case}") for row in rows]
        print(f" {time.perf_counter() - start:.0f} s", flush=True)
    print()
    print_rows(collected)
    verdicts = [row.verdict for row in collected]
    missed = [row.case for row in collected if row.verdict == "missed"]
    reached, targets = verdicts.count("reached"), len(verdicts) - verdicts.count("")
    print(f"\n{reached} of {targets} targets reached", *missed, sep="\n    missed: ")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
