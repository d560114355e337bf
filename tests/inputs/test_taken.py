"""What is unusual and right is taken; what goes in or comes out is never the memory of what it was asked of."""

from typing import Any

import numpy as np
import pytest
import torch

import lowregret as lr

COIN, URN = lr.matching(), lr.PolyaUrn(2)
GAME = lr.DecisionProblem([[1.0, -0.5, 0.25], [-1.0, 0.75, 0.0]])  # two actions, three states
STICKY = lr.Markov([[0.8, 0.2], [0.3, 0.7]], window=1)
PREDICTORS: dict[str, lr.Predictor] = {
    "PolyaUrn": lr.PolyaUrn(3),
    "Scheduled": lr.predictors.Scheduled([[1 / 3] * 3]),
    "Markov": lr.Markov(np.full((3, 3, 3), 1 / 3), window=2),
    "FromFunction": lr.FromFunction(lambda history: [1 / 3] * 3, 3),
    "FromFunction, batched": lr.FromFunction(lambda history: np.full((len(history), 3), 1 / 3), 3, batched=True),
    "Robust": lr.robustify(lr.PolyaUrn(3), GAME, 6),
}

# Probabilities


@pytest.mark.parametrize("n", [None, 4])
@pytest.mark.parametrize("off", [-9e-7, 9e-7])
@pytest.mark.parametrize("carry", [np.asarray, np.ndarray.tolist, torch.tensor])
def test_sums_off_by_less_than_a_millionth(n: int | None, off: float, carry: Any) -> None:
    guard = lr.Guard(GAME, streams=n)
    forecast = carry(np.random.default_rng(0).dirichlet(np.ones(3), guard.shape) * (1 + off))
    np.testing.assert_allclose(guard.advise(forecast).forecast, np.asarray(forecast) / (1 + off), rtol=0, atol=1e-12)
    assert np.shape(GAME.best_response(forecast)) == guard.shape
    assert np.allclose(np.asarray(GAME.quantal_response(forecast, 0.1)).sum(-1), 1)


def test_sums_do_not_depend_on_how_they_are_added() -> None:
    n = 50_000
    beliefs = np.full((n, 2), 1 / n, dtype=np.float32).T  # states first in memory: NumPy adds one after the other
    assert abs(float(beliefs[0].sum(dtype=np.float64)) - 1) < 1e-7  # although in float32 it is off by more than 1e-6
    assert abs(float(np.cumsum(beliefs[0])[-1]) - 1) > 1e-6
    assert lr.DecisionProblem(np.zeros((1, n))).best_response(beliefs).tolist() == [0, 0]


@pytest.mark.parametrize("carry", [list, tuple, np.array, lambda p: np.array(p, dtype=np.uint8), torch.tensor])
def test_certain_forecasts_may_be_integers(carry: Any) -> None:
    guard = lr.Guard(GAME)
    assert guard.advise(carry([0, 1, 0])).forecast.tolist() == [0.0, 1.0, 0.0]
    guard.observe(1)
    assert guard.events == []
    assert int(GAME.best_response(carry([0, 1, 0]))) == 1


def test_single_precision_is_kept() -> None:
    beliefs = np.random.default_rng(0).dirichlet(np.ones(3), 2).astype(np.float32)
    assert GAME.quantal_response(beliefs, 0.1).dtype == np.float32
    assert GAME.quantal_response(torch.tensor(beliefs), 0.1).dtype == torch.float32
    assert np.allclose(lr.Guard(GAME, streams=2).advise(beliefs).forecast, beliefs, rtol=0, atol=1e-7)


# Numbers


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
@pytest.mark.parametrize("name", PREDICTORS)
def test_tokens_of_any_integer_type(name: str, dtype: Any) -> None:
    predictor, tokens = PREDICTORS[name], np.array([[2, 0, 1, 1], [0, 2, 2, 1]])
    expected, hedge = predictor.predict_sequence(tokens), lr.policies.Hedge(GAME, 4)
    assert np.array_equal(predictor.predict_sequence(tokens.astype(dtype)), expected)
    memory, one = predictor.start((2,)), lr.predictors.Stream(predictor)
    for t in range(3):
        memory = predictor.update(memory, tokens[:, t].astype(dtype))
        one.update(tokens.astype(dtype)[0, t])  # a NumPy scalar
    assert np.allclose(predictor.predict(memory), expected[:, 3], atol=1e-12)
    assert np.allclose(one.predict(), expected[0, 3], atol=1e-12)
    regrets = [lr.external_regret(GAME, hedge, each) for each in (tokens, tokens.astype(dtype))]
    assert np.array_equal(*regrets)


def test_a_bound_does_not_depend_on_the_type_of_a_number() -> None:
    small = lr.AverageRestart(STICKY, COIN, *map(np.uint8, (1, 100, 200)))
    assert small.certificate.regret_bound == lr.AverageRestart(STICKY, COIN, 1, 100, 200).certificate.regret_bound == 1
    for number in (1, np.float32(0.5), np.int64(2)):
        soft = lr.Guard(GAME, test=lr.ExactTest(horizon=np.int64(6)), response=lr.QuantalResponse(number))
        assert np.allclose(soft.advise([0.2, 0.3, 0.5]).policy, GAME.quantal_response([0.2, 0.3, 0.5], number))


# Sizes


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1)])
def test_one_state_or_one_action_is_a_problem(shape: tuple[int, int]) -> None:
    problem = lr.DecisionProblem(np.linspace(-1, 1, shape[0] * shape[1]).reshape(shape))
    for n in (None, 2):
        guard = lr.Guard(problem, streams=n)
        for _ in range(6):
            guard.advise(np.full((*guard.shape, shape[1]), 1 / shape[1]))
            guard.observe(np.zeros(guard.shape, dtype=np.int64), action=guard.act(0))
        assert np.isfinite(guard.regret).all()
        assert np.isfinite(guard.certificate.at(9).regret_bound)
    for test in (lr.RegretGap(6), lr.RegretRate(6), lr.ExactTest(1 / 6, 6), lr.ExactTest(0.1)):
        safe = lr.robustify(lr.PolyaUrn(shape[1]), problem, test=test)
        tokens = np.zeros((2, 6), dtype=np.int64)
        assert safe.predict_sequence(tokens).shape == (2, 6, shape[1])
        assert safe.alarm_times(tokens).shape == (2,)


def test_fleets_of_no_streams() -> None:
    guard = lr.Guard(GAME, streams=0)
    assert guard.advise(np.zeros((0, 3))).forecast.shape == (0, 3)
    guard.observe(np.zeros(0, dtype=np.int64))
    guard.restart([])
    assert guard.regret.shape == (0,)
    assert lr.sample(lr.PolyaUrn(3), 4, 0, 0).shape == (0, 4)
    assert PREDICTORS["Robust"].alarm_times(np.zeros((0, 4), dtype=np.int64)).shape == (0,)


# Someone else's classes and modules


def test_a_subclass_is_asked_for_what_it_overrides() -> None:
    class Other(lr.predictors.Scheduled):
        def predict_sequence(self, tokens: Any) -> Any:
            return 1 - super().predict_sequence(tokens)

    assert lr.policies.Respond(Other([[0.2, 0.8]]), COIN, 0.1).policy_sequence([0, 0])[0, 0] > 0.9


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
    probs_NxTxS = model.predict_sequence([[0, 1, 1], [1, 1, 0]])
    assert isinstance(probs_NxTxS, np.ndarray)
    assert probs_NxTxS.shape == (2, 3, 2)
    assert lr.sample(model, 4, 3, seed=0).shape == (3, 4)


def test_gradients_stay_outside() -> None:
    probs = torch.tensor([0.25, 0.75], dtype=torch.float64, requires_grad=True)
    matrix = torch.eye(2, dtype=torch.float64, requires_grad=True)
    assert lr.DecisionProblem(matrix).utility.tolist() == [[1, 0], [0, 1]]
    assert lr.predictors.Scheduled(probs[None]).probs_TxS.tolist() == [[0.25, 0.75]]
    assert lr.FromFunction(lambda h: probs, 2).predict_sequence([0, 1]).tolist() == [[0.25, 0.75]] * 2
    assert COIN.invert_quantal_response([0.5, 0.5], 0.1, near=probs).tolist() == [0.5, 0.5]
    assert lr.Guard(COIN).advise(probs).forecast.tolist() == [0.25, 0.75]


# Aliases


@pytest.mark.parametrize(
    "made",
    [lr.VRegret(9), COIN, STICKY, PREDICTORS["Scheduled"], lr.compare({"urn": URN}, {"urn": URN}, COIN, 3, 2, 0)],
    ids=lambda made: type(made).__name__,
)
def test_what_an_object_is_made_of_cannot_be_written_to(made: Any) -> None:
    public = [getattr(made, name, None) for name in dir(made) if not name.startswith("_")]
    arrays = [value for value in public if isinstance(value, np.ndarray)]
    assert arrays
    for value in arrays:
        with pytest.raises(ValueError, match="read-only"):
            value[...] = 0


PLAYERS = [
    URN,
    STICKY,
    lr.predictors.ShrunkUrn(COIN, 9),
    lr.predictors.Scheduled([[0.5, 0.5]]),
    lr.robustify(STICKY, COIN, 9),
    lr.AverageRestart(STICKY, COIN, 1, 5, 9),
    lr.policies.Hedge(COIN, 9),
    lr.policies.AdaHedge(COIN),
    lr.policies.FixedShare(COIN, 9),
    lr.policies.RestartHedge(COIN, 5),
    lr.policies.Respond(URN, COIN, 0.1),
]


@pytest.mark.parametrize("shape", [(), (3,)], ids=str)
@pytest.mark.parametrize("player", PLAYERS, ids=lambda player: type(player).__name__)
def test_what_a_player_gives_is_not_its_memory(player: Any, shape: tuple[int, ...]) -> None:
    memory = player.update(player.start(shape), np.ones(shape, dtype=np.int64))
    for read in (getattr(player, "predict", None), getattr(player, "policy", None)):
        if read is not None:
            given = read(memory)
            before = given.tolist()
            if given.flags.writeable:
                given[...] = 7
            assert read(memory).tolist() == before


def test_what_a_guard_takes_and_gives_is_not_its_memory() -> None:
    guard, forecast = lr.Guard(COIN, streams=2), np.array([[0.2, 0.8]] * 2)
    advice, before = guard.advise(forecast), guard.dumps()
    for given in (forecast, advice.policy, advice.forecast, guard.policy(), guard.regret, guard.share):
        given[...] = 7
    assert guard.dumps() == before
    assert guard.advice().forecast.tolist() == [[0.2, 0.8]] * 2
