"""Who plays against you (Lemmas 2.2 and 2.3, Theorem 3.1): sequences of states that make a player regret.

``greedy`` picks the worst state step by step, ``beam`` keeps many pasts alive, ``exact_worst_case`` is the truth, or
a bound on it from above, where that can be computed. Each returns a ``Worst`` that says which it was.

A *player* is a predictor, responded to quantally (or exactly: ``respond="best"``), or a policy. Any player can be
searched. Two optional methods, on predictors and policies of your own as on ours, let it be searched faster:

- ``law_of_counts(counts[..., S]) -> [..., S]`` of a predictor, ``policy_of_counts(counts[..., S]) -> [..., A]`` of a
  policy: what it predicts, or plays, after these counts of each state, in whatever order they came (the step is their
  sum). Having one says that it depends on the past through nothing else; then the worst case is exact, by dynamic
  programming over counts. ``PolyaUrn``, ``Scheduled`` and ``Hedge`` have it.
- ``key(memory) -> int[...]`` or ``int[..., k]``: two streams that saw the same counts and have equal keys will act
  alike for ever. Of such streams the search keeps only the one with more regret. ``Markov`` has it. ``Robust`` needs
  none: streams that have switched are told apart as those of the fallback are.
"""

from .counts import worst_case_by_counts
from .exact import all_sequences, exact_worst_case
from .players import Worst
from .search import beam, greedy

__all__ = ["Worst", "all_sequences", "beam", "exact_worst_case", "greedy", "worst_case_by_counts"]
