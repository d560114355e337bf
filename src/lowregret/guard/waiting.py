"""How close each stream is to a switch: every condition of the alarm, and which of them it waits for."""

from typing import Any

import numpy as np

from ..arrays import to_numpy
from ..rules import Rule, RuleMemory


def waiting_for(rule: Rule, memory: RuleMemory) -> Any:
    """The names of the conditions that are not met, ``[...]``: a str for a single stream, else an array of them.

    "switched" where there is nothing to wait for any more, "never" where nothing is at stake.
    """
    tripped = to_numpy(rule.tripped(memory))
    missing = {
        name: to_numpy(reached) < to_numpy(needed) for name, (reached, needed) in rule.conditions(memory).items()
    }
    words = np.empty(tripped.shape, dtype=object)
    for at in np.ndindex(tripped.shape):
        if tripped[at] or rule.pointless:
            words[at] = "switched" if tripped[at] else "never"
            continue
        # At a tie a rule may ask for more than its threshold.
        words[at] = " and ".join(name for name, short in missing.items() if short[at]) or "evidence"
    return words.item() if tripped.shape == () else words.astype(str)
