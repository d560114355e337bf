"""Predictors x sources, and the price of robustness: against the same numbers made by hand."""

import json
import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.evaluate import comparison, distances
from lowregret.evaluate.adversaries import all_sequences
from lowregret.tables import Table
from paper import frontier

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


def test_batches_and_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = lr.compare(players(), SOURCES, COIN, T, 50, seed=1)
    monkeypatch.setattr(distances, "_LAWS_AT_ONCE", 11 * T * 2)
    monkeypatch.setattr("lowregret.arrays._ROWS_ON_CPU", 3 * T * 2)
    in_parts = lr.compare(players(), SOURCES, COIN, T, 50, seed=1)
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
    monkeypatch.setattr("lowregret.arrays._ROWS_ON_CPU", 3 * T * 2)  # few at a time, and all at once what can return
    lr.compare({"base": base, **made}, {"other": ber(0.2)}, COIN, T, 20, seed=0)
    assert asked == [3] * 6 + [2]


def test_the_paper_s_sources() -> None:
    """A few of the notes' exact numbers, through compare: Ber model and urn on a, b and d."""
    sources = lr.evaluate.sources.paper_sources(1024)
    chosen = {name: sources[name] for name in "abd"}
    found = lr.compare({"Ber": sources["b"], "urn": lr.PolyaUrn(2)}, chosen, COIN, 1024, 400, seed=0)
    expected = [[0.1784, -0.1549, 0.1667], [-0.0071, -0.0072, 0.0017]]
    final, error = found.regret_PxWxT[..., -1], found.error_PxWxT[..., -1]
    assert np.all(np.abs(final - expected) < 4 * np.hypot(error, 6e-4))


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


def test_table_json_and_plot(monkeypatch: pytest.MonkeyPatch) -> None:
    found = lr.compare(players(), SOURCES, COIN, T, 30, seed=3)
    table = found.table()
    assert "± standard error" in table.title
    assert table.header == ("source", *players())
    assert [row[0] for row in table.rows] == list(SOURCES)
    lines = str(table).splitlines()
    assert len(lines) == 2 + len(SOURCES)
    assert len({line.index(name) + len(name) for line, name in [(lines[1], "model")]}) == 1
    final = found.regret_PxWxT[0, 0, -1]
    assert table.rows[0][1] == f"{final:+.4f} ±{found.error_PxWxT[0, 0, -1]:.4f}"
    record = json.loads(found.to_json(), parse_constant=pytest.fail)  # no NaN, no Infinity
    assert record["regret"]["reversed"]["urn"] == pytest.approx(found.regret_PxWxT[1, 1].tolist(), abs=1e-7)
    assert record["standard_error"]["as told"]["rate"][-1] == pytest.approx(found.error_PxWxT[3, 0, -1], abs=1e-7)
    assert [cell["predictor"] for cell in record["cells"]] == [cell.predictor for cell in found.cells]
    assert record["cells"][0]["regret"]["value"] == final
    monkeypatch.setattr("lowregret.evaluate.plots.regret_curves", lambda comparison: ("curves", comparison))
    monkeypatch.setattr("paper.plots.frontier", lambda frontier: ("frontier", frontier))
    assert found.plot() == ("curves", found)
    priced = frontier.price_of_robustness(MODEL, COIN, T, 10, 0, deltas=[0.1])
    assert priced.plot() == ("frontier", priced)


def test_json_gives_the_comparison_back() -> None:
    """Never switched stays never, and cannot switch stays that: they are not the same."""
    problem = lr.DecisionProblem([[1, 0], [0, 1]], actions=["stay", "go"], states=["dry", "wet"])
    never, some = one_way(MODEL, T, 1e-9, problem=problem), lr.RegretRate(T, alpha=0.9)
    everyone: dict[str, lr.Predictor] = {"urn": lr.PolyaUrn(2)}
    everyone.update(never=never, some=lr.robustify(MODEL, problem, test=some))
    found = lr.compare(everyone, SOURCES, problem, T, 30, seed=3)
    cells = {(cell.predictor, cell.source): cell for cell in found.cells}
    assert cells["urn", "as told"].switched is None
    assert cells["never", "as told"].switched == 0
    assert 0 < (cells["some", "as told"].switched or 0) < 0.5 < (cells["some", "reversed"].switched or 0)
    for written in (found.to_json(), json.loads(found.to_json())):
        again = lr.evaluate.comparison.Comparison.from_json(written)
        assert again.cells == found.cells
        assert str(again.table()) == str(found.table())
        assert (again.problem.actions, again.problem.states) == (("stay", "go"), ("dry", "wet"))
        np.testing.assert_array_equal(again.switch_PxW, found.switch_PxW)
        np.testing.assert_array_equal(again.switched_PxW, found.switched_PxW)
        np.testing.assert_allclose(again.regret_PxWxT, found.regret_PxWxT, atol=1e-7)
        assert again.to_json() == found.to_json()
    assert np.isnan(again.switch_PxW[0]).all()
    assert again.switch_PxW[1, 0] == T + 1


def test_files_from_before_medians_were_written_down_are_read() -> None:
    found = lr.compare({"urn": lr.PolyaUrn(2), **players()}, SOURCES, COIN, T, 31, seed=3)
    old = json.loads(found.to_json())
    for cell in old["cells"]:
        del cell["median"]
    del old["actions"], old["states"]
    np.testing.assert_array_equal(lr.evaluate.comparison.Comparison.from_json(old).switch_PxW, found.switch_PxW)


def test_columns_line_up() -> None:
    lines = str(Table("t", ("name", "a"), (("long name", "1"), ("x", "1000")))).splitlines()
    assert lines == ["t", "name          a", "long name     1", "x          1000"]


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
        ({"predictors": {"x": 3}}, r"predictors\['x'\] must be a Predictor, got int"),
        ({"sources": {"y": lr.policies.Hedge(COIN, T)}}, r"sources\['y'\] must be a Predictor, sequence.*, got Hedge"),
        ({"sources": {"y": lr.policies.Hedge}}, r"sources\['y'\] must be a Predictor, sequences .*, got _*\w+"),
        ({"sources": {"y": [0] * (T - 1)}}, r"sources\['y'\] must be sequences of 40 states, .* got shape \(39,\)"),
        ({"sources": {"y": [[0, 2] * (T // 2)]}}, r"sources\['y'\] must lie in 0..1"),
        ({"sources": {"y": lambda *_: [1] * 3}}, r"what sources\['y'\] found must be sequences of 40 states"),
        ({"sources": {"y": lambda *_: [0.5] * T}}, r"what sources\['y'\] found must be integers"),
        ({"n": None}, "n must be a whole number >= 2, got None"),
        ({"seed": None}, "seed must be a whole number"),
        ({"predictors": {"x": lr.policies.Hedge(lr.matching(3), T)}}, r"predictors\['x'\] acts in another problem"),
        ({"horizon": T + 1}, r"predictors\['robust'\] is robust for 40 steps, horizon is 41"),
        ({"n": 1}, "n must be a whole number >= 2"),
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


def test_json_says_how_it_was_made_and_keeps_the_sequences() -> None:
    sources = {**SOURCES, "greedy": lr.evaluate.adversaries.greedy, "zeros": np.zeros((2, T), dtype=int)}
    found = lr.compare(players(), sources, COIN, T, 12, seed=7)
    record = json.loads(found.to_json(), parse_constant=pytest.fail)
    assert (record["seed"], record["version"]) == (7, lr.__version__)
    again = lr.evaluate.comparison.Comparison.from_json(record)
    assert (again.seed, again.version, again.n_W, again.adaptive) == (7, lr.__version__, found.n_W, ("greedy",))
    for source in sources:
        for name in players():
            np.testing.assert_allclose(again.regrets(name, source), found.regrets(name, source), atol=1e-7)
    np.testing.assert_array_equal(again.switch_times("rate", "reversed"), found.switch_times("rate", "reversed"))
    with pytest.raises(ValueError, match="cannot switch"):
        again.switch_times("urn", "zeros")
    assert again.to_json() == found.to_json()
    by_generator = lr.compare(players(), SOURCES, COIN, T, 4, seed=np.random.default_rng(0))
    assert by_generator.seed is None
    del record["sequences"], record["seed"], record["version"], record["adaptive"]
    old = lr.evaluate.comparison.Comparison.from_json(record)
    assert (old.seed, old.version) == (None, None)
    with pytest.raises(ValueError, match="without its sequences"):
        old.regrets("urn", "zeros")


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
    with pytest.raises(ValueError, match="by_sequence must be True or False"):
        found.to_frame(by_sequence="yes")  # type: ignore[arg-type]


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


# The price of robustness

SHORT = 10
GAME = lr.DecisionProblem([[1.0, -0.5], [-0.75, 0.5], [0.0, 0.25]])
LEANING = lr.Markov([[0.7, 0.3], [0.4, 0.6]], 1)


def exactly_given_up(base: lr.Predictor, safe: lr.robust.Robust, problem: lr.DecisionProblem, horizon: int) -> float:
    """Realised utilities over all sequences, each with its probability."""
    tokens = all_sequences(2, horizon)
    laws = base.predict_sequence(tokens)
    chance = np.take_along_axis(laws, tokens[..., None], -1)[..., 0].prod(-1)
    earned = []
    for player in (base, safe):
        play = lr.policies.Respond(player, problem, safe.temperature).policy_sequence(tokens)
        earned.append((play * problem.utility.T[tokens]).sum(-1).mean(-1))
    return float(chance @ (earned[0] - earned[1]))


@pytest.mark.parametrize("delta", [0.5, 0.2])
def test_utility_given_up_against_all_sequences(delta: float) -> None:
    safe = one_way(LEANING, SHORT, delta, problem=GAME)
    exact = exactly_given_up(LEANING, safe, GAME, SHORT)
    held = 0
    for seed in range(20):
        [row] = frontier.price_of_robustness(LEANING, GAME, SHORT, 200, seed, deltas=[delta]).rows
        held += row.given_up.low <= exact <= row.given_up.high
    assert held >= stats.binom.ppf(1e-4, 20, 0.93)
    [row] = frontier.price_of_robustness(LEANING, GAME, SHORT, 20_000, 0, deltas=[delta]).rows
    assert row.given_up.value == pytest.approx(exact, abs=0.15 * abs(exact))
    tokens = lr.sample(LEANING, SHORT, 20_000, 0)
    assert row.switched == np.mean(safe.alarm_times(tokens) < SHORT)


def test_the_frontier_keeps_the_theorems() -> None:
    found = frontier.price_of_robustness(MODEL, COIN, T, 400, 0)
    assert [row.delta for row in found.rows] == [0.5, 0.1, 0.02, 0.004]
    for row in found.rows:
        assert stats.binom.cdf(row.switched * 400 - 1, 400, row.delta) < 1 - 1e-6  # not more often than delta
        assert row.given_up.low <= row.delta * COIN.span
        safe = one_way(MODEL, T, row.delta)
        assert row.certificate == safe.certificate.regret_bound
        assert row.regret <= row.certificate
        assert row.removed == pytest.approx(found.base_regret - row.regret)
    rows = found.rows  # a smaller delta switches less and certifies less
    assert all(a.switched >= b.switched and a.certificate <= b.certificate for a, b in pairwise(rows))
    assert rows[0].given_up.value > rows[-1].given_up.value


def test_regret_found_is_the_largest_of_the_hostile_sequences() -> None:
    zeros, ones = np.zeros(T, dtype=int), np.ones(T, dtype=int)
    nasty = np.tile([1, 0], T // 2)
    asked = []

    def adversary(player: Any, problem: Any, horizon: int, temperature: float) -> Any:
        asked.append((player, horizon, temperature))
        return SimpleNamespace(tokens=nasty)

    found = frontier.price_of_robustness(
        MODEL,
        COIN,
        T,
        5,
        0,
        deltas=[0.1],
        temperature=0.2,
        fallback=lr.PolyaUrn(2, 3.0),
        adversary=adversary,
    )
    safe = one_way(MODEL, T, 0.1, temperature=0.2, prior=3.0)
    players: list[lr.Predictor] = [MODEL, safe]
    most = [
        lr.external_regret(COIN, lr.policies.Respond(p, COIN, 0.2), np.stack([zeros, ones, nasty]))[:, -1].max()
        for p in players
    ]
    assert (found.base_regret, found.rows[0].regret) == pytest.approx(most)
    assert [(h, t) for _, h, t in asked] == [(T, 0.2)] * 2
    assert asked[0][0] is MODEL
    made = asked[1][0].setting
    assert (made.test, made.fallback, made.temperature) == (safe.setting.test, lr.PolyaUrn(2, 3.0), 0.2)


@pytest.mark.parametrize("likely", [0.1, 0.9])
def test_constant_sequences_are_tried_whatever_the_adversary_does(likely: float) -> None:
    """The worst for a model that leans to one side is the other side for ever."""
    idle = lambda *_, **__: SimpleNamespace(tokens=np.full(T, int(likely > 0.5)))  # noqa: E731
    found = frontier.price_of_robustness(ber(likely), COIN, T, 5, 0, deltas=[0.1], adversary=idle)
    policy = lr.policies.Respond(ber(likely), COIN, 1 / math.sqrt(T))
    assert found.base_regret == pytest.approx(lr.external_regret(COIN, policy, [int(likely < 0.5)] * T)[-1])


def test_batches_do_not_change_the_price(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = frontier.price_of_robustness(LEANING, GAME, SHORT, 50, 0, deltas=[0.5])
    monkeypatch.setattr(distances, "_LAWS_AT_ONCE", 7 * SHORT * 2)
    in_parts = frontier.price_of_robustness(LEANING, GAME, SHORT, 50, 0, deltas=[0.5])
    assert at_once.rows[0].given_up.value > 0
    assert in_parts.rows[0].given_up == pytest.approx(at_once.rows[0].given_up, abs=1e-14)
    assert in_parts.rows[0].switched == at_once.rows[0].switched


def test_a_switch_that_was_not_seen_may_still_come() -> None:
    """No switch in 50 sequences: up to 7% may switch, and each may cost the span."""
    [row] = frontier.price_of_robustness(LEANING, GAME, SHORT, 50, 0, deltas=[1e-6]).rows
    assert (row.switched, row.given_up.value) == (0, 0)
    unseen = 1 - 0.025 ** (1 / 50)
    assert row.given_up.high == pytest.approx(GAME.span * unseen, rel=0.02)
    assert row.given_up.low == pytest.approx(-lr.certificates.quantal_loss(3) / math.sqrt(SHORT) * unseen, rel=0.02)


def test_the_default_adversary_is_greedy() -> None:
    """Against a model that answers the last token, it beats every constant sequence."""
    echo = lr.Markov([[0.9, 0.1], [0.1, 0.9]], 1)
    found = frontier.price_of_robustness(echo, COIN, 20, 5, 0, deltas=[0.1])
    policy = lr.policies.Respond(echo, COIN, 1 / math.sqrt(20))
    memory, tokens = policy.start(), []
    for _ in range(20):
        tokens.append(int(np.argmin(policy.policy(memory) @ COIN.utility)))
        memory = policy.update(memory, np.asarray(tokens[-1]))
    assert found.base_regret == pytest.approx(lr.external_regret(COIN, policy, tokens)[-1])
    assert found.base_regret > 0.3


def test_a_torch_model_has_a_price_too() -> None:
    ours = frontier.price_of_robustness(ber(0.7), COIN, T, 200, 0, deltas=[0.5])
    theirs = frontier.price_of_robustness(TorchBer(0.7, torch.float64), COIN, T, 200, 0, deltas=[0.5])
    for a, b in zip(ours.rows, theirs.rows, strict=True):
        assert a.given_up == pytest.approx(b.given_up, abs=1e-12)
        assert a[2:] == pytest.approx(b[2:], abs=1e-12)


def test_frontier_table_and_json() -> None:
    found = frontier.price_of_robustness(MODEL, COIN, T, 50, 0, deltas=[0.5, 0.1])
    assert [row[0] for row in found.table().rows] == ["0.5", "0.1"]
    record = json.loads(found.to_json(), parse_constant=pytest.fail)
    assert record["rows"][1]["given_up"]["high"] == found.rows[1].given_up.high
    assert record["base_regret"] == found.base_regret


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"deltas": [0.1, 1.0]}, "deltas must lie strictly between 0 and 1, got 1.0"),
        ({"deltas": []}, "deltas must be a list of numbers with at least one value"),
        ({"horizon": None}, "horizon must be a whole number"),
        ({"n": 0}, "n must be a whole number >= 1"),
        ({"predictor": lr.PolyaUrn(3)}, "predictor and problem must have the same states"),
        ({"fallback": lr.policies.Hedge(COIN, T)}, "fallback Hedge is a policy"),
        ({"fallback": lr.PolyaUrn(3)}, "must have the same states"),
    ],
)
def test_price_refusals_name_the_argument(change: dict[str, Any], message: str) -> None:
    usual = {"predictor": MODEL, "problem": COIN, "horizon": T, "n": 5, "seed": 0}
    with pytest.raises(ValueError, match=message):
        frontier.price_of_robustness(**{**usual, **change})  # type: ignore[arg-type]


def test_policies_play_many_sequences_at_once_and_none_is_left_out() -> None:
    n = 2 * comparison._TOGETHER + 3
    players = {"learns": lr.policies.AdaHedge(COIN), "urn": lr.PolyaUrn(2)}
    found = lr.compare(players, SOURCES, COIN, T, n, seed=3)
    for i, policy in enumerate((players["learns"], lr.policies.Respond(players["urn"], COIN, 1 / math.sqrt(T)))):
        for w, source in enumerate(SOURCES.values()):
            each_NxT = lr.external_regret(COIN, policy, lr.sample(source, T, n, seed=3))
            np.testing.assert_allclose(found.regret_PxWxT[i, w], each_NxT.mean(axis=0), atol=1e-12)
            error_T = each_NxT.std(axis=0, ddof=1) / math.sqrt(n)
            np.testing.assert_allclose(found.error_PxWxT[i, w], error_T, atol=1e-12)
