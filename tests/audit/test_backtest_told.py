"""Backtests told more than laws and states, beside guards asked step by step; as arrays and as columns of frames."""

import json

import numpy as np
import pytest

import lowregret as lr
from lowregret.problems import Positions

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

MATRIX = np.array([[30.0, -40, 0], [-50, 60, 5]])
SHOP = lr.DecisionProblem.from_payoffs(
    MATRIX, actions=["sell", "buy"], states=["up", "down", "flat"], low=-150, high=120
)
LENGTHS = [60, 160, 60, 1]
DAYS = np.array(["Mon", "Tue", "Sun"])


def recorded():
    """By stream: laws, states, an incumbent that is right, contexts, payoffs and scales of every step."""
    rng, found = np.random.default_rng(5), []
    for i, T in enumerate(LENGTHS):
        truth = rng.dirichlet([0.5] * 3, T)
        states = (rng.random(T)[:, None] >= truth.cumsum(-1)[:, :-1]).sum(-1)
        law = np.roll(0.1 + 0.7 * (states[:, None] == np.arange(3)), 1, axis=-1) if i % 2 else truth
        day, scale = DAYS[rng.integers(0, 3, T)], rng.uniform(0.1, 1, T)
        payoffs = MATRIX * rng.uniform(0.3, 2, T)[:, None, None]
        own = {"probs": law, "states": states, "today": truth, "flat": np.full((T, 3), 1 / 3)}
        found.append(own | {"contexts": day, "payoffs": payoffs, "scale": scale})
    return found


CASES = {
    "references": ("today", "flat"),
    "contexts": ("contexts",),
    "scale": ("scale",),
    "payoffs": ("payoffs",),
    "all": ("today", "flat", "contexts", "payoffs", "scale"),
}


def given(case):
    """The arguments of a backtest."""
    streams, names = recorded(), CASES[case]
    found = {name: [own[name] for own in streams] for name in names if name not in ("today", "flat")}
    if "today" in names:
        found["references"] = {name: [own[name] for own in streams] for name in ("today", "flat")}
    return found


def by_hand(own, names, guard):
    """One stream, a step at a time: payoffs added up, all comparators', and the guard itself."""
    live = guard.fresh()
    players = ("model", "guard", *(f"reference {name}" for name in ("today", "flat") if name in names))
    totals, each = dict.fromkeys(players, 0.0), {}
    for t, state in enumerate(own["states"].tolist()):
        matrix = own["payoffs"][t] if "payoffs" in names else MATRIX
        scale = own["scale"][t] if "scale" in names else 1.0
        told = {"references": {name: own[name][t] for name in ("today", "flat")} if "today" in names else None}
        told["context"] = own["contexts"][t] if "contexts" in names else None
        told["payoffs"] = matrix if "payoffs" in names else None
        told["scale"] = scale if "scale" in names else None
        live.advise(own["probs"][t], **told)
        paid = scale * matrix[:, state]
        totals["model"] += paid[np.argmax(matrix @ own["probs"][t])]
        totals["guard"] += live.policy() @ paid
        for name in players[2:]:
            law = own[name.removeprefix("reference ")][t]
            totals[name] += paid[np.argmax(matrix @ law)]
        day = told["context"] or 0
        each.setdefault(day, np.zeros(2))[:] += paid
        live.observe(Positions(state))
    T = len(own["states"])
    best = max(sum(day.max() for day in each.values()), *(totals[name] for name in players[2:]), -np.inf)
    totals["best fixed action"] = sum(each.values()).max()
    if "today" in names or "contexts" in names:
        totals["best comparator"] = best
    return {name: value / T for name, value in totals.items()}, (best - totals["guard"]) / T, live


@pytest.mark.parametrize("case", CASES)
def test_equals_guards_asked_step_by_step(case):
    streams, names = recorded(), CASES[case]
    told = given(case)
    found = lr.backtest(
        SHOP,
        [o["probs"] for o in streams],
        Positions([o["states"] for o in streams]),
        names="wxyz",
        **told,
    )
    days = {name: place for place, name in enumerate(sorted(DAYS))}
    assert found.recording.tells.contexts == (tuple(days) if "contexts" in names else None)
    switched = 0
    for i, (own, result) in enumerate(zip(streams, found.streams, strict=True)):
        if "contexts" in names:
            assert found.recording.told[i].context.tolist() == [days[day] for day in own["contexts"]]
        asked, regret, live = by_hand(own, names, found.guard)
        for player, value in asked.items():
            assert result.earned[player] == pytest.approx(value, abs=1e-9), player
        assert set(result.earned) == {*asked, "fallback", "Hedge", "last outcome"}
        told_now = [event for event in found.switches if event.stream == "wxyz"[i]]
        assert len(told_now) == len(live.events)
        for mine, theirs in zip(told_now, live.events, strict=True):
            assert (type(mine), mine.step) == (type(theirs), theirs.step)
            if isinstance(mine, lr.Alarm):
                assert mine.evidence == pytest.approx(theirs.evidence, rel=1e-9)
                assert (mine.action, mine.reference, mine.since) == (theirs.action, theirs.reference, theirs.since)
                assert mine.context == (None if theirs.context is None else sorted(DAYS)[theirs.context])
        assert SHOP.regret_in_payoffs(result.regret) == pytest.approx(regret, abs=1e-9)
        assert found.regret()[i][-1] == pytest.approx(result.regret, abs=1e-12)
        assert result.regret == pytest.approx(float(live.regret), abs=1e-12)
        values = found.evidence("wxyz"[i])
        assert values[-1] == pytest.approx([float(part) for part in live.evidence], rel=1e-9)
        switched += result.switched_at is not None
    assert switched
    assert json.loads(found.to_json())["streams"][0]["earned"] == pytest.approx(found.streams[0].earned)
    assert found.certificate.regret_bound == found.guard.certificate.regret_bound


def test_the_fallback_alone_is_a_reference():
    streams, told = recorded(), given("references")
    laws, states = [o["probs"] for o in streams], Positions([o["states"] for o in streams])
    both, back = lr.References("today", "flat"), lr.UseReference("today")
    found = lr.backtest(lr.Guard(SHOP, against=lr.Actions() + both, fallback=back), laws, states, **told)
    for result in found.streams:
        assert result.earned["fallback"] == pytest.approx(result.earned["reference today"], abs=1e-12)
    found = lr.backtest(lr.Guard(SHOP, against=both, fallback=back), laws, states, **told)
    for result in found.streams:
        best = max(result.earned[f"reference {name}"] for name in ("today", "flat"))
        assert result.earned["best comparator"] == pytest.approx(best)


def test_contexts_go_by_their_names():
    own = recorded()[1]
    told = {"contexts": own["contexts"], "scale": own["scale"]}
    found = []
    for per in (["Mon", "Tue", "Sun"], ["Sun", "holiday", "Tue", "Mon"]):
        guard = lr.Guard(SHOP, against=lr.Actions(per=per), test=lr.ExactTest(0.2, 160))
        found.append(lr.backtest(guard, own["probs"], Positions(own["states"]), **told))
        live = guard.fresh()
        for t, state in enumerate(own["states"].tolist()):
            live.advise(own["probs"][t], context=own["contexts"][t], scale=own["scale"][t])
            live.observe(Positions(state))
        assert [event.step for event in found[-1].switches] == [event.step for event in live.events]
        assert found[-1].streams[0].regret == pytest.approx(live.regret, abs=1e-12)
    assert found[0].switches
    assert found[0].earned["best comparator"] == pytest.approx(found[1].earned["best comparator"])


def frame():
    rows = []
    for i, own in enumerate(recorded()):
        for t, state in enumerate(own["states"]):
            laws = {f"p_{name}": own["probs"][t, s] for s, name in enumerate(SHOP.states)}
            today = {f"now_{name}": own["today"][t, s] for s, name in enumerate(SHOP.states)}
            rows.append({"stream": "wxyz"[i], "step": t, "state": SHOP.states[state], **laws, **today})
            rows[-1] |= {"flat law": own["flat"][t], "day": own["contexts"][t], "part": own["scale"][t]}
            rows[-1] |= {"prices": own["payoffs"][t].ravel()}
            rows[-1] |= {f"u{a}{s}": own["payoffs"][t, a, s] for a in range(2) for s in range(3)}
    return pd.DataFrame(rows).sample(frac=1, random_state=0)


COLUMNS = {
    "references": {"references": {"today": ["now_up", "now_down", "now_flat"], "flat": "flat law"}},
    "contexts": {"context": "day"},
    "scale": {"scale": "part"},
    "payoffs": {"payoffs": "prices"},
}
COLUMNS["all"] = {name: value for own in COLUMNS.values() for name, value in own.items()}


@pytest.mark.parametrize("case", CASES)
def test_columns_are_their_arrays(case):
    streams = recorded()
    asked = lr.backtest(
        SHOP, [o["probs"] for o in streams], Positions([o["states"] for o in streams]), names="wxyz", **given(case)
    )
    found = lr.backtest(SHOP, frame(), columns=COLUMNS[case])
    assert found.streams == asked.streams
    assert found.switches == asked.switches
    back = found.to_frame().sort_values(["stream", "step"])
    assert back[back["stream"] == "y"]["payoff_guard"].mean() == pytest.approx(found.streams[2].earned["guard"])
    if case == "payoffs":
        each = lr.backtest(SHOP, frame(), columns={"payoffs": [f"u{a}{s}" for a in range(2) for s in range(3)]})
        nested = frame().assign(prices=lambda f: [value.reshape(2, 3).tolist() for value in f["prices"]])
        assert each.streams == lr.backtest(SHOP, nested, columns={"payoffs": "prices"}).streams == found.streams
    if case == "all":
        lines = found.plot("x").axes[0].lines
        drawn = {line.get_label(): line.get_ydata()[-1] for line in lines if line.get_label()[0] != "_"}
        assert drawn["reference today"] == pytest.approx(160 * found.streams[1].earned["reference today"])


def test_other_layouts():
    own = recorded()[0]
    asked = lr.backtest(
        SHOP, [own["probs"]], Positions([own["states"]]), contexts=[own["contexts"]], scale=[own["scale"]]
    )
    alone = lr.backtest(SHOP, own["probs"], Positions(own["states"]), contexts=own["contexts"], scale=own["scale"])
    assert alone.streams == asked.streams
    two = [np.stack([own[name]] * 2) for name in ("probs", "states", "contexts", "scale")]
    both = lr.backtest(SHOP, two[0], Positions(two[1]), contexts=two[2], scale=two[3])
    assert both.streams[1].earned == pytest.approx(asked.streams[0].earned)


LAWS, STATES = [[0.2, 0.3, 0.5]] * 3, [0, 1, 2]
ROWS = {"state": ["up", "up", "flat"], "probs": LAWS, "day": ["a", "b", "a"], "part": [1.0, 0.5, 1.0], "law": LAWS}


def weekly(contexts):
    return lr.Guard(SHOP, against=lr.Actions(per=contexts), test=lr.ExactTest(horizon=9))


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"references": [LAWS]}, "references must be a dict of laws by name"),
        ({"references": {"old": LAWS[:2]}}, r"references\['old'\] must be as long as outcomes, 3 steps"),
        ({"references": {"old": [[0.5, 0.6, 0.2]] * 3}}, r"references\['old'\] at step 1 must sum to one"),
        ({"contexts": ["a", None, "b"]}, "contexts must be given for every step, and one is missing"),
        ({"contexts": [[1], [2], [3]]}, "contexts must be names or numbers"),
        ({"contexts": 3}, "contexts must be as long as outcomes"),
        ({"scale": [1, 0, 1]}, "scale must be one number per step, above 0 and at most 1"),
        ({"payoffs": [[1, 2, 3]] * 3}, r"payoffs must have shape \(3, 2, 3\), one matrix per step"),
        ({"payoffs": [MATRIX * 9] * 3}, "payoffs must lie in the range that the problem declares, -150 to 120"),
        ({"contexts": [0, 1, 2], "guard": lr.Guard(SHOP)}, "contexts of the recording, .*'2'.*, got none"),
        ({"contexts": [0, 1, 2], "guard": weekly(2)}, "contexts of the recording, .*'2'.*, got .*'0', '1'"),
        ({"guard": weekly(2)}, "contexts of the recording, none, got .*'0', '1'"),
        ({"guard": lr.Guard(SHOP, against=lr.References("old"))}, r"references of the recording, \(\)"),
        (
            {"payoffs": [MATRIX] * 3, "guard": lr.Guard(SHOP)},
            "for the payoffs of the recording, which has payoffs",
        ),
        ({"guard": lr.Guard(SHOP.changing())}, "made for the payoffs of the recording, which has none"),
    ],
)
def test_what_is_refused(told, says):
    given = {"guard": SHOP, **told}
    with pytest.raises(ValueError, match=says):
        lr.backtest(forecasts=LAWS, outcomes=Positions(STATES), **given)


@pytest.mark.parametrize(
    ("change", "columns", "says"),
    [
        ({"day": ["a", None, "a"]}, {"context": "day"}, r"row 2: the context \(day\) is missing"),
        ({"day": [1.0, float("nan"), 1.0]}, {"context": "day"}, r"the context \(day\) must be given for every step"),
        (
            {"part": [1.0, 1.5, 1.0]},
            {"scale": "part"},
            r"row 2: the scale .* at most 1, got 1.5",
        ),
        (
            {"part": [1.0, None, 1.0]},
            {"scale": "part"},
            r"row 2: the scale .* at most 1, got nan",
        ),
        (
            {"law": [LAWS[0], [0.5, 0.6, 0], LAWS[0]]},
            {"references": {"old": "law"}},
            "row 2: probabilities must sum to one",
        ),
        ({"pay": [[1.0] * 6, [1.0] * 5, [1.0] * 6]}, {"payoffs": "pay"}, "row 2: there must be 2 x 3 payoffs"),
        (
            {"pay": [[1.0] * 6, [1.0] * 5 + [999.0], [1.0] * 6]},
            {"payoffs": "pay"},
            "row 2: payoffs must lie in the range",
        ),
        ({}, {"references": ["law"]}, "references must be a dict of columns by name"),
        ({}, {"references": {"old": ["law", "part"]}}, "the columns of reference 'old' must be 3, or one"),
        ({}, {"context": "hour"}, "the context column must be one of"),
    ],
)
def test_columns_are_refused(change, columns, says):
    with pytest.raises(ValueError, match=says):
        lr.backtest(SHOP, pa.table(ROWS | change), columns=columns)


def test_who_does_not_take_them():
    with pytest.raises(ValueError, match=r"columns={'context': ...} says where they are"):
        lr.backtest(SHOP, pa.table(ROWS), contexts=[1, 2, 3])
