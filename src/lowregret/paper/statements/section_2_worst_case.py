"""Section 2: low-regret models."""

import math
from typing import TYPE_CHECKING

import numpy as np

from ... import certificates
from ...adversaries import exact_worst_case, worst_case_by_counts
from ...predictors import PolyaUrn, Scheduled
from ...problems import matching
from ...rules import FirstTest
from .claims import Finding, at_least, at_most, statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COIN = matching()


@statement(
    "Definition 2.4",
    "A model is low-regret if quantal responses to it at temperature 1/sqrt(T) have regret o(1) on every sequence.",
)
def definition_2_4() -> Finding:
    """Guessing bits, exact worst cases over all sequences by dynamic programming over counts: the urn is low-regret, a
    model that says 1 with chance 1/3 is not, and with the urn behind an exact test its bound falls again. The
    temperature belongs to the definition: at a fixed one, and without any, the urn is not low-regret either."""
    steps = [2**k for k in range(4, 12)]
    third, urn = Scheduled([[2 / 3, 1 / 3]]), PolyaUrn(2)
    warmth = {"1/sqrt(T)": [T**-0.5 for T in steps], "fixed": [0.5] * len(steps), "none": [1e-6] * len(steps)}
    worst = {
        name: [worst_case_by_counts(urn, COIN, T, eta) or math.nan for T, eta in zip(steps, etas, strict=True)]
        for name, etas in warmth.items()
    }
    w_2 = certificates.quantal_loss(2)
    model = [exact_worst_case(third, COIN, T).regret for T in steps]
    bound = [FirstTest(COIN, T).certificate.regret_bound for T in steps]
    rate = np.sqrt(steps) / np.log(steps)
    falls = {name: np.array(values) * rate for name, values in {"urn": worst["1/sqrt(T)"], "test": bound}.items()}
    growth = {name: float((values[1:] / values[:-1]).max()) for name, values in falls.items()}

    def picture(ax: "Axes") -> None:
        ax.loglog(steps, model, label="Ber(1/3)")
        ax.loglog(steps, bound, label="Ber(1/3), exact test: bound")
        ax.loglog(steps, worst["none"], label="urn, best response")
        ax.loglog(steps, worst["fixed"], label="urn, eta = 1/2")
        ax.loglog(steps, worst["1/sqrt(T)"], label="urn, eta = 1/sqrt(T)")
        ax.set_xticks(steps[::2], [str(T) for T in steps[::2]])
        ax.set(xlabel="T", ylabel="worst regret", ylim=(0.012, 1.3))
        ax.legend(loc="lower left", fontsize=7.5)

    return Finding(
        [
            at_most("urn, T = 2048", worst["1/sqrt(T)"][-1], certificates.lemma_2_3(COIN, 2048, 2048**-0.5)),
            at_most("urn, times sqrt(T) / ln T: T to 2T, largest factor", growth["urn"], 1),
            at_most("Ber(1/3) with the exact test, bound times sqrt(T) / ln T: the same", growth["test"], 1),
            at_least("Ber(1/3), every T: least", min(model), 0.5),
            at_least("urn, best responses (ties mixed), every T: least", min(worst["none"]), 0.25),
            at_least("urn, eta = 1/2, every T: least, against w_2 / 2", min(worst["fixed"]), 0.5 * w_2),
        ],
        picture=picture,
        caption="Guessing bits: the worst regret over all sequences of length T.",
    )
