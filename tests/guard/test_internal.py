"""Guards of internal regret: bets on pairs by a literal loop, safe play at its fixed point, promises, what is found."""

import math
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.memory import end_to_end
from lowregret.policies import ExpertHedge, StoltzLugosi, resting
from lowregret.problems import Positions, pairs_of

from ..conftest import extra, random_problem
from ..literal_theorem import answer, by_prefix, chance_of, some_game, some_laws

torch = extra("torch")
RPS = lr.rock_paper_scissors()


# How it went


@pytest.mark.parametrize("seed", range(6))
def test_internal_regret_is_that_of_the_best_map_with_one_change(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    A, tokens = problem.n_actions, rng.integers(problem.n_states, size=(2, 3, 9))
    mixed, pure = rng.dirichlet(np.ones(A), tokens.shape), rng.integers(A, size=tokens.shape)
    maps = [f for f in product(range(A), repeat=A) if sum(f[a] != a for a in range(A)) == 1]
    for played, as_given in ((mixed, mixed), (np.eye(A)[pure], pure)):
        found = lr.internal_regret(problem, as_given, tokens)
        for i in np.ndindex(2, 3):
            for t in range(1, 10):
                earned = problem.utility[:, tokens[i][:t]].T  # [t, A]
                own = (played[i][:t] * earned).sum()
                best = max(((played[i][:t] * earned[:, list(f)]).sum() for f in maps), default=own)
                assert found[(*i, t - 1)] == pytest.approx((best - own) / t, abs=1e-12)
        in_torch = lr.internal_regret(problem, torch.as_tensor(as_given), torch.as_tensor(tokens))
        np.testing.assert_allclose(in_torch.numpy(), found, atol=1e-12)
        if A == 2:
            np.testing.assert_allclose(found, lr.external_regret(problem, as_given, tokens), atol=1e-12)
        assert (lr.external_regret(problem, as_given, tokens) <= max(A - 1, 1) * np.maximum(found, 0) + 1e-12).all()


# The fallback


def rests(weights: np.ndarray, A: int, others: np.ndarray) -> np.ndarray:
    """The fixed point by solving equations: pi = sum w_ab (pi with a's chance given to b) + others."""
    moves = np.zeros((A, A))
    for (a, b), w in zip(permutations(range(A), 2), weights, strict=True):
        moves[b, a] += w
        moves[a, a] -= w
    rows = np.vstack([moves - np.eye(A) * others.sum(), np.ones(A)])
    return np.linalg.lstsq(rows, np.append(-others, 1.0), rcond=None)[0]


def test_what_is_played_is_left_as_it_is() -> None:
    rng = np.random.default_rng(0)
    for A in (2, 3, 5):
        P = A * (A - 1)
        weights = rng.dirichlet(np.full(P + 1, 0.5), 20)
        others = weights[:, -1:] * rng.dirichlet(np.ones(A), 20)
        found = resting(weights[:, :P].T, A, others.T)
        for n in range(20):
            np.testing.assert_allclose(found[:, n], rests(weights[n, :P], A, others[n]), atol=1e-9)
        alone = resting(torch.as_tensor(weights[0, :P] / weights[0, :P].sum()), A).numpy()
        np.testing.assert_allclose(alone, rests(weights[0, :P] / weights[0, :P].sum(), A, np.zeros(A)), atol=1e-9)
    sure = np.zeros(20)
    sure[pairs_of(5).index((3, 1))] = 1.0  # all weight on one pair: a's chance is given away
    assert resting(sure, 5)[3] == pytest.approx(0, abs=1e-12)
    tiny = np.geomspace(1e-300, 1, 20)
    assert resting(tiny / tiny.sum(), 5).sum() == pytest.approx(1)
    assert resting(np.ones(1), 1).tolist() == [1.0]


@pytest.mark.parametrize("problem", [lr.matching(), RPS, lr.newsvendor([0, 1, 2, 3], 5, 3)], ids=str)
def test_stoltz_lugosi_keeps_its_bound(problem: lr.DecisionProblem) -> None:
    player, T = StoltzLugosi(problem), 300
    memory, gains, hurts = player.start(), np.zeros((problem.n_actions,) * 2), []
    for t in range(T):
        pi = player.policy(memory)
        assert pi.sum() == pytest.approx(1)
        x = pi[:, None, None] * (problem.utility[None] - problem.utility[:, None])  # [a, b, s]
        lost_S = problem.utility.max(axis=0) - pi @ problem.utility
        state = int(np.argmax(lost_S)) if t % 7 else t // 7 % problem.n_states
        gains, memory = gains + x[..., state], player.update(memory, np.array(state))
        hurts.append(state)
    assert 0.1 * player.internal_bound(T) < gains.max() <= player.internal_bound(T)
    found = lr.internal_regret(problem, player, np.array(hurts))
    assert found[-1] == pytest.approx(gains.max() / T)
    assert lr.external_regret(problem, player, hurts)[-1] <= player.regret_bound(problem, T, None)
    in_torch = player.policy_sequence(torch.as_tensor([hurts, hurts[::-1]])).numpy()
    np.testing.assert_allclose(in_torch[0], player.policy_sequence(np.array(hurts)), atol=1e-9)


def test_no_law_has_it_for_a_response() -> None:
    """Where an action is worse by as much in every state, quantal responses play both in one ratio: not this policy."""
    problem = lr.DecisionProblem([[0.5, -0.5], [0.4, -0.6], [-0.3, 0.9]])
    laws = np.random.default_rng(0).dirichlet(np.ones(2), 50)
    ratios = [pi[1] / pi[0] for pi in (answer(problem.utility, law, 0.1) for law in laws)]
    assert np.ptp(ratios) < 1e-9
    played = StoltzLugosi(problem).policy_sequence([0, 0, 0])
    assert played[0, 1] / played[0, 0] == pytest.approx(1)
    assert abs(played[0, 1] / played[0, 0] - ratios[0]) > 0.5
    safe = lr.robustify(lr.predictors.Scheduled([[0.9, 0.1]]), problem, 200, internal=True)
    with pytest.raises(ValueError, match="falls back on laws"):
        safe.predict(safe.start())


# The bets


def literal(rule: lr.ExactTest, laws_TxS: np.ndarray, states_T: np.ndarray) -> tuple[int, list[float]]:
    """When the alarm sounds (0 for never), and ln E after every step: bets on every pair, rate and start."""
    U, prior, A = rule.problem.utility, rule.prior, rule.problem.n_actions
    pairs, rates = list(permutations(range(A), 2)), rule.prior.rates_K
    wealth, unspent, trip, levels = np.zeros((len(pairs), len(rates))), prior.share, 0, []
    for t, (p, s) in enumerate(zip(laws_TxS, states_T.tolist(), strict=True), 1):
        if rule.temperature == 0:
            pi = np.eye(A)[int(np.argmax(U @ p > (U @ p).max() - 1e-12))]
        else:
            pi = answer(U, p, rule.problem.anytime_temperature(t) if rule.temperature is None else rule.temperature)
        x = np.array([pi[a] * (U[b] - U[a]) for a, b in pairs])
        psi = np.log(np.einsum("pks,s->pk", np.exp(rates[:, None] * x[:, None]), p))
        fresh = prior.weights_K(t)
        unspent -= fresh.sum() * len(pairs)
        wealth = (wealth + fresh) * np.exp(rates * x[:, s][:, None] - np.maximum(psi, 0))
        levels.append(math.log(wealth.sum() + unspent))
        if not trip and levels[-1] >= -math.log(rule.delta):
            trip = t
    return trip, levels


@pytest.mark.parametrize("horizon", [40, None], ids=["known", "unknown"])
@pytest.mark.parametrize("temperature", [0.0, 0.1, None])
def test_bets_are_their_definition(horizon: int | None, temperature: float | None) -> None:
    trips = 0
    for seed in range(4):
        rng = np.random.default_rng([7, seed])
        problem = RPS if seed == 0 else some_game(rng, 4)
        T, S = 40, problem.n_states
        laws = 0.9 * some_laws(rng, (3, T), S) + 0.1 / S
        hurts = problem.utility[(laws @ problem.utility.T).argmax(axis=-1)].argmin(axis=-1)
        states = np.where(rng.random((3, T)) < 0.7, hurts, rng.integers(S, size=(3, T)))
        rule = lr.ExactTest(problem, horizon, 0.2, temperature=temperature, internal=True)
        wanted = [literal(rule, laws[n], states[n]) for n in range(3)]
        np.testing.assert_allclose(rule.log_evidence(laws, states), [each[1] for each in wanted], rtol=1e-8, atol=1e-8)
        times = np.array([each[0] or T + 1 for each in wanted])
        np.testing.assert_array_equal(rule.trip_times(laws, states), times)
        one, all_of_them = (lr.Guard(problem, horizon, rule=rule, batch_shape=shape) for shape in ((), (3,)))
        for t in range(T):
            one.advise(laws[0, t])
            all_of_them.advise(laws[:, t])
            one.observe(Positions(states[0, t]))
            all_of_them.observe(Positions(states[:, t]))
            for n, level in enumerate([float(one.evidence[0]), *all_of_them.evidence[0].tolist()]):
                assert level == pytest.approx(wanted[max(n - 1, 0)][1][t], rel=1e-8, abs=1e-8)
        told = {event.stream: event.step for event in all_of_them.events if isinstance(event, lr.Switch)}
        assert told == {n: int(times[n]) for n in range(3) if times[n] <= T}
        trips += len(told)
    assert trips > 2


def test_beside_the_second_bettor_pairs_are_charged_whatever_the_law() -> None:
    """Those on pairs by themselves: the two-point charge of their own pair, 0 where it is not played."""
    rng, T = np.random.default_rng(2), 30
    rule = lr.ExactTest(RPS, T, 0.01, temperature=0, internal=True, likelihood=True)
    laws, states = 0.9 * some_laws(rng, (T,), 3) + 0.1 / 3, rng.integers(3, size=T)
    U, prior, pairs = RPS.utility, rule.prior, list(permutations(range(3), 2))
    wealth, unspent, rates = np.zeros((6, len(prior.rates_K))), 0.5, prior.rates_K
    memory = rule.start()
    for t in range(1, T + 1):
        b, s = int(np.argmax(U @ laws[t - 1])), int(states[t - 1])
        memory = rule.update(memory, laws[t - 1], states[t - 1])
        fresh = prior.weights_K(t)
        unspent -= 6 * fresh.sum()
        for row, (a, other) in enumerate(pairs):
            wealth[row] += fresh
            if a == b:
                x = U[other] - U[a]
                low, high = -x.min(), x.max()
                wealth[row] *= (
                    np.exp(rates * x[s]) * (low + high) / (low * np.exp(rates * high) + high * np.exp(-rates * low))
                )
        assert float(rule.bets.together(memory.statistics, memory.step)) == pytest.approx(wealth.sum() + unspent)
    recorded = rule.log_evidence(laws[None], states[None])[0, -1]
    assert recorded == pytest.approx(float(rule.evidence(memory)[0]))


# The way back


@pytest.mark.parametrize("temperature", [0.0, 0.1])
def test_safe_play_is_over_pairs_and_begins_afresh(temperature: float) -> None:
    """After the alarm, by a loop: the budget counts pairs (and the model), safe play is Hedge over them at rest."""
    problem, T, budget, rng = RPS, 300, 0.15, np.random.default_rng(5)
    back = lr.Recovery(budget=budget)
    guard = lr.Guard(problem, T, delta=0.3, temperature=temperature, internal=True, fallback=back)
    U, pairs, counts = problem.utility, list(permutations(range(3), 2)), temperature == 0
    hedge = ExpertHedge(6 + counts, problem.span)
    account, safe, memory, entries, seen = np.zeros(6 + counts), False, hedge.start(), 0, 0
    for _ in range(T):
        law = 0.9 * rng.dirichlet(np.ones(3)) + 0.1 / 3
        advice = guard.advise(law)
        pi, late = advice.policy, bool(guard.switched)
        base = np.eye(3)[int(np.argmax(U @ law))] if counts else answer(U, law, temperature)
        if safe:
            seen += 1
            weights = hedge.policy(memory)
            others = weights[-1] * base if counts else np.zeros(3)
            np.testing.assert_allclose(pi, rests(weights[:6], 3, others), atol=1e-9)
        state = int(np.argmin(pi @ U)) if rng.random() < 0.8 else int(rng.integers(3))
        guard.observe(Positions(state))
        if not late:
            continue
        gains = [pi[a] * (U[b, state] - U[a, state]) for a, b in pairs]
        gains += [float(base @ U[:, state] - pi @ U[:, state])] if counts else []
        account, limit = np.maximum(account + gains, 0), budget * problem.span * math.sqrt(T)
        was, safe = safe, bool(account.max() > limit / 2) if safe else bool(account.max() >= limit)
        entries += safe and not was
        memory = hedge.update(memory, np.array(gains)) if was and safe else hedge.start()
    assert guard.switched
    assert entries >= 1
    assert seen > 20
    assert guard.internal_regret <= guard.certificate.regret_bound


# Promises


def test_every_sequence_is_within_the_certificate() -> None:
    """All sequences of small problems with three actions: the whole run, way back included, and false alarms."""
    rng, used, alarms = np.random.default_rng(11), 0.0, 0.0
    for i in range(6):
        S, T = (3, 7) if i % 2 == 0 else (2, 8)
        problem = RPS if i == 0 else lr.DecisionProblem(rng.uniform(-1, 1, (3, S)))
        settings: dict[str, Any] = {"temperature": (0.0, 0.2)[i // 2 % 2], "likelihood": i == 4}
        rule = lr.ExactTest(problem, T, 0.7, internal=True, fallback=lr.Recovery(budget=0.3), **settings)
        tables = [some_laws(rng, (S**t,), S, zeros=False) for t in range(T)]
        if i == 0:
            tables = [np.full((S**t, S), 1 / S) for t in range(T)]
        states = np.array(list(product(range(S), repeat=T)))
        laws = by_prefix(tables, states)
        guard = lr.Guard(problem, T, rule=rule, batch_shape=(len(states),))
        for t in range(T):
            guard.advise(laws[:, t])
            guard.observe(Positions(states[:, t]))
            most = rule.certificate.at(t + 1).regret_bound
            assert (guard.internal_regret <= most + 1e-12).all()
            used = max(used, float(guard.internal_regret.max()) / most)
        chance = float(chance_of(laws, states)[guard.switched].sum())
        assert chance <= 0.7 + 1e-12
        alarms = max(alarms, chance)
    assert used > 0.6
    assert alarms > 0.2


@pytest.mark.parametrize("temperature", [0.0, None])
def test_a_beam_of_adversaries_breaks_nothing(temperature: float | None) -> None:
    """An opponent who chooses the model's law and the state, and keeps the 40 runs with most internal regret."""
    problem, T, keep, rng = RPS, 120, 40, np.random.default_rng(1)
    rule = lr.ExactTest(problem, T, 0.05, temperature=temperature, internal=True)
    menu = np.array([[0.98, 0.01, 0.01], [0.01, 0.98, 0.01], [0.34, 0.33, 0.33], [0.4, 0.01, 0.59]])
    pairs = list(permutations(range(3), 2))
    memory, gains, used, tripped = rule.start((1,)), np.zeros((1, 6)), 0.0, False
    for t in range(T):
        found = []
        for law, state in product(range(len(menu)), range(3)):
            probs = np.tile(menu[law], (len(gains), 1))
            moment = rule.look(memory, probs)
            rest = rule.answer(memory, moment)
            pi = np.concatenate([1 - rest.sum(axis=0, keepdims=True), rest])
            x = np.array([pi[a] * (problem.utility[b, state] - problem.utility[a, state]) for a, b in pairs]).T
            after = rule.advance(memory, moment, np.full(len(gains), state))
            found.append((after, gains + x))
        memory = end_to_end([one[0] for one in found])
        gains = np.concatenate([one[1] for one in found])
        order = np.argsort(-gains.max(axis=1) + 0.2 * rng.random(len(gains)), kind="stable")[:keep]
        memory, gains = lr.take(memory, order), gains[order]
        most = rule.certificate.at(t + 1).regret_bound * (t + 1)
        assert gains.max() <= most + 1e-9
        used, tripped = max(used, gains.max() / most), tripped or bool(rule.tripped(memory).any())
    assert used > 0.4
    assert tripped


def test_two_actions_are_judged_as_ever() -> None:
    rng = np.random.default_rng(4)
    laws, states = rng.dirichlet(np.ones(2), (20, 200)), rng.integers(2, size=(20, 200))
    plain, pairs = (lr.ExactTest(lr.matching(), 200, 0.1, temperature=0, internal=i) for i in (False, True))
    np.testing.assert_array_equal(plain.trip_times(laws, states), pairs.trip_times(laws, states))
    assert plain.certificate.regret_bound == pytest.approx(pairs.certificate.regret_bound)


def by_its_formula(rule: lr.ExactTest) -> float:
    """max_tau of B(tau - 1) + J + the way back over six pairs and the model: rock-paper-scissors by best response."""
    T, J, rates = rule.horizon, 2.0, rule.prior.rates_K
    assert T is not None
    kappa = np.log((np.exp(2 * rates) + 2 * np.exp(-rates)) / 3)  # a pair gains between -1 and 2, or -2 and 1
    costs, budget = -np.log(rule.prior.weights_K(1) * rule.delta), 0.5 * math.sqrt(T)
    most = 0.0
    for tau in range(1, T + 1):
        before = min((tau - 1) * J, min(((tau - 1) * kappa + costs) / rates))
        left = max(T - tau - math.ceil(budget), 0)
        safe = min(left, 1 + math.sqrt(1 + left * math.log(7))) if left else 0.0
        most = max(most, before + J + J * min(T - tau, budget + 1 + safe))
    return most / T


def test_the_certificate_says_what_it_is_of() -> None:
    rule = lr.ExactTest(RPS, 1024, 2 / 1024, temperature=0, internal=True)
    assert rule.certificate.internal
    assert "internal regret <= " in str(rule.certificate)
    assert "playing b whenever a was played gains no more" in rule.certificate.statement
    assert "at most 2 times that" in rule.certificate.statement
    assert rule.certificate.regret_bound == pytest.approx(by_its_formula(rule))
    assert rule.certificate.sharpen().regret_bound <= rule.certificate.regret_bound
    assert rule.certificate.against_model is not None
    with pytest.raises(ValueError, match="mixed actions only"):
        rule.certificate.realised(0.9)
    beside = lr.ExactTest(RPS, 1024, 2 / 1024, ("old",), temperature=0, internal=True).certificate
    assert "nor does any reference lead by more" in beside.statement
    assert beside.regret_bound > rule.certificate.regret_bound
    late = lr.Guard(RPS, 1024, internal=True, lag=2).certificate
    assert late.internal
    assert "Before it no pair gains more" in late.statement
    untested = lr.Guard(RPS, 1024, internal=True, test=False).certificate
    assert untested.internal
    assert untested.tv_bound == 1
    hot = lr.ExactTest(RPS, 1024, internal=True, temperature="certificate")  # type: ignore[arg-type]
    cold = lr.ExactTest(RPS, 1024, internal=True)
    assert hot.certificate.terms["before the alarm"] <= cold.certificate.terms["before the alarm"]
    # No payoff is promised that external regret could take away.
    assert rule.certificate.payoff_floor == pytest.approx(-2 * rule.certificate.regret_bound)


def test_what_pairs_do_not_go_with_is_refused() -> None:
    payoff = lr.Payoff(lambda buy, move: buy * np.clip(move, -1, 1), [0, 1], -1, 1, knots=[-1, 1])
    for problem, settings, match in (
        (RPS, {"contexts": 2}, "leave out contexts"),
        (RPS, {"references": ("old",), "actions": False}, "leave out contexts and actions=False"),
        (payoff, {}, "in place of numbers"),
        (RPS, {"fallback": lr.PolyaUrn(3)}, r"falls back on Recovery\(\)"),
        (RPS, {"fallback": lr.Recovery(safe=lr.policies.AdaHedge(RPS))}, r"falls back on Recovery\(\)"),
        (RPS, {"internal": "yes"}, "internal must be"),
    ):
        with pytest.raises(ValueError, match=match):
            lr.ExactTest(problem, 100, **{"internal": True, **settings})
    with pytest.raises(ValueError, match="internal needs a problem"):
        lr.Guard(None, 100, internal=True)
    with pytest.raises(ValueError, match="internal only build"):
        lr.Guard(RPS, 100, rule=lr.ExactTest(RPS, 100), internal=True)
    with pytest.raises(ValueError, match="made with internal=True"):
        _ = lr.Guard(RPS, 100).internal_regret


# Everything else it is composed with


def confused(n: int, T: int, since: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Five classes, each named with .8; from ``since`` on the last two are taken for each other."""
    rng = np.random.default_rng(seed)
    law = np.full((5, 5), 0.05) + 0.75 * np.eye(5)
    said = rng.integers(5, size=(n, T))
    states = (rng.random((n, T, 1)) > law[said].cumsum(axis=-1)).sum(axis=-1).clip(0, 4)
    return law[said], np.where(np.arange(T) < since, states, np.array([0, 1, 2, 4, 3])[states])


def test_two_classes_confused_are_found_and_named() -> None:
    """The model is better than any one class all along: nothing else finds it."""
    names = ["a", "b", "c", "d", "e"]
    problem = lr.DecisionProblem.from_payoffs(np.eye(5), actions=names, states=names)
    laws, states = confused(100, 600, 200, seed=0)
    model = problem.respond(np.moveaxis(laws, -1, 0), 0.0)
    assert (lr.external_regret(problem, np.moveaxis(model, 0, -1), states)[:, -1] < -0.3).all()
    pairs, actions = (
        lr.ExactTest(problem, 600, 0.05, temperature=0, internal=i).trip_times(laws, states) for i in (True, False)
    )
    assert (pairs > 200).mean() >= 0.95
    assert np.mean(pairs <= 300) >= 0.95
    assert np.mean(actions <= 600) <= 0.25
    guard = lr.Guard(problem, 600, delta=0.05, temperature=0, internal=True)
    for t in range(300):
        guard.advise(laws[0, t])
        guard.observe(names[states[0, t]])
    switch = guard.events[0]
    assert switch.step == pairs[0]
    assert switch.because in (
        f"when it says d, e is better since about step {switch.since}",
        f"when it says e, d is better since about step {switch.since}",
    )
    assert switch.because in str(switch)
    assert abs(switch.since - 200) < 30
    assert guard.regret < guard.internal_regret
    again = lr.Guard(problem, 600, delta=0.05, temperature=0, internal=True)
    again.load_state_dict(guard.state_dict())
    assert again.events == guard.events
    assert again.internal_regret == guard.internal_regret


def test_the_event_says_which_way_round() -> None:
    """It takes rain for snow, and never snow for rain."""
    names = ["sun", "rain", "snow"]
    problem = lr.DecisionProblem.from_payoffs(np.eye(3), actions=names, states=names)
    guard = lr.Guard(problem, 300, delta=0.05, temperature=0, internal=True)
    states, taken = [], []
    for t in range(300):
        state = (0, 1, 1, 2)[t % 4]
        says = 2 if state else 0
        guard.advise(np.full(3, 0.05) + 0.85 * np.eye(3)[says])
        states.append(state)
        taken.append(guard.act(seed=0))
        guard.observe(names[state], action=taken[-1])
    switch = guard.events[0]
    assert switch.because == f"when it says snow, rain is better since about step {switch.since}"
    assert (switch.action, switch.whom, switch.says) == (1, "rain", "snow")
    assert guard.realised_regret == pytest.approx(lr.external_regret(problem, taken, states)[-1])


def test_false_alarms_on_a_model_that_is_right() -> None:
    problem, delta, n = lr.matching(5), 0.2, 300
    laws, states = confused(n, 150, 150, seed=3)
    for settings in ({}, {"temperature": 0}, {"temperature": 0, "likelihood": True}):
        rule = lr.ExactTest(problem, 150, delta, internal=True, **settings)  # type: ignore[arg-type]
        count = int((rule.trip_times(laws, states) <= 150).sum())
        assert stats.binomtest(count, n, delta, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("settings", [{}, {"lag": 3}, {"test": False}, {"likelihood": True}], ids=str)
def test_a_backtest_plays_what_a_guard_plays(settings: dict[str, Any]) -> None:
    problem = lr.matching(5)
    laws, states = confused(3, 200, 60, seed=5)
    made = lr.Guard(problem, 200, temperature=0, internal=True, **settings)
    found = lr.backtest(problem, laws, states, guard=made)
    lag = settings.get("lag", 1)
    for n in range(3):
        guard, earned = lr.Guard(problem, 200, rule=made.rule.each, lag=1) if lag == 1 else made, 0.0
        if lag > 1:
            guard = lr.Guard(problem, 200, delta=0.05, temperature=0, internal=True, lag=lag)
        for t in range(200 + lag - 1):
            if t < 200:
                earned += float(guard.advise(laws[n, t]).policy @ problem.utility[:, states[n, t]])
            if t >= lag - 1:
                guard.observe(Positions(states[n, t - lag + 1]))
        assert found.streams[n].earned["guard"] == pytest.approx(float(problem.in_payoffs(earned / 200)), abs=1e-9)
        told = [event for event in found.switches if event.stream == n and isinstance(event, lr.Switch)]
        assert [event.because for event in told] == [
            event.because for event in guard.events if isinstance(event, lr.Switch)
        ]
        assert guard.internal_regret <= guard.certificate.regret_bound


@pytest.mark.parametrize("payoffs", ["change", "scaled"])
def test_payoffs_of_each_step_count(payoffs: str) -> None:
    """Bets and account by a loop with the utilities of each step."""
    rng, T = np.random.default_rng(6), 200
    guard = lr.Guard(RPS, T, delta=0.2, temperature=0, internal=True, likelihood=False, payoffs=payoffs)
    rule, pairs, gained = guard.rule, pairs_of(3), np.zeros(6)
    assert isinstance(rule, lr.ExactTest)
    rates, wealth, unspent = rule.prior.rates_K, np.zeros((6, len(rule.prior.rates_K))), 1.0
    for t in range(1, T + 1):
        law, scale = 0.9 * rng.dirichlet(np.ones(3)) + 0.1 / 3, float(rng.uniform(0.1, 1))
        U = rng.uniform(-1, 1, (3, 3)) if payoffs == "change" else scale * RPS.utility
        told: dict[str, Any] = {"payoffs": U} if payoffs == "change" else {"scale": scale}
        pi = guard.advise(law, **told).policy
        base, state = np.eye(3)[int(np.argmax(U @ law))], int(np.argmin(pi @ U))
        x_PxS = np.array([base[a] * (U[b] - U[a]) for a, b in pairs])
        psi = np.log(np.einsum("pks,s->pk", np.exp(rates[:, None] * x_PxS[:, None]), law))
        fresh = rule.prior.weights_K(t)
        unspent -= 6 * fresh.sum()
        wealth = (wealth + fresh) * np.exp(rates * x_PxS[:, state][:, None] - np.maximum(psi, 0))
        guard.observe(Positions(state))
        assert float(guard.evidence[0]) == pytest.approx(math.log(wealth.sum() + unspent), rel=1e-8, abs=1e-8)
        gained += [pi[a] * (U[b, state] - U[a, state]) for a, b in pairs]
        assert guard.internal_regret == pytest.approx(gained.max() / t)
    assert guard.switched
    assert guard.internal_regret <= guard.certificate.regret_bound


def test_references_count_beside_pairs() -> None:
    """A reference that is always right is found, named, and followed."""
    problem, rng = RPS, np.random.default_rng(0)
    guard = lr.Guard(problem, 300, delta=0.05, temperature=0, internal=True, likelihood=False, references=("old",))
    for _ in range(300):
        state = int(rng.integers(3))
        guard.advise([0.34, 0.33, 0.33], references=[np.eye(3)[state] * 0.97 + 0.01])
        guard.observe(Positions(state))
    switch = guard.events[0]
    assert (switch.reference, switch.says) == ("old", None)
    assert "old would have earned more" in switch.because
    assert guard.regret <= guard.certificate.regret_bound


def test_a_robust_player_of_low_internal_regret() -> None:
    safe = lr.robustify(lr.predictors.Scheduled([[0.8, 0.1, 0.1]]), RPS, 200, internal=True)
    states = np.random.default_rng(0).choice(3, p=[0.1, 0.1, 0.8], size=(4, 200))
    played = safe.policy_sequence(states)
    memory = safe.start((4,))
    for t in range(200):
        np.testing.assert_allclose(safe.policy(memory), played[:, t])
        memory = safe.update(memory, states[:, t])
    assert (safe.trip_times(states) < 40).all()
    np.testing.assert_array_equal(memory.rule.tripped_at, safe.trip_times(states))
    assert (lr.internal_regret(RPS, played, states)[:, -1] <= safe.certificate.regret_bound).all()
    assert lr.robustify(lr.predictors.Scheduled([[0.8, 0.1, 0.1]]), RPS, 200, rule=safe.rule).rule is safe.rule
    beside = lr.robustify(
        lr.PolyaUrn(3), RPS, 200, internal=True, references=[lr.predictors.Scheduled([[0.2, 0.2, 0.6]])]
    )
    assert beside.rule.bets.rows == 7
    assert beside.policy_sequence(states).shape == (4, 200, 3)
