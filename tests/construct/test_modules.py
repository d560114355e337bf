"""Torch modules of one's own as the base: what fits works as in use, what does not is refused by name."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lowregret as lr
from lowregret.construct import Constructed, build

from .test_deciding import early, gap, rate, robust


class Recurrent(nn.Module):
    """A usual language model: entry t has seen ``tokens[:, :t + 1]``."""

    def __init__(self, n_tokens: int, dropout: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding, self.cell = nn.Embedding(n_tokens, 8), nn.GRU(8, 8, batch_first=True)
        self.dropout, self.out = nn.Dropout(dropout), nn.Linear(8, n_tokens)

    def forward(self, tokens_BxT: Tensor) -> Tensor:
        return 4 * self.out(self.dropout(self.cell(self.embedding(tokens_BxT))[0]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("mask", "offset"), [(-2e6, 0), (-1e9, 0), (-float("inf"), 0), (-3.4e38, 0), (-1, 1e6)])
def test_masks_and_offsets_of_logits(mask: float, offset: float, dtype: torch.dtype) -> None:
    given = torch.tensor([0.3, -0.2, mask], dtype=torch.float64) + offset

    class Fixed(nn.Module):
        def forward(self, tokens_BxT: Tensor) -> Tensor:
            return given.expand(*tokens_BxT.shape, -1)

    law = torch.softmax(given, dim=-1).numpy()
    base, problem = lr.predictors.Scheduled([law]), lr.rock_paper_scissors()
    tokens = np.concatenate([lr.sample(base, 64, 16, seed=0), lr.sample(lr.PolyaUrn(3), 64, 4, seed=0)])
    for setting in (early(problem, 64), rate(problem, 64)):
        model = build(Fixed(), setting, gives="logits", dtype=dtype)
        expected = robust(base, setting).predict_sequence(tokens)
        off = np.abs(model.predict_sequence(tokens) - expected).max(axis=-1) > 1e-5
        assert off.mean() < (0.01 if dtype == torch.float32 else 1e-9)  # in float32 a switch may be a step late
        streamed = lr.predictors.unroll(model, tokens[-2:])
        np.testing.assert_allclose(streamed, model.predict_sequence(tokens[-2:]), atol=1e-5)


def test_what_is_made_of_a_module() -> None:
    setting = gap(lr.rock_paper_scissors(), 16)
    model, tokens = build(Shifted(Recurrent(4), 3), setting, gives="logits"), lr.sample(lr.PolyaUrn(3), 16, 8, seed=0)
    assert repr(model).startswith("<RegretGap in 5 layers on Shifted, 16 steps: regret <= ")
    assert f"TV <= {1 / 16:.3g}>" in repr(model)
    laws = model.predict_sequence(tokens)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_sequence(tokens), laws)
    played, expected = model.respond().policy_sequence(tokens), setting.problem.quantal_response(laws, 1 / 4)
    np.testing.assert_allclose(played, expected, atol=1e-12)


class Shifted(nn.Module):
    """What the documentation shows: BOS in front, the last token left out."""

    def __init__(self, model: nn.Module, n_states: int) -> None:
        super().__init__()
        self.model, self.n_states = model, n_states

    def forward(self, tokens_BxT: Tensor) -> Tensor:
        return self.model(F.pad(tokens_BxT[:, :-1], (1, 0), value=self.n_states))[..., : self.n_states]


class Given(nn.Module):
    """Any function of the tokens."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, tokens_BxT: Tensor) -> Any:
        return self.function(tokens_BxT)


def built(base: nn.Module, gives: str = "logits", n_states: int = 2) -> Constructed:
    return build(base, early(lr.matching(n_states), 16), gives=gives)


@pytest.mark.parametrize("n_states", [2, 3])
def test_a_language_model_behind_bos(n_states: int) -> None:
    module = Shifted(Recurrent(n_states + 1), n_states)
    model = built(module, n_states=n_states)
    assert lr.checks.check_predictor(model, horizon=16, tolerance=1e-5)

    def law(history: np.ndarray) -> np.ndarray:
        logits = module.model(torch.tensor([[n_states, *history.tolist()]]))[0, -1, :n_states]
        return torch.softmax(logits.double(), dim=-1).detach().numpy()

    algorithm = robust(lr.FromFunction(law, n_states), early(lr.matching(n_states), 16))
    tokens = np.stack([np.full(16, state) for state in range(n_states)])
    laws = model.predict_sequence(tokens)
    np.testing.assert_allclose(laws, algorithm.predict_sequence(tokens), atol=1e-5)
    assert np.abs(laws - algorithm.base.predict_sequence(tokens)).max() > 0.1  # it switches


def test_dropout_is_off_for_the_time_of_the_call() -> None:
    noisy, quiet = Shifted(Recurrent(3, dropout=0.5), 2), Shifted(Recurrent(3), 2)
    noisy.model.cell.eval()  # a part that is not being trained
    model, tokens = built(noisy), np.array([[0, 1] * 8])
    np.testing.assert_allclose(model.predict_sequence(tokens), built(quiet).predict_sequence(tokens), atol=1e-12)
    np.testing.assert_allclose(lr.predictors.unroll(model, tokens), model.predict_sequence(tokens), atol=1e-5)
    assert [part.training for part in (noisy, noisy.model, noisy.model.dropout)] == [True] * 3
    assert not noisy.model.cell.training
    noisy.model.embedding = None
    with pytest.raises(TypeError):  # a call that fails leaves the mode alone, too
        model.predict_sequence(tokens)
    assert noisy.model.dropout.training


def test_the_base_is_asked_where_it_is() -> None:
    seen: list[torch.device] = []

    def logits(tokens_BxT: Tensor) -> Tensor:
        seen.append(tokens_BxT.device)
        return torch.zeros(*tokens_BxT.shape, 2)

    base = Given(logits)
    model = built(base)
    assert (model.device.type, seen[0].type) == ("cpu", "cpu")
    base.register_buffer("table", torch.zeros(1, device="meta"))  # moved after it was built on
    model.predict_sequence([0, 1])
    assert seen[-1].type == "meta"


def test_rounding_is_not_looking_ahead_and_little_is() -> None:
    def seeing(much: float) -> nn.Module:
        return Given(lambda tokens: torch.stack([much * tokens, 1 - much * tokens], -1).float())

    built(seeing(1e-5))
    with pytest.raises(ValueError, match="must not look ahead"):
        built(seeing(1e-2))


def test_no_more_tokens_are_tried_than_the_horizon_has() -> None:
    table_TxS = torch.zeros(4, 2)
    base = Given(lambda tokens: table_TxS[torch.arange(tokens.shape[1])].expand(len(tokens), -1, -1))
    assert build(base, early(lr.matching(), 4), gives="logits").horizon == 4


def of_width(n: int) -> nn.Module:
    return Given(lambda tokens: torch.zeros(*tokens.shape, n))


@pytest.mark.parametrize(
    ("base", "gives", "message"),
    [
        (Recurrent(2), "logits", r"base must not look ahead: entry 0 of Recurrent changes with token 0.* pad\(tokens"),
        (
            Given(lambda t: F.pad(t[:, 3:].float(), (0, 3))[..., None].expand(-1, -1, 2)),  # three steps ahead
            "logits",
            "base must not look ahead: entry 3 of Given changes with token 3",
        ),
        (
            Given(lambda t: torch.full((*t.shape, 2), float(t.shape[1]))),
            "logits",
            "base must not look ahead: entry 0 of Given changes with the number of tokens",
        ),
        (
            Given(lambda t: torch.randn(*t.shape, 2)),
            "logits",
            "must say the same when asked twice: Given does not",
        ),
        (of_width(3), "logits", r"base must give \(9, 8, 2\) for tokens \(9, 8\).* Given gives \(9, 8, 3\)"),
        (Given(lambda t: torch.full((*t.shape, 2), torch.nan)), "logits", "Given gives NaN"),
        (of_width(2), "probabilities", "what Given gives, by gives='probabilities', must sum to one"),
    ],
)
def test_what_does_not_fit_is_refused(base: nn.Module, gives: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        built(base, gives)
