"""Who would have been paid what: the model, the guard, the fallback, Hedge, and every fixed action."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..arrays import softmax
from ..guard import Event, Guard, Switch
from ..guard.ledger import blank, happened
from ..policies import Hedge
from ..problems import DecisionProblem, Positions, a_problem, action_utilities, with_first
from ..rules import ExactTest, ResponseRule, Rule
from .streams import Block, Streams

PLAYERS = ("model", "guard", "fallback", "Hedge")


class Played(NamedTuple):
    """What everyone was paid at every step of a block, in utility; after the end of a stream, 0."""

    paid: dict[str, np.ndarray]  # by player, [N, T]
    actions_NxA: np.ndarray  # what each fixed action was paid in all
    share_NxT: np.ndarray  # how much of what the guard played was the model's
    trips_N: np.ndarray  # states seen at the switch, 0 for never
    events: tuple[tuple[int, Event], ...]  # with the row of the stream
    certificate: Any = None  # where what is guaranteed depends on the run


def play(guard: Guard, block: Block, fallback: bool = True, live: bool = True, others: bool = False) -> Played:
    """The players on a block; ``guard`` says how the guard is made, and is not touched.

    Unless ``live``, what the guard played is taken from the recorded form of its rule where there is one: the same, but
    it tells nothing, and its share after a switch stays unknown (NaN). ``others``: all but the guard, who stays with
    the model.
    """
    rule, problem, there_NxT = guard.rule, guard.problem, block.there_NxT
    assert isinstance(rule, ResponseRule)
    assert problem is not None
    states_NxT, probs_NxTxS = block.states_NxT, block.probs_NxTxS
    N, T = states_NxT.shape
    utility_AxNxT = action_utilities(problem, states_NxT, probs_NxTxS) * there_NxT
    warmth = rule.temperature_at(np.arange(1, T + 1)[None])
    response_AxNxT = problem.respond(np.moveaxis(probs_NxTxS, -1, 0), warmth)
    paid = {"model": (response_AxNxT * utility_AxNxT).sum(axis=0)}
    paid["guard"], share_NxT = paid["model"].copy(), np.ones((N, T))
    trips_N = np.zeros(N, dtype=np.int64)
    events: list[tuple[int, Event]] = []
    rows, times_N = (np.zeros(0, dtype=np.int64), trips_N) if others else _to_replay(guard, block)
    if len(rows) and not live and guard.episode is None and not rule.in_play.acts:
        paid["guard"][rows] = _spliced(rule, block, rows, times_N[rows], warmth, utility_AxNxT[:, rows])
        share_NxT[np.arange(T) >= times_N[:, None]] = np.nan
        trips_N[rows] = times_N[rows]
    elif len(rows):
        when = None if guard.episode is not None else times_N[rows]
        paid["guard"][rows], share_NxT[rows], trips_N[rows], told = replayed(
            guard, block, rows, utility_AxNxT[:, rows], paid["model"][rows], when
        )
        events = [(int(rows[row]), event) for row, event in told]
    if fallback:
        paid["fallback"] = (_fallback_alone(guard, block, warmth) * utility_AxNxT).sum(axis=0)
    paid["Hedge"] = (hedge(problem, block, utility_AxNxT) * utility_AxNxT).sum(axis=0)
    return Played(paid, utility_AxNxT.sum(axis=-1).T, share_NxT * there_NxT, trips_N, tuple(events))


def hedge(problem: DecisionProblem, block: Block, utility_AxNxT: np.ndarray) -> np.ndarray:
    """What Hedge plays, ``[A, N, T]``, on every stream at the rate for its own length: whatever it lies beside."""
    lengths, which_N = np.unique(block.lengths_N, return_inverse=True)
    rate_N = np.array([Hedge(problem, int(T)).rate for T in lengths])[which_N]
    before_AxNxT = np.cumsum(utility_AxNxT, axis=-1) - utility_AxNxT
    return softmax(before_AxNxT * rate_N[:, None])


def made_like(guard: Guard, n: int) -> Guard:
    """A fresh guard of ``n`` streams with the settings of this one."""
    rule, episode = guard.rule, guard.episode
    whole = guard._whole if episode is not None else rule.horizon
    return Guard(guard.problem, whole, rule=rule, batch_shape=(n,), episode=episode)


def waits(guard: Guard, recording: Streams, i: int) -> Iterator[dict[str, Any]]:
    """The conditions of an alarm after each step of a stream."""
    live, told = made_like(guard, 1), None if recording.told is None else recording.told[i]
    for t, (law_S, state) in enumerate(zip(recording.probs[i], recording.states[i], strict=True)):
        live.advise(law_S[None], **({} if told is None else told.at([t])))
        live.observe(Positions(np.array([state])))
        yield live.conditions


def _to_replay(guard: Guard, block: Block) -> tuple[np.ndarray, np.ndarray]:
    """The rows on which the guard may not play the model: those that switch, where that is known beforehand; when."""
    if guard.episode is not None:
        return np.arange(len(block.index_N)), np.zeros(0, dtype=np.int64)
    trips_N = guard.rule.first_trips(block.probs_NxTxS, block.states_NxT)
    return np.flatnonzero(trips_N <= block.lengths_N), trips_N


def _spliced(
    rule: ResponseRule,
    block: Block,
    rows: np.ndarray,
    times_N: np.ndarray,
    warmth: np.ndarray,
    utility_AxNxT: np.ndarray,
) -> np.ndarray:
    """What the responses to the model's laws, and from the trip on to the fallback's, were paid on these rows."""
    own, probs_NxTxS, states_NxT = rule.in_play, block.probs_NxTxS[rows], block.states_NxT[rows]
    if own.follows:
        said = own.fallback.laws_beside(probs_NxTxS, states_NxT, times_N)
    else:
        late_NxT = np.arange(states_NxT.shape[1]) >= times_N[:, None]
        said = np.where(late_NxT[..., None], own.answers(states_NxT), probs_NxTxS)
    return (rule.problem.respond(np.moveaxis(said, -1, 0), warmth) * utility_AxNxT).sum(axis=0)


def replayed(
    guard: Guard,
    block: Block,
    rows: np.ndarray,
    utility_AxNxT: np.ndarray,
    model_NxT: np.ndarray,
    times_N: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[int, Event]]]:
    """What a guard was paid on these rows, how much of it was the model's, when it first switched, what it told.

    ``model_NxT``: what the model was paid; ``times_N``: when each row switches, if that is known.
    """
    if guard.episode is not None:
        return _in_episodes(guard, block, rows, utility_AxNxT)
    rule, probs_NxTxS, states_NxT = guard.rule, block.probs_NxTxS[rows], block.states_NxT[rows]
    N, lengths_N, problem = len(rows), block.lengths_N[rows], a_problem(guard.problem)
    paid_NxT, share_NxT = model_NxT.copy(), np.ones(states_NxT.shape)
    begin, ledger, told = 0, blank(rule, (N,)), list[Event]()
    memory = ledger.rule
    if times_N is not None and isinstance(rule, ExactTest):
        before = slice(int(times_N.min()) - 1)  # up to there all play the model
        ahead = rule.run(probs_NxTxS[:, before], states_NxT[:, before])
        begin, memory = (0, memory) if ahead is None else (before.stop, ahead)
    for t in range(begin, int(lengths_N.max())):
        known = None if block.told is None else block.told.known(problem, rows, t)
        moment = rule.look(memory, probs_NxTxS[:, t], known)
        share_NxT[:, t] = rule.share(memory)
        paid_NxT[:, t] = (with_first(rule.answer(memory, moment)) * utility_AxNxT[..., t]).sum(axis=0)
        memory = rule.advance(memory, moment, states_NxT[:, t])
        told += happened(rule, ledger._replace(rule=memory))
    told = [event for event in told if event.step <= lengths_N[event.stream]]
    trips_N = np.zeros(N, dtype=np.int64)
    for event in reversed(told):
        if isinstance(event, Switch):
            trips_N[event.stream] = event.step
    return paid_NxT, share_NxT, trips_N, [(event.stream, event) for event in told]


def _in_episodes(
    guard: Guard, block: Block, rows: np.ndarray, utility_AxNxT: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[int, Event]]]:
    """The same of a guard that opens a new episode by itself, live."""
    T, lengths_N, live = block.states_NxT.shape[1], block.lengths_N[rows], made_like(guard, len(rows))
    paid_TxN, share_TxN = np.zeros((T, len(rows))), np.ones((T, len(rows)))
    for t in range(int(lengths_N.max())):
        live.advise(block.probs_NxTxS[rows, t], **({} if block.told is None else block.told.at(rows, t)))
        share_TxN[t] = live.share
        paid_TxN[t] = (live.policy().T * utility_AxNxT[..., t]).sum(axis=0)
        live.observe(Positions(block.states_NxT[rows, t]))
    told = [(event.stream, event) for event in live.events if _clock(guard, event) <= lengths_N[event.stream]]
    trips_N = np.zeros(len(rows), dtype=np.int64)
    for row, event in reversed(told):
        if isinstance(event, Switch):
            trips_N[row] = _clock(guard, event)
    return paid_TxN.T, share_TxN.T, trips_N, told


def _clock(guard: Guard, event: Event) -> int:
    """At which step of the whole recording that was."""
    return event.step if guard.episode is None else (event.episode - 1) * guard.episode + event.step


def _fallback_alone(guard: Guard, block: Block, warmth: np.ndarray) -> np.ndarray:
    """What the fallback would have played from the first step on, ``[A, N, T]``; afresh with each episode."""
    T = block.states_NxT.shape[1]
    each, warmth_T = guard.episode or T, np.broadcast_to(warmth, (1, T))
    spans = [slice(begin, begin + each) for begin in range(0, T, each)]
    parts = [
        _alone_from_start(guard.rule, block.probs_NxTxS[:, span], block.states_NxT[:, span], warmth_T[:, span])
        for span in spans
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def _alone_from_start(rule: Rule, probs_NxTxS: np.ndarray, states_NxT: np.ndarray, warmth: np.ndarray) -> np.ndarray:
    own, problem = rule.in_play, rule.problem
    assert isinstance(problem, DecisionProblem)
    N, T = states_NxT.shape
    if own.follows and own.acts:
        memory, mixed, at_once = own.fallback.start((N,)), [], np.ones(N, dtype=bool)
        for t in range(T):
            scene = own.fallback.scene(memory, probs_NxTxS[:, t])
            mixed.append(own.fallback.policy(memory, scene))
            memory = own.fallback.update(memory, scene, states_NxT[:, t], at_once)
        return np.stack(mixed, axis=-1)
    if own.follows:
        said = own.fallback.laws_beside(probs_NxTxS, states_NxT, np.zeros(N, dtype=np.int64))
    else:
        said = own.answers(states_NxT)
    said_first = np.moveaxis(np.asarray(said), -1, 0)
    return said_first if own.acts else problem.respond(said_first, warmth)
