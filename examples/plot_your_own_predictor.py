"""
Your own predictor
==================

Three functions over a memory make a predictor: ``start``, ``predict`` and ``update``. The checks tell whether yours
keeps the laws that everything else relies on.
"""

# %%
# A predictor that weighs recent tokens more. Its memory is a NamedTuple of arrays led by the batch axes; ``like`` says
# which kind of array to make and where.
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

import lowregret as lr


class Faded(NamedTuple):
    weights: Any  # [..., S]


class Fading(lr.Predictor):
    def __init__(self, n_states: int, keep: float) -> None:
        self.n_states, self.keep = n_states, keep

    def start(self, batch_shape=(), like=None):
        like = np.zeros(()) if like is None else like
        xp = array_namespace(like)
        return Faded(xp.ones((*batch_shape, self.n_states), dtype=xp.float64, device=device(like)))

    def predict(self, memory):
        return memory.weights / memory.weights.sum(-1)[..., None]

    def update(self, memory, token):
        xp = array_namespace(memory.weights)
        token = xp.asarray(token, device=device(memory.weights))
        seen = token[..., None] == xp.arange(self.n_states, device=device(memory.weights))
        return Faded(self.keep * memory.weights + (1 - self.keep) * xp.astype(seen, xp.float64))


# %%
# Does it keep the laws? ``predict_sequence`` comes with the base class.
for law in lr.checks.check_predictor(Fading(3, 0.9)):
    print("kept:", law)


# %%
# A version with a mistake that is easy to make: it updates its memory in place.
class InPlace(Fading):
    def update(self, memory, token):
        memory.weights[...] = super().update(memory, token).weights
        return memory


try:
    lr.checks.check_predictor(InPlace(3, 0.9))
except lr.checks.LawBroken as broken:
    print(broken)

# %%
# The sound one, made safe to act on. It chases the last few tokens, which an adversary can use: greedy play drives its
# regret up, and that of the robust version stays below the certificate.
coin, T = lr.matching(), 1000
chaser = Fading(2, 0.8)
safe = lr.robustify(chaser, coin, horizon=T)
for name, player in (("as it is", chaser), ("robust", safe)):
    worst = lr.evaluate.adversaries.greedy(player, coin, T)
    print(f"{name:9s} regret against greedy play {worst.regret:.3f}")
print(f"certificate: at most {safe.certificate.regret_bound:.3f}")
