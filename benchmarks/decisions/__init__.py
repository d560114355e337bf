"""A benchmark of guards, scored in payoff: what acting on a forecast earned, with each monitor and without.

``python -m benchmarks.decisions`` plays every entrant (``entrants``, one file each kind) on every cell: a stream
(``streams``: forecasts, what came, what is at stake) under a regime (``regimes``: how it breaks, or does not).
"""
