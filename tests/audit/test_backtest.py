"""Backtests against guards and players asked one step at a time, and against the recording of a robust stream."""

import json

import numpy as np
import pytest

import lowregret as lr

SHOP = lr.DecisionProblem.from_payoffs([[30, -40, 0], [-50, 60, 5], [1, 2, 3]], actions=["sell", "buy", "wait"])


def recorded(rng, lengths, n_states=3):
    """Streams of which the odd ones break half way."""
    probs, states = [], []
    for i, T in enumerate(lengths):
        law = rng.dirichlet(np.full(n_states, 0.6), T)
        came = (rng.random(T)[:, None] >= law.cumsum(-1)[:, :-1]).sum(-1)
        if i % 2:
            came[T // 2 :] = law[T // 2 :].argmin(-1)
        probs.append(law)
        states.append(came)
    return probs, states


def by_hand(problem, guard, probs, states):
    """One stream, a step at a time: payoffs added up by player, events, the guard's regret a step."""
    T, fresh = len(states), dict.fromkeys(("model", "guard", "Hedge", "last outcome"), 0.0)
    live = guard.fresh()
    hedge = lr.policies.Hedge(problem, T)
    memory, actions = hedge.start(), np.zeros(problem.n_actions)
    payoffs = problem.in_payoffs(problem.utility)
    for t, (law, state) in enumerate(zip(probs, states, strict=True)):
        live.advise(law)
        fresh["model"] += payoffs[np.argmax(problem.utility @ law), state]
        fresh["last outcome"] += payoffs[payoffs[:, states[t - 1]].argmax(), state] if t else payoffs[:, state].mean()
        fresh["guard"] += live.policy() @ payoffs[:, state]
        fresh["Hedge"] += hedge.policy(memory) @ payoffs[:, state]
        actions += payoffs[:, state]
        live.observe(int(state))
        memory = hedge.update(memory, int(state))
    return {name: value / T for name, value in fresh.items()} | {"best fixed action": actions.max() / T}, live.events


GUARDS = {
    "default": SHOP,
    "no test": lr.Guard(SHOP, test=lr.NoTest(60)),
    "horizon": lr.Guard(SHOP, test=lr.ExactTest(0.2, 60)),
    "quantal": lr.Guard(SHOP, test=lr.ExactTest(0.05, 60), response=lr.QuantalResponse()),
    "urn": lr.Guard(SHOP, test=lr.ExactTest(0.1, 60), fallback=lr.PolyaUrn(3), response=lr.QuantalResponse(0.1)),
    "hedge": lr.Guard(SHOP, test=lr.ExactTest(0.2, 60), fallback=lr.policies.Hedge(SHOP, 60)),
    "quantal, unknown horizon": lr.Guard(SHOP, test=lr.ExactTest(0.1), response=lr.QuantalResponse()),
    "past its horizon": lr.Guard(SHOP, test=lr.ExactTest(0.1, 40)),
}


@pytest.mark.parametrize("name", GUARDS)
def test_equals_players_asked_step_by_step(name):
    lengths = [60, 45, 60, 31, 58, 1, 9]
    probs, states = recorded(np.random.default_rng(3), lengths)
    found = lr.backtest(GUARDS[name], probs, states, names="abcdefg")
    assert [result.steps for result in found.streams] == lengths
    switched = 0
    for i, result in enumerate(found.streams):
        earned, events = by_hand(SHOP, found.guard, probs[i], states[i])
        for player, value in earned.items():
            assert result.earned[player] == pytest.approx(value, abs=1e-9), player
        told = [event for event in found.switches if event.stream == "abcdefg"[i]]
        assert len(told) == len(events)
        for one, other in zip(told, events, strict=True):
            assert type(one) is type(other)
            for mine, theirs in zip(one[1:], other[1:], strict=True):  # the last bit depends on the company
                assert mine == (pytest.approx(theirs, rel=1e-9) if isinstance(theirs, float) else theirs)
        switched += bool(events) or name == "no test"
        regret = SHOP.regret_in_payoffs(result.regret)
        assert regret == pytest.approx(earned["best fixed action"] - earned["guard"], abs=1e-9)
        np.testing.assert_allclose(found.regret()[i][-1], result.regret, atol=1e-12)
    assert switched
    total = sum(r.steps * r.earned["guard"] for r in found.streams) / sum(lengths)
    assert found.earned["guard"] == pytest.approx(total)


def test_a_robust_stream_is_reproduced():
    problem, T = lr.matching(), 400
    base = lr.Markov([[0.8, 0.2], [0.3, 0.7]], window=1)
    robust = lr.robustify(base, problem, T)
    tokens = np.concatenate([lr.sample(base, 200, 4, seed=0), np.random.default_rng(1).integers(0, 2, (4, 200))], 1)
    guard = lr.Guard(problem, test=lr.ExactTest(1 / T, T), response=lr.QuantalResponse())
    found = lr.backtest(guard, base.predict_sequence(tokens), tokens)
    trips = robust.alarm_times(tokens)
    assert [result.switched_at or T + 1 for result in found.streams] == trips.tolist()
    assert (trips <= T).any()
    regret = lr.external_regret(problem, robust.respond(), tokens)
    for i in range(4):
        np.testing.assert_allclose(found.regret()[i], regret[i], atol=1e-12)
        assert (found.share[i] == 1).all() == (trips[i] > T)


def test_the_fallback_alone():
    probs, states = recorded(np.random.default_rng(5), [40, 40])
    urn, response = lr.PolyaUrn(3), lr.QuantalResponse(0.2)
    found = lr.backtest(lr.Guard(SHOP, fallback=urn, response=response), probs, states)
    for i in range(2):
        policy = lr.policies.Respond(urn, SHOP, 0.2).policy_sequence(states[i])
        paid = (policy * SHOP.in_payoffs(SHOP.utility)[:, states[i]].T).sum(-1).mean()
        assert found.streams[i].earned["fallback"] == pytest.approx(paid)
    assert "fallback" not in lr.backtest(SHOP, probs, states, fallback=False).earned


def test_json():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([1, 1], (3, 50))
    states = (rng.random((3, 50)) < probs[..., 1]).astype(int)
    found = lr.backtest(lr.matching(), probs, states)
    about = json.loads(found.to_json())
    assert about["earned"] == pytest.approx(found.earned)
    assert len(about["streams"]) == 3
    assert about["regret_bound"] == found.certificate.at(50).regret_bound
    assert "Payoff a step over 150 steps of 3 streams" in str(found.table())


def test_warnings_say_when_the_guarantee_is_empty():
    rng = np.random.default_rng(0)
    states = rng.integers(0, 2, 100)
    good = np.where(states[:, None] == np.arange(2), 0.7, 0.3)
    (short,) = lr.backtest(lr.matching(), good[:30], states[:30]).warnings
    assert "the model's edge is" in short
    assert "too short to promise" in short
    bad, worse = lr.backtest(lr.matching(), good[:, ::-1], states).warnings
    assert "less than the best fixed action" in bad
    again = (0.5 + (states[1:] == states[:-1]).sum()) / 100  # the first is any alike
    assert worse == f"the model earned {again:.4g} a step less than doing what would have been best the last time"
    sure = np.where(states[:, None] == np.arange(2), 0.99, 0.01)
    assert lr.backtest(lr.matching(), np.tile(sure, (20, 1)), np.tile(states, 20)).warnings == ()


def test_evidence_of_a_stream():
    probs, states = recorded(np.random.default_rng(3), [60, 60])
    found = lr.backtest(SHOP, probs, states)
    switch = found.switches[0]
    values = found.evidence(switch.stream)
    assert values.shape == (60, 2)
    first = np.flatnonzero(values[:, 0] >= values[:, 1])[0] + 1
    assert first == switch.step
    assert values[first - 1, 0] == pytest.approx(switch.evidence)


def test_plots(tmp_path):
    probs, states = recorded(np.random.default_rng(3), [60, 30, 60])
    found = lr.backtest(SHOP, probs, states)
    for stream in (None, 1):
        figure = found.plot(stream)
        money, evidence = figure.axes
        lines = {line.get_label(): line.get_ydata()[-1] for line in money.lines if line.get_label()[0] != "_"}
        chosen = [r for r in found.streams if stream in (None, r.stream)]
        for name, value in lines.items():
            assert value == pytest.approx(sum(r.steps * r.earned[name] for r in chosen))
        assert evidence.lines
        figure.savefig(tmp_path / "figure.png")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"forecasts": [[0.5, 0.6, 0.1]] * 4}, "forecasts at step 1 must sum to one"),
        ({"outcomes": [0, 1, 3, 0]}, r"outcomes at step 3 must (lie|be integers) in 0\.\.2"),
        ({"outcomes": [0, 1]}, "forecasts and outcomes must be as long"),
        ({"outcomes": [[0, 1], [1]], "forecasts": [[[1, 0, 0]] * 2]}, "forecasts must be 2 streams"),
        ({"outcomes": [[0, 1], []], "forecasts": [[[1, 0, 0]] * 2, []]}, "outcomes of stream 1 must"),
        ({"names": ["a", "b"]}, "names must be 1 different ones"),
        ({"guard": None}, "problem must be a DecisionProblem"),
        ({"guard": lr.Guard(SHOP.changing())}, "guard must be made for the payoffs of the recording"),
    ],
)
def test_what_is_refused(change, says):
    given = {"guard": SHOP, "forecasts": [[0.2, 0.3, 0.5]] * 4, "outcomes": [0, 1, 2, 0]} | change
    with pytest.raises(ValueError, match=says):
        lr.backtest(**given)


def test_evidence_is_infinite_from_an_excluded_state_on():
    probs, states = recorded(np.random.default_rng(3), [60] * 8)
    probs[7][4, states[7][4]] = 0.0
    probs[7][4] /= probs[7][4].sum()
    found = lr.backtest(SHOP, probs, states).log_e[7]
    assert np.isinf(found[4:]).all()
    assert np.isfinite(found[:4]).all()


@pytest.mark.parametrize("name", [name for name in GUARDS if name != "no test"])
def test_the_fallback_alone_is_a_guard_without_a_test(name):
    made = lr.backtest(GUARDS[name], *recorded(np.random.default_rng(5), [2])).guard
    alone = lr.Guard(SHOP, test=lr.NoTest(made.test.horizon), fallback=made.fallback, response=made.response)
    probs, states = recorded(np.random.default_rng(5), [60, 52, 7, 1])
    found = lr.backtest(made, probs, states)
    for i, came in enumerate(states):
        live = alone.fresh()
        for t, state in enumerate(came):
            live.advise(probs[i][t])
            paid = live.policy() @ SHOP.utility[:, state]
            assert found.paid["fallback"][i][t] == pytest.approx(paid, abs=1e-9), (i, t)
            live.observe(int(state))


def test_an_excluded_state_is_json_still():
    def never(constant):
        raise AssertionError(constant)

    found = lr.backtest(lr.matching(), np.tile([1.0, 0.0], (50, 1)), [0] * 25 + [1] * 25)
    switch = json.loads(found.to_json(), parse_constant=never)["switches"][0]
    assert found.switches[0].excluded
    assert switch["evidence"] is None
    assert "probability 0" in switch["told"]


def test_an_array_of_laws_goes_with_a_list_of_streams():
    probs, states = recorded(np.random.default_rng(1), [12, 12])
    expected = lr.backtest(SHOP, np.stack(probs), np.stack(states)).earned
    for listed in (states, [s.tolist() for s in states], tuple(states)):
        assert lr.backtest(SHOP, np.stack(probs), listed).earned == expected
    with pytest.raises(ValueError, match="forecasts must be 2 streams, as outcomes are, got 3 of them"):
        lr.backtest(SHOP, np.stack([*probs, probs[0]]), states)
    with pytest.raises(ValueError, match=r"forecasts must be 2 streams.*got array"):
        lr.backtest(SHOP, probs[0], states)


@pytest.mark.parametrize(
    ("against", "named"),
    [(lr.Actions() + lr.References("old"), "references"), (lr.Actions(per=2), "contexts")],
)
def test_a_guard_that_is_told_more_than_a_recording_has_is_refused_by_name(against, named):
    guard = lr.Guard(SHOP, against=against, test=lr.ExactTest(horizon=4))
    with pytest.raises(ValueError, match=f"guard must be made .*{named}"):
        lr.backtest(guard, [[0.2, 0.3, 0.5]] * 4, [0, 1, 2, 0])


def test_of_many_switches_the_marks_are_from_all_streams():
    T, B = 40, 450
    states = np.zeros((B, T), dtype=int)
    states[:225, :] = 1  # these switch early
    states[225:, 20:] = 1
    found = lr.backtest(lr.matching(), np.tile([0.9, 0.1], (B, T, 1)), states)
    figure = found.plot()
    marks = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_label()[0] == "_"]
    assert set(marks) == {event.step for event in found.switches}
    assert f"{len(marks)} marked" in figure.axes[0].get_title()
    assert len(marks) <= 200 < len(found.switches)


def test_arrays_that_are_filled_anew_leave_a_backtest_as_it_was():
    probs, states = (np.stack(part) for part in recorded(np.random.default_rng(2), [30, 30]))
    found = lr.backtest(SHOP, probs, states)
    before = found.regret(), found.evidence(1)
    probs[:], states[:] = 1 / 3, 0
    np.testing.assert_array_equal(found.regret(), before[0])
    np.testing.assert_array_equal(found.evidence(1), before[1])


@pytest.mark.parametrize("names", [np.arange(5, 7), np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]")], ids=str)
def test_names_may_be_numbers_and_days_of_numpy(names):
    probs, states = recorded(np.random.default_rng(3), [30, 60])
    found = lr.backtest(SHOP, probs, states, names=list(names))
    assert found.switches
    told = json.loads(found.to_json())["switches"][0]
    assert told["told"].startswith(f"stream {found.switches[0].stream}, episode 1, step ")
    assert found.plot(names[1]).axes


def _spoilt(change):
    laws = np.full((4, 6, 2), 0.5)
    states = np.zeros((4, 6), dtype=int)
    change(laws, states)
    return laws, states


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda laws, _: laws.__setitem__((2, 4, 1), np.nan),
            "forecasts of stream 'c' at step 5 must be numbers that sum to",
        ),
        (lambda laws, _: laws.__setitem__((1, 0, 0), 0.75), "forecasts of stream 'b' at step 1 must sum to one within"),
        (
            lambda laws, _: laws.__setitem__((3, 5), [1.5, -0.5]),
            "forecasts of stream 'd' at step 6 must not be negative",
        ),
        (lambda _, states: states.__setitem__((2, 3), 7), r"outcomes of stream 'c' at step 4 must lie in 0\.\.1, got"),
    ],
)
def test_a_bad_law_or_state_is_told_with_its_stream_and_step(change, says, listed):
    laws, states = _spoilt(change)
    given = (list(laws), list(states)) if listed else (laws, states)
    with pytest.raises(ValueError, match=says):
        lr.backtest(lr.matching(), *given, names=["a", "b", "c", "d"])
    with pytest.raises(
        ValueError, match=says.replace("'a'", "0").replace("'b'", "1").replace("'c'", "2").replace("'d'", "3")
    ):
        lr.backtest(lr.matching(), *given)


def test_one_stream_says_the_step():
    laws, states = _spoilt(lambda laws, _: laws.__setitem__((2, 4, 1), np.nan))
    with pytest.raises(ValueError, match="forecasts at step 5 must be numbers that sum to one, got NaN"):
        lr.backtest(lr.matching(), laws[2], states[2])


def test_a_bad_reference_is_told_with_its_stream_and_step():
    laws, states = _spoilt(lambda *_: None)
    today = laws.copy()
    today[1, 2, 0] = np.nan
    says = r"references\['today'\] of stream 'b' at step 3 must be numbers that sum to one"
    with pytest.raises(ValueError, match=says):
        lr.backtest(lr.matching(), laws, states, references={"today": today}, names=["a", "b", "c", "d"])
