"""When an alarm is worst (statement (iv)): the most of B(n) + F(N - n) over n = 0 .. N, without looking at every n.

Neither B nor F falls. So in a block a <= n <= b no sum is above B(b) + F(N - a): a block for which this is not above
the largest sum found so far is left out, every other is halved, down to blocks that have ends only. What is found is
the maximum, the same number that all n would give: rounding keeps what does not fall from falling. Where the sums are
flat over so many n that blocks become too many, the largest of their bounds is given instead, which is never too small.
"""

from collections.abc import Callable

import numpy as np

Bound = Callable[[np.ndarray], np.ndarray]  # by numbers of steps ``[N]``, in total; it never falls

_MOST_BLOCKS = 1 << 17


def worst_alarm(before: Bound, after: Bound, last: int, most_blocks: int = _MOST_BLOCKS) -> tuple[float, float]:
    """The two parts of the largest before(n) + after(last - n), n = 0 .. last.

    >>> import numpy as np
    >>> worst_alarm(np.sqrt, lambda left: 0.5 * np.sqrt(left), 100)
    (8.94427190999916, 2.23606797749979)
    """
    n = np.unique(np.linspace(0, last, 65).astype(np.int64))
    passed, lost = before(n), after(last - n)
    top = int((passed + lost).argmax())
    worst = float(passed[top]), float(lost[top])
    low, high, reach, risk = n[:-1], n[1:], passed[1:], lost[:-1]  # a block's ends, and the two parts of its bound
    while True:
        going = (high - low > 1) & (reach + risk > sum(worst))
        low, high, reach, risk = low[going], high[going], reach[going], risk[going]
        if not len(low):
            return worst
        if len(low) > most_blocks:
            top = int((reach + risk).argmax())
            return float(reach[top]), float(risk[top])
        n = (low + high) // 2
        passed, lost = before(n), after(last - n)
        top = int((passed + lost).argmax())
        worst = max(worst, (float(passed[top]), float(lost[top])), key=sum)
        low, high = np.concatenate([low, n]), np.concatenate([n, high])
        reach, risk = np.concatenate([passed, reach]), np.concatenate([risk, lost])
