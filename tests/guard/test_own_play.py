"""Actions of the user's own in place of the best response: a literal loop, false alarms, certificates, all settings."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.problems import Known, Positions

from ..literal_theorem import by_prefix, chance_of, some_game, some_laws


def charge_of(x_S: np.ndarray, p: np.ndarray, rate: float, second: bool) -> float:
    """What a bet is charged: psi+ alone; beside the second bettor that of a law on both ends, of this mean or of 0."""
    if not second:
        return max(0.0, math.log(p @ np.exp(rate * x_S)))
    low, high = float(x_S.min()), float(x_S.max())
    mean = max(0.0, float(p @ x_S))
    if high <= 0:
        return 0.0
    if high == low:
        return rate * high
    part = (mean - low) / (high - low)
    return max(0.0, math.log(part * math.exp(rate * high) + (1 - part) * math.exp(rate * low)))


class Literal:
    """One stream (or class) of steps that are told all there is: rows of mixed actions, some of them asleep."""

    def __init__(self, rule: lr.ExactTest) -> None:
        self.rule, self.prior = rule, rule.prior
        self.wealth_PxK = np.zeros((rule.n_comparators, len(self.prior.rates_K)))
        self.clock_C, self.t, self.spent = [0] * rule.n_contexts, 0, 0.0
        self.back = rule.in_play.fallback
        self.memory, self.ratio, self.sums, self.squares = self.back.start(), 0.0, [0.0], list[float]()

    def step(self, p: np.ndarray, d: np.ndarray, state: int, known: Known) -> float:
        """E after one more step, as far as it counts."""
        rule, prior, self.t = self.rule, self.prior, self.t + 1
        utility = rule.problem.utility if known.utility is None else known.utility
        U_AxS = utility * (1.0 if known.scale is None else float(known.scale))
        c = 0 if known.context is None else int(known.context)
        self.clock_C[c] += 1
        rows = [(c * len(U_AxS) + a, np.eye(len(U_AxS))[a], self.clock_C[c]) for a in range(len(U_AxS))]
        others = () if known.references_NxA is None else known.references_NxA
        rows += [(rule.n_contexts * len(U_AxS) + n, plays, self.t) for n, plays in enumerate(others)]
        for at, plays, clock in rows:
            x_S, fresh_K = (plays - d) @ U_AxS, prior.weights_K(clock)
            self.spent += fresh_K.sum()
            for k, rate in enumerate(prior.rates_K.tolist()):
                growth = math.exp(rate * x_S[state] - charge_of(x_S, p, rate, rule.likelihood))
                self.wealth_PxK[at, k] = (self.wealth_PxK[at, k] + fresh_K[k]) * growth
        actions = self.wealth_PxK.sum() + prior.share - self.spent
        if not rule.likelihood:
            return actions
        scene = rule.scene(p, known._replace(plays_A=d), np.array(self.t))
        mix = self.back.law(self.memory, scene)
        self.memory = self.back.update(self.memory, scene, np.array(state), np.array(False))
        self.ratio = (self.ratio + prior.second_weight(self.t)) * mix[state] / p[state]
        best = int(np.argmax(utility @ mix > (utility @ mix).max() - 1e-12))
        gained = float(U_AxS[best, state] - d @ U_AxS[:, state])
        self.sums.append(self.sums[-1] + gained)
        self.squares.append(gained**2)
        lowest = max(i for i, total in enumerate(self.sums) if total <= min(self.sums) + 1e-12)
        rise, age = self.sums[-1] - self.sums[lowest], self.t - lowest
        heard = rise > 1e-12 and rise**2 >= sum(self.squares[lowest:]) * (math.log(1 + self.t / max(age, 1)) + 2)
        return actions + (self.ratio + prior.second_unspent(self.t)) * heard


def some_plays(rng: np.random.Generator, problem: lr.DecisionProblem, laws: np.ndarray) -> np.ndarray:
    """Mixed actions of every kind, one for each law: the best response, another action, or any mixture."""
    A = problem.n_actions
    best = np.eye(A)[(laws @ problem.utility.T).argmax(axis=-1)]
    pure, mixed = np.eye(A)[rng.integers(A, size=laws.shape[:-1])], rng.dirichlet(np.ones(A), laws.shape[:-1])
    kind = rng.random(laws.shape[:-1])[..., None]
    return np.where(kind < 0.3, best, np.where(kind < 0.65, pure, mixed))


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "unknown horizon": {"horizon": None},
    "contexts": {"contexts": 2},
    "references": {"references": ("today",)},
    "scaled": {"payoffs": "scaled"},
    "change": {"payoffs": "change"},
    "all": {"contexts": 2, "references": ("today", "boss"), "payoffs": "change"},
}


@pytest.mark.parametrize("likelihood", [False, True], ids=["alone", "second"])
@pytest.mark.parametrize("lag", [1, 3])
@pytest.mark.parametrize("name", SETTINGS)
def test_it_is_its_definition_in_every_setting(name: str, lag: int, likelihood: bool) -> None:
    """A fleet of three streams live, each against loops; saved and resumed half way, with plays that wait."""
    T, N, switched = 40 * lag, 3, 0
    for seed in range(3):
        rng = np.random.default_rng([seed, lag, len(name)])
        drawn = some_game(rng)
        problem = lr.DecisionProblem.from_payoffs(drawn.utility * 10, low=-10, high=10)
        A, S = problem.utility.shape
        more = {"horizon": T, "delta": 0.2 * lag, "temperature": 0, "likelihood": likelihood, "lag": lag}
        more |= SETTINGS[name]
        laws = 0.97 * some_laws(rng, (T, N), S, zeros=False) + 0.03 / S
        plays = some_plays(rng, problem, laws)
        told: dict[str, np.ndarray] = {}
        if "contexts" in more:
            told["context"] = rng.integers(2, size=(T, N))
        if "references" in more:
            told["references"] = rng.dirichlet(np.ones(A), (T, N, len(more["references"])))
        if more.get("payoffs"):
            told["scale"] = rng.uniform(0.3, 1, (T, N))
        if more.get("payoffs") == "change":
            told["payoffs"] = np.clip(10 * problem.utility + rng.uniform(-2, 2, (T, N, A, S)), -10, 10)
        utilities = told.get("payoffs", np.broadcast_to(problem.utility, (T, N, A, S)))
        lost = utilities.max(axis=2) - np.einsum("tna,tnas->tns", plays, utilities)
        hurts = lost.argmax(axis=-1)
        states = np.where(rng.random((T, N)) < 0.9, hurts, rng.integers(S, size=(T, N)))
        if "references" in more:
            rule = lr.ExactTest(problem, **{k: v for k, v in more.items() if k != "lag"}, references_act=True)
            again = {"rule": rule, "horizon": more["horizon"], "lag": lag}
        else:
            again = more
        guard = lr.Guard(problem, batch_shape=(N,), **again)
        each = guard.rule.each
        loops = [[Literal(each) for _ in range(lag)] for _ in range(N)]
        levels = np.full((N, lag), 0.5 if likelihood else 1.0)  # of who bets on actions, while the other is not heard
        gaps, tripped = np.zeros(N), np.zeros(N, dtype=bool)
        for t in range(T + lag - 1):
            if t < T:
                advice = guard.advise(laws[t], plays=plays[t], **{k: v[t] for k, v in told.items()})
                trusts = ~np.asarray(guard.switched)
                np.testing.assert_allclose(advice.policy[trusts], plays[t][trusts], atol=1e-15)
            if t == T // 2:
                other = lr.Guard(problem, batch_shape=(N,), **again)
                other.load_state_dict(guard.state_dict())
                guard = other
            if (at := t - lag + 1) < 0:
                continue
            guard.observe(Positions(states[at]))
            for n in range(N):
                now = Known(
                    told["references"][at, n] if "references" in told else None,
                    None,
                    told["context"][at, n] if "context" in told else None,
                    told["payoffs"][at, n] / 10 if "payoffs" in told else None,
                    told["scale"][at, n] if "scale" in told else None,
                )
                levels[n, at % lag] = loops[n][at % lag].step(laws[at, n], plays[at, n], int(states[at, n]), now)
                if not tripped[n]:
                    utility = problem.utility if now.utility is None else now.utility
                    worth = (utility @ laws[at, n]) * (1 if now.scale is None else now.scale)
                    gaps[n] += worth.max() - plays[at, n] @ worth
                    assert float(guard.evidence[0][n]) == pytest.approx(math.log(levels[n].mean()), abs=1e-8)
                    if lag == 1:
                        assert guard._at.ledger.gap[n] == pytest.approx(gaps[n], abs=1e-9)
                    tripped[n] = levels[n].mean() >= 1 / each.delta
                    assert bool(guard.switched[n]) == tripped[n]
        switched += tripped.sum()
        assert guard.regret.max() <= (guard.certificate if more["horizon"] else guard.certificate.at(T)).regret_bound
    assert switched > 0


def test_recorded_sequences_are_judged_as_live_ones() -> None:
    rng, T, N = np.random.default_rng(5), 60, 40
    for likelihood in (False, True):
        problem = some_game(rng)
        laws = 0.97 * some_laws(rng, (N, T), problem.n_states) + 0.03 / problem.n_states
        plays, states = some_plays(rng, problem, laws), rng.integers(problem.n_states, size=(N, T))
        rule = lr.ExactTest(problem, T, 0.3, temperature=0, likelihood=likelihood)
        guard = lr.Guard(problem, T, rule=rule, batch_shape=(N,))
        for t in range(T):
            guard.advise(laws[:, t], plays=plays[:, t])
            guard.observe(Positions(states[:, t]))
        found = {event.stream: event.step for event in guard.events if isinstance(event, lr.Switch)}
        times = rule.trip_times(laws, states, Known(plays_A=plays))
        assert times.tolist() == [found.get(n, T + 1) for n in range(N)]
        assert 0 < len(found) < N


@pytest.mark.parametrize("likelihood", [False, True], ids=["alone", "second"])
def test_whatever_is_played_false_alarms_stay_within_delta(likelihood: bool) -> None:
    """All sequences of eight steps (six of three states), laws and plays of their own for every prefix."""
    delta, most = 0.5, 0.0
    for seed in range(16):
        rng = np.random.default_rng([7, seed])
        problem = lr.matching() if seed % 4 == 0 else some_game(rng)
        S = problem.n_states
        T = 8 if S == 2 else 6
        paths = np.array(list(itertools.product(range(S), repeat=T)))
        tables = [rng.dirichlet(np.full(S, 0.6), S**t) for t in range(T)]
        worst = [np.eye(problem.n_actions)[(table @ problem.utility.T).argmin(axis=-1)] for table in tables]
        given = worst if seed % 2 else [some_plays(rng, problem, table) for table in tables]
        laws, plays = by_prefix(tables, paths), by_prefix_rows(given, paths, S)
        rule = lr.ExactTest(problem, T, delta, temperature=0, likelihood=likelihood)
        times = rule.trip_times(laws, paths, Known(plays_A=plays))
        most = max(most, float(chance_of(laws, paths)[times <= T].sum()))
    assert 0.05 < most <= delta


def by_prefix_rows(tables: list[np.ndarray], tokens_NxT: np.ndarray, S: int) -> np.ndarray:
    """Rows ``[N, T, A]`` of their own for every prefix."""
    place, found = np.zeros(len(tokens_NxT), dtype=np.int64), []
    for t, table in enumerate(tables):
        found.append(table[place])
        place = place * S + tokens_NxT[:, t]
    return np.stack(found, axis=1)


def test_half_of_delta_is_kept_while_what_is_played_is_right_however_wrong_the_law() -> None:
    """Bets on actions alone, beside a second bettor: any stated laws, true laws to which the play is a best response.

    Charged psi+ by the stated law in its place, they would alarm more often: so the charge matters.
    """
    T, delta, most, by_law = 8, 0.8, 0.0, 0.0
    for seed in range(16):
        rng = np.random.default_rng([9, seed])
        problem = lr.matching() if seed % 2 else some_game(rng, most_states=2)
        U, S = problem.utility, problem.n_states
        paths = np.array(list(itertools.product(range(S), repeat=T)))
        truths = [rng.dirichlet(np.full(S, 50.0 if seed % 2 else 0.8), S**t) for t in range(T)]
        played = [np.eye(len(U))[(truth @ U.T).argmax(axis=-1)] for truth in truths]
        stated = [rng.dirichlet(np.full(S, 0.15), S**t) * 0.98 + 0.02 / S for t in range(T)]
        if seed % 2:  # sure of what is played, where the truth is nearly even: a bet against it costs nothing by that
            stated = [0.98 * one + 0.01 for one in played]
        truth, laws, plays = by_prefix(truths, paths), by_prefix(stated, paths), by_prefix_rows(played, paths, S)
        chance = chance_of(truth, paths)
        rule = lr.ExactTest(problem, T, delta, temperature=0, likelihood=True)
        for second in (True, False):
            heard = np.array([
                _actions_alone(rule, law, play, path, second)
                for law, play, path in zip(laws, plays, paths, strict=True)
            ])  # fmt: skip
            found = float(chance[heard].sum())
            most, by_law = (max(most, found), by_law) if second else (most, max(by_law, found))
    assert 0 < most <= delta / 2 < by_law


def _actions_alone(rule: lr.ExactTest, laws: np.ndarray, plays: np.ndarray, path: np.ndarray, second: bool) -> bool:
    U, prior, held = rule.problem.utility, rule.prior, np.zeros((rule.problem.n_actions, len(rule.rates_K)))
    for t, (p, d, s) in enumerate(zip(laws, plays, path.tolist(), strict=True), 1):
        x_AxS = U - d @ U
        charge_AxK = np.array([[charge_of(x, p, rate, second) for rate in prior.rates_K.tolist()] for x in x_AxS])
        held = (held + prior.weights_K(t)) * np.exp(prior.rates_K * x_AxS[:, [s]] - charge_AxK)
        if (held.sum() + prior.unspent(t)) * rule.delta >= 1:
            return True
    return False


@pytest.mark.parametrize("likelihood", [False, True], ids=["alone", "second"])
@pytest.mark.parametrize("horizon", [8, None], ids=["known", "unknown"])
def test_no_sequence_breaks_the_certificate(horizon: int | None, likelihood: bool) -> None:
    """All sequences of eight steps, stream by stream: the whole run, and every interval before its alarm."""
    T, closest, alarms = 8, 0.0, 0
    paths = np.array(list(itertools.product(range(2), repeat=T)))
    for seed in range(14):
        rng = np.random.default_rng([11, seed])
        problem = lr.matching() if seed % 2 else some_game(rng, most_states=2)
        tables = [some_laws(rng, (2**t,), 2, zeros=False) for t in range(T)]
        given = [some_plays(rng, problem, table) for table in tables]
        laws, plays = by_prefix(tables, paths), by_prefix_rows(given, paths, 2)
        rule = lr.ExactTest(problem, horizon, 0.6, temperature=0, likelihood=likelihood)
        guard = lr.Guard(problem, horizon, rule=rule, batch_shape=(len(paths),))
        gap_NxT, gain_NxTxA = [], []
        for t in range(T):
            guard.advise(laws[:, t], plays=plays[:, t])
            guard.observe(paths[:, t])
            worth = laws[:, t] @ problem.utility.T
            gap_NxT.append(worth.max(axis=1) - (plays[:, t] * worth).sum(axis=1))
            earned = problem.utility[:, paths[:, t]].T
            gain_NxTxA.append(earned - (plays[:, t] * earned).sum(axis=1, keepdims=True))
        own = rule.own_play if horizon else rule.own_play.at(T)
        bound_N = own.regret_bound + guard._at.ledger.gap / T
        assert (guard.regret <= bound_N + 1e-12).all()
        given_now = guard.certificate if horizon else guard.certificate.at(T)
        in_all = sum(own.terms.values()) + guard._at.ledger.gap.max() / T
        assert given_now.regret_bound == pytest.approx(min(problem.span, in_all))
        # Statement (ii), from every start to every end before the alarm
        gap_NxT, gain_NxTxA = np.stack(gap_NxT, axis=1), np.stack(gain_NxTxA, axis=1)
        trip_N = np.where(guard._at.ledger.rule.tripped_at == 0, T + 1, guard._at.ledger.rule.tripped_at)
        alarms += int((trip_N <= T).sum())
        for j, t in itertools.combinations_with_replacement(range(1, T + 1), 2):
            n, quiet = t - j + 1, trip_N > t
            R, rates = problem.contrast, rule.rates_K
            least = ((n * rates**2 * R**2 / 8 + rule.prior.log_costs_K(rule.delta, j)) / rates).min()
            regret = gain_NxTxA[:, j - 1 : t].sum(axis=1).max(axis=1) - gap_NxT[:, j - 1 : t].sum(axis=1)
            assert (regret[quiet] < least).all()
            closest = max(closest, float((regret[quiet] / least).max(initial=0.0)))
    assert alarms > 0
    assert closest > 0.4


def test_the_two_point_form_with_the_gap_added_would_not_do() -> None:
    """Where what is gained is skewed, a mean above 0 is charged more than kappa of the best response and lam g."""
    problem = lr.DecisionProblem([[0.0, 0.0], [1.0, -0.1]])  # the second action may gain 1, or lose .1
    law, rate = np.array([0.3, 0.7]), 2.0
    gap = float((problem.utility @ law).max())
    charge = charge_of(problem.utility[1], law, rate, False)
    kappa = lr.certificates.best_response.kappa(problem, rate)
    assert charge > kappa + rate * gap
    assert charge <= lr.certificates.own_play.kappa(problem, rate) + rate * gap


def test_the_best_response_by_name_changes_nothing() -> None:
    """Evidence, events and the certificate are those of a guard that is not told what is played."""
    rng, T = np.random.default_rng(2), 80
    problem = lr.newsvendor([0, 10, 20], 5, 3)
    laws, states = rng.dirichlet(np.ones(3), T), rng.integers(3, size=T)
    for likelihood in (False, True):
        one, two = (lr.Guard(problem, T, delta=0.2, temperature=0, likelihood=likelihood) for _ in range(2))
        for t in range(T):
            one.advise(laws[t])
            two.advise(laws[t], plays=problem.actions[int(problem.best_response(laws[t]))])
            for guard in (one, two):
                guard.observe(Positions(states[t]))
            np.testing.assert_allclose(one.evidence[0], two.evidence[0], atol=1e-9)
        assert [str(event) for event in one.events] == [str(event) for event in two.events]
        assert one.certificate == two.certificate


def test_after_an_alarm_it_counts_as_the_model() -> None:
    """Against what would have been played, always right from then on while the mixture is always wrong."""
    coin, T = lr.matching(), 400
    guard = lr.Guard(coin, T, delta=0.05, temperature=0)
    gaps, behind, safe = [], 0.0, 0
    for _ in range(T):
        asked = guard.advise([0.6, 0.4], plays=1)
        state = 0 if not guard.switched else int(asked.policy.argmin())
        plays = state if guard.switched else 1
        advice = guard.advise([0.6, 0.4], plays=plays)  # a second advise replaces the first
        behind += float(plays == state) - float(advice.policy[state])
        safe += bool(guard._at.ledger.rule.fallback.rows.is_safe[0])
        guard.observe(state)
        gaps.append(float(guard._at.ledger.gap))
    first = guard.events[0].step
    assert gaps[first - 1] == pytest.approx(0.2 * first)
    assert gaps[-1] == gaps[first - 1]
    assert safe > 100  # Hedge over the actions and the play has found it
    assert 10 < behind <= T * guard.certificate.against_model < T / 5
    assert "what would have been played" in guard.certificate.statement


def test_certificates_over_episodes_and_with_outcomes_that_never_come() -> None:
    coin = lr.matching()
    guard = lr.Guard(coin, 50, delta=0.05, temperature=0, batch_shape=(2,))
    plain = lr.Guard(coin, 50, delta=0.05, temperature=0).certificate
    for _ in range(20):
        guard.advise(np.tile([0.7, 0.3], (2, 1)), plays=[1, 0])  # the second plays the best response
        guard.observe([0, 0])
    own = guard.rule.own_play
    assert guard._at.ledger.gap.tolist() == pytest.approx([0.4 * guard.events[0].step, 0.0])
    gap = float(guard._at.ledger.gap[0])
    assert guard.certificate.regret_bound == pytest.approx(sum(own.terms.values()) + gap / 50)
    assert guard.certificate.terms["worth less by what was stated"] == pytest.approx(gap / 50)
    guard.restart()
    past = guard._at.ledger.past_bound
    assert past[0] == pytest.approx(min(20.0, 20 * own.at(20).regret_bound + gap))
    assert past[1] == pytest.approx(20 * plain.at(20).regret_bound)
    assert guard._at.ledger.gap.tolist() == [0.0, 0.0]
    guard.advise(np.tile([0.7, 0.3], (2, 1)), plays=["1", "0"])
    guard.observe([None, 0])
    assert guard._at.ledger.gap.tolist() == [0.0, 0.0]
    guard.advise(np.tile([0.7, 0.3], (2, 1)), plays=[[0.5, 0.5], [1, 0]])
    guard.skip()
    assert guard._at.ledger.gap.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("lag", [1, 2])
def test_a_certificate_with_own_play_is_hoeffdings_and_says_so(lag: int) -> None:
    coin, T = lr.matching(), 200
    guard = lr.Guard(coin, T, delta=0.05, temperature=0, likelihood=True, lag=lag)
    before = guard.certificate
    guard.advise([0.8, 0.2], plays=1)
    guard.observe(0)
    after = guard.certificate
    rule = guard.rule.each
    kappa = lr.certificates.own_play.kappa(coin, rule.rates_K)
    assert (kappa >= lr.certificates.best_response.kappa(coin, rule.rates_K)).all()
    assert after.regret_bound > before.regret_bound
    costs = rule.prior.log_costs_K(rule.delta)
    steps = np.array([T])
    bound = lr.certificates.own_play.before(coin, rule.prior, rule.delta, 1, lag, T)(steps)[0]
    assert bound == pytest.approx(min(T, ((T * kappa + lag * costs) / rule.rates_K).min()))
    assert "as plays= said" in after.statement
    assert after.assumptions[0].startswith("every step is acted on as plays= says, else by the best response, until")
    with pytest.raises(ValueError, match="whole episodes only"):
        after.interval(1, 10)
    with pytest.raises(ValueError, match="mixed actions only"):
        after.realised(0.9)


def test_what_is_refused_changes_nothing() -> None:
    coin = lr.matching()
    payoff = lr.Payoff(lambda a, y: a * np.clip(y, -1, 1), [0.0, 1.0], -1, 1, knots=[-1, 1])
    for guard, said in (
        (lr.Guard(payoff, 20, temperature=0), lr.Quantiles([0.1, 0.9], [0.1, 0.8])),
        (lr.Guard(coin, 20, temperature=0.1), [0.5, 0.5]),
        (lr.Guard(coin, 20, rule=lr.rules.RegretGap(coin, 20)), [0.5, 0.5]),
        (lr.Guard(None, 20), [0.5, 0.5]),
    ):
        with pytest.raises(ValueError, match="plays takes the place of the best response"):
            guard.advise(said, plays=0)
        assert guard._at.advised == 0
    guard = lr.Guard(coin, 20, temperature=0)
    for plays in (2, -1, "heads", [0.5, 0.6], [0.5, 0.5, 0.0], [[0.5, 0.5]], math.nan, {"0": 1.0}, True):
        with pytest.raises(ValueError, match="plays"):
            guard.advise([0.5, 0.5], plays=plays)
        assert guard._at.advised == 0
    fleet = lr.Guard(coin, 20, temperature=0, batch_shape=(3,))
    with pytest.raises(ValueError, match="plays must be actions, of shape"):
        fleet.advise(np.full((3, 2), 0.5), plays=1)
    advice = fleet.advise(np.full((3, 2), 0.5), plays=["1", "0", "1"])
    assert advice.policy.tolist() == [[0, 1], [1, 0], [0, 1]]
    assert guard.advise([0.5, 0.5], plays={"1": 0.25, "0": 0.75}).policy.tolist() == [0.75, 0.25]


@pytest.mark.needs("torch")
def test_torch_as_numpy() -> None:
    import torch

    rng, T, N = np.random.default_rng(1), 40, 5
    problem = lr.newsvendor([0, 10, 20], 5, 3)
    laws = rng.dirichlet(np.ones(3), (T, N))
    plays, states = some_plays(rng, problem, laws), rng.integers(3, size=(T, N))
    one, two = (
        lr.Guard(problem, T, delta=0.3, temperature=0, likelihood=True, batch_shape=(N,)) for _ in range(2)
    )  # fmt: skip
    for t in range(T):
        one.advise(laws[t], plays=plays[t])
        advice = two.advise(torch.asarray(laws[t]), plays=torch.asarray(plays[t]))
        one.observe(Positions(states[t]))
        two.observe(Positions(torch.asarray(states[t])))
    assert isinstance(advice.policy, torch.Tensor)
    np.testing.assert_allclose(two.evidence[0].numpy(), one.evidence[0], atol=1e-9)
    np.testing.assert_allclose(two._at.ledger.gap.numpy(), one._at.ledger.gap, atol=1e-9)
    assert one.certificate.regret_bound == pytest.approx(two.certificate.regret_bound)


def test_a_mixture_of_best_responses_is_certified_as_an_action_of_ones_own() -> None:
    """It is worth no less; but bets are charged by its own two ends, and no pair of actions has them."""
    problem = lr.DecisionProblem(np.array([[0, 0, 0], [1, -0.125, 0], [-0.125, 1, 0]]))
    guard = lr.Guard(problem, 500)
    guard.advise([0.375, 0.375, 0.25], plays=1)
    guard.observe(0)
    assert guard.certificate.regret_bound == guard.rule.certificate.regret_bound
    guard.advise([0.375, 0.375, 0.25], plays=[0, 0.5, 0.5])
    guard.observe(0)
    assert guard.certificate.regret_bound == pytest.approx(guard.rule.own_play.regret_bound, abs=1e-9)
    assert guard.certificate.regret_bound > guard.rule.certificate.regret_bound


def test_what_was_lost_in_an_episode_is_kept_in_full_precision_in_torch() -> None:
    torch = pytest.importorskip("torch")
    problem, found = lr.DecisionProblem(np.array([[0.7, 0], [0, 0.3]])), []
    for kind in (np.asarray, torch.as_tensor):
        guard = lr.Guard(problem, 12, batch_shape=(1,))
        for is_missing in (False, True):
            guard.advise(kind(np.array([[0.6, 0.4]])), plays=kind(np.array([1])))
            guard.observe(kind(np.array([0])), missing=[is_missing])
        guard.restart()
        found.append(guard.certificate.regret_bound)
    assert found[0] == pytest.approx(found[1], rel=1e-14)
