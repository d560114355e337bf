"""Players made of predictors: as they are, and with a guard around them (Algorithm 1 at a table)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import inputs
from ..guard import Guard
from ..policies import Policy
from ..predictors import Predictor, asked, has_states
from ..problems import DecisionProblem, Positions
from ..rules import ExactTest, Rule
from .contract import Player, Seat

Made = Callable[[DecisionProblem, int], Any]  # from what is at stake, and for how many rounds


@dataclass(frozen=True)
class Plain(Player):
    """Acts on a model: the quantal response to its forecast of the other's next move.

    Parameters
    ----------
    model
        A ``Predictor`` of the other's moves, which sees only these; or anything with ``begin(problem)``, whose readers
        have ``predict() -> [S]`` and ``observe(own, other)`` and so see both histories.
    temperature
        Of the response; 1/sqrt(rounds) by default.

    >>> from lowregret import PolyaUrn, matching
    >>> from lowregret.games import play
    >>> match = play(matching(), (Plain(PolyaUrn(2)), Fixed([0.2, 0.8])), rounds=200, seed=0)
    >>> match.totals
    (163.0, -163.0)
    """

    model: Any
    temperature: float | None = None
    name: str = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.temperature is not None:
            inputs.keep(self, temperature=inputs.positive(self.temperature, "temperature"))
        inputs.keep(self, model=a_model(self.model), name=named(self.name, type(self.model).__name__))

    def sit(self, problem: DecisionProblem, rounds: int, rng: np.random.Generator, seat: int) -> Seat:
        return _PlainSeat(self, problem, warmth_of(self, rounds))


@dataclass(frozen=True)
class Guarded(Player):
    """The same with a ``Guard`` around the model: it stops acting on it once the moves speak against it.

    It plays the quantal response, at delta = 1/rounds: a player who sees through it answers with a best response each
    round, and quantal responses then lost less (1,000 rounds of rock-paper-scissors against ``Nemesis``: 60 points by
    quantal responses, 71 by best ones). ``rule=lambda problem, rounds: Guard(problem, rounds).rule`` plays best
    responses.

    Parameters
    ----------
    model
        As for ``Plain``.
    rule, fallback
        As ``Guard`` takes them, or a function (or class) that makes one of a problem and a number of rounds.
    temperature
        Of the responses, as ``ExactTest`` takes it; 1/sqrt(rounds) by default.

    >>> from lowregret import matching
    >>> from lowregret.games import play
    >>> from lowregret.predictors import Scheduled
    >>> wrong = Scheduled([[0.9, 0.1]])
    >>> match = play(matching(), (Guarded(wrong), Fixed([0.2, 0.8])), rounds=200, seed=0)
    >>> match.totals[0], len(match.events[0]), match.held
    (160.0, 1, (True, None))
    """

    model: Any
    rule: Rule | Made | None = None
    fallback: Predictor | Policy | Made | None = None
    temperature: Any = None
    name: str = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        inputs.keep(self, model=a_model(self.model), name=named(self.name, f"guarded {type(self.model).__name__}"))
        for name, given in (("rule", self.rule), ("fallback", self.fallback)):
            if not (given is None or _is_one(given) or callable(given)):
                what = "a Rule" if name == "rule" else "a Predictor or Policy"
                raise ValueError(
                    f"{name} must be {what}, or a function of a problem and a number of rounds that makes one, "
                    f"got {inputs.shown(given)}"
                )
        if self.temperature is not None and not isinstance(self.temperature, str):
            inputs.keep(self, temperature=inputs.positive(self.temperature, "temperature"))

    def sit(self, problem: DecisionProblem, rounds: int, rng: np.random.Generator, seat: int) -> Seat:
        return GuardedSeat(self, problem, guard_of(self, problem, rounds))


@dataclass(frozen=True)
class Fixed(Player):
    """Plays one mixed action ``[A]``, whatever happens.

    >>> Fixed([0.5, 0.25, 0.25]).name
    'fixed'
    """

    mixed_A: Any
    name: str = "fixed"

    def __post_init__(self) -> None:
        mixed_A = inputs.table_of(self.mixed_A, "mixed_A")
        if mixed_A.ndim != 1 or not len(mixed_A):
            raise ValueError(f"mixed_A must be one mixed action, a probability for each action, got {mixed_A.shape}")
        inputs.probs_of(mixed_A, len(mixed_A), "mixed_A", shape=())
        inputs.keep(self, mixed_A=tuple(mixed_A.tolist()), name=named(self.name, "fixed"))

    def sit(self, problem: DecisionProblem, rounds: int, rng: np.random.Generator, seat: int) -> Seat:
        if len(self.mixed_A) != problem.n_actions:
            raise ValueError(
                f"{self.name} mixes {len(self.mixed_A)} actions, and in seat {seat} there are {problem.n_actions}"
            )
        return _FixedSeat(np.array(self.mixed_A))


class _FixedSeat(Seat):
    def __init__(self, mixed_A: np.ndarray) -> None:
        self.mixed_A = mixed_A

    def policy(self) -> np.ndarray:
        return self.mixed_A

    def observe(self, own: int, other: int) -> None:
        pass


class _MindsTheOther:
    """A ``Predictor`` as a reader of both histories that uses only the other's."""

    def __init__(self, model: Predictor) -> None:
        self.model, self.memory = model, model.start()

    def predict(self) -> np.ndarray:
        return np.asarray(asked(self.model, self.memory, ()), dtype=np.float64)

    def observe(self, own: int, other: int) -> None:
        self.memory = self.model.update(self.memory, other)


class _PlainSeat(Seat):
    def __init__(self, player: Plain, problem: DecisionProblem, temperature: float) -> None:
        self.reader, self.says = begun(player.model, problem), f"the law of {player.name}"
        self.problem, self.temperature = problem, temperature
        self.mixed_A: np.ndarray | None = None

    def policy(self) -> np.ndarray:
        if self.mixed_A is None:
            law_S = inputs.probs_of(self.reader.predict(), self.problem.n_states, self.says, shape=())
            self.mixed_A = self.problem.respond(law_S, self.temperature)
        return self.mixed_A

    def observe(self, own: int, other: int) -> None:
        self.reader.observe(own, other)
        self.mixed_A = None


class GuardedSeat(Seat):
    """A guarded player in one match; ``guard`` has its state."""

    guard: Guard

    def __init__(self, player: Guarded, problem: DecisionProblem, guard: Guard) -> None:
        self.reader, self.guard = begun(player.model, problem), guard
        self.mixed_A: np.ndarray | None = None

    def policy(self) -> np.ndarray:
        if self.mixed_A is None:
            self.guard.advise(self.reader.predict())
            self.mixed_A = np.asarray(self.guard.policy())
        return self.mixed_A

    def observe(self, own: int, other: int) -> None:
        self.guard.observe(Positions(other), action=own)
        self.reader.observe(own, other)
        self.mixed_A = None


def begun(model: Any, problem: DecisionProblem) -> Any:
    """The reader of the moves of one match, for a model."""
    if hasattr(model, "begin"):
        return model.begin(problem)
    has_states(model, problem.n_states, "problem")
    return _MindsTheOther(model)


def a_model(model: Any) -> Any:
    """A model that a player can act on; anything else is refused."""
    lacks = any(not hasattr(model, name) for name in ("n_states", "start", "predict", "update"))
    if isinstance(model, type) or (lacks and not callable(getattr(model, "begin", None))):
        raise ValueError(
            "model must be a Predictor of the other's moves, or have begin(problem) for a reader of both histories, "
            f"got {inputs.shown(model)}"
        )
    return model


def named(name: Any, default: str) -> str:
    """The name of a player: some text."""
    if name is None:
        return default
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"name must be some text, got {inputs.shown(name)}")
    return name


def warmth_of(player: Plain, rounds: int) -> float:
    """The temperature of its responses in a match of this many rounds."""
    return 1 / math.sqrt(rounds) if player.temperature is None else player.temperature


def guard_of(player: Guarded, problem: DecisionProblem, rounds: int, batch_shape: tuple[int, ...] = ()) -> Guard:
    """The guard of a match, or of several side by side."""
    rule, given = _made(player.rule, problem, rounds), {"temperature": player.temperature}
    given["fallback"] = _made(player.fallback, problem, rounds)
    if rule is None:
        rule, given = ExactTest(problem, rounds, **given), {}
    return Guard(problem, rounds, rule=rule, batch_shape=batch_shape, **given)


def _made(thing: Any, problem: DecisionProblem, rounds: int) -> Any:
    """A rule or a fallback, made for this match where a function is given."""
    return thing if thing is None or _is_one(thing) else thing(problem, rounds)


def _is_one(thing: Any) -> bool:
    """Whether it is a rule or a fallback, or a recipe that a rule itself makes one of (``Recovery``)."""
    return not isinstance(thing, type) and (hasattr(thing, "start") or hasattr(thing, "made_for"))


# The nemesis: it sees through the other player and answers its mixed action with the best response.


@dataclass(frozen=True)
class Nemesis(Player):
    """A white-box adversary: each round it is told the other's mixed action and plays a best response to it.

    It does not know the move that will be drawn, and it does not look ahead. Against a player who states a pure action
    (an OpenSpiel bot draws its own moves before it states them) it knows the move.

    >>> from lowregret import rock_paper_scissors
    >>> from lowregret.games import play
    >>> from lowregret.games import Fixed
    >>> match = play(rock_paper_scissors(), (Fixed([0.5, 0.3, 0.2]), Nemesis()), rounds=10, seed=0)
    >>> match.moves[1].tolist(), round(float(match.expected[0].sum()), 9)
    ([1, 1, 1, 1, 1, 1, 1, 1, 1, 1], -3.0)
    """

    name: str = "nemesis"

    def __post_init__(self) -> None:
        named(self.name, "nemesis")

    def sit(self, problem: DecisionProblem, rounds: int, rng: np.random.Generator, seat: int) -> "NemesisSeat":
        return NemesisSeat(problem)


class NemesisSeat(Seat):
    """The nemesis in one match."""

    def __init__(self, problem: DecisionProblem) -> None:
        self.problem = problem

    def policy(self) -> np.ndarray:
        """Without knowing the other's action: the best response to a uniform one."""
        return self.policy_against(np.full(self.problem.n_states, 1 / self.problem.n_states))

    def policy_against(self, mixed_A: np.ndarray) -> np.ndarray:
        """The best response to the other's mixed action, ties to the lowest index."""
        # Equal up to rounding is a tie: a player who is indifferent must not lose by the last digit.
        gain_A = self.problem.utility @ mixed_A
        best = int(np.argmax(gain_A >= gain_A.max() - 1e-12))
        pure_A = np.zeros(self.problem.n_actions)
        pure_A[best] = 1.0
        return pure_A

    def observe(self, own: int, other: int) -> None:
        pass
