"""Every predictor, policy and rule keeps the laws; and the suite catches those that do not."""

from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret import checks

RNG = np.random.default_rng(0)
RPS = lr.rock_paper_scissors()
MATCHING = lr.matching()
PREDICTORS = {
    "urn 1": lr.PolyaUrn(1),
    "urn 2": lr.PolyaUrn(2),
    "urn 3, light prior": lr.PolyaUrn(3, 0.25),
    "scheduled": lr.Scheduled(RNG.dirichlet(np.ones(3), 7)),
    "markov 0": lr.Markov([0.2, 0.8], 0),
    "markov 2": lr.Markov(RNG.dirichlet(np.ones(3), (3, 3)), 2, initial=[0.5, 0.25, 0.25]),
    "markov longer than the horizon": lr.Markov(RNG.dirichlet(np.ones(2), (2,) * 14), 14),
    "function": lr.FromFunction(lambda h: [0.5, 0.5] if len(h) < 2 else [0.1, 0.9], 2),
    "batched function": lr.FromFunction(lambda h: np.full((h.shape[0], 3), 1 / 3), 3, batched=True),
    "robust": lr.robustify(lr.Scheduled([[0.9, 0.1]]), MATCHING, 12),
    "robust robust": lr.robustify(lr.robustify(lr.Markov(np.eye(3) * 0.97 + 0.01, 1), RPS, 12), RPS, 20),
}
POLICIES = {
    "respond": lr.Respond(lr.PolyaUrn(3), RPS, 0.1),
    "respond to robust": lr.robustify(lr.Scheduled([[0.9, 0.1]]), MATCHING, 12).respond(),
    "respond, unknown horizon": lr.Respond(lr.PolyaUrn(3), RPS, None),
    "respond, one action": lr.Respond(lr.PolyaUrn(2), lr.DecisionProblem([[0.3, -0.2]]), 0.1),
    "hedge": lr.Hedge(RPS, 50),
    "hedge, five actions": lr.Hedge(lr.DecisionProblem(RNG.uniform(-1, 1, (5, 3))), 50, rate=0.5),
}


def rules_for(problem: lr.DecisionProblem) -> dict[str, lr.Rule]:
    S = problem.n_states
    return {
        "gap": lr.RegretGap(problem, 40, 0.01, True),
        "gap, unknown horizon": lr.RegretGap(problem, None, span_aware=True, delta=0.5),
        "rate": lr.RegretRate(problem, 40, 0.7),
        "rate, unknown horizon": lr.RegretRate(problem, None, 0.7),
        "exact": lr.ExactTest(problem, 40),
        "exact, no gate": lr.ExactTest(problem, 64, delta=0.2, gate=0),
        "exact, unknown horizon": lr.ExactTest(problem, None, delta=0.3),
        "exact, other fallback": lr.ExactTest(problem, 40, fallback=lr.Scheduled(np.full((1, S), 1 / S))),
        "exact, warm": lr.ExactTest(problem, 40, temperature=0.7),
    }


@pytest.mark.parametrize("law", checks.PREDICTOR_LAWS)
@pytest.mark.parametrize("name", PREDICTORS)
def test_predictors_keep_the_laws(name: str, law: str) -> None:
    checks.PREDICTOR_LAWS[law](checks.predictor_subject(PREDICTORS[name], 12, 4, 0, 1e-12))


@pytest.mark.parametrize("law", checks.POLICY_LAWS)
@pytest.mark.parametrize("name", POLICIES)
def test_policies_keep_the_laws(name: str, law: str) -> None:
    checks.POLICY_LAWS[law](checks.policy_subject(POLICIES[name], 12, 4, 0, 1e-12))


@pytest.mark.parametrize("name", rules_for(MATCHING))
@pytest.mark.parametrize("which", ["matching", "rps", "newsvendor"])
def test_rules_keep_the_laws(name: str, which: str) -> None:
    problem, base = {
        "matching": (MATCHING, lr.Scheduled([[0.9, 0.1]])),
        "rps": (RPS, lr.Markov(np.random.default_rng(1).dirichlet([0.2] * 3, 3) * 0.97 + 0.01, 1)),
        "newsvendor": (lr.newsvendor([0, 1, 2, 3], 5, 3), lr.Scheduled([[0.01, 0.02, 0.02, 0.95]])),
    }[which]
    rule = rules_for(problem)[name]
    kept = checks.check_rule(rule, base, horizon=40, tolerance=1e-12)
    assert len(kept) == len(checks.RULE_LAWS) + len(checks.PREDICTOR_LAWS)
    tokens = checks.rule_trial(rule, base, 40, 64, 0, 1e-12).tokens
    times = rule.trip_times(base.predict_sequence(tokens), tokens)
    assert (times <= 40).any(), "a law that saw no trip shows little"


class Broken(lr.PolyaUrn):
    """An urn with one fault."""

    def __init__(self, fault: str) -> None:
        super().__init__(2)
        object.__setattr__(self, "fault", fault)
        object.__setattr__(self, "calls", [0])

    def start(self, batch_shape: Any = (), like: Any = None) -> Any:
        return self._turned(super().start(batch_shape, like=like))

    def _turned(self, memory: Any) -> Any:
        """States before streams: fine until someone selects streams."""
        return memory._replace(counts=memory.counts.T) if self.fault == "batch axes not first" else memory

    def predict(self, memory: Any) -> Any:
        probs = super().predict(self._turned(memory))
        if self.fault == "not probabilities":
            return probs * 1.01
        if self.fault == "not pure":
            self.calls[0] += 1
            noise = 1e-3 * self.calls[0]
            return probs * (1 - noise) + noise / 2
        if self.fault == "reads in place":
            memory.counts[...] += 1
        return probs

    def update(self, memory: Any, token: Any) -> Any:
        if self.fault == "writes in place" and isinstance(memory.counts, np.ndarray):
            new = super().update(memory, token)
            memory.counts[...] = new.counts
            return new._replace(counts=memory.counts)
        return self._turned(super().update(self._turned(memory), token))

    def predict_sequence(self, tokens: Any) -> Any:
        probs = super().predict_sequence(tokens)
        if self.fault == "looks ahead":
            return np.roll(probs, -1, axis=-2)
        if self.fault == "off by one":
            return np.concatenate([probs[..., :1, :], probs[..., :-1, :]], axis=-2)
        if self.fault == "NumPy only":
            return np.asarray(probs)
        return probs


@pytest.mark.parametrize(
    ("fault", "law", "advice"),
    [
        ("not probabilities", "probabilities are probabilities", "must sum to one"),
        ("not pure", "predict is pure", "must not draw or remember"),
        ("reads in place", "predict is pure", "predict"),
        ("writes in place", "update leaves its memory alone", "must return a new one"),
        ("writes in place", "forks diverge", "must not write into arrays"),
        ("looks ahead", "the future is unseen", "looks ahead"),
        ("off by one", "sequence equals streaming", "after exactly the first t tokens"),
        ("batch axes not first", "streams can be reordered", "streams"),
        ("NumPy only", "torch equals NumPy", "in the namespace and on the device"),
    ],
)
def test_the_suite_names_what_is_broken(fault: str, law: str, advice: str) -> None:
    with pytest.raises(checks.LawBroken) as caught:
        checks.check_predictor(Broken(fault))
    message = str(caught.value)
    assert f"[{law}]" in message
    assert "Broken" in message
    assert advice in message


def test_what_is_no_predictor_is_told_what_it_lacks() -> None:
    with pytest.raises(checks.LawBroken, match="has no start, predict"):
        checks.check_predictor(object())  # type: ignore[arg-type]
    with pytest.raises(checks.LawBroken, match="has no policy"):
        checks.check_policy(lr.PolyaUrn(2))  # type: ignore[arg-type]


class Forgetful(lr.ExactTest):
    """A rule that trusts again."""

    def tripped(self, memory: Any) -> Any:
        return memory.tripped_at == memory.step


def test_a_rule_that_trusts_again_is_caught() -> None:
    with pytest.raises(checks.LawBroken, match="one-way"):
        checks.check_rule(Forgetful(MATCHING, 40), lr.Scheduled([[0.9, 0.1]]), horizon=40)
