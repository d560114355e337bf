"""Context-tree weighting is the mixture of all context trees, and finds the order of a source that nobody told it."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats

import lowregret as lr

Tree = tuple | None  # None: a leaf; else one subtree for each token


def trees(S: int, depth: int, stop: float) -> Iterator[tuple[Tree, float]]:
    """Every context tree up to a depth, with its prior."""
    if depth == 0:
        yield None, 1.0
        return
    yield None, stop
    for children in itertools.product(list(trees(S, depth - 1, stop)), repeat=S):
        yield tuple(tree for tree, _ in children), (1 - stop) * math.prod(weight for _, weight in children)


def leaf_of(tree: Tree, past: list[int]) -> tuple[int, ...] | None:
    """The context, newest token first, in which a past ends; None where it is too short to tell."""
    context: tuple[int, ...] = ()
    while tree is not None:
        if len(context) == len(past):
            return None
        context, tree = (*context, past[-1 - len(context)]), tree[past[-1 - len(context)]]
    return context


def enumerated(tokens: list[int], S: int, depth: int, prior: float, stop: float) -> np.ndarray:
    """The posterior average over all trees, each played literally, ``[T, S]``."""
    every = list(trees(S, depth, stop))
    assert sum(weight for _, weight in every) == pytest.approx(1)
    weights, laws = np.array([weight for _, weight in every]), []
    for t, token in enumerate(tokens):
        said = []
        for tree, _ in every:
            context = leaf_of(tree, tokens[:t])
            alike = [] if context is None else [s for s in range(t) if leaf_of(tree, tokens[:s]) == context]
            counts = np.bincount([tokens[s] for s in alike], minlength=S)
            said.append((counts + prior) / (len(alike) + S * prior))
        laws.append(weights @ np.array(said) / weights.sum())
        weights = weights * np.array(said)[:, token]
    return np.array(laws)


@pytest.mark.parametrize(
    ("S", "depth", "prior", "stop"),
    [(2, 0, 0.5, 0.5), (2, 1, 0.5, 0.5), (2, 3, 0.5, 0.5), (2, 3, 1.0, 0.2), (3, 2, 0.5, 0.5), (3, 2, 1 / 3, 0.7)],
)
def test_it_is_the_mixture_of_all_trees(S: int, depth: int, prior: float, stop: float) -> None:
    rng = np.random.default_rng(S * depth)
    tokens = [*rng.integers(S, size=14).tolist(), *([0, 1] * 5)]
    found = lr.predictors.ContextTree(S, depth, prior, stop).predict_sequence(tokens)
    np.testing.assert_allclose(found, enumerated(tokens, S, depth, prior, stop), atol=1e-12)


def test_three_states_three_deep() -> None:
    """730 trees, few tokens."""
    tokens = [0, 1, 2, 2, 0, 1, 2, 2, 0, 1]
    found = lr.predictors.ContextTree(3, 3).predict_sequence(tokens)
    np.testing.assert_allclose(found, enumerated(tokens, 3, 3, 0.5, 0.5), atol=1e-12)


@pytest.mark.parametrize("prior", [1e-9, 1e-18])
def test_what_is_hardly_thought_possible_is_so_to_the_last_digit(prior: float) -> None:
    """States that never came, after one that just came first: the leaf is sure, its child knows nothing."""
    tokens = [*[0, 1, 1, 0] * 12, 2, 2, 3, 2, 3, 3, 0, 3, 1, 2]
    found = lr.predictors.ContextTree(4, 2, prior).predict_sequence(tokens)
    assert (found > 0).all()
    np.testing.assert_allclose(found, enumerated(tokens, 4, 2, prior, 0.5), rtol=1e-9)


def test_depth_zero_is_the_urn() -> None:
    tokens = np.random.default_rng(0).integers(3, size=(4, 50))
    urn = lr.PolyaUrn(3, 0.5).predict_sequence(tokens)
    np.testing.assert_allclose(lr.predictors.ContextTree(3, 0).predict_sequence(tokens), urn, atol=1e-15)


def log_losses(laws: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    return -np.log(np.take_along_axis(laws, tokens[..., None], axis=-1)[..., 0]).sum(-1)


def test_it_beats_every_fixed_order() -> None:
    """A source that looks back 0, 1 or 4 tokens, as the last ones are; a fixed order is a tree that never stops.

    The mean log loss over 40 sequences is less than that of each order at 99.9% confidence (paired, one-sided).
    """
    rng, N, T = np.random.default_rng(1), 40, 800
    chance = rng.uniform(0.05, 0.95, 16)
    tokens = np.zeros((N, T), dtype=np.int64)
    for t in range(T):
        last = [tokens[:, max(t - k, 0)] for k in range(1, 5)]
        deep = chance[last[1] * 8 + last[2] * 4 + last[3] * 2 + last[1]]
        p = np.where(last[0] == 1, 0.3, np.where(last[1] == 1, 0.9, deep))
        tokens[:, t] = rng.random(N) < p
    tree = log_losses(lr.predictors.ContextTree(2, 6).predict_sequence(tokens), tokens)
    for order in range(7):
        fixed = log_losses(lr.predictors.ContextTree(2, order, stop=1e-12).predict_sequence(tokens), tokens)
        apart = fixed - tree
        low = apart.mean() - stats.t.ppf(0.999, N - 1) * apart.std(ddof=1) / math.sqrt(N)
        assert low > 0, (order, apart.mean())


def test_its_loss_is_within_the_description_of_the_best_tree() -> None:
    """-log P <= the best tree's own log loss + what its prior says, on every sequence: it is a mixture."""
    rng = np.random.default_rng(2)
    tokens = rng.integers(2, size=(1, 60))
    mixed = log_losses(lr.predictors.ContextTree(2, 2).predict_sequence(tokens), tokens)[0]
    for order, prior in ((0, 0.5), (1, 0.5**3), (2, 0.5**3)):
        fixed = log_losses(lr.predictors.ContextTree(2, order, stop=1e-13).predict_sequence(tokens), tokens)[0]
        assert mixed <= fixed - math.log(prior) + 1e-9


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((0, 2), "n_states"), ((2, -1), "depth"), ((2, 2, 0.0), "prior"), ((2, 2, 0.5, 1.5), "stop"), ((2, 30), "depth")],
)
def test_what_does_not_fit_is_refused(arguments: tuple, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        lr.predictors.ContextTree(*arguments)
