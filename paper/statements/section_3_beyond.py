"""Beyond Section 3: the exact test in its simplest form."""

from typing import TYPE_CHECKING

import numpy as np

from lowregret import plots
from lowregret.adversaries import all_sequences, beam, greedy
from lowregret.distances import bounded_mean, exact_sequence_tv
from lowregret.policies import Respond
from lowregret.predictors import PolyaUrn, sample
from lowregret.problems import matching
from lowregret.regret import external_regret
from lowregret.robust import Robust
from lowregret.rules import FirstTest, RegretGap
from lowregret.sources import paper_sources

from ..eight_sources import TITLES
from .claims import Finding, at_most, equals, statement
from .exhaustive import chances, some_model, some_problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COIN = matching()


@statement(
    "Exact test, martingale",
    "Beyond the paper: under the model's own law the evidence E_t is a martingale from 1, so it ever reaches 1/delta "
    "with chance at most delta (Ville): TV <= delta.",
    verdict="beyond",
)
def the_evidence_is_a_martingale() -> Finding:
    """Twenty random games and models, all sequences: the mean of E_t at every t, the chance of an alarm for four
    deltas, the distance itself. The paper's own distribution at T = 1024, delta = 2/T: 10,000 sequences."""
    rng, off, used, over = np.random.default_rng(0), [], [], []
    for _ in range(20):
        problem = some_problem(rng, 3)
        S, T = problem.n_states, 11 if problem.n_states == 2 else 7
        model, tokens = some_model(rng, S), all_sequences(S, T)
        probs, chance = model.predict_sequence(tokens), chances(model, tokens)
        rule = FirstTest(problem, T, delta=0.1, gate=0)
        memory = rule.start((len(tokens),))
        for t in range(T):
            memory = rule.update(memory, probs[:, t], tokens[:, t])
            # Every prefix of t + 1 tokens stands there once for each of its continuations.
            mean = np.exp(rule.evidence(memory)[0]) @ chance[:, t] / S ** (T - 1 - t)
            off.append(abs(mean - 1))
        for delta in (0.02, 0.1, 0.3, 0.6):
            rule = FirstTest(problem, T, delta=delta, gate=0)
            switch = chance[rule.trip_times(probs, tokens) <= T, -1].sum()
            used.append(switch / delta)
            over.append(exact_sequence_tv(model, Robust(model, rule), T) - switch)
    T, n = 1024, 10_000
    sources, rule = paper_sources(T), FirstTest(COIN, T, delta=2 / T, gate=0)
    own = sources["b"]
    tokens = sample(own, T, n, seed=1)
    seen = bounded_mean(rule.trip_times(own.predict_sequence(tokens), tokens) < T, 0, 1)

    def picture(ax: "Axes") -> None:
        shown = {name: sample(sources[name], T, 1, seed=2)[0] for name in ("b", "c", "d", "sin10")}
        plots.evidence(Robust(own, rule), np.stack(list(shown.values())), ax=ax, names=[TITLES[k] for k in shown])

    return Finding(
        [
            equals("mean of E_t under the model, against 1: largest distance", max(off), 0, 1e-9),
            at_most("chance of an alarm / delta, all sequences: largest", max(used), 1),
            at_most("TV less the chance of an alarm: largest", max(over), 0),
            at_most("chance of a switch at T = 1024, sampled: upper end", seen.high, 2 / T),
        ],
        picture=picture,
        caption="Log evidence on one sequence from the model's own source, b, and from three others. A dot: a switch.",
    )


@statement(
    "Exact test, regret",
    "Beyond the paper: Regret <= F_T + (max{B(T-1), kappa J sqrt(T-1)} + J) / T on every sequence; .1259 at T = 1024 "
    "for guessing bits with delta = 2/T, where Theorem 3.1 gives .3988.",
    verdict="beyond",
)
def the_exact_test_certifies_regret() -> Finding:
    """Guessing bits, the model of source b: the sequences that a greedy adversary and a beam of 256 find. Thirty random
    games and models, all sequences: regret, and the lead over the urn."""
    rng, used, lead = np.random.default_rng(0), [], []
    for _ in range(30):
        problem = some_problem(rng)
        S, T = problem.n_states, 11 if problem.n_states == 2 else 7
        tokens = all_sequences(S, T)
        rule = FirstTest(problem, T, delta=float(rng.choice([0.3, 0.9])), gate=float(rng.choice([0, 0.5])))
        regret = external_regret(problem, Robust(some_model(rng, S), rule).respond(), tokens)[:, -1]
        urn = external_regret(problem, Respond(PolyaUrn(S), problem, rule.temperature), tokens)[:, -1]
        sharp = rule.certificate.sharpen()
        used.append(regret.max() / sharp.regret_bound)
        lead.append((regret - urn).max() / sum(v for name, v in sharp.terms.items() if name != "fallback"))
    steps = [64, 128, 256, 512, 1024]
    rules = {T: FirstTest(COIN, T, delta=2 / T, gate=0) for T in steps}
    players = {T: Robust(paper_sources(T)["b"], rules[T]) for T in steps}
    found = {T: max(beam(players[T], COIN, T).regret, greedy(players[T], COIN, T).regret) for T in steps}
    sharp_bound = {T: rules[T].certificate.sharpen().regret_bound for T in steps}

    def picture(ax: "Axes") -> None:
        ax.semilogx(steps, [RegretGap(COIN, T).certificate.sharpen().regret_bound for T in steps], label="Theorem 3.1")
        ax.semilogx(steps, list(sharp_bound.values()), label="exact test, bound")
        ax.semilogx(steps, list(found.values()), label="exact test, worst found")
        ax.set_xticks(steps, [str(T) for T in steps])
        ax.set(xlabel="T", ylabel="regret", ylim=(0, None))

    return Finding(
        [
            *(at_most(f"regret found, T = {T}", found[T], sharp_bound[T]) for T in (1024, 512, 128)),
            at_most("regret / bound, 30 random games, all sequences", max(used), 1),
            at_most("lead over the urn / bound, 30 random games", max(lead), 1),
            equals("the bound, T = 1024", rules[1024].certificate.regret_bound, 0.1259, 5e-5),
            equals("the bound with the urn's exact worst case, T = 1024", sharp_bound[1024], 0.1172, 5e-5),
            equals("Theorem 3.1's, T = 1024", RegretGap(COIN, 1024).certificate.regret_bound, 0.3988, 5e-5),
        ],
        picture=picture,
        caption="Guessing bits: what is promised on every sequence of length T, and what an adversary found.",
    )
