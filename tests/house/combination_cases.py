"""Settings of the guard in all combinations: which are refused and why, a design that covers triples, and a world each.

A case is a value for every setting. Whatever else is random in it (problem, delta, who says what, the order in which
outcomes come) follows from its number.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

import lowregret as lr

from .. import literal_engine as literal

SETTINGS: dict[str, tuple[Any, ...]] = {
    "forecast": ("law", "quantiles", "samples"),
    "lag": (1, 2, 3),
    "contexts": ("none", "two"),
    "references": ("none", "forecasts", "actions"),
    "payoffs": ("fixed", "scaled", "change"),
    "episodes": ("one", "several"),
    "horizon": ("known", "unknown"),
    "batch": ("one stream", "several", "named"),
    "fallback": ("Recovery", "Incumbent", "predictor", "policy"),
    "outcomes": ("all", "some missing"),
    "temperature": ("above 0", "0"),
    "likelihood": (False, True),
    "test": (True, False),
}
WAYS = ("Guard", "Guard, resumed", "Guard, one by one", "trip_times", "backtest", "robustify")
NAMES = ("old", "older")
KNOTS, HEIGHTS = (0.0, 8.0, 15.0, 21.0, 30.0), (-20.0, 50.0)

Case = dict[str, Any]


class Refusal(NamedTuple):
    """What cannot be had, and why."""

    of: Callable[[Case], bool]
    says: str  # what the error says, as a pattern
    why: str  # for readers
    way: str | None = None  # None: whichever way
    kind: type[Exception] = ValueError


def numbers(case: Case) -> bool:
    return case["forecast"] != "law"


def told(case: Case) -> bool:
    """Whether a step is told more than a law."""
    return case["contexts"] != "none" or case["references"] != "none" or case["payoffs"] != "fixed"


REFUSALS = (
    Refusal(
        lambda c: c["fallback"] in ("predictor", "policy") and (numbers(c) or told(c)),
        "fallback must be a Recovery without a safe of its own",
        "what a predictor or a policy loses after an alarm is known against fixed actions only: with references, "
        "contexts, payoffs that change or forecasts of numbers, `Recovery` is Hedge over all of them",
    ),
    Refusal(
        lambda c: c["fallback"] == "Incumbent" and c["references"] == "none",
        "needs a guard that is told what it says|must be one of the references",
        "an `Incumbent` is one of the references",
    ),
    Refusal(
        lambda c: c["fallback"] == "predictor" and c["temperature"] == "0",
        "the best response to a law that learns may lose every step",
        "the best response to a law that learns may lose every step: after an alarm play must be mixed",
    ),
    Refusal(
        lambda c: c["likelihood"] and (numbers(c) or c["temperature"] != "0" or c["fallback"] != "Recovery"),
        "likelihood=True bets on the laws in the shadow of Recovery",
        "the second bettor bets on the mixture of `Recovery`, and needs best responses to laws",
    ),
    Refusal(
        lambda c: not c["test"] and (c["likelihood"] or c["fallback"] != "Recovery"),
        "test=False plays a Recovery from the first step on",
        "without a test there are no bettors, and `Recovery` is played from the first step on",
    ),
    Refusal(
        lambda c: not c["test"] and c["lag"] > 1,
        "lag must be 1 without a test",
        "what a mixture for each class of late outcomes may lose from the first step on is not known",
    ),
    Refusal(
        lambda c: c["contexts"] != "none" and c["horizon"] == "unknown" and c["episodes"] == "one",
        "contexts need a horizon",
        "what each context may cost is shared out over the horizon; episodes have one",
    ),
    Refusal(
        lambda c: numbers(c) and c["payoffs"] == "change" and c["lag"] > 1,
        "payoffs are a function, which cannot be saved",
        "a step that waits cannot be saved where its payoffs are a function: with a lag one always does",
        "Guard, resumed",
    ),
    Refusal(
        lambda c: c["outcomes"] != "all",
        "states|outcomes|tokens",
        "a recording has every outcome: leave the step out",
        "trip_times",
    ),
    Refusal(
        lambda c: numbers(c) and c["payoffs"] == "change",
        "payoffs of each step are functions",
        "payoffs of each step are functions where outcomes are numbers: `advise` takes them",
        "trip_times",
    ),
    Refusal(
        lambda c: c["outcomes"] != "all",
        "states|outcomes",
        "a recording has every outcome: leave the step out",
        "backtest",
    ),
    Refusal(
        lambda c: numbers(c) and c["payoffs"] == "change",
        "payoffs of each step are functions",
        "payoffs of each step are functions where outcomes are numbers: `advise` takes them",
        "backtest",
    ),
    Refusal(
        numbers,
        "must be a DecisionProblem|is told nothing else",
        "a predictor forecasts states, not numbers",
        "robustify",
    ),
    Refusal(
        lambda c: not c["test"],
        "test=False",
        "a robust predictor is its base model until an alarm, and without a test there is none",
        "robustify",
    ),
    Refusal(
        lambda c: c["lag"] > 1,
        "sees every token before the next",
        "a predictor sees every token before the next: for late outcomes take a `Guard`",
        "robustify",
    ),
    Refusal(
        lambda c: c["contexts"] != "none" or c["payoffs"] != "fixed",
        "is told more than a law|is told nothing else",
        "a predictor is asked for the next token and told nothing else",
        "robustify",
    ),
    Refusal(
        lambda c: c["references"] == "actions",
        "must be 2 predictors",
        "the references of a predictor are predictors",
        "robustify",
    ),
    Refusal(
        lambda c: c["fallback"] == "policy",
        "needs a predictor there",
        "a policy states no law of the next token",
        "robustify",
    ),
    Refusal(
        lambda c: c["temperature"] == "0" and c["references"] == "none",
        "temperature must be above 0",
        "the laws of a robust predictor are answered at random: for a temperature of 0 take a `Guard`",
        "robustify",
    ),
    Refusal(
        lambda c: c["episodes"] == "several",
        "episode",
        "a predictor has one episode",
        "robustify",
        TypeError,
    ),
    Refusal(
        lambda c: c["outcomes"] != "all",
        "token",
        "a predictor goes by the tokens so far, all of them",
        "robustify",
    ),
)


def refusal_of(case: Case, way: str | None = None) -> Refusal | None:
    """The first thing that stands in the way."""
    return next((one for one in REFUSALS if one.way in (None, way) and one.of(case)), None)


def ways_of(case: Case) -> tuple[str, ...]:
    return tuple(way for way in WAYS if refusal_of(case, way) is None)


# A design that covers every pair and triple


def all_cases() -> Iterator[Case]:
    for values in itertools.product(*SETTINGS.values()):
        yield dict(zip(SETTINGS, values, strict=True))


def allowed_cases() -> tuple[list[Case], list[tuple[str, Any]], np.ndarray]:
    """Those in which nothing is refused, all settings and ways as items, and which case shows which item."""
    items = [(name, value) for name, values in {**SETTINGS, "way": WAYS}.items() for value in values]
    allowed = [case for case in all_cases() if refusal_of(case) is None]
    ways = [ways_of(case) for case in allowed]
    shown = [
        [value in ways[i] if name == "way" else case[name] == value for name, value in items]
        for i, case in enumerate(allowed)
    ]
    return allowed, items, np.array(shown)


def tuples_shown(shown: np.ndarray, items: list[tuple[str, Any]], size: int) -> np.ndarray:
    """Which pairs or triples of items of different settings there are in any case, by their places ``[L, size]``."""
    found = [
        each
        for each in itertools.combinations(range(len(items)), size)
        if len({items[i][0] for i in each}) == size and shown[:, each].all(axis=1).any()
    ]
    return np.array(found)


def design(count: int, seed: int = 23) -> list[Case]:
    """Cases of which the first ones show every triple that there is, and the others are drawn at random."""
    rng = np.random.default_rng(seed)
    allowed, items, shown = allowed_cases()
    left, chosen = tuples_shown(shown, items, 3), list[int]()
    while len(left):
        some = np.append(rng.choice(len(allowed), 60), shown[:, left[0]].all(axis=1).argmax())
        best = some[shown[some][:, left].all(axis=-1).sum(axis=1).argmax()]
        left = left[~shown[best, left].all(axis=-1)]
        chosen.append(int(best))
    others = rng.permutation(np.setdiff1d(np.arange(len(allowed)), chosen))
    return [allowed[i] for i in [*chosen, *others.tolist()][:count]]


def refused_cases(refusal: Refusal, count: int, seed: int) -> list[Case]:
    """Cases in which this stands in the way, and nothing else."""
    rng = np.random.default_rng((23, seed))
    found = [
        case
        for case in all_cases()
        if refusal.of(case)
        and not any(one is not refusal and one.way in (None, refusal.way) and one.of(case) for one in REFUSALS)
    ]
    assert found, refusal.why
    return [found[i] for i in rng.permutation(len(found))[:count]]


# A world for each


class World:
    """The problem, what everyone says, what comes and in which order: all that follows from a case and its number."""

    def __init__(self, number: int, case: Case) -> None:
        self.case, self.number = case, number
        rng = self.rng = np.random.default_rng((29, number))
        self.T = int(rng.integers(26, 45) if numbers(case) else rng.integers(36, 60))
        self.shape: tuple[int, ...] = () if case["batch"] == "one stream" else (int(rng.integers(2, 4)),)
        self.names = [f"stream {i}" for i in range(*self.shape)] if case["batch"] == "named" else None
        self.B, self.lag = math.prod(self.shape), case["lag"]
        self.numbers, self.told = numbers(case), told(case)
        self.A = int(rng.integers(2, 4))
        self.contexts = 2 if case["contexts"] == "two" else None
        self.references = NAMES if case["references"] != "none" else ()
        self.acting = case["references"] == "actions"
        self.says_they_act = self.acting and (case["fallback"] == "Incumbent" or rng.random() < 0.5)
        same = self.says_they_act and rng.random() < 0.5  # as many states as actions: nobody can tell laws from actions
        self.S = 0 if self.numbers else self.A + (not same)
        self.episode = int(rng.integers(11, 17)) if case["episodes"] == "several" else None
        self.horizon = self.T if case["horizon"] == "known" else None
        by_rule = self.horizon is None or self.says_they_act or rng.random() < 0.6
        small = {"memories": (4.0, 30.0), "share": 0.02, "budget": 0.05}  # its budget is soon spent
        self.recovery = lr.Recovery() if rng.random() < 0.4 else lr.Recovery(**small)
        self.delta = float(rng.choice([0.1, 0.25, 0.5])) if by_rule else None  # None: the usual, and no rule is made
        ends = np.array([HEIGHTS[(a + k) % self.A == 0] for a in range(self.A) for k in range(len(KNOTS))])
        self.heights = np.round(0.3 * rng.uniform(*HEIGHTS, ends.shape) + 0.7 * ends, 1).reshape(self.A, -1)
        self._say()
        self._come()

    # The problem

    @cached_property
    def problem(self) -> Any:
        low, high = HEIGHTS
        if self.numbers:
            return self.payoff(self.heights)
        return lr.DecisionProblem.from_payoffs(self.heights[:, : self.S], low=low, high=high)

    def payoff(self, heights: np.ndarray) -> lr.Payoff:
        def paid(action: int, outcome: np.ndarray) -> np.ndarray:
            return np.interp(outcome, KNOTS, heights[action])

        return lr.Payoff(paid, range(self.A), *HEIGHTS, knots=KNOTS, outcomes=(KNOTS[0], KNOTS[-1]))

    def utility(self, t: int, b: int) -> Callable[[np.ndarray], np.ndarray]:
        """What every action earns at outcomes, between -1 and 1."""
        heights = self.heights if self.changed is None else self.changed[t] if self.numbers else self.changed[b, t]
        scaled = (heights - sum(HEIGHTS) / 2) / ((HEIGHTS[1] - HEIGHTS[0]) / 2)
        if not self.numbers:
            return lambda states: scaled[:, states]
        return lambda points: np.array([np.interp(points, KNOTS, row) for row in scaled])

    # What everyone says, [B, T]

    def _say(self) -> None:
        rng, B, T, form = self.rng, self.B, self.T, self.case["forecast"]
        self.context = rng.integers(2, size=(B, T)) if self.contexts else None
        self.scale = None
        if self.case["payoffs"] == "scaled" or (self.case["payoffs"] == "change" and rng.random() < 0.5):
            self.scale = np.round(rng.uniform(0.3, 1.0, (B, T)), 2)
        self.changed = None
        if self.case["payoffs"] == "change":
            width = len(KNOTS) if self.numbers else self.S
            near = self.heights[:, :width] + rng.normal(0, 8, (*((T,) if self.numbers else (B, T)), self.A, width))
            self.changed = np.round(near, 1).clip(*HEIGHTS)
        # A model that is sure of much the same, then wrong, and in some streams right again, of something else.
        self.turns = rng.integers(2, T // 4, (B, 1))
        self.again = np.arange(T) >= self.turns + rng.choice([7, 10, T], (B, 1))
        if self.numbers:
            middle = rng.uniform(4, 26, (B, 1)) + rng.normal(0, 2, (B, T))
            self.middle = np.where(self.again, rng.uniform(2, 28, (B, T)), middle)
            self.forecast = self._forecast(form, self.middle)
        else:
            centre = np.repeat(rng.dirichlet(np.full(self.S, 0.3), (B, 1)), T, axis=1)
            centre[self.again] = np.eye(self.S)[rng.integers(self.S, size=(B, T))][self.again]
            self.forecast = 0.9 * centre + 0.1 * rng.dirichlet(np.full(self.S, 0.6), (B, T))
            self.forecast = 0.99 * self.forecast + 0.01 / self.S
            self.forecast /= self.forecast.sum(-1, keepdims=True)

    def _forecast(self, form: str, middle: np.ndarray) -> Any:
        rng, (B, T) = self.rng, middle.shape
        if form == "quantiles":
            return lr.Quantiles([0.1, 0.4, 0.6, 0.9], np.clip(middle[..., None] + [-4, -1, 1, 4], 0, 30))
        return lr.Samples(np.clip(middle[..., None] + rng.normal(0, 3, (B, T, 16)), 0, 30))

    # What comes, [B, T], and in which order

    def _come(self) -> None:
        rng, B, T = self.rng, self.B, self.T
        wrong = (np.arange(T) >= self.turns) & ~self.again & (rng.random((B, T)) < 0.92)
        if self.numbers:
            right = np.clip(self.middle + rng.normal(0, 3, (B, T)), 0, 30)
            self.came: Any = np.where(wrong, self._worst_numbers(), right)
        else:
            right = (self.forecast.cumsum(-1) < rng.random((B, T, 1))).sum(-1).clip(0, self.S - 1)
            self.came = np.where(wrong, self._worst_states(), right)
            if rng.random() < 0.15:  # something comes that was excluded
                b, t = int(rng.integers(B)), int(rng.integers(T // 3, T))
                self.forecast[b, t, self.came[b, t]] = 0.0
                self.forecast[b, t] /= self.forecast[b, t].sum()
        self.missing = rng.random((B, T)) < 0.15 if self.case["outcomes"] != "all" else np.zeros((B, T), bool)
        self.missing[:, T // 3] |= self.missing.any()  # of all streams at once
        self.plays = rng.dirichlet(np.full(self.A, 0.4), (B, T, 2)) if self.acting else None
        self.beside: Any = None
        if self.references and not self.acting:
            if self.numbers:
                near = self.came + rng.normal(0, 2, (B, T))
                forms = self.case["forecast"], "quantiles"
                self.beside = tuple(self._forecast(form, np.clip(near, 0, 30)) for form in forms)
            else:
                near = 0.5 * np.eye(self.S)[self.came] + 0.5 / self.S
                self.beside = np.stack([near, rng.dirichlet(np.ones(self.S), (B, T))], axis=-2)
        self.in_order = self.lag == 1 or rng.random() < 0.6
        self.calls = list(self._order(rng))

    def _worst_states(self) -> np.ndarray:
        """Where what the model advises loses most."""
        best = (self.forecast @ self.heights[:, : self.S].T).argmax(-1)
        return (self.heights[:, : self.S].max(axis=0) - self.heights[best][..., : self.S]).argmax(-1)

    def _worst_numbers(self) -> np.ndarray:
        points = np.linspace(0, 30, 31)
        earned = np.array([np.interp(points, KNOTS, row) for row in self.heights])  # [A, n]
        at = np.array([np.interp(self.middle, KNOTS, row) for row in self.heights]).argmax(0)
        return points[(earned.max(axis=0) - earned[at]).argmax(-1)]

    def _order(self, rng: np.random.Generator) -> Iterator[tuple[str, int]]:
        """("advise", t) and ("observe", t), t from 1: the longest wait, or any order within the lag."""
        waiting: list[int] = []
        for t in range(1, self.T + 1):
            waiting.append(t)
            yield "advise", t
            while waiting and waiting[0] <= t + 1 - self.lag:
                at = 0 if self.in_order else int(rng.integers(len(waiting)))
                yield "observe", waiting.pop(at)
        for t in waiting:
            yield "observe", t

    # As the guard takes it

    def fallback(self) -> Any:
        kind = self.case["fallback"]
        if kind == "Incumbent":
            return lr.policies.Incumbent(NAMES[1])
        if kind == "predictor":
            return lr.PolyaUrn(self.S or 2)
        return (
            self.recovery
            if kind == "Recovery"
            else lr.policies.AdaHedge(lr.matching() if self.numbers else self.problem)
        )

    def rule(self, horizon: int | None) -> lr.ExactTest:
        return lr.ExactTest(
            self.problem,
            horizon,
            self.delta,  # type: ignore[arg-type]
            self.references,
            self.contexts,
            self.case["payoffs"],
            references_act=self.says_they_act,
            fallback=self.fallback(),
            **self.responding(),
        )

    def responding(self) -> dict[str, Any]:
        """How forecasts are answered, and who bets on that."""
        best = self.case["temperature"] == "0"
        more = {"likelihood": self.case["likelihood"], "test": self.case["test"]}
        return {"temperature": 0.0, **more} if best else more

    def guard(self, shape: tuple[int, ...] | None = None) -> lr.Guard:
        """The guard of the case, or one like it for so many streams."""
        made: dict[str, Any] = {"lag": self.lag, "episode": self.episode}
        if shape is not None or self.names is None:
            made["batch_shape"] = self.shape if shape is None else shape
        else:
            made["streams"] = self.names
        if self.delta is not None:
            rule = self.rule(self.horizon if self.episode is None else self.episode)
            return lr.Guard(self.problem, self.horizon, rule=rule, **made)
        payoffs = None if self.case["payoffs"] == "fixed" else self.case["payoffs"]
        more: dict[str, Any] = {"references": self.references, "contexts": self.contexts, "payoffs": payoffs}
        assert self.horizon is not None
        more |= {"delta": 1 / max(self.horizon, 2)} if self.case["test"] else {}
        quantal = {"temperature": 1 / math.sqrt(self.episode or self.horizon)}
        return lr.Guard(
            self.problem, self.horizon, fallback=self.fallback(), **quantal | self.responding(), **more, **made
        )

    def said(self, t: int, b: int | None = None) -> tuple[Any, dict[str, Any]]:
        """What ``advise`` is given at step t, of all streams or of one."""
        rows: Any = slice(None) if self.shape and b is None else (b or 0)
        at: Any = (rows, t - 1)
        more: dict[str, Any] = {}
        if self.plays is not None:
            more["references"] = self.plays[at]
        if isinstance(self.beside, tuple):
            more["references"] = tuple(each.at(at) for each in self.beside)
        elif self.beside is not None:
            more["references"] = self.beside[at]
        if self.context is not None:
            more["context"] = self.context[at]
        if self.scale is not None:
            more["scale"] = self.scale[at]
        if self.changed is not None:
            more["payoffs"] = self.payoff(self.changed[t - 1]) if self.numbers else self.changed[at]
        return self.forecast.at(at) if self.numbers else self.forecast[at], more

    # As the loop takes it

    @property
    def steps(self) -> int | None:
        """Of an episode."""
        return self.horizon if self.episode is None else self.episode

    def settings(self, each: Any) -> literal.Settings:
        """``each``: the rule of a class, for its rates and the safe law that it falls back on."""
        delta = self.delta
        if delta is None:
            delta = 1 / self.T / (1 if self.episode is None else -(-self.T // self.episode))
        fallback: Any = 1 if self.case["fallback"] == "Incumbent" else self.case["fallback"]
        plain = fallback == "Recovery" and not self.told and not self.numbers
        best = self.case["temperature"] == "0"
        safe = each.in_play.fallback.safe if plain and not best else None
        utility = self.utility(0, 0)
        paid = utility(np.array(KNOTS) if self.numbers else np.arange(self.S))
        wide = self.case["payoffs"] == "change"
        return literal.Settings(
            self.A,
            self.S,
            2.0 if wide else float((paid.max(axis=0) - paid.min(axis=0)).max()),
            None if self.steps is None else -(-self.steps // self.lag),
            delta / literal.late_factor(self.lag),
            each.prior.rates_K,
            self.contexts or 1,
            len(self.references),
            0 if self.says_they_act else len(self.references),
            self.lag,
            self.told,
            fallback,
            safe,
            self.recovery.memories,
            self.recovery.share,
            self.recovery.budget,
            0.0 if best else None,
            self.case["likelihood"],
            self.case["test"],
        )

    def told_of(self, t: int, b: int) -> literal.Told:
        forecast, more = self.said(t, b)
        said = more.get("references")
        return literal.Told(
            forecast,
            None if said is None else tuple(said),
            self.acting,
            int(more.get("context", 0)),
            self.utility(t - 1, b),
            KNOTS,
            float(more.get("scale", 1.0)),
            self.came[b, t - 1] if self.numbers else int(self.came[b, t - 1]),
        )
