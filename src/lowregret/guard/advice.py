"""What a guard says of a step: what to play, and what stands behind it."""

from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import Array, astype, last, namespace, to_numpy
from ..problems import DecisionProblem, with_first
from ..rules import Rule, RuleMemory
from .memory import Due


class Advice:
    """What ``advise`` gives; arrays of the kind that the forecast was given in, led by the batch axes.

    >>> from lowregret import Guard, matching
    >>> advice = Guard(matching(), horizon=100).advise([0.9, 0.1])
    >>> advice.policy.round(3).tolist(), advice.action, advice.trusted, advice.share
    ([1.0, 0.0], 0, True, 1.0)
    """

    def __init__(self, rule: Rule, memory: RuleMemory, due: Due) -> None:
        self._rule, self._memory, self._due = rule, memory, due

    @cached_property
    def policy(self) -> Array:
        """The mixed action ``[..., A]`` to play: what the certificate speaks of."""
        acts_in(self._rule, "policy")
        mixed = mixed_of(self._rule, self._memory, self._due)
        return mixed if self._rule.of_numbers else astype(mixed, self._due.forecast.dtype)

    @property
    def action(self) -> Array:
        """The likeliest action of it, as its position; the first of those that are."""
        chosen = namespace(self.policy).argmax(self.policy, axis=-1)
        return int(chosen) if chosen.ndim == 0 else chosen

    @cached_property
    def law(self) -> Any:
        """The law ``[..., S]`` that is gone by; of numbers, the forecast itself.

        Where a policy is played after a switch (safe play, Hedge) it responds to no law: for information only, this is
        then the mixture's, or the model's own.
        """
        rule, due = self._rule, self._due
        return rule.each.law(rule.of(self._memory, (due.step - 1) % rule.lag), due.forecast, due.known)

    @cached_property
    def trusted(self) -> bool | np.ndarray:
        """Whether the model is played as it is, or has returned after a switch, ``[...]``."""
        found = to_numpy(self._rule.trusted(self._memory))
        return bool(found) if found.ndim == 0 else found

    @cached_property
    def share(self) -> Array:
        """How much of what is played is the model's, ``[...]``: all of it until a switch."""
        return plain(self._rule.share(self._memory))

    def __repr__(self) -> str:
        if self._rule.problem is None or np.ndim(self.share):
            return f"Advice(step {self._due.step})"
        mixed = ", ".join(f"{chance:.3g}" for chance in to_numpy(self.policy))
        return f"Advice(step {self._due.step}: policy [{mixed}], share of the model {self.share:.3g})"


def mixed_of(rule: Rule, memory: RuleMemory, due: Due, tripped: bool = True) -> Array:
    """The mixed action ``[..., A]`` in force at a step; ``tripped``: that any stream has."""
    return last(with_first(answer_of(rule, memory, due, tripped)))


def answer_of(rule: Rule, memory: RuleMemory, due: Due, tripped: bool = True) -> Array:
    """The answer in force: the mixed action's chances of every action but the first (or the forecast itself)."""
    if not tripped:
        return due.moment.base_A1
    return rule.each.answer(rule.of(memory, (due.step - 1) % rule.lag), due.moment)


def plain(found: Array) -> Array:
    """Of a single stream a float."""
    return float(found) if found.ndim == 0 else found


def acts_in(rule: Rule, what: str) -> DecisionProblem:
    """The problem, for what cannot be done without one."""
    problem = rule.problem
    if problem is None:
        raise ValueError(
            f"{what} needs a decision problem, and this guard was made for none in particular: whoever acts does "
            "so on advise(probs).law; Guard(problem, horizon) acts itself"
        )
    return problem
