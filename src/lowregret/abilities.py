"""What a predictor or policy may have beyond its contract: optional, looked up by name, declared here alone.

The contracts (``Predictor``, ``Policy``) say what everyone must do. What is declared here helps where it is true: a
search becomes exact, a certificate gets a number, a check is skipped. Nothing breaks where it is missing.
"""

from typing import Any, Protocol

from .arrays import Array


class Abilities(Protocol):
    """Every optional ability with its signature. Give your class those that are true of it; do not inherit from this.

    >>> print(*sorted(ABILITIES))  # doctest: +NORMALIZE_WHITESPACE
    advance as_module context key law_of_counts laws looks_back of_models policy_of_counts regret_after
    regret_bound shares
    """

    @property
    def context(self) -> int | None:
        """How many tokens it can take in at most. Without it, and for None: any number."""

    @property
    def looks_back(self) -> int:
        """On how many of the last tokens its answer depends. Without it: possibly on all of them."""

    def laws(self, tokens: Array) -> Array:
        """A predictor's ``predict_sequence`` for tokens that were checked before."""

    def advance(self, memory: Any, token: Array) -> Any:
        """A predictor's ``update`` for tokens that were checked before, beside its memory."""

    def law_of_counts(self, counts: Array) -> Array:
        """What a predictor that only counts predicts after so many of each state, ``[..., S] -> [..., S]``.

        Its worst case is then exact, by dynamic programming over counts.
        """

    def policy_of_counts(self, counts: Array) -> Array:
        """What a policy that only counts plays, ``[..., S] -> [..., A]``; else as ``law_of_counts``."""

    def key(self, memory: Any) -> Array:
        """``int[...]`` or ``int[..., k]``: streams with the same counts and equal keys will act alike for ever."""

    def regret_bound(self, problem: Any, horizon: int, temperature: float | None) -> float | None:
        """The most average regret in the first ``horizon`` steps on any sequence: it enters the certificates.

        For a predictor, of quantal responses at ``temperature`` (None: the schedule for an unknown horizon). None where
        nothing is known.
        """

    def regret_after(self, problem: Any, steps: int, temperature: float | None) -> Any:
        """F: the most *total* regret in the last n of ``steps``, as a function of arrays of such n; it must not fall.

        As a fallback it runs from the first step on and is played from the alarm on. F bounds by how much the largest
        lead of a fixed action over what is played may grow from then on, where a lead below zero counts as zero. None
        where nothing is known: the certificate then counts the span for each of these steps, and states it.
        """

    @property
    def as_module(self) -> Any:
        """A predictor as a torch module ``tokens[B, T] -> logits[B, T, S]``; entry t has seen ``tokens[:, :t]``."""

    def shares(self, memory: Any) -> Array:
        """How much of each of the models it is made of there is in what it predicts now, ``[..., N]``."""

    def of_models(self, tv_bound: float) -> str:
        """What a bound on the chance of a switch under its own law says of each of the models it is made of."""


ABILITIES = frozenset(name for name in vars(Abilities) if not name.startswith("_"))


def ability(player: Any, name: str, default: Any = None) -> Any:
    """What ``player`` has under the name of an ability, or the default."""
    assert name in ABILITIES, name  # declare it before it is looked up
    return getattr(player, name, default)


def looks_back(player: Any) -> int | None:
    """On how many of the last tokens its answer depends, if that is known: a ``window`` tells it, too."""
    return ability(player, "looks_back", getattr(player, "window", None))
