"""The server of the page to play on: who is let in, what is refused and how it is said, and a disk that is full."""

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import lowregret as lr
from lowregret.games.page import Sitting
from lowregret.games.page.server import application, listen, page

HERE = "http://127.0.0.1:8000"


@pytest.fixture
def sitting(tmp_path: Path) -> Iterator[Sitting]:
    with Sitting(tmp_path / "rounds.jsonl", "rock-paper-scissors", rounds=12) as made:
        yield made


@pytest.fixture
def browser(sitting: Sitting) -> TestClient:
    return TestClient(application(sitting), base_url=HERE, headers={"origin": HERE})


BAD = {
    "no JSON": (b"rock", "the body must be a JSON object"),
    "no UTF-8": (b'{"game":"\xff"}', "the body must be a JSON object in UTF-8"),
    "a list": (b"[1]", "the body must be a JSON object, got [1]"),
    "deep": (b"[" * 450, "the body must be a JSON object"),
    "long": (b'{"game":"' + b"a" * 600 + b'"}', "the body must have at most 500 bytes"),
    "nothing": (b"{}", "game is missing"),
    "another field": (b'{"game":"a","round":1,"move":"rock","seed":3}', "'seed' is not a field"),
    "a field twice": (b'{"game":"a","game":"b"}', "a field must be given once"),
    "a round that is text": (b'{"game":"a","round":"1","move":"rock"}', "round must be a whole number"),
    "a round that is true": (b'{"game":"a","round":true,"move":"rock"}', "round must be a whole number"),
    "round 0": (b'{"game":"a","round":0,"move":"rock"}', "round must be a whole number >= 1, got 0"),
    "a game that is a number": (b'{"game":1,"round":1,"move":"rock"}', "game must be a text, got 1"),
    "a move of another game": (b'{"game":"a","round":1,"move":"heads"}', "move must be"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_move_is_refused_by_name(what: str, browser: TestClient, sitting: Sitting) -> None:
    body, words = BAD[what]
    answer = browser.post("/move", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert words in answer.json()["error"]
    assert sitting.number == 0


def test_who_is_let_in(browser: TestClient, sitting: Sitting, tmp_path: Path) -> None:
    said = {"game": sitting.game, "round": 1, "move": "rock"}
    for host in ("evil.example", "127.0.0.1.evil.example:8000", "192.168.1.5", "", "127.0.0.1:8000@evil", "2130706433"):
        assert browser.get("/state", headers={"host": host}).status_code == 403, host
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9", "https://127.0.0.1:8000"):
        assert browser.post("/move", json=said, headers={"origin": origin}).status_code == 403, origin
    assert TestClient(application(sitting), base_url=HERE).post("/move", json=said).status_code == 403  # no origin
    assert browser.post("/move", json=said, headers={"sec-fetch-site": "cross-site"}).status_code == 403
    for site, answers in (("cross-site", (200, 403)), ("same-site", (200, 403)), ("same-origin", (200, 200))):
        found = tuple(browser.get(path, headers={"sec-fetch-site": site}).status_code for path in ("/", "/state"))
        assert found == answers, site
    assert browser.post("/move", content=json.dumps(said), headers={"content-type": "text/plain"}).status_code == 400
    assert sitting.number == 0
    for host in ("localhost:99", "127.0.0.1", "[::1]:8000"):
        assert browser.get("/state", headers={"host": host}).status_code == 200, host
    wide = TestClient(application(sitting, "0.0.0.0"), base_url=HERE)
    assert wide.get("/", headers={"host": "192.168.1.5:8000"}).status_code == 200
    assert wide.get("/", headers={"host": "evil.example"}).status_code == 403
    for answer in (browser.get("/"), browser.get("/state"), browser.get("/nowhere"), browser.get("/move")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
    assert browser.get("/nowhere").status_code == 404
    assert "http" not in page()[0].replace("http://www.w3.org/2000/svg", "")  # nothing is fetched from elsewhere


def test_a_full_disk_loses_no_round(browser: TestClient, sitting: Sitting, monkeypatch: pytest.MonkeyPatch) -> None:
    said, write, left = {"game": sitting.game, "round": 1, "move": "rock"}, os.write, iter(range(9))

    def full(file: int, data: Any) -> int:
        raise OSError(28, "No space left on device")

    def soon_full(file: int, data: Any) -> int:
        return write(file, data) if next(left) == 0 else full(file, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        answer = browser.post("/move", json=said)
        assert (answer.status_code, sitting.number) == (503, 0)
        assert "could not be written: No space" in answer.json()["error"]
        patched.setattr(os, "write", soon_full)  # the move is written, the next seal is not
        assert (browser.post("/move", json=said).status_code, sitting.number) == (503, 1)
        patched.setattr(os, "write", full)
        again = {"game": sitting.game, "round": 2, "what": "game"}
        assert [browser.post("/new", json=again).status_code for _ in range(3)] == [503] * 3
        assert (sitting.number, sitting.before) == (1, [])  # no game has ended
    state = browser.post("/move", json=said).json()  # as the page does: it asks again
    assert (state["stale"], state["round"], len(state["played"])) == (True, 2, 1)
    assert (
        state["sealed"]
        == hashlib.sha256(json.loads(sitting._journal.path.read_text().splitlines()[-1])["text"].encode()).hexdigest()
    )


SERVES = """
import sys
from pathlib import Path
from lowregret.games.page import Sitting, server
server._PATIENCE = server._IDLE = float(sys.argv[2])
with server.listen("127.0.0.1", 0) as listening, Sitting(Path(sys.argv[1])) as sitting:
    port = listening.getsockname()[1]
    server.serve(sitting, listening, "127.0.0.1", lambda: print(port, flush=True))
"""


@contextlib.contextmanager
def served(tmp_path: Path, patience: float) -> Iterator[int]:
    """The port of a page that is served."""
    asked = [sys.executable, "-c", SERVES, str(tmp_path / "rounds.jsonl"), str(patience)]
    process = subprocess.Popen(asked, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def ask(connection: socket.socket) -> bytes:
    """The first line of an answer; all of it is read."""
    connection.sendall(b"GET /state HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    said = b""
    while not said.endswith(b"}"):
        part = connection.recv(65536)
        assert part, said
        said += part
    return said.partition(b"\r\n")[0]


def test_idle_connections_keep_nobody_out(tmp_path: Path) -> None:
    """Many that say nothing, half a request, or a body that does not come: who asks is answered."""
    post = b"POST /move HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 40\r\n"
    post += b"Origin: http://127.0.0.1\r\nContent-Type: application/json\r\n\r\n{"
    with contextlib.ExitStack() as held:
        port = held.enter_context(served(tmp_path, patience=60))
        there = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
        assert ask(there) == b"HTTP/1.1 200 OK"
        for begins in (b"", b"GET /state HTTP/1.1\r\nHost: ", post):
            for _ in range(70):
                idle = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
                idle.sendall(begins)
            with socket.create_connection(("127.0.0.1", port), timeout=30) as fresh:
                assert ask(fresh) == b"HTTP/1.1 200 OK", begins
            assert ask(there) == b"HTTP/1.1 200 OK", begins  # it was there before, and of use


def test_a_request_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    """However it trickles, first or later: the connection ends, and bytes do not make it last."""
    with served(tmp_path, patience=3) as port, contextlib.ExitStack() as held:
        first, later = (socket.socket(), socket.socket())
        for connection in (later, first):
            held.enter_context(connection).connect(("127.0.0.1", port))
            if connection is later:
                assert ask(later) == b"HTTP/1.1 200 OK"
            connection.settimeout(0.1)
        left = {first, later}
        for byte in b"GET /state HTTP/1.1\r\nX: " + b"x" * 300:
            for connection in [*left]:
                try:
                    connection.sendall(bytes([byte]))
                    if connection.recv(1) == b"":
                        left.discard(connection)
                except TimeoutError:
                    pass  # it is waited for as yet
                except OSError:
                    left.discard(connection)
            if not left:
                break
        assert not left


def test_the_command_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "starlette.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'starlette'\", name='starlette')"
    )
    (tmp_path / "uvicorn.py").touch()
    path = os.pathsep.join([str(tmp_path), str(Path(lr.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-m", "lowregret", "play", "--no-open"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 1
    assert "the page needs starlette: pip install 'lowregret[play]'" in done.stderr
    assert "Traceback" not in done.stderr
    with pytest.raises(ValueError, match=r"--host must be an address of this machine, .*got 'home'"):
        listen("home", 0)
    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(OSError, match="cannot listen on"):
            listen("127.0.0.1", taken.getsockname()[1])
