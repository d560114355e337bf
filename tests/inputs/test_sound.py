"""What use on real data and an attack found, each with its whole class: numbers, masks, casts, laws, aliases, sizes."""

import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr
from lowregret.inputs import LARGEST, SMALLEST
from paper import frontier

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
        lr.ExactTest(COIN, 10, delta=value)
    with pytest.raises(ValueError, match=r"temperature must be a (positive )?finite number"):
        lr.ExactTest(COIN, 10, temperature=value)
    with pytest.raises(ValueError, match="horizon must be a whole number"):
        lr.ExactTest(COIN, value)


@pytest.mark.parametrize("value", [SMALLEST, LARGEST])
def test_numbers_just_within_reach_give_numbers(value: float) -> None:
    for rule in (lr.ExactTest(COIN, 9, temperature=value), lr.rules.RegretGap(lr.matching(3), 9, temperature=value)):
        problem = rule.problem
        guard = lr.Guard(problem, 9, rule=rule)
        for t in range(9):
            guard.advise(np.eye(problem.n_states)[t % problem.n_states])
            assert np.isfinite(guard.policy()).all()
            guard.observe(t // 2 % problem.n_states)
            assert not np.isnan(guard.evidence[0])
        assert 0 <= guard.certificate.regret_bound <= problem.span


def test_utilities_next_to_nothing_are_nothing() -> None:
    tiny = lr.DecisionProblem([[1e-310, -1e-320], [0.0, 5e-324]])
    assert tiny.span == 0
    guard = lr.Guard(tiny, 5)
    guard.advise([0.5, 0.5])
    guard.observe(1)
    assert not np.isnan(guard.evidence[0])
    small = lr.DecisionProblem([[2e-100, 0.0], [0.0, 2e-100]])
    rule = lr.ExactTest(small, 5)
    assert np.isfinite(rule.rates_K).all()
    assert rule.certificate.regret_bound <= small.span


def test_flags_are_flags() -> None:
    for call in (
        lambda x: lr.rules.RegretGap(COIN, 9, 1.0, x),
        lambda x: lr.policies.RestartHedge(COIN, 9, x),
        lambda x: lr.FromFunction(lambda h: [0.5, 0.5], 2, x),
    ):
        for bad in ("no", 0, None, [True]):
            with pytest.raises(ValueError, match="must be True or False"):
                call(bad)
        call(np.bool_(True))


# Masks and casts


def test_a_mask_is_never_ignored() -> None:
    law, tokens = np.array([0.5, 0.5]), np.array([0, 1, 1])
    hidden, gone = np.ma.masked_array(law, mask=[True, False]), np.ma.masked_array(tokens, mask=[0, 1, 0])
    guard = lr.Guard(COIN, 9, batch_shape=(3,))
    guard.advise(np.tile(law, (3, 1)))
    for name, call in {
        "probs": lambda: lr.Guard(COIN, 9).advise(hidden),
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
        "tips": lambda: lr.rules.VRegret(9, tips=np.ma.masked_array([0.1, 0.5], mask=[0, 1])),
        "index": lambda: lr.take(URN.start((3,)), gone),
        "p": lambda: lr.tips.v_regret(np.ma.masked_array([0.1, 0.5, 0.2], mask=[0, 1, 0]), tokens, [0.5]),
        "what fn returned": lambda: lr.FromFunction(lambda h: hidden, 2).predict_sequence([0]),
    }.items():
        with pytest.raises(ValueError, match=f"{name} must not be masked"):
            call()
    guard.observe(gone)  # none of it has moved the guard; an outcome that is masked is missing, and counted as such
    assert guard._at.ledger.rule.step.tolist() == [1, 0, 1]
    assert guard._at.ledger.missed.tolist() == [0, 1, 0]


@pytest.mark.parametrize("rule", [lr.ExactTest(COIN, 9), lr.rules.RegretRate(COIN, 9), lr.rules.VRegret(9)], ids=type)
def test_trip_times_look_before_they_cast(rule: lr.rules.Rule) -> None:
    probs = np.full((3, 2), 0.5)
    good = rule.trip_times(torch.tensor(probs), np.array([0, 1, 1]))
    assert int(good) == 4
    for laws in (probs, torch.tensor(probs)):
        for bad in ([0.2, 1.9, 1.0], ["0", "1", "1"], [True, False, True], [0, 1, 2], [0 + 0j, 1, 1], [None, 1, 1]):
            for tokens in (bad, np.array(bad, dtype=object), *([np.array(bad)] if None not in bad else [])):
                with pytest.raises(ValueError, match="tokens must"):
                    rule.trip_times(laws, tokens)
        with pytest.raises(ValueError, match="tokens must"):
            rule.trip_times(laws, torch.tensor([0.2, 1.9, 1.0]))


# Someone else's laws


class Says(lr.Predictor):
    n_states = 2

    def __init__(self, law: Any) -> None:
        self.law = law

    def start(self, batch_shape: tuple[int, ...] = (), like: Any = None) -> Any:
        return (np.zeros(batch_shape, dtype=np.int64),)

    def predict(self, memory: Any) -> Any:
        return np.broadcast_to(np.asarray(self.law, dtype=float), (*memory[0].shape, len(self.law)))

    def update(self, memory: Any, token: Any) -> Any:
        return (memory[0] + 1,)


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


NO_LAWS = [[np.nan, np.nan], [2.0, -1.0], [0.5, 0.6], [1.0]]


@pytest.mark.parametrize("law", NO_LAWS, ids=str)
def test_what_someone_else_s_predictor_says_is_checked_wherever_it_is_asked(law: Any) -> None:
    liar, tokens = Says(law), np.array([[0, 1, 1]])
    fallback = lr.rules.RegretGap(COIN, 9, fallback=liar)  # is judged beside what it says

    def switched() -> lr.Guard:
        guard = lr.Guard(COIN, 9, temperature=0.3, fallback=liar)
        guard.advise([1.0, 0.0])
        guard.observe(1)
        guard.advise([1.0, 0.0])
        return guard

    for call in (
        lambda: lr.sample(liar, 3, 2, 0),
        lambda: lr.predictors.Stream(liar).predict(),
        lambda: lr.policies.Respond(liar, COIN, 0.1).policy_sequence(tokens),
        lambda: lr.policies.Respond(liar, COIN, 0.1).policy(lr.policies.Respond(liar, COIN, 0.1).start()),
        lambda: lr.external_regret(COIN, lr.policies.Respond(liar, COIN, 0.1), tokens),
        lambda: lr.robustify(liar, COIN, 9).predict_sequence(tokens),
        lambda: lr.robustify(liar, COIN, 9).start(),
        lambda: liar.predict_sequence(tokens),
        lambda: lr.sequence_tv(URN, liar, 3, 4, 0),
        lambda: lr.next_token_tv(URN, liar, tokens),
        lambda: lr.compare({"liar": liar}, {"urn": URN}, COIN, 3, 2, 0),
        lambda: lr.compare({"urn": URN}, {"liar": liar}, COIN, 3, 2, 0),
        lambda: lr.adversaries.greedy(liar, COIN, 3),
        lambda: lr.adversaries.greedy(liar, COIN, 3, respond="best"),
        lambda: lr.adversaries.beam(liar, COIN, 3),
        lambda: lr.adversaries.exact_worst_case(liar, COIN, 3),
        lambda: frontier.price_of_robustness(liar, COIN, 3, 2, 0),
        lambda: fallback.trip_times(np.full((1, 3, 2), 0.5), tokens),
        lambda: fallback.look(fallback.start(), np.array([0.5, 0.5])),
        switched,
    ):
        with pytest.raises(ValueError, match="the probabilities of Says"):
            call()


@pytest.mark.parametrize("mixed", NO_LAWS[:3], ids=str)
def test_what_someone_else_s_policy_plays_is_checked_wherever_it_is_asked(mixed: Any) -> None:
    liar, tokens = Plays(mixed), np.array([[0, 1, 1]])
    gap, rule = lr.rules.RegretGap(COIN, 9, fallback=liar), lr.ExactTest(COIN, 9, fallback=liar)
    tripped = rule.update(rule.start(), np.array([1.0, 0.0]), 1)
    for call in (
        lambda: lr.external_regret(COIN, liar, tokens),
        lambda: liar.policy_sequence(tokens),
        lambda: lr.compare({"liar": liar}, {"urn": URN}, COIN, 3, 2, 0),
        lambda: lr.adversaries.greedy(liar, COIN, 3),
        lambda: gap.look(gap.start(), np.eye(2)[0]),
        lambda: rule.look(tripped, np.eye(2)[0]),
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
    with pytest.raises(ValueError, match="utility must be"):
        lr.DecisionProblem([law, law[0]])


# Aliases


@pytest.mark.parametrize(
    "make",
    [
        lambda: lr.ExactTest(COIN, 9), lambda: lr.rules.VRegret(9),
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
        guard = lr.Guard(problem, 100)
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


# Problems, certificates, words


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
    certificate = lr.rules.RegretRate(COIN, 9).certificate
    assert certificate.at(9) == certificate
    with pytest.raises(ValueError, match="step must be the horizon 9"):
        certificate.at(8)
    guard = lr.Guard(COIN, 9)
    guard.restart()
    assert guard.certificate.at(9).episodes == 2


def test_an_error_about_another_problem_says_what_differs() -> None:
    named = lr.DecisionProblem(COIN.utility, states=["x", "y"])
    priced = lr.DecisionProblem.from_payoffs([[3.0, 1.0], [1.0, 3.0]])
    near = lr.DecisionProblem([[1, 0], [0, 0.5]])
    for other, words in {
        named: r"states are named \('0', '1'\) against \('x', 'y'\)",
        near: r"utility\[1, 1\] is 1 against 0.5",
        lr.matching(3): "2 actions x 2 states.*against.*3 actions",
    }.items():
        for call in (
            lambda p=other: lr.Guard(p, 9, rule=lr.ExactTest(COIN, 9)),
            lambda p=other: lr.AverageRestart(lr.PolyaUrn(p.n_states), p, 0, 5, 9, rule=lr.ExactTest(COIN, 5)),
        ):
            with pytest.raises(ValueError, match=f"another problem: .*{words}"):
                call()
    scaled = lr.DecisionProblem.from_payoffs([[1.0, -1.0], [-1.0, 1.0]])
    with pytest.raises(ValueError, match=r"payoffs are 1 x utility \+ 0 against 1 x utility \+ 2"):
        lr.external_regret(priced, lr.policies.Hedge(scaled, 9), [0, 1])
    with pytest.raises(ValueError, match=r"predictors\['h'\] acts in another problem: .*named"):
        lr.compare({"h": lr.policies.Hedge(named, 9)}, {"u": URN}, COIN, 3, 2, 0)


def test_a_guard_keeps_its_own_regret() -> None:
    with pytest.raises(ValueError, match=r"read guard\.regret"):
        lr.external_regret(COIN, lr.Guard(COIN, 9), [0, 1])


def test_plots_are_there() -> None:
    assert "plots" in lr.__all__
    assert callable(lr.plots.evidence)
