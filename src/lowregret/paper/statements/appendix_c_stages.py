"""Appendix C: the two stages in the proof of Theorem C.4."""

import math
from typing import TYPE_CHECKING

import numpy as np

from ... import certificates
from ...adversaries import all_sequences
from ...policies import Respond
from ...predictors import PolyaUrn, Scheduled
from ...problems import DecisionProblem, matching
from ...regret import external_regret
from ...rules import VRegret
from ...tips import blind_spot
from .appendix_c import laws
from .appendix_c_algorithm import bound_in
from .claims import Finding, at_least, at_most, equals, statement

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@statement(
    "Theorem C.4, Stage I",
    "Until Algorithm 3 switches, best responses have regret at most 2 b(t) + 4 epsilon, in every decision problem.",
    verdict="step",
    quotes=[r"for any bounded proper loss $\ell$, ... \;\le\;2b(\tau;\varepsilon,\delta)+4\varepsilon."],
    corrected="It rests on Lemma C.7, and fails for best responses: what lies between two tips is not seen. Quantal "
    "responses cannot fall so far between two tips, and for them the theorem stands, with the constants above.",
)
def stage_1() -> Finding:
    """Forecasts that alternate around a tip between two of the grid, T = 4096, delta = 1/T^2: no switch ever comes."""
    T = 4096
    p, y, tip = blind_spot(np.arange(T + 1) / T, T)
    rule, bends = VRegret(T, 1 / T**2, test="threshold"), DecisionProblem([[tip, tip - 1], [-tip, 1 - tip]])
    best, warm = (
        external_regret(bends, policy, y)[-1]
        for policy in (bends.best_response(laws(p)), bends.quantal_response(laws(p), T**-0.5))
    )
    allowed = 2 * float(rule.threshold(np.array(float(T)))) / T + 4 / T
    return Finding(
        [
            at_most("quantal responses to the alternating forecasts, T = 4096", warm, bound_in(rule, bends)),
            equals("step of the switch, where T + 1 is never", float(rule.trip_times(laws(p), y)), T + 1, 0),
        ],
        refuted=[at_most("best responses to the alternating forecasts, T = 4096", best, allowed)],
    )


@statement(
    "Theorem C.4, Stage II",
    "From the switch on, the urn's regret on the rest of the sequence is O(ln(A T)/sqrt(T)), as after a switch in "
    "Theorem 3.1.",
    verdict="step",
    quotes=[
        "the smooth best-responding DM is (equivalently) running Hedge locally, hence ... "
        r"\;\le\;O\!\left(\frac{\log(KT)}{\sqrt{T}}\right)."
    ],
    corrected="Not on the rest alone, on which it still remembers what came before. What holds: its regret over the "
    "whole is at most F_T, and at any step s at least -[(s-1) eta ln A + max C - mean C]/s. The proof of Theorem 3.1 "
    "(A.4) goes by the whole, and needs no more; so can this one, and the theorem stands.",
)
def stage_2() -> Finding:
    """Half zeros, then half ones: a model that says 1 with chance .01 leads Algorithm 3 (threshold, epsilon = 1/T,
    delta = 1/T^2) to switch soon after the middle, and the urn goes on to expect zeros. Regret from the switch on, in
    steps of the whole. The repair: forty random games with two states, all sequences of 10, at every step."""
    rest, whole = dict[int, float](), dict[int, float]()
    for T in (1024, 4096):
        tokens, model = np.repeat([0, 1], T // 2), Scheduled([[0.99, 0.01]])
        rule = VRegret(T, 1 / T**2, test="threshold")
        switch = int(rule.trip_times(model.predict_sequence(tokens), tokens))
        policy = Respond(PolyaUrn(2), matching(), T**-0.5).policy_sequence(tokens)
        rest[T] = float(external_regret(matching(), policy[switch:], tokens[switch:])[-1]) * (T - switch) / T
        whole[T] = float(external_regret(matching(), policy, tokens)[-1])
    rng, used, steps = np.random.default_rng(1), [], np.arange(1, 11)
    for _ in range(40):
        problem = DecisionProblem(rng.uniform(-1, 1, (3, 2)))
        regret = external_regret(problem, Respond(PolyaUrn(2), problem, 0.2), all_sequences(2, 10)).min(axis=0)
        C = problem.utility.sum(axis=1)
        used.append((-regret * steps / ((steps - 1) * 0.2 * math.log(3) + C.max() - C.mean())).max())

    def picture(ax: "Axes") -> None:
        t, since = np.arange(1, T + 1), np.arange(1, T - switch + 1)
        ax.plot(t, external_regret(matching(), policy, tokens) * t / T, label="from step 1")
        ax.plot(
            t[switch:],
            external_regret(matching(), policy[switch:], tokens[switch:]) * since / T,
            label="from the switch on",
        )
        ax.set(xlabel="steps", ylabel="regret so far / T")

    return Finding(
        [
            at_most("regret of the whole, T = 4096", whole[4096], certificates.lemma_2_3(matching(), 4096, 1 / 64)),
            at_most("regret below zero / what the lower bound allows, 40 random games: most", max(used), 1),
            at_least(
                "regret from the switch on / T, T = 4096, against T = 1024: it does not fall", rest[4096], rest[1024]
            ),
        ],
        refuted=[
            at_most("regret from the switch on / T, T = 4096, constant 1", rest[4096], math.log(2 * 4096) / 64),
        ],
        picture=picture,
        caption="The urn on 2048 zeros, then 2048 ones.",
    )
