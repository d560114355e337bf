"""Players x sources: against the same numbers made by hand."""

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.evaluate import distances, playing

from ..conftest import extra
from .test_distances import TorchBer, ber

pd, torch = extra("pandas"), extra("torch")

COIN = lr.matching()
T = 40
MODEL = lr.evaluate.sources.paper_sources(T)["b"]
SOURCES = {"as told": MODEL, "reversed": lr.evaluate.sources.paper_sources(T)["a"]}


def one_way(
    base: lr.Predictor,
    horizon: int | None,
    delta: float,
    *,
    problem: lr.DecisionProblem = COIN,
    prior: float = 1.0,
    temperature: float | None = None,
) -> lr.robust.Robust:
    """What the frontier is made of: the exact test, then the urn for good."""
    test, urn = lr.ExactTest(delta, horizon), lr.PolyaUrn(problem.n_states, prior)
    return lr.robustify(base, problem, test=test, fallback=urn, response=lr.QuantalResponse(temperature))


def warm(temperature: float) -> lr.robust.Robust:
    return one_way(MODEL, T, 0.1, temperature=temperature)


def players() -> dict[str, Any]:
    return {
        "model": MODEL,
        "urn": lr.PolyaUrn(2),
        "robust": warm(0.3),
        "rate": lr.robustify(MODEL, COIN, test=lr.RegretRate(T)),
        "unknown horizon": one_way(MODEL, None, 0.1, prior=0.5),
        "hedge": lr.policies.Hedge(COIN, T),
        "cold": lr.policies.Respond(warm(0.1), COIN, 0.01),
        "can return": lr.robustify(MODEL, COIN, test=lr.ExactTest(0.1, T)),
    }


def policies() -> dict[str, lr.policies.Policy]:
    """How each of them plays."""
    known = players()
    rest = 1 / math.sqrt(T)
    return {
        "model": lr.policies.Respond(known["model"], COIN, rest),
        "urn": lr.policies.Respond(known["urn"], COIN, rest),
        "robust": lr.policies.Respond(known["robust"], COIN, 0.3),
        "rate": lr.policies.Respond(known["rate"], COIN, rest),
        "unknown horizon": lr.policies.Respond(known["unknown horizon"], COIN, None),
        "hedge": known["hedge"],
        "cold": known["cold"],
        "can return": lr.policies.Respond(known["can return"], COIN, rest),
    }


def test_every_number_by_hand() -> None:
    n = 60
    found = lr.compare(players(), SOURCES, COIN, T, n, seed=3)
    assert found.predictors == tuple(players())
    assert found.sources == tuple(SOURCES)
    for w, source in enumerate(SOURCES.values()):
        tokens = lr.sample(source, T, n, seed=3)
        for i, (name, policy) in enumerate(policies().items()):
            regret = lr.external_regret(COIN, policy, tokens)
            np.testing.assert_allclose(found.regret_PxWxT[i, w], regret.mean(0), atol=1e-13)
            np.testing.assert_allclose(found.error_PxWxT[i, w], stats.sem(regret), atol=1e-13)
            final = regret[:, -1]
            low, high = stats.t.interval(0.95, n - 1, loc=final.mean(), scale=stats.sem(final))
            assert (found.low_PxW[i, w], found.high_PxW[i, w]) == pytest.approx((low, high), abs=1e-12)
            robust = getattr(policy, "predictor", None)
            if isinstance(robust, lr.robust.Robust):
                times = robust.alarm_times(tokens)
                assert found.switch_PxW[i, w] == np.median(times)
                assert found.switched_PxW[i, w] == np.mean(times < T)
            else:
                assert name in ("model", "urn", "hedge")
                assert np.isnan(found.switch_PxW[i, w])
                assert np.isnan(found.switched_PxW[i, w])


def test_cells_say_none_where_there_is_nothing_to_say() -> None:
    cells = {(c.predictor, c.source): c for c in lr.compare(players(), SOURCES, COIN, T, 60, seed=3).cells}
    assert len(cells) == len(players()) * len(SOURCES)
    assert cells["urn", "reversed"].switched is None
    assert cells["rate", "as told"].switched is not None
    assert cells["rate", "as told"].switch is None  # few switch where the model is right
    assert cells["rate", "reversed"].switch is not None
    assert cells["rate", "reversed"].regret.value < cells["model", "reversed"].regret.low


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {**SOURCES, "fixed": np.random.default_rng(2).integers(2, size=(30, T))}
    at_once = lr.compare(players(), sources, COIN, T, 50, seed=1)
    monkeypatch.setattr(distances, "_LAWS_AT_ONCE", 11 * T * 2)
    in_parts = lr.compare(players(), sources, COIN, T, 50, seed=1)
    for name in ("regret_PxWxT", "error_PxWxT", "low_PxW", "high_PxW", "switch_PxW", "switched_PxW"):
        np.testing.assert_allclose(getattr(in_parts, name), getattr(at_once, name), atol=1e-13, err_msg=name)


def test_a_base_model_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Counted(lr.predictors.Scheduled):
        def predict_sequence(self, tokens: Any) -> Any:
            asked.append(len(tokens))
            return super().predict_sequence(tokens)

    base = Counted([[0.3, 0.7]])
    made = {f"{delta}": one_way(base, T, delta) for delta in (0.1, 0.2, 0.3)}
    made["can return"] = lr.robustify(base, COIN, test=lr.ExactTest(0.1, T))
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
    np.testing.assert_array_equal(found.switch_PxW[2], by_numpy.switch_PxW[0])


def test_the_table_has_means_errors_and_median_switches() -> None:
    found = lr.compare(players(), SOURCES, COIN, T, 30, seed=3)
    table = found.table()
    assert table.header == ("source", *players())
    assert [row[0] for row in table.rows] == list(SOURCES)
    for row, source in zip(table.rows, SOURCES, strict=True):
        for text, cell in zip(row[1:], (c for c in found.cells if c.source == source), strict=True):
            switch = "" if cell.switch is None else f" ({cell.switch:.0f})"
            assert text == f"{cell.regret.value:+.4f} ±{cell.error:.4f}{switch}"


def test_json_gives_the_comparison_back() -> None:
    """Never switched stays never, and cannot switch stays that: they are not the same."""
    problem = lr.DecisionProblem([[1, 0], [0, 1]], actions=["stay", "go"], states=["dry", "wet"])
    never = one_way(MODEL, T, 1e-9, problem=problem)
    some = lr.robustify(MODEL, problem, test=lr.RegretRate(T, alpha=0.9))
    everyone = {"urn": lr.PolyaUrn(2), "never": never, "some": some}
    sources = {**SOURCES, "greedy": lr.evaluate.adversaries.greedy, "zeros": np.zeros((2, T), dtype=int)}
    found = lr.compare(everyone, sources, problem, T, 30, seed=3)
    record = json.loads(found.to_json(), parse_constant=pytest.fail)  # no NaN, no Infinity
    assert (record["seed"], record["version"]) == (3, lr.__version__)
    assert record["regret"]["reversed"]["urn"] == pytest.approx(found.regret_PxWxT[0, 1].tolist(), abs=1e-7)
    for written in (found.to_json(), record):
        again = lr.evaluate.comparison.Comparison.from_json(written)
        assert again.to_json() == found.to_json()
        assert str(again.table()) == str(found.table())
        assert (again.problem, again.problem.states, again.n_W) == (problem, ("dry", "wet"), found.n_W)
        assert (again.seed, again.version, again.adaptive) == (3, lr.__version__, ("greedy",))
        for name in ("regret_PxWxT", "error_PxWxT", "low_PxW", "high_PxW", "switch_PxW", "switched_PxW"):
            np.testing.assert_allclose(getattr(again, name), getattr(found, name), atol=1e-7, err_msg=name)
        for player, source in itertools.product(everyone, sources):
            np.testing.assert_allclose(again.regrets(player, source), found.regrets(player, source), atol=1e-7)
        np.testing.assert_array_equal(again.switch_times("some", "reversed"), found.switch_times("some", "reversed"))
    assert np.isnan(again.switch_PxW[0]).all()
    assert again.switch_PxW[1, 0] == T + 1
    assert lr.compare(everyone, SOURCES, problem, T, 4, np.random.default_rng(0)).seed is None
    del record["sequences"], record["seed"], record["version"], record["adaptive"]
    old = lr.evaluate.comparison.Comparison.from_json(record)
    assert (old.seed, old.version) == (None, None)
    with pytest.raises(ValueError, match="without its sequences"):
        old.regrets("urn", "zeros")


def test_progress_grows_to_the_end() -> None:
    seen: list[tuple[float, str, str]] = []
    lr.compare(players(), SOURCES, COIN, T, 30, seed=3, progress=lambda *what: seen.append(what))
    shares = [share for share, _, _ in seen]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert 0.5 < shares[-1] < 1
    assert {(player, source) for _, player, source in seen} == {(p, s) for p in players() for s in SOURCES}


def test_a_generator_goes_on_from_source_to_source() -> None:
    twice = {"one": MODEL, "two": MODEL}
    same = lr.compare({"urn": lr.PolyaUrn(2)}, twice, COIN, T, 20, seed=3)
    fresh = lr.compare({"urn": lr.PolyaUrn(2)}, twice, COIN, T, 20, seed=np.random.default_rng(3))
    assert np.array_equal(same.regret_PxWxT[:, 0], same.regret_PxWxT[:, 1])
    assert np.array_equal(fresh.regret_PxWxT[:, 0], same.regret_PxWxT[:, 0])
    assert not np.array_equal(fresh.regret_PxWxT[:, 0], fresh.regret_PxWxT[:, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"predictors": {}}, "predictors must be a dict"),
        ({"sources": [MODEL]}, "sources must be a dict"),
        ({"predictors": {"x": lr.PolyaUrn(3)}}, r"predictors\['x'\]: predictor and problem must have the same states"),
        ({"sources": {"y": lr.PolyaUrn(3)}}, r"sources\['y'\]: predictor and problem must have the same states"),
        ({"predictors": {"x": 3}}, r"predictors\['x'\]: player must be a Predictor or a Policy, got int"),
        ({"sources": {"y": lr.policies.Hedge(COIN, T)}}, r"sources\['y'\] must be a Predictor, sequence.*, got Hedge"),
        ({"sources": {"y": lr.policies.Hedge}}, r"sources\['y'\] must be a Predictor, sequences .*, got _*\w+"),
        ({"sources": {"y": [0] * (T - 1)}}, r"sources\['y'\] must be sequences of 40 states, .* got shape \(39,\)"),
        ({"sources": {"y": [[0, 2] * (T // 2)]}}, r"sources\['y'\] must lie in 0..1"),
        ({"sources": {"y": lambda *_: [1] * 3}}, r"what sources\['y'\] found must be sequences of 40 states"),
        ({"sources": {"y": lambda *_: [0.5] * T}}, r"what sources\['y'\] found must be integers"),
        ({"n": None}, "n, .* of sequences from each source, must be a whole number >= 2, got None"),
        ({"seed": None}, "seed must be a whole number"),
        (
            {"predictors": {"x": lr.policies.Hedge(lr.matching(3), T)}},
            "player acts in another problem",
        ),
        ({"horizon": T + 1}, r"predictors\['robust'\]: player is robust for 40 steps, horizon is 41"),
        ({"n": 1}, "must be a whole number >= 2, got 1"),
        ({"seed": -1}, "seed must be"),
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
    found = lr.compare(players(), {"few": tokens, "one": tokens[2].tolist(), "torch": torch.as_tensor(tokens)}, COIN, T)
    assert found.n_W == (7, 1, 7)
    assert (found.n, found.seed) == (None, None)
    for i, (name, policy) in enumerate(policies().items()):
        regret = lr.external_regret(COIN, policy, tokens)
        for few in ("few", "torch"):
            np.testing.assert_allclose(found.regrets(name, few), regret[:, -1], atol=1e-13)
        np.testing.assert_allclose(found.regret_PxWxT[i, 1], regret[2], atol=1e-13)
        cell = next(c for c in found.cells if (c.predictor, c.source) == (name, "one"))
        assert cell.regret == (cell.regret.value,) * 3  # of one sequence there is nothing to average over
        assert (cell.error, cell.n) == (0, 1)
    rows = {row[0]: row[1:] for row in found.table().rows}
    assert "±" in rows["few"][0]
    assert not any("±" in text for text in rows["one"])
    assert "1 to 7 sequences a source" in found.table().title


def test_an_adversary_meets_each_player_with_its_own_sequence() -> None:
    asked: list[tuple[Any, Any, int]] = []

    def constant(player: Any, problem: Any, horizon: int) -> Any:
        """The worse of the two constant sequences, and the other."""
        asked.append((player, problem, horizon))
        both = np.repeat([[0], [1]], horizon, axis=1)
        worse = lr.external_regret(problem, player, both)[:, -1].argmax()
        return both[[worse, 1 - worse]]

    known = {name: player for name, player in players().items() if name != "unknown horizon"}
    found = lr.compare(known, {"greedy": lr.evaluate.adversaries.greedy, "constant": constant}, COIN, T)
    assert (found.n_W, found.adaptive) == ((1, 2), ("greedy", "constant"))
    for name, player in known.items():
        worst = lr.evaluate.adversaries.greedy(policies()[name], COIN, T)
        assert found.regrets(name, "greedy") == pytest.approx([worst.regret], abs=1e-12)
        first, second = found.regrets(name, "constant")
        assert first >= second
        if isinstance(player, lr.robust.Robust):
            assert found.switch_times(name, "greedy") == player.alarm_times(worst.tokens)
    assert [what[1:] for what in asked] == [(COIN, T)] * len(known)
    assert found.regrets("model", "greedy") > 2 * found.regrets("can return", "greedy")
    with pytest.raises(ValueError, match="'greedy' met each player with sequences of its own"):
        found.difference("model", "urn", "greedy")
    assert found.differences("model").rows == ()
    uneven = {"y": lambda player, *_: np.zeros((1 if hasattr(player, "predictor") else 2, T), dtype=int)}
    with pytest.raises(ValueError, match=r"sources\['y'\] must find as many sequences for every player, got"):
        lr.compare(known, uneven, COIN, T)


def test_what_is_kept_of_every_sequence() -> None:
    """Regrets and switch times one by one, quantiles of them, and the law of the switch time."""
    n = 50
    found = lr.compare(players(), SOURCES, COIN, T, n, seed=3)
    for source, law in SOURCES.items():
        tokens = lr.sample(law, T, n, seed=3)
        for name, policy in policies().items():
            regret = lr.external_regret(COIN, policy, tokens)[:, -1]
            np.testing.assert_allclose(found.regrets(name, source), regret, atol=1e-13)
            np.testing.assert_allclose(found.quantiles(name, source, [0.1, 0.9]), np.quantile(regret, [0.1, 0.9]))
            robust = getattr(policy, "predictor", None)
            if isinstance(robust, lr.robust.Robust):
                times = robust.alarm_times(tokens)
                np.testing.assert_array_equal(found.switch_times(name, source), times)
                by_hand = [np.mean(times <= t) for t in range(T + 1)]
                np.testing.assert_allclose(found.switched_by(name, source), by_hand)
            else:
                with pytest.raises(ValueError, match=f"predictor '{name}' cannot switch"):
                    found.switch_times(name, source)
    assert 0 < found.switched_by("rate", "reversed")[T // 2] < found.switched_by("rate", "reversed")[-1]
    with pytest.raises(ValueError, match="source must be"):
        found.regrets("model", "nowhere")
    with pytest.raises(ValueError, match="levels must lie strictly between 0 and 1"):
        found.quantiles("model", "reversed", [0.5, 1.5])


def test_differences_are_paired() -> None:
    """By scipy's paired test; and where two players move together, they are far sharper than what each comes to."""
    n = 80
    found = lr.compare(players(), SOURCES, COIN, T, n, seed=1)
    for a, b in (("model", "urn"), ("can return", "robust"), ("hedge", "urn")):
        apart = found.difference(a, b, "reversed")
        paired = stats.ttest_rel(found.regrets(a, "reversed"), found.regrets(b, "reversed")).confidence_interval(0.95)
        assert (apart.low, apart.high) == pytest.approx((paired.low, paired.high), abs=1e-12)
        assert apart.value == pytest.approx((paired.low + paired.high) / 2)
    close = found.difference("rate", "model", "as told")
    i, w = found.predictors.index("model"), 0
    assert 0 < close.high - close.low < 0.7 * (found.high_PxW[i, w] - found.low_PxW[i, w])
    table = found.differences("urn")
    assert table.header == ("source", *(p for p in players() if p != "urn"))
    apart = found.difference("model", "urn", "as told")
    assert table.rows[0][:2] == ("as told", f"{apart.value:+.4f} ({apart.low:+.4f} to {apart.high:+.4f})")
    alone = lr.compare({"a": ber(0.2), "b": ber(0.7)}, {"one": [1] * T}, COIN, T).difference("a", "b", "one")
    assert alone.low == alone.value == alone.high > 0


def test_frames_for_pandas() -> None:
    sources = {**SOURCES, "zeros": np.zeros(T, dtype=int)}
    found = lr.compare(players(), sources, COIN, T, 12, seed=7)
    _ = pd.DataFrame  # skipped where it is not installed
    frame = found.to_frame().set_index(["source", "predictor"])
    assert len(frame) == len(players()) * 3
    cell = next(c for c in found.cells if (c.predictor, c.source) == ("rate", "reversed"))
    row = frame.loc["reversed", "rate"]
    assert (row["regret"], row["low"], row["high"], row["error"]) == (*cell.regret, cell.error)
    assert (row["n"], row["switched"], row["switch"]) == (12, cell.switched, cell.switch)
    assert tuple(row[["q05", "q50", "q95"]]) == tuple(found.quantiles("rate", "reversed"))
    assert np.isnan(frame.loc["reversed", "urn"]["switched"])
    every = found.to_frame(by_sequence=True)
    assert len(every) == len(players()) * (12 + 12 + 1)
    means = every.groupby(["source", "predictor"])["regret"].mean()
    np.testing.assert_allclose(means[frame.index], frame["regret"], atol=1e-13)
    one = every[(every["source"] == "reversed") & (every["predictor"] == "rate")]
    np.testing.assert_array_equal(one["switch"], found.switch_times("rate", "reversed"))


def test_latex_is_set_as_in_the_paper() -> None:
    everyone = {"ROBUST_1": warm(0.3), "50% & more": lr.PolyaUrn(2)}
    found = lr.compare(everyone, {"a": MODEL, "one^1": [1] * T}, COIN, T, 9, seed=0)
    begin, head, rule, first, second, closing, end = found.to_latex().splitlines()
    assert (begin, end) == (r"\begin{tabular}{c|c|c}", r"\end{tabular}")
    assert rule.strip() == closing.strip() == r"\hline"
    assert head.strip() == r"& a & one\^{}1 \\"
    cells = {(c.predictor, c.source): c for c in found.cells}
    a, one = cells["ROBUST_1", "a"], cells["ROBUST_1", "one^1"]
    numbers = rf"${a.regret.value:.4f}\pm {a.error:.4f}$ & ${one.regret.value:.4f}$"
    assert first.strip() == rf"\texttt{{ROBUST\_1}} & {numbers} \\"
    assert second.strip().startswith(r"\texttt{50\% \& more} &")


def test_policies_play_many_sequences_at_once_and_none_is_left_out() -> None:
    n = 2 * playing._TOGETHER + 3
    players = {"learns": lr.policies.AdaHedge(COIN), "urn": lr.PolyaUrn(2)}
    found = lr.compare(players, SOURCES, COIN, T, n, seed=3)
    for i, policy in enumerate((players["learns"], lr.policies.Respond(players["urn"], COIN, 1 / math.sqrt(T)))):
        for w, source in enumerate(SOURCES.values()):
            each_NxT = lr.external_regret(COIN, policy, lr.sample(source, T, n, seed=3))
            np.testing.assert_allclose(found.regret_PxWxT[i, w], each_NxT.mean(axis=0), atol=1e-12)
            error_T = each_NxT.std(axis=0, ddof=1) / math.sqrt(n)
            np.testing.assert_allclose(found.error_PxWxT[i, w], error_T, atol=1e-12)
