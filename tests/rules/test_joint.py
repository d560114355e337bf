"""Named problems at once: a literal loop, all sequences against each certificate, false alarms by enumeration."""

import json
import math
from itertools import product
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret import adversaries
from lowregret.distances import log_probs
from lowregret.rules import JointTest

from ..conftest import random_markov
from ..literal_theorem import answer

COIN = lr.matching()
SHOP = lr.DecisionProblem([[0.0, 0.0, 0.1], [-0.2, 0.5, 0.1], [-0.6, 0.8, -0.3], [0.3, -0.1, 0.0]])
GUESS = lr.matching(3)
DULL = lr.DecisionProblem([[0.2, -0.4, 0.0]])
READERS = {"dull": DULL, "shop": SHOP, "guess": GUESS}
TWO = {"guess": COIN, "protect": lr.cost_loss(cost=1, loss=4), "bet": lr.DecisionProblem([[0.02, -0.01], [0, 0]])}


def best(problem: lr.DecisionProblem, law_S: np.ndarray, eta: float) -> np.ndarray:
    worth_A = problem.utility @ law_S
    return np.eye(len(worth_A))[np.argmax(worth_A)] if eta == 0 else answer(problem.utility, law_S, eta)


def by_hand(rule: JointTest, laws_TxS: np.ndarray, tokens_T: np.ndarray) -> tuple[int, list[float]]:
    """When the alarm sounds and ln E after every step: each bettor by itself, at the rates of its own problem."""
    wealth = {(n, a, k): 0.0 for n, p in rule.problems.items() for a in range(p.n_actions) for k in range(K_of(rule))}
    unspent, trip, found = 1.0, len(tokens_T) + 1, []
    for t, (law_S, state) in enumerate(zip(laws_TxS, tokens_T.tolist(), strict=True), 1):
        for name, problem in rule.problems.items():
            prior = rule.priors[name]
            eta = rule.temperature_in(name)
            eta = problem.anytime_temperature(t) if eta is None else eta
            gain_AxS = problem.utility - best(problem, law_S, eta) @ problem.utility
            for a, k in product(range(problem.n_actions), range(len(prior.rates_K))):
                stake = float(prior.weights_K(t)[k])
                unspent -= stake
                bet_S = np.exp(prior.rates_K[k] * gain_AxS[a])
                wealth[name, a, k] = (wealth[name, a, k] + stake) * bet_S[state] / max(1.0, float(law_S @ bet_S))
        found.append(math.log(sum(wealth.values()) + unspent))
        if trip > len(tokens_T) and found[-1] >= -math.log(rule.delta):
            trip = t
    return trip, found


def K_of(rule: JointTest) -> int:
    return len(next(iter(rule.priors.values())).rates_K)


@pytest.mark.parametrize(
    "rule",
    [
        JointTest(READERS, 12, delta=0.3),
        JointTest(TWO, 40, delta=0.2),
        JointTest(TWO, 12, delta=0.3, temperature=0.0),
        JointTest(READERS, None, delta=0.3),
    ],
    ids=["three states", "two states", "best responses", "unknown horizon"],
)
def test_it_does_what_the_loop_does_recorded_and_step_by_step(rule: JointTest) -> None:
    rng, S, T = np.random.default_rng(3), rule.n_states, 12
    laws = rng.dirichlet(np.full(S, 0.7), (6, T))
    tokens = np.where(rng.random((6, T)) < 0.6, laws.argmin(axis=-1), rng.integers(0, S, (6, T)))
    times = rule.trip_times(laws, tokens)
    memory, trips = rule.start((6,)), [by_hand(rule, *one) for one in zip(laws, tokens, strict=True)]
    for t in range(T):
        memory = rule.update(memory, laws[:, t], tokens[:, t])
        np.testing.assert_allclose(rule.evidence(memory)[0], [levels[t] for _, levels in trips], atol=1e-10)
    assert times.tolist() == [trip for trip, _ in trips]
    assert np.where(rule.tripped(memory), memory.tripped_at, T + 1).tolist() == times.tolist()
    assert len(set(times.tolist())) > 1


@pytest.mark.parametrize("back", [lr.PolyaUrn(3), lr.Recovery()], ids=["urn", "way back"])
def test_one_problem_is_the_exact_test(back: Any) -> None:
    one, two = JointTest({"guess": GUESS}, 60, fallback=back), lr.ExactTest(GUESS, 60, fallback=back)
    rng = np.random.default_rng(0)
    laws = rng.dirichlet(np.ones(3), (20, 60))
    tokens = np.where(np.arange(20)[:, None] < 10, laws.argmin(axis=-1), rng.integers(0, 3, (20, 60)))
    np.testing.assert_array_equal(one.trip_times(laws, tokens), two.trip_times(laws, tokens))
    assert one.certificate.for_problem("guess").regret_bound == two.certificate.regret_bound
    np.testing.assert_array_equal(one.replaced(laws, tokens)[0], two.replaced(laws, tokens)[0])


@pytest.mark.parametrize("temperature", [None, 0.0, 0.4])
@pytest.mark.parametrize(("problems", "T"), [(TWO, 8), (READERS, 5)], ids=["two", "three"])
def test_no_sequence_breaks_a_certificate(problems: Any, T: int, temperature: float | None) -> None:
    """All S^T sequences, laws of their own for every prefix; before the alarm every step of them by itself."""
    rule = JointTest(problems, T, delta=0.5, temperature=temperature)
    S = rule.n_states
    tokens_NxT, closest = np.array(list(product(range(S), repeat=T))), 0.0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        laws_NxTxS = prefix_laws(rng, S, T)
        memory, lead_NxP = rule.start((len(tokens_NxT),)), np.zeros((len(tokens_NxT), rule.n_comparators))
        for t in range(T):
            moment = rule.look(memory, laws_NxTxS[:, t])
            lead_NxP += rule.leads(rule.answer(memory, moment), tokens_NxT[:, t]).T
            memory = rule.update(memory, laws_NxTxS[:, t], tokens_NxT[:, t])
            for name, rows in rule.rows.items():
                given, worst_N = rule.certificate.for_problem(name), lead_NxP[:, rows].max(axis=1)
                quiet = ~rule.tripped(memory)
                if quiet.any():
                    bound = given.interval(1, t + 1)
                    assert worst_N[quiet].max() <= bound + 1e-12
                    closest = max(closest, worst_N[quiet].max() / bound if bound else 0.0)
                assert worst_N.max() <= (t + 1) * given.at(t + 1).regret_bound + 1e-12
        assert rule.tripped(memory).any()
    assert closest > 0.5  # half of the bound would be broken


def prefix_laws(rng: np.random.Generator, S: int, T: int) -> np.ndarray:
    """Laws ``[S^T, T, S]`` that depend on the prefix alone, for all sequences in their order."""
    laws = [rng.dirichlet(np.full(S, 0.5), S**t) for t in range(T)]
    return np.stack([np.repeat(laws[t], S ** (T - t), axis=0) for t in range(T)], axis=1)


@pytest.mark.parametrize("temperature", [None, 0.0])
@pytest.mark.parametrize(("problems", "T"), [(TWO, 9), (READERS, 6)], ids=["two", "three"])
def test_false_alarms_by_enumeration(problems: Any, T: int, temperature: float | None) -> None:
    found = []
    for delta in (0.6, 0.2):
        rule = JointTest(problems, T, delta=delta, temperature=temperature)
        tokens_NxT = np.array(list(product(range(rule.n_states), repeat=T)))
        for seed in range(3):
            laws_NxTxS = prefix_laws(np.random.default_rng(seed), rule.n_states, T)
            chance_N = np.take_along_axis(laws_NxTxS, tokens_NxT[..., None], axis=-1)[..., 0].prod(axis=1)
            assert chance_N.sum() == pytest.approx(1)
            found.append(float(chance_N[rule.trip_times(laws_NxTxS, tokens_NxT) <= T].sum()) / delta)
    assert 0.05 < max(found) <= 1


def test_the_robust_predictor_is_the_urn_after_the_alarm_and_each_reader_is_safe() -> None:
    base, T = random_markov(np.random.default_rng(1), 3, 1), 60
    safe = lr.robustify(base, problems=READERS, horizon=T, fallback=lr.PolyaUrn(3))
    tokens = np.random.default_rng(0).integers(0, 3, (8, T))
    tokens[4:] = 2
    laws, times = safe.predict_sequence(tokens), safe.trip_times(tokens)
    assert (times <= T).any()
    for row, trip in enumerate(times.tolist()):
        np.testing.assert_array_equal(laws[row, :trip], base.predict_sequence(tokens)[row, :trip])
        np.testing.assert_allclose(laws[row, trip:], lr.PolyaUrn(3).predict_sequence(tokens)[row, trip:])
    memory = safe.start((8,))
    for t in range(T):
        np.testing.assert_allclose(safe.predict(memory), laws[:, t], atol=1e-12)
        memory = safe.update(memory, tokens[:, t])
    for name, problem in READERS.items():
        player, given = safe.respond(name), safe.certificate.for_problem(name)
        assert player.problem == problem
        found = adversaries.greedy(player, problem, T).regret
        assert found <= given.regret_bound + 1e-12
        assert given.tv_bound == safe.certificate.tv_bound == 1 / T
    assert np.exp(log_probs(safe, tokens, "safe")).max() <= 1


def test_the_certificate_tells_of_each_problem() -> None:
    rule = JointTest(TWO, 2000)
    given = rule.certificate
    assert given.regret_bound == max(given.for_problem(name).regret_bound for name in TWO)
    assert list(json.loads(given.to_json())["problems"]) == list(TWO)
    assert all(f"{given.for_problem(name).regret_bound:.4f} in {name}" in str(given) for name in TWO)
    for name, problem in TWO.items():
        eta = rule.temperature_in(name)
        back = lr.Recovery(safe=lr.PolyaUrn(2))
        alone = lr.ExactTest(problem, 2000, temperature=eta, fallback=back).certificate
        # What the others cost is a logarithm in what is lost before the alarm.
        assert alone.regret_bound < given.for_problem(name).regret_bound < 1.1 * alone.regret_bound
        assert given.at(900).for_problem(name).regret_bound == given.for_problem(name).at(900).regret_bound
        assert given.sharpen().for_problem(name).regret_bound <= given.for_problem(name).regret_bound
        assert given.interval(3, 50) >= given.for_problem(name).interval(3, 50)
    with pytest.raises(ValueError, match="one of guess, protect, bet, got 'picnic'"):
        given.for_problem("picnic")
    unknown = JointTest(TWO, None, delta=0.1).certificate
    assert unknown.at(10_000).regret_bound < unknown.at(1000).regret_bound < 1.5
    assert "for_problem(name)" in str(unknown)


def test_a_problem_in_other_units_is_bet_on_alike() -> None:
    """Small stakes are tested as sharply as large ones: the alarm comes when either shows it."""
    small = {name: lr.DecisionProblem(problem.utility / 50) for name, problem in TWO.items()}
    large, little = JointTest(TWO, 100), JointTest(small, 100)
    laws = np.tile([0.8, 0.2], (1, 100, 1))
    tokens = np.ones((1, 100), dtype=int)
    assert large.trip_times(laws, tokens) == little.trip_times(laws, tokens) <= 30
    for name, problem in TWO.items():
        assert large.temperature_in(name) == pytest.approx(problem.span / 10)
        bounds = (rule.certificate.for_problem(name) for rule in (large, little))
        relative = [given.regret_bound / given.problem.span for given in bounds]
        assert relative[0] == pytest.approx(relative[1])
        assert relative[0] < 0.5


def test_what_does_not_fit_is_refused_by_name() -> None:
    base = lr.Markov([[0.9, 0.1], [0.5, 0.5]], window=1)
    for more, words in (
        ({"problem": COIN}, "problem does not go with problems"),
        ({"references": [base]}, "references does not go with problems"),
        ({"internal": True}, "internal does not go with problems"),
        ({"rule": lr.ExactTest(COIN, 9)}, "rule does not go with problems"),
        ({"fallback": lr.PolyaUrn(3)}, "fallback must be a Recovery or a PolyaUrn over 2 states"),
        (
            {"fallback": lr.Markov([[0.5, 0.5]] * 2, window=1)},
            "fallback must be a Recovery or a PolyaUrn over 2 states",
        ),
        ({"temperature": 0.0}, "temperature must be above 0 for a robust predictor"),
    ):
        with pytest.raises(ValueError, match=words):
            lr.robustify(base, horizon=9, problems=TWO, **more)
    with pytest.raises(ValueError, match="needs an explicit delta"):
        lr.robustify(base, problems=TWO)
    with pytest.raises(ValueError, match="problems must be a dict of problems by name"):
        JointTest({}, 9)
    with pytest.raises(ValueError, match="problems must be DecisionProblems by name, and guess is"):
        JointTest({"guess": [[1, 0], [0, 1]]}, 9)  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="problems must have the same states: guess has"):
        JointTest({"guess": COIN, "shop": SHOP}, 9)
    named = lr.DecisionProblem(COIN.utility, states=["dry", "wet"])
    with pytest.raises(ValueError, match=r"the same states: protect has .*'calm'.* walk .*'dry'"):
        JointTest({**TWO, "walk": named}, 9)
    safe = lr.robustify(base, horizon=9, problems=TWO)
    with pytest.raises(ValueError, match=r"problem must be one of guess, protect, bet, for which .*, got None"):
        safe.respond()
    with pytest.raises(ValueError, match="for none was named"):
        lr.robustify(base, None, 9).respond("guess")


def test_comparisons_and_adversaries_act_as_its_own_responses_do() -> None:
    """The temperature is in units of the span of each problem: in any other, nothing is promised."""
    safe = lr.robustify(lr.Markov([[0.9, 0.1], [0.5, 0.5]], window=1), problems=TWO, horizon=40)
    tokens = lr.sample(lr.PolyaUrn(2), 40, 3, seed=1)
    for name, problem in TWO.items():
        own = lr.external_regret(problem, safe.respond(name), tokens)[:, -1]
        compared = lr.compare({"safe": safe}, {"these": tokens}, problem, 40)
        np.testing.assert_allclose(compared.regrets("safe", "these"), own, atol=1e-12)
        worst = adversaries.greedy(safe, problem, 40)
        assert worst.regret == pytest.approx(adversaries.greedy(safe.respond(name), problem, 40).regret, abs=1e-12)
    with pytest.raises(ValueError, match="for which this predictor is robust"):
        lr.compare({"safe": safe}, {"these": tokens}, lr.cost_loss(cost=1, loss=3), 40)


def test_an_event_names_the_rate_in_its_own_problem() -> None:
    """The same alarm whichever problem comes first."""
    big, small = lr.DecisionProblem(lr.cost_loss(cost=1, loss=4).utility), lr.DecisionProblem(np.eye(2) * 0.1)
    events = []
    for problems in ({"small": small, "big": big}, {"big": big, "small": small}):
        guard = lr.Guard(problems=problems, horizon=100)
        for _ in range(20):
            guard.advise([0.85, 0.15])
            guard.observe(1)
        events.append(guard.events[0])
    assert events[0].rate == pytest.approx(events[1].rate)
    assert events[0].whom == events[1].whom == "action 1 of big"


def test_what_a_mixture_adds_and_what_draws_add_stand_in_each_certificate() -> None:
    mixed = lr.Mixture([lr.predictors.Scheduled([[0.9, 0.1]]), lr.PolyaUrn(2)])
    given = lr.robustify(mixed, problems=TWO, horizon=100).certificate
    for one in (given, given.for_problem("guess"), given.at(50), given.sharpen()):
        assert "any one of the 2 models is right" in one.statement
    drawn = given.realised(0.97)
    for name in TWO:  # three problems: each fails with a third of the chance
        assert drawn.for_problem(name).regret_bound == given.for_problem(name).realised(0.99).regret_bound
    assert drawn.statement.startswith("All at once with a chance of at least 0.97. ")


def test_episodes_are_spoken_of_together_and_ties_are_none() -> None:
    guard = lr.Guard(problems=TWO, horizon=20, episode=10)
    for _ in range(15):
        guard.advise([0.9, 0.1])
        guard.observe("event")
    assert "for_problem" not in str(guard.certificate)
    with pytest.raises(ValueError, match="not of intervals"):
        guard.certificate.interval(1, 5)
    with pytest.raises(ValueError, match="span of at least 1e-09 in utility, or none, and that of tiny is 1e-12"):
        lr.Guard(problems={"big": COIN, "tiny": lr.DecisionProblem(np.eye(2) * 1e-12)}, horizon=20)
    lr.checks.check_rule(guard.rule, lr.predictors.Scheduled([[0.9, 0.1]]))
