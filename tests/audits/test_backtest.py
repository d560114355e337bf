"""Backtests beside guards and players that are asked one step at a time, and what they say of what they found."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.audits.backtesting import backtest, replayed
from lowregret.audits.recording import recording_of
from lowregret.guard.events import Alarm
from lowregret.problems import Positions

from ..conftest import extra

pd, pl = extra("pandas"), extra("polars")

MATRIX = np.array([[30.0, -40, 0], [-50, 60, 5], [1, 2, 3]])
SHOP = lr.DecisionProblem.from_payoffs(
    MATRIX, actions=["sell", "buy", "wait"], states=["up", "down", "flat"], low=-150, high=120
)
ORDERS = np.array([0.0, 10, 20, 30, 40])
STALL = lr.Payoff(
    lambda order, demand: 5 * np.minimum(order, demand) - 3 * order,
    ORDERS.tolist(),
    low=-120,
    high=80,
    knots=ORDERS,
    outcomes=(0, np.inf),
)
LEVELS = np.round(np.arange(0.1, 0.95, 0.1), 1)
DAYS = np.array(["Mon", "Sun", "Tue"])
LENGTHS = {"a": 50, "b": 90, "c": 31, "d": 48, "e": 1}


class Step(NamedTuple):
    """A step as a guard is asked, and what follows from its outcome, in payoffs."""

    forecast: Any
    side: dict[str, Any]
    outcome: Any
    paid_A: np.ndarray
    plays: dict[str, np.ndarray]  # of the model and of the references
    scale: float
    day: Any


def games(kind, extras=(), seed=5):
    """Forecasts, outcomes and side information by stream; every second model breaks."""
    rng = np.random.default_rng(seed)
    found = {name: [] for name in ("forecasts", "outcomes", "today", "old", "contexts", "payoffs", "scale")}
    for i, T in enumerate(LENGTHS.values()):
        if kind == "states":
            truth = rng.dirichlet([0.5] * 3, T)
            outcomes = (rng.random(T)[:, None] >= truth.cumsum(-1)[:, :-1]).sum(-1)
            broken = np.roll(0.1 + 0.7 * (outcomes[:, None] == np.arange(3)), 1, axis=-1)
            own = [broken if i % 2 else truth, outcomes, truth]
            own.append(truth if i % 2 else broken)
        else:
            values = stats.gamma(6, scale=rng.uniform(4, 6, (T, 1))).ppf(LEVELS)
            sold = rng.gamma(6, 5, T) * np.where((np.arange(T) >= 8) & bool(i % 2), 0.2, 1)
            own = [values, sold, 0.5 * values, values + 5]
        own += [DAYS[rng.integers(0, 3, T)], MATRIX * rng.uniform(0.3, 2, (T, 1, 1)), rng.uniform(0.1, 1, T)]
        for name, part in zip(found, own, strict=True):
            found[name].append(part)
    given = {name: found[name] for name in ("contexts", "payoffs", "scale") if name in extras}
    if theirs := [name for name in ("today", "old") if name in extras]:
        given["references"] = {name: found[name] for name in theirs}
    return found["forecasts"], found["outcomes"], given


MAKE = {
    "states": np.asarray,
    "quantiles": lambda values: lr.Quantiles(LEVELS, values),
    "samples": lambda values: lr.Samples(np.asarray(values)),
}


def steps_of(kind, i, forecasts, outcomes, given, response):
    """The steps of a stream: what the model and the references play is computed by hand."""
    made, found = MAKE[kind], []
    for t, outcome in enumerate(outcomes[i]):
        scale = given["scale"][i][t] if "scale" in given else 1.0
        matrix = given["payoffs"][i][t] if "payoffs" in given else MATRIX
        theirs = {name: made(each[i][t]) for name, each in given.get("references", {}).items()}
        side = {"references": theirs} if theirs else {}
        side |= {name.rstrip("s"): given[name][i][t] for name in ("contexts", "scale") if name in given}
        if "payoffs" in given:
            side["payoffs"] = matrix
        paid_A = matrix[:, outcome] if kind == "states" else 5 * np.minimum(ORDERS, outcome) - 3 * ORDERS
        plays = {}
        for name, one in {"model": made(forecasts[i][t]), **theirs}.items():
            if kind == "states":
                worth_A = matrix @ one / SHOP.regret_in_payoffs(1.0)
            else:
                points, weights = one.law(STALL, t)
                worth_A = (STALL.utilities(points) * weights).sum(-1)
            best_A = (np.arange(len(worth_A)) == worth_A.argmax()) * 1.0
            weights_A = np.exp((worth_A - worth_A.max()) / (response or 1))
            plays[name] = best_A if name == "model" or response is None else weights_A / weights_A.sum()
        state = Positions(int(outcome)) if kind == "states" else outcome
        day = given["contexts"][i][t] if "contexts" in given else None
        found.append(Step(made(forecasts[i][t]), side, state, scale * paid_A, plays, scale, day))
    return found


def by_hand(guard, steps, lags=None, missing=()):
    """A stream, a step at a time: payoffs in total by player, regret in total, policies, and the guard itself."""
    T, problem = len(steps), guard.problem
    unit, shift = float(problem.regret_in_payoffs(1.0)), float(problem.in_payoffs(0.0))
    alone = lr.Guard(
        problem,
        against=guard.against,
        test=lr.NoTest(guard.test.horizon),
        fallback=guard.fallback,
        response=guard.response,
        lag=guard.lag,
    )
    others = [f"reference {name}" for name in list(steps[0].plays)[1:]]
    live, totals = guard.fresh(), dict.fromkeys(["model", "guard", "fallback", "Hedge", "last outcome", *others], 0.0)
    known, days, policies = [], {}, []
    for t, step in enumerate(steps, 1):
        policy_A = live.advise(step.forecast, **step.side).policy
        policies.append(policy_A)
        seen = [utility_A for s, utility_A in known if s <= t - guard.lag]
        hedge_A = np.exp((np.sum(seen, axis=0) if seen else np.zeros(len(step.paid_A))) / np.sqrt(T))
        last = None if not seen else seen[-1].argmax()
        fallback_A = alone.advise(step.forecast, **step.side).policy
        if t not in missing:
            totals["model"] += step.plays["model"] @ step.paid_A
            totals["guard"] += policy_A @ step.paid_A
            totals["fallback"] += fallback_A @ step.paid_A
            totals["Hedge"] += hedge_A @ step.paid_A / hedge_A.sum()
            totals["last outcome"] += step.paid_A.mean() if last is None else step.paid_A[last]
            for name in others:
                totals[name] += step.plays[name.removeprefix("reference ")] @ step.paid_A
            known.append((t, (step.paid_A - shift * step.scale) / unit))
            days[step.day] = days.get(step.day, 0.0) + step.paid_A
        for one, when in ((live, lags), (alone, None)):
            for s in range(1, t + 1):
                if min(s + (guard.lag if when is None else when[s - 1]) - 1, T) == t:
                    one.skip(s) if s in missing else one.observe(steps[s - 1].outcome, step=s)
    totals["best fixed action"] = np.sum(list(days.values()), axis=0).max() if days else 0.0
    actions = [] if isinstance(guard.against, lr.References) else [sum(day_A.max() for day_A in days.values())]
    best = max(actions + [totals[name] for name in others])
    if others or guard.against.contexts:
        totals["best comparator"] = best
    return totals, (best - totals["guard"]) / unit, policies, live


BOTH = lr.References("today", "old")
QUANTAL = lr.QuantalResponse(0.1)
WEEK = lr.Actions(per=["Sun", "holiday", "Tue", "Mon"])


def exact(delta=0.1, horizon=160):
    return lr.ExactTest(delta, horizon)


CASES = {  # what is given beside forecasts and outcomes, and how the guard is made; None: the default one
    "default": ("states", (), None),
    "no test": ("states", (), {"test": lr.NoTest(60)}),
    "horizon": ("states", (), {"test": exact(0.2)}),
    "past its horizon": ("states", (), {"test": exact(0.1, 40)}),
    "quantal": ("states", (), {"test": exact(), "response": QUANTAL}),
    "quantal, unknown horizon": ("states", (), {"test": exact(horizon=None), "response": lr.QuantalResponse(0.2)}),
    "urn": ("states", (), {"test": exact(), "fallback": lr.PolyaUrn(3), "response": QUANTAL}),
    "hedge": ("states", (), {"test": exact(0.2), "fallback": lr.policies.Hedge(SHOP, 160)}),
    "late": ("states", (), {"lag": 3}),
    "late, references": ("states", ("today", "old"), {"against": lr.Actions() + BOTH, "lag": 2}),
    "references": ("states", ("today", "old"), None),
    "references alone": (
        "states",
        ("old",),
        {"against": lr.References("old"), "fallback": lr.UseReference("old")},
    ),
    "contexts": ("states", ("contexts",), None),
    "contexts by name": ("states", ("contexts", "scale"), {"against": WEEK, "test": exact(0.3), "response": QUANTAL}),
    "scale": ("states", ("scale",), None),
    "payoffs": ("states", ("payoffs",), None),
    "all": ("states", ("today", "contexts", "payoffs", "scale"), None),
    "quantiles": ("quantiles", (), {"test": exact(0.2)}),
    "quantiles, all": ("quantiles", ("today", "contexts", "scale"), None),
    "samples": ("samples", (), {"test": exact(0.2), "response": QUANTAL}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("is_whole", [True, False])
def test_equals_players_asked_step_by_step(case, is_whole):
    kind, extras, parts = CASES[case]
    forecasts, outcomes, given = games(kind, extras)
    problem = STALL if kind != "states" else SHOP.changing() if "payoffs" in extras else SHOP
    guard = lr.Guard(problem, **parts) if parts is not None else None
    made = [MAKE[kind](part) for part in forecasts]
    theirs = {name: [MAKE[kind](part) for part in each] for name, each in given.get("references", {}).items()}
    named = Positions(outcomes) if kind == "states" else outcomes
    found = backtest(
        problem if guard is None else guard,
        made,
        named,
        names=list(LENGTHS),
        **given | ({"references": theirs} if theirs else {}),
    )
    missing_of = {name: () for name in LENGTHS}
    if not is_whole:  # some outcomes inside the streams, and one whole stream
        missing_of = {"a": {1, 30, 31}, "b": {40, 90}, "c": set(), "d": {2}, "e": {1}}
        flat = [t in missing_of[name] for name, T in LENGTHS.items() for t in range(1, T + 1)]
        found = replayed(found.guard, replace(found.recording, missing_R=np.array(flat)))
    response, certificates, alarms = getattr(found.guard.response, "temperature", None), [], 0
    for i, (name, result) in enumerate(zip(LENGTHS, found.streams, strict=True)):
        steps = steps_of(kind, i, forecasts, outcomes, given, response)
        totals, regret, _, live = by_hand(found.guard, steps, missing=missing_of[name])
        n = LENGTHS[name] - len(missing_of[name])
        assert result.steps == n
        assert result.earned == pytest.approx({who: total / max(n, 1) for who, total in totals.items()}, abs=1e-9)
        assert result.regret == pytest.approx(regret / max(n, 1), abs=1e-10)
        assert found.regret()[i][-1] == pytest.approx(result.regret, abs=1e-12)
        assert result.regret == pytest.approx(float(live.regret), abs=1e-12)
        assert found.log_e[i][-1] == pytest.approx(float(live.evidence[0]), rel=1e-9)
        events = [event for event in found.switches if event.stream == name]
        assert [type(event) for event in events] == [type(event) for event in live.events]
        for mine, other in zip(events, live.events, strict=True):
            context = getattr(other, "context", None)
            theirs = other if context is None else other._replace(context=found.guard.against.contexts[context])
            for one, two in zip(mine[1:], theirs[1:], strict=True):  # the last bit depends on the company
                assert one == (pytest.approx(two, rel=1e-9) if isinstance(two, float) else two)
        alarms += result.switched_at is not None
        certificates.append(live.certificate.regret_bound)
    assert alarms or case == "no test"
    order = [(list(LENGTHS).index(event.stream), event.step) for event in found.switches]
    assert order == sorted(order)
    if parts is None:
        assert found.guard.test == lr.ExactTest(horizon=90 if "contexts" in extras else None)
    bound = found.certificate.regret_bound
    assert bound == pytest.approx(max(certificates), rel=1e-12) or (bound > max(certificates) and not is_whole)
    total = sum(result.steps * result.earned["guard"] for result in found.streams) / found.steps
    assert found.earned["guard"] == pytest.approx(total)


def test_a_robust_stream_is_reproduced():
    problem, T = lr.matching(), 400
    base = lr.Markov([[0.8, 0.2], [0.3, 0.7]], window=1)
    robust = lr.robustify(base, problem, T)
    tokens = np.concatenate([lr.sample(base, 200, 4, seed=0), np.random.default_rng(1).integers(0, 2, (4, 200))], 1)
    guard = lr.Guard(problem, test=lr.ExactTest(1 / T, T), response=lr.QuantalResponse())
    found = backtest(guard, base.predict_sequence(tokens), tokens)
    alarms = robust.alarm_times(tokens)
    assert [result.switched_at or T + 1 for result in found.streams] == alarms.tolist()
    assert (alarms <= T).any()
    regret = lr.external_regret(problem, robust.respond(), tokens)
    np.testing.assert_allclose(found.regret(), regret, atol=1e-12)
    assert [(share == 1).all() for share in found.share] == (alarms > T).tolist()


def test_outcomes_known_late_in_any_order():
    forecasts, outcomes, _ = games("states")
    guard, rng = lr.Guard(SHOP, test=exact(0.2), lag=4), np.random.default_rng(0)
    lags, missing = [rng.integers(1, 5, T) for T in LENGTHS.values()], [{7, 8}, set(), {3}, set(), set()]
    flat = [t in gone for T, gone in zip(LENGTHS.values(), missing, strict=True) for t in range(1, T + 1)]
    recording = recording_of(SHOP, forecasts, Positions(outcomes), list(LENGTHS))
    found = replayed(guard, replace(recording, lags_R=np.concatenate(lags), missing_R=np.array(flat)))
    for i, name in enumerate(LENGTHS):
        steps = steps_of("states", i, forecasts, outcomes, {}, None)
        totals, _, _, live = by_hand(guard, steps, lags[i].tolist(), missing[i])
        earned = {who: total / (len(steps) - len(missing[i])) for who, total in totals.items()}
        assert found.streams[i].earned == pytest.approx(earned, abs=1e-9)
        events = [event for event in found.switches if event.stream == name]
        assert [event[1:3] for event in events] == [event[1:3] for event in live.events]
    assert found.switches


@pytest.mark.parametrize("more", [0, 1, 2, 3])
def test_an_alarm_near_the_end_of_a_stream_is_known_there(more):
    forecasts, outcomes, _ = games("states")
    guard, lags = lr.Guard(SHOP, test=exact(0.2), lag=4), np.tile([4, 2, 3, 1], 25)
    probs, states, longer = forecasts[1], outcomes[1], 80

    def played(T):
        recording = recording_of(SHOP, [probs[:T], probs[:longer]], Positions([states[:T], states[:longer]]))
        return replayed(guard, replace(recording, lags_R=np.append(lags[:T], lags[:longer])))

    usual = next(event for event in played(longer).switches if event.stream == 0)
    T = usual.step + more
    steps = steps_of("states", 1, forecasts, outcomes, {}, None)[:T]
    _, _, policies, live = by_hand(guard, steps, lags[:T].tolist())
    found = played(T)
    (switch,) = (event for event in found.switches if event.stream == 0)
    assert (switch.step, switch.known) == live.events[0][1:3] == (usual.step, min(usual.known, T))
    paid = [policy_A @ SHOP.utility[:, state] for policy_A, state in zip(policies, states, strict=False)]
    np.testing.assert_allclose(found.paid["guard"][0], paid, atol=1e-12)


def frame():
    """The rows of all streams in any order, and a backtest of their arrays."""
    forecasts, outcomes, given = games("states", ("today", "contexts", "payoffs", "scale"))
    today, rows = given["references"]["today"], []
    for i, (name, T) in enumerate(LENGTHS.items()):
        for t in range(T):
            own = {"shop": name, "step": t, "state": SHOP.states[outcomes[i][t]], "day": given["contexts"][i][t]}
            own |= {f"p_{state}": forecasts[i][t, s] for s, state in enumerate(SHOP.states)}
            own |= {f"now_{state}": today[i][t, s] for s, state in enumerate(SHOP.states)}
            own |= {f"u{a}{s}": given["payoffs"][i][t, a, s] for a in range(3) for s in range(3)}
            rows.append(own | {"part": given["scale"][i][t]})
    asked = backtest(
        SHOP, forecasts, Positions(outcomes), names=list(LENGTHS), **given | {"references": {"now": today}}
    )
    return pd.DataFrame(rows).sample(frac=1, random_state=0), asked


COLUMNS = {
    "stream": "shop",
    "references": {"now": ["now_up", "now_down", "now_flat"]},
    "context": "day",
    "scale": "part",
    "payoffs": [f"u{a}{s}" for a in range(3) for s in range(3)],
}


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_frame_is_its_arrays(package):
    given, asked = frame()
    made = given if package == "pandas" else pl.DataFrame({name: given[name].to_list() for name in given.columns})
    found = backtest(SHOP, made, columns=COLUMNS)
    assert found.streams == asked.streams
    assert found.switches == asked.switches
    assert "read as stream shop, order step, state state" in str(found.table())
    back = found.to_frame()
    assert type(back) is type(made)
    assert list(back.columns)[:4] == ["shop", "step", "used_fallback", "model_share"]
    assert list(back["step"]) == list(made["step"])
    if package == "pandas":
        assert list(back.index) == list(given.index)
    for i, result in enumerate(found.streams):
        own = np.array(list(back["shop"])) == result.stream
        at = np.argsort(np.array(list(back["step"]))[own])
        assert (np.array(list(back["used_fallback"]))[own][at] == (found.share[i] < 1)).all()
        for player in ("model", "guard", "reference now"):
            mean = np.array(list(back[f"payoff_{player}"]))[own].mean()
            assert mean == pytest.approx(result.earned[player], abs=1e-9)


def test_a_frame_of_arrays_has_no_payoff_where_an_outcome_is_missing():
    forecasts, outcomes, _ = games("states")
    recording = recording_of(SHOP, forecasts, Positions(outcomes))
    gone = np.arange(recording.n_steps) == 60
    found = replayed(lr.Guard(SHOP), replace(recording, missing_R=gone))
    back = found.to_frame()
    assert type(back) is pl.DataFrame
    assert (back["payoff_model"].is_null().to_numpy() == gone).all()
    assert back.row(60, named=True)["stream"] == 1
    assert back.row(60, named=True)["step"] == 11
    assert back["payoff_guard"].sum() == pytest.approx(found.earned["guard"] * found.steps)


def test_warnings_say_when_the_guarantee_is_empty():
    states = np.random.default_rng(0).integers(0, 2, 100)
    good = np.where(states[:, None] == np.arange(2), 0.7, 0.3)
    (short,) = backtest(lr.matching(), good[:30], states[:30]).warnings
    assert "too short to promise" in short
    bad, worse = backtest(lr.matching(), good[:, ::-1], states).warnings
    most = max(states.mean(), 1 - states.mean())
    assert bad == f"the model earned {most:.4g} less per step than the best fixed action"
    again = (0.5 + (states[1:] == states[:-1]).sum()) / 100  # the first is any alike
    assert worse == f"the model earned {again:.4g} less per step than doing what would have been best the last time"
    sure = np.where(states[:, None] == np.arange(2), 0.99, 0.01)
    assert backtest(lr.matching(), np.tile(sure, (8, 1)), np.tile(states, 8)).warnings == ()


def test_the_evidence_reaches_its_threshold_with_the_alarm():
    forecasts, outcomes, _ = games("states")
    found = backtest(SHOP, forecasts, Positions(outcomes))
    switch = found.switches[0]
    log_e_T = found.log_e[switch.stream]
    assert np.flatnonzero(log_e_T >= switch.threshold)[0] + 1 == switch.step
    assert log_e_T[switch.step - 1] == pytest.approx(switch.evidence)
    assert "Payoff per step over 220 steps of 5 streams" in str(found.table())
    assert ("streams that switched", "2 of 5") in found.table().rows
    assert found.guarantee == found.certificate.at(90)  # as long as the longest stream


def test_pictures_add_up_payoffs():
    forecasts, outcomes, given = games("states", ("today", "scale"))
    found = backtest(SHOP, forecasts, Positions(outcomes), names=list(LENGTHS), **given)
    money, evidence = found.plot().axes
    lines = {line.get_label(): line.get_ydata()[-1] for line in money.lines}
    assert lines == pytest.approx({name: found.steps * earned for name, earned in found.earned.items()})
    (marks,) = money.collections
    assert [line[0, 0] for line in marks.get_segments()] == [event.step for event in found.switches]
    *streams, needed = evidence.lines
    alarms = [event.stream for event in found.switches if isinstance(event, Alarm)]
    assert [line.get_label() for line in streams] == [f"stream {name}" for name in alarms]
    assert needed.get_ydata() == pytest.approx([np.log(20)] * 2)
    quiet = backtest(lr.Guard(SHOP, test=lr.NoTest()), forecasts, Positions(outcomes), fallback=False).plot()
    assert [line.get_label() for line in quiet.axes[1].lines] == [*(f"stream {i}" for i in range(5)), "alarm"]


PROBS, STATES = [[0.2, 0.3, 0.5]] * 3, Positions([0, 1, 2])
TABLE = pl.DataFrame({"state": ["up", "up", "flat"], "probs": PROBS, "step": [1, 2, 3], "known": [1, 3, 3]})
FRAME = {"forecasts": TABLE, "outcomes": None}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"guard": None}, "problem must be a DecisionProblem"),
        ({"outcomes": None}, "outcomes must be given, unless forecasts is a frame, got list"),
        ({"columns": {"state": "y"}}, "columns must be left out, unless forecasts is a frame, got list"),
        (FRAME | {"names": ["a"], "contexts": [1, 2, 3]}, "names, contexts: go with arrays; of a frame, columns="),
        (FRAME | {"guard": lr.Guard(SHOP), "columns": {"known_at": "known"}}, "lag must be 2, got 1"),
        ({"guard": lr.Guard(SHOP.changing())}, "problem.is_changing must be False, got True"),
        ({"guard": lr.Guard(SHOP), "payoffs": [MATRIX] * 3}, "problem.is_changing must be True, got False"),
        ({"guard": lr.Guard(SHOP, against=BOTH)}, r"references must be \(\), got \('today', 'old'\)"),
        ({"guard": lr.Guard(SHOP), "contexts": [0, 1, 1]}, r"contexts must be \('0', '1'\), got \(\)"),
        ({"guard": lr.Guard(SHOP, against=WEEK, test=exact())}, r"contexts must be \(\), got .*'holiday'"),
        ({"guard": lr.Guard(SHOP, against=WEEK, test=exact()), "contexts": ["Sun", "Fri", "Tue"]}, "'Fri'.*, got"),
    ],
)
def test_what_does_not_fit_is_refused(change, says):
    with pytest.raises(ValueError, match=says):
        backtest(**{"guard": SHOP, "forecasts": PROBS, "outcomes": STATES} | change)


def test_a_problem_takes_the_lag_of_the_recording():
    assert backtest(SHOP, TABLE, columns={"known_at": "known"}).guard.lag == 2
