"""The viewer: ``python -m benchmarks.viewer``; frames a second, and how long a recording is opened.

Frames a second are measured in headless Chromium, which draws without a GPU, while a game plays at
the greatest speed of the page, 60. They are frames that the screen has shown, so that the game, the
server, the canvas and the panel all count. A recording of one episode with 100,000 steps is written
once and then opened. Three times are measured: until its first frame can be shown, until a step in
its middle can, and until all of its steps have been found.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from entity_env import (
    CategoricalActionMask,
    CategoricalActionSpace,
    Entity,
    Environment,
    ListEnv,
    Observation,
    ObsSpace,
)
from entity_env.agent import random_policy
from entity_env.recording import RecordEpisodes
from entity_env.viewer import Viewer
from entity_env.viewer.recorded import RecordedSource
from entity_env.viewer.sources import live_source

COUNTS = (100, 1000, 10_000)
STEPS = 100_000
PLAY = """
const [seconds, done] = arguments;
(async () => {
  document.querySelector("#speed").value = "60";
  document.querySelector("#play").click();
  const seen = () => document.querySelector("#plane").dataset.step;
  let [frames, last, begin] = [-5, seen(), 0];
  while (frames < 0 || performance.now() - begin < 1000 * seconds) {
    await new Promise(requestAnimationFrame);
    if (seen() === last) continue;
    last = seen();
    if (++frames === 0) begin = performance.now();
  }
  document.querySelector("#play").click();
  done([frames, performance.now() - begin]);
})();
"""


class Swarm(Environment):
    """Points that tremble; an actor that does nothing."""

    def __init__(self, count: int) -> None:
        self.count = count

    def obs_space(self) -> ObsSpace:
        """Return the points and the actor."""
        return ObsSpace(entities={"Me": Entity(["x", "y"]), "Fly": Entity(["x", "y", "hp", "age"])})

    def action_space(self) -> dict[str, CategoricalActionSpace]:
        """Return an action without consequences."""
        return {"Go": CategoricalActionSpace(["left", "right"])}

    def reset(self) -> Observation:
        """Begin with points anywhere."""
        self.flies = self.rng.random((self.count, 4), np.float32) * 100
        return self.observe()

    def act(self, actions: object) -> Observation:
        """Let the points tremble."""
        self.flies[:, :2] += self.rng.random((self.count, 2), np.float32) - 0.5
        return self.observe()

    def observe(self) -> Observation:
        """Return all points."""
        return Observation(
            features={"Me": [[50, 50]], "Fly": self.flies.copy()},
            ids={"Me": ["me"]},
            actions={"Go": CategoricalActionMask(actor_ids=["me"])},
            reward=0.0,
            done=False,
        )


def frames_a_second(seconds: float) -> None:
    """Print how many frames are played and drawn in a second, and the CPU time of each."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,800"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))

    def spent() -> dict[str, float]:
        """Return seconds of CPU time: of this process, and of the thread that draws."""
        given = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        found = {own["name"]: own["value"] for own in given}
        return {"server": time.process_time(), "page": found["TaskDuration"]}

    try:
        browser.set_script_timeout(300)
        for count in COUNTS:
            with Viewer(live_source(Swarm(count), "swarm", seed=1)) as viewer:
                browser.get(viewer.address)
                time.sleep(1)
                browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
                before = spent()
                frames, took = browser.execute_async_script(PLAY, seconds)
                costs = [(own, spent()[own] - before[own]) for own in before]
                each = ", ".join(f"{own} {1000 * cpu / frames:4.1f} ms" for own, cpu in costs)
                rate = f"{1000 * frames / took:5.1f} frames a second"
                print(f"{count:>7,} entities  {rate}, played and drawn; CPU of each: {each}")
                browser.get("about:blank")
    finally:
        browser.quit()


def opening(folder: Path) -> None:
    """Print how long it takes to open a long episode, and to seek in it."""
    path = folder / "long.episodes"
    with RecordEpisodes(ListEnv(lambda: Swarm(20), 1, seed=1), path) as env:
        policy, obs = random_policy(1), env.reset()
        for _ in range(STEPS):
            obs = env.act(policy(obs))
    print(f"an episode of {STEPS:,} steps, {path.stat().st_size / 1e6:.0f} MB")
    begin = time.perf_counter()
    source = RecordedSource(path)
    source.frame(0, 0, 0)
    print(f"  first frame {time.perf_counter() - begin:5.2f} s after it was opened")
    while source.episode(0)["is_growing"]:
        time.sleep(0.01)
    print(f"  all found   {time.perf_counter() - begin:5.2f} s after it was opened")
    begin = time.perf_counter()
    source.frame(0, STEPS // 2, 0)
    print(f"  a seek      {time.perf_counter() - begin:5.2f} s")


if __name__ == "__main__":
    frames_a_second(5)
    with tempfile.TemporaryDirectory() as folder:
        opening(Path(folder))
