"""A model beside incumbents: Algorithm 1 with regret to the best of the fixed actions and the references.

Or to pairs of actions: what is played after an alarm is then no response to a law (``policies/pairs.py``), either.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import inputs
from ..arrays import Array, astype, beside, count_up, last, namespace
from ..certificates import Certificate
from ..policies import Incumbent, Policy
from ..predictors import Predictor, asked, asked_sequence, same_states, within_window
from ..problems import DecisionProblem, Known, with_first
from ..rules import ExactTest, Rule, RuleMemory, spliced


class ReferencesMemory(NamedTuple):
    base: Any
    references: tuple[Any, ...]
    probs: Array  # [..., S], what the base model predicts now
    known: Known | None  # laws [..., N, S], what the references predict now; None: there are none
    rule: RuleMemory


def refuse_untested(rule: Rule) -> None:
    """A predictor is its base until an alarm; without a test there is none."""
    if rule.untested:
        raise ValueError(
            "test=False plays a mixture from the first step on, and a robust predictor is its base model "
            "until an alarm: a Guard takes it, or lr.Mixture([model, ...]) is one"
        )


@dataclass(frozen=True)
class BesideReferences(Predictor, Policy):
    """``base`` until ``rule`` trips; from then on what the rule falls back on, told what ``references`` predict.

    It is a policy. Where the rule falls back on an incumbent it is a predictor too: its laws are the base's until the
    alarm and the incumbent's from then on. Otherwise Hedge over actions may be played, which responds to no law, and
    ``predict`` is refused.
    """

    base: Predictor
    references: tuple[Predictor, ...]
    rule: ExactTest

    def __post_init__(self) -> None:
        if isinstance(self.rule, Rule):
            refuse_untested(self.rule)
        right = isinstance(self.rule, ExactTest) and (bool(self.rule.references) or self.rule.internal)
        if not right or self.rule.contexts is not None or self.rule.payoffs != "fixed":
            raise ValueError(
                "rule must be an ExactTest with references (or internal=True), and without contexts, payoffs that are "
                f"told or a lag, for a predictor sees every token before the next and is told nothing else, got "
                f"{inputs.shown(self.rule)}"
            )
        inputs.keep(self, references=tuple(self.references))
        if len(self.references) != len(self.rule.references):
            raise ValueError(f"references must be {len(self.rule.references)} predictors, got {len(self.references)}")
        for predictor in (self.base, *self.references):
            same_states(predictor, self.rule.problem)
            if self.rule.horizon is not None:
                within_window(predictor, self.rule.horizon, type(predictor).__name__)

    @property
    def problem(self) -> DecisionProblem:  # type: ignore[override]
        return self.rule.problem

    @property
    def n_states(self) -> int:  # type: ignore[override]
        return self.rule.n_states

    @property
    def certificate(self) -> Certificate:
        """What is guaranteed."""
        return self.rule.certificate

    def start(self, batch_shape: tuple[int, ...] = (), like: Array | None = None) -> ReferencesMemory:
        shape = inputs.batch_shape_of(batch_shape)
        base = self.base.start(shape, like=like)
        references = tuple(reference.start(shape, like=like) for reference in self.references)
        probs = asked(self.base, base, shape)
        rule = self.rule.start(shape, like=probs)
        return ReferencesMemory(base, references, probs, self._known(references, probs, shape), rule)

    def predict(self, memory: ReferencesMemory) -> Array:
        self._lawful()
        return self.rule.law(memory.rule, memory.probs, memory.known)

    def policy(self, memory: ReferencesMemory) -> Array:
        moment = self.rule.look(memory.rule, memory.probs, memory.known)
        return astype(last(with_first(self.rule.answer(memory.rule, moment))), memory.probs.dtype)

    def update(self, memory: ReferencesMemory, token: Array) -> ReferencesMemory:
        shape = tuple(memory.rule.step.shape)
        token = inputs.tokens_of(token, self.n_states, "token", shape=shape, like=memory.rule.step)
        self.rule.refuse_past_horizon(memory.rule)
        moment = self.rule.look(memory.rule, memory.probs, memory.known)
        rule = self.rule.advance(memory.rule, moment, token)
        base = self.base.update(memory.base, token)
        each = tuple(r.update(m, token) for r, m in zip(self.references, memory.references, strict=True))
        probs = asked(self.base, base, shape)
        return ReferencesMemory(base, each, probs, self._known(each, probs, shape), rule)

    def predict_sequence(self, tokens: Array) -> Array:
        self._lawful()
        probs, known, tokens = self._recorded(tokens)
        times = self.rule.trip_times(probs, tokens, known)
        late = count_up(tokens, 0, tokens.shape[-1]) >= times[..., None]
        assert known is not None
        return spliced(late, known.laws_NxS[..., self.rule.in_play.fallback.index, :], probs)

    def policy_sequence(self, tokens: Array) -> Array:
        probs, known, tokens = self._recorded(tokens)
        memory, played = self.rule.start(tuple(tokens.shape[:-1]), like=probs), []
        for t in range(tokens.shape[-1]):
            now = None if known is None else Known(laws_NxS=known.laws_NxS[..., t, :, :])
            moment = self.rule.look(memory, probs[..., t, :], now)
            played.append(astype(last(with_first(self.rule.answer(memory, moment))), probs.dtype))
            memory = self.rule.advance(memory, moment, tokens[..., t])
        return namespace(probs).stack(played, axis=-2)

    def trip_times(self, tokens: Array) -> Array:
        """The number of tokens seen when each sequence ``[..., T]`` switched; T + 1 for never."""
        probs, known, tokens = self._recorded(tokens)
        return self.rule.trip_times(probs, tokens, known)

    def switched(self, memory: ReferencesMemory) -> Array:
        """Which streams ``[...]`` have switched."""
        return self.rule.tripped(memory.rule)

    def _lawful(self) -> None:
        if self.rule.fallback_acts:
            raise ValueError(
                "predict needs a rule that falls back on laws, and this may play Hedge over its comparators: "
                "take policy(memory), or challenge(new, incumbent, ...), which falls back on the incumbent"
            )

    def _known(self, references: tuple[Any, ...], probs: Array, shape: tuple[int, ...]) -> Known | None:
        laws = [asked(r, memory, shape) for r, memory in zip(self.references, references, strict=True)]
        return _said(laws, probs)

    def _recorded(self, tokens: Array) -> tuple[Array, Known | None, Array]:
        """What base and references say before each token, and the tokens beside them."""
        tokens = inputs.sequences_of(tokens, self.n_states)
        self.rule.refuse_longer(tokens.shape[-1])
        probs = asked_sequence(self.base, tokens)
        known = _said([asked_sequence(reference, tokens) for reference in self.references], probs)
        return probs, known, beside(tokens, probs)


def _said(laws: list[Array], probs: Array) -> Known | None:
    """What the references said, beside ``probs``; None: there are none."""
    if not laws:
        return None
    return Known(laws_NxS=namespace(probs).stack([astype(law, probs.dtype) for law in laws], axis=-2))


def challenge(
    new: Predictor,
    incumbent: Predictor,
    problem: DecisionProblem,
    horizon: int | None,
    *,
    delta: float | None = None,
    temperature: float | None = None,
) -> BesideReferences:
    """Ship a new model on approval: it costs at most the certificate against the old one, and is pulled if it must be.

    ``new`` until the bets of the incumbent reach 1/delta, the incumbent from then on. If ``new`` is right it is pulled
    with probability at most ``delta`` (1/horizon by default).

    >>> from lowregret import PolyaUrn, matching
    >>> from lowregret.predictors import Scheduled
    >>> on_trial = challenge(Scheduled([[0.9, 0.1]]), PolyaUrn(2), matching(), horizon=1000, delta=0.01)
    >>> on_trial.trip_times([[0] * 100, [1] * 100]).tolist()
    [101, 5]
    >>> print(f"{on_trial.certificate.regret_bound:.4f}")
    0.0525
    """
    for argument, predictor in (("new", new), ("incumbent", incumbent)):
        try:
            same_states(predictor, problem)
        except ValueError as error:
            raise ValueError(f"{argument}: {error}") from error
    if horizon is None and delta is None:
        raise ValueError(
            "horizon=None (unknown) needs an explicit delta, how likely a new model that is right may be pulled: "
            "challenge(new, incumbent, problem, None, delta=...)"
        )
    name = "the incumbent"
    rule = ExactTest(
        problem,
        horizon,
        delta,  # type: ignore[arg-type]
        (name,),
        actions=False,
        fallback=Incumbent(name),  # type: ignore[arg-type]
        temperature=temperature,
    )
    return BesideReferences(new, (incumbent,), rule)
