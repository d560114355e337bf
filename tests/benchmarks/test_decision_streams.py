"""The streams of ``benchmarks.decisions``: whole, the same twice, in two halves; no law has seen what it is of."""

import importlib
import itertools
import pkgutil

import numpy as np
import pytest
from benchmarks.decisions import streams
from benchmarks.decisions.models import by_table, frequency
from benchmarks.decisions.streams import sources, synthetic

FOUND = sources()
QUICK = {f"{source.name}: {name}" for source, made in synthetic.STREAMS.items() for name in made}


@pytest.mark.parametrize("name", FOUND)
def test_a_stream_is_whole_and_the_same_twice(name: str) -> None:
    _, make = FOUND[name]
    stream, again = make(), make()
    T, S = stream.laws_TxS.shape
    assert 600 <= T <= 2000
    assert stream.problem.n_states == S
    assert 2 <= S <= 20
    assert 2 <= stream.problem.n_actions <= 20
    assert stream.states_T.shape == (T,)
    assert set(np.unique(stream.states_T)) <= set(range(S))
    assert np.abs(stream.laws_TxS.sum(axis=1) - 1).max() < 1e-9
    assert stream.laws_TxS.min() >= 0.01 / S * (1 - 1e-9)
    assert stream.lag >= 1
    assert np.array_equal(stream.laws_TxS, again.laws_TxS)
    assert np.array_equal(stream.states_T, again.states_T)
    assert np.array_equal(stream.problem.utility, again.problem.utility)


def test_no_two_streams_have_one_name() -> None:
    files = [
        importlib.import_module(f"{streams.__name__}.{info.name}") for info in pkgutil.iter_modules(streams.__path__)
    ]
    assert sum(len(made) for file in files for made in file.STREAMS.values()) == len(FOUND)
    names = [source.name for file in files for source in file.STREAMS]
    assert len(names) == len(set(names))


def test_both_halves_have_every_kind() -> None:
    """Drawn and real, of at most three states and of more; of a half's sources, none is in the other."""
    kinds = {"training": set[tuple[str, str]](), "scored": set[tuple[str, str]]()}
    for source, make in FOUND.values():
        few = "few" if make().problem.n_states <= 3 else "many"
        kinds[source.half].add(("drawn" if source.licence == "drawn" else "real", few))
    every = set(itertools.product({"drawn"}, ("few", "many")))
    assert kinds == {"training": every, "scored": every}


def test_states_are_drawn_from_the_laws_that_are_right() -> None:
    """Of all that are said to be right: sums of (state came - its chance), within five of their deviations."""
    tried = 0
    for name in QUICK:
        stream = FOUND[name][1]()
        if stream.right:
            came_TxS = np.eye(stream.problem.n_states)[stream.states_T]
            off_S = (came_TxS - stream.laws_TxS).sum(axis=0)
            deviation_S = np.sqrt((stream.laws_TxS * (1 - stream.laws_TxS)).sum(axis=0))
            assert np.all(np.abs(off_S) < 5 * deviation_S)
            tried += 1
    assert tried >= 10


@pytest.mark.parametrize("at", [0, 40, 199])
def test_tables_have_not_seen_what_they_are_of(at: int) -> None:
    rng = np.random.default_rng(0)
    states_T, context_T = rng.integers(3, size=200), rng.integers(4, size=200)
    other_T = states_T.copy()
    other_T[at] = (states_T[at] + 1) % 3
    for model in (lambda came_T: frequency(came_T, 3, 40), lambda came_T: by_table(came_T, context_T, 3)):
        said, changed = model(states_T), model(other_T)
        assert np.array_equal(said[: at + 1], changed[: at + 1])
        assert at == 199 or not np.array_equal(said[at + 1 :], changed[at + 1 :])
