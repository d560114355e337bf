"""Every predictor, policy and test keeps the laws; and the suite catches those that do not."""

import dataclasses
import inspect
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret import checks, construct, transformer

RNG = np.random.default_rng(0)
RPS = lr.rock_paper_scissors()
MATCHING = lr.matching()


def restart(problem: lr.DecisionProblem, base: lr.Markov) -> lr.AverageRestart:
    """With copies that live for five steps and switch soon."""
    urn = lr.PolyaUrn(problem.n_states)
    return lr.AverageRestart(base, problem, base.window, 5, 20, test=lr.ExactTest(0.7, 5), fallback=urn)


ONE_ACTION = lr.DecisionProblem([[0.3, -0.2]])
MISTAKEN = lr.predictors.Scheduled([[0.9, 0.1]])
ALTERNATOR = lr.Markov([[0.1, 0.9], [0.9, 0.1]], 1)
STICKY = lr.Markov(np.eye(3) * 0.97 + 0.01, 1)
SIZE = transformer.Size(context=12, width=24, heads=3, layers=2, inner=48)
PREDICTORS = {
    "urn 1": lr.PolyaUrn(1),
    "urn 2": lr.PolyaUrn(2),
    "urn 3, light prior": lr.PolyaUrn(3, 0.25),
    "scheduled": lr.predictors.Scheduled(RNG.dirichlet(np.ones(3), 7)),
    "markov 0": lr.Markov([0.2, 0.8], 0),
    "markov 2": lr.Markov(RNG.dirichlet(np.ones(3), (3, 3)), 2, initial=[0.5, 0.25, 0.25]),
    "markov longer than the horizon": lr.Markov(RNG.dirichlet(np.ones(2), (2,) * 14), 14),
    "function": lr.FromFunction(lambda h: [0.5, 0.5] if len(h) < 2 else [0.1, 0.9], 2),
    "batched function": lr.FromFunction(lambda h: np.full((h.shape[0], 3), 1 / 3), 3, batched=True),
    "shrunk urn": lr.predictors.ShrunkUrn(RPS, 12),
    "shrunk urn, past the edge": lr.predictors.ShrunkUrn(lr.DecisionProblem([[1.0, -0.5], [-0.25, 0.75]]), 12, c=9.0),
    "mixture": lr.Mixture([MISTAKEN, lr.PolyaUrn(2)]),
    "robust, the urn for good": lr.robustify(MISTAKEN, MATCHING, 12, fallback=lr.PolyaUrn(2)),
    "robust": lr.robustify(MISTAKEN, MATCHING, 12),
    "robust robust": lr.robustify(lr.robustify(STICKY, RPS, 12), RPS, 20),
    "robust, unknown problem": lr.robustify(MISTAKEN, None, 12),
    "average restart": restart(MATCHING, ALTERNATOR),
    "transformer": transformer.Transformer(transformer.Decoder(3, SIZE, seed=2).double()),
    "constructed": construct.build(MISTAKEN, lr.robust.algorithm_1(MATCHING, lr.RegretRate(12, 0.7))),
}
POLICIES = {
    "respond": lr.policies.Respond(lr.PolyaUrn(3), RPS, 0.1),
    "respond to robust": lr.robustify(MISTAKEN, MATCHING, 12).respond(),
    "respond, unknown horizon": lr.policies.Respond(lr.PolyaUrn(3), RPS, None),
    "respond, one action": lr.policies.Respond(lr.PolyaUrn(2), ONE_ACTION, 0.1),
    "hedge": lr.policies.Hedge(RPS, 50),
    "hedge, five actions": lr.policies.Hedge(lr.DecisionProblem(RNG.uniform(-1, 1, (5, 3))), 50, rate=0.5),
    "adahedge": lr.policies.AdaHedge(MATCHING),
    "adahedge, rps": lr.policies.AdaHedge(RPS),
    "adahedge, one action": lr.policies.AdaHedge(ONE_ACTION),
    "fixed share": lr.policies.FixedShare(RPS, 50),
    "fixed share, quick": lr.policies.FixedShare(MATCHING, 50, rate=2.0, share=0.3),
    "restart hedge": lr.policies.RestartHedge(RPS, 4),
    "restart hedge, in blocks": lr.policies.RestartHedge(MATCHING, 4, averaged=False, rate=0.5),
    "average restart": restart(MATCHING, ALTERNATOR),
    "average restart, rps": restart(RPS, STICKY),
}
BASES = {
    "matching": (MATCHING, MISTAKEN),
    "rps": (RPS, lr.Markov(np.random.default_rng(1).dirichlet([0.2] * 3, 3) * 0.97 + 0.01, 1)),
    "newsvendor": (lr.newsvendor([0, 1, 2, 3], 5, 3), lr.predictors.Scheduled([[0.01, 0.02, 0.02, 0.95]])),
}


def robust_for(problem: lr.DecisionProblem, base: lr.Predictor) -> dict[str, lr.robust.Robust]:
    S = problem.n_states
    made: dict[str, dict[str, Any]] = {
        "gap": {"test": lr.RegretGap(40, 0.01, span_aware=True)},
        "gap, unknown horizon": {"test": lr.RegretGap(None, span_aware=True, delta=0.5)},
        "gap, sharp": {"test": lr.RegretGap(40, 0.01, sharp=True)},
        "rate": {"test": lr.RegretRate(40, 0.7)},
        "rate, unknown horizon": {"test": lr.RegretRate(None, 0.7)},
        "rate, other fallback": {
            "test": lr.RegretRate(40, 0.7),
            "fallback": lr.predictors.Scheduled(np.full((1, S), 1 / S)),
        },
        "exact": {"test": lr.ExactTest(1 / 40, 40)},
        "exact, urn": {"test": lr.ExactTest(0.3, 40), "fallback": lr.PolyaUrn(S)},
        "exact, unknown horizon": {"test": lr.ExactTest(0.3)},
        "exact, warm": {"test": lr.ExactTest(1 / 40, 40), "response": lr.QuantalResponse(0.7)},
    }
    found = {name: lr.robustify(base, problem, **parts) for name, parts in made.items()}
    if S == 2:
        found["v-regret"] = lr.robustify(base, None, test=lr.VRegret(40))
        tips = [0, 0.2, 0.5, 0.8, 1]
        found["v-regret, threshold"] = lr.robustify(base, None, test=lr.VRegret(40, 0.4, tips, "threshold"))
    return found


ROBUST = {(which, name): safe for which, made in BASES.items() for name, safe in robust_for(*made).items()}
EXAMPLES: dict[type, dict[str, Any]] = {lr.Predictor: PREDICTORS, lr.policies.Policy: POLICIES}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_public_class_has_an_example(kind: type) -> None:
    folders = (lr.predictors, lr.policies, lr.robust, transformer, construct)
    public = [getattr(folder, name) for folder in folders for name in folder.__all__]
    classes = {c for c in public if inspect.isclass(c) and kind in c.__mro__[1:] and not inspect.isabstract(c)}
    assert classes - {type(example) for example in EXAMPLES[kind].values()} == set()  # add one to the table above


@pytest.mark.parametrize("name", PREDICTORS)
def test_predictors_keep_the_laws(name: str) -> None:
    assert len(checks.check_predictor(PREDICTORS[name], tolerance=1e-12)) >= len(checks.LAWS)


@pytest.mark.parametrize("name", POLICIES)
def test_policies_keep_the_laws(name: str) -> None:
    assert checks.check_policy(POLICIES[name], tolerance=1e-12) == list(checks.LAWS)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("robust", MISTAKEN),
        ("robust, unknown problem", MISTAKEN),
        ("average restart", ALTERNATOR),
        ("constructed", MISTAKEN),
        ("average restart, rps", STICKY),
    ],
)
def test_the_examples_that_may_switch_do(name: str, base: lr.Predictor) -> None:
    """Otherwise the laws above would say little of them."""
    player, verb = (PREDICTORS[name], "predict") if name in PREDICTORS else (POLICIES[name], "policy")
    tokens = checks.subject_of(player, verb, 12, 4, 0, 1e-12).tokens
    own: Any = base if verb == "predict" else lr.policies.Respond(base, player.problem, player.temperature)
    apart = getattr(player, f"{verb}_sequence")(tokens) - getattr(own, f"{verb}_sequence")(tokens)
    assert 0.1 < (np.abs(apart).max(axis=-1) > 1e-3).mean() < 1


@pytest.mark.parametrize(("which", "name"), ROBUST)
def test_robust_predictors_keep_the_laws(which: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting, value in {"_LONGEST": 24, "_WIDTH": 8, "_MOST_SEQUENCES": 2**9}.items():
        monkeypatch.setattr(f"lowregret.checks.robust.{setting}", value)  # tests/rules/test_promises.py searches more
    safe = ROBUST[which, name]
    kept = checks.check_robust(safe, horizon=40, streams=24, tolerance=1e-12)
    assert len(kept) == len(checks.ROBUST_LAWS) + len(checks.LAWS)
    tokens = checks.robust_trial(safe, 40, 24, 0, 1e-12).tokens
    assert (safe.alarm_times(tokens) <= 40).any(), "a law that saw no alarm shows little"


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
        ("not pure", "reading is pure", "must not draw or remember"),
        ("reads in place", "reading is pure", "predict"),
        ("writes in place", "update leaves its memory alone", "must return a new one"),
        ("writes in place", "forks diverge", "must not write into arrays"),
        ("looks ahead", "sequence equals streaming", "no later one counts"),
        ("off by one", "sequence equals streaming", "after exactly 1 tokens"),
        ("batch axes not first", "streams can be reordered", "streams"),
        ("NumPy only", "torch equals numpy", "in the namespace and on the device"),
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


class Forgetful(lr.robust.Robust):
    """A predictor that trusts again."""

    def switched(self, memory: Any) -> Any:
        alarm, observed = (self.streams.read(memory.rows, name, memory.probs) for name in ("alarm", "observed"))
        return super().switched(memory) & (alarm == observed)


def test_an_alarm_that_is_taken_back_is_caught() -> None:
    safe = lr.robustify(MISTAKEN, MATCHING, 40)
    with pytest.raises(checks.LawBroken, match="alarms are for good"):
        checks.check_robust(Forgetful(MISTAKEN, safe.setting, MATCHING), horizon=40)


@dataclass(frozen=True)
class Borrowed:
    """A test that counts losses in a row, and shows another's certificate."""

    horizon: int
    patience: int = 5
    promise: Any = None

    @property
    def delta(self) -> float:
        return 1 / self.horizon

    def watch(self, setting: Any) -> "InARow":
        return InARow(self.patience)

    def usual_fallback(self, problem: Any) -> lr.PolyaUrn:
        return lr.PolyaUrn(problem.n_states)

    def certify(self, setting: Any, steps: int | None) -> lr.Certificate:
        exact = lr.robust.algorithm_1(setting.problem, lr.ExactTest(self.delta, self.horizon), setting.fallback)
        return self.promise or exact.certificate


class InARow:
    """``Borrowed`` at work: steps in a row in which the fallback's response was better."""

    fresh_level, in_logs, compares = 0.0, False, True

    def __init__(self, patience: int) -> None:
        self.threshold = float(patience)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"losses": ()}

    def start(self, memory: Any) -> None: ...

    def update(self, memory: Any, step: Any, outcome: Any, number_N: Any, alarmed: Any) -> Any:
        gained_N = ((step.mixed_NxA - step.model_NxA) * outcome.paid_NxA).sum(-1)
        memory.losses[:] = (memory.losses + 1) * (gained_N > 0)
        return memory.losses * 1.0


def borrowed(horizon: int, patience: int, promise: Any = None) -> lr.robust.Robust:
    return lr.robustify(MISTAKEN, MATCHING, test=Borrowed(horizon, patience, promise))


def broken_laws(safe: lr.robust.Robust) -> dict[str, str]:
    """What the suite says of each law that it finds broken."""
    try:
        checks.check_robust(safe)
    except checks.LawBroken as error:
        return {line[1:].split("]")[0]: line for line in str(error).splitlines()}
    return {}


LEAVES = r"promises a false alarm with a chance of at most 0\.01, and under Scheduled.* it is 0\.\d+ in 12 steps$"
STAYS = r"promises a regret of at most 0\.\d+ after 100 steps, and on \[.*\] it is 0\.\d+$"


@pytest.mark.parametrize(
    ("patience", "says"),
    [
        (1, {"false alarms are as promised": LEAVES}),
        (5, {"regret is as promised": STAYS, "false alarms are as promised": LEAVES}),
        (1000, {"regret is as promised": STAYS}),
    ],
)
def test_a_test_with_another_s_certificate_is_caught(patience: int, says: dict[str, str]) -> None:
    """One that leaves too soon, one that does and that an adversary can string along, and one that never leaves."""
    found = broken_laws(borrowed(100, patience))
    assert found.keys() == says.keys()
    for law, words in says.items():
        assert re.search(words, found[law])


@pytest.mark.parametrize("factor", [1, 0.1])
def test_a_promise_is_tested_exactly_where_all_sequences_can_be_tried(factor: float) -> None:
    """The least that can be promised passes; a tenth of it is caught."""
    safe, tokens = borrowed(10, 3), lr.evaluate.adversaries.all_sequences(2, 10)
    worst = float(lr.external_regret(MATCHING, safe.respond(), tokens)[:, -1].max())
    likely, ones = 0.0, tokens.sum(axis=1)
    for p in (0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9):
        times = dataclasses.replace(safe, base=lr.predictors.Scheduled([[1 - p, p]])).alarm_times(tokens)
        likely = max(likely, float((p**ones * (1 - p) ** (10 - ones))[times < 10].sum()))
    for law, regret_bound, tv_bound in (
        ("regret is as promised", factor * worst, 1.0),
        ("false alarms are as promised", 1.0, factor * likely),
    ):
        promise = lr.Certificate(regret_bound, tv_bound, "By hand.", "a test of mine", MATCHING, horizon=10)
        trial = checks.robust_trial(borrowed(10, 3, promise), 10, 8, 0, 1e-9)
        if factor == 1:
            checks.ROBUST_LAWS[law](trial)
        else:
            with pytest.raises(checks.LawBroken, match="its certificate"):
                checks.ROBUST_LAWS[law](trial)
