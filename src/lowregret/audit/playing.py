"""What each player would have been paid: the model, the guard, the fallback, Hedge, references, every fixed action.

What the guard plays is read off the recorded form of its rule where there is one: up to the first alarm it responds to
the model. The model plays its best response, as people do; so does the guard until then, unless its rule has a
temperature. A guard is played step by step for numbers, where the promise depends on the charges of every
step; and with late outcomes, for streams whose evidence may suffice for an alarm. Players that are only there for
comparison stand in ``YARDSTICKS``.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..arrays import first_true, softmax
from ..guard import Event, Guard, Switch
from ..guard.ledger import blank, happened, turns_told
from ..memory import each
from ..policies import Hedge, Recovering
from ..problems import DecisionProblem, Known, Positions, scene_of, with_first
from ..rules import ExactTest, ResponseRule, Rule
from .known import Tells, part_of
from .streams import Block, Streams

PLAYERS = ("model", "guard", "fallback")


class Played(NamedTuple):
    """What each player was paid at every step of a block, in utility; 0 after the end of a stream."""

    paid: dict[str, np.ndarray]  # by player, [N, T]
    actions_NxA: np.ndarray  # what each fixed action was paid in all
    share_NxT: np.ndarray  # how much of what the guard played was the model's
    trips_N: np.ndarray  # at which step the switch was known, 0 for never
    events: tuple[tuple[int, Event], ...]  # with the row of the stream
    certificate: Any = None  # where what is guaranteed depends on the run
    level_NxT: np.ndarray | None = None  # E after every step, where the alarms were read off it
    utility_AxNxT: Any = None  # what each action was paid in every step


def play(guard: Guard, block: Block, fallback: bool = True, live: bool = True) -> Played:
    """The players on a block; ``guard`` says how the guard is made, and stays as it is.

    Unless ``live``, what the guard played is taken from the recorded form of its rule where there is one: the same, but
    without events, and its share after a switch may stay unknown (NaN).
    """
    rule, problem, there_NxT = guard.rule, guard.problem, block.there_NxT
    assert problem is not None
    N, T = block.came_NxT.shape
    scene, A = _scene(guard, block), problem.n_actions
    earned_PxNxT = scene.paid(block.came_NxT) * there_NxT
    utility_AxNxT = earned_PxNxT[:A]
    paid = {"model": (scene.best_response() * utility_AxNxT).sum(axis=0)}
    paid["guard"] = (scene.base_A * utility_AxNxT).sum(axis=0)  # up to the alarm
    share_NxT = np.ones((N, T))
    trips_N, events, promised = np.zeros(N, dtype=np.int64), list[tuple[int, Event]](), None
    level_NxT: np.ndarray | None = None
    if rule.lag > 1 or rule.of_numbers or rule.untested:
        plain = not rule.of_numbers and not rule.untested and block.told is None
        for rows in _alike(block, np.flatnonzero(_may_alarm(rule, block)) if plain else np.arange(N)):
            found = _live(guard, block.rows(rows), utility_AxNxT[:, rows])
            paid["guard"][rows], share_NxT[rows], trips_N[rows], told, promised = found
            events += [(int(rows[row]), event) for row, event in told]
    else:
        level_NxT = _levels(rule, block)
        times_N = _trips(rule, block, level_NxT)
        rows = np.flatnonzero(times_N <= block.lengths_N)
        if len(rows) and not live and not rule.in_play.acts and block.told is None:
            paid["guard"][rows] = _spliced(rule, block, rows, times_N[rows], scene.temperature, utility_AxNxT[:, rows])
            share_NxT[np.arange(T) >= times_N[:, None]] = np.nan
            trips_N[rows] = times_N[rows]
        elif len(rows):
            paid["guard"][rows], share_NxT[rows], trips_N[rows], told = _replayed(
                rule, block, rows, utility_AxNxT[:, rows], paid["guard"][rows], times_N[rows], live
            )
            events = [(int(rows[row]), event) for row, event in told] if live else []
    if fallback:
        paid["fallback"] = (_fallback_alone(guard, block, scene) * utility_AxNxT).sum(axis=0)
    paid |= {name: earns(guard, block, utility_AxNxT) for name, earns in YARDSTICKS.items()}
    for k, name in enumerate(getattr(rule.each, "references", ())):
        paid[f"reference {name}"] = earned_PxNxT[A + k]
    actions_NxA, share_NxT = utility_AxNxT.sum(axis=-1).T, share_NxT * there_NxT
    return Played(paid, actions_NxA, share_NxT, trips_N, tuple(events), promised, level_NxT, utility_AxNxT)


def _may_alarm(rule: Rule, block: Block) -> np.ndarray:
    """Which rows may have evidence enough for an alarm, in whatever order their late outcomes come."""
    most_N = np.full(len(block.index_N), max(0.0, 1 - block.came_NxT.shape[1] / rule.lag))  # classes without a step
    for log_e_NxT in evidence_by_class(rule, block):
        with np.errstate(over="ignore"):
            most_N += np.exp(log_e_NxT.max(axis=1, initial=0.0)) / rule.lag
    return most_N >= (1 - 1e-9) / rule.each.delta  # type: ignore[attr-defined]


def evidence_by_class(rule: Rule, block: Block) -> list[np.ndarray]:
    """ln E of each class of steps a lag apart, ``[N, T]`` by its own steps; as it was at the end of a stream."""
    found, (d, T), there_NxT = [], (rule.lag, block.came_NxT.shape[1]), block.there_NxT
    fresh = unspent(rule)
    for k in range(min(d, T)):
        at = (slice(None), slice(k, None, d))
        said, known = part_of(block.forecasts, at), known_of(rule, block, *at)
        log_e_NxT = rule.each.log_evidence(said, block.came_NxT[at], known)  # type: ignore[attr-defined]
        own_NxT = there_NxT[:, k::d]
        last_N = np.maximum(own_NxT.sum(axis=1), 1) - 1
        at_end_N = np.where(own_NxT.any(axis=1), log_e_NxT[np.arange(len(last_N)), last_N], fresh)
        found.append(np.where(own_NxT, log_e_NxT, at_end_N[:, None]))
    return found


def known_of(rule: Rule, block: Block, *at: Any) -> Known | None:
    """What was known before the outcomes of a block, or of some of its steps, as a rule takes it."""
    return None if block.told is None else block.told.known(rule.each, *at)


def unspent(rule: Rule) -> float:
    """ln E of a class before its first outcome."""
    return float(rule.each.evidence(rule.each.start())[0])


def _alike(block: Block, rows: np.ndarray) -> list[np.ndarray]:
    """These rows, grouped by when their outcomes were known."""
    if block.lags_NxT is None or not len(rows):
        return [rows] if len(rows) else []
    _, which = np.unique(block.lags_NxT[rows], axis=0, return_inverse=True)
    return [rows[which.ravel() == k] for k in range(int(which.max()) + 1)]


def _scene(guard: Guard, block: Block) -> Any:
    """All that was known of every step before its outcome."""
    each, T, step = guard.rule.each, block.came_NxT.shape[1], np.arange(block.came_NxT.shape[1])
    assert isinstance(each, ResponseRule)
    step_T = step // guard.rule.lag + 1  # of its class
    if isinstance(each, ExactTest):
        return each.scene(block.forecasts, None if block.told is None else block.told.known(each), step_T)
    return scene_of(each.problem, block.forecasts, None, each.temperature_at(np.arange(1, T + 1)))


def _hedge(guard: Guard, block: Block, utility_AxNxT: np.ndarray) -> np.ndarray:
    """Hedge on every stream, at the rate for that stream's own length."""
    problem, lag = guard.problem, guard.lag
    lengths, which_N = np.unique(block.lengths_N, return_inverse=True)
    rates = [T**-0.5 if not isinstance(problem, DecisionProblem) else Hedge(problem, int(T)).rate for T in lengths]
    known_AxNxT = np.zeros_like(utility_AxNxT)  # before each step
    known_AxNxT[..., lag:] = np.cumsum(utility_AxNxT, axis=-1)[..., :-lag]
    return (softmax(known_AxNxT * np.array(rates)[which_N, None]) * utility_AxNxT).sum(axis=0)


def _best_last_time(guard: Guard, block: Block, utility_AxNxT: np.ndarray) -> np.ndarray:
    """A player who does what would have been best in the last known step; before that, each action alike."""
    lag, paid_NxT = guard.lag, utility_AxNxT.mean(axis=0)
    best_NxT = utility_AxNxT[..., :-lag].argmax(axis=0)
    paid_NxT[:, lag:] = np.take_along_axis(utility_AxNxT[..., lag:], best_NxT[None], axis=0)[0]
    return paid_NxT


# The columns beside the players': what each was paid ``[N, T]``, given how the guard is made, the streams of a block,
# and what every action earned in them, ``[A, N, T]``, 0 after the end of a stream. What is played in a step may go by
# its forecast, and by what was earned ``guard.lag`` steps before it or earlier.
YARDSTICKS: dict[str, Callable[[Guard, Block, np.ndarray], np.ndarray]] = {
    "Hedge": _hedge,
    "last outcome": _best_last_time,
}


def guard_for(problem: Any, horizon: int, tells: Tells, lag: int = 1, **settings: Any) -> Guard:
    """A guard with these settings for all that the recording holds."""
    if settings.get("test") is False:
        settings["delta"] = None  # no alarm, whose chance it is
    made = Guard(problem, horizon, **settings, **tells.settings())
    return made if lag == 1 else Guard(problem, horizon, rule=made.rule, lag=lag)


def made_like(guard: Guard, n: int) -> Guard:
    """A fresh guard of ``n`` streams with the settings of this one."""
    return Guard(guard.problem, guard.horizon, rule=guard.rule, batch_shape=(n,))


def evidence_of(guard: Guard, recording: Streams, i: int) -> Iterator[tuple[Any, Any]]:
    """The statistic of the test and its threshold after each outcome of a stream."""
    live, told, T = made_like(guard, 1), None if recording.told is None else recording.told[i], len(recording.states[i])
    for t in range(T + guard.lag - 1):
        if t < T:
            live.advise(part_of(recording.forecasts[i], [t]), **({} if told is None else told.at([t])))
        if t >= guard.lag - 1:
            came = recording.states[i][[t - guard.lag + 1]]
            live.observe(came if guard.rule.of_numbers else Positions(came))
            yield live.evidence


def _levels(rule: Rule, block: Block) -> np.ndarray | None:
    """E after every step, if all alarms are where it reaches 1/delta."""
    if not isinstance(rule, ExactTest) or block.told is not None or rule.pointless:
        return None
    if rule.told or rule.of_numbers:
        return None
    return rule.levels(block.forecasts, block.came_NxT)


def _trips(rule: Rule, block: Block, level_NxT: np.ndarray | None) -> np.ndarray:
    """When each row switches; after its end for never."""
    if level_NxT is not None:
        assert isinstance(rule, ExactTest)
        return first_true(level_NxT * rule.delta >= 1) + 1
    if block.told is None:
        return rule.first_trips(block.forecasts, block.came_NxT)
    assert isinstance(rule, ExactTest)
    return rule.trip_times(block.forecasts, block.came_NxT, block.told.known(rule))


def _spliced(
    rule: Rule, block: Block, rows: np.ndarray, times_N: np.ndarray, temperature: Any, utility_AxNxT: np.ndarray
) -> np.ndarray:
    """What the responses to the model's laws, and from the trip on to the fallback's, were paid on these rows."""
    own, probs_NxTxS, states_NxT = rule.in_play, block.forecasts[rows], block.came_NxT[rows]
    if own.follows:
        said = own.fallback.laws_beside(probs_NxTxS, states_NxT, times_N)
    else:
        late_NxT = np.arange(states_NxT.shape[1]) >= times_N[:, None]
        said = np.where(late_NxT[..., None], own.answers(states_NxT), probs_NxTxS)
    assert isinstance(rule.problem, DecisionProblem)
    return (rule.problem.respond(np.moveaxis(said, -1, 0), temperature) * utility_AxNxT).sum(axis=0)


def _replayed(
    rule: Rule,
    block: Block,
    rows: np.ndarray,
    utility_AxNxT: np.ndarray,
    followed_NxT: np.ndarray,
    times_N: np.ndarray,
    live: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[int, Event]]]:
    """What a guard was paid on these rows, how much of it was the model's, when it first switched, its events.

    ``followed_NxT``: what the rule's answers to the model were paid; ``times_N``: when each row switches. Unless
    ``live``, events may be left out.
    """
    probs_NxTxS, states_NxT, N = block.forecasts[rows], block.came_NxT[rows], len(rows)
    lengths_N = block.lengths_N[rows]
    beside = live and states_NxT.shape[1] < N  # this many are quicker side by side
    after = None if beside or block.told is not None else _after_alarms(rule, probs_NxTxS, states_NxT, times_N)
    if after is not None:
        late_NxT = np.arange(states_NxT.shape[1]) >= times_N[:, None]
        paid_NxT = np.where(late_NxT, (after.played_AxNxT * utility_AxNxT).sum(axis=0), followed_NxT)
        share_NxT = np.where(late_NxT, after.share_NxT1[:, :-1], 1.0)
        events = _told_of(rule, probs_NxTxS, states_NxT, times_N, after) if live else []
        return paid_NxT, share_NxT, times_N, [(row, event) for row, event in events if event.step <= lengths_N[row]]
    paid_NxT, share_NxT = followed_NxT.copy(), np.ones(states_NxT.shape)
    begin, ledger, told = 0, blank(rule, (N,)), list[Event]()
    memory = ledger.rule
    if isinstance(rule, ExactTest):
        before = slice(int(times_N.min()) - 1)  # up to there all play the model
        ahead = rule.run(probs_NxTxS[:, before], states_NxT[:, before])
        begin, memory = (0, memory) if ahead is None else (before.stop, ahead)
    who: Any = slice(None)
    if N == 1:  # what one stream remembers costs less to move on
        who, ledger, memory = 0, blank(rule, ()), each(memory, lambda part: part[0])
    for t in range(begin, int(lengths_N.max())):
        known = None if block.told is None else block.told.known(rule, rows[who], t)
        moment = rule.look(memory, probs_NxTxS[who, t], known)
        share_NxT[who, t] = rule.share(memory)
        played_A = with_first(rule.answer(memory, moment))
        paid_NxT[who, t] = (played_A * utility_AxNxT[:, who, t]).sum(axis=0)
        memory = rule.advance(memory, moment, states_NxT[who, t])
        told += happened(rule, ledger._replace(rule=memory))
    told = [event._replace(stream=event.stream or 0) if N == 1 else event for event in told]
    told = [event for event in told if event.step <= lengths_N[event.stream]]
    trips_N = np.zeros(N, dtype=np.int64)
    for event in reversed(told):
        if isinstance(event, Switch):
            trips_N[event.stream] = event.step
    return paid_NxT, share_NxT, trips_N, [(event.stream, event) for event in told]


def _after_alarms(rule: Rule, probs_NxTxS: np.ndarray, states_NxT: np.ndarray, times_N: np.ndarray) -> Any:
    """What is played from the alarms on, where that is known without going from step to step; else None."""
    back = rule.in_play.fallback
    if not isinstance(rule, ExactTest) or rule.told or not isinstance(back, Recovering):
        return None
    scene = rule.scene(probs_NxTxS, None, np.arange(1, states_NxT.shape[1] + 1))
    return back.played_after(scene, states_NxT, times_N)


def _told_of(
    rule: Rule, probs_NxTxS: np.ndarray, states_NxT: np.ndarray, times_N: np.ndarray, after: Any
) -> list[tuple[int, Event]]:
    """A guard's events on these rows: its switches, each with the step that caused it, and what happened after them."""
    assert isinstance(rule, ExactTest)
    found: list[tuple[int, Event]] = []
    for n, time in enumerate(times_N.tolist()):
        memory = rule.run(probs_NxTxS[[n], : time - 1], states_NxT[[n], : time - 1])
        memory = rule.start() if memory is None else each(memory, lambda part: part[0])
        moment = rule.look(memory, probs_NxTxS[n, time - 1])
        memory = rule.advance(memory, moment, states_NxT[n, time - 1])
        told = list(happened(rule, blank(rule, ())._replace(rule=memory)))
        for t in np.flatnonzero(after.turned_NxT[n]):
            told += turns_told(after.turned_NxT[n, t], np.array(t + 1), after.share_NxT1[n, t + 1], np.array(1))
        found += [(n, event._replace(stream=n)) for event in told]
    return found


def _live(
    guard: Guard, block: Block, utility_AxNxT: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[int, Event]], Any]:
    """The same for all rows, step by step; for numbers also what is promised of the run."""
    (N, T), live = block.came_NxT.shape, made_like(guard, len(block.index_N))
    paid_TxN, share_TxN = np.zeros((T, N)), np.ones((T, N))
    every, known = np.arange(N), _known(guard, block)
    for t in range(T):
        more = {} if block.told is None else block.told.at(every, t)
        advice = live.advise(part_of(block.forecasts, (every, t)), **more)
        share_TxN[t] = advice.share
        paid_TxN[t] = (advice.policy.T * utility_AxNxT[..., t]).sum(axis=0)
        for step in known[t]:
            came = block.came_NxT[:, step]
            live.observe(came if guard.rule.of_numbers else Positions(came), step=step + 1)
    ends = [(event, int(block.lengths_N[event.stream])) for event in live.events]
    told = [(event.stream, _by_its_end(event, end)) for event, end in ends if event.step <= end]
    trips_N = np.zeros(N, dtype=np.int64)
    for row, event in reversed(told):
        if isinstance(event, Switch):
            trips_N[row] = known_at(event)
    return paid_TxN.T, share_TxN.T, trips_N, told, live.certificate if guard.rule.of_numbers else None


def _known(guard: Guard, block: Block) -> list[list[int]]:
    """The steps whose outcomes became known between each step and the next, or after the last. All rows are alike."""
    T = block.came_NxT.shape[1]
    lags_T = np.full(T, guard.lag) if block.lags_NxT is None else block.lags_NxT[0]
    found: list[list[int]] = [[] for _ in range(T)]
    for step, last in enumerate(np.minimum(np.arange(T) + lags_T, T).tolist()):
        found[last - 1].append(step)
    return found


def known_at(event: Event) -> int:
    """The step at which an event was known."""
    return event.step if event.known is None else event.known


def _by_its_end(event: Event, end: int) -> Event:
    """The event, dated at the end of its stream at the latest, however long the streams beside it are."""
    over = known_at(event) - end
    return event if over <= 0 or event.known is None else event._replace(known=event.known - over)


def _fallback_alone(guard: Guard, block: Block, scene: Any) -> np.ndarray:
    """What the fallback would have played from the first step on, ``[A, N, T]``."""
    rule, (N, T) = guard.rule, block.came_NxT.shape
    own = rule.each.in_play
    if own.follows and (own.acts or rule.lag > 1 or block.told is not None):
        plain = rule.lag == 1 and block.told is None
        if plain and isinstance(own.fallback, Recovering):
            after = own.fallback.played_after(scene, block.came_NxT, np.zeros(N, dtype=np.int64))
            if after is not None:
                return after.played_AxNxT
        at_once, played = np.ones(N, dtype=bool), []
        memories = [own.fallback.start((N,))] * rule.lag
        for t in range(T):
            now, place = scene.at(t), t % rule.lag
            played.append(own.fallback.policy(memories[place], now))
            memories[place] = own.fallback.update(memories[place], now, block.came_NxT[:, t], at_once)
        return np.stack(played, axis=-1)
    parts = []
    for place in range(rule.lag):  # where outcomes are late, each class learns from its own
        span = slice(place, T, rule.lag)
        parts.append((span, _said_alone(own, block.forecasts[:, span], block.came_NxT[:, span])))
    said = np.zeros((parts[0][1].shape[-1], N, T))
    for span, part in parts:
        said[..., span] = np.moveaxis(part, -1, 0)
    return said if own.acts else rule.problem.respond(said, scene.temperature)  # type: ignore[union-attr]


def _said_alone(own: Any, probs_NxTxS: np.ndarray, states_NxT: np.ndarray) -> np.ndarray:
    """What a fallback that begins with the first of these steps says in each."""
    if states_NxT.shape[1] == 0:
        return np.zeros((len(states_NxT), 0, own.width))
    if own.follows:
        return own.fallback.laws_beside(probs_NxTxS, states_NxT, np.zeros(len(states_NxT), dtype=np.int64))
    return np.asarray(own.answers(states_NxT))
