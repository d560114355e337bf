"""Section 3: unbounded context, Theorem 3.1."""

import math
from typing import TYPE_CHECKING

import numpy as np

from ...adversaries import all_sequences, exact_worst_case
from ...distances import exact_sequence_tv, sequence_tv
from ...policies import Respond
from ...predictors import PolyaUrn, Scheduled, sample
from ...problems import matching
from ...regret import external_regret
from ...robust import Robust
from ...rules import RegretGap
from ...sources import paper_sources
from ..eight_sources import TITLES
from .claims import Finding, at_least, at_most, equals, statement
from .exhaustive import chances, some_model, some_problem
from .section_3 import PLUS_MINUS, THIRD

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COIN = matching()


@statement(
    "Theorem 3.1, comparator",
    "The proof bounds the lead over Hedge for every fixed action, with a union over all of them: a factor A in the TV.",
    sharper="Both regrets compare with the same action, and it cancels: t (Regret_t - Regret_Hedge,t) is one sum, so "
    "the union over actions and the factor A are not needed.",
)
def the_comparator_cancels() -> Finding:
    """Twenty random games and models, all sequences."""
    rng, apart, spread = np.random.default_rng(0), [], []
    for _ in range(20):
        problem = some_problem(rng)
        S, T = problem.n_states, 9 if problem.n_states == 2 else 6
        tokens = all_sequences(S, T)
        utility_A = problem.utility.T[tokens]
        played = [Respond(p, problem, 0.1).policy_sequence(tokens) for p in (some_model(rng, S), PolyaUrn(S))]
        own, urn = ((policy * utility_A).sum(axis=-1) for policy in played)
        regret, regret_hedge = (external_regret(problem, policy, tokens) for policy in played)
        apart.append(np.abs(np.arange(1, T + 1) * (regret - regret_hedge) - (urn - own).cumsum(axis=-1)).max())
        lead_A = ((utility_A - own[..., None]) - (utility_A - urn[..., None])).cumsum(axis=1)
        spread.append(np.ptp(lead_A, axis=-1).max())
    return Finding(
        [
            equals("t (Regret - Regret_Hedge), against one sum: largest distance", max(apart), 0, 1e-12),
            equals("R_t(a) - R_Hedge,t(a): largest spread over actions", max(spread), 0, 1e-12),
        ]
    )


@statement(
    "Theorem 3.1, regret",
    "Algorithm 1 has regret O( (1/sqrt(T)) ln(A T) + sqrt((1+alpha) ln T) ); in the proof, when it switches the gap is "
    "still below the threshold.",
    corrected="Regret <= Regret_Hedge + eta ln A + sqrt(8 (1+alpha) ln T / T) + J/T. The factor 1/sqrt(T) belongs "
    "before both terms, and the step that crosses the threshold adds one span.",
)
def theorem_3_1_regret() -> Finding:
    """Ten models, all sequences of 12 bits for +1 and -1: the lead over the urn. The model Ber(1/3): a dynamic
    programme that bounds the worst case over all sequences from above, here attained by the sequence behind it,
    against the corrected bound with the urn's exact worst case. The counterexamples: all ones against Ber(1/3)."""
    rng, T, leads = np.random.default_rng(0), 12, []
    rule, tokens = RegretGap(PLUS_MINUS, T, alpha=0.01), all_sequences(2, T)
    urn = external_regret(PLUS_MINUS, Respond(PolyaUrn(2), PLUS_MINUS, rule.temperature), tokens)[:, -1]
    for _ in range(10):
        robust = Robust(some_model(rng, 2), rule)
        leads.append((external_regret(PLUS_MINUS, robust.respond(), tokens)[:, -1] - urn).max())
    passed = sum(value for name, value in rule.certificate.terms.items() if name != "fallback")
    steps = [64, 128, 256, 512, 1024]
    rules = {T: RegretGap(COIN, T) for T in steps}
    worst = {T: exact_worst_case(Robust(THIRD, rules[T]), COIN, T) for T in steps}
    bound = {T: rules[T].certificate.sharpen().regret_bound for T in steps}
    ones = np.ones((1, 1024), dtype=int)
    s = int(Robust(THIRD, rules[1024]).trip_times(ones)[0])
    model, hedge = (external_regret(COIN, Respond(p, COIN, 1 / 32), ones)[0, s - 1] for p in (THIRD, PolyaUrn(2)))

    def picture(ax: "Axes") -> None:
        ax.semilogx(steps, list(bound.values()), label="corrected bound")
        ax.semilogx(steps, [found.upper or math.nan for found in worst.values()], label="exact worst case")
        ax.semilogx(
            steps,
            [external_regret(COIN, Respond(THIRD, COIN, T**-0.5), ones[0, :T])[-1] for T in steps],
            label="the model alone, all ones",
        )
        ax.set_xticks(steps, [str(T) for T in steps])
        ax.set(xlabel="T", ylabel="regret", ylim=(0, 1.05))

    return Finding(
        [
            *(at_most(f"worst regret, T = {T}", worst[T].upper or math.nan, bound[T]) for T in (1024, 512, 128)),
            equals("sequence that attains it, T = 1024", worst[1024].regret, worst[1024].upper or math.nan, 1e-9),
            at_most("lead over the urn, T = 12, ten models", max(leads), passed),
        ],
        refuted=[
            at_most(f"the gap at the switch (step {s}), T = 1024", model - hedge, float(rules[1024].threshold(s)) / s),
            at_most(
                "the printed bound with constants 1, T = 10^6, against the trivial one",
                math.log(2e6) / 1e3 + math.sqrt(2 * math.log(1e6)),
                COIN.span,
            ),
        ],
        picture=picture,
        caption="Guessing bits with Ber(1/3) as the model, over all sequences of length T (alpha = 1).",
    )


@statement(
    "Theorem 3.1, TV",
    "The robust distribution is within A T^-alpha of the model's own.",
    sharper="T^-alpha, without the factor A.",
)
def theorem_3_1_tv() -> Finding:
    """Four coins and twenty Markov models, all sequences of 12 bits for +1 and -1, three alphas: the distance itself,
    and the chance of a switch. The paper's own distribution at T = 1024, alpha = 1: 8,000 sequences, the upper end of
    a 95% interval."""
    rng, T, tokens = np.random.default_rng(0), 12, all_sequences(2, 12)
    used, over = [], []
    coins = [Scheduled([[1 - p, p]]) for p in (0.1, 0.3, 0.45, 0.49)]
    for model in (*coins, *(some_model(rng, 2) for _ in range(20))):
        chance = chances(model, tokens)[:, -1]
        for alpha in (0.01, 0.1, 0.3):
            robust = Robust(model, RegretGap(PLUS_MINUS, T, alpha))
            tv, switch = exact_sequence_tv(model, robust, T), chance[robust.trip_times(tokens) < T].sum()
            used.append(tv / T**-alpha)
            over.append(tv - switch)
    model = paper_sources(1024)["b"]
    estimate = sequence_tv(model, Robust(model, RegretGap(COIN, 1024)), 1024, 8000, seed=0)
    return Finding(
        [
            at_most("TV / T^-alpha, T = 12, 24 models: largest", max(used), 1),
            at_most("TV less the chance of a switch: largest", max(over), 0),
            at_most("TV at T = 1024, sampled: upper end", estimate.high, 1 / 1024),
        ]
    )


@statement(
    "Theorem 3.1, at T = 1024",
    "The experiments (T = 1024) show the switching policy of Algorithm 1.",
    corrected="With the printed threshold and alpha = 1 it fires on one of the seven other sources, and makes that one "
    "worse: the threshold on the gap never falls below .3509. The experiments use another rule.",
)
def theorem_3_1_at_1024() -> Finding:
    """The threshold at the last step that still changes a prediction; 1000 sequences from each of the sources that
    the model (source b) does not expect."""
    T, n = 1024, 1000
    rule, sources = RegretGap(COIN, T), paper_sources(T)
    model, steps = sources["b"], np.arange(1, T, dtype=float)
    fires, gaps, worse = [], {}, math.nan
    for name in (source for source in sources if source != "b"):
        tokens = sample(sources[name], T, n, seed=1)
        regret, hedge, robust = (
            external_regret(COIN, Respond(p, COIN, 1 / 32), tokens) for p in (model, PolyaUrn(2), Robust(model, rule))
        )
        gaps[name] = (regret - hedge).mean(axis=0)[:-1]
        if (rule.trip_times(model.predict_sequence(tokens), tokens) < T).mean() > 0.5:
            fires.append(name)
            extra = (robust - regret)[:, -1]
            worse = extra.mean() - 4 * extra.std() / math.sqrt(n)

    def picture(ax: "Axes") -> None:
        ax.plot(steps, rule.threshold(steps) / steps, color="#555555", linestyle="--", label="threshold")
        for name in ("a", "c", "sin2", "sin5"):
            ax.plot(steps, gaps[name], label=TITLES[name])
        ax.set(xlabel="steps", ylabel="gap to the urn's regret", ylim=(-0.2, 1.2))

    return Finding(
        [
            equals("lowest threshold", (rule.threshold(steps) / steps).min(), 0.3509, 5e-5),
            equals("sources on which it fires", len(fires), 1, 0),
            at_least("regret that it adds there, less 4 standard errors", worse, 0),
        ],
        refuted=[equals("sources on which it fires, of the 7 out of distribution", len(fires), 7, 0)],
        picture=picture,
        caption="Mean gap between the model's regret and the urn's, against the printed threshold.",
    )
