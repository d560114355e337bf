"""The exact test: bets against the base model under its own law, sharper than any threshold on regret."""

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from .. import certificates, inputs
from ..arrays import Array, namespace, to_numpy
from ..certificates import Certificate, certify, every_start, over_contexts
from ..certificates.coupled import certificate_temperature, total_kappa
from ..certificates.exact_charge import quick_main_rate
from ..certificates.switching import certify_switch
from ..policies import Policy, Recovery
from ..predictors import Predictor
from ..problems import DecisionProblem, a_problem
from .every_start import Bets, BetStatistics, Suspicion
from .first_start import ExactStatistics, FirstBets
from .moment import Known, Moment, RuleMemory
from .response import UNKNOWN_HORIZON, ResponseRule

_DOUBLE = np.dtype(np.float64)
TOP = 2.0  # no rate above TOP / span: higher ones alarm on models that are miscalibrated but useful


@dataclass(frozen=True)
class ExactTest(ResponseRule):
    """The default: a bet against the base model that, if the model is right, grows past 1/delta with chance delta.

    The base model states the exact law of the next token, so what a bettor expects to win under it is known exactly:
    its wealth is a supermartingale, and no union over time is needed. Bettors on every action join at every step, so a
    break is found however late it comes (``rules/every_start.py`` has the theorem).

    Parameters
    ----------
    delta
        The TV bound; 1/horizon by default, required with ``horizon=None``.
    gate
        How far what is bet on must have risen from its lowest point for an alarm, in units of span * sqrt(t); 0 is off.
    against
        "actions": bets on every action. "fallback": on the response to the fallback.
    starts
        "every": bettors join at every step. "first": all are there from the first step on. With
        ``against="fallback", starts="first", gate=0.5`` this is the test as it was first published.

    >>> from lowregret import matching
    >>> rule = ExactTest(matching(), horizon=1024, delta=2 / 1024)
    >>> print(f"{rule.certificate.regret_bound:.4f} {rule.certificate.tv_bound:.6f}")
    0.0833 0.001953
    """

    delta: float = None  # type: ignore[assignment]
    gate: float = 0.0
    against: str = "actions"
    starts: str = "every"

    def __post_init__(self) -> None:
        for name, choices in (("against", ("actions", "fallback")), ("starts", ("every", "first"))):
            inputs.choice(getattr(self, name), name, choices)
        a_problem(self.problem)
        horizon = inputs.horizon_or_none(self.horizon)
        delta = self.delta
        if delta is None:
            if horizon is None:
                raise ValueError(UNKNOWN_HORIZON)
            delta = 1 / max(horizon, 2)
        inputs.keep(self, delta=inputs.probability(delta, "delta"), gate=inputs.not_negative(self.gate, "gate"))
        if isinstance(self.temperature, str) and self.temperature == "certificate":
            inputs.keep(self, temperature=self._certificate_temperature(horizon))
        super().__post_init__()

    def _usual_fallback(self) -> Predictor | Policy | Recovery:
        """A mixture from which the model can return; the urn where the bets are on the fallback's own response."""
        return Recovery() if self.against == "actions" else super()._usual_fallback()

    def _certificate_temperature(self, horizon: int | None) -> float:
        """eta*, at which the bound before an alarm is least."""
        if horizon is None or self.against != "actions":
            raise ValueError('temperature="certificate" needs a horizon and against="actions": give a number')
        if self.problem.contrast == 0 or self.problem.n_actions == 1:
            return 1 / math.sqrt(horizon)  # nothing to gain
        log_cost = every_start.main_log_cost(self.delta, self.problem.n_actions)
        return certificate_temperature(self.problem, horizon, log_cost)

    @property
    def first_form(self) -> bool:
        """Whether this is the test as it was first published: against the fallback, from the first step."""
        return self.against == "fallback" and self.starts == "first"

    @property
    def compares(self) -> bool:
        return self.against == "fallback"

    @cached_property
    def bets(self) -> FirstBets | Bets:
        """The bettors."""
        if self.first_form:
            return FirstBets(self.problem, self.horizon, self.delta, self.gate)
        on_fallback = self.against == "fallback"
        count = 1 if on_fallback else self.problem.n_actions
        main = None
        if self.horizon is not None and self.temperature is not None:
            log_cost = every_start.main_log_cost(self.delta, count)
            main = quick_main_rate(self.problem, self.horizon, self.temperature, log_cost)
        prior = every_start.joint_prior(
            self.problem, self.horizon, self.delta, self.temperature, TOP, count, main, self.starts
        )
        return Bets(self.problem, prior, self.delta, self.gate, on_fallback)

    @property
    def rates_K(self) -> np.ndarray:
        """The betting rates lambda_k."""
        return self.bets.rates_K

    @property
    def log_costs_K(self) -> np.ndarray:
        """ln(1 / (m delta)): what a bettor from the first step on must reach for the alarm to sound on its own."""
        return self.bets.log_costs_K if isinstance(self.bets, FirstBets) else self.bets.prior.log_costs_K(self.delta)

    def blank(self, shape: tuple[int, ...], xp: Any, where: Any) -> ExactStatistics | BetStatistics:
        return self.bets.blank(shape, xp, where)

    def judge(self, statistics: Any, step: Array, moment: Moment) -> tuple[Any, Array]:
        return self.bets.judge(statistics, step, moment)

    def _alone(
        self, memory: RuleMemory, probs: np.ndarray, token: int, known: Known | None
    ) -> tuple[RuleMemory, np.ndarray] | None:
        bets = self.bets
        if isinstance(bets, FirstBets) or bets.quick is None:
            return None
        if probs.dtype != _DOUBLE:
            probs = probs.astype(np.float64)
        old, at = memory.statistics, memory.step.item() + 1
        warmth = self.problem.anytime_temperature(at) if self.temperature is None else self.temperature
        done = bets.quick.alone(probs, token, at, old[0], old[1], old[2], None, warmth)
        step = np.int64(at)
        impossible, own = probs.item(token) == 0, self.in_play
        if done.share is None and not impossible and not bets.gate:  # the usual case
            alarm: Any = False
            statistics = BetStatistics(done[0], done[1], done[2], None, None, old.impossible)
        else:
            statistics, alarm = bets.after(old, step, done, np.bool_(impossible))
        if own.follows:
            fallback = own.fallback.updated_alone(memory.fallback, probs, token, at, step)
        else:
            fallback = own.fallback.update(memory.fallback, np.asarray(token))
        tripped_at = step if alarm and not self.pointless else memory.tripped_at
        return RuleMemory(fallback, step, tripped_at, statistics), done.gain_C

    def recorded(self, step_T: Array, moment: Moment) -> Array:
        return self.bets.recorded(step_T, moment)

    def evidence(self, memory: RuleMemory) -> tuple[Array, Array]:
        """ln E_t and ln(1 / delta); infinite once a token came that the base model had excluded."""
        level = self.bets.log_total(memory.statistics, memory.step)
        xp, threshold = namespace(level), -math.log(self.delta)
        statistic = xp.where(memory.statistics.impossible, xp.zeros_like(level) + math.inf, level)
        return statistic, xp.zeros_like(statistic) + threshold

    def log_evidence(self, probs: Array, tokens: Array) -> np.ndarray:
        """ln E after every step of recorded sequences ``[N, T]`` in NumPy; infinite from a token on that was excluded.

        By the compiled recurrence where it is to be had, up to the largest numbers that it keeps (about 690).

        >>> from lowregret import matching
        >>> rule = ExactTest(matching(), horizon=100)
        >>> rule.log_evidence([[[0.5, 0.5]] * 3, [[0.9, 0.1]] * 3], [[0, 1, 1], [1, 1, 1]]).round(2).tolist()
        [[0.0, -0.09, -0.09], [0.37, 1.1, 2.43]]
        """
        tokens_NxT = to_numpy(inputs.sequences_of(tokens, self.n_states))
        if tokens_NxT.ndim != 2:
            raise ValueError(f"tokens must be sequences [N, T], got shape {tokens_NxT.shape}")
        probs_NxTxS = to_numpy(inputs.probs_of(probs, self.n_states))
        if tuple(probs_NxTxS.shape[:-1]) != tokens_NxT.shape:
            fits = f"{(*tokens_NxT.shape, self.n_states)}, for tokens of shape {tokens_NxT.shape}"
            raise ValueError(f"probs must have shape {fits}, got {probs_NxTxS.shape}")
        self.refuse_longer(tokens_NxT.shape[1])
        step_T = np.arange(1, tokens_NxT.shape[1] + 1)
        if isinstance(self.bets, Bets) and not self.bets.on_fallback:
            found = self.bets.log_totals(step_T, self.moment(probs_NxTxS, None, tokens_NxT, step_T))
            if found is not None:
                came = np.take_along_axis(probs_NxTxS, tokens_NxT[..., None], axis=-1)[..., 0]
                found[np.logical_or.accumulate(came == 0, axis=1)] = math.inf
                return found
        memory, levels = self.start((len(tokens_NxT),)), []
        for t in range(len(step_T)):
            memory = self.update(memory, probs_NxTxS[:, t], tokens_NxT[:, t])
            levels.append(self.evidence(memory)[0])
        return np.stack(levels, axis=-1)

    def suspicion(self, memory: RuleMemory) -> Suspicion | None:
        """What the richest bettor of each stream bets on; None for the test as it was first published."""
        if isinstance(self.bets, FirstBets):
            return None
        return self.bets.suspicion(memory.statistics)

    def conditions(self, memory: RuleMemory) -> dict[str, tuple[Array, Array]]:
        """The evidence, and with a gate how far what is bet on has risen from its lowest point."""
        found = {"evidence": self.evidence(memory)}
        if self.gate:
            found["gate"] = self.bets.rise(memory.statistics, memory.step)
        return found

    @cached_property
    def certificate(self) -> Certificate:
        bets, unknown = self.bets, ", unknown horizon" if self.horizon is None else ""
        if isinstance(bets, Bets) and self.against == "actions":
            made = self.problem, bets.prior, self.delta, self.temperature, 1
            return certify_switch(
                self.problem,
                self.horizon,
                self.temperature,
                self.in_play.fallback,
                before=partial(over_contexts.before, *made, False, gate=self.gate),
                interval=partial(_interval, self),
                tv_bound=self.delta,
                theorem="the exact test on every action" + unknown,
                sharper=None
                if self.temperature is None
                else partial(over_contexts.before, *made, True, gate=self.gate),
            )
        over_fallback = partial(
            certificates.exact_test,
            self.problem,
            temperature=self.temperature,
            rates_K=bets.rates_K,
            log_costs_K=self.log_costs_K,
            gate=self.gate,
        )
        return certify(
            self.problem,
            self.horizon,
            self.temperature,
            self.fallback,
            over_fallback,
            self.delta,
            "the exact test" + unknown,
        )


def first_test(
    problem: DecisionProblem, horizon: int | None, delta: float | None = None, gate: float = 0.5, **settings: Any
) -> ExactTest:
    """The exact test as it was first published: against the fallback, from the first step on, with a gate."""
    return ExactTest(problem, horizon, delta, gate, against="fallback", starts="first", **settings)  # type: ignore[arg-type]


def _interval(rule: ExactTest, start: int, end: int) -> float:
    """Statement (ii)."""
    prior, problem = _prior(rule), rule.problem
    warmth = rule.temperature
    charges_K = total_kappa(problem, prior.rates_K, end, warmth) - total_kappa(
        problem, prior.rates_K, start - 1, warmth
    )
    return every_start.within(problem, start, end, charges_K, prior, rule.delta, rule.gate)


def _prior(rule: ExactTest) -> every_start.Prior:
    assert isinstance(rule.bets, Bets)
    return rule.bets.prior
