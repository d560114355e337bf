"""The default guard for one stream in plain Python: all that ``Guard(problem)`` does, as one would explain it.

It plays the best response to the forecast. Meanwhile it bets against the forecast, at the forecast's own odds: if that
is right, the chance that its capital ever grows to 1/delta is at most delta. If it does, there is an alarm. From then
on it acts on a mixture of forecasts, on a budget of regret; once that is spent it plays Hedge, until half is won back.
"""

import math

MEMORIES = 20, 200  # about how many states an urn remembers
SHARE = 0.003  # of the weight in the mixture, spread evenly after each step: no forecast is lost for good
BUDGET = 0.5  # what acting on the mixture may lose, in units of span * sqrt(steps)
TIE = 1e-12  # sums that differ by less are equal but for rounding


class PlainGuard:
    """``advise(probs)`` before a step, ``observe(state)`` after it; ``utility[action][state]`` is what one earns."""

    def __init__(self, utility: list[list[float]], delta: float = 0.05, horizon: int | None = None) -> None:
        self.utility, self.delta, self.horizon = utility, delta, horizon
        self.actions, self.states = range(len(utility)), range(len(utility[0]))
        self.span = max(max(row[s] for row in utility) - min(row[s] for row in utility) for s in self.states)
        self.step, self.alarmed, self.returned, self.events = 0, False, False, []
        # A capital of 1: half of it is for bets on actions, each at several rates, half for a bet on the mixture.
        self.shares = self.shares_by_rate()
        self.bets = {(a, rate): 0.0 for a in self.actions for rate in self.shares}
        self.mixture_bet, self.unstaked, self.mixture_unstaked, self.evidence = 0.0, 0.5, 0.5, math.log(0.5)
        self.gained, self.squares, self.age = 0.0, 0.0, 0  # by acting on the mixture, since that was lowest
        self.log_ratio, self.lowest = 0.0, 0  # the sum of ln(mixture / model) since that was lowest; when it was
        # The mixture: the model's forecast, and urns. Those of an action see the states that come while it is advised.
        self.urns = {(memory, a): [0.0] * len(self.states) for a in (None, *self.actions) for memory in MEMORIES}
        self.weights = [1 / 5] * 5
        # How far each action, and last the model, is ahead of what was played since the alarm, since that was lowest.
        self.ahead, self.plays_hedge = [0.0] * (len(utility) + 1), False

    def advise(self, probs: list[float]) -> list[float]:
        self.probs, self.advised = probs, self.best_response(probs)
        urns = [self.urns[memory, a] for a in (None, self.advised) for memory in MEMORIES]
        self.forecasts = [probs] + [[(count + 1) / (sum(urn) + len(urn)) for count in urn] for urn in urns]
        self.mixture = [dot(self.weights, [forecast[s] for forecast in self.forecasts]) for s in self.states]
        self.mixed = self.best_response(self.mixture)
        played = self.mixed if self.alarmed else self.advised
        self.policy = [float(a == played) for a in self.actions]
        if self.plays_hedge:
            *of_actions, of_model = hedge(self.total, self.gap)[0]
            self.policy = [of_actions[a] + of_model * (a == self.advised) for a in self.actions]
        return self.policy

    def best_response(self, probs: list[float]) -> int:
        """The action that is worth most, the first of those that are tied."""
        worths = [dot(row, probs) for row in self.utility]
        return next(a for a in self.actions if worths[a] >= max(worths) - TIE)

    def observe(self, state: int) -> None:
        t = self.step = self.step + 1
        T, earned = self.horizon, [row[state] for row in self.utility]
        # What is staked now: half at the first step, half as time goes by, since a break may come late.
        now = 0.5 * (t == 1) + 0.5 * (1 / (t * (t + 1)) if T is None else (t <= T) / T)
        # Bets on actions. On average they win nothing wherever what is advised is best, by the forecast or in truth.
        for a, rate in self.bets:
            at_once, in_time = self.shares[rate]
            stake = 0.5 / len(self.actions) * (at_once * (t == 1) + in_time * now)
            win = math.exp(rate * (earned[a] - earned[self.advised])) / self.charge(a, self.advised, rate)
            self.unstaked -= stake
            self.bets[a, rate] = (self.bets[a, rate] + stake) * win
        # A bet on the mixture, at the forecast's odds. It counts only while acting on the mixture earns clearly more.
        chance = self.probs[state] / sum(self.probs)
        if chance == 0:
            self.unstaked = math.inf  # the model had excluded what came: a bet on that has won everything
        win = self.mixture[state] / (chance or self.mixture[state])
        self.mixture_unstaked -= 0.5 * now
        self.mixture_bet = (self.mixture_bet + 0.5 * now) * win
        self.log_ratio += math.log(win)
        if self.log_ratio <= TIE:
            self.log_ratio, self.lowest = 0.0, t
        gain = earned[self.mixed] - earned[self.advised]
        self.gained, self.squares, self.age = self.gained + gain, self.squares + gain**2, self.age + 1
        if self.gained <= TIE:
            self.gained, self.squares, self.age = 0.0, 0.0, 0
        capital = sum(self.bets.values()) + self.unstaked
        if self.age > 0 and self.gained**2 >= self.squares * (math.log(1 + t / self.age) + 2):
            capital += self.mixture_bet + self.mixture_unstaked
        self.evidence = math.log(capital)
        # The mixture learns: weights follow the likelihood; urns forget a little, and take what came.
        likely = [weight * forecast[state] for weight, forecast in zip(self.weights, self.forecasts, strict=True)]
        self.weights = [(1 - SHARE) * one / sum(likely) + SHARE / len(likely) for one in likely]
        for memory, a in self.urns:
            if a in (None, self.advised):
                self.urns[memory, a] = [n * (1 - 1 / memory) + (s == state) for s, n in enumerate(self.urns[memory, a])]
        # There is an alarm; after it, the model has returned once most of what is played is its own again.
        if self.alarmed:
            self.keep_to_budget([*earned, earned[self.advised]])
            had, share = self.returned, 0.0 if self.plays_hedge else self.weights[0]
            self.returned = share > (0.25 if had else 0.5)
            if self.returned != had:
                self.events.append(("return" if self.returned else "dropped", t, None))
        elif self.evidence >= math.log(1 / self.delta) and self.span > 0:
            self.alarmed = True
            since = None if self.evidence == math.inf else self.lowest + (self.log_ratio > 0)
            self.events.append(("alarm", t, since))

    def charge(self, a: int, best: int, rate: float) -> float:
        """The most that exp(rate * gain of a over best) can be on average wherever ``best`` is a best response."""
        gains = [self.utility[a][s] - self.utility[best][s] for s in self.states]
        low, high = -min(gains), max(gains)
        if low <= 0 or high <= 0:
            return 1.0
        return 1 + (low * math.expm1(rate * high) + high * math.expm1(-rate * low)) / (low + high)

    def shares_by_rate(self) -> dict[float, tuple[float, float]]:
        """What share of its capital an action's bet at each rate stakes at once, and what share as time goes by."""
        halved = [2 / (self.span or 1) / 2**k for k in range(40)]
        if self.horizon is None:
            return {rate: (0.0, 1 / ((k + 1) * (k + 2))) for k, rate in enumerate(halved)}
        cost, low, high = math.log(len(self.actions) / (0.75 * 0.5 * self.delta)), halved[-1], halved[0]

        def regret(rate: float) -> float:  # the most there can be at the horizon if there was no alarm
            charge = max(self.charge(a, b, rate) for a in self.actions for b in self.actions)
            return (self.horizon * math.log(charge) + cost) / rate

        for _ in range(200):  # the rate at which that is least
            left, right = low ** (2 / 3) * high ** (1 / 3), low ** (1 / 3) * high ** (2 / 3)
            low, high = (low, right) if regret(left) < regret(right) else (left, high)
        rates = [high] + [rate for rate in halved if rate > high * (1 + 1e-9)]
        return {rate: (0.75 * (rate == high), 0.25 / len(rates)) for rate in rates}

    def keep_to_budget(self, earned: list[float]) -> None:
        """Whether Hedge is played next; it begins afresh whenever the budget is spent."""
        own, had = dot(self.policy, earned[:-1]), self.plays_hedge
        self.ahead = [max(ahead + one - own, 0.0) for ahead, one in zip(self.ahead, earned, strict=True)]
        budget = BUDGET * self.span * math.sqrt(self.horizon or self.step)
        self.plays_hedge = max(self.ahead) > budget / 2 * (1 + 1e-9) if had else max(self.ahead) >= budget * (1 - 1e-9)
        if not (had and self.plays_hedge):
            self.total, self.gap = [0.0] * len(earned), 0.0
            return
        weights, before = hedge(self.total, self.gap)
        total = [had + one for had, one in zip(self.total, earned, strict=True)]
        lost = hedge(total, self.gap)[1] - before - dot(weights, earned)
        self.total, self.gap = total, self.gap + max(lost, 0.0)


def hedge(total: list[float], gap: float) -> tuple[list[float], float]:
    """AdaHedge's weights by what each has earned, and its soft maximum; ``gap`` is what mixing has cost so far."""
    rate, best = math.log(len(total)) / max(gap, 1e-300), max(total)
    scores = [math.exp(rate * (one - best)) for one in total]
    return [score / sum(scores) for score in scores], best + math.log(sum(scores) / len(scores)) / rate


def dot(xs: list[float], ys: list[float]) -> float:
    return sum(x * y for x, y in zip(xs, ys, strict=True))
