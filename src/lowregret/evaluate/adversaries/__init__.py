"""Who plays against you (Lemmas 2.2 and 2.3, Theorem 3.1): sequences of states that make a player regret.

``greedy`` picks the worst state step by step, ``beam`` keeps many pasts alive, ``exact_worst_case`` is the truth where
that can be computed. Each returns a ``Worst`` that says which it was.

A *player* is a predictor, responded to quantally (or exactly: ``respond="best"``), or a policy. Any player can be
searched. Three optional abilities, of predictors and policies of your own as of ours, let it be searched faster:
``law_of_counts`` of a predictor and ``policy_of_counts`` of a policy make the worst case exact, by dynamic programming
over counts (``PolyaUrn``, ``Scheduled`` and ``Hedge`` have one), and streams with equal ``key`` are searched once
(``Markov`` has it; ``Robust`` needs none: streams that have switched are told apart as those of the fallback are).
``lowregret.abilities`` says what each promises.
"""

from ..sources import all_sequences
from .exact import exact_worst_case
from .search import Worst, beam, greedy

__all__ = ["Worst", "all_sequences", "beam", "exact_worst_case", "greedy"]
