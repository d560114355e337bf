"""The whole engine as it is written down: one stream in plain loops, slow and independent of the engine's code.

A forecast is acted on and bet against; every comparator, rate and start has a wealth of its own; steps that are a lag
apart make a class with a test and a fallback; one alarm is for all of them. Who plays best responses may have a second
bettor, on the mixture in the shadow; without a test the fallback is played from the first step on. Asked of the library
are only the betting rates and the safe law of a ``Recovery``.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import lowregret as lr

Who = tuple[str, int, int]  # ("action", context, which) or ("reference", 0, which)


class Settings(NamedTuple):
    """What a test is made of; horizon and delta are those of a class."""

    actions: int
    states: int  # 0: outcomes are numbers
    span: float  # J, of all that may come
    horizon: int | None
    delta: float
    rates_K: np.ndarray
    contexts: int
    references: int
    lag: int
    told: bool  # more than a law
    fallback: Any  # "Recovery", or the place of a reference
    safe: Any = None  # of a Recovery that is told nothing more: a law
    memories: tuple[float, ...] = (20, 200)
    share: float = 0.003
    budget: float = 0.5
    temperature: float | None = None  # None: by the horizon; 0: best responses
    likelihood: bool = False  # a second bettor, with half of the capital
    test: bool = True
    own: bool = True  # actions are compared with, and not references alone

    @property
    def best(self) -> bool:
        return self.temperature == 0

    @property
    def capital(self) -> float:
        """Of those who bet on comparators."""
        return 0.5 if self.likelihood else 1.0

    @property
    def experts(self) -> int:
        """Whom safe play hears: actions and references, and the model where best responses are played."""
        return self.actions + self.references + self.best

    @property
    def whom(self) -> list[Who]:
        own = [("action", c, a) for c in range(self.contexts) for a in range(self.actions) if self.own]
        return own + [("reference", 0, n) for n in range(self.references)]

    def warmth(self, step: int) -> float:
        if self.temperature is not None:
            return self.temperature
        if self.horizon is not None:
            return 1 / math.sqrt(self.horizon)
        return self.span / (2 * math.sqrt(math.log(self.actions))) / math.sqrt(step + max(self.states - 1, 1))

    def joins_K(self, start: int) -> np.ndarray:
        """m(c, k, start): what joins each rate of a comparator at its so-manieth step."""
        K, each = len(self.rates_K), self.capital / len(self.whom)
        if self.horizon is None:
            return np.array([each * self._falling(start) / ((k + 1) * (k + 2)) for k in range(K)])
        share = 0.25 / K * (0.5 / self.horizon + 0.5 * (start == 1))
        return np.array([each * (share + 0.75 * (start == 1 and k == 0)) for k in range(K)])

    def joins_second(self, start: int) -> float:
        """What joins the second bettor."""
        when = self._falling(start) if self.horizon is None else 0.5 / self.horizon + 0.5 * (start == 1)
        return (1 - self.capital) * when

    def _falling(self, start: int) -> float:
        """Without a horizon; beside best responses half of it is for the first start."""
        falling = 1 / (start * (start + 1))
        return 0.5 * (start == 1) + 0.5 * falling if self.best else falling


class Told(NamedTuple):
    """All of one step."""

    forecast: Any  # a law, or a forecast of a number
    references: tuple[Any, ...] | None  # what each says: a forecast like it
    context: int
    utility: Callable[[np.ndarray], np.ndarray]  # outcomes [n] -> [A, n]
    knots: tuple[float, ...]
    scale: float
    outcome: Any


# A forecast


def acted_on(forecast: Any, clock: int) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes and what they weigh: the law to respond to."""
    if isinstance(forecast, lr.Samples):
        first = dealt(forecast.values, clock)[: len(forecast.values) // 2]
        return first, np.full(len(first), 1 / len(first))
    if isinstance(forecast, lr.Quantiles):
        masses, values = np.diff([0.0, *forecast.levels, 1.0]), forecast.values
        points, weights = [values[0]], [masses[0]]
        for low, high, mass in zip(values[:-1], values[1:], masses[1:-1], strict=True):
            points += [low + (high - low) * part for part in (0.125, 0.375, 0.625, 0.875)]
            weights += [mass / 4] * 4
        return np.array([*points, values[-1]]), np.array([*weights, masses[-1]])
    return np.arange(len(forecast)), np.asarray(forecast)


def dealt(values: np.ndarray, clock: int) -> np.ndarray:
    return values[np.random.default_rng((0x6C6F7772, len(values), clock)).permutation(len(values))]


def cells(forecast: Any, knots: tuple[float, ...], outcome: Any, clock: int) -> list[tuple[float, np.ndarray]]:
    """Masses, and where each may lie: a bet is charged for the worst place of every mass."""
    if isinstance(forecast, lr.Samples):
        judged = [*dealt(forecast.values, clock)[len(forecast.values) // 2 :], outcome]
        return [(1 / len(judged), np.array([y])) for y in judged]
    if isinstance(forecast, lr.Quantiles):
        found, ends = [], [-math.inf, *forecast.values, math.inf]
        for low, high, mass in zip(ends[:-1], ends[1:], np.diff([0.0, *forecast.levels, 1.0]), strict=True):
            inside = [y for y in (low, high) if math.isfinite(y)] + [y for y in knots if low <= y <= high]
            found.append((float(mass), np.array(inside)))
        return found
    points, weights = acted_on(forecast, clock)
    return [(w / weights.sum(), np.array([y])) for y, w in zip(points, weights, strict=True)]


def excluded(forecast: Any, outcome: Any) -> bool:
    return isinstance(forecast, np.ndarray) and forecast[outcome] == 0


def best_of(worth: np.ndarray) -> np.ndarray:
    """All on the best, the first of those that are equal up to rounding."""
    return np.eye(len(worth))[np.flatnonzero(worth >= worth.max() - 1e-12)[0]]


def softmax(worth: np.ndarray) -> np.ndarray:
    weights = np.exp(worth - worth.max())
    return weights / weights.sum()


# What is played after an alarm


class AdaHedge:
    """Exponential weights whose rate is ln N over the mixability gaps so far."""

    def __init__(self, experts: int) -> None:
        self.earned, self.gap = np.zeros(experts), 0.0

    def weights(self) -> np.ndarray:
        if self.gap == 0:
            return np.full(len(self.earned), 1 / len(self.earned))
        return softmax(math.log(len(self.earned)) / self.gap * self.earned)

    def see(self, paid: np.ndarray) -> None:
        mixed, before = float(self.weights() @ paid), self._soft(self.earned)
        self.earned = self.earned + paid
        self.gap += max(0.0, self._soft(self.earned) - before - mixed)

    def _soft(self, earned: np.ndarray) -> float:
        if self.gap == 0:
            return float(earned.max())
        rate = math.log(len(earned)) / self.gap
        return float(np.log(np.mean(np.exp(rate * (earned - earned.max())))) / rate + earned.max())


class AmongExperts:
    """Of numbers: Hedge over actions, references and the model, from the alarm on."""

    def __init__(self, s: Settings) -> None:
        self.hedge, self.seen, self.A = AdaHedge(s.actions + s.references + 1), 0, s.actions

    def play(self, now: "Due") -> np.ndarray:
        w = self.hedge.weights()
        return w[: self.A] + sum((w[self.A + n] * play for n, play in enumerate(now.plays)), w[-1] * now.base)

    def see(self, now: "Due", mixed: np.ndarray) -> None:
        self.seen += 1
        if now.late:
            self.hedge.see(np.append(now.paid, now.paid[: self.A] @ now.base))

    def share(self) -> float:
        return float(self.hedge.weights()[-1])


class Mixture:
    """Of laws: the model's, urns', references', on a budget; safe play where that is spent."""

    def __init__(self, s: Settings) -> None:
        self.s, self.seen = s, 0
        self.count = {(m, a): np.zeros(s.states) for m in range(len(s.memories)) for a in (None, *range(s.actions))}
        self.laws = 1 + 2 * len(s.memories) + s.references
        self.weights = np.full(self.laws, 1 / self.laws)
        if not s.test:
            self.weights = np.array([0.9] + [0.1 / (self.laws - 1)] * (self.laws - 1))
        self.regret, self.low = np.zeros(s.experts), np.zeros(s.experts)
        self.is_safe, self.hedge, self.memory = False, AdaHedge(s.experts), None

    def advised(self, now: "Due") -> int:
        return int(best_of(now.told.utility(np.arange(self.s.states)) @ now.told.forecast).argmax())

    def speak(self, now: "Due") -> list[np.ndarray]:
        urns = [self.count[m, a] for a in (None, self.advised(now)) for m in range(len(self.s.memories))]
        said = [now.told.forecast, *((urn + 1) / (urn.sum() + len(urn)) for urn in urns)]
        return said + list(now.told.references or ())

    def law(self, now: "Due") -> np.ndarray:
        """What all of them say together."""
        said = self.speak(now)
        w = self.weights[: len(said)]
        return sum(one * law for one, law in zip(w, said, strict=True)) / w.sum()

    def play(self, now: "Due") -> np.ndarray:
        A = self.s.actions
        if self.is_safe and self.s.safe is None:
            w = self.hedge.weights()
            model = w[-1] * now.base if self.s.best else np.zeros(A)
            return w[:A] + sum((w[A + n] * play for n, play in enumerate(now.plays)), model)
        return now.respond(self.s.safe.predict(self.memory) if self.is_safe else self.law(now))

    def see(self, now: "Due", mixed: np.ndarray) -> None:
        s, said, state = self.s, self.speak(now), now.told.outcome
        w = self.weights[: len(said)]
        came = [law[state] for law in said]
        came += [float(w @ np.array(came)) / w.sum()] * (self.laws - len(said))  # who is silent agrees with the rest
        posterior = self.weights * came
        self.weights = posterior / posterior.sum() * (1 - s.share) + s.share / self.laws
        for a in (None, self.advised(now)):
            for m, memory in enumerate(s.memories):
                self.count[m, a] = self.count[m, a] * (1 - 1 / memory)
                self.count[m, a][state] += 1
        self.seen += 1
        if not now.late:
            return
        paid = np.append(now.paid, now.paid[: s.actions] @ now.base) if s.best else now.paid
        self.regret = self.regret + paid - float(mixed @ paid[: s.actions])
        self.low = np.minimum(self.low, self.regret)
        limit = s.budget * s.span * math.sqrt(self.seen if s.horizon is None else s.horizon / s.contexts)
        worst, was = (self.regret - self.low).max(), self.is_safe
        self.is_safe = worst > limit / 2 if was else worst >= limit
        if was and self.is_safe:
            self.hedge.see(paid)
            self.memory = None if s.safe is None else s.safe.update(self.memory, state)
        else:
            self.hedge = AdaHedge(s.experts)
            self.memory = None if s.safe is None else s.safe.start()

    def share(self) -> float:
        return 0.0 if self.is_safe else float(self.weights[0])


class Alone:
    """A reference, for good."""

    def __init__(self, s: Settings) -> None:
        self.s, self.seen = s, 0

    def play(self, now: "Due") -> np.ndarray:
        return now.plays[self.s.fallback]

    def see(self, now: "Due", mixed: np.ndarray) -> None:
        self.seen += 1

    def share(self) -> float:
        return 0.0


# A step, a class, a stream


class Due:
    """A step that waits for its outcome: what everyone would play, and what is played."""

    def __init__(self, s: Settings, told: Told, place: "Class", at: int) -> None:
        self.told, self.s, self.place, self.at, self.clock, self.late = told, s, place, at, place.n, place.late
        self.step, self.eta = self.clock + 1, s.warmth(self.clock + 1)
        self.base = self.respond(told.forecast)
        self.plays = []
        for said in told.references or ():
            self.plays.append(self.respond(said))
        self.mixed = place.backs[told.context].play(self) if self.late else self.base

    def respond(self, forecast: Any) -> np.ndarray:
        points, weights = acted_on(forecast, self.clock)
        worth = self.told.utility(points) @ weights
        return softmax(worth / self.eta) if self.eta else best_of(worth)

    def theirs(self, who: Who) -> np.ndarray:
        return np.eye(self.s.actions)[who[2]] if who[0] == "action" else self.plays[who[2]]

    @property
    def paid(self) -> np.ndarray:
        """What actions and references were paid."""
        earned = self.told.scale * self.told.utility(np.array([self.told.outcome]))[:, 0]
        return np.array([*earned, *(play @ earned for play in self.plays)])

    def lead(self, who: Who) -> float:
        if who[0] == "action" and who[1] != self.told.context:
            return 0.0
        return float((self.theirs(who) - self.mixed) @ self.paid[: self.s.actions])


class SecondBettor:
    """On the likelihood of the mixture in the shadow; heard while acting on that has earned more than luck explains."""

    def __init__(self, s: Settings) -> None:
        self.s, self.n, self.wealth, self.spent = s, 0, 0.0, 0.0
        self.gained: list[float] = []  # what acting on it earned more, since its lowest point
        self.began: list[int] = []  # the steps of these

    def see(self, due: "Due", law: np.ndarray) -> None:
        self.n += 1
        model, state = due.told.forecast, due.told.outcome
        joins = self.s.joins_second(self.n)
        self.wealth = (self.wealth + joins) * law[state] * model.sum() / (model[state] or 1.0)
        self.spent += joins
        self.gained.append(float((due.respond(law) - due.base) @ due.paid[: self.s.actions]))
        self.began.append(due.at)
        if sum(self.gained) <= 0:
            self.gained, self.began = [], []

    def total(self) -> float:
        """What it has, as far as that counts."""
        rise, spread, age = sum(self.gained), sum(d * d for d in self.gained), len(self.gained)
        heard = rise > 0 and rise**2 >= spread * (math.log(1 + self.n / age) + 2)
        return self.wealth + 1 - self.s.capital - self.spent if heard else 0.0


class Class:
    """Steps that are a lag apart: a test of them and a fallback for each context."""

    def __init__(self, s: Settings) -> None:
        self.s, self.n, self.late, self.excluded, self.spent = s, 0, False, False, 0.0
        self.wealth: dict[Who, np.ndarray] = {who: np.zeros((0, len(s.rates_K))) for who in s.whom}  # by start and rate
        self.began: dict[Who, list[int]] = {who: [] for who in s.whom}
        self.charges = {who: np.zeros(len(s.rates_K)) for who in s.whom}
        own: Any = Alone if s.fallback != "Recovery" else Mixture if s.states else AmongExperts
        backs = [own(s) for _ in range(s.contexts)]
        self.backs = backs if s.fallback == "Recovery" else [backs[0]] * s.contexts
        self.trusted, self.second = False, SecondBettor(s)

    def on_comparators(self) -> float:
        return sum(float(w.sum()) for w in self.wealth.values()) + self.s.capital - self.spent

    def total(self) -> float:
        return math.inf if self.excluded else self.on_comparators() + self.second.total()

    def see(self, due: Due) -> dict[Who, np.ndarray]:
        """Bets and fallbacks after the outcome; what was charged."""
        told, rates_K, charged = due.told, self.s.rates_K, {}
        self.n += 1
        masses = cells(told.forecast, told.knots, told.outcome, due.clock)
        at, weights = np.concatenate([points for _, points in masses]), np.array([mass for mass, _ in masses])
        begins = np.cumsum([0, *(len(points) for _, points in masses[:-1])])
        earned, came = told.utility(at), told.utility(np.array([told.outcome]))[:, 0]
        for who in self.s.whom:
            if who[0] == "action" and who[1] != told.context:
                continue  # it sits out
            ahead = told.scale * (due.theirs(who) - due.base)
            if self.s.likelihood:
                pure = told.scale * (np.eye(self.s.actions) - due.base) @ told.utility(np.arange(self.s.states))
                charged[who] = due.theirs(who) @ np.array([self._by_pair(gains) for gains in pure])
            else:
                most = np.maximum.reduceat(ahead @ earned, begins)  # of each mass, the worst place
                charged[who] = np.maximum(1.0, weights @ np.exp(most[:, None] * rates_K))
            self.began[who].append(due.at)
            joins_K = self.s.joins_K(len(self.began[who]))
            self.spent += float(joins_K.sum())
            factor_K = np.exp(rates_K * (ahead @ came)) / charged[who]
            self.wealth[who] = np.vstack([self.wealth[who], joins_K]) * factor_K
        self.excluded |= excluded(told.forecast, told.outcome)
        if self.s.likelihood:
            self.second.see(due, self.backs[told.context].law(due))
        self.backs[told.context].see(due, due.mixed)
        if due.late:
            share = self.share()
            self.trusted = share > 0.5 or (self.trusted and share > 0.25)
        return charged

    def _by_pair(self, gains: np.ndarray) -> np.ndarray:
        """The most that a bet on gains between these wins on average, if their mean is 0."""
        low, high = -gains.min(), gains.max()
        if low <= 0 or high <= 0:
            return np.ones(len(self.s.rates_K))
        up, down = np.exp(self.s.rates_K * high), np.exp(-self.s.rates_K * low)
        return (low * up + high * down) / (low + high)

    def share(self) -> float:
        often = np.array([back.seen + 1e-9 for back in self.backs])
        return float(np.array([back.share() for back in self.backs]) @ often / often.sum())

    def suspect(self) -> tuple[int | None, int | None, int | None, int]:
        """Action or reference, context and start of the richest bettor; the second one's start, if it was needed."""
        if self.on_comparators() * self.s.delta < 1 and self.second.gained:
            return None, None, None, self.second.began[0]
        kind, context, index = who = max(self.s.whom, key=lambda one: self.wealth[one].sum(axis=0).max(initial=0.0))
        wealth = self.wealth[who]
        since = self.began[who][int(wealth[:, wealth.sum(axis=0).argmax()].argmax())]
        return (index, None, context, since) if kind == "action" else (None, index, None, since)


class Event(NamedTuple):
    kind: str  # Switch, Return, Left
    step: int
    known: int
    action: int | None = None
    reference: int | None = None
    context: int | None = None
    since: int | None = None


class Stream:
    """One stream, step by step."""

    def __init__(self, s: Settings) -> None:
        self.s, self.events = s, list[Event]()
        self.played: list[np.ndarray] = []
        self.classes = [Class(self.s) for _ in range(self.s.lag)]
        self.alarm, self.seen, self.last, self.trusted = int(not s.test), 0, 0, False
        self.leads = dict.fromkeys(self.s.whom, 0.0)
        self.waiting: dict[int, Due] = {}

    def advise(self, t: int, told: Told) -> np.ndarray:
        place = self.classes[(t - 1) % self.s.lag]
        place.late, self.last = self.alarm > 0, t
        due = self.waiting[t] = Due(self.s, told, place, t)
        self.played.append(due.mixed)
        return due.mixed

    def observe(self, t: int) -> None:
        due = self.waiting.pop(t)
        charged = due.place.see(due)
        self.seen += 1
        for who in self.leads:
            self.leads[who] += due.lead(who)
        reached = np.mean([one.total() for one in self.classes]) >= 1 / self.s.delta
        when = t, self.last
        if reached and not self.alarm:
            self.alarm = self.seen
            richest = max(self.classes, key=lambda one: one.total())
            self.events.append(Event("Switch", *when, *([] if richest.excluded else richest.suspect())))
        if not self.alarm:
            for who, charge in charged.items():
                due.place.charges[who] += np.log(charge)
        trusted = 2 * sum(one.trusted for one in self.classes) > self.s.lag
        if trusted != self.trusted and self.s.test:
            self.events.append(Event("Return" if trusted else "Left", *when))
        self.trusted = trusted

    def worst(self, leads: dict[Who, float]) -> float:
        s = self.s
        own = [max(leads["action", c, a] for a in range(s.actions)) for c in range(s.contexts) if s.own]
        return max([*([sum(own)] if own else []), *(leads["reference", 0, n] for n in range(s.references))])


def settings_of(rule: Any) -> Settings:
    """Those of an ``ExactTest`` with a ``Recovery`` or an ``Incumbent``, whose outcomes come in time."""
    back, N = rule.fallback, len(rule.references)
    law = None if rule.told or rule.of_numbers else rule.in_play.fallback.safe
    made = (back.memories, back.share, back.budget) if isinstance(back, lr.Recovery) else ()
    return Settings(
        rule.problem.n_actions,
        rule.n_states,
        rule.stakes.span,
        rule.horizon,
        rule.delta,
        rule.rates_K,
        rule.n_contexts,
        N,
        1,
        rule.told,
        "Recovery" if made else rule.references.index(back.name),
        law,
        *made,
        temperature=rule.temperature,
        likelihood=rule.likelihood,
        test=rule.test,
        own=rule.actions,
    )
