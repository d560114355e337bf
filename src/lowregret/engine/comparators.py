"""Whom regret is measured against: rows of mixed actions, of which some are asleep in a step.

An action of another context sleeps: it is neither bet on nor counted. Every step has the same number of rows awake.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from .. import inputs
from .responses import unit_rows


class Awake(NamedTuple):
    """The comparators that are awake in a step."""

    plays_NxExA: Any  # what each plays
    at_NxE: Any  # its place among all of them; None: all are awake, in their order


class Named(NamedTuple):
    """A comparator in words: an action (in a context), or a reference."""

    action: int | None = None
    context: int | None = None
    reference: str | None = None


class Comparators(ABC):
    """Whom regret is measured against; ``+`` puts them side by side."""

    are_pure = False  # whether each plays one action alone where forecasts are answered by one
    contexts: tuple[str, ...] = ()  # names; empty: there is one, without a name
    references: tuple[str, ...] = ()  # names of those whose forecasts come with every step

    @abstractmethod
    def count(self, n_actions: int) -> int:
        """How many there are."""

    @abstractmethod
    def awake(self, xp: Any, model_NxA: Any, references_NxQxA: Any, context_N: Any) -> Awake:
        """Those awake in a step, given what the model and each reference would play."""

    @abstractmethod
    def regret(self, xp: Any, lead_NxP: Any, n_actions: int) -> Any:
        """The regret ``[N]`` to the best of them, given the lead of each."""

    @abstractmethod
    def named(self, place: int, n_actions: int) -> Named:
        """Who stands at a place."""

    def __add__(self, other: "Comparators") -> "Comparators":
        both = (*self.kinds(), *other.kinds())
        return Together(tuple(sorted(both, key=lambda part: isinstance(part, References))))  # those come last

    def kinds(self) -> tuple["Comparators", ...]:
        return (self,)

    @property
    def n_contexts(self) -> int:
        return len(self.contexts) or 1


@final
@dataclass(frozen=True)
class Actions(Comparators):
    """Every fixed action; with ``per``, a fixed action for each context.

    Parameters
    ----------
    per
        The names of the contexts, or how many there are; ``advise(context=...)`` says which one a step is in.

    >>> Actions(per=["weekday", "weekend"]).count(n_actions=3)
    6
    """

    are_pure = True
    per: Sequence[str] | int | None = None
    contexts: tuple[str, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        if self.per is not None:
            many = isinstance(self.per, int) and not isinstance(self.per, bool)
            names = range(inputs.whole(self.per, "per")) if many else inputs.names_of(self.per, "per")
            object.__setattr__(self, "contexts", tuple(map(str, names)))
            object.__setattr__(self, "per", self.per if many else self.contexts)

    def count(self, n_actions: int) -> int:
        return self.n_contexts * n_actions

    def awake(self, xp: Any, model_NxA: Any, references_NxQxA: Any, context_N: Any) -> Awake:
        n, A = model_NxA.shape
        plays_NxAxA = unit_rows(xp, model_NxA)[None]
        plays_NxAxA = plays_NxAxA if n == 1 else xp.broadcast_to(plays_NxAxA, (n, A, A))
        if not self.contexts:
            return Awake(plays_NxAxA, None)
        return Awake(plays_NxAxA, context_N[:, None] * A + xp.arange(A))

    def regret(self, xp: Any, lead_NxP: Any, n_actions: int) -> Any:
        by_context = lead_NxP.reshape(lead_NxP.shape[0], self.n_contexts, n_actions)
        return xp.sum(xp.max(by_context, axis=-1), axis=-1)

    def named(self, place: int, n_actions: int) -> Named:
        return Named(place % n_actions, place // n_actions if self.contexts else None)

    def __str__(self) -> str:
        return f"an action for each of {len(self.contexts)} contexts" if self.contexts else "every action"


@final
class References(Comparators):
    """Other forecasters: today's model, the desk, a competitor. Their forecasts are given with each step.

    >>> References("desk", "last year").count(n_actions=3)
    2
    """

    are_pure = True

    def __init__(self, *names: str) -> None:
        self.references = inputs.names_of(names, "References")

    def count(self, n_actions: int) -> int:
        return len(self.references)

    def awake(self, xp: Any, model_NxA: Any, references_NxQxA: Any, context_N: Any) -> Awake:
        return Awake(references_NxQxA, None)

    def regret(self, xp: Any, lead_NxP: Any, n_actions: int) -> Any:
        return xp.max(lead_NxP, axis=-1)

    def named(self, place: int, n_actions: int) -> Named:
        return Named(reference=self.references[place])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, References) and other.references == self.references

    def __hash__(self) -> int:
        return hash(self.references)

    def __repr__(self) -> str:
        return f"References({', '.join(map(repr, self.references))})"

    def __str__(self) -> str:
        return " or ".join(self.references)


@final
@dataclass(frozen=True)
class Together(Comparators):
    """Several kinds side by side, in this order; ``+`` makes it."""

    parts: tuple[Comparators, ...]
    contexts: tuple[str, ...] = field(init=False, repr=False)
    references: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        apart = [part for part in self.parts if part.contexts]
        asked = [name for part in self.parts for name in part.references]
        if len(apart) > 1:
            raise ValueError(f"only one of the comparators may have contexts, got {self.parts}")
        if len(set(asked)) < len(asked):
            raise ValueError(f"references must have different names, got {asked}")
        object.__setattr__(self, "contexts", apart[0].contexts if apart else ())
        object.__setattr__(self, "references", tuple(asked))
        object.__setattr__(self, "are_pure", all(part.are_pure for part in self.parts))

    def count(self, n_actions: int) -> int:
        return sum(part.count(n_actions) for part in self.parts)

    def awake(self, xp: Any, model_NxA: Any, references_NxQxA: Any, context_N: Any) -> Awake:
        plays, places, begin, q = [], [], 0, 0
        for part in self.parts:
            own = references_NxQxA[:, q : q + len(part.references)]
            plays_NxExA, at_NxE = part.awake(xp, model_NxA, own, context_N)
            every_NxE = xp.broadcast_to(xp.arange(plays_NxExA.shape[1]), plays_NxExA.shape[:2])
            plays.append(plays_NxExA)
            places.append(begin + (every_NxE if at_NxE is None else at_NxE))
            begin, q = begin + part.count(model_NxA.shape[1]), q + len(part.references)
        return Awake(xp.concat(plays, axis=1), xp.concat(places, axis=1) if self.contexts else None)

    def regret(self, xp: Any, lead_NxP: Any, n_actions: int) -> Any:
        regrets, begin = [], 0
        for part in self.parts:
            end = begin + part.count(n_actions)
            regrets.append(part.regret(xp, lead_NxP[:, begin:end], n_actions))
            begin = end
        return xp.max(xp.stack(regrets), axis=0)

    def named(self, place: int, n_actions: int) -> Named:
        for part in self.parts:
            if place < part.count(n_actions):
                return part.named(place, n_actions)
            place -= part.count(n_actions)
        raise IndexError(place)

    def kinds(self) -> tuple[Comparators, ...]:
        return self.parts

    def __str__(self) -> str:
        return " or ".join(map(str, self.parts))
