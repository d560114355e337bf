"""What the default promises: best responses, half of the capital on a second bettor, a way back that counts the model.

Certificates against known numbers and literal loops; chances of alarms by all sequences; adversaries that stay just
below the alarm.
"""

import copy
import math
import pickle
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.certificates import WayBack, best_response, every_start, switching
from lowregret.certificates.late import Bettors, SwitchesLate, certify_late
from lowregret.certificates.switching import certify_switch, certify_untested
from lowregret.policies.experts import ExpertHedge

from ..literal_theorem import by_prefix, chance_of, some_game, some_laws
from .literal_default import Default

MATCHING, RPS, SHOP = lr.matching(), lr.rock_paper_scissors(), lr.newsvendor(list(range(10)), 5, 3)


class Fallback:
    """What is played after an alarm, as far as certificates ask."""

    name, acts = "Recovery", True

    def __init__(self, back: WayBack) -> None:
        self.back = back

    def regret_after(self, problem: Any, steps: int, temperature: float | None) -> Any:
        return self.back.after(steps)


class Afresh:
    """AdaHedge over the actions, begun at the alarm."""

    name, acts = "AdaHedge", True

    def __init__(self, problem: lr.DecisionProblem) -> None:
        self.hedge = ExpertHedge(problem.n_actions, problem.span)

    def regret_after(self, problem: Any, steps: int, temperature: float | None) -> Any:
        return self.hedge.total_bound


def certified(
    problem: lr.DecisionProblem,
    prior: every_start.Prior,
    delta: float,
    fallback: Any,
    temperature: float = 0.0,
    **more: Any,
) -> lr.Certificate:
    made = (problem, prior, delta, temperature)
    return certify_switch(
        problem,
        prior.horizon,
        temperature,
        fallback,
        before=partial(switching.before, *made, 1, False),
        interval=partial(switching.interval, *made),
        tv_bound=delta,
        theorem="best responses",
        sharper=partial(switching.before, *made, 1, True),
        **more,
    )


def default_prior(problem: lr.DecisionProblem, horizon: int | None, delta: float) -> every_start.Prior:
    return every_start.joint_prior(problem, horizon, delta, 0.0, share=0.5, opening=0.5)


def default(problem: lr.DecisionProblem, horizon: int | None, delta: float) -> lr.Certificate:
    fallback = Fallback(WayBack(problem.span, problem.n_actions + 1, horizon))
    prior = default_prior(problem, horizon, delta)
    return certified(problem, prior, delta, fallback, counts_model=True, share=0.5)


# Known numbers


@pytest.mark.parametrize(("T", "once", "back"), [
    (24, 0.835, 0.967),
    (128, 0.380, 0.435),
    (1024, 0.144, 0.163),
    (10_000, 0.0501, 0.0561),
])  # fmt: skip
def test_all_capital_on_the_actions(T: int, once: float, back: float) -> None:
    prior = every_start.joint_prior(SHOP, T, 2 / T, 0.0)
    assert certified(SHOP, prior, 2 / T, Afresh(SHOP)).regret_bound == pytest.approx(once, rel=0.01)
    recovery = Fallback(WayBack(SHOP.span, SHOP.n_actions, T))
    assert certified(SHOP, prior, 2 / T, recovery).regret_bound == pytest.approx(back, rel=0.01)


@pytest.mark.parametrize(("T", "wanted", "model"), [(128, 0.3736, 1.70), (1024, 0.1458, 1.60), (10_000, 0.0515, 1.57)])
def test_the_default_with_a_horizon(T: int, wanted: float, model: float) -> None:
    made = default(MATCHING, T, 2 / T)
    assert made.regret_bound == pytest.approx(wanted, rel=0.002)
    assert made.against_model is not None
    assert made.against_model * math.sqrt(T) == pytest.approx(model, rel=0.004)
    assert made.sharpen().regret_bound == pytest.approx(made.regret_bound, rel=1e-9)  # matching: nothing to gain
    assert "behind the model itself" in str(made)
    assert f"at most {1 / T:.3g} while the action advised is a best response" in str(made)
    assert made.to_dict()["against_model"] == made.against_model
    assert pickle.loads(pickle.dumps(made)).against_model == made.against_model


def test_the_default_without_a_horizon() -> None:
    made = default(MATCHING, None, 0.05)
    assert made.at(1024).regret_bound == pytest.approx(0.1467, rel=0.001)
    assert made.at(10_000).regret_bound == pytest.approx(0.0502, rel=0.001)
    with pytest.raises(ValueError, match="at\\(step\\)"):
        _ = made.against_model
    with pytest.raises(ValueError, match="at\\(step\\)"):
        made.realised(0.9)


def test_actions_as_they_are_drawn() -> None:
    """A best response draws nothing before the alarm; a quantal response at every step."""
    T, delta, warmth, safe = 1024, 2 / 1024, 1 / 32, Afresh(SHOP)
    made = certified(SHOP, every_start.joint_prior(SHOP, T, delta, 0.0), delta, safe)
    drawn = made.realised(1 - delta)
    assert drawn.regret_bound == pytest.approx(0.190, rel=0.01)
    assert drawn.at(T).regret_bound == drawn.regret_bound
    warm = certified(SHOP, every_start.joint_prior(SHOP, T, delta, warmth), delta, safe, warmth)
    assert warm.realised(1 - delta).regret_bound == pytest.approx(0.205, rel=0.01)
    luck = SHOP.span * math.sqrt(math.log(100) / (2 * T))
    assert warm.realised(0.99).regret_bound == pytest.approx(warm.regret_bound + luck)
    assert made.sharpen().realised(0.99).regret_bound <= made.realised(0.99).regret_bound < made.regret_bound + luck
    with pytest.raises(ValueError, match="confidence"):
        made.realised(1.0)
    with pytest.raises(ValueError, match="speaks of mixed actions only"):
        drawn.realised(0.9)


# By literal loops


@pytest.mark.parametrize(("horizon", "steps"), [(60, 60), (None, 60), (300, 300), (None, 300)])
def test_the_default_is_its_formula(horizon: int | None, steps: int) -> None:
    """max{ B(T), max_tau B(tau - 1) + J + max_e ... }, each as it is written."""
    for problem, delta in ((MATCHING, 0.3), (RPS, 0.05), (lr.cost_loss(1, 4), 0.9)):
        J, K, c = problem.span, problem.n_actions + 1, 0.5
        prior = default_prior(problem, horizon, delta)

        def F(n: int, J: float = J, K: int = K) -> float:
            return min(n * J, J * (1 + math.sqrt(1 + n * math.log(K)))) if n > 0 else 0.0

        def B(t: int, problem: Any = problem, prior: Any = prior, delta: float = delta, J: float = J) -> float:
            kappa_K = best_response.kappa(problem, prior.rates_K)
            return min(t * J, *((t * kappa_K - np.log(prior.weights_K(1) * delta)) / prior.rates_K))

        most, model = B(steps), 0.0
        for tau in range(1, steps + 1):
            n = steps - tau
            if horizon is None:
                entries = range(tau, steps + 1)
                after = max(min((e - tau) * J, c * J * math.sqrt(e - 1) + J) + F(steps - e) for e in entries)
            else:
                after = c * J * math.sqrt(horizon) + J + F(n - math.ceil(c * math.sqrt(horizon)))
            after = min(n * J, after)
            most, model = max(most, B(tau - 1) + J + after), max(model, after)
        found = default(problem, horizon, delta).at(steps)
        assert sum(found.terms.values()) * steps == pytest.approx(most, rel=1e-12)
        assert found.against_model is not None
        assert found.against_model * steps == pytest.approx(model, rel=1e-12)


@pytest.mark.parametrize("horizon", [40, None])
def test_all_capital_is_spent_or_unspent(horizon: int | None) -> None:
    for share, opening in ((1.0, 0.0), (0.5, 0.5), (0.7, 0.3)):
        prior = every_start.joint_prior(RPS, horizon, 0.05, 0.0, share=share, opening=opening)
        joined, second = 0.0, 0.0
        for t in range(1, 41):
            joined, second = joined + 3 * prior.weights_K(t).sum(), second + prior.second_weight(t)
            assert joined + prior.unspent(t) == pytest.approx(share, abs=1e-14)
            assert second + prior.second_unspent(t) == pytest.approx(1 - share, abs=1e-14)
        assert prior.unspent(0) == share
        assert prior.second_unspent(0) == 1 - share
    assert default_prior(RPS, None, 0.05).weights_K(1).sum() * 3 == pytest.approx(0.5 * 0.75 * 40 / 41)
    assert default_prior(RPS, 40, 0.05).weights_K(1)[0] * 3 > 0.5 * 0.75


def test_the_way_back_with_contexts_is_that_of_the_recovery() -> None:
    made = lr.ExactTest(SHOP, 500, contexts=4).in_play.fallback
    n = np.array([0, 1, 7, 60, 250, 499])
    ours = WayBack(SHOP.span, SHOP.n_actions, 500, contexts=4).after(500)(n)
    np.testing.assert_allclose(ours, made.regret_after(SHOP, 500, None)(n), rtol=1e-14)
    assert WayBack(1.0, 1, 100).after(100)(np.array([50]))[0] == 6  # nobody to choose from: the budget and a step


def test_late_outcomes_count_the_model_and_the_draws() -> None:
    T, lag, delta = 600, 3, 0.05
    rounds = T // lag
    prior = default_prior(MATCHING, rounds, delta)
    fallback = Fallback(WayBack(1.0, 3, rounds))
    bettors = Bettors(MATCHING, prior, delta, 0.0)
    made = SwitchesLate(MATCHING, 0.0, fallback, lag, partial(bettors.before, lag, False))
    found = certify_late(made, T, delta, "late", counts_model=True)
    after = WayBack(1.0, 3, rounds).after(rounds)
    assert found.against_model is not None
    earliest = sum(after(np.array([rounds - (r == 0)]))[0] for r in range(lag))
    assert found.against_model * T >= earliest * (1 - 1e-12)
    assert found.against_model * T <= lag * after(np.array([rounds]))[0] * 1.01
    drawn = found.realised(0.99).regret_bound
    most = math.sqrt(T * math.log(100) / 2) / T
    assert found.regret_bound < drawn < found.regret_bound + most
    warm = certify_late(made._replace(temperature=0.1), T, delta, "late")
    assert warm.realised(0.99).regret_bound == pytest.approx(warm.regret_bound + most)


def test_what_is_assumed_names_who_acts_after_the_alarm_and_no_law_that_is_answered() -> None:
    coin = lr.matching()
    for fallback, then in ((lr.policies.AdaHedge(coin), True), (lr.PolyaUrn(2), False)):
        acted = lr.ExactTest(coin, 50, temperature=0.1, fallback=fallback).certificate.assumptions[0]
        assert ("as AdaHedge says from then on" in acted) == then
        assert acted.startswith("every step is acted on by the quantal response at temperature 0.1")


def test_without_a_horizon_a_way_back_over_an_urn_has_a_bound_and_over_others_none() -> None:
    """Quantal responses on a schedule: the bound of an urn begun late is known up to a prior of 2."""
    for safe, known in ((None, True), (lr.PolyaUrn(2), True), (lr.PolyaUrn(2, 3.0), False)):
        rule = lr.ExactTest(lr.matching(), None, 0.05, fallback=lr.Recovery(safe=safe))
        assert rule.certificate.at(100_000).regret_bound == pytest.approx(0.0157 if known else 1.0, rel=0.01)


# By all sequences, and by adversaries


@pytest.mark.parametrize("seed", range(4))
def test_alarms_are_as_rare_as_they_say_by_all_sequences(seed: int) -> None:
    """All alarms within delta if the model is right; bets on actions alone within half of it if the advice is."""
    rng = np.random.default_rng(seed)
    for _ in range(3):
        problem = some_game(rng, 3, 2)
        T, delta = 7, float(rng.choice([0.3, 0.6, 0.9]))
        prior = default_prior(problem, T if seed % 2 else None, delta)
        states = np.array(list(product(range(2), repeat=T)))
        truth = [some_laws(rng, (2**t,), 2, zeros=False) for t in range(T)]
        # Stated with the same best response: nearer to certainty, or to where the advice would change.
        stated = [moved(problem, table, rng) for table in truth]
        for says, right in ((truth, True), (stated, False)):
            laws, chance = by_prefix(says, states), chance_of(by_prefix(truth, states), states)
            alarm = alone = 0.0
            for n, sequence in enumerate(states):
                run = Default(problem, prior, delta)
                for p, state in zip(laws[n], sequence, strict=True):
                    run.step(p, int(state))
                alarm, alone = alarm + chance[n] * (run.trip > 0), alone + chance[n] * run.alone
            assert alone <= delta / 2 + 1e-12
            assert alarm <= delta + 1e-12 or not right


def moved(problem: lr.DecisionProblem, laws: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    found = []
    for law in laws:
        b, others = int(problem.best_response(law)), rng.dirichlet([0.5, 0.5], 40) * 0.998 + 0.001
        same = [other for other in others if int(problem.best_response(other)) == b]
        found.append(same[0] if same else law)
    return np.array(found)


@pytest.mark.parametrize("patience", [0.0, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("horizon", [256, None])
def test_an_adversary_that_stays_below_the_alarm_keeps_to_the_certificate(horizon: int | None, patience: float) -> None:
    """The model says even chances throughout; what comes hurts, but sounds no alarm before its time, and then hurts on.

    Regret to the actions, and to the model, stay below what is promised after every number of steps (of the horizon,
    where it is known), and come near.
    """
    T, delta = 256, 0.05
    made = default(MATCHING, horizon, delta)
    run = Default(MATCHING, default_prior(MATCHING, horizon, delta), delta)
    p, target = np.array([0.5, 0.5]), 1
    for t in range(1, T + 1):
        if not run.trip and t <= patience * T:
            state = target if not run.alarms_on(p, target) else 1 - target
        else:
            plays = run.plays(p)
            state = target if not run.trip else int(np.argmax([1 - plays[0], 1 - plays[1]]))
        run.step(p, state)
        if horizon is None or t == T:
            promised = made.at(t)
            assert run.lead_C[:-1].max() <= promised.regret_bound * t + 1e-9
            assert promised.against_model is not None
            assert run.lead_C[-1] <= promised.against_model * t + 1e-9
        if not run.trip:
            assert run.lead_C[-1] == 0
    near = {0.0: 0.25, 0.5: 0.65, 0.8: 0.8, 1.0: 0.75}[patience]
    assert run.lead_C[:-1].max() >= near * made.at(T).regret_bound * T
    if patience == 0:
        assert run.lead_C[-1] >= 0.2 * made.at(T).against_model * T  # type: ignore[operator]


def test_greedy_adversaries_of_other_games_keep_to_the_certificate() -> None:
    """Every state is tried, the one taken that hurts most: for random bases, to the actions or to the model."""
    rng, tripped = np.random.default_rng(7), 0
    for i in range(6):
        problem = some_game(rng, 4, 3) if i else RPS
        T, delta = 80, 0.5
        made = default(problem, T, delta)
        run = Default(problem, default_prior(problem, T, delta), delta)
        for _ in range(T):
            p = some_laws(rng, (), problem.n_states, zeros=False)
            hurts = []
            for state in range(problem.n_states):
                other = copy.deepcopy(run)
                other.step(p, state)
                hurts.append(other.lead_C[-1] if i % 2 else other.lead_C[:-1].max())
            run.step(p, int(np.argmax(hurts)))
        tripped += run.trip > 0
        assert run.lead_C[:-1].max() <= made.regret_bound * T + 1e-9
        assert run.lead_C[-1] <= made.against_model * T + 1e-9  # type: ignore[operator]
    assert tripped >= 4


@pytest.mark.parametrize("horizon", [200, None])
def test_the_mixture_from_the_first_step_keeps_to_its_own_certificate(horizon: int | None) -> None:
    """No test: budget, a step, and safe play, to the actions and to the model; states that hurt one or the other."""
    T = 200
    made = certify_untested(MATCHING, horizon, 0.0, Fallback(WayBack(1.0, 3, horizon)), counts_model=True)
    promised, e, used = made.at(T), np.arange(1, T + 1), [0.0, 0.0]
    F = np.minimum(T - e, 1 + np.sqrt(1 + (T - e) * math.log(3)))
    spent = np.minimum(e, 0.5 * np.sqrt(T if horizon else e - 1) + 1)
    entry = math.ceil(0.5 * math.sqrt(T))
    wanted = 0.5 * math.sqrt(T) + 1 + F[entry - 1] if horizon else (spent + F).max()
    assert promised.regret_bound * T == pytest.approx(wanted)
    assert promised.tv_bound == 1
    for seed, row in product(range(4), (0, 1)):
        rng, run = np.random.default_rng(seed), Default(MATCHING, default_prior(MATCHING, horizon, 0.5), 0.5)
        run.trip = 1  # an alarm before anything came
        for _ in range(T):
            p = some_laws(rng, (), 2, zeros=False)
            plays, model = run.plays(p), int(np.argmax(p))
            # The state in which the model, or the action that leads, is right and what is played is not.
            target = model if row else int(np.argmax(run.lead_C[:2] + rng.normal(size=2)))
            run.step(p, target if plays[target] < 0.9 else 1 - target)
        for i, lost in enumerate((run.lead_C[:-1].max(), run.lead_C[-1])):
            assert lost <= promised.regret_bound * T + 1e-9
            used[i] = max(used[i], lost / (promised.regret_bound * T))
    assert promised.against_model == promised.regret_bound
    assert min(used) > 0.3
    assert promised.realised(0.99).regret_bound == pytest.approx(
        promised.regret_bound + math.sqrt(math.log(100) / (2 * T))
    )
    assert "without a test" in str(promised)
