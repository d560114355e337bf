"""Adversaries: the notes' worst cases, brute force as oracle, and no sequence that breaks a certificate."""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import lowregret as lr
from lowregret.certificates.by_counts import worst_case as worst_case_by_counts
from lowregret.evaluate import adversaries
from lowregret.evaluate.adversaries import beam, exact_worst_case, greedy

from ..conftest import extra, random_markov, random_problem, sweep, with_urn
from .test_distances import TorchBer, ber

torch = extra("torch")

COIN, RPS = lr.matching(), lr.rock_paper_scissors()
THIRD = lr.predictors.Scheduled([[2 / 3, 1 / 3]])  # says 1 with probability 1/3


def brute_force(problem: lr.DecisionProblem, policy: Any, horizon: int) -> float:
    """The largest regret over all sequences, tried one and all."""
    tokens = np.array(list(itertools.product(range(problem.n_states), repeat=horizon)))
    return float(lr.external_regret(problem, policy, tokens)[:, -1].max())


def replayed(problem: lr.DecisionProblem, policy: Any, found: adversaries.Worst) -> float:
    return float(lr.external_regret(problem, policy, found.tokens)[-1])


def opaque(predictor: lr.Predictor) -> lr.FromFunction:
    """The same predictor, with nothing known of its inside."""

    def law(history: np.ndarray) -> np.ndarray:
        padded = np.append(history, 0)[None]
        return predictor.predict_sequence(padded)[0, -1]

    return lr.FromFunction(law, predictor.n_states)


# The exact worst case


@pytest.mark.parametrize(
    ("horizon", "urn", "hedge", "tuned"),
    [
        (64, 0.934, 0.768, 0.550),
        (1024, 1.231, 0.800, 0.574),
        pytest.param(8192, 1.405, 0.810, 0.582, marks=pytest.mark.long),
    ],
)
def test_the_worst_cases_of_the_urn_and_of_hedge(horizon: int, urn: float, hedge: float, tuned: float) -> None:
    """Times sqrt(T), to the printed digits; and the sequence returned has that regret."""
    root = math.sqrt(horizon)
    for player, policy, expected in (
        (lr.PolyaUrn(2), lr.policies.Respond(lr.PolyaUrn(2), COIN, 1 / root), urn),
        (lr.policies.Hedge(COIN, horizon), lr.policies.Hedge(COIN, horizon), hedge),
        (rated := lr.policies.Hedge(COIN, horizon, rate=math.sqrt(8 * math.log(2)) / root), rated, tuned),
    ):
        worst = exact_worst_case(player, COIN, horizon)
        assert (worst.found_by, worst.exact, worst.upper) == ("counts", True, worst.regret)
        assert worst.regret * root == pytest.approx(expected, abs=5.001e-4)
        assert replayed(COIN, policy, worst) == pytest.approx(worst.regret, abs=1e-12)


@pytest.mark.parametrize("seed", sweep(range(24), usual=8))
def test_brute_force_equals_the_exact_adversary(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, 4, 3)
    S = problem.n_states
    horizon = int(rng.integers(1, 13 if S == 2 else 8))
    warmth = float(rng.choice([0.02, 0.3, horizon**-0.5]))
    urn, markov = lr.PolyaUrn(S, float(rng.choice([0.5, 1.0, 4.0]))), random_markov(rng, S)
    schedule = lr.predictors.Scheduled(rng.dirichlet(np.ones(S), horizon))
    setting = with_urn(problem, horizon, 0.9, temperature=warmth)
    rate = lr.robust.algorithm_1(problem, lr.RegretRate(horizon, 0.1), response=lr.QuantalResponse(warmth))
    for player, found_by in (
        (urn, "counts"),
        (schedule, "counts"),
        (lr.policies.Hedge(problem, horizon, rate=float(rng.choice([0.1, 3.0]))), "counts"),
        (lr.policies.Respond(urn, problem, None), "counts"),
        (markov, "keys"),
        (opaque(urn), "exhaustive"),
        (lr.robust.Robust(markov, setting, problem), None),
        (lr.robust.Robust(schedule, rate, problem), None),
    ):
        acts = hasattr(player, "policy")
        policy = player if acts else lr.policies.Respond(player, problem, warmth)
        worst = exact_worst_case(player, problem, horizon, None if acts else warmth)
        assert worst.exact
        assert found_by in (None, worst.found_by)
        assert worst.regret == worst.upper == pytest.approx(brute_force(problem, policy, horizon), abs=1e-12)
        assert replayed(problem, policy, worst) == pytest.approx(worst.regret, abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_brute_force_equals_the_exact_adversary_of_best_responses(seed: int) -> None:
    """Under uniform utilities no two actions tie, so rounding decides nothing."""
    rng = np.random.default_rng(seed)
    problem = lr.DecisionProblem(rng.uniform(-1, 1, (3, 2)))
    for player in (lr.PolyaUrn(2), random_markov(rng, 2), lr.predictors.Scheduled(rng.dirichlet(np.ones(2), 9))):
        tokens = np.array(list(itertools.product(range(2), repeat=9)))
        actions = problem.best_response(player.predict_sequence(tokens))
        worst = exact_worst_case(player, problem, 9, respond="best")
        assert worst.regret == pytest.approx(lr.external_regret(problem, actions, tokens)[:, -1].max(), abs=1e-12)


def test_sequences_are_tried_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, player = lr.DecisionProblem([[0.7, -0.3, 0.1], [-0.2, 0.5, 0.0]]), opaque(lr.PolyaUrn(3))
    whole = exact_worst_case(player, problem, 6)
    monkeypatch.setattr(adversaries.exact, "_BLOCK", 100)
    parts = exact_worst_case(player, problem, 6)
    assert parts.found_by == "exhaustive"
    assert (parts.tokens.tolist(), parts.regret) == (whole.tokens.tolist(), whole.regret)
    assert whole.tokens[0] > 0  # far behind the first block


class TurnMemory(NamedTuple):
    last: np.ndarray  # [...], the last token
    even: np.ndarray  # [...], whether it has been seen an even number of times in a row


class Turns(lr.Predictor):
    """A predictor of one's own that joins by its key: after an even run it expects a turn."""

    n_states = 2

    def start(self, batch_shape: tuple[int, ...] = (), like: Any = None) -> TurnMemory:
        return TurnMemory(np.zeros(batch_shape, dtype=np.int64), np.ones(batch_shape, dtype=bool))

    def predict(self, memory: TurnMemory) -> np.ndarray:
        return np.array([0.2, 0.8])[np.stack([memory.last ^ memory.even, 1 - (memory.last ^ memory.even)], axis=-1)]

    def update(self, memory: TurnMemory, token: Any) -> TurnMemory:
        return TurnMemory(token + 0, np.where(token == memory.last, ~memory.even, False))

    def key(self, memory: TurnMemory) -> np.ndarray:
        return np.stack([memory.last, memory.even], axis=-1)


def test_a_predictor_of_ones_own_joins_by_its_key() -> None:
    turns = Turns()
    worst = exact_worst_case(turns, COIN, 11)
    assert worst.found_by == "keys"
    assert worst.regret == pytest.approx(brute_force(COIN, lr.policies.Respond(turns, COIN, 11**-0.5), 11), abs=1e-12)
    assert exact_worst_case(turns, COIN, 100).exact


class Mistaken(lr.PolyaUrn):
    """An urn that says it is another."""

    def law_of_counts(self, counts: np.ndarray) -> np.ndarray:
        return (counts + 2 * self.prior) / (counts.sum(axis=-1, keepdims=True) + 2 * self.n_states * self.prior)


def test_a_law_of_counts_that_is_not_the_players_is_refused() -> None:
    with pytest.raises(ValueError, match="law_of_counts"):
        exact_worst_case(Mistaken(2), COIN, 16)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_laws_of_counts_are_the_players(kind: str) -> None:
    like = np.zeros(0) if kind == "numpy" else torch.zeros(0)
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 3, (5, 30))
    counts = np.cumsum(tokens[..., None] == np.arange(3), axis=-2) - (tokens[..., None] == np.arange(3))
    as_given = counts if kind == "numpy" else torch.asarray(counts)
    for predictor in (lr.PolyaUrn(3, 0.7), lr.predictors.Scheduled(rng.dirichlet(np.ones(3), 20))):
        law = predictor.law_of_counts(as_given)
        assert type(law) is type(like)
        np.testing.assert_allclose(np.asarray(law), predictor.predict_sequence(tokens), atol=1e-15)
    hedge = lr.policies.Hedge(RPS, 30)
    np.testing.assert_allclose(np.asarray(hedge.policy_of_counts(as_given)), hedge.policy_sequence(tokens), atol=1e-14)


def test_worst_case_by_counts_is_for_counts_only() -> None:
    assert worst_case_by_counts(lr.Markov(np.eye(2) * 0.8 + 0.1, 1), COIN, 10, 0.1) is None
    assert worst_case_by_counts(lr.PolyaUrn(9), lr.matching(9), 1000, 0.1) is None
    hedge = lr.policies.Hedge(COIN, 64)
    truth = exact_worst_case(hedge, COIN, 64).regret  # whatever the temperature: it has no use for one
    assert worst_case_by_counts(hedge, COIN, 64, 0.1) == pytest.approx(truth, abs=1e-12)


# Beams


def test_a_beam_that_lets_nothing_go_is_exact() -> None:
    urn, markov = lr.PolyaUrn(2), lr.Markov([[[0.8, 0.2], [0.3, 0.7]], [[0.5, 0.5], [0.1, 0.9]]], 2)
    for player, horizon, width in ((urn, 200, 201), (markov, 60, 244), (opaque(markov), 9, 2**9)):
        found, worst = beam(player, COIN, horizon, width=width), exact_worst_case(player, COIN, horizon)
        assert found.exact
        assert found.upper == found.regret == pytest.approx(worst.regret, abs=1e-12)
        narrow = beam(player, COIN, horizon, width=8)
        assert (narrow.exact, narrow.upper) == (False, None)
        assert narrow.regret <= worst.regret + 1e-12


def test_the_beam_comes_close_where_the_truth_is_known() -> None:
    """The table of the urn at T = 1024 has 1025 counts at the end; 64 streams find its worst case to three per cent."""
    for player in (lr.PolyaUrn(2), lr.policies.Hedge(COIN, 1024)):
        worst, found = exact_worst_case(player, COIN, 1024).regret, beam(player, COIN, 1024, width=64).regret
        assert 0.97 * worst <= found <= worst + 1e-12


def test_streams_that_have_switched_merge() -> None:
    """With the urn as base every stream with an alarm at once is an urn: 41 counts, not 2**40 sequences."""
    impossible = lr.predictors.Scheduled([[1.0, 0.0]])  # a one is an alarm at once
    robust = lr.robust.Robust(impossible, with_urn(COIN, 40), COIN)
    found = exact_worst_case(robust, COIN, 40)
    assert (found.exact, found.found_by) == (True, "keys")
    assert exact_worst_case(lr.PolyaUrn(2), COIN, 40).regret <= found.regret


# Greedy


def test_greedy_plays_the_state_in_which_the_player_earns_least() -> None:
    problem = lr.DecisionProblem(np.random.default_rng(0).uniform(-1, 1, (3, 4)))
    player = lr.policies.Respond(lr.PolyaUrn(4), problem, 0.2)
    found = greedy(lr.PolyaUrn(4), problem, 30, temperature=0.2)
    played = player.policy_sequence(found.tokens)
    assert found.tokens.tolist() == (played @ problem.utility).argmin(axis=-1).tolist()
    assert (found.exact, found.upper, found.found_by) == (False, None, "greedy")
    assert replayed(problem, player, found) == pytest.approx(found.regret, abs=1e-12)


def test_greedy_takes_the_lowest_state_on_ties() -> None:
    """The uniform response earns 0 against each hand, up to rounding."""
    assert greedy(lr.predictors.Scheduled([[1 / 3, 1 / 3, 1 / 3]]), RPS, 5).tokens.tolist() == [0] * 5
    ninth = lr.matching(9)
    assert greedy(lr.predictors.Scheduled(np.full((1, 9), 1 / 9)), ninth, 5, temperature=0.3).tokens.tolist() == [0] * 5


@pytest.mark.parametrize("seed", range(5))
def test_lemma_2_2(seed: int) -> None:
    """Best responses to any model lose every round, so at least 1/2 on average; quantal ones to the urn do not."""
    model = random_markov(np.random.default_rng(seed), 2)
    for player in (model, lr.PolyaUrn(2), lr.robustify(model, COIN, 200)):
        found = greedy(player, COIN, 200, respond="best")
        actions = COIN.best_response(player.predict_sequence(found.tokens))
        assert (actions != found.tokens).all()
        assert found.regret >= 0.5
    assert greedy(lr.PolyaUrn(2), COIN, 200).regret < 0.1


# All of them


def test_torch_players() -> None:
    problem, in_torch, same = lr.DecisionProblem([[0.7, -0.3], [-0.2, 0.5]]), TorchBer(0.6), ber(0.6)
    assert greedy(in_torch, problem, 20).tokens.tolist() == greedy(same, problem, 20).tokens.tolist()
    truth = exact_worst_case(same, problem, 10).regret
    assert beam(in_torch, problem, 10, width=1024).regret == pytest.approx(truth, abs=1e-6)


def test_the_temperature_is_its_own_or_one_over_root_horizon() -> None:
    robust = lr.robust.Robust(THIRD, with_urn(COIN, 40, temperature=0.7), COIN)
    for adversary in (greedy, beam):
        assert adversary(robust, COIN, 40).regret == adversary(robust.respond(), COIN, 40).regret
        assert adversary(robust, COIN, 40).regret == adversary(robust, COIN, 40, temperature=0.7).regret
        assert adversary(THIRD, COIN, 25).regret == adversary(THIRD, COIN, 25, temperature=0.2).regret


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: greedy(42, COIN, 9), "player"),
        (lambda: greedy(lr.PolyaUrn(3), COIN, 9), "same states"),
        (lambda: greedy(lr.policies.Hedge(RPS, 9), COIN, 9), "another problem"),
        (lambda: greedy(lr.PolyaUrn(2), COIN, 9, respond="worst"), "respond"),
        (lambda: greedy(lr.policies.Hedge(COIN, 9), COIN, 9, temperature=0.1), "temperature"),
        (lambda: exact_worst_case(opaque(lr.PolyaUrn(2)), COIN, 40), "adversaries.beam"),
        (lambda: exact_worst_case(lr.PolyaUrn(9), lr.matching(9), 1000), "too large.* adversaries.beam"),
    ],
)
def test_what_is_refused(call: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        call()
