"""What a rule that is told more makes of it: the scene of a step, in full precision."""

from typing import Any

from ..arrays import Array, detached, in_float64, namespace
from ..problems import Scene, response_at
from .moment import Known


def scene_of(probs: Array, utility: Array, known: Known, warmth: Any, references: int) -> Scene:
    """All that is known of a step. Laws of references become quantal responses; who said nothing plays as the base."""
    probs = in_float64(detached(probs))
    laws = None if known.laws_NxS is None else in_float64(detached(known.laws_NxS))
    xp, base, plays = namespace(probs), response_at(utility, probs, warmth), known.references_NxA
    if references and plays is None:
        if laws is None:  # they sit out
            plays = xp.broadcast_to(base[..., None, :], (*base.shape[:-1], references, base.shape[-1]))
        else:
            each = utility if utility.ndim == 2 else utility[..., None, :, :]
            plays = response_at(each, laws, warmth if isinstance(warmth, float) else warmth[..., None])
    return Scene(probs, base, utility, known.scale, plays, laws, known.context, warmth)
