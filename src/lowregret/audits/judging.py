"""What became of every stream of a block: what each player earned, alarms, evidence; for a backtest and an audit.

The model's forecasts are met with best responses, as people act; so are the guard's until its alarm, unless its
response is quantal. Players for comparison only are in ``YARDSTICKS``.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..arrays import first_true, softmax
from ..engine import Engine, NoTest, Setting
from ..engine.loop import form_of
from ..guard import Guard
from ..guard.events import Alarm, Event, ModelDropped, Return, events_of_trace
from ..problems import Payoff
from .recording import Block, SideInformation

BEST, BEST_OF_ALL = "best fixed action", "best comparator"
RECENT = "recent frequencies"  # what a model loses to where they predict better
MOST = 690.0  # of ln E: more than any level that is asked for


class Traced(NamedTuple):
    """What a guard played on a block, and its evidence, shares and final rows."""

    events: tuple[tuple[int, Event], ...]  # with the row of the stream, in the order of steps
    policy_NxTxA: np.ndarray
    share_NxT: np.ndarray  # how much of that was the model's
    evidence_NxT: np.ndarray  # in logarithms, after each outcome
    level_NxT: np.ndarray  # of the class of each step, after its outcome
    rows: np.ndarray  # what the guard remembers in the end


class Played(NamedTuple):
    """What each player was paid at every step of a block, in utility; 0 where there is no outcome."""

    paid: dict[str, np.ndarray]  # by player, [N, T]
    utility_AxNxT: np.ndarray  # what each action was paid
    guard: Traced


def play(guard: Guard, block: Block, fallback: bool = True) -> Played:
    """The players on a block; ``guard`` says how the guard is made, and stays as it is."""
    setting = guard.setting
    utility_AxNxT = utilities(setting.problem, block.outcomes_NxT, block.side) * block.there_NxT
    best_NxT, answers = responses(setting, block)

    def paid(policy_NxTxA: np.ndarray) -> np.ndarray:
        found_NxT: np.ndarray = np.einsum("nta,ant->nt", policy_NxTxA, utility_AxNxT)
        return found_NxT

    found = _traced(guard.engine, block)
    earned = {
        "model": np.take_along_axis(utility_AxNxT, best_NxT[None], axis=0)[0],
        "guard": paid(found.policy_NxTxA),
    }
    if fallback:
        s, untested = setting, NoTest(setting.test.horizon)  # which plays the fallback from the first step on
        alone = Engine(Setting(s.problem, s.against, untested, s.fallback, s.response, s.lag))
        earned["fallback"] = paid(_traced(alone, block).policy_NxTxA)
    earned |= {name: earns(guard, block, utility_AxNxT) for name, earns in YARDSTICKS.items()}
    earned |= {f"reference {name}": paid(own) for name, own in zip(setting.references, answers, strict=True)}
    return Played(earned, utility_AxNxT, found)


def utilities(problem: Any, outcomes: np.ndarray, side: SideInformation) -> np.ndarray:
    """What each action was paid for outcomes ``[...]``: ``[A, ...]``."""
    if isinstance(problem, Payoff):
        paid: np.ndarray = problem.paid(outcomes)
    elif side.payoffs is None:
        paid = problem.utility[:, outcomes]
    else:
        own = np.take_along_axis(side.payoffs, outcomes[..., None, None], axis=-1)[..., 0]
        paid = np.moveaxis(problem.utility_of(own), -1, 0)
    return paid if side.scale is None else paid * side.scale


def in_payoffs(problem: Any, utility: np.ndarray, scale: np.ndarray | None) -> np.ndarray:
    """Utilities of single steps in the problem's units: where less counts, less of what utility 0 stands for does."""
    shift = float(problem.in_payoffs(0.0))
    found: np.ndarray = problem.regret_in_payoffs(utility) + (shift if scale is None else shift * scale)
    return found


def _traced(engine: Engine, block: Block) -> Traced:
    """A block, played: streams whose outcomes were known alike go together."""
    groups, traces, events = _alike(block, engine.setting.lag), [], list[tuple[int, Event]]()
    for rows_N, lags_T in groups:
        part = block if len(groups) == 1 else block.part(rows_N)
        (N, T), missing_NxT = part.outcomes_NxT.shape, ~part.there_NxT
        known, start = part.known(engine.setting.problem), engine.start(N)
        form = form_of(engine, T * (N + 8))  # one stream takes as long as a few
        trace = form.run(start, known, part.outcomes_NxT, missing_NxT if missing_NxT.any() else None, lags_T=lags_T)
        engine.head.open(trace.rows).missed[:] -= T - part.lengths_N  # the filler after the end of a stream
        traces.append((trace.policy_NxTxA, trace.share_NxT, trace.evidence_NxT, trace.level_NxT, trace.rows))
        for row, event in events_of_trace(engine, trace):  # dated at the end of its stream at the latest
            events.append((int(rows_N[row]), event._replace(known=min(event.known, int(part.lengths_N[row])))))
    if len(groups) == 1:
        return Traced(tuple(events), *traces[0])
    place_N = np.argsort(np.concatenate([rows_N for rows_N, _ in groups]))
    parts = [np.concatenate(part)[place_N] for part in zip(*traces, strict=True)]
    return Traced(tuple(events), *parts)


def _alike(block: Block, lag: int) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """The rows, grouped by when their outcomes were known, and how late that was."""
    if block.lags_NxT is None:
        return [(np.arange(len(block.index_N)), None)]
    step_T = np.arange(block.lags_NxT.shape[1])
    # Whatever is known after the last step may be known later; so may what is missing.
    free_NxT = (step_T + block.lags_NxT >= block.lengths_N[:, None]) | ~block.there_NxT
    kinds, which_N = np.unique(np.where(free_NxT, lag, block.lags_NxT), axis=0, return_inverse=True)
    return [(np.flatnonzero(which_N.ravel() == k), kinds[k]) for k in range(len(kinds))]


def responses(setting: Setting, block: Block) -> tuple[np.ndarray, list[np.ndarray]]:
    """The best action by the model ``[N, T]``, and for each reference the response ``[N, T, A]`` to it."""
    N, T = block.outcomes_NxT.shape
    flat, outcomes = np.unravel_index(np.arange(N * T), (N, T)), setting.outcomes
    known = block.known(setting.problem).at(flat)
    given = outcomes.payoffs if known.payoffs is None else known.payoffs, flat[1] // setting.lag * 1.0
    theirs = known.references if isinstance(known.references, tuple) else np.moveaxis(known.references, 1, 0)
    best_R, _ = setting.respond(outcomes.whole(known.forecast), *given)
    answers = [setting.respond(outcomes.whole(each), *given)[1] for each in theirs]
    return best_R.reshape(N, T), [answer_RxA.reshape(N, T, -1) for answer_RxA in answers]


def _hedge(guard: Guard, block: Block, utility_AxNxT: np.ndarray) -> np.ndarray:
    """Hedge on every stream, at the rate for that stream's own length."""
    known_AxNxT = np.zeros_like(utility_AxNxT)  # before each step
    known_AxNxT[..., guard.lag :] = np.cumsum(utility_AxNxT, axis=-1)[..., : -guard.lag]
    paid_NxT: np.ndarray = (softmax(known_AxNxT / np.sqrt(block.lengths_N)[:, None]) * utility_AxNxT).sum(axis=0)
    return paid_NxT


def _best_last_time(guard: Guard, block: Block, utility_AxNxT: np.ndarray) -> np.ndarray:
    """A player who does what would have been best in the last known step; before that, each action alike."""
    there_NxT, lag = block.there_NxT, guard.lag
    last_NxT = np.full(there_NxT.shape, -1)  # the last step whose outcome is known
    step_NxT = np.where(there_NxT, np.arange(there_NxT.shape[1]), -1)
    last_NxT[:, lag:] = np.maximum.accumulate(step_NxT, axis=1)[:, :-lag]
    best_NxT = np.take_along_axis(utility_AxNxT.argmax(axis=0), np.maximum(last_NxT, 0), axis=1)
    paid_NxT = np.take_along_axis(utility_AxNxT, best_NxT[None], axis=0)[0]
    found_NxT: np.ndarray = np.where(last_NxT < 0, utility_AxNxT.mean(axis=0), paid_NxT)
    return found_NxT


# The columns beside the players': what each was paid ``[N, T]``, given how the guard is made, the streams of a block,
# and what every action earned in them, ``[A, N, T]``, 0 where there is no outcome. What is played may go by
# its forecast, and by what was earned ``guard.lag`` steps before it or earlier.
YARDSTICKS: dict[str, Callable[[Guard, Block, np.ndarray], np.ndarray]] = {
    "Hedge": _hedge,
    "last outcome": _best_last_time,
}


# What became of the streams.


def judge(
    guard: Guard, block: Block, fallback: bool = True, log_level: float = math.inf, beyond: float | None = None
) -> tuple[dict[str, np.ndarray], Played]:
    """The columns of a block's streams, an entry each, with payoffs in the problem's units; and what was played.

    Parameters
    ----------
    log_level
        A stream's evidence is stopped when its logarithm first reaches this, or at the end: an e-value either way.
    beyond
        Where no lag was given: by how many standard errors residuals must be correlated for a stream to seem late.
    """
    problem, played, every = guard.problem, play(guard, block, fallback), np.arange(len(block.index_N))
    utility_AxNxT, there_NxT, scale_NxT = played.utility_AxNxT, block.there_NxT, block.side.scale
    best_N = utility_AxNxT.sum(axis=-1).argmax(axis=0)
    played.paid[BEST] = utility_AxNxT[best_N, every]
    if guard.against.references or guard.against.contexts:
        played.paid[BEST_OF_ALL] = _best_comparator(guard, block, played)

    alarm_N, since_N, returns_N, dropped_N = np.zeros((4, len(every)), dtype=np.int64)
    lost_to_N, follows_N = np.full(len(every), None, dtype=object), np.ones(len(every), dtype=bool)
    for row, event in played.guard.events:
        follows_N[row] = isinstance(event, Return)
        returns_N[row] += isinstance(event, Return)
        dropped_N[row] += isinstance(event, ModelDropped)
        if isinstance(event, Alarm):
            alarm_N[row] = event.known
            if event.since is not None:
                since_N[row], lost_to_N[row] = event.since, event.whom or RECENT
                if event.action is not None:
                    lost_to_N[row] = str(problem.actions[event.action])
                if event.context is not None:
                    lost_to_N[row] += f" in context {guard.against.contexts[event.context]}"

    after_NxT = there_NxT & after_alarm(alarm_N, there_NxT.shape[1])
    excluded_N = np.zeros(len(every), dtype=np.int64)
    if isinstance(block.forecasts, np.ndarray):
        prob_NxT = np.take_along_axis(block.forecasts, block.outcomes_NxT[..., None], axis=-1)[..., 0]
        excluded_N = ((prob_NxT == 0) & there_NxT).sum(axis=1)
    seems_lag_N, guard_then_N = _if_late(guard, block, beyond)

    def earned(player: str, counted_NxT: np.ndarray) -> np.ndarray:
        total_N: np.ndarray = (in_payoffs(problem, played.paid[player], scale_NxT) * counted_NxT).sum(axis=1)
        return total_N

    columns = {
        "steps": there_NxT.sum(axis=1),  # those with an outcome
        **{name: earned(name, there_NxT) for name in played.paid},  # one after the other: each takes memory
        "steps_after": after_NxT.sum(axis=1),  # those after the alarm
        "model_after": earned("model", after_NxT),
        "guard_after": earned("guard", after_NxT),
        "best_action": np.array([str(action) for action in problem.actions])[best_N],
        "alarm": alarm_N,  # the last step at which the model was trusted; 0: no alarm
        "since": since_N,  # about which step the model broke; 0: not known
        "lost_to": lost_to_N,  # what would have been better; None: not known
        "log_e": _evidence(guard, played.guard.level_NxT, log_level),  # ln of an e-value against the model
        "returns": returns_N,
        "dropped": dropped_N,  # how often a model that had returned was dropped again
        "follows": follows_N,  # whether the model is followed in the end
        "missing": block.lengths_N - there_NxT.sum(axis=1),  # how many outcomes are
        "excluded": excluded_N,  # outcomes to which the model had given probability 0
        "lag": np.full(len(every), guard.lag),
        "seems_lag": seems_lag_N,  # the lag that its residuals suggest; 0: none
        "guard_then": guard_then_N,  # what the guard would have earned at that lag; NaN: not known
    }
    return columns, played


def after_alarm(alarm_N: np.ndarray, steps: int) -> np.ndarray:
    """Which of so many steps come after the alarm, ``[N, T]``."""
    after_NxT: np.ndarray = (np.arange(steps) >= alarm_N[:, None]) & (alarm_N > 0)[:, None]
    return after_NxT


def _best_comparator(guard: Guard, block: Block, played: Played) -> np.ndarray:
    """What the best of those whom regret is measured against was paid, ``[N, T]``: by context an action, or another."""
    every, context_NxT = np.arange(len(block.index_N)), block.side.context
    rows = [played.paid[f"reference {name}"] for name in guard.against.references]
    if guard.setting.n_comparators > len(rows):
        own_NxT = np.zeros(block.outcomes_NxT.shape)
        for c in range(guard.setting.n_contexts):
            here_AxNxT = played.utility_AxNxT * (1.0 if context_NxT is None else context_NxT == c)
            own_NxT += here_AxNxT[here_AxNxT.sum(axis=-1).argmax(axis=0), every]
        rows.append(own_NxT)
    rows_KxNxT = np.stack(rows)
    best_NxT: np.ndarray = rows_KxNxT[rows_KxNxT.sum(axis=-1).argmax(axis=0), every]
    return best_NxT


def _evidence(guard: Guard, level_NxT: np.ndarray, log_level: float) -> np.ndarray:
    """An e-value for each stream, in logarithms: at ``log_level`` when it was first reached, or in the end.

    With late outcomes it is the average over classes of steps that are a lag apart, each stopped by itself: stopped at
    one common time, their average need not be an e-value.
    """
    (N, T), d = level_NxT.shape, guard.lag
    if not guard.setting.watch.in_logs:  # a test of another kind
        return np.full(N, np.nan)
    stopped_DxN = np.full((d, N), float(guard.engine.evidence(guard.engine.start(1))[0]))
    for k in range(min(d, T)):
        with np.errstate(divide="ignore"):
            log_e_NxT = np.log(level_NxT[:, k::d])
        at_N = np.minimum(first_true(log_e_NxT >= min(log_level + math.log(d), MOST)), log_e_NxT.shape[1] - 1)
        stopped_DxN[k] = np.minimum(log_e_NxT[np.arange(N), at_N], MOST)
    found: np.ndarray = np.logaddexp.reduce(stopped_DxN) - math.log(d)
    return found


# A lag that was not given: forecasts some steps ahead, or of sums over some steps, have errors alike in a row.


_FEWEST, _TRIED = 5, 30  # lags
_GOES_ON = 2.0  # standard errors that the next lag must have


def seeming_lag(
    probs_NxTxS: np.ndarray, states_NxT: np.ndarray, lengths_N: np.ndarray, beyond: float, there_NxT: Any = True
) -> np.ndarray:
    """The lag that residuals suggest: they are correlated over fewer steps than that, more so than further back.

    A residual is 1 for the state that occurred and 0 for all others, minus the probabilities; 0 where there is no
    outcome. If each forecast was stated knowing the outcome before, its product with an earlier residual has mean 0,
    and the sum of such products over the root of that of their squares is about standard normal. The errors of a model
    that is wrong for long are as much alike further back, so that is subtracted. One step apart the correlation must
    exceed ``beyond`` standard errors; further apart it is enough that it goes on. 0: no lag is seen.
    """
    found_N, K_N = np.zeros(len(lengths_N), dtype=np.int64), np.minimum(_TRIED, lengths_N // 8)
    rows, step_T = np.flatnonzero(K_N >= _FEWEST), np.arange(states_NxT.shape[1])
    there_NxT, K_Nx1, states = (there_NxT & (step_T < lengths_N[:, None]))[rows], K_N[rows, None], states_NxT[rows]
    off_NxTxS = ((states[..., None] == np.arange(probs_NxTxS.shape[-1])) - probs_NxTxS[rows]) * there_NxT[..., None]
    off_NxTxS = off_NxTxS[..., :1] if off_NxTxS.shape[-1] == 2 else off_NxTxS  # the other is as far off the other way
    sums_NxTxS = np.cumsum(off_NxTxS, axis=1) - off_NxTxS  # before each step
    upto, begin = (np.maximum(step_T - n * K_Nx1, 0)[..., None] for n in (1, 2))
    further_NxTxS = np.take_along_axis(sums_NxTxS, upto, axis=1) - np.take_along_axis(sums_NxTxS, begin, axis=1)
    further_NxTxS /= K_Nx1[..., None]
    now_NxTxS = off_NxTxS * (step_T >= 2 * K_Nx1)[..., None]
    lag = 1
    while len(rows):
        earlier_NxTxS = off_NxTxS[:, :-lag] - further_NxTxS[:, lag:]
        product_NxT = (now_NxTxS[:, lag:] * earlier_NxTxS).sum(axis=-1)
        least_N = (beyond if lag == 1 else _GOES_ON) * np.sqrt((product_NxT**2).sum(axis=1))
        on_N = (product_NxT.sum(axis=1) > least_N) & (lag <= K_Nx1[:, 0])
        rows, K_Nx1, off_NxTxS = rows[on_N], K_Nx1[on_N], off_NxTxS[on_N]
        further_NxTxS, now_NxTxS, lag = further_NxTxS[on_N], now_NxTxS[on_N], lag + 1
        found_N[rows] = lag
    return found_N


def _if_late(guard: Guard, block: Block, beyond: float | None) -> tuple[np.ndarray, np.ndarray]:
    """The lag that residuals suggest, and what the guard would then have earned, in payoffs."""
    s, N = guard.setting, len(block.index_N)
    seems_N, then_N = np.zeros(N, dtype=np.int64), np.full(N, np.nan)
    if beyond is None or isinstance(guard.problem, Payoff):
        return seems_N, then_N
    seems_N = seeming_lag(block.forecasts, block.outcomes_NxT, block.lengths_N, beyond, block.there_NxT)
    for lag in np.unique(seems_N[seems_N > 0]).tolist():
        rows = np.flatnonzero(seems_N == lag)
        own = block.part(rows)
        late = Guard(s.problem, against=s.against, test=s.test, fallback=s.fallback, response=s.response, lag=lag)
        paid_NxT = play(late, own, fallback=False).paid["guard"]
        then_N[rows] = (in_payoffs(guard.problem, paid_NxT, own.side.scale) * own.there_NxT).sum(axis=1)
    return seems_N, then_N
