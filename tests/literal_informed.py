"""The exact test told more than a law, and its way back, as they are written down: loops, slow and independent."""

import math
from typing import Any, NamedTuple

import numpy as np

import lowregret as lr


class Step(NamedTuple):
    """All of one step."""

    probs: np.ndarray
    plays_NxA: np.ndarray  # what the references play, where they state no laws
    laws_NxS: np.ndarray | None
    context: int
    utility: np.ndarray
    scale: float
    state: int


class Told(NamedTuple):
    trip: int  # T + 1 for never
    log_total_T: list[float]
    regret_T: list[float]  # in all
    played_TxA: list[np.ndarray]


def respond(utility: np.ndarray, law: np.ndarray, eta: float) -> np.ndarray:
    worth = utility @ law / eta
    weights = np.exp(worth - worth.max())
    return weights / weights.sum()


def joins(rule: Any, n: int, k: int) -> float:
    """m(c, k, n): what joins a bettor at the n-th step of its comparator."""
    K, count = len(rule.rates_K), rule.n_comparators
    if rule.horizon is None:
        return 1 / (n * (n + 1)) / ((k + 1) * (k + 2)) / count
    share = 0.25 / K * (0.5 / rule.horizon + 0.5 * (n == 1))
    return (share + 0.75 * (n == 1 and k == 0)) / count


def told(rule: Any, steps: list[Step]) -> Told:
    """One stream, played until its end."""
    A, N, C = rule.problem.n_actions, len(rule.references), rule.rows
    K, T, tau, spent = len(rule.rates_K), len(steps), len(steps) + 1, 0.0
    whom = [("action", c, a) for c in range(C) for a in range(A) if rule.actions]
    whom += [("reference", 0, n) for n in range(N)]
    wealth = {(who, k): 0.0 for who in whom for k in range(K)}
    seen, leads = dict.fromkeys(whom, 0), dict.fromkeys(whom, 0.0)
    backs = [Back(rule) for _ in range(C)]
    totals, regrets, played = [], [], []
    for t, step in enumerate(steps, 1):
        eta = rule.stakes.anytime_temperature(t) if rule.temperature is None else rule.temperature
        p = step.probs / step.probs.sum()
        pi = respond(step.utility, step.probs, eta)
        plays = step.plays_NxA
        if step.laws_NxS is not None:
            plays = np.array([respond(step.utility, law, eta) for law in step.laws_NxS])
        back = backs[step.context]
        if tau < t and isinstance(rule.fallback, lr.policies.Incumbent):
            mixed = plays[rule.references.index(rule.fallback.name)]
        else:
            mixed = back.play(step, plays, eta) if tau < t else pi
        played.append(mixed)
        for who in whom:
            kind, context, index = who
            if kind == "action" and context != step.context:
                continue  # it sits out
            theirs = np.eye(A)[index] if kind == "action" else plays[index]
            gain_S = step.scale * (theirs @ step.utility - pi @ step.utility)
            seen[who] += 1
            for k in range(K):
                joined, rate = joins(rule, seen[who], k), rule.rates_K[k]
                charge = max(1.0, sum(q * math.exp(rate * x) for q, x in zip(p, gain_S, strict=True)))
                spent += joined
                wealth[who, k] = (wealth[who, k] + joined) * math.exp(rate * gain_S[step.state]) / charge
            leads[who] += step.scale * float((theirs - mixed) @ step.utility[:, step.state])
        if not isinstance(rule.fallback, lr.policies.Incumbent):
            back.see(step, plays, mixed, tau < t)
        total = sum(wealth.values()) + 1 - spent
        totals.append(math.log(total))
        if tau > T and (total >= 1 / rule.delta or step.probs[step.state] == 0):
            tau = t
        each = [max(leads["action", c, a] for a in range(A)) for c in range(C)] if rule.actions else []
        regrets.append(max([*([sum(each)] if each else []), *(leads["reference", 0, n] for n in range(N))]))
    return Told(tau, totals, regrets, played)


class Back:
    """One context after an alarm: a mixture of laws on a budget, and AdaHedge over actions and references."""

    def __init__(self, rule: Any) -> None:
        (A, S), N = rule.problem.utility.shape, len(rule.references)
        self.rule, self.recovery = rule, rule.fallback
        self.count = {(m, a): np.zeros(S) for m in range(2) for a in (None, *range(A))}
        self.laws = 5 + (0 if rule.references_act else N)
        self.weights = np.full(self.laws, 1 / self.laws)
        self.regret, self.low = np.zeros(A + N), np.zeros(A + N)
        self.safe, self.earned, self.gap, self.seen = False, np.zeros(A + N), 0.0, 0

    def speak(self, step: Step) -> list[np.ndarray]:
        worth = step.utility @ step.probs
        advised = int(np.flatnonzero(worth >= worth.max() - 1e-12)[0])
        urns = [self.count[m, a] for a in (None, advised) for m in range(2)]
        laws = [step.probs, *((urn + 1) / (urn.sum() + len(urn)) for urn in urns)]
        return laws + ([] if self.rule.references_act or step.laws_NxS is None else list(step.laws_NxS))

    def hedge(self) -> np.ndarray:
        if self.gap == 0:
            return np.full(len(self.earned), 1 / len(self.earned))
        weights = np.exp(math.log(len(self.earned)) / self.gap * (self.earned - self.earned.max()))
        return weights / weights.sum()

    def play(self, step: Step, plays: Any, eta: float) -> np.ndarray:
        if self.safe:
            weights, A = self.hedge(), len(step.utility)
            return weights[:A] + sum((w * mixed for w, mixed in zip(weights[A:], plays, strict=True)), np.zeros(A))
        laws = self.speak(step)
        weights = self.weights[: len(laws)]
        return respond(step.utility, sum(w * law for w, law in zip(weights, laws, strict=True)) / weights.sum(), eta)

    def see(self, step: Step, plays: Any, mixed: np.ndarray, late: bool) -> None:
        rule, laws, state = self.rule, self.speak(step), step.state
        came = [law[state] for law in laws]
        silent = float(np.dot(self.weights[: len(laws)], came) / self.weights[: len(laws)].sum())
        came += [silent] * (self.laws - len(laws))
        posterior = self.weights * came
        self.weights = posterior / posterior.sum() * (1 - self.recovery.share) + self.recovery.share / self.laws
        worth = step.utility @ step.probs
        advised = int(np.flatnonzero(worth >= worth.max() - 1e-12)[0])
        for m, memory in enumerate(self.recovery.memories):
            for a in (None, advised):
                self.count[m, a] = self.count[m, a] * (1 - 1 / memory)
                self.count[m, a][state] += 1
        self.seen += 1
        if not late:
            return
        earned = step.utility[:, state]
        paid = step.scale * np.array([*earned, *(mixed_A @ earned for mixed_A in plays)])
        self.regret = self.regret + paid - step.scale * float(mixed @ step.utility[:, state])
        self.low = np.minimum(self.low, self.regret)
        root = math.sqrt(self.seen if rule.horizon is None else rule.horizon / rule.rows)
        limit = self.recovery.budget * rule.stakes.span * root
        worst = (self.regret - self.low).max()
        was, self.safe = self.safe, worst > limit / 2 if self.safe else worst >= limit
        if was and self.safe:
            self.paid(paid)
        else:
            self.earned, self.gap = np.zeros(len(paid)), 0.0

    def paid(self, paid: np.ndarray) -> None:
        before, mixed = self.soft(self.earned), float(self.hedge() @ paid)
        self.earned, gap = self.earned + paid, self.soft(self.earned + paid) - before - mixed
        self.gap += max(0.0, gap)

    def soft(self, earned: np.ndarray) -> float:
        if self.gap == 0:
            return float(earned.max())
        rate = math.log(len(earned)) / self.gap
        return float(np.log(np.mean(np.exp(rate * (earned - earned.max())))) / rate + earned.max())
