"""The compiled loop for one setting: the rows and methods of ``Engine``, for the most common compositions.

These are states, best or quantal responses, actions and references, the exact test or none, and ``Recovery``, with any
lag, contexts, scale and payoffs; others run in the array form. ``warm_up`` compiles it, so that no step ever has to.
"""

import importlib.util
import math
import re
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import inputs
from . import fallbacks, responses
from .bets import LEAST_CHANCE, MOST, Bets, Unwatched
from .comparators import Actions, References
from .fallbacks import Hedge, Recovering
from .layout import Layout
from .responses import BestResponse, QuantalResponse
from .run import Engine, Setting, Signals, Trace
from .step import Inputs

NOTHING, NOWHERE = np.empty(0), np.empty(0, dtype=np.int64)
WORTH_COMPILING = 1 << 17  # steps: for more, compiling is quicker than the array form
FRESH = 4  # at twice a rate the exponential is squared; every FRESH rates it is computed anew, as errors accumulate

_compiling, _kernels = threading.Lock(), SimpleNamespace()


def warm_up() -> bool:
    """Compiles the loop, or reads it from the disk: some seconds, once a process. False where Numba is missing."""
    with _compiling:
        if not is_ready() and importlib.util.find_spec("numba") is not None:
            from . import compiled

            compiled.compile_all()
            _kernels.ready = compiled
    return is_ready()


def is_ready() -> bool:
    """Whether the loop is compiled."""
    return hasattr(_kernels, "ready")


def fits(setting: Setting) -> bool:
    """Whether the loop can run this setting."""
    return (
        setting.xp is np
        and type(setting.watch) in (Bets, Unwatched)
        and type(setting.play) is Recovering
        and type(setting.play.safe) is Hedge
        and type(setting.response) in (BestResponse, QuantalResponse)
        and all(isinstance(kind, (Actions, References)) for kind in setting.against.kinds())
    )


def form_of(engine: Engine, steps: int = 0) -> "Engine | Loop":
    """The form in which an engine runs: the loop, where it is compiled or so many steps are worth compiling for."""
    if steps >= WORTH_COMPILING and fits(engine.setting):
        warm_up()
    return Loop(engine) if is_ready() and fits(engine.setting) else engine


def plain(values: Any, dtype: Any = np.float64) -> np.ndarray:
    """A vector of the only kind that the loop reads."""
    found = np.ascontiguousarray(values, dtype).reshape(-1)
    return found if found.flags.writeable else found.copy()


def shape_of(name: str, axes: dict[str, Any]) -> tuple[int, ...]:
    """``references_QxS`` has the lengths of Q and S, ``scale`` is a number."""
    found = re.search(r"_([A-Z](?:x[A-Z])*)$", name)
    return tuple(axes[axis] for axis in found[1].split("x")) if found else ()


class Waiting:
    """Steps that wait for their outcomes, of one stream or N, as ``Loop`` keeps them; to be read as ``Step`` is."""

    __slots__ = ("_layout", "held")

    def __init__(self, held: np.ndarray, layout: Layout) -> None:
        self.held, self._layout = held, layout

    def _part(self, name: str) -> np.ndarray:
        return self.held.reshape(-1, self._layout.width)[:, self._layout.places[name][0]]

    forecast = property(lambda self: self._part("forecast_S"))
    model_NxA = property(lambda self: self._part("model_A"))
    policy_NxA = property(lambda self: self._part("policy_A"))
    mixture_NxS = property(lambda self: self._part("mixture_S"))  # what the fallback believes, where it is in force
    in_force_N = property(lambda self: self._part("in_force")[:, 0] > 0)


class Loop:
    """One engine, compiled."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.kernels, setting = engine, _kernels.ready, engine.setting
        self.head, self.start, self.width = engine.head, engine.start, engine.width
        constants = self._constants(setting)
        self.axes = axes = self._axes(setting, constants)
        self.waiting = Layout({name: shape_of(name, axes) for name in self.kernels.IN_WAITING.split()})
        self.constants = np.concatenate([plain(values) for values in constants.values()])
        found = (
            axes
            | self._numbers(setting)
            | {"head": engine.head.width, "block": engine.block.width, "row": engine.width}
        )
        found |= {"waiting": self.waiting.width, "head_trusted": engine.head.places["trusted"][0].start}
        held = Layout({name: values.shape for name, values in constants.items()})
        for layout in (engine.head, self.waiting, held, engine.block):
            found |= {name: at.start for name, (at, _) in layout.places.items()}
        self.sizes = np.zeros(1, dtype=self.kernels.AT)
        for name in self.kernels.AT.names:
            self.sizes[name] = found.get(name, 0)

    def _axes(self, setting: Setting, constants: dict[str, np.ndarray]) -> dict[str, Any]:
        """How long the axes are, and what is on."""
        (A, S), M, Q = constants["utility_AxS"].shape, len(constants["keep_M"]), len(setting.references)
        found = {"A": A, "S": S, "Q": Q, "E": setting.n_awake, "X": setting.n_awake + 1, "P": setting.n_comparators}
        found |= {"M": M, "L": 1 + 2 * M + Q, "G": len(constants["kinds_Gx3"]), "C": setting.n_contexts}
        found |= {"K": constants["rates_K"].size, "D": setting.lag, "traced": 4 + 2 * A}
        found |= {"tests": setting.tests, "can_alarm": self.engine.can_alarm, "changes": setting.problem.is_changing}
        found |= {"bets_on_mixture": setting.has_second_bettor, "knows_horizon": setting.rounds is not None}
        return found | {"has_table": constants["factor_AxSxAxK"].size > 0}

    def _numbers(self, setting: Setting) -> dict[str, Any]:
        play, bets, S = setting.play, setting.watch, setting.outcomes.n_states
        assert isinstance(play, Recovering)
        found = {
            "temperature": -1.0 if setting.temperature is None else setting.temperature,
            "warmth": float(setting.payoff_range.anytime_temperature(1)) * math.sqrt(S),
            "threshold": bets.threshold,
            "mixing": play.mixture.share,
            "limit": play.limit,
            "tie": responses.TIE,
            "budget_tie": fallbacks.TIE,
            "most": MOST,
            "least": fallbacks.LEAST,
            "least_chance": LEAST_CHANCE,
            "home": fallbacks.HOME,
            "gone": fallbacks.GONE,
            "sum_tolerance": inputs.SUM_TOLERANCE,
        }
        if not isinstance(bets, Bets):
            return found
        own = {
            "second_first": bets.second_first,
            "second_later": bets.second_later,
            "horizon": bets.prior.horizon or 0.0,
        }
        return found | own

    def _constants(self, setting: Setting) -> dict[str, np.ndarray]:
        play, bets, A = setting.play, setting.watch, setting.outcomes.n_actions
        assert isinstance(play, Recovering)
        awake, kinds, begin, player = [], [], 0, A
        for kind in setting.against.kinds():
            own, per = len(kind.references) or A, A if kind.contexts else 0
            first = player if kind.references else 0  # actions come first, then references
            awake += [(first + i, begin + i, per) for i in range(own)]
            kinds.append((begin, kind.n_contexts, own))
            begin, player = begin + kind.count(A), player + len(kind.references)
        player_E, place_E, apart_E = np.array(awake, dtype=np.float64).T
        found = {"utility_AxS": setting.outcomes.payoffs, "keep_M": play.mixture.keep_M}
        found |= {"player_E": player_E, "place_E": place_E, "apart_E": apart_E, "kinds_Gx3": np.array(kinds)}
        if not isinstance(bets, Bets):
            return found | {"rates_K": NOTHING, "factor_AxSxAxK": NOTHING}
        doubled = np.append(False, bets.rates_K[1:] == 2 * bets.rates_K[:-1])
        found |= {"rates_K": bets.rates_K, "first_K": bets.first_K, "later_K": bets.later_K}
        found |= {"doubles_K": doubled & (np.arange(len(doubled)) % FRESH > 0)}
        return found | {"factor_AxSxAxK": NOTHING if bets.factor_AxSxAxK is None else bets.factor_AxSxAxK}

    # One stream, as fast as possible; every argument must be as ``plain`` returns it

    def advise_one(
        self,
        row: np.ndarray,
        number: int,
        forecast_S: np.ndarray,
        references_QxS: np.ndarray = NOTHING,
        context_1: np.ndarray = NOWHERE,
        scale_1: np.ndarray = NOTHING,
        payoffs_AxS: np.ndarray = NOTHING,
    ) -> tuple[int, Waiting]:
        """The likeliest action (below 0 where a forecast is none), and the step that waits for its outcome."""
        held, given = np.empty(self.waiting.width), (forecast_S, references_QxS, context_1, scale_1, payoffs_AxS)
        action = self.kernels.advise_all(self.sizes, self.constants, row, held, number, *given)
        return action, Waiting(held, self.waiting)

    def observe_one(self, row: np.ndarray, number: int, waiting: Waiting, state: int, action: int = -1) -> int:
        """Updates the row in place; returns ALARM, RETURNED, DROPPED or 0. A state below 0 is missing."""
        return self.kernels.observe_one(self.sizes, self.constants, row, waiting.held, number, state, action)  # type: ignore[no-any-return]

    # Fleets and recordings, as in ``Engine``

    def advise(self, rows: np.ndarray, number: int, given: Inputs) -> Waiting:
        """The step of this number, with what is to be played."""
        held = np.empty(len(rows) * self.waiting.width)
        found = self.kernels.advise_all(self.sizes, self.constants, plain(rows), held, number, *self._vectors(given))
        if found < 0:
            raise ValueError(f"forecasts must be probabilities, not so for stream {-1 - found}")
        return Waiting(held, self.waiting)

    def observe(
        self, rows: Any, number: int, step: Waiting, outcome_N: Any, missing_N: Any = None, action_N: Any = None
    ) -> tuple[np.ndarray, Signals]:
        """The rows after the outcome of a step, and what it led to; where ``missing``, there was no outcome."""
        rows, signals_N = np.array(rows), np.empty(len(rows), dtype=np.int64)
        actions = NOWHERE if action_N is None else plain(action_N, np.int64)
        seen = number, self._states(outcome_N, missing_N), actions, signals_N
        self.kernels.observe_all(self.sizes, self.constants, rows.reshape(-1), step.held, *seen)
        return rows, self._signals(signals_N)

    def run(self, rows: Any, given: Inputs, outcomes_NxT: Any, missing_NxT: Any = None, lags_T: Any = None) -> Trace:
        """All steps of recordings ``[N, T, ...]``; each outcome comes as late as it may, or as ``lags_T`` says."""
        rows, (n, T), A, lag = np.array(rows), outcomes_NxT.shape, self.axes["A"], self.axes["D"]
        known_T = np.minimum(np.arange(T) + (lag if lags_T is None else lags_T), T)
        signals_NxT, traced = np.zeros((n, T), dtype=np.int64), np.empty((n, T, 4 + 2 * A))
        alarmed, held = np.zeros((n, self.width)), np.empty(lag * self.waiting.width)
        when = plain(known_T, np.int64), known_T.argsort(kind="stable")
        seen = self._states(outcomes_NxT, missing_NxT), *when, signals_NxT.reshape(-1)
        written = traced.reshape(-1), alarmed.reshape(-1)
        rest = held, *self._vectors(given), *seen, *written
        bad = self.kernels.record(self.sizes, self.constants, rows.reshape(-1), *rest)
        if bad >= 0:
            raise ValueError(f"forecasts must be probabilities, not so for stream {bad // T} at step {bad % T}")
        alarm, turned = self._signals(signals_NxT)
        level, evidence, after, share = (traced[..., i] for i in range(4))
        suspects = {(i, t): self.engine.suspect(alarmed[i : i + 1], 0) for i, t in np.argwhere(alarm).tolist()}
        shares = {(i, t): float(after[i, t]) for i, t in np.argwhere(turned).tolist()}
        policy, model = traced[..., 4 : 4 + A], traced[..., 4 + A :]
        return Trace(rows, policy, model, share, alarm, turned, evidence, level, known_T, suspects, shares)

    def _vectors(self, given: Inputs) -> tuple[np.ndarray, ...]:
        scale = NOTHING if given.scale_N is None else plain(given.scale_N)
        payoffs = NOTHING if given.payoffs is None else plain(given.payoffs)
        contexts = NOWHERE if given.context_N is None else plain(given.context_N, np.int64)
        return plain(given.forecast), plain(given.references), contexts, scale, payoffs

    def _states(self, outcomes: Any, missing: Any) -> np.ndarray:
        return plain(outcomes if missing is None else np.where(missing, -1, outcomes), np.int64)

    def _signals(self, signals: np.ndarray) -> Signals:
        returned, dropped = signals == self.kernels.RETURNED, signals == self.kernels.DROPPED
        return Signals(signals == self.kernels.ALARM, returned * 1 - dropped * 1)
