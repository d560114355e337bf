"""The engine's second form: one loop, compiled, for one stream, a fleet and a recording. ``loop.py`` says for which.

It works on the rows of the array form, and each function is one of that form's, for one stream. A row, a step that
waits for its outcome (``waiting``) and the constants (``c``) are vectors of float64, opened into named views at the top
of a function. ``at`` says where each part of them begins, how long the axes are, and the numbers of the setting; it has
one type for all settings, so that nothing is ever compiled anew.
"""
# mypy: disable-error-code="no-any-return, no-untyped-call"

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float64, from_dtype, int64, njit, types
from numba.extending import intrinsic

# How long the axes are. A: actions, S: states, Q: references, E: comparators awake, X: those and the model, P: all of
# them, G: their kinds, C: contexts, K: rates, M: memories, L: forecasts in the mixture, D: classes; and of vectors.
AXES = "A S Q E X P G C K M L D row head block waiting traced"
FLAGS = "tests can_alarm bets_on_mixture knows_horizon has_table changes"
IN_ROW = "lead_P realised_P level_D observed missed reported alarm at_alarm head_trusted begun"
IN_BLOCK = """wealth_PxK richest_PxK since_PxK clock_P unspent actors second second_unspent rise spread age drift lowest
    counts_CxRxMxS weights_CxL lead_CxX gap_C account_CxX is_safe_C trusted seen_C clock"""
IN_WAITING = """in_force context scale advised forecast_S mixture_S model_A mixed_A policy_A references_QxS answers_QxA
    answered_Q payoffs_AxS paid_A paid_X expert_X gain_S excess_K factor_K"""  # from paid_A on: work space
CONSTANTS = "utility_AxS keep_M rates_K first_K later_K doubles_K factor_AxSxAxK player_E place_E apart_E kinds_Gx3"
NUMBERS = """temperature warmth horizon second_first second_later threshold mixing limit
    tie budget_tie most least least_chance home gone sum_tolerance"""

AT = np.dtype(
    [(name, np.int64) for name in " ".join((AXES, FLAGS, IN_ROW, IN_BLOCK, IN_WAITING, CONSTANTS)).split()]
    + [(name, np.float64) for name in NUMBERS.split()],
    align=True,
)
ALARM, RETURNED, DROPPED = 1, 2, 4  # what an outcome may lead to

Vector = Any  # an array, or a view of one
At = Any  # a record of ``AT``, or an array of one
Inputs = Any  # forecasts, references, contexts, scales, payoffs of all streams and steps; empty where there are none


def compiled(function: Callable[..., Any], **more: Any) -> Any:
    """Compiled on first use, and cached on disk where a folder is writable."""
    try:
        return njit(cache=True, error_model="numpy", nogil=True, **more)(function)
    except RuntimeError:  # no such folder
        return njit(error_model="numpy", nogil=True, **more)(function)


def in_any_order(function: Callable[..., Any]) -> Any:
    """Compiled so that sums are taken side by side."""
    return compiled(function, fastmath={"reassoc", "contract"})


def _onwards(_: Any, vector: Any, n: Any) -> Any:
    """A vector from its n-th entry on, as a bare pointer without reference count: its array must outlive it."""

    def build(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        data, place = given
        if isinstance(signature.args[0], types.Array):
            data = context.make_array(signature.args[0])(context, builder, data).data
        return builder.gep(data, [place])

    return types.CPointer(types.float64)(vector, types.int64), build


onwards: Any = intrinsic(_onwards)


@compiled
def line(vector: Vector, begin: int, n: int, i: int = 0) -> Vector:
    """Line i of a table that begins there and has n columns; with i = 0, the n entries from there on."""
    return onwards(vector, begin + i * n)


@compiled
def copy(values: Vector, n: int, into: Vector) -> None:
    for i in range(n):
        into[i] = values[i]


@in_any_order
def dot(left: Vector, right: Vector, n: int) -> float:
    found = 0.0
    for i in range(n):
        found += left[i] * right[i]
    return found


@in_any_order
def total(values: Vector, n: int) -> float:
    found = 0.0
    for i in range(n):
        found += values[i]
    return found


@compiled
def highest(values: Vector, n: int) -> float:
    found = values[0]
    for i in range(1, n):
        found = max(found, values[i])
    return found


# Before the outcome


@compiled
def read_forecast(at: At, probs_S: Vector, own_S: Vector) -> bool:
    """Probabilities, into ``own_S``; whether they are: a NaN is in their sum."""
    whole = total(probs_S, at.S)
    if not abs(whole - 1.0) <= at.sum_tolerance:
        return False
    for s in range(at.S):
        if probs_S[s] < 0.0:
            return False
        own_S[s] = probs_S[s] / whole
    return True


@compiled
def best_action(at: At, worth_A: Vector) -> int:
    """The first of those that are tied."""
    top, best = highest(worth_A, at.A), 0
    while worth_A[best] < top - at.tie:
        best += 1
    return best


@compiled
def respond(at: At, payoffs_AxS: Vector, probs_S: Vector, temperature: float, plays_A: Vector) -> int:
    """The mixed action that answers a forecast, into ``plays_A``; returns the best action by it."""
    A = at.A
    for a in range(A):
        plays_A[a] = dot(line(payoffs_AxS, 0, at.S, a), probs_S, at.S)
    best, top = best_action(at, plays_A), highest(plays_A, A)
    if temperature == 0.0:
        for a in range(A):
            plays_A[a] = a == best
        return best
    for a in range(A):
        plays_A[a] = math.exp((plays_A[a] - top) / temperature)
    whole = total(plays_A, A)
    for a in range(A):
        plays_A[a] /= whole
    return best


@compiled
def urn(at: At, block: Vector, waiting: Vector, i: int) -> Vector:
    """The balls of the i-th urn in use: those of all steps, then those of steps with the action advised now."""
    x, by = int(waiting[at.context]), 0 if i < at.M else 1 + int(waiting[at.advised])
    return line(block, at.counts_CxRxMxS, at.S, (x * (1 + at.A) + by) * at.M + i % at.M)


@compiled
def mix(at: At, block: Vector, waiting: Vector) -> None:
    """The forecast that the mixture makes, into ``waiting``."""
    S, M, weights_L = at.S, at.M, line(block, at.weights_CxL, at.L, int(waiting[at.context]))
    forecast_S, mixture_S = line(waiting, at.forecast_S, S), line(waiting, at.mixture_S, S)
    for s in range(S):
        mixture_S[s] = weights_L[0] * forecast_S[s]
    for i in range(2 * M):
        balls_S = urn(at, block, waiting, i)
        weight = weights_L[1 + i] / (total(balls_S, S) + S)  # an urn begins with a ball of each state
        for s in range(S):
            mixture_S[s] += weight * (balls_S[s] + 1.0)
    for q in range(at.Q):
        reference_S = line(waiting, at.references_QxS, S, q)
        for s in range(S):
            mixture_S[s] += weights_L[1 + 2 * M + q] * reference_S[s]


@compiled
def hedge_weights(at: At, block: Vector, waiting: Vector) -> float:
    """AdaHedge's weights of the experts of a context, into ``expert_X``; returns the rate."""
    X, x, expert_X = at.X, int(waiting[at.context]), line(waiting, at.expert_X, at.X)
    gap, lead_X = line(block, at.gap_C, at.C)[x], line(block, at.lead_CxX, X, x)
    rate = math.log(X) / (gap if gap > at.least else 1.0)
    for i in range(X):
        expert_X[i] = math.exp(lead_X[i] * rate)  # the best of them leads by nothing
    whole = total(expert_X, X)
    for i in range(X):
        expert_X[i] /= whole
    return rate


@compiled
def play_safe(at: At, c: Vector, block: Vector, waiting: Vector) -> None:
    """What Hedge plays, into ``waiting``."""
    A, E, player_E, expert_X = at.A, at.E, line(c, at.player_E, at.E), line(waiting, at.expert_X, at.X)
    model_A, policy_A = line(waiting, at.model_A, A), line(waiting, at.policy_A, A)
    hedge_weights(at, block, waiting)
    for a in range(A):
        policy_A[a] = expert_X[E] * model_A[a]
    for e in range(E):
        player = int(player_E[e])
        answer_A = line(waiting, at.answers_QxA, A, player - A)
        for a in range(A):
            policy_A[a] += expert_X[e] * (answer_A[a] if player >= A else a == player)


@compiled
def advise(at: At, c: Vector, row: Vector, waiting: Vector, number: int, given: Inputs, n: int) -> bool:
    """Fills ``waiting`` with all that the outcome will need, by the n-th that is given; False: it is no forecast."""
    forecasts, references, contexts, scales, payoffs = given
    A, S, block = at.A, at.S, line(row, at.head, at.block, (number - 1) % at.D)
    forecast_S, mixture_S = line(waiting, at.forecast_S, S), line(waiting, at.mixture_S, S)
    model_A, mixed_A = line(waiting, at.model_A, A), line(waiting, at.mixed_A, A)
    answered_Q, utility_AxS = line(waiting, at.answered_Q, at.Q), line(c, at.utility_AxS, A * S)
    if not read_forecast(at, line(forecasts, 0, S, n), forecast_S):
        return False
    if at.changes:
        utility_AxS = line(waiting, at.payoffs_AxS, A * S)
        copy(line(payoffs, 0, A * S, n), A * S, utility_AxS)
    in_force = row[at.alarm] > 0.0 or not at.tests
    temperature = at.temperature if at.temperature >= 0.0 else at.warmth / math.sqrt(block[at.clock] + S)
    x, waiting[at.scale] = contexts[n] if at.C > 1 else 0, scales[n] if scales.size else 1.0
    waiting[at.in_force], waiting[at.context] = in_force, x
    waiting[at.advised] = respond(at, utility_AxS, forecast_S, temperature, model_A)
    for q in range(at.Q):
        reference_S = line(waiting, at.references_QxS, S, q)
        if not read_forecast(at, line(references, 0, S, n * at.Q + q), reference_S):
            return False
        answered_Q[q] = respond(at, utility_AxS, reference_S, temperature, line(waiting, at.answers_QxA, A, q))
    if in_force or at.bets_on_mixture:
        mix(at, block, waiting)
        respond(at, utility_AxS, mixture_S, temperature, mixed_A)
    if in_force and line(block, at.is_safe_C, at.C)[x] > 0.0:
        play_safe(at, c, block, waiting)
    else:
        copy(mixed_A if in_force else model_A, A, line(waiting, at.policy_A, A))
    return True


# The exact test


@compiled
def expected(at: At, c: Vector, weight: float, gain: float, excess_K: Vector) -> None:
    """Adds weight (exp(rate gain) - 1) to ``excess_K``; at twice the last rate that is v (v + 2)."""
    rates_K, doubles_K, v = line(c, at.rates_K, at.K), line(c, at.doubles_K, at.K), 0.0
    for k in range(at.K):
        v = v * (v + 2.0) if doubles_K[k] > 0.0 else math.expm1(rates_K[k] * gain)
        excess_K[k] += weight * v


@compiled
def factors(at: At, c: Vector, waiting: Vector, utility_AxS: Vector, state: int, player: int) -> Vector:
    """What multiplies the wealth of the bettors on a comparator at each rate: exp(rate gain) / charge."""
    A, S, K, forecast_S = at.A, at.S, at.K, line(waiting, at.forecast_S, at.S)
    model_A, answer_A = line(waiting, at.model_A, A), line(waiting, at.answers_QxA, A, player - A)
    gain_S = line(waiting, at.gain_S, S)
    excess_K, factor_K = line(waiting, at.excess_K, K), line(waiting, at.factor_K, K)
    for k in range(K):
        excess_K[k], factor_K[k] = 0.0, 1.0
    for s in range(S):
        gain_S[s] = 0.0
    for a in range(A):
        over = ((answer_A[a] if player >= A else a == player) - model_A[a]) * waiting[at.scale]
        earned_S = line(utility_AxS, 0, S, a)
        for s in range(S if over != 0.0 else 0):
            gain_S[s] += over * earned_S[s]
    if at.bets_on_mixture:  # at two points: the least and the most that it can gain
        low, high = 0.0, 0.0
        for s in range(S):
            low, high = max(low, -gain_S[s]), max(high, gain_S[s])
        if low > 0.0 and high > 0.0:
            expected(at, c, high / (low + high), -low, excess_K)
            expected(at, c, low / (low + high), high, excess_K)
    else:
        for s in range(S):
            expected(at, c, forecast_S[s], gain_S[s], excess_K)
    expected(at, c, 1.0, gain_S[state], factor_K)
    for k in range(K):
        factor_K[k] /= 1.0 + max(excess_K[k], 0.0)
    return factor_K


@compiled
def later(at: At, j: float) -> float:
    """What joins at start j, in units of what joins at the second; the first is its own."""
    if j == 1.0:
        return 1.0
    if at.knows_horizon:
        return 1.0 if j <= at.horizon else 0.0
    return 6.0 / (j * (j + 1.0))


@in_any_order
def grow(at: At, wealth_K: Vector, joins_K: Vector, part: float, factor_K: Vector) -> float:
    """The bettors on one comparator: capital joins, and what they have is multiplied. Returns what joined."""
    most, joined = at.most, 0.0
    for k in range(at.K):
        joins = joins_K[k] * part
        joined += joins
        wealth_K[k] = min((wealth_K[k] + joins) * factor_K[k], most)
    return joined


@compiled
def date(at: At, block: Vector, p: int, joins_K: Vector, part: float, factor_K: Vector, number: float) -> None:
    """Since when the richest bettor on a comparator, of all that joined at a rate, has bet."""
    richest_K, since_K = line(block, at.richest_PxK, at.K, p), line(block, at.since_PxK, at.K, p)
    for k in range(at.K):
        joins, richest = joins_K[k] * part, richest_K[k]
        if joins > richest * (1.0 + at.tie):
            richest, since_K[k] = joins, number
        richest_K[k] = min(richest * factor_K[k], at.most)


@compiled
def bet(at: At, c: Vector, block: Vector, waiting: Vector, utility_AxS: Vector, state: int, number: float) -> float:
    """The bettors on comparators after an outcome; returns what they have, and what has not joined yet."""
    A, E, K, x, unspent = at.A, at.E, at.K, int(waiting[at.context]), block[at.unspent]
    clock_P, answered_Q = line(block, at.clock_P, at.P), line(waiting, at.answered_Q, at.Q)
    player_E, place_E, apart_E = line(c, at.player_E, E), line(c, at.place_E, E), line(c, at.apart_E, E)
    table_AxK = line(c, at.factor_AxSxAxK, A * K, int(waiting[at.advised]) * at.S + state)
    for e in range(E):
        player, p = int(player_E[e]), int(place_E[e] + apart_E[e] * x)
        if at.has_table and waiting[at.scale] == 1.0:  # payoffs stay as they are, and best responses are actions
            factor_K = line(table_AxK, 0, K, player if player < A else int(answered_Q[player - A]))
        else:
            factor_K = factors(at, c, waiting, utility_AxS, state, player)
        clock_P[p] += 1.0
        joins_K, part = line(c, at.first_K if clock_P[p] == 1.0 else at.later_K, K), later(at, clock_P[p])
        unspent -= grow(at, line(block, at.wealth_PxK, K, p), joins_K, part, factor_K)
        if not at.bets_on_mixture:
            date(at, block, p, joins_K, part, factor_K, number)
    excluded = line(waiting, at.forecast_S, at.S)[state] == 0.0  # there is no odd at which the model would still bet
    block[at.unspent] = math.inf if excluded else unspent if unspent > at.tie else 0.0
    return total(line(block, at.wealth_PxK, K), at.P * K) + block[at.unspent]


@compiled
def bet_on_mixture(at: At, block: Vector, waiting: Vector, state: int, gained: float, number: float) -> float:
    """The second bettor after an outcome; returns what it has where that counts."""
    t, likely = block[at.clock], line(waiting, at.mixture_S, at.S)[state]
    chance = line(waiting, at.forecast_S, at.S)[state]
    odds = likely / (max(chance, at.least_chance) if chance > 0.0 else likely)
    joins = (at.second_first if t == 1.0 else at.second_later) * later(at, t)
    second, left = min((block[at.second] + joins) * odds, at.most), block[at.second_unspent] - joins
    rise, spread, age = block[at.rise] + gained, block[at.spread] + gained * gained, block[at.age] + 1.0
    left, drift = left if left > at.tie else 0.0, block[at.drift] + math.log(odds)
    if not rise > at.tie:
        rise = spread = age = 0.0
    if not drift > at.tie:
        drift, block[at.lowest] = 0.0, number
    block[at.second], block[at.second_unspent], block[at.drift] = second, left, drift
    block[at.rise], block[at.spread], block[at.age] = rise, spread, age
    counts = rise > 0.0 and rise * rise >= spread * (math.log(1.0 + t / age) + 2.0)
    return second + left if counts else 0.0


# The fallback


@compiled
def learn(at: At, c: Vector, block: Vector, waiting: Vector, state: int) -> None:
    """The weights of the mixture and its urns after a state."""
    S, M, L, weights_L = at.S, at.M, at.L, line(block, at.weights_CxL, at.L, int(waiting[at.context]))
    keep_M = line(c, at.keep_M, M)
    weights_L[0] *= line(waiting, at.forecast_S, S)[state]
    for i in range(2 * M):
        balls_S = urn(at, block, waiting, i)
        weights_L[1 + i] *= (balls_S[state] + 1.0) / (total(balls_S, S) + S)
        for s in range(S):
            balls_S[s] *= keep_M[i % M]
        balls_S[state] += 1.0
    for q in range(at.Q):
        weights_L[1 + 2 * M + q] *= line(waiting, at.references_QxS, S, q)[state]
    kept = (1.0 - at.mixing) / total(weights_L, L)
    for i in range(L):
        weights_L[i] = weights_L[i] * kept + at.mixing / L


@compiled
def hedge(at: At, block: Vector, waiting: Vector) -> None:
    """AdaHedge after its experts were paid."""
    X, x, rate = at.X, int(waiting[at.context]), hedge_weights(at, block, waiting)
    lead_X, gap_C = line(block, at.lead_CxX, X, x), line(block, at.gap_C, at.C)
    paid_X, expert_X = line(waiting, at.paid_X, X), line(waiting, at.expert_X, X)
    mixed, before, ahead = dot(expert_X, paid_X, X), highest(lead_X, X), -math.inf
    for i in range(X):
        ahead = max(ahead, lead_X[i] + paid_X[i])
    rise = ahead - before  # of a soft maximum, ln mean exp(rate lead) / rate
    if gap_C[x] > at.least:
        mass = mass_before = 0.0
        for i in range(X):
            mass += math.exp((lead_X[i] + paid_X[i] - ahead) * rate)
            mass_before += math.exp((lead_X[i] - before) * rate)
        rise += (math.log(mass / X) - math.log(mass_before / X)) / rate
    gap_C[x] += max(rise - mixed, 0.0)
    for i in range(X):
        lead_X[i] += paid_X[i] - ahead


@compiled
def recover(at: At, block: Vector, waiting: Vector, own: float) -> None:
    """The budget of the mixture, safe play, and whether the model is trusted again."""
    X, x, paid_X = at.X, int(waiting[at.context]), line(waiting, at.paid_X, at.X)
    account_X, lead_X = line(block, at.account_CxX, X, x), line(block, at.lead_CxX, X, x)
    is_safe_C, gap_C = line(block, at.is_safe_C, at.C), line(block, at.gap_C, at.C)
    limit = at.limit if at.knows_horizon else at.limit * math.sqrt(line(block, at.seen_C, at.C)[x])
    for i in range(X):
        account_X[i] = max(account_X[i] + paid_X[i] - own, 0.0)
    worst = highest(account_X, X)
    if is_safe_C[x] > 0.0 and worst > limit * ((1.0 + at.budget_tie) / 2.0):
        hedge(at, block, waiting)
    else:  # it would begin afresh
        is_safe_C[x], gap_C[x] = is_safe_C[x] == 0.0 and worst >= limit * (1.0 - at.budget_tie), 0.0
        for i in range(X):
            lead_X[i] = 0.0
    own_share = share_of_class(at, block)
    block[at.trusted] = own_share > at.home or (block[at.trusted] > 0.0 and own_share > at.gone)


@compiled
def share_of_class(at: At, block: Vector) -> float:
    """How much of what this class plays next is the model's: the mean over contexts, by how often they occurred."""
    seen_C, is_safe_C, found, often = line(block, at.seen_C, at.C), line(block, at.is_safe_C, at.C), 0.0, 0.0
    for x in range(at.C):
        found += (seen_C[x] + 1e-9) * line(block, at.weights_CxL, at.L, x)[0] * (is_safe_C[x] == 0.0)
        often += seen_C[x] + 1e-9
    return found / often


@compiled
def share(at: At, row: Vector) -> float:
    """How much of what is played next is the model's: all until the alarm."""
    if at.tests and row[at.alarm] == 0.0:
        return 1.0
    found = 0.0
    for k in range(at.D):
        found += share_of_class(at, line(row, at.head, at.block, k))
    return found / at.D


# An outcome


@compiled
def enter(at: At, c: Vector, row: Vector, waiting: Vector, utility_AxS: Vector, state: int, action: int) -> float:
    """What was paid, and what each comparator earned more than what was played (returned) and the action reported."""
    A, E, x = at.A, at.E, int(waiting[at.context])
    lead_P, realised_P = line(row, at.lead_P, at.P), line(row, at.realised_P, at.P)
    player_E, place_E, apart_E = line(c, at.player_E, E), line(c, at.place_E, E), line(c, at.apart_E, E)
    paid_A, paid_X = line(waiting, at.paid_A, A), line(waiting, at.paid_X, at.X)
    for a in range(A):
        paid_A[a] = line(utility_AxS, 0, at.S, a)[state] * waiting[at.scale]
    own, paid_X[E] = dot(line(waiting, at.policy_A, A), paid_A, A), dot(line(waiting, at.model_A, A), paid_A, A)
    for e in range(E):
        player, p = int(player_E[e]), int(place_E[e] + apart_E[e] * x)
        paid_X[e] = paid_A[player] if player < A else dot(line(waiting, at.answers_QxA, A, player - A), paid_A, A)
        lead_P[p] += paid_X[e] - own
        if action >= 0:
            realised_P[p] += paid_X[e] - paid_A[action]
    row[at.reported] += action >= 0
    return own


@compiled
def worst_lead(at: At, c: Vector, row: Vector) -> float:
    """The regret in total: to the best reference, or the best action for each context."""
    worst = -math.inf
    for g in range(at.G):
        kind_3, lead = line(c, at.kinds_Gx3, 3, g), 0.0
        begin, contexts, n = int(kind_3[0]), int(kind_3[1]), int(kind_3[2])
        for x in range(contexts):
            lead += highest(line(row, at.lead_P + begin, n, x), n)
        worst = max(worst, lead)
    return worst


@compiled
def turned(at: At, row: Vector) -> int:
    """Whether the model has returned with this outcome, or was dropped again: by most of the classes."""
    count, before = 0.0, row[at.head_trusted] > 0.0
    for k in range(at.D):
        count += line(row, at.head, at.block, k)[at.trusted]
    now = 2.0 * count > at.D
    row[at.head_trusted] = now
    return 0 if now == before else RETURNED if now else DROPPED


@compiled
def observe(at: At, c: Vector, row: Vector, waiting: Vector, number: int, state: int, action: int) -> int:
    """The row after an outcome (below 0: it is missing); returns ALARM, RETURNED, DROPPED or 0.

    ``action`` is the one that was taken, below 0 where it was not reported.
    """
    if state < 0:
        row[at.missed] += 1.0
        return 0
    A, k, block = at.A, (number - 1) % at.D, line(row, at.head, at.block, (number - 1) % at.D)
    level_D, paid_A = line(row, at.level_D, at.D), line(waiting, at.paid_A, A)
    utility_AxS = line(waiting, at.payoffs_AxS, A * at.S) if at.changes else line(c, at.utility_AxS, A * at.S)
    own = enter(at, c, row, waiting, utility_AxS, state, action)
    row[at.observed] += 1.0
    block[at.clock] += 1.0
    line(block, at.seen_C, at.C)[int(waiting[at.context])] += 1.0
    had_alarm, level_D[k] = row[at.alarm] > 0.0, 1.0
    if at.tests:
        age = number - row[at.begun]
        level_D[k] = block[at.actors] = bet(at, c, block, waiting, utility_AxS, state, age)
        if at.bets_on_mixture:
            gained = dot(line(waiting, at.mixed_A, A), paid_A, A) - line(waiting, at.paid_X, at.X)[at.E]
            level_D[k] += bet_on_mixture(at, block, waiting, state, gained, age)
    learn(at, c, block, waiting, state)
    if waiting[at.in_force] > 0.0:
        recover(at, block, waiting, own)
    if had_alarm:
        return turned(at, row)
    if at.can_alarm and total(level_D, at.D) / at.D >= at.threshold:
        row[at.alarm], row[at.at_alarm] = row[at.observed], worst_lead(at, c, row)
        return ALARM
    return 0


# Entry points: called from Python, with arrays


@compiled
def are_all(at: At, given: Inputs, n: int) -> bool:
    """Whether the inputs have the sizes that n steps need."""
    forecasts, references, contexts, scales, payoffs = given
    if forecasts.size != n * at.S or references.size != n * at.Q * at.S or payoffs.size != n * at.changes * at.A * at.S:
        return False
    return (contexts.size == n or at.C == 1) and (scales.size == n or scales.size == 0)


@compiled
def advise_all(
    sizes: At, c: Vector, rows: Vector, waiting: Vector, number: int,
    forecasts: Vector, references: Vector, contexts: Vector, scales: Vector, payoffs: Vector,
) -> int:  # fmt: skip
    """``advise`` for every stream; returns the likeliest action of the last, or -1 - n if the n-th has no forecasts."""
    at, N, given, likeliest = sizes[0], rows.size // sizes[0].row, (forecasts, references, contexts, scales, payoffs), 0
    if not are_all(at, given, N):
        return -1
    for n in range(N):
        row, own = line(rows, 0, at.row, n), line(waiting, 0, at.waiting, n)
        if not advise(at, onwards(c, 0), row, own, number, given, n):
            return -1 - n
        likeliest = best_action(at, line(own, at.policy_A, at.A))
    return likeliest


@compiled
def observe_one(sizes: At, c: Vector, row: Vector, waiting: Vector, number: int, state: int, action: int) -> int:
    """``observe`` for one stream."""
    return observe(sizes[0], onwards(c, 0), onwards(row, 0), onwards(waiting, 0), number, state, action)


@compiled
def observe_all(
    sizes: At, c: Vector, rows: Vector, waiting: Vector, number: int, states: Vector, actions: Vector, signals: Vector
) -> None:
    """``observe`` for every stream, into ``signals``; ``actions`` may be empty."""
    at = sizes[0]
    for n in range(states.size):
        row, own = line(rows, 0, at.row, n), line(waiting, 0, at.waiting, n)
        signals[n] = observe(at, onwards(c, 0), row, own, number, states[n], actions[n] if actions.size else -1)


@compiled
def record(
    sizes: At, c: Vector, rows: Vector, waiting: Vector,
    forecasts: Vector, references: Vector, contexts: Vector, scales: Vector, payoffs: Vector,
    states: Vector, known_T: Vector, order_T: Vector, signals: Vector, traced: Vector, alarmed: Vector,
) -> int:  # fmt: skip
    """All T steps of every stream, into ``signals``; returns the first place where a forecast is none, or -1.

    The outcome of a step comes after ``known_T`` of them were advised, those that come together in ``order_T``.
    ``traced`` has of each step the level, evidence and share after its outcome, the share before it, the policy, the
    model's response; ``alarmed`` the row of each stream at its alarm.
    """
    at, given = sizes[0], (forecasts, references, contexts, scales, payoffs)
    A, D, F, T, constants = at.A, at.D, at.traced, known_T.size, onwards(c, 0)
    if not are_all(at, given, states.size):
        return 0
    for n in range(rows.size // at.row):
        row, observed = line(rows, 0, at.row, n), 0
        for t in range(T):
            own, about_F = line(waiting, 0, at.waiting, t % D), line(traced, 0, F, n * T + t)
            about_F[3] = share(at, row)
            if not advise(at, constants, row, own, t + 1, given, n * T + t):
                return n * T + t
            copy(line(own, at.policy_A, A), A, line(about_F, 4, A))
            copy(line(own, at.model_A, A), A, line(about_F, 4 + A, A))
            while observed < T and known_T[order_T[observed]] <= t + 1:
                k, i, observed = order_T[observed] % D, n * T + order_T[observed], observed + 1
                own, about_F = line(waiting, 0, at.waiting, k), line(traced, 0, F, i)
                signals[i] = observe(at, constants, row, own, i - n * T + 1, states[i], -1)  # anew for -1: 7% faster
                level_D = line(row, at.level_D, D)
                about_F[0], about_F[1] = level_D[k], math.log(max(total(level_D, D) / D, 1e-300))
                about_F[2] = share(at, row) if signals[i] else 1.0
                if signals[i] == ALARM:
                    copy(row, at.row, line(alarmed, 0, at.row, n))
    return -1


def compile_all() -> None:
    """Everything, for the only types it is ever called with: from here on, another type is an error."""
    floats, ints = float64[::1], int64[::1]
    held, given = (from_dtype(AT)[::1], floats, floats, floats), (floats, floats, ints, floats, floats)
    entries = (
        (advise_all, (*held, int64, *given)),
        (observe_one, (*held, int64, int64, int64)),
        (observe_all, (*held, int64, ints, ints, ints)),
        (record, (*held, *given, ints, ints, ints, ints, floats, floats)),
    )
    for entry, types_of in entries:
        entry.compile(types_of)
        entry.disable_compile()
