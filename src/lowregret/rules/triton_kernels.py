"""The tests of recorded sequences on a GPU: one Triton program for each stream, from laws and tokens to the trip time.

For two states and a few thousand steps, in double precision; all else is the array form's, which gives the same trip
times. Time is one block: what runs along it is a scan. Wealth is one too: a stretch of steps multiplies what a bettor
had by f and adds w, what has joined since; two stretches in a row make f1 f2 and w1 f2 + w2.

Triton is there only on Linux, beside torch for a GPU, and is imported here alone. Numbers come in tensors of doubles,
since it takes Python's for single precision.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from ..problems import DecisionProblem

STEPS_A_WARP = 64


def every_start(laws: Tensor, tokens: Tensor, problem: DecisionProblem, temperature: float | None, bets: Any) -> Tensor:
    """When the every-start test with these ``Bets`` trips, ``[...]``, from laws ``[..., T, 2]``; T + 1 for never."""
    tables = _for_every_start(problem, temperature, bets, tokens.shape[-1], laws.device)
    return _run(_every_start, laws, tokens, tables, problem.n_actions, len(bets.rates_K))


def first_test(
    laws: Tensor,
    tokens: Tensor,
    problem: DecisionProblem,
    temperature: float | None,
    bets: Any,
    prior: float,
) -> Tensor:
    """The same of the first exact test with these ``FirstBets``, which falls back on an urn with this prior."""
    tables = _for_first_test(problem, temperature, bets, prior, tokens.shape[-1], laws.device)
    return _run(_first_test, laws, tokens, tables, problem.n_actions, len(bets.rates_K))


def regret_rate(
    laws: Tensor, tokens: Tensor, problem: DecisionProblem, temperature: float | None, alpha: float
) -> Tensor:
    """The same of the rule that trips once the regret of the base model's response exceeds alpha / sqrt(t)."""
    tables = _for_regret_rate(problem, temperature, alpha, tokens.shape[-1], laws.device)
    return _run(_regret_rate, laws, tokens, tables, problem.n_actions)


# What the programs read beside laws and tokens, sent to the device once.


@lru_cache(maxsize=64)
def _for_every_start(
    problem: DecisionProblem, temperature: float | None, bets: Any, steps: int, where: Any
) -> tuple[Tensor, ...]:
    step_T = np.arange(1.0, steps + 1)
    later_T = 6 / (step_T * (step_T + 1)) if bets.falls else np.ones(steps)
    rates = bets.rates_K, bets.ladder_K < 0  # and which of them double the one before
    joins = bets.joins_2xK, later_T, bets.prior.unspent(step_T)
    return _doubles(where, *_response(problem, temperature, steps), *rates, *joins, bets.delta)


@lru_cache(maxsize=64)
def _for_first_test(
    problem: DecisionProblem, temperature: float | None, bets: Any, prior: float, steps: int, where: Any
) -> tuple[Tensor, ...]:
    rise_T = bets.rise_at(np.arange(1.0, steps + 1))
    slowest, costs_K = bets.rates_K[-1], bets.log_costs_K[::-1]  # from the slowest rate up: each doubles the one before
    return _doubles(where, *_response(problem, temperature, steps), prior, slowest, costs_K, bets.idle, rise_T)


@lru_cache(maxsize=64)
def _for_regret_rate(
    problem: DecisionProblem, temperature: float | None, alpha: float, steps: int, where: Any
) -> tuple[Tensor, ...]:
    return _doubles(where, *_response(problem, temperature, steps), alpha / np.arange(1.0, steps + 1) ** 0.5)


def _response(problem: DecisionProblem, temperature: float | None, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The utilities, and one over the temperature of each step."""
    step_T = np.arange(1.0, steps + 1)
    return problem.utility, 1 / (
        0 * step_T + (problem.anytime_temperature(step_T) if temperature is None else temperature)
    )


def _doubles(where: Any, *tables: Any) -> tuple[Tensor, ...]:
    made = (np.array(np.atleast_1d(values), dtype=np.float64, order="C") for values in tables)
    return tuple(torch.tensor(values, device=where) for values in made)


def _run(program: Any, laws: Tensor, tokens: Tensor, numbers: tuple[Tensor, ...], *sizes: int) -> Tensor:
    T, times = tokens.shape[-1], torch.empty(tokens.shape[:-1], dtype=torch.int64, device=tokens.device)
    block = max(32, triton.next_power_of_2(T))
    given = laws.detach().expand((*tokens.shape, 2)).contiguous(), tokens.contiguous()
    if times.numel():
        with torch.cuda.device_of(tokens):
            warps = min(16, max(1, block // STEPS_A_WARP))
            program[(times.numel(),)](*given, *numbers, times, T, *sizes, BLOCK=block, num_warps=warps)
    return times


# The programs.


@triton.jit
def _less_one(x):
    """exp(x) - 1, with the digits that the difference loses put back."""
    e = tl.exp(x)
    lost = e == 1.0
    return tl.where(lost, x, (e - 1.0) * (x / tl.log(tl.where(lost, 2.0, e))))


@triton.jit
def _add(a, b):
    return a + b


@triton.jit
def _least(a, b):
    return tl.minimum(a, b)


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def _join_two(f1, w1, g1, v1, f2, w2, g2, v2):
    """Two stretches of steps in a row, for two bettors."""
    return f1 * f2, w1 * f2 + w2, g1 * g2, v1 * g2 + v2


@triton.jit
def _read(laws, tokens, inverse_T, T, BLOCK: tl.constexpr):
    """Of one stream: the steps, which of them there are, the law, whether the second state came, 1 / temperature."""
    n = tl.program_id(0).to(tl.int64)
    t = tl.arange(0, BLOCK)
    there = t < T
    p0 = tl.load(laws + (n * T + t) * 2, mask=there, other=0.5).to(tl.float64)
    p1 = tl.load(laws + (n * T + t) * 2 + 1, mask=there, other=0.5).to(tl.float64)
    second = tl.load(tokens + n * T + t, mask=there, other=0) == 1
    return t, there, p0, p1, second, tl.load(inverse_T + t, mask=there, other=0.0)


@triton.jit
def _earns(utility, p0, p1, inverse, A: tl.constexpr):
    """What the quantal response to a law earns in each of the two states."""
    top = (tl.load(utility) * p0 + tl.load(utility + 1) * p1) * inverse
    for a in range(1, A):
        top = tl.maximum(top, (tl.load(utility + 2 * a) * p0 + tl.load(utility + 2 * a + 1) * p1) * inverse)
    whole = top * 0.0
    earned0, earned1 = whole, whole
    for a in range(A):
        u0, u1 = tl.load(utility + 2 * a), tl.load(utility + 2 * a + 1)
        weight = tl.exp((u0 * p0 + u1 * p1) * inverse - top)
        whole += weight
        earned0 += weight * u0
        earned1 += weight * u1
    return earned0 / whole, earned1 / whole


@triton.jit
def _write(times, alarm, t, T):
    tl.store(times + tl.program_id(0), tl.min(tl.where(alarm, t, T), axis=0).to(tl.int64) + 1)


@triton.jit
def _every_start(
    laws,
    tokens,
    utility,
    inverse_T,
    rates_K,
    doubles_K,
    joins_2xK,
    later_T,
    waiting_T,
    delta_1,
    times,
    T,
    A: tl.constexpr,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    t, there, p0, p1, second, inverse = _read(laws, tokens, inverse_T, T, BLOCK)
    own0, own1 = _earns(utility, p0, p1, inverse, A)
    q0, q1 = p0 / (p0 + p1), p1 / (p0 + p1)
    later = tl.load(later_T + t, mask=there, other=0.0)
    level = tl.load(waiting_T + t, mask=there, other=0.0)
    for a in tl.static_range(0, A, 2):  # two comparators in one scan
        b = min(a + 1, A - 1)
        gain0, gain1 = tl.load(utility + 2 * a) - own0, tl.load(utility + 2 * a + 1) - own1
        other0, other1 = tl.load(utility + 2 * b) - own0, tl.load(utility + 2 * b + 1) - own1
        u0, u1, v0, v1 = gain0, gain1, other0, other1
        for k in range(K):  # from the slowest rate up: where one doubles, u = exp(rate gain) - 1 is u (u + 2)
            rate = tl.load(rates_K + k)
            if tl.load(doubles_K + k) > 0.5:
                u0, u1, v0, v1 = u0 * (u0 + 2.0), u1 * (u1 + 2.0), v0 * (v0 + 2.0), v1 * (v1 + 2.0)
            else:
                u0, u1 = _less_one(gain0 * rate), _less_one(gain1 * rate)
                v0, v1 = _less_one(other0 * rate), _less_one(other1 * rate)
            fresh = tl.where(t == 0, tl.load(joins_2xK + k), tl.load(joins_2xK + K + k) * later)
            f = (1.0 + tl.where(second, u1, u0)) / (1.0 + tl.maximum(q0 * u0 + q1 * u1, 0.0))
            g = (1.0 + tl.where(second, v1, v0)) / (1.0 + tl.maximum(q0 * v0 + q1 * v1, 0.0))
            _, wealth, _, others = tl.associative_scan((f, fresh * f, g, fresh * g), 0, _join_two)
            level += wealth
            if a + 1 < A:
                level += others
    alarm = (level * tl.load(delta_1) >= 1.0) | (tl.where(second, p1, p0) == 0.0)
    _write(times, alarm & there, t, T)


@triton.jit
def _first_test(
    laws,
    tokens,
    utility,
    inverse_T,
    prior_1,
    slowest_1,
    costs_K,
    idle_1,
    rise_T,
    times,
    T,
    A: tl.constexpr,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    t, there, p0, p1, second, inverse = _read(laws, tokens, inverse_T, T, BLOCK)
    own0, own1 = _earns(utility, p0, p1, inverse, A)
    prior, one, seen = tl.load(prior_1), second.to(tl.float64), t.to(tl.float64)
    ones, whole = tl.associative_scan(one, 0, _add) - one, seen + 2.0 * prior
    urns0, urns1 = _earns(utility, (seen - ones + prior) / whole, (ones + prior) / whole, inverse, A)
    gain0, gain1 = urns0 - own0, urns1 - own1
    gap = tl.associative_scan(tl.where(second, gain1, gain0), 0, _add)
    low = tl.minimum(tl.associative_scan(gap, 0, _least), 0.0)
    edge = tl.where(second, gain0 - gain1, gain1 - gain0)
    odds = tl.where(second, p0, p1) / (p0 + p1)
    risen = gap - low >= tl.load(rise_T + t, mask=there, other=0.0)
    excess = tl.where(there, _less_one(edge * tl.load(slowest_1)), 0.0)
    # Wealth is one over a product. Within 32 steps it is a float; from there to there its logarithm is carried.
    odds, excess = tl.reshape(odds, (BLOCK // 32, 32)), tl.reshape(excess, (BLOCK // 32, 32))
    reached = odds * 0.0 + tl.load(idle_1)
    for k in range(K):
        shrinks = 1.0 + odds * excess
        within = tl.associative_scan(shrinks, 1, _times)
        logs = tl.log(tl.reduce(shrinks, 1, _times))
        before = tl.associative_scan(logs, 0, _add) - logs
        reached += tl.minimum(tl.exp(-before - tl.load(costs_K + k))[:, None] / within, 1.0)
        excess = excess * (excess + 2.0)  # the next rate is twice as large
    alarm = (tl.reshape(reached >= 1.0, (BLOCK,)) & risen) | (tl.where(second, p1, p0) == 0.0)
    _write(times, alarm & there, t, T)


@triton.jit
def _regret_rate(
    laws,
    tokens,
    utility,
    inverse_T,
    rate_T,
    times,
    T,
    A: tl.constexpr,
    BLOCK: tl.constexpr,
):
    t, there, p0, p1, second, inverse = _read(laws, tokens, inverse_T, T, BLOCK)
    own0, own1 = _earns(utility, p0, p1, inverse, A)
    most = own0 * 0.0 - float("inf")
    for a in range(A):
        u0, u1 = tl.load(utility + 2 * a), tl.load(utility + 2 * a + 1)
        most = tl.maximum(most, tl.associative_scan(tl.where(second, u1 - own1, u0 - own0), 0, _add))
    steps = (t + 1).to(tl.float64)
    _write(times, (most / steps > tl.load(rate_T + t, mask=there, other=0.0)) & there, t, T)
