"""How many examples Hypothesis draws, from the same seed every time: five times as many in ``make test-all``."""

import os

from hypothesis import Phase, settings

MORE = int(os.environ.get("LOWREGRET_EXAMPLES", "1"))
SEEDED = settings(derandomize=True, deadline=None, database=None, phases=[Phase.generate, Phase.shrink])
few = settings(SEEDED, max_examples=12)
some = settings(SEEDED, max_examples=20 * MORE)
many = settings(SEEDED, max_examples=60 * MORE)
