"""No sequence loses more than a certificate says, and false alarms stay within its TV bound: by search.

All short sequences beside forecasts for every past, and long ones from adversaries: greedy ones, beams, and one that
has the model dropped, lets it win back its trust, and then hurts.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lowregret as lr
from lowregret.engine import Engine, Setting
from lowregret.evaluate.adversaries import all_sequences, beam, greedy
from lowregret.robust import algorithm_1

from ..conftest import random_markov, random_problem
from ..literal_theorem import by_prefix, chance_of, played, some_forecasts, some_game

PENNIES, RPS = lr.DecisionProblem([[1, -1], [-1, 1]]), lr.rock_paper_scissors()
LOPSIDED = lr.DecisionProblem([[0.9, -0.6], [-0.2, 0.3]])
STICKY = lr.Markov([[0.9, 0.1], [0.1, 0.9]], 1)


def urn(problem: lr.DecisionProblem) -> lr.PolyaUrn:
    return lr.PolyaUrn(problem.n_states)


# For T steps of a problem, at so large a delta that there are alarms; with a known horizon at the smallest exponents.
MADE: dict[str, Callable[[lr.DecisionProblem, int, float], Setting]] = {
    "gap": lambda p, T, delta: algorithm_1(p, lr.RegretGap(T, 1e-3)),
    "gap, span aware": lambda p, T, delta: algorithm_1(p, lr.RegretGap(T, 1e-3, span_aware=True)),
    "gap, sharp": lambda p, T, delta: algorithm_1(p, lr.RegretGap(T, 0.05, sharp=True)),
    "gap, unknown horizon": lambda p, T, delta: algorithm_1(p, lr.RegretGap(None, span_aware=True, delta=delta)),
    "v-regret": lambda p, T, delta: algorithm_1(None, lr.VRegret(T, delta)),
    "v-regret, threshold": lambda p, T, delta: algorithm_1(None, lr.VRegret(T, delta, test="threshold")),
    "exact, urn": lambda p, T, delta: algorithm_1(p, lr.ExactTest(delta, T), urn(p)),
    "exact, shrunk urn": lambda p, T, delta: algorithm_1(p, lr.ExactTest(delta, T), lr.ShrunkUrn(p, T)),
    "exact, recovery": lambda p, T, delta: algorithm_1(
        p, lr.ExactTest(delta, T), lr.Recovery(memories=(3, 9), budget=0.3)
    ),
    "exact, recovery and urn": lambda p, T, delta: algorithm_1(
        p, lr.ExactTest(delta, T), lr.Recovery(budget=0.2, safe=urn(p))
    ),
    "exact, unknown horizon, urn": lambda p, T, delta: algorithm_1(p, lr.ExactTest(delta), urn(p)),
    "exact, unknown horizon, recovery": lambda p, T, delta: algorithm_1(
        p, lr.ExactTest(delta), lr.Recovery(budget=0.2)
    ),
}


def promised(setting: Setting, steps: int) -> float:
    """What may be lost in so many steps, in total: the sum of the terms, which may exceed the span."""
    return steps * sum(setting.certificate.at(steps).terms.values())


@pytest.mark.parametrize("name", MADE)
def test_no_short_sequence_loses_more(name: str) -> None:
    """All of them, beside forecasts drawn for every past; at every step, and the sharpened bound at the end."""
    rng, used = np.random.default_rng(7), []
    games = [PENNIES] if "v-regret" in name else [PENNIES, LOPSIDED, RPS]
    games += [] if "shrunk" in name or "v-regret" in name else [some_game(rng, 3, 2)]
    for problem in games:
        S, T = problem.n_states, 9 if problem.n_states == 2 else 5
        setting, tokens = MADE[name](problem, T, 0.95), all_sequences(problem.n_states, T)
        bound_T = np.array([promised(setting, t) for t in range(1, T + 1)])
        sharp = setting.certificate.sharpen().at(T)
        for _ in range(2):
            probs = by_prefix([some_forecasts(rng, (S**t,), S) for t in range(T)], tokens)
            regret_NxT, _ = played(Engine(setting), probs, tokens)
            assert (regret_NxT <= bound_T + 1e-9).all()
            assert regret_NxT[:, -1].max() <= T * sum(sharp.terms.values()) + 1e-9
            assert regret_NxT[:, -1].max() <= T * sharp.regret_bound + 1e-9
            used.append((regret_NxT / bound_T).max())
    assert max(used) > (0.4 if "exact" in name else 0.15)


@pytest.mark.parametrize("name", MADE)
def test_no_model_has_more_false_alarms(name: str) -> None:
    """Forecasts for every past, climbed to as many alarms as can be: their exact chance if the model is right."""
    rng, T = np.random.default_rng(0), 7
    setting, tokens = MADE[name](PENNIES, T, 0.6), all_sequences(2, T)
    engine, most = Engine(setting), setting.certificate.tv_bound
    in_time = T if setting.test.horizon is None else T - 1  # to change a prediction

    def alarms(tables: list[np.ndarray]) -> float:
        probs = by_prefix(tables, tokens)
        return float(chance_of(probs, tokens)[engine.alarm_times(probs, tokens) <= in_time].sum())

    grid = np.linspace(0.02, 0.98, 17)
    tables = max(([np.tile([1 - p, p], (2**t, 1)) for t in range(T)] for p in grid), key=alarms)
    best = alarms(tables)
    for _ in range(60):
        t = int(rng.integers(T))
        trial = [table.copy() for table in tables]
        nodes = rng.random(2**t) < (1.0 if rng.random() < 0.3 else 0.3)
        step = rng.normal(0, rng.choice([0.02, 0.1, 0.3]), 2**t) * nodes
        one = np.clip(trial[t][:, 1] + step, 1e-4, 1 - 1e-4)
        trial[t] = np.stack([1 - one, one], axis=1)
        if (found := alarms(trial)) >= best:
            best, tables = found, trial
    assert best <= most * (1 + 1e-12)
    assert best > 0.25 * most or "exact" not in name  # a search that finds no alarms would show nothing


@pytest.mark.parametrize("seed", range(4))
def test_regret_gap_keeps_its_bound(seed: int) -> None:
    """Random games with up to 5 actions and 5 states; alarms that change a prediction."""
    rng, T, N = np.random.default_rng(seed), 200, 4000
    problem = random_problem(rng)
    base = random_markov(rng, problem.n_states)
    tokens = lr.sample(base, T, N, seed=seed)
    probs = base.predict_sequence(tokens)
    for test in (lr.RegretGap(T, 0.2, span_aware=True), lr.RegretGap(None, span_aware=True, delta=0.1)):
        setting = algorithm_1(problem, test)
        count = int((Engine(setting).alarm_times(probs, tokens) < T).sum())
        # Were the true rate the bound or less, a count this high would have a chance below 1e-5.
        assert stats.binom.sf(count - 1, N, setting.certificate.tv_bound) > 1e-5


# Long sequences

BASES = {"sticky": STICKY, "leaning": lr.predictors.Scheduled([[0.95, 0.05]])}


def win_back_then_hurt(player: Any, base: Any, problem: lr.DecisionProblem, T: int, back: int) -> np.ndarray:
    """What hurts until the alarm; then ``back`` steps in which the model is right; then what hurts again."""
    memory, told, tokens, since = player.start(), base.start(), [], 0
    switched = player.switched if hasattr(player, "switched") else player.predictor.switched
    for _ in range(T):
        since += bool(switched(memory))
        is_right = 0 < since <= back
        worst = int(np.argmin(player.policy(memory) @ problem.utility))
        tokens.append(int(np.argmax(base.predict(told))) if is_right else worst)
        memory, told = player.update(memory, tokens[-1]), base.update(told, tokens[-1])
    return np.array(tokens)


@pytest.mark.parametrize("name", MADE)
def test_no_adversary_gets_more(name: str) -> None:
    """In 64 steps of a game with a span of 2, which the paper's thresholds need to say anything."""
    T, used, alarms = 64, [], 0
    setting, is_general = MADE[name](PENNIES, T, 0.5), "v-regret" in name
    bound_T = {t: promised(setting, t) for t in (16, 32, T)}
    for base in BASES.values():
        safe = lr.robust.Robust(base, setting, None if is_general else PENNIES)
        player = safe.respond(PENNIES, setting.temperature) if is_general else safe.respond()
        tries = [greedy(player, PENNIES, T).tokens, beam(player, PENNIES, T, width=6).tokens]
        tries += [win_back_then_hurt(player, base, PENNIES, T, back) for back in (0, 6, 24)]
        regret_NxT = lr.external_regret(PENNIES, player, np.stack(tries))
        alarms += int((safe.alarm_times(np.stack(tries)) < T).sum())
        for t, bound in bound_T.items():
            assert regret_NxT[:, t - 1].max() * t <= bound + 1e-9
        used.append(regret_NxT[:, -1].max() * T / bound_T[T])
    assert alarms > 1
    assert max(used) > 0.1


def test_the_way_back_is_certified() -> None:
    """The number of the notes, at T = 1024."""
    assert algorithm_1(lr.matching(), lr.ExactTest(2 / 1024, 1024)).certificate.regret_bound <= 0.095


@pytest.mark.parametrize(("test", "bounded"), [(lr.RegretGap(4), 1.0), (lr.ExactTest(0.1, 4), 0.1)])
def test_past_its_horizon_a_union_over_steps_bounds_no_false_alarm(test: Any, bounded: float) -> None:
    guard = lr.Guard(PENNIES, test=test, response=lr.QuantalResponse())
    for _ in range(5):
        guard.advise([0.5, 0.5])
        guard.observe(0)
    assert guard.certificate.tv_bound == bounded
    assert ("not bounded beyond" in guard.certificate.statement) == (bounded == 1)


@pytest.mark.parametrize("wrong", [{"tv_bound": 2.0}, {"horizon": 7}, {"problem": RPS}])
def test_a_certificate_for_something_else_is_refused(wrong: dict[str, Any]) -> None:
    class Own:
        horizon, delta = 9, 0.5
        watch, usual_fallback = lr.RegretGap(9).watch, lr.RegretGap(9).usual_fallback

        def certify(self, setting: Setting, steps: int | None) -> lr.Certificate:
            about = {"regret_bound": 1.0, "tv_bound": 0.5, "problem": PENNIES, "horizon": steps}
            return lr.Certificate(**{**about, **wrong}, statement="", theorem="")

    with pytest.raises(ValueError, match="certify of Own must return"):
        _ = lr.robustify(STICKY, PENNIES, test=Own()).certificate
