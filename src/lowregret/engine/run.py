"""The loop: a step is advised, its outcome observed; one stream or many, one step or a recording.

A row is what a stream remembers: a head, and a block for each of ``lag`` classes of steps. A forecast that is stated
``lag`` steps ahead is right given outcomes that are ``lag`` old, so the product of all bets is no martingale; that of
every ``lag``-th is. Step t is of class (t - 1) mod lag; each class has a test and a fallback of its own, and one alarm
goes by the mean of their levels (``certificates/switching.py`` has the proof). A lag of 1 is the ordinary case.
"""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from .. import inputs
from ..arrays import count_up, first_true, in_float64, row_blocks
from ..certificates import Certificate
from ..certificates.coupled import late_factor
from ..certificates.promises import Unproved
from ..policies.contract import Policy
from ..predictors import Predictor
from ..problems import DecisionProblem, Payoff, a_problem
from .bets import Certifies, NoTest, Played, Suspect, Test
from .comparators import Comparators
from .fallbacks import Fallback
from .layout import Layout, Views
from .learners import FollowLearner, play_of
from .responses import BestResponse, QuantalResponse, Response, best_actions
from .step import Inputs, Numbers, Outcome, States, Step


@dataclass
class Setting:
    """The parts of a guard, checked, and the quantities derived from them; a value."""

    problem: DecisionProblem | Payoff
    against: Comparators
    test: Test
    fallback: Fallback | Policy | Predictor
    response: Response
    lag: int = 1
    xp: Any = field(default=np, repr=False, compare=False)

    def __post_init__(self) -> None:
        problem, against, test, lag = self.problem, self.against, self.test, self.lag
        if not isinstance(problem, Payoff):
            a_problem(problem)
        inputs.of_kind(against, Comparators, "against", "Actions() or References(...)")
        inputs.of_kind(self.response, Response, "response", "BestResponse() or QuantalResponse()")
        such = "Recovery(), UseReference() or a policy"
        inputs.of_kind(self.fallback, (Fallback, Policy, Predictor), "fallback", such)
        self.outcomes: States | Numbers = Numbers(problem) if isinstance(problem, Payoff) else States(problem, self.xp)
        # All bounds depend on its span, contrast and number of actions alone.
        self.payoff_range = cast(DecisionProblem, problem.payoff_range if problem.is_changing else problem)
        self.has_fixed_payoffs = not problem.is_changing and self.outcomes.n_states > 0
        self.references, self.n_contexts = against.references, against.n_contexts
        self.n_comparators = against.count(self.outcomes.n_actions)
        self.rounds = None if test.horizon is None else -(-test.horizon // lag)  # steps of a class
        self.class_delta = test.delta / late_factor(lag)  # the chance of a false alarm that a class is tested at
        self.temperature = self.response.temperature_for(self.rounds)
        if against.contexts and test.horizon is None:
            raise ValueError(
                "contexts need a horizon, ExactTest(horizon=...): what each of them may cost is shared out over it"
            )
        A, Q = self.outcomes.n_actions, len(self.references)
        one = np.zeros(1, dtype=np.int64)
        self.n_awake = against.awake(np, np.zeros((1, A)), np.zeros((1, Q, A)), one).plays_NxExA.shape[1]
        self.play = play_of(self.fallback, self)
        self.watch = test.watch(self)

    @property
    def certificate(self) -> Certificate:
        """What is promised up to the horizon, before the first step."""
        return self.certify(self.test.horizon)

    def certify(self, steps: int | None) -> Certificate:
        """What is promised of so many steps (None: any number) before the first of them."""
        name = type(self.test).__name__
        given = self.test.certify(self, steps) if isinstance(self.test, Certifies) else None
        if given is None:
            called = f"{name}, of which nothing was proved"
            return Unproved(problem=self.payoff_range, tv_bound=1.0, called=called).certificate(steps)
        if (given.problem, given.horizon) != (self.payoff_range, steps) or not 0 <= given.tv_bound <= 1:
            raise ValueError(
                f"certify of {name} must return None, or a Certificate for this problem and {steps} steps with a "
                f"tv_bound in [0, 1], got {inputs.shown(given)}"
            )
        return given

    @property
    def parts(self) -> tuple[Any, Any, Any, Any, Any, int]:
        """What it was made of."""
        return self.problem, self.against, self.test, self.fallback, self.response, self.lag

    def on(self, xp: Any) -> "Setting":
        """The same on the arrays of another namespace."""
        return Setting(*self.parts, xp=xp)

    def __reduce__(self) -> tuple[Any, ...]:
        return Setting, self.parts

    def __hash__(self) -> int:
        return hash((self.problem, self.test))

    @property
    def tests(self) -> bool:
        return not isinstance(self.test, NoTest)

    @property
    def plays_best(self) -> bool:
        """Whether what is played against the model's forecast is best by it."""
        return type(self.response) is BestResponse

    @property
    def has_proved_response(self) -> bool:
        """Whether regret is bounded for its response: for those of the package."""
        return type(self.response) in (BestResponse, QuantalResponse)

    @property
    def has_second_bettor(self) -> bool:
        """Whether there is a bettor on the fallback's mixture: with best responses to distributions."""
        return self.tests and self.play.mixes and self.plays_best

    def temperature_at(self, clock_N: Any) -> Any:
        """The temperature after ``clock_N`` observed steps of a class: a number, or ``[N, 1]``."""
        if self.temperature is not None:
            return self.temperature
        return self.payoff_range.anytime_temperature(clock_N + 1)[:, None]

    def respond(self, forecast: Any, payoffs: Any, clock_N: Any) -> tuple[Any, Any]:
        """The best action ``[N]`` by a forecast, and the response ``[N, A]`` to it."""
        worth_NxA = self.outcomes.worth(forecast, payoffs, clock_N)
        best_N = best_actions(self.xp, worth_NxA)
        return best_N, self.response.plays(self.xp, worth_NxA, best_N, self.temperature_at(clock_N))


class Signals(NamedTuple):
    """What an outcome led to, by stream."""

    alarm_N: Any  # an alarm was raised
    turned_N: Any  # 1: the model has returned; -1: it was dropped again


class Trace(NamedTuple):
    """A recording, played: everything by stream and step, before its outcome unless noted."""

    rows: Any  # what each stream remembers in the end
    policy_NxTxA: Any
    model_NxTxA: Any
    share_NxT: Any
    alarm_NxT: Any  # raised by this outcome
    turned_NxT: Any
    evidence_NxT: Any  # after it, in logarithms
    level_NxT: Any  # after it: that of the step's class
    known_T: Any  # how many steps had been advised when it was known
    suspects: dict[tuple[int, int], Suspect | None]  # by stream and step: of each alarm
    shares: dict[tuple[int, int], float]  # of the model, after each turn


class Engine:
    """One setting at work on rows; every method leaves the rows it is given as they are."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.xp = setting, setting.xp
        P, D = setting.n_comparators, setting.lag
        counts = ["observed", "missed", "reported", "alarm", "at_alarm"]
        counts += ["trusted", "episode", "begun", "past_steps", "past_bound"]
        self.head = Layout({"lead_P": (P,), "realised_P": (P,), "level_D": (D,), **dict.fromkeys(counts, ())})
        parts = [setting.watch.shapes(), setting.play.shapes(), {"seen_C": (setting.n_contexts,), "clock": ()}]
        self.block = Layout({name: shape for part in parts for name, shape in part.items()})
        if len(self.block.places) < sum(map(len, parts)):
            raise ValueError(f"test and fallback must remember parts of different names, got {[*map(list, parts)]}")
        self.width = self.head.width + D * self.block.width
        self.can_alarm = setting.tests and setting.payoff_range.span > 0

    # Rows

    def start(self, n: int) -> Any:
        """Rows of n streams before their first step."""
        rows = self.xp.zeros((n, self.width), dtype=self.xp.float64)
        head = self.head.open(rows)
        head.episode[:] = 1
        for k in range(self.setting.lag):
            memory = self.of_class(rows, k)
            self.setting.watch.start(memory)
            self.setting.play.start(memory)
            head.level_D[:, k] = self.setting.watch.fresh_level
        return rows

    def of_class(self, rows: Any, k: int) -> Views:
        """What the test and the fallback remember of a class, how often each context was seen, and all steps."""
        begin = self.head.width + k * self.block.width
        return self.block.open(rows[:, begin : begin + self.block.width])

    # A step

    def advise(self, rows: Any, number: int, given: Inputs) -> Step:
        """The step of this number, with what is to be played."""
        memory = self.of_class(rows, (number - 1) % self.setting.lag)
        in_force_N = (self.head.open(rows).alarm > 0) | (not self.setting.tests)
        step = self.setting.play.prepare(memory, self.before(given, memory.clock * 1.0, in_force_N))
        if in_force_N.all():
            return step
        return step._replace(policy_NxA=self.xp.where(in_force_N[:, None], step.policy_NxA, step.model_NxA))

    def before(self, given: Inputs, clock_N: Any, in_force_N: Any) -> Step:
        """A step after ``clock_N`` others, without what the fallback plays; ``in_force_N``: whether that is played."""
        setting, xp, n, outcomes = self.setting, self.xp, clock_N.shape[0], self.setting.outcomes
        here = (slice(None), 0) if given.context_N is None else (xp.arange(n), given.context_N)
        payoffs = outcomes.payoffs if given.payoffs is None else given.payoffs
        forecast = outcomes.whole(given.forecast)
        advised_N, model_NxA = setting.respond(forecast, payoffs, clock_N)
        answers_NxQxA = xp.zeros((n, 0, outcomes.n_actions), dtype=xp.float64)
        references_NxQxS = xp.zeros((n, 0, outcomes.n_states), dtype=xp.float64)
        if setting.references:
            each = given.references
            if outcomes.n_states:
                references_NxQxS = outcomes.whole(each)
                each = [references_NxQxS[:, q] for q in range(each.shape[1])]
            answers_NxQxA = xp.stack([setting.respond(one, payoffs, clock_N)[1] for one in each], axis=1)
        plays_NxExA, at_NxE = setting.against.awake(xp, model_NxA, answers_NxQxA, given.context_N)
        known = forecast, model_NxA, advised_N, plays_NxExA, at_NxE, here, clock_N, in_force_N
        return Step(*known, given.scale_N, payoffs, references_NxQxS, answers_NxQxA)

    def observe(
        self, rows: Any, number: int, step: Step, outcome_N: Any, missing_N: Any = None, action_N: Any = None
    ) -> tuple[Any, Signals]:
        """The rows after the outcome of a step, and what it led to; where ``missing``, there was no outcome."""
        setting, xp, k, before = self.setting, self.xp, (number - 1) % self.setting.lag, rows
        rows = xp.asarray(rows, copy=True)
        head, memory = self.head.open(rows), self.of_class(rows, k)
        outcome = setting.outcomes.observed(step, outcome_N)
        streams_N = xp.arange(rows.shape[0])
        self._enter(head, step, outcome, streams_N, action_N)
        head.observed[:] += 1
        memory.clock[:] += 1
        memory.seen_C[step.here] += 1

        def alarmed(level_N: Any) -> Any:
            head.level_D[:, k] = level_N
            return had_N | (self.can_alarm & (head.level_D.sum(-1) >= setting.lag * setting.watch.threshold))

        had_N = head.alarm > 0
        level_N = setting.watch.update(memory, step, outcome, number - head.begun, alarmed)
        setting.play.update(memory, step, outcome, memory.seen_C)
        newly_N = alarmed(level_N) & ~had_N
        if newly_N.any():
            head.alarm[:] = xp.where(newly_N, head.observed, head.alarm)
            head.at_alarm[:] = xp.where(newly_N, self.worst_lead(head.lead_P), head.at_alarm)
        turned_N = self._turned(rows, head, had_N)
        if missing_N is not None and missing_N.any():
            rows[missing_N] = before[missing_N]
            head.missed[missing_N] += 1
            newly_N, turned_N = newly_N & ~missing_N, turned_N * ~missing_N
        return rows, Signals(newly_N, turned_N)

    def skip(self, rows: Any) -> Any:
        """The rows after a step whose outcome never comes."""
        rows = self.xp.asarray(rows, copy=True)
        self.head.open(rows).missed[:] += 1  # the class stays as it was
        return rows

    def _enter(self, head: Views, step: Step, outcome: Outcome, streams_N: Any, action_N: Any) -> None:
        """Adds to the leads of the comparators over what was played, and over the action reported."""
        awake = slice(None) if step.at_NxE is None else (streams_N[:, None], step.at_NxE)
        earned_NxE = outcome.gained_NxE + outcome.model_N[:, None]
        head.lead_P[awake] += earned_NxE - (step.policy_NxA * outcome.paid_NxA).sum(-1)[:, None]
        if action_N is not None:
            head.realised_P[awake] += earned_NxE - outcome.paid_NxA[streams_N, action_N][:, None]
            head.reported[:] += 1

    def _turned(self, rows: Any, head: Views, had_N: Any) -> Any:
        """Where the model has returned with this outcome, or was dropped again."""
        D = self.setting.lag
        if "trusted" not in self.block.places or not had_N.any():
            return had_N * 0
        count_N = sum(self.of_class(rows, k).trusted for k in range(D))
        trusted_N = had_N & (2 * count_N > D)
        turned_N = trusted_N * 1 - (head.trusted > 0) * 1
        head.trusted[:] = trusted_N
        return turned_N * had_N

    # What can be read

    def worst_lead(self, lead_NxP: Any) -> Any:
        """The regret ``[N]`` in total, by what each comparator earned more."""
        return self.setting.against.regret(self.xp, lead_NxP, self.setting.outcomes.n_actions)

    def share(self, rows: Any) -> Any:
        """How much of what is played next is the model's, ``[N]``: all until the alarm."""
        head, D = self.head.open(rows), self.setting.lag
        if self.setting.tests and not (head.alarm > 0).any():
            return head.alarm * 0 + 1.0
        classes = [self.of_class(rows, k) for k in range(D)]
        own_N = sum(self.setting.play.share(memory, memory.seen_C) for memory in classes) / D
        return own_N if not self.setting.tests else self.xp.where(head.alarm > 0, own_N, own_N * 0 + 1.0)

    @property
    def needed(self) -> float:
        """The evidence at which an alarm is raised."""
        watch = self.setting.watch
        return math.log(watch.threshold) if watch.in_logs else watch.threshold

    def evidence(self, rows: Any) -> Any:
        """The mean level, or its logarithm, ``[N]``."""
        mean_N = self.xp.mean(self.head.open(rows).level_D, axis=-1)
        if not self.setting.watch.in_logs:
            return mean_N
        return self.xp.log(mean_N + (mean_N == 0) * 1e-300)

    def suspect(self, rows: Any, n: int) -> Suspect | None:
        """The strongest evidence against the model of a stream: from the class with the highest level."""
        k = int(self.head.open(rows).level_D[n].argmax())
        return self.setting.watch.suspect(self.of_class(rows, k), n)

    # Recordings at once, against actions alone: for a predictor

    def alarm_times(self, forecast_NxTxS: Any, state_NxT: Any) -> Any:
        """The number of outcomes observed when each recording ``[N]`` raises its alarm; T + 1 for never."""
        xp, (n, T) = self.xp, state_NxT.shape
        watch = self.setting.watch
        found = [state_NxT[:0, 0]]
        cells = max(T, self.block.width if not hasattr(watch, "levels") else 0)
        for rows in row_blocks(n, cells, state_NxT):
            forecast, states = self.setting.outcomes.whole(forecast_NxTxS[rows]), state_NxT[rows]
            if hasattr(watch, "levels"):
                alarm_NxT = watch.levels(self.played_at_once(forecast, states)) >= watch.threshold
            else:
                alarm_NxT = self._alarms(forecast, states)
            found.append(first_true(alarm_NxT & self.can_alarm) + 1)
        return xp.concat(found)

    def played_at_once(self, forecast_NxTxS: Any, state_NxT: Any) -> Played:
        """Both responses at every step of recordings."""
        xp, setting, (n, T, S) = self.xp, self.setting, forecast_NxTxS.shape
        step_T = in_float64(count_up(state_NxT, 1, T + 1))
        clock_M = xp.broadcast_to(step_T - 1, (n, T)).reshape(n * T)

        def answered(law_NxTxS: Any) -> Any:
            played = setting.respond(law_NxTxS.reshape(n * T, S), setting.outcomes.payoffs, clock_M)[1]
            return played.reshape(n, T, setting.outcomes.n_actions)

        fallback_NxTxA = None
        if isinstance(setting.play, FollowLearner) and setting.watch.compares:
            recorded = setting.play.recorded(state_NxT)
            fallback_NxTxA = recorded if setting.play.acts else answered(recorded)
        return Played(forecast_NxTxS, answered(forecast_NxTxS), fallback_NxTxA, state_NxT, step_T)

    def _alarms(self, forecast_NxTxS: Any, state_NxT: Any) -> Any:
        """Step by step where a test has no other way: which steps ``[N, T]`` raise an alarm; it ends where all have."""
        xp, watch, play, (n, T) = self.xp, self.setting.watch, self.setting.play, state_NxT.shape
        memory, never_N, found = self.of_class(self.start(n), 0), state_NxT[:, 0] < 0, []
        had_N = never_N
        for t in range(T):
            clock_N = xp.zeros(n, dtype=xp.float64) + t
            step = self.before(Inputs(forecast_NxTxS[:, t]), clock_N, never_N)
            step = play.prepare(memory, step) if watch.compares else step
            outcome = self.setting.outcomes.observed(step, state_NxT[:, t])
            level_N = watch.update(memory, step, outcome, clock_N + 1, lambda level_N: never_N)
            found.append(self.can_alarm & (level_N >= watch.threshold))
            had_N = had_N | found[-1]
            if xp is np and had_N.all():
                break
            if watch.compares:
                play.update(memory, step, outcome, (clock_N + 1)[:, None])
        return xp.stack(found, axis=-1)

    def predictions(self, forecast_NxTxS: Any, state_NxT: Any, times_N: Any) -> Any:
        """The predictions ``[N, T, S]``: the model's until the alarm at ``times_N``, then the fallback's."""
        xp, play, (n, T) = self.xp, self.setting.play, state_NxT.shape
        if isinstance(play, FollowLearner):
            late_NxT = xp.arange(T) >= times_N[:, None]
            return xp.where(late_NxT[..., None], play.recorded(state_NxT), forecast_NxTxS)
        memory, found = self.of_class(self.start(n), 0), []
        for t in range(T):
            late_N = times_N <= t
            step = self.before(Inputs(forecast_NxTxS[:, t]), xp.zeros(n, dtype=xp.float64) + t, late_N)
            step = play.prepare(memory, step)
            found.append(xp.where(late_N[:, None], step.mixture_NxS, forecast_NxTxS[:, t]))
            outcome = self.setting.outcomes.observed(step, state_NxT[:, t])
            play.update(memory, step, outcome, (step.clock_N + 1)[:, None])
        return xp.stack(found, axis=1)

    # A recording

    def run(self, rows: Any, given: Inputs, outcomes_NxT: Any, missing_NxT: Any = None, lags_T: Any = None) -> Trace:
        """All steps of recordings ``[N, T, ...]``; each outcome comes as late as it may, or as ``lags_T`` says."""
        (n, T), A, lag = outcomes_NxT.shape, self.setting.outcomes.n_actions, self.setting.lag
        known_T = np.minimum(np.arange(T) + (lag if lags_T is None else lags_T), T)  # steps advised by then
        policy, model = np.empty((n, T, A)), np.empty((n, T, A))
        share, evidence, level = np.empty((n, T)), np.empty((n, T)), np.empty((n, T))
        alarm, turned = np.zeros((n, T), dtype=bool), np.zeros((n, T), dtype=np.int64)
        suspects, shares, waiting = {}, {}, dict[int, Step]()
        for t in range(T):
            share[:, t] = self.share(rows)
            step = waiting[t] = self.advise(rows, t + 1, given.at((slice(None), t)))
            policy[:, t], model[:, t] = step.policy_NxA, step.model_NxA
            for i in [i for i in waiting if known_T[i] == t + 1]:
                missing_N = None if missing_NxT is None else missing_NxT[:, i]
                rows, signals = self.observe(rows, i + 1, waiting.pop(i), outcomes_NxT[:, i], missing_N)
                alarm[:, i], turned[:, i], evidence[:, i] = signals.alarm_N, signals.turned_N, self.evidence(rows)
                level[:, i] = self.head.open(rows).level_D[:, i % lag]
                for stream in np.flatnonzero(signals.alarm_N).tolist():
                    suspects[stream, i] = self.suspect(rows, stream)
                for stream in np.flatnonzero(signals.turned_N).tolist():
                    shares[stream, i] = float(self.share(rows)[stream])
        return Trace(rows, policy, model, share, alarm, turned, evidence, level, known_T, suspects, shares)
