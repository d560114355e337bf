"""A worker that shares its guard with others: a row of a database, and each request is one transaction.

``python examples/production.py model.joblib sea.db 8001 https://hooks.example.com/alarms``, others on other ports.
"""

import json
import sqlite3
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException
from urllib.request import urlopen
from wsgiref.simple_server import make_server

import joblib
from prometheus_client import CONTENT_TYPE_LATEST, Gauge, generate_latest

MODEL, DATABASE, PORT, WEBHOOK = sys.argv[1:]
GAUGES = [Gauge(f"guard_{name}", name) for name in ("labels", "evidence", "share_of_the_model", "undelivered")]
model, news = joblib.load(MODEL), []  # a GuardedClassifier, the same in every worker
model.guard_.on_event = news.append


@contextmanager
def transaction():
    """While this worker is in one no other is, and all of it is kept or nothing."""
    with closing(sqlite3.connect(DATABASE, timeout=60, isolation_level=None)) as db, db:
        db.execute("BEGIN IMMEDIATE")
        yield db


def answer(path, asked):
    """One step of the guard, or what Prometheus wants to know of it."""
    guard = model.guard_
    with transaction() as db:
        guard.loads(*db.execute("SELECT state FROM guard").fetchone())
        if path == "/metrics":
            values = guard.steps, guard.evidence[0], guard.share, *db.execute("SELECT count(*) FROM outbox").fetchone()
            for gauge, value in zip(GAUGES, values, strict=True):
                gauge.set(value)
            return generate_latest()
        news.clear()
        if path == "/predict":
            found = dict(zip(guard.problem.actions, model.policy([asked["x"]], asked["id"])[0].tolist(), strict=True))
        else:
            found = {"labels": model.observe(asked["label"], id=asked["id"]).guard_.steps}
        db.execute("UPDATE guard SET state = ?", [guard.dumps()])
        db.cursor().executemany("INSERT INTO outbox (event) VALUES (?)", [[str(event)] for event in news])
    return json.dumps(found).encode()


def app(environ, start_response):
    path, size = environ["PATH_INFO"], int(environ.get("CONTENT_LENGTH") or 0)
    try:
        status, body = "200 OK", answer(path, json.loads(environ["wsgi.input"].read(size) or "{}"))
    except (KeyError, ValueError) as error:
        status, body = "400 Bad Request", str(error).encode()
    start_response(status, [("Content-Type", CONTENT_TYPE_LATEST if path == "/metrics" else "application/json")])
    return [body]


def deliver():
    """Post what happened, the oldest first, until it is taken: at least once, by its number."""
    with closing(sqlite3.connect(DATABASE, timeout=60, isolation_level=None)) as db:
        for number, event in db.execute("SELECT number, event FROM outbox ORDER BY number").fetchall():
            urlopen(WEBHOOK, json.dumps({"number": number, "event": event}).encode(), timeout=10).close()
            db.execute("DELETE FROM outbox WHERE number = ?", [number])


with transaction() as db:
    db.execute("CREATE TABLE IF NOT EXISTS guard (name TEXT PRIMARY KEY, state BLOB)")
    db.execute("CREATE TABLE IF NOT EXISTS outbox (number INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT)")
    db.execute("INSERT INTO guard VALUES ('sea', ?) ON CONFLICT DO NOTHING", [model.guard_.dumps()])
if __name__ == "__main__":
    threading.Thread(target=make_server("", int(PORT), app).serve_forever, daemon=True).start()
    while True:
        with suppress(OSError, HTTPException):  # and tried again: guard_undelivered says how many wait
            deliver()
        time.sleep(1)
