"""Players x sources: against the same numbers made by hand."""

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.evaluate import distances
from lowregret.evaluate.comparison import Cell, Comparison

from ..conftest import extra
from .test_distances import TorchBer, ber

pd, torch = extra("pandas"), extra("torch")

COIN = lr.matching()
T = 40
MODEL = lr.evaluate.sources.paper_sources(T)["b"]
SOURCES = {"as told": MODEL, "reversed": lr.evaluate.sources.paper_sources(T)["a"]}


def one_way(base: lr.Predictor, horizon: int | None, delta: float, **parts: Any) -> lr.robust.Robust:
    """What the frontier is made of: the exact test, then the urn for good."""
    return lr.robustify(base, COIN, test=lr.ExactTest(delta, horizon), **{"fallback": lr.PolyaUrn(2), **parts})


def warm(temperature: float) -> lr.robust.Robust:
    return one_way(MODEL, T, 0.1, response=lr.QuantalResponse(temperature))


# A player, and the policy as which it plays.
REST = 1 / math.sqrt(T)
ROBUST = {
    "robust": (warm(0.3), 0.3),
    "rate": (lr.robustify(MODEL, COIN, test=lr.RegretRate(T)), REST),
    "unknown horizon": (one_way(MODEL, None, 0.1, fallback=lr.PolyaUrn(2, 0.5)), None),
    "can return": (lr.robustify(MODEL, COIN, test=lr.ExactTest(0.1, T)), REST),
}
COLD = lr.policies.Respond(warm(0.1), COIN, 0.01)
PLAYERS: dict[str, Any] = {
    "model": MODEL,
    "urn": lr.PolyaUrn(2),
    "hedge": lr.policies.Hedge(COIN, T),
    "cold": COLD,
    **{name: player for name, (player, _) in ROBUST.items()},
}
POLICIES: dict[str, lr.policies.Policy] = {
    **{name: lr.policies.Respond(PLAYERS[name], COIN, REST) for name in ("model", "urn")},
    **{name: PLAYERS[name] for name in ("hedge", "cold")},
    **{name: lr.policies.Respond(player, COIN, temperature) for name, (player, temperature) in ROBUST.items()},
}


@pytest.fixture(scope="module")
def found() -> Comparison:
    return lr.compare(PLAYERS, SOURCES, COIN, T, 60, seed=3)


def cell_of(found: Comparison, predictor: str, source: str) -> Cell:
    return next(c for c in found.cells if (c.predictor, c.source) == (predictor, source))


def test_every_number_by_hand(found: Comparison) -> None:
    """Curves, intervals, and what is kept of every sequence."""
    n = 60
    assert found.predictors == tuple(PLAYERS)
    assert found.sources == tuple(SOURCES)
    assert found.n_W == (n, n)
    for w, (source, law) in enumerate(SOURCES.items()):
        tokens = lr.sample(law, T, n, seed=3)
        for i, name in enumerate(PLAYERS):
            regret, cell = lr.external_regret(COIN, POLICIES[name], tokens), cell_of(found, name, source)
            np.testing.assert_allclose(found.regret_PxWxT[i, w], regret.mean(0), atol=1e-13)
            np.testing.assert_allclose(found.error_PxWxT[i, w], stats.sem(regret), atol=1e-13)
            np.testing.assert_allclose(found.regrets(name, source), final := regret[:, -1], atol=1e-13)
            low, high = stats.t.interval(0.95, n - 1, loc=final.mean(), scale=stats.sem(final))
            assert cell.regret == pytest.approx((final.mean(), low, high), abs=1e-12)
            assert (cell.error, cell.n) == (pytest.approx(stats.sem(final), abs=1e-13), n)
            if name in ("model", "urn", "hedge"):
                assert (cell.switch, cell.switched) == (None, None)
                with pytest.raises(ValueError, match=f"predictor '{name}' cannot switch"):
                    found.switch_times(name, source)
                continue
            times = POLICIES[name].predictor.alarm_times(tokens)  # type: ignore[attr-defined]
            np.testing.assert_array_equal(found.switch_times(name, source), times)
            assert cell.switched == np.mean(times < T)
            assert cell.switch == (np.median(times) if np.mean(times < T) > 0.5 else None)
    assert cell_of(found, "rate", "as told").switch is None  # few switch where the model is right
    assert cell_of(found, "rate", "reversed").switch is not None
    with pytest.raises(ValueError, match="source must be"):
        found.regrets("model", "nowhere")


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {**SOURCES, "fixed": np.random.default_rng(2).integers(2, size=(30, T))}
    at_once = lr.compare(PLAYERS, sources, COIN, T, 50, seed=1)
    monkeypatch.setattr(distances, "_LAWS_AT_ONCE", 11 * T * 2)
    in_parts = lr.compare(PLAYERS, sources, COIN, T, 50, seed=1)
    for name in ("regret_PxWxT", "error_PxWxT"):
        np.testing.assert_allclose(getattr(in_parts, name), getattr(at_once, name), atol=1e-13, err_msg=name)
    for player, source in itertools.product(PLAYERS, sources):
        np.testing.assert_allclose(in_parts.regrets(player, source), at_once.regrets(player, source), atol=1e-13)


def test_a_base_model_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Counted(lr.predictors.Scheduled):
        def predict_sequence(self, tokens: Any) -> Any:
            asked.append(len(tokens))
            return super().predict_sequence(tokens)

    base = Counted([[0.3, 0.7]])
    made = {f"{delta}": one_way(base, T, delta) for delta in (0.1, 0.2, 0.3)}
    monkeypatch.setattr(distances, "_LAWS_AT_ONCE", 11 * T * 2)
    lr.compare({"base": base, **made}, {"other": ber(0.2)}, COIN, T, 20, seed=0)
    assert asked == [11, 9]


def test_torch_models_play_beside_the_others() -> None:
    double = TorchBer(0.7, torch.float64)
    both = {"numpy": ber(0.7), "torch": double, "robust torch": one_way(double, T, 0.1)}
    sources: dict[str, lr.Predictor] = {"numpy": ber(0.2), "torch": TorchBer(0.2, torch.float64)}
    found = lr.compare(both, sources, COIN, T, 30, seed=0)
    np.testing.assert_allclose(found.regret_PxWxT[0], found.regret_PxWxT[1], atol=1e-12)
    np.testing.assert_allclose(found.regret_PxWxT[:, 0], found.regret_PxWxT[:, 1], atol=1e-12)
    by_numpy = lr.compare({"": one_way(ber(0.7), T, 0.1)}, sources, COIN, T, 30, seed=0)
    np.testing.assert_allclose(found.regret_PxWxT[2], by_numpy.regret_PxWxT[0], atol=1e-12)


def test_the_table_has_means_errors_and_median_switches(found: Comparison) -> None:
    table = found.table()
    assert table.header == ("source", *PLAYERS)
    assert [row[0] for row in table.rows] == list(SOURCES)
    for row, source in zip(table.rows, SOURCES, strict=True):
        for text, name in zip(row[1:], PLAYERS, strict=True):
            cell = cell_of(found, name, source)
            switch = "" if cell.switch is None else f" ({cell.switch:.0f})"
            assert text == f"{cell.regret.value:+.4f} ±{cell.error:.4f}{switch}"


def test_json_gives_the_comparison_back() -> None:
    problem = lr.DecisionProblem([[1, 0], [0, 1]], actions=["stay", "go"], states=["dry", "wet"])
    some = lr.robustify(MODEL, problem, test=lr.RegretRate(T, alpha=0.9))
    everyone = {"urn": lr.PolyaUrn(2), "some": some}
    sources = {**SOURCES, "greedy": lr.evaluate.adversaries.greedy, "zeros": np.zeros((2, T), dtype=int)}
    found = lr.compare(everyone, sources, problem, T, 30, seed=3)
    record = json.loads(found.to_json(), parse_constant=pytest.fail)  # no NaN, no Infinity
    assert (record["seed"], record["version"]) == (3, lr.__version__)
    assert record["regret"]["reversed"]["urn"] == pytest.approx(found.regret_PxWxT[0, 1].tolist(), abs=1e-7)
    for written in (found.to_json(), record):
        again = Comparison.from_json(written)
        assert str(again.table()) == str(found.table())
        for name in ("problem", "n_W", "seed", "version", "adaptive", "horizon", "predictors", "sources"):
            assert getattr(again, name) == getattr(found, name)
        assert again.problem.states == ("dry", "wet")
        for name in ("regret_PxWxT", "error_PxWxT"):
            np.testing.assert_allclose(getattr(again, name), getattr(found, name), atol=1e-7, err_msg=name)
        for one, other in zip(again.cells, found.cells, strict=True):
            assert one._replace(regret=other.regret, error=other.error) == other
            assert (one.error, *one.regret) == pytest.approx((other.error, *other.regret), abs=1e-6)


def test_a_generator_goes_on_from_source_to_source() -> None:
    twice = {"one": MODEL, "two": MODEL}
    same = lr.compare({"urn": lr.PolyaUrn(2)}, twice, COIN, T, 20, seed=3)
    fresh = lr.compare({"urn": lr.PolyaUrn(2)}, twice, COIN, T, 20, seed=np.random.default_rng(3))
    assert np.array_equal(same.regret_PxWxT[:, 0], same.regret_PxWxT[:, 1])
    assert np.array_equal(fresh.regret_PxWxT[:, 0], same.regret_PxWxT[:, 0])
    assert not np.array_equal(fresh.regret_PxWxT[:, 0], fresh.regret_PxWxT[:, 1])
    assert (same.seed, fresh.seed) == (3, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predictors": {}}, "predictors must be a dict"),
        ({"sources": [MODEL]}, "sources must be a dict"),
        ({"predictors": {"x": lr.PolyaUrn(3)}}, r"predictors\['x'\]: predictor and problem must have the same states"),
        ({"sources": {"y": lr.PolyaUrn(3)}}, r"sources\['y'\]: predictor and problem must have the same states"),
        ({"predictors": {"x": 3}}, r"predictors\['x'\]: player must be a Predictor or a Policy, got int"),
        ({"sources": {"y": lr.policies.Hedge(COIN, T)}}, r"sources\['y'\] must be a Predictor, sequence.*, got Hedge"),
        ({"sources": {"y": [0] * (T - 1)}}, r"sources\['y'\] must be sequences of 40 states, .* got shape \(39,\)"),
        ({"sources": {"y": [[0, 2] * (T // 2)]}}, r"sources\['y'\] must lie in 0..1"),
        ({"sources": {"y": lambda *_: [1] * 3}}, r"what sources\['y'\] found must be sequences of 40 states"),
        ({"n": None}, "n, .* of sequences from each source, must be a whole number >= 2, got None"),
        ({"seed": None}, "seed must be a whole number"),
        ({"predictors": {"x": lr.policies.Hedge(lr.matching(3), T)}}, "player acts in another problem"),
        ({"horizon": T + 1}, r"predictors\['robust'\]: player is robust for 40 steps, horizon is 41"),
        ({"problem": np.eye(2)}, "problem must be a DecisionProblem"),
    ],
)
def test_refusals_name_the_argument(change: dict[str, Any], message: str) -> None:
    usual = {"predictors": {"robust": warm(0.3)}, "sources": SOURCES, "problem": COIN, "horizon": T, "n": 5, "seed": 0}
    with pytest.raises(ValueError, match=message):
        lr.compare(**{**usual, **change})  # type: ignore[arg-type]


def test_fixed_sequences_are_played_as_they_are() -> None:
    """As one of them, as a few, and in torch; nothing is sampled, so no seed is asked for."""
    tokens = np.random.default_rng(5).integers(2, size=(7, T))
    found = lr.compare(PLAYERS, {"few": tokens, "one": tokens[2].tolist(), "torch": torch.as_tensor(tokens)}, COIN, T)
    assert found.n_W == (7, 1, 7)
    assert found.seed is None
    for i, name in enumerate(PLAYERS):
        regret = lr.external_regret(COIN, POLICIES[name], tokens)
        for few in ("few", "torch"):
            np.testing.assert_allclose(found.regrets(name, few), regret[:, -1], atol=1e-13)
        np.testing.assert_allclose(found.regret_PxWxT[i, 1], regret[2], atol=1e-13)
        cell = cell_of(found, name, "one")
        assert cell.regret == (cell.regret.value,) * 3  # of one sequence there is nothing to average over
        assert (cell.error, cell.n) == (0, 1)
    rows = {row[0]: row[1:] for row in found.table().rows}
    assert "±" in rows["few"][0]
    assert not any("±" in text for text in rows["one"])
    assert "1 to 7 sequences a source" in found.table().title


def test_an_adversary_meets_each_player_with_its_own_sequence() -> None:
    def constant(player: Any, problem: Any, horizon: int) -> Any:
        """The worse of the two constant sequences, and the other."""
        assert (problem, horizon) == (COIN, T)
        both = np.repeat([[0], [1]], horizon, axis=1)
        worse = lr.external_regret(problem, player, both)[:, -1].argmax()
        return both[[worse, 1 - worse]]

    known = {name: player for name, player in PLAYERS.items() if name != "unknown horizon"}
    found = lr.compare(known, {"greedy": lr.evaluate.adversaries.greedy, "constant": constant}, COIN, T)
    assert (found.n_W, found.adaptive) == ((1, 2), ("greedy", "constant"))
    for name, player in known.items():
        worst = lr.evaluate.adversaries.greedy(POLICIES[name], COIN, T)
        assert found.regrets(name, "greedy") == pytest.approx([worst.regret], abs=1e-12)
        first, second = found.regrets(name, "constant")
        assert first >= second
        if isinstance(player, lr.robust.Robust):
            assert found.switch_times(name, "greedy") == player.alarm_times(worst.tokens)
    with pytest.raises(ValueError, match="'greedy' met each player with sequences of its own"):
        found.difference("model", "urn", "greedy")
    assert found.differences("model").rows == ()


def test_differences_are_paired(found: Comparison) -> None:
    """By scipy's paired test; and where two players move together, they are far sharper than what each comes to."""
    for a, b in (("model", "urn"), ("can return", "robust"), ("hedge", "urn")):
        apart = found.difference(a, b, "reversed")
        paired = stats.ttest_rel(found.regrets(a, "reversed"), found.regrets(b, "reversed")).confidence_interval(0.95)
        assert (apart.low, apart.high) == pytest.approx((paired.low, paired.high), abs=1e-12)
        assert apart.value == pytest.approx((paired.low + paired.high) / 2)
    close, wide = found.difference("rate", "model", "as told"), cell_of(found, "model", "as told").regret
    assert 0 < close.high - close.low < 0.7 * (wide.high - wide.low)
    table = found.differences("urn")
    assert table.header == ("source", *(p for p in PLAYERS if p != "urn"))
    apart = found.difference("model", "urn", "as told")
    assert table.rows[0][:2] == ("as told", f"{apart.value:+.4f} ({apart.low:+.4f} to {apart.high:+.4f})")
    alone = lr.compare({"a": ber(0.2), "b": ber(0.7)}, {"one": [1] * T}, COIN, T).difference("a", "b", "one")
    assert alone.low == alone.value == alone.high > 0


def test_frames_for_pandas() -> None:
    found = lr.compare(PLAYERS, {**SOURCES, "zeros": np.zeros(T, dtype=int)}, COIN, T, 12, seed=7)
    _ = pd.DataFrame  # skipped where it is not installed
    frame = found.to_frame().set_index(["source", "predictor"])
    assert len(frame) == len(PLAYERS) * 3
    cell, row = cell_of(found, "rate", "reversed"), frame.loc["reversed", "rate"]
    assert (row["regret"], row["low"], row["high"], row["error"]) == (*cell.regret, cell.error)
    assert (row["n"], row["switched"], row["switch"]) == (12, cell.switched, cell.switch)
    assert np.isnan(frame.loc["reversed", "urn"]["switched"])
    every = found.to_frame(by_sequence=True)
    assert len(every) == len(PLAYERS) * (12 + 12 + 1)
    means = every.groupby(["source", "predictor"])["regret"].mean()
    np.testing.assert_allclose(means[frame.index], frame["regret"], atol=1e-13)
    one = every[(every["source"] == "reversed") & (every["predictor"] == "rate")]
    np.testing.assert_array_equal(one["switch"], found.switch_times("rate", "reversed"))
    assert every[every["predictor"] == "urn"]["switch"].isna().all()
