"""The page of the viewer in headless Chromium: what is drawn, and what a click does."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from support.walkers import EVIL, Walkers

from entity_env import ListEnv
from entity_env.agent import random_policy
from entity_env.recording import RecordEpisodes
from entity_env.viewer import Viewer, open_source
from entity_env.viewer.sources import live_source

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
DRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Chromium and its chromedriver"),
]


@pytest.fixture(scope="module")
def chromium():
    pytest.importorskip("selenium", reason="needs selenium")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,820"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


class Page:
    """A page that shows a source, and waits until what is asked for is there."""

    def __init__(self, chromium, viewer):
        self.browser, self.viewer = chromium, viewer
        chromium.get(viewer.address)
        self.wait("document.body.dataset.ready === 'yes'")

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def wait(self, condition):
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.browser, 20, 0.02).until(lambda _: self.run(f"return {condition}"))

    def find(self, selector):
        return self.browser.find_element("css selector", selector)

    def text(self, selector="body"):
        return self.find(selector).text

    def click_entity(self, index):
        """Click where an entity is drawn, as a mouse does."""
        from selenium.webdriver.common.action_chains import ActionChains

        canvas = self.find("#plane")
        x, y = self.run("return viewer.stage.where(arguments[0])", index)
        box = canvas.rect
        across, down = x - box["x"] - box["width"] / 2, y - box["y"] - box["height"] / 2
        mouse = ActionChains(self.browser, duration=0)
        mouse.move_to_element_with_offset(canvas, round(across), round(down)).click().perform()

    def complaints(self):
        """What the console has to say."""
        return [line["message"] for line in self.browser.get_log("browser")]


@pytest.fixture
def show(chromium):
    """Opens the page of a source; at the end nothing may stand in the console."""
    pages = []

    def opened(source):
        pages.append(Page(chromium, Viewer(source)))
        return pages[-1]

    yield opened
    for page in pages:
        complaints = page.complaints()
        page.browser.get("about:blank")
        page.viewer.close()
        assert complaints == []


def test_a_recording_is_sought_and_names_stay_text(show, tmp_path):
    path = tmp_path / "<i>walk<i>.episodes"
    with RecordEpisodes(ListEnv(Walkers, 1, seed=1), path) as env:
        policy, obs = random_policy(1), env.reset()
        for _ in range(40):
            obs = env.act(policy(obs))
    page = show(open_source(str(path)))
    assert page.text("#title") == "<i>walk<i>.episodes"
    for step in (7, 3, 99):
        page.run("viewer.show(arguments[0])", step)
        step = min(step, 10)
        page.wait(f"document.body.dataset.step === '{step}'")
        assert page.run("return document.querySelector('#plane').dataset.step") == str(step)
        assert f"step {step} of 10" in page.text("footer")
        # The global feature says which step it is; after the last decision it is shown again.
        assert page.run("return viewer.state.frame.given.globals[0]") == min(step, 9)
        assert f"step\n{min(step, 9)}" in page.text("#panel")
    assert "The end" in page.text("#over")
    # A click in the timeline shows the step there: the middle of 0 to 10.
    page.find("#timeline").click()
    page.wait("['4', '5', '6'].includes(document.body.dataset.step)")
    page.find("#next").click()
    page.wait("viewer.state.episode.number === 1 && document.body.dataset.step === '0'")
    assert "of 4" in page.text("#episodes")
    # Names with HTML are shown as they are, and nothing of them has run.
    page.wait("viewer.stage.spots.size === 5")
    page.click_entity(1)
    assert "<i>yours</i>" in page.text("#entity")
    assert "<b>right</b>" in page.text("#entity")
    assert EVIL in page.text("#cards")
    assert page.run("return document.body.dataset.evil") is None
    assert page.run("return document.querySelectorAll('main img, main i, aside b > i').length") == 0


def test_a_click_plays_the_action_that_it_says(show):
    source = live_source(Walkers(), "walkers", people="you", seed=1)
    game = source.table.game
    page = show(source)
    page.wait("!document.querySelector('#choose').hidden")
    assert "Walker 0: Go" in page.text("#choose")

    def choose(label):
        buttons = page.browser.find_elements("css selector", "#choose .option")
        next(own for own in buttons if own.text == label).click()

    choose("<b>right</b>")
    assert "Walker 1: Go" in page.text("#choose")
    choose("stay")
    assert "Walker 0: Look" in page.text("#choose")
    assert game.at.tolist() == [0, 0]
    page.click_entity(3)  # the second tree
    page.wait("document.body.dataset.step === '1'")
    assert game.at.tolist() == [1, 0]
    assert game.looked == [("Tree", 1)]
    # Now the first walker must rest: the mask shows, and a click on it does nothing.
    page.wait("!document.querySelector('#choose').hidden")
    masked = page.find("#choose .option.masked")
    assert masked.text == "<b>right</b>"
    assert not masked.is_enabled()
    choose("stay")
    choose("<b>right</b>")
    choose("Tree 2")
    page.wait("document.body.dataset.step === '2'")
    assert game.at.tolist() == [1, 1]
    assert game.looked == [("Tree", 2)]


def test_ten_thousand_entities_are_drawn(show):
    page = show(live_source(Walkers(trees=10_000), "a forest", seed=1))
    assert page.run("return viewer.stage.spots.size") == 10_002
    page.run("viewer.forward()")
    page.wait("document.body.dataset.step === '1'")
    assert page.run("return document.querySelector('#plane').dataset.drawn") == "10002"


def test_the_own_picture_of_a_game_has_a_view(show):
    class Drawn(Walkers):
        overlays = ("rain",)

        def render(self, overlay="", **kwargs):
            picture = np.zeros((4, 2, 3), np.uint8)
            picture[3, 1] = 10 * self.step, 20 + len(overlay), 30
            return picture

    page = show(live_source(Drawn(), "drawn", seed=1))
    page.run("document.querySelectorAll('#views button')[1].click()")
    page.wait("document.querySelector('#picture').dataset.step === '0'")
    page.run("viewer.forward()")
    page.wait("document.querySelector('#picture').dataset.step === '1'")
    corner = "document.querySelector('#picture').getContext('2d').getImageData(1, 3, 1, 1)"
    layer = "document.querySelector('#layer')"
    page.run(f"{layer}.value = 'rain'; {layer}.dispatchEvent(new Event('change'))")
    page.wait("document.querySelector('#picture').dataset.layer === 'rain'")
    assert page.run(f"return [...{corner}.data]") == [10, 24, 30, 255]
    assert not page.find("#plane").is_displayed()
    page.run("document.querySelectorAll('#views button')[0].click()")
    assert page.find("#plane").is_displayed()
    assert not page.find("#picture").is_displayed()


def test_an_error_of_the_game_is_shown(show):
    source = live_source(Walkers(), "walkers", seed=1)

    def fails(actions):
        raise RuntimeError("out of <b>sticks</b>")

    source.table.game.act = fails
    page = show(source)
    page.find("#forward").click()
    page.wait("!document.querySelector('#notice').hidden")
    assert "out of <b>sticks</b>" in page.text("#notice")
    # The console names the answer that was an error; nothing else.
    assert all("500" in line or "400" in line for line in page.complaints())
