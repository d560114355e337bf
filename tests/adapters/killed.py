"""Two workers of examples/production.py, each killed again and again, and a client that repeats what was not answered.

``python killed.py MODEL DATABASE WEBHOOK KILLS`` prints what the client was answered, as JSON. Each worker is killed at
a random line of the script.
"""

import http.client
import json
import os
import random
import runpy
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import joblib  # noqa: F401 - what the workers import is there before they are forked
import prometheus_client  # noqa: F401
import sklearn.linear_model  # noqa: F401

import lowregret as lr

lr.GuardedClassifier  # noqa: B018 - imported late
SCRIPT = Path(__file__).parents[2] / "examples" / "production.py"
LATE = 3  # rows after which a label comes
dice = random.Random(0)


class Worker:
    def __init__(self, arguments: list[str]) -> None:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            self.port = free.getsockname()[1]
        self.arguments, self.deaths = [*arguments[:2], str(self.port), arguments[2]], 0
        self.begin()

    def begin(self) -> None:
        trace = Countdown(dice.randrange(1, 500))
        self.pid = os.fork()
        if self.pid == 0:
            threading.settrace(trace)
            sys.settrace(trace)
            sys.argv = [str(SCRIPT), *self.arguments]
            runpy.run_path(str(SCRIPT), run_name="__main__")

    def post(self, path: str, asked: dict) -> dict | None:
        """The answer; None: it was killed, and has begun anew."""
        while True:
            try:
                line = http.client.HTTPConnection("localhost", self.port, timeout=60)
                line.request("POST", path, json.dumps(asked))
                answer = line.getresponse()
                body = answer.read()
                assert answer.status == 200, body
                return json.loads(body)
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                dead, status = os.waitpid(self.pid, os.WNOHANG)
                if dead:
                    assert os.WTERMSIG(status) == signal.SIGKILL, status
                    self.deaths += 1
                    self.begin()
                    return None
                time.sleep(0.005)  # it does not listen yet, or is not buried yet
            finally:
                line.close()


class Countdown:
    """Kills its own process after so many lines of the script."""

    def __init__(self, lines: int) -> None:
        self.lines = lines

    def __call__(self, frame, event, arg):  # type: ignore[no-untyped-def]
        if frame.f_code.co_filename != str(SCRIPT):
            return None
        if event == "line":
            self.lines -= 1
            if self.lines == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def main(model: str, database: str, webhook: str, kills: int) -> None:
    workers = [Worker([model, database, webhook]) for _ in range(2)]
    policies, labels = [], []

    def post(path: str, asked: dict) -> dict:
        while True:
            dice.shuffle(workers)
            for worker in workers:
                if found := worker.post(path, asked):
                    return found

    try:
        while sum(worker.deaths for worker in workers) < kills or len(policies) < 60:
            t = len(policies)
            policies.append(post("/predict", {"id": t, "x": [1.5]}))
            if t >= LATE:
                labels.append(post("/label", {"id": t - LATE, "label": "calm"}))
    finally:
        for worker in workers:
            os.kill(worker.pid, signal.SIGKILL)
            os.waitpid(worker.pid, 0)
    print(json.dumps({"policies": policies, "labels": labels, "deaths": [worker.deaths for worker in workers]}))


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
