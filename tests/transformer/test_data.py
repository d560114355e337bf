"""Sources and other worlds are drawn as they say, and the greedy adversary plays against the student itself."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import chi2

import lowregret as lr
from lowregret.transformer import Decoder, Size, Transformer, data

SMALL = Size(32, 16, 2, 1, 32)


def test_two_states_are_drawn_as_more_are() -> None:
    laws = torch.rand((7, 50), generator=torch.Generator().manual_seed(0))
    two = data.draw(torch.stack([laws, 1 - laws], -1), 7, data.generator("cpu", 1))
    three = data.draw(torch.stack([laws, 1 - laws, 0 * laws], -1), 7, data.generator("cpu", 1))
    assert torch.equal(two, three)
    assert two.dtype == three.dtype


def test_sources_are_drawn_from_their_laws() -> None:
    """Chances within 5 standard errors (chance of failing below 1e-4 over all bits); the urn's sums are uniform."""
    n, T = 20_000, 16
    source = lr.evaluate.sources.paper_sources(T)["sin2"]
    chance = source.predict_sequence([0] * T)[:, 1]
    mean = data.sequences(source, n, T, data.generator("cpu", 0)).double().mean(0).numpy()
    assert (np.abs(mean - chance) <= 5 * np.sqrt(chance * (1 - chance) / n) + 1e-9).all()
    sums = data.sequences(lr.PolyaUrn(2), n, T, data.generator("cpu", 0)).sum(-1)
    counts = torch.bincount(sums, minlength=T + 1).double()
    expected = n / (T + 1)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < chi2.ppf(1 - 1e-6, T)


def test_every_world_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth each; half follow the source up to a uniform step. Each share within 5 standard errors."""
    n, T = 4000, 16
    worlds = ("urns", "drifts", "changes", "turned", "stuck")
    for k, world in enumerate(worlds, start=1):
        monkeypatch.setattr(data, world, lambda *_, k=k: torch.full((n, T), k))
    monkeypatch.setattr(data, "sequences", lambda *_: torch.zeros((n, T)).long())
    tokens = data.other_worlds(lr.PolyaUrn(6), n, T, data.generator("cpu", 0))
    within = 5 * math.sqrt(0.25 / n)
    for k in range(1, 6):
        assert float((tokens[:, -1] == k).double().mean()) == pytest.approx(0.2, abs=within)
    for t in range(T):
        follows = 0.5 * (T - 1 - t) / T
        assert float((tokens[:, t] == 0).double().mean()) == pytest.approx(follows, abs=within)
    assert bool(((tokens == 0) | (tokens == tokens[:, -1:])).all())


def test_worlds_are_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    n, T, random = 8000, 64, data.generator("cpu", 0)
    within = 5 * math.sqrt(0.25 / n)
    bits = torch.randint(2, (50, T), generator=random)
    assert torch.equal(data.turned(bits, 2, random), 1 - bits)
    three = torch.arange(3).repeat(200, 1)
    renamed = data.turned(three, 3, random)
    assert torch.equal(renamed.sort(-1).values, three)
    assert len(renamed.unique(dim=0)) == 5  # every renaming but none at all
    at = torch.tensor([0, 20, 63] * 100)
    near = data.stuck(torch.arange(T).repeat(300, 1), at, random)
    assert [set(near[at == k].flatten().tolist()) for k in (0, 20, 63)] == [
        {0, 1, 2},
        {18, 19, 20, 21, 22},
        {61, 62, 63},
    ]
    # Law k gives state k: the tokens count the changes so far, each at a uniform step of 1.5 T.
    monkeypatch.setattr(data, "dirichlet", lambda shape, random: torch.eye(6).expand(n, 6, 6))
    parts = data.changes(n, T, 6, random).double()
    assert bool((parts.diff() >= 0).all())
    for t in range(T):
        assert float(parts[:, t].mean()) == pytest.approx(5 * t / (1.5 * T), abs=5 * math.sqrt(1.25 / n))
    # From state 0 to 1, half of them by a state of their own: |sin| of a uniform phase has mean 2/pi at every step.
    monkeypatch.setattr(data, "dirichlet", lambda shape, random: torch.eye(2).expand(n, 2, 2))
    ones = data.drifts(n, T, 2, random).double().mean(0)
    np.testing.assert_allclose(ones, 0.5 * 2 / math.pi + 0.25, atol=within)


@pytest.mark.parametrize("n_states", [2, 4])
def test_worlds_are_sequences_of_states(n_states: int) -> None:
    table = np.random.default_rng(0).dirichlet(np.ones(n_states), 64)
    for source in (
        lr.predictors.Scheduled(table),
        lr.PolyaUrn(n_states),
        lr.Markov(np.full((n_states,) * 2, 1 / n_states), 1),
    ):
        tokens = data.other_worlds(source, 50, 64, data.generator("cpu", 1))
        assert tokens.shape == (50, 64)
        assert set(tokens.unique().tolist()) == set(range(n_states))
        assert torch.equal(tokens, data.other_worlds(source, 50, 64, data.generator("cpu", 1)))
        assert not torch.equal(tokens, data.other_worlds(source, 50, 64, data.generator("cpu", 2)))


def test_some_worlds_end_at_home() -> None:
    """Half of them, from the later of two uniform steps on; each share within 5 standard errors."""
    n, T = 4000, 16
    tokens = data.back_home(torch.zeros((n, T)).long(), torch.ones((n, T)).long(), data.generator("cpu", 0))
    assert bool((tokens.diff() >= 0).all())
    for t in range(T):
        expected = 0.5 * ((t + 1) / T) ** 2
        assert float(tokens[:, t].double().mean()) == pytest.approx(expected, abs=5 * math.sqrt(0.25 / n))


def greedy_play(model: Transformer, source: lr.Predictor, n: int) -> torch.Tensor:
    """As ``Distil`` has the adversary play against its student."""
    random, T = data.generator("cpu", 0), model.context
    home = data.sequences(source, n, T, random)
    return data.roll(model.decoder, n, T, data.greedy_choice(home, lr.matching().utility, T**-0.5, random))


def test_the_pool_holds_what_the_greedy_adversary_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    coin, source = lr.matching(), lr.evaluate.sources.paper_sources(32)["b"]
    model = Transformer(Decoder(2, SMALL, seed=8))
    real = torch.rand
    # Uniforms of one: nobody follows the source, nothing is noise.
    monkeypatch.setattr(torch, "rand", lambda *a, **k: torch.ones_like(real(*a, **k)))
    played = greedy_play(model, source, 3)
    worst = lr.evaluate.adversaries.greedy(model, coin, 32)
    assert played.tolist() == [worst.tokens.tolist()] * 3


def test_greedy_play_follows_the_source_first_and_makes_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Off the source's path a token is random with a chance of .75 x .15, and half of the random ones are another."""
    n, T = 600, 32
    model = Transformer(Decoder(2, SMALL, seed=8))
    home = torch.randint(2, (n, T), generator=torch.Generator().manual_seed(3))
    monkeypatch.setattr(data, "sequences", lambda *_: home)
    played = greedy_play(model, lr.PolyaUrn(2), n)
    law = model.probs_on_device(played)[..., 1]
    least = torch.where(law < 0.5, 1, 0)  # of two states the one that the response earns less on
    random = data.generator("cpu", 0)  # how long each follows is drawn first, then whether it does
    follow = torch.randint(T, (n,), generator=random)
    follow = torch.where(torch.rand(n, generator=random) < 0.5, follow, 0)
    follows = torch.arange(T) < follow[:, None]
    assert bool((played == home)[follows].all())
    alone = follow == 0
    wrong = (played != least)[alone].double().mean(-1)
    assert abs(float(wrong.mean()) - 0.75 * 0.15 / 2) <= 5 * float(wrong.std()) / math.sqrt(len(wrong))
    spread = 5 * math.sqrt(0.25 / n)
    assert 0.5 - spread <= float(alone.double().mean()) <= 0.5 + 1 / T + spread
