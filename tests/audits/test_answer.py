"""The verdict and the figures of an audit, beside literal sums; audits are made here by hand."""

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import lowregret as lr
from lowregret.audits import Audit, AuditSettings, answer

from ..plain_guard import PlainGuard
from .shops import SHOP

BEGIN = np.datetime64("2026-01-01")


@dataclass(frozen=True, eq=False)
class Made(Audit):
    """An audit with what it was made of."""

    probs_NxTxS: np.ndarray
    outcomes_NxT: np.ndarray
    paid: dict[str, np.ndarray]  # [N, T] by player
    after_NxT: np.ndarray

    def with_streams(self, **columns):
        return replace(self, streams=self.streams.with_columns(**columns))


USUAL = {"levels": (), "unit": "day", "first": "2026-01-01", "last": None, "source": "shops.csv", "notes": ()} | {
    "columns": {"stream": "shop", "order": "ds", "state": "y"},
    "settings": AuditSettings(currency="euros"),
    "certificate": SimpleNamespace(regret_bound_in_payoffs=10.5),
}


def weather(N=1, T=200, broken=(), how="upside down", at=None, seed=0):
    """Forecasts of rain and what came: from a step on some streams are turned round, or stuck at one forecast."""
    rng, at = np.random.default_rng(seed), T // 2 if at is None else at
    wet_NxT, broken = rng.beta(1, 1.2, (N, T)), list(broken)
    true_NxT = wet_NxT.copy()
    true_NxT[broken, at:] = 1 - wet_NxT[broken, at:]
    if how == "stuck":
        wet_NxT[broken, at:] = 0.88
    return np.stack([1 - wet_NxT, wet_NxT], axis=2), (rng.random((N, T)) < true_NxT).astype(int)


def made(probs_NxTxS, outcomes_NxT, alarms=None, named=None, follows=(), problem=SHOP, names=None, **more):
    """An audit in which the guard plays the best fixed action from the alarm on.

    ``alarms`` has by stream about since when it was wrong, and the alarm; those of ``named`` are beyond chance, those
    of ``follows`` are followed again at the end. Streams with a larger number have more evidence.
    """
    alarms, payoffs_AxS, (N, T, S) = alarms or {}, problem.in_payoffs(problem.utility), probs_NxTxS.shape
    paid_AxNxT, every = payoffs_AxS[:, outcomes_NxT], np.arange(N)
    model_NxT = np.take_along_axis(paid_AxNxT, (probs_NxTxS @ payoffs_AxS.T).argmax(axis=2)[None], axis=0)[0]
    best_N = paid_AxNxT.sum(axis=2).argmax(axis=0)
    best_NxT = paid_AxNxT[best_N, every]
    after_NxT = np.arange(T) >= np.array([alarms.get(n, (0, T))[1] for n in range(N)])[:, None]
    guard_NxT, last_NxT = np.where(after_NxT, best_NxT, model_NxT), np.roll(best_NxT, 1, axis=1) - 30
    paid = {"model": model_NxT, "guard": guard_NxT, "last outcome": last_NxT, answer.BEST: best_NxT}
    reliability, dated = np.zeros((2, S, 3, 10)), more.get("first", "") is not None
    for s in range(S):
        where = after_NxT.astype(int), np.minimum(probs_NxTxS[..., s] * 10, 9).astype(int)
        for i, value in enumerate((1.0, probs_NxTxS[..., s], outcomes_NxT == s)):
            np.add.at(reliability[:, s, i], where, value)
    at_P = np.linspace(1, T, 241)[1:]
    curves = {name: np.cumsum(own.sum(axis=0))[at_P.astype(int) - 1] for name, own in paid.items()}
    since_N, alarm_N = ([alarms.get(n, (None, None))[i] for n in range(N)] for i in (0, 1))
    times = [[str(BEGIN + (step - 1)) if step and dated else None for step in own] for own in (since_N, alarm_N)]
    types = dict.fromkeys(("alarm", "since", "seems_lag"), pl.Int64) | dict.fromkeys(
        ("since_time", "alarm_time", "lost_to"), pl.String
    )
    columns = {"stream": names or [f"shop-{n:03}" for n in every], "steps": [T] * N}
    columns |= {name: own.sum(axis=1) for name, own in paid.items()} | {"steps_after": after_NxT.sum(axis=1)}
    columns |= {f"{name}_after": (paid[name] * after_NxT).sum(axis=1) for name in ("model", "guard")}
    columns |= {"best_action": [problem.actions[a] for a in best_N], "since": since_N, "alarm": alarm_N}
    columns |= {
        "since_time": times[0],
        "alarm_time": times[1],
        "lost_to": ["shut" if since else None for since in since_N],
    }
    columns |= {"log_e": 3 + every / 100, "named": [n in alarms and (named is None or n in named) for n in every]}
    columns |= {"follows": [n not in alarms or n in follows for n in every], "lag": [1] * N, "excluded": [0] * N}
    columns |= {"seems_lag": [None] * N, "guard_then": np.full(N, math.nan)}
    if dated:
        at_P = BEGIN.astype("datetime64[ns]") + ((at_P - 1) * 86_400e9).astype("timedelta64[ns]")
        more = {"last": str(BEGIN + T - 1)} | more
    streams = pl.DataFrame(columns, schema_overrides=types)
    found = {"problem": problem, "streams": streams, "reliability": reliability, "curves": curves, "at_P": at_P}
    seen = {"probs_NxTxS": probs_NxTxS, "outcomes_NxT": outcomes_NxT, "paid": paid, "after_NxT": after_NxT}
    return Made(**USUAL | found | seen | {"players": tuple(paid)} | more)


ONE = {"columns": {"stream": None, "order": "ds", "state": "y"}, "source": "stall.csv"}
FORTY = {n: (253, 285 + n) for n in range(0, 40, 6)}


def one(how="upside down", **more):
    return made(*weather(1, 400, [0], how), {0: (203, 240)}, **ONE | more)


def forty(**more):
    return made(*weather(40, 500, FORTY), **{"alarms": FORTY} | more)


# The verdict


BEYOND = " A break that costs 10 euros per day would be found after about 69 days."
NAMED = "shop-036, shop-030, shop-024, shop-018, shop-012, shop-006, shop-000"
STOPPED = "The model stopped being right about 22 July 2026 (alarm on 28 August 2026). Guarded, it would have earned"
SEVEN = "7 of 40 shops' models stopped being right. Guarded, they would have earned"
MENDED = "Stop acting on these until they are mended:"


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (
            one,
            f"{STOPPED} {{gain}} more. Stop acting on it until it is mended. Better since then: always playing shut.",
        ),
        (lambda: one(follows=[0]), f"{STOPPED} {{gain}} more. It has been right again since, and can be acted on."),
        (forty, f"{SEVEN} {{gain}} more. {MENDED} {NAMED}."),
        (
            lambda: forty(alarms=FORTY | {1: (400, 430), 3: (400, 430)}, named=FORTY),
            f"{SEVEN} {{gain}} more. {MENDED} {NAMED}. 2 more alarms may be chance.",
        ),
        (
            lambda: forty(follows=[0, 6]),
            f"{SEVEN} {{gain}} more. {MENDED} {NAMED[:48]}. 2 have been right again since.",
        ),
        (lambda: forty(follows=FORTY), f"{SEVEN} {{gain}} more. All of them have been right again since."),
        (
            lambda: forty(named=[]),
            "None of 40 shops' models has surely stopped being right. Guarded, they would have earned {gain} more. "
            "7 alarms may be chance: even if every model is right, up to 2 are expected.",
        ),
        (
            lambda: made(*weather(1, 400, [0], at=0), {0: (1, 30)}, **ONE),
            "The model was not right from 1 January 2026 on (alarm on 30 January 2026). Guarded, it would have earned "
            "{gain} more. Stop acting on it until it is mended. Better since then: always playing shut.",
        ),
        (
            lambda: one(first=None).with_streams(since=pl.lit(None), lost_to=pl.lit(None), excluded=pl.lit(2)),
            "The model gave no chance at all to what then occurred (alarm at step 240). Guarded, it would have earned "
            "{gain} more. Stop acting on it until it is mended.",
        ),
        (
            lambda: made(*weather(1, 400, seed=3), **ONE),
            "Nothing speaks against this model. Acting on it earned {model} euros; guarded, the same." + BEYOND,
        ),
        (
            lambda: made(*weather(1, 400), **ONE),
            "Nothing speaks against this model. Acting on it earned {model} euros; guarded, the same. In hindsight "
            "always playing open would have earned 140 euros more." + BEYOND,
        ),
        (
            lambda: forty(alarms={}),
            "Nothing speaks against these 40 shops' models. Acting on them earned {model} euros; guarded, the same."
            + BEYOND,
        ),
        (
            lambda: forty(alarms={3: (400, 430)}, named=[]),
            "Nothing speaks against these 40 shops' models. Acting on them earned {model} euros; guarded, {less} euros "
            "less." + BEYOND + " 1 alarm may be chance: even if every model is right, up to 2 are expected.",
        ),
        (
            lambda: made(*weather(1, 40), **ONE),
            "Too short to tell: a break that costs 10 euros per day takes about 69 days to find, and the log has 40 "
            "days. So far nothing speaks against this model. Acting on it earned {model} euros; guarded, the same.",
        ),
    ],
)
def test_a_verdict_in_words(found, says):
    found = found()
    model, guard = (found.paid[player] for player in ("model", "guard"))
    gain = float((guard - model)[found.after_NxT].sum())
    amounts = {"model": f"{model.sum():,.0f}", "less": f"{model.sum() - guard.sum():,.0f}"}
    assert found.answer == says.format(gain=f"{gain:,.0f} euros", **amounts)


def test_a_verdict_is_good_bad_or_unclear():
    right, short = (made(*weather(1, T, seed=3), **ONE) for T in (400, 40))
    found = {"good": [right], "bad": [one(), forty(), forty(follows=[0])]}
    found["unclear"] = [short, one(follows=[0]), forty(follows=FORTY), forty(named=[]), made(*weather(1, 400), **ONE)]
    assert {kind: {each.verdict.kind for each in own} for kind, own in found.items()} == {
        kind: {kind} for kind in found
    }


def test_a_guard_that_earned_less_is_said_plainly():
    for found, stop in (one(), "acting on it. "), (forty(), f"acting on these: {NAMED}. "):
        guard = 2 * pl.col("model") - pl.col("guard")
        gain = float((found.paid["guard"] - found.paid["model"]).sum())
        advice = found.with_streams(guard=guard).answer.split(f"would have earned {gain:,.0f} euros less. ")[1]
        instead = "What the guard played instead earned less, so find the cause before you stop "
        assert f"{advice} " == f"{instead}{stop}"
    assert "Guarded, it would have earned the same." in one().with_streams(guard=pl.col("model")).answer


def test_the_time_to_find_a_break_is_that_of_a_plain_guard():
    cost, steps = answer.steps_to_find(made(*weather(1, 80), **ONE))
    leads = SHOP.regret_in_payoffs(SHOP.utility[:, None] - SHOP.utility[None])
    assert cost == pytest.approx(max(min(-lead.min(), lead.max()) for row in leads for lead in row) / 2)
    before, after = [1 / 4, 3 / 4], 11 / 12  # chances of rain: open earns 10 more than shut, and then 10 less
    assert [100 - 120 * wet for wet in (before[1], after)] == pytest.approx([cost, -cost])
    found = []
    for seed in range(40):
        guard, rng = PlainGuard([[1, -0.2], [0, 0]], 0.05, 80), np.random.default_rng(seed)
        while not guard.alarmed and guard.step < 80:
            guard.advise(before)
            guard.observe(int(rng.random() < after))
        found.append(guard.step if guard.alarmed else math.inf)
    assert steps == pytest.approx(np.median(found), abs=10)


def test_late_outcomes_take_longer_to_find_a_break():
    short, found = (made(*weather(1, T), **ONE) for T in (100, 400))
    assert short.answer.startswith("Nothing speaks against this model.")
    assert short.with_streams(lag=pl.lit(3)).answer.startswith("Too short to tell")
    cost, steps = answer.steps_to_find(found.with_streams(lag=pl.lit(3)))
    rng, alarms = np.random.default_rng(0), []
    for _ in range(15):
        guard = lr.Guard(SHOP, test=lr.ExactTest(0.05, 400), lag=3)
        while not guard.events and guard.steps < 398:
            guard.advise([1 / 4, 3 / 4])
            if len(guard.waiting) == 3:
                guard.observe(["dry", "wet"][rng.random() < 11 / 12])
        alarms.append(guard.steps)
    assert cost == pytest.approx(10)
    assert steps == pytest.approx(np.median(alarms), rel=0.3)


@pytest.mark.parametrize("payoffs", [[[1, 2], [0, 1]], [[1, 0], [0, 1], [2, 2]]])
def test_no_time_is_said_where_a_break_can_cost_nothing(payoffs):
    problem = lr.DecisionProblem.from_payoffs(payoffs, states=["dry", "wet"])
    found = made(*weather(1, 30), problem=problem, **ONE)
    assert answer.steps_to_find(found)[0] == 0
    assert found.answer.startswith("Nothing speaks against this model. Acting on it earned ")
    assert "a break" not in found.answer.lower()


# The figures


@pytest.mark.parametrize("found", [one, forty])
def test_the_table_is_that_of_literal_sums(found):
    found = found()
    after, rows = found.after_NxT, []
    for name, part in (("up to the alarm", ~after), ("after it", after), ("in total", after | ~after)):
        model, guard = (found.paid[player][part].sum() for player in ("model", "guard"))
        difference = f"{guard - model:+,.0f}" if guard != model else "0"
        rows.append((name, f"{part.sum():,}", f"{model:,.0f}", f"{guard:,.0f}", difference))
    table = answer.table(found)
    assert table.header == ("in euros", "days", "acting on the model", "guarded", "difference")
    assert list(table.rows) == rows
    assert found.settings.currency in answer.others(found)
    last, best = (f"{found.paid[player].sum():,.0f} euros" for player in ("last outcome", answer.BEST))
    best, last = f"the best fixed action in hindsight: {best}", f"what would have been best the last time: {last}"
    assert answer.others(found) == f"in total, {best}; {last}"


def test_where_streams_stand_at_the_end():
    assert answer.today(one()) == "At the end, on 4 February 2027, the guard does not follow the model."
    assert answer.today(one(follows=[0], first=None)) == "At the end, the guard follows the model."
    assert answer.today(forty(last=None)) == "At the end, the guard follows 33 of 40 shops' models."
    assert answer.today(forty(follows=FORTY, last=None)) == "At the end, the guard follows all 40 shops' models."


def test_the_report_says_everything_once():
    found = forty(notes=("3 rows did not sum to one\x07",))
    report = answer.report(found)
    for text in (found.answer, answer.today(found), answer.others(found), str(answer.payoffs(found))):
        assert report.count(text) == 1
    assert report.count("5% for each shop") == report.count("false") + report.count("False") == 1
    assert "less than the best fixed action of its shop" in report
    assert "Log: shops.csv: 20,000 days of 40 shops, from 1 January 2026 to 15 May 2027\n" in report
    assert report.endswith("Note: 3 rows did not sum to one\\x07")


# What speaks against relying on the figures


def test_no_warning_where_there_is_nothing_to_warn_of():
    found = made(*weather(1, 400, seed=3), **ONE)
    assert answer.warnings(found) == ()


def test_warnings_with_their_amounts():
    found, more = forty(), [None] * 40
    more[4], more[9] = 3, 2
    then = pl.Series([0.0] * 40) + found.streams["guard"] + 100
    found = replace(found, certificate=SimpleNamespace(regret_bound_in_payoffs=100.0)).with_streams(
        **{"seems_lag": pl.Series(more, dtype=pl.Int64), "guard_then": then},
        **{"excluded": pl.lit(1), "model": pl.col("model") - 50_000},
    )
    behind = found.paid["last outcome"].sum() - found.paid["model"].sum() + 40 * 50_000
    guard = found.paid["guard"].sum()
    assert answer.warnings(found) == (
        f"doing what would have been best the last time would have earned {behind:,.0f} euros more than the model",
        "for so short a log the promise says nothing: no day can cost more than 100 euros",
        "the errors of the models of 2 shops are alike up to 2 days apart, more than chance explains. Perhaps outcomes "
        f"are known later than the next day: with a lag of 3 the guard would have earned {guard + 200:,.0f} euros, not "
        f"{guard:,.0f} euros (--lag, --known-at; --lag 1 if they are not)",
        "the models of 40 shops gave no chance at all to 40 outcomes that occurred: one raises the alarm by itself, so "
        "if probabilities are rounded to 0, log more digits",
    )


def test_rows_that_are_numbered_are_hardly_streams():
    (warning,) = answer.warnings(made(*weather(30, 3, seed=1), columns={"stream": "row"}))
    assert warning == "30 rows of 3 steps each on average: if row only numbers the rows, use --stream none"


# Words


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("shop", "40 shops' models"),
        ("Shops", "40 shops' models"),
        ("store_id", "40 stores' models"),
        ("SKU", "40 SKUs' models"),
        ("city", "40 cities' models"),
        ("class", "40 classes' models"),
        ("model", "40 models"),
        ("unique_id", "40 series' models"),
        ("p_1", "40 series' models"),
        ("<script>", "40 series' models"),
    ],
)
def test_streams_are_called_by_their_column(column, words):
    assert answer.models(forty(columns={"stream": column})) == words


def test_what_comes_from_a_log_is_printed_safely():
    evil = ["\x1b[31mred", "a\u202eb", "x" * 10_000, "\x00"]
    problem = lr.DecisionProblem.from_payoffs([[100, -20], [0, 0]], ["o\x07", "s"], ["d\ud800", "w" * 9_000])
    more = {"columns": {"stream": "\x00"}, "source": "\x1b.csv", "settings": AuditSettings(currency="<e>")}
    alarms = {n: (100, 120) for n in range(4)}
    report = answer.report(made(*weather(4, 200, alarms), alarms, problem=problem, names=evil, **more))
    assert all(sign.isprintable() for sign in report.replace("\n", ""))
    assert len(report) < 4_000
