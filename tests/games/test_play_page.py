"""The page to play on in a real browser (`make test-page`): 100 rounds, a reload, a killed server, nothing lost."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.games.page import Sitting
from lowregret.games.page.opponent import GAMES

pytestmark = pytest.mark.page
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
MOVES = ["rock", "paper", "scissors"]


def served(out: Path, *options: str) -> tuple[subprocess.Popen, str]:
    """`lowregret play` in a process of its own, and its address once it says it."""
    path = os.pathsep.join([str(Path(lr.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-m", "lowregret", "play", "--no-open", "--out", str(out), *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://\S+", line):
            return process, found[0]
    raise AssertionError(process.wait())


def end(process: subprocess.Popen, how: int) -> None:
    process.send_signal(how)
    process.wait(timeout=20)
    assert process.stdout is not None
    process.stdout.close()


def in_python(path: Path, rounds: int) -> tuple[float, int]:
    """The regret and the score of what the file says, by their definitions."""
    problem = GAMES["rock-paper-scissors"].problem
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    seals = [json.loads(line["text"]) for line in lines if "seal" in line][:rounds]
    other_T = [MOVES.index(line["move"]) for line in lines if "round" in line]
    assert len(other_T) == rounds
    regret = lr.external_regret(problem, np.array([seal["mixed"] for seal in seals]), np.array(other_T))[-1]
    own_T = [MOVES.index(seal["move"]) for seal in seals]
    return float(regret), -int(sum(problem.utility[a, s] for a, s in zip(own_T, other_T, strict=True)))


def test_after_the_last_round_one_plays_on_or_anew(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    server, address = served(tmp_path, "--game", "matching-pennies", "--rounds", "3")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        tab = browser.new_page(viewport={"width": 390, "height": 844})
        tab.goto(address)
        for key in "hth":
            tab.wait_for_selector("#moves button:enabled")
            tab.keyboard.press(key)
            tab.wait_for_timeout(200)
        tab.wait_for_selector("#over:not([hidden])")
        tab.keyboard.press("h")  # of no round
        if where := os.environ.get("SCREENSHOTS"):
            tab.screenshot(path=Path(where) / "play-over.png")
        tab.click("#on")
        tab.wait_for_selector("#chart-regret[data-round='0']")
        assert "episode 2" in tab.text_content("#round")
        tab.click("[data-move=tails]")
        tab.wait_for_selector("#chart-regret[data-round='1']")
        for _ in range(2):  # it asks whether you are sure
            tab.wait_for_selector("#new:enabled")
            tab.click("#new")
        tab.wait_for_selector("#chart-regret[data-round='0']")
        assert tab.text_content("#before").count(" in ") == 2
        browser.close()
    end(server, signal.SIGINT)
    with Sitting(tmp_path / "matching-pennies.jsonl", "matching-pennies") as sitting:
        assert [one["rounds"] for one in sitting.before] == [3, 1]
        assert sitting.number == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_a_hundred_rounds_in_a_browser(tmp_path: Path, width: int) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    rng, path = np.random.default_rng(0), tmp_path / "rock-paper-scissors.jsonl"
    said: list[str] = []
    asked: list[str] = []
    server, address = served(tmp_path)
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = browser.new_context(viewport={"width": width, "height": 844}, has_touch=width < 500)
        context.on("request", lambda request: asked.append(request.url))

        def opened() -> Any:
            tab = context.new_page()
            tab.on("console", lambda message: said.append(message.text))
            tab.on("pageerror", lambda error: said.append(str(error)))
            tab.goto(address)
            tab.wait_for_selector("#moves button:enabled")
            return tab

        def at(number: int, tab: Any) -> None:
            tab.wait_for_selector(f"#chart-regret[data-round='{number}']")
            tab.wait_for_selector("#moves button:enabled")

        tab = opened()
        for number in range(1, 101):
            move = MOVES[rng.integers(3)]
            if number == 61:  # the server dies, a move is made meanwhile, it comes back: the move counts, once
                assert said == []
                end(server, signal.SIGKILL)
                tab.click(f"[data-move={move}]")
                tab.wait_for_selector("#trouble:not([hidden])")
                server, again = served(tmp_path, "--port", address.rstrip("/").rpartition(":")[2])
                assert again == address
                at(61, tab)
                assert tab.locator("#trouble").is_hidden()
                assert all("ERR_CONNECTION_REFUSED" in words for words in said)
                said.clear()
            elif number == 71:  # two clicks at once are one move
                tab.locator(f"[data-move={move}]").evaluate("it => { it.click(); it.click(); }")
            elif number == 81:  # another tab comes too late for the round, and is told so
                other = opened()
                tab.click(f"[data-move={move}]")
                at(81, tab)
                other.click("[data-move=rock]")
                at(81, other)
                other.close()
            elif number % 3 == 0:
                tab.keyboard.press(move[0])
            else:
                (tab.tap if width < 500 else tab.click)(f"[data-move={move}]")
            at(number, tab)
            if number == 30:
                tab.reload()
                at(30, tab)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        shown = tab.locator("#chart-regret").evaluate("it => ({...it.dataset})")
        score, seals = int(tab.get_attribute("#chart-score", "data-score")), tab.get_attribute("#fits", "data-fits")
        standing = tab.text_content("#standing")
        if where := os.environ.get("SCREENSHOTS"):
            tab.screenshot(path=Path(where) / f"play-{width}.png", full_page=True)
        browser.close()
    end(server, signal.SIGINT)
    regret, points = in_python(path, 100)
    with Sitting(path) as sitting:
        assert float(shown["regret"]) == float(sitting.guard.regret)  # to the last bit
    assert float(shown["regret"]) == pytest.approx(regret, abs=1e-12)
    assert float(shown["behind"]) <= float(shown["limit"])
    told = "0" if points == 0 else f"{points:+d}".replace("-", "\N{MINUS SIGN}")
    assert score == points
    assert f"You are at {told} after 100 rounds" in standing
    assert seals == "70"  # those since the page was loaded anew, the killed server's among them
    assert said == []
    assert {url.rpartition("/")[0] + "/" for url in asked} == {address}
