"""What use on real data and an attack found, each with its whole class: numbers, masks, laws, aliases, sizes."""

import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.inputs import LARGEST, SMALLEST

COIN = lr.matching()
URN = lr.PolyaUrn(2)
STICKY = lr.Markov([[0.8, 0.2], [0.3, 0.7]], window=1)

# Numbers


def test_a_bound_does_not_depend_on_the_type_of_a_number() -> None:
    plain = lr.AverageRestart(STICKY, COIN, 1, 100, 200)
    small = lr.AverageRestart(STICKY, COIN, *map(np.uint8, (1, 100, 200)))
    assert small.certificate.regret_bound == plain.certificate.regret_bound == 1.0
    assert (lr.PolyaUrn(2, prior=np.int8(100)).predict_sequence([0, 1, 0]) > 0).all()
    assert lr.PolyaUrn(2, prior=Fraction(1, 2)).predict_sequence([0, 1]).dtype == np.float64


OUT_OF_REACH = [10**400, 10**5000, Fraction(1, 10**400), 1e-320, 1e301, 5e-324, -(10**400)]


@pytest.mark.parametrize("which", range(len(OUT_OF_REACH)))  # one of them cannot even be printed
def test_numbers_out_of_reach_are_refused_by_name(which: int) -> None:
    value: Any = OUT_OF_REACH[which]
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1"):
        lr.ExactTest(delta=value)
    with pytest.raises(ValueError, match=r"temperature must be a (positive )?finite number"):
        lr.QuantalResponse(value)
    with pytest.raises(ValueError, match="horizon must be a whole number"):
        lr.ExactTest(horizon=value)


@pytest.mark.parametrize("value", [SMALLEST, LARGEST])
@pytest.mark.parametrize("horizon", [9, None])
def test_numbers_just_within_reach_give_numbers(value: float, horizon: int | None) -> None:
    soft, test = lr.QuantalResponse(value), lr.ExactTest(horizon=horizon)
    guard = lr.Guard(COIN, test=test, response=soft, fallback=URN)
    for t in range(9):
        assert np.isfinite(guard.advise(np.eye(2)[t % 2]).policy).all()
        guard.observe(t // 2 % 2)
        assert not np.isnan(guard.evidence[0])
    assert 0 <= guard.certificate.at(9).regret_bound <= COIN.span


def test_utilities_next_to_nothing_are_nothing() -> None:
    tiny = lr.DecisionProblem([[1e-310, -1e-320], [0.0, 5e-324]])
    small = lr.DecisionProblem([[2e-100, 0.0], [0.0, 2e-100]])
    assert tiny.span == 0
    for problem in (tiny, small):
        guard = lr.Guard(problem, test=lr.ExactTest(horizon=5))
        guard.advise([0.5, 0.5])
        guard.observe(1)
        assert np.isfinite(guard.evidence[0])
        assert guard.certificate.regret_bound <= problem.span


# Masks


def test_a_mask_is_never_ignored() -> None:
    law, tokens = np.array([0.5, 0.5]), np.array([0, 1, 1])
    hidden, gone = np.ma.masked_array(law, mask=[True, False]), np.ma.masked_array(tokens, mask=[0, 1, 0])
    guard = lr.Guard(COIN, streams=3)
    guard.advise(np.tile(law, (3, 1)))
    for name, call in {
        "forecast": lambda: lr.Guard(COIN).advise(hidden),
        "action": lambda: guard.observe(tokens, action=gone),
        "streams": lambda: guard.restart(gone),
        "tokens": lambda: URN.predict_sequence(gone),
        "token": lambda: URN.update(URN.start((3,)), gone),
        "utility": lambda: lr.DecisionProblem(np.ma.masked_array(np.eye(2), mask=np.eye(2))),
        "payoffs": lambda: lr.DecisionProblem.from_payoffs([hidden, law]),
        "levels": lambda: lr.newsvendor(np.ma.masked_array([0, 1, 2], mask=[0, 1, 0]), 5, 3),
        "probs_TxS": lambda: lr.predictors.Scheduled([hidden, law]),
        "transition": lambda: lr.Markov(np.ma.masked_array(np.eye(2), mask=np.eye(2)), 1),
        "beliefs": lambda: COIN.best_response(hidden),
        "policy": lambda: lr.external_regret(COIN, gone, tokens),
        "tips": lambda: lr.VRegret(9, tips=np.ma.masked_array([0.1, 0.5], mask=[0, 1])),
        "index": lambda: lr.take(URN.start((3,)), gone),
        "p": lambda: lr.rules.tips.v_regret(np.ma.masked_array([0.1, 0.5, 0.2], mask=[0, 1, 0]), tokens, [0.5]),
        "what fn returned": lambda: lr.FromFunction(lambda h: hidden, 2).predict_sequence([0]),
    }.items():
        with pytest.raises(ValueError, match=f"{name} must not be masked"):
            call()
    guard.observe(gone)  # none of it has moved the guard; an outcome that is masked is missing, and counted as such
    head = guard.engine.head.open(guard._state.rows_NxW)
    assert (head.observed.tolist(), head.missed.tolist()) == ([1, 0, 1], [0, 1, 0])


# Someone else's laws: test_fuzz_values.py has predictors


class Plays(lr.policies.Policy):
    problem = COIN

    def __init__(self, mixed: Any) -> None:
        self.mixed = mixed

    def start(self, batch_shape: tuple[int, ...] = (), like: Any = None) -> Any:
        return (np.zeros(batch_shape, dtype=np.int64),)

    def policy(self, memory: Any) -> Any:
        return np.broadcast_to(np.asarray(self.mixed, dtype=float), (*memory[0].shape, 2))

    def update(self, memory: Any, token: Any) -> Any:
        return (memory[0] + 1,)


def plays_on(guard: lr.Guard) -> Any:
    for _ in range(2):
        guard.advise([1.0, 0.0])
        guard.observe(1)


@pytest.mark.parametrize("mixed", [[np.nan, np.nan], [2.0, -1.0], [0.5, 0.6]], ids=str)
def test_what_someone_else_s_policy_plays_is_checked_wherever_it_is_asked(mixed: Any) -> None:
    liar, tokens = Plays(mixed), np.array([[0, 1, 1]])
    for call in (
        lambda: lr.external_regret(COIN, liar, tokens),
        lambda: liar.policy_sequence(tokens),
        lambda: lr.compare({"liar": liar}, {"urn": URN}, COIN, 3, 2, 0),
        lambda: lr.evaluate.adversaries.greedy(liar, COIN, 3),
        lambda: plays_on(lr.Guard(COIN, fallback=liar)),
    ):
        with pytest.raises(ValueError, match="the probabilities of Plays"):
            call()


def test_a_subclass_is_asked_for_what_it_overrides() -> None:
    class Other(lr.predictors.Scheduled):
        def predict_sequence(self, tokens: Any) -> Any:
            return 1 - super().predict_sequence(tokens)

    other = Other([[0.2, 0.8]])
    assert lr.policies.Respond(other, COIN, 0.1).policy_sequence([0, 0])[0, 0] > 0.9


# Modules and gradients


class Net(torch.nn.Module):
    """Counts what it saw, in a table of eight steps."""

    def __init__(self) -> None:
        super().__init__()
        self.places = torch.nn.Embedding(8, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = self.places(torch.arange(tokens.size(-1) + 1))
        return torch.softmax(places[-1], dim=-1).expand(*tokens.shape[:-1], 2)


@pytest.mark.parametrize("batched", [False, True])
def test_a_module_is_handed_tensors(batched: bool) -> None:
    model = lr.FromFunction(Net(), 2, batched=batched)
    laws = model.predict_sequence([[0, 1, 1], [1, 1, 0]])
    assert isinstance(laws, np.ndarray)
    assert laws.shape == (2, 3, 2)
    assert lr.sample(model, 4, 3, seed=0).shape == (3, 4)
    with pytest.raises(ValueError, match=r"fn failed on a history of 8 tokens \(IndexError"):
        model.predict_sequence([0] * 12)


def test_gradients_stay_outside() -> None:
    law = torch.tensor([0.25, 0.75], dtype=torch.float64, requires_grad=True)
    matrix = torch.eye(2, dtype=torch.float64, requires_grad=True)
    assert lr.DecisionProblem(matrix).utility.tolist() == [[1, 0], [0, 1]]
    assert lr.predictors.Scheduled(law[None]).probs_TxS.tolist() == [[0.25, 0.75]]
    assert lr.FromFunction(lambda h: law, 2).predict_sequence([0, 1]).tolist() == [[0.25, 0.75]] * 2
    assert COIN.invert_quantal_response([0.5, 0.5], 0.1, near=law).tolist() == [0.5, 0.5]
    assert lr.newsvendor(torch.tensor([0.0, 1.0], requires_grad=True), 5, 3).n_states == 2
    assert lr.Guard(COIN).advise(law).law.tolist() == [0.25, 0.75]


# Aliases


@pytest.mark.parametrize(
    "make",
    [
        lambda: lr.VRegret(9),
        lambda: COIN, lambda: STICKY, lambda: lr.predictors.Scheduled([[0.5, 0.5]]),
        lambda: lr.compare({"urn": URN}, {"urn": URN}, COIN, 3, 2, 0),
    ],
)  # fmt: skip
def test_what_an_object_is_made_of_cannot_be_written_to(make: Any) -> None:
    thing, seen = make(), 0
    for name in dir(thing):
        value = None if name.startswith("__") else getattr(thing, name, None)
        if isinstance(value, np.ndarray) and not name.startswith("_"):
            seen += 1
            with pytest.raises(ValueError, match="read-only"):
                value[...] = 0
    assert seen


PLAYERS = {
    "PolyaUrn": URN,
    "ShrunkUrn": lr.predictors.ShrunkUrn(COIN, 9),
    "Scheduled": lr.predictors.Scheduled([[0.5, 0.5]]),
    "Markov": STICKY,
    "Robust": lr.robustify(STICKY, COIN, 9),
    "AverageRestart": lr.AverageRestart(STICKY, COIN, 1, 5, 9),
    "Hedge": lr.policies.Hedge(COIN, 9),
    "AdaHedge": lr.policies.AdaHedge(COIN),
    "FixedShare": lr.policies.FixedShare(COIN, 9),
    "RestartHedge": lr.policies.RestartHedge(COIN, 5),
    "Respond": lr.policies.Respond(URN, COIN, 0.1),
}


@pytest.mark.parametrize("shape", [(), (3,)], ids=str)
@pytest.mark.parametrize("name", PLAYERS)
def test_what_a_player_says_is_not_its_memory(name: str, shape: tuple[int, ...]) -> None:
    player: Any = PLAYERS[name]
    memory = player.update(player.start(shape), np.ones(shape, dtype=np.int64))
    for read in (getattr(player, "predict", None), getattr(player, "policy", None)):
        if read is None:
            continue
        said = read(memory)
        before = said.tolist()
        if said.flags.writeable:
            said[...] = 7
        assert read(memory).tolist() == before


def test_what_a_guard_says_and_hears_is_not_its_memory() -> None:
    guard, law = lr.Guard(COIN, streams=2), np.array([[0.2, 0.8]] * 2)
    advice, before = guard.advise(law), guard.dumps()
    for given in (law, advice.policy, advice.law, guard.policy(), guard.regret, guard.share):
        given[...] = 7
    assert guard.dumps() == before
    assert guard.advice().law.tolist() == [[0.2, 0.8]] * 2


# Sizes


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (5, 1), (3, 7), (7, 3), (40, 40)])
@pytest.mark.parametrize("seed", range(5))
def test_contrast_is_the_range_over_states_of_differences(shape: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    for utility in (
        rng.uniform(-1, 1, shape),
        rng.choice([-1.0, 0.0, 1.0], shape),
        np.round(rng.normal(0, 0.2, shape), 1),
    ):
        U = np.clip(utility, -1, 1)
        apart = U[:, None, :] - U[None, :, :]
        assert lr.DecisionProblem(U).contrast == (apart.max(-1) - apart.min(-1)).max()


def test_many_actions_take_the_memory_of_their_matrix() -> None:
    problem = lr.matching(500)
    tracemalloc.start()
    try:
        guard = lr.Guard(problem, test=lr.ExactTest(horizon=100))
        guard.advise(np.full(500, 1 / 500))
        guard.observe(3)
        guard.restart()
        bound = guard.certificate.regret_bound
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0 < bound <= 1
    # Bets on every action in every state take a few such matrices; a cube of differences would take 500.
    assert peak < 20 * problem.utility.nbytes


# Problems and certificates


def test_presets_refuse_what_makes_no_sense() -> None:
    for call, words in {
        lambda: lr.trading([-1, 1], fee=-1): "fee must be a finite number >= 0",
        lambda: lr.newsvendor([0, 1], price=3, cost=5): "cost must be at most the price 3, got 5",
        lambda: lr.newsvendor([-1, 1], price=5, cost=3): "levels must not be negative, got -1",
        lambda: lr.newsvendor([0, 1], price=-5, cost=-7): "price must be a finite number >= 0",
        lambda: lr.cost_loss(cost=-1, loss=4): "cost must be a finite number >= 0",
    }.items():
        with pytest.raises(ValueError, match=words):
            call()


def test_names_of_states_read_well() -> None:
    assert lr.newsvendor([0.1 + 0.2, 72.60499999999999, 100], 5, 3).states == ("0.3", "72.605", "100")
    assert lr.trading([-0.005, 1e-7]).states == ("-0.005", "1e-07")


def test_a_certificate_holds_at_its_own_horizon() -> None:
    guard = lr.Guard(COIN, test=lr.ExactTest(horizon=9))
    guard.restart()
    assert guard.certificate.at(9).episodes == 2
    with pytest.raises(ValueError, match="step must be the horizon 9"):
        guard.certificate.at(8)
