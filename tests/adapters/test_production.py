"""docs/how-to/production.md: two workers and one guard in a database, beside a guard that is driven by hand."""

import importlib.util
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen
from wsgiref.simple_server import WSGIRequestHandler, make_server

import joblib
import numpy as np
import prometheus_client
import pytest
from sklearn.linear_model import LogisticRegression

import lowregret as lr
from lowregret.guard import Alarm, Guard

SCRIPT = Path(__file__).parents[2] / "examples" / "production.py"
SEA = lr.DecisionProblem.from_payoffs([[20, -60], [0, 0]], actions=["sail", "stay"], states=["calm", "storm"])
WIND = np.random.default_rng(0).normal(size=(200, 1))
STORMS = lr.GuardedClassifier(LogisticRegression(), Guard(SEA, lag=7))
STORMS.fit(WIND, np.where(WIND[:, 0] > 0.5, "storm", "calm"))


class Hook(HTTPServer):
    """A webhook that fails twice."""

    def __init__(self) -> None:
        super().__init__(("localhost", 0), _Takes)
        self.calls, self.taken = 0, list[dict[str, Any]]()
        self.url = f"http://localhost:{self.server_port}"


class _Takes(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.calls += 1
        if self.server.calls > 2:
            self.server.taken.append(json.loads(body))
        self.send_response(500 if self.server.calls <= 2 else 200)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


class _Silent(WSGIRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


Serve = Callable[[Any], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Lets servers run in threads, by their addresses."""
    running: list[Any] = []

    def start(server: Any) -> str:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        running.append((server, thread))
        return f"http://localhost:{server.server_port}"

    yield start
    for server, thread in running:
        server.shutdown()
        server.server_close()
        thread.join()


def state_of(database: Path) -> tuple[Guard, list[str]]:
    """The guard in the row, and what is in the outbox."""
    guard = STORMS.guard_.fresh()
    with closing(sqlite3.connect(database)) as db:
        guard.loads(*db.execute("SELECT state FROM guard").fetchone())
        return guard, [event for (event,) in db.execute("SELECT event FROM outbox ORDER BY number")]


def post(url: str, **asked: Any) -> Any:
    with urlopen(url, json.dumps(asked).encode(), timeout=60) as answer:
        return json.load(answer)


def test_two_workers_a_restart_a_webhook_that_fails_and_a_scrape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    joblib.dump(STORMS, tmp_path / "model")
    hook = Hook()
    serve(hook)
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "model"), str(tmp_path / "db"), "0", hook.url])

    def worker() -> tuple[ModuleType, str]:
        spec = importlib.util.spec_from_file_location("production", SCRIPT)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for gauge in module.GAUGES:
            prometheus_client.REGISTRY.unregister(gauge)  # each is a process of its own
        return module, serve(make_server("", 0, module.app, handler_class=_Silent))

    workers, guard = [worker(), worker()], STORMS.guard_.fresh()
    for t in range(23):
        if t == 10:
            workers[0] = worker()  # restarted
        wind = -1 - t / 20  # calm, says the model
        if t < 20:
            advice = guard.advise(STORMS.predict_proba([[wind]])[0])
            for _ in range(1 + (t % 5 == 0)):  # some are delivered twice
                found = post(f"{workers[t % 2][1]}/predict", id=f"day {t}", x=[wind])
                assert list(found.values()) == advice.policy.tolist()
        if t >= 3:  # the label, three rows later and at the other worker
            guard.observe("storm")
            label = post(f"{workers[t % 3 % 2][1]}/label", id=f"day {t - 3}", label="storm")
            assert label == {"labels": guard.steps}
    kept, outbox = state_of(tmp_path / "db")
    np.testing.assert_array_equal(kept._state.rows_NxW, guard._state.rows_NxW)
    assert outbox == [str(event) for event in guard.events] != []

    module, url = workers[1]
    for gauge in module.GAUGES:
        prometheus_client.REGISTRY.register(gauge)
    for wanted in ([], [], outbox):
        with urlopen(f"{url}/metrics", timeout=60) as scraped:
            page = scraped.read().decode()
        assert "guard_labels 20.0" in page
        assert f"guard_evidence {guard.evidence[0]}" in page
        assert f"guard_undelivered {float(len(outbox))}" in page
        if wanted:
            module.deliver()
        else:
            with pytest.raises(HTTPError, match="500"):
                module.deliver()
        assert [body["event"] for body in hook.taken] == wanted
    for gauge in module.GAUGES:
        prometheus_client.REGISTRY.unregister(gauge)
    assert state_of(tmp_path / "db")[1] == []

    with pytest.raises(HTTPError, match="400"):
        post(f"{url}/label", id="day 21", label="storm")
    assert state_of(tmp_path / "db")[0].dumps() == kept.dumps()
    with ThreadPoolExecutor(6) as pool:  # all at once
        list(pool.map(lambda t: post(f"{workers[t % 2][1]}/predict", id=t, x=[1.0]), range(6)))
        list(pool.map(lambda t: post(f"{workers[t % 2][1]}/label", id=t, label="storm"), range(6)))
    kept, _ = state_of(tmp_path / "db")
    assert (kept.steps, kept.waiting) == (26, [])


@pytest.mark.long
def test_killed_at_a_hundred_points_no_label_is_lost_or_counts_twice(tmp_path: Path, serve: Serve) -> None:
    joblib.dump(STORMS, tmp_path / "model")
    hook, database = Hook(), tmp_path / "db"
    serve(hook)
    command = [sys.executable, str(Path(__file__).with_name("killed.py"))]
    done = subprocess.run(
        [*command, str(tmp_path / "model"), str(database), hook.url, "100"], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert min(told["deaths"]) > 5
    [probs] = STORMS.predict_proba([[1.5]])
    guard = STORMS.guard_.fresh()
    for t, policy in enumerate(told["policies"]):
        assert list(policy.values()) == pytest.approx(guard.advise(probs).policy.tolist(), rel=1e-9)
        if t >= 3:
            guard.observe("calm")
            assert told["labels"][t - 3] == {"labels": guard.steps}
    kept, outbox = state_of(database)
    # This process may play in the compiled loop where the workers played in arrays: their last digits differ.
    np.testing.assert_allclose(kept._state.rows_NxW, guard._state.rows_NxW, rtol=1e-9)
    assert kept.waiting == guard.waiting
    alarms = [str(event) for event in guard.events]
    assert alarms
    assert [str(event) for event in kept.events if isinstance(event, Alarm)] == alarms
    once = {body["number"]: body["event"] for body in hook.taken}  # delivered at least once
    assert [*once.values(), *outbox] == [str(event) for event in kept.events]
