"""Matches against what can be computed by hand: every history of two rounds, payoffs one by one, best responses."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

import lowregret as lr
from lowregret.games import Fixed, Guarded, Nemesis, Plain, Player
from lowregret.games.contract import sides_of
from lowregret.games.playing import _drawn, kept
from lowregret.predictors import draw

from ..table_talk import Follows, Says, after_the_others, in_turn

RPS = lr.rock_paper_scissors()
UNEVEN = lr.DecisionProblem.from_payoffs([[3, -1, 0], [0, 2, -4]], actions=["up", "down"], states=["l", "m", "r"])


def twice(one: Player, other: Player, problem: lr.DecisionProblem) -> dict[tuple[int, ...], float]:
    """The chance of every history (own, other, own, other) of two rounds, by going through all of them."""
    sides, found = sides_of(problem), {}
    for a, b in itertools.product(range(problem.n_actions), range(problem.n_states)):
        seats = [who.sit(sides[i], 2, np.random.default_rng(0), i) for i, who in enumerate((one, other))]
        before = seats[0].policy()[a] * seats[1].policy()[b]
        seats[0].observe(a, b)
        seats[1].observe(b, a)
        for c, d in itertools.product(range(problem.n_actions), range(problem.n_states)):
            found[a, b, c, d] = before * seats[0].policy()[c] * seats[1].policy()[d]
    return found


def test_every_history_of_two_rounds_comes_as_often_as_it_should() -> None:
    problem = UNEVEN
    one, other = Plain(Follows(), temperature=0.8), Plain(lr.PolyaUrn(problem.n_actions), temperature=0.5)
    chances = twice(one, other, problem)
    assert math.fsum(chances.values()) == pytest.approx(1)
    payoffs = np.asarray(problem.in_payoffs(problem.utility))
    n, seen = 1000, dict.fromkeys(chances, 0)
    earned, rng = 0.0, np.random.default_rng(1)
    for _ in range(n):
        match = lr.games.play(problem, (one, other), 2, rng)
        (a, c), (b, d) = (moves.tolist() for moves in match.moves)
        seen[a, b, c, d] += 1
        assert match.totals[0] == pytest.approx(payoffs[a, b] + payoffs[c, d])
        assert match.totals[1] == pytest.approx(-match.totals[0])
        earned += float(match.expected[0].sum())
    level = 1e-5 / len(chances)  # all of them together: one false alarm in 100,000 seeds
    for history, chance in chances.items():
        assert binom.ppf(level / 2, n, chance) <= seen[history] <= binom.isf(level / 2, n, chance), history
    exact = math.fsum(p * (payoffs[a, b] + payoffs[c, d]) for (a, b, c, d), p in chances.items())
    width = 2 * (payoffs.max() - payoffs.min())
    assert abs(earned / n - exact) <= width * math.sqrt(math.log(2e5) / (2 * n))  # Hoeffding, the same level


def test_a_match_is_its_seed() -> None:
    players = Plain(Follows()), Plain(lr.PolyaUrn(3))
    one, again, another = (lr.games.play(RPS, players, 50, seed) for seed in (3, 3, 4))
    generator = lr.games.play(RPS, players, 50, np.random.default_rng(3))
    for match in (again, generator):
        assert all(np.array_equal(one.moves[i], match.moves[i]) for i in (0, 1))
        assert all(np.array_equal(one.mixed[i], match.mixed[i]) for i in (0, 1))
    assert not np.array_equal(one.moves[0], another.moves[0])
    longer = lr.games.play(RPS, (Fixed([0.2, 0.3, 0.5]), Fixed([0.3, 0.3, 0.4])), 80, 3)
    shorter = lr.games.play(RPS, (Fixed([0.2, 0.3, 0.5]), Fixed([0.3, 0.3, 0.4])), 50, 3)
    assert np.array_equal(longer.moves[1][:50], shorter.moves[1])


def test_seats_are_alike_where_the_game_is() -> None:
    """Players who draw nothing: with the seats changed the match is the same from the other side."""
    one, other = Says(after_the_others, "follower"), Says(in_turn, "turner")
    here, there = lr.games.play(RPS, (one, other), 40, 0), lr.games.play(RPS, (other, one), 40, 0)
    for i in (0, 1):
        assert np.array_equal(here.moves[i], there.moves[1 - i])
        assert here.totals[i] == there.totals[1 - i]
        assert here.regret[i] == there.regret[1 - i]
    turns, last = (0, 1, 1, 2), 0
    total = 0
    for t in range(40):  # the match by hand
        mine = (turns[(t - 1) % 4] + 1) % 3 if t else 0
        last = turns[t % 4]
        total += {0: 0, 1: 1, 2: -1}[(mine - last) % 3]
    assert here.totals == (total, -total)


def test_a_pair_of_problems_need_not_sum_to_zero() -> None:
    row = lr.DecisionProblem.from_payoffs([[3, 0], [5, 1]])
    column = lr.DecisionProblem.from_payoffs([[3, 0], [5, 1]], actions=["c", "d"])
    match = lr.games.play((row, column), (Fixed([0.5, 0.5]), Fixed([0.2, 0.8])), 200, 0)
    own, other = match.moves
    table = {(0, 0): (3, 3), (0, 1): (0, 5), (1, 0): (5, 0), (1, 1): (1, 1)}
    both = [table[a, b] for a, b in zip(own.tolist(), other.tolist(), strict=True)]
    assert match.totals == pytest.approx(tuple(map(sum, zip(*both, strict=True))))
    with pytest.raises(ValueError, match=r"problem: the actions of each side.* 2 actions x 3 states"):
        lr.games.play((UNEVEN, column), (Fixed([1, 0]), Fixed([1, 0])), 2, 0)
    with pytest.raises(ValueError, match="a pair of them"):
        lr.games.play((row, column, row), (Fixed([1, 0]), Fixed([1, 0])), 2, 0)


def test_the_other_side_has_minus_the_payoffs_in_the_same_units() -> None:
    row, column = sides_of(UNEVEN)
    assert np.allclose(column.in_payoffs(column.utility), -np.asarray(row.in_payoffs(row.utility)).T)
    assert (column.actions, column.states) == (row.states, row.actions)
    assert column.regret_in_payoffs(1.0) == row.regret_in_payoffs(1.0)
    assert sides_of(RPS)[1] == RPS
    flat = lr.DecisionProblem.from_payoffs([[2, 2]])
    assert sides_of(flat)[1].in_payoffs(0.0) == -2


def test_expected_payoffs_and_regret_are_of_the_mixed_actions() -> None:
    match = lr.games.play(UNEVEN, (Plain(Follows()), Plain(lr.PolyaUrn(2))), 60, 5)
    for i in (0, 1):
        side, gained, fixed = match.problems[i], 0.0, np.zeros(match.problems[i].n_actions)
        payoffs = np.asarray(side.in_payoffs(side.utility))
        for t in range(60):
            s = match.moves[1 - i][t]
            by_hand = sum(match.mixed[i][t][a] * payoffs[a, s] for a in range(side.n_actions))
            assert match.expected[i][t] == pytest.approx(by_hand)
            gained += by_hand
            fixed += payoffs[:, s]
        assert side.regret_in_payoffs(match.regret[i]) == pytest.approx((fixed.max() - gained) / 60)
    with pytest.raises(ValueError, match="read-only"):
        match.moves[0][0] = 1


@pytest.mark.parametrize("seat", [0, 1])
def test_the_nemesis_answers_best(seat: int) -> None:
    us = Plain(Follows(), temperature=0.3)
    match = lr.games.play(UNEVEN, (us, Nemesis()) if seat == 1 else (Nemesis(), us), 30, 0)
    side = match.problems[seat]
    for t in range(30):
        earned = [float(side.utility[a] @ match.mixed[1 - seat][t]) for a in range(side.n_actions)]
        assert earned[match.moves[seat][t]] == pytest.approx(max(earned))
    with pytest.raises(ValueError, match="nemesis and nemesis both see through"):
        lr.games.play(RPS, (Nemesis(), Nemesis()), 3, 0)


def test_a_guard_keeps_its_promise_and_the_match_has_its_account() -> None:
    wrong = lr.predictors.Scheduled([[0.8, 0.1, 0.1]])
    player = Guarded(wrong, name="careful")
    match = lr.games.play(RPS, (player, Fixed([0.1, 0.1, 0.8], "scissory")), 300, 0)
    assert match.held == (True, None)
    assert match.events[0][0].rule == "ExactTest"
    guard = lr.Guard(RPS, 300, rule=lr.ExactTest(RPS, 300))
    for mixed, own, other in zip(match.mixed[0], *match.moves, strict=True):
        guard.advise([0.8, 0.1, 0.1])
        assert np.array_equal(guard.policy(), mixed)
        guard.observe(lr.problems.Positions(int(other)), action=int(own))
    assert tuple(guard.events) == match.events[0]
    assert float(guard.regret) == pytest.approx(match.regret[0])
    assert guard.certificate.regret_bound == match.certificates[0].regret_bound
    plain = lr.games.play(RPS, (Plain(wrong), Fixed([0.1, 0.1, 0.8])), 300, 0)
    assert plain.regret[0] > match.certificates[0].regret_bound  # what the guard saved it from


def test_a_promise_that_is_broken_is_seen() -> None:
    """A rule that cannot fire, with a certificate of nearly nothing: ``held`` must say so."""

    class Boasts(lr.rules.RegretRate):
        @property
        def certificate(self) -> lr.Certificate:
            import dataclasses

            return dataclasses.replace(super().certificate, regret_bound=0.001)

    player = Guarded(
        lr.predictors.Scheduled([[0.8, 0.1, 0.1]]), rule=lambda problem, rounds: Boasts(problem, rounds, alpha=100.0)
    )
    assert lr.games.play(RPS, (player, Fixed([0.1, 0.1, 0.8])), 100, 0).held == (False, None)


def test_a_promise_of_payoff_counts_too() -> None:
    coins = lr.DecisionProblem.from_payoffs([[0, 4], [4, 0]])
    guard = lr.Guard(coins, 10_000, temperature=0.01, fallback=lr.predictors.SecurityLaw(coins, horizon=10_000))
    promised = guard.certificate
    assert promised.payoff_bound is not None
    least = float(coins.in_payoffs(promised.payoff_bound))
    assert kept(promised, 0.0, coins, np.array([least, least]))
    assert not kept(promised, 0.0, coins, np.array([least, least - 0.01]))
    assert not kept(promised, promised.regret_bound + 0.01, coins, np.array([4.0]))


def test_rules_and_fallbacks_may_be_recipes() -> None:
    match = lr.games.play(
        RPS,
        (
            Guarded(lr.PolyaUrn(3), rule=lr.rules.RegretGap),
            Guarded(Follows(), fallback=lambda p, n: lr.predictors.SecurityLaw(p, horizon=n)),
        ),
        40,
        0,
    )
    assert match.certificates[0] is not None
    assert match.certificates[0].theorem.startswith("Theorem 3.1")
    assert match.held == (True, True)
    for fallback in (lr.PolyaUrn(3), lr.Recovery()):
        assert lr.games.play(RPS, (Guarded(Follows(), fallback=fallback), Fixed([1, 0, 0])), 20, 0).held[0]


@pytest.mark.parametrize(
    "player",
    [Plain(Follows()), Plain(lr.PolyaUrn(3)), Guarded(Follows()), Fixed([0.2, 0.3, 0.5]), Nemesis()],
    ids=lambda p: p.name,
)
def test_to_ask_twice_changes_nothing(player: Player) -> None:
    seats = [player.sit(RPS, 12, np.random.default_rng(0), 0) for _ in range(2)]
    for t in range(12):
        for _ in range(3):
            said = seats[0].policy()
        assert np.array_equal(said, seats[1].policy())
        for seat in seats:
            seat.observe(t % 3, t * t % 3)


def test_moves_are_drawn_as_tokens_are() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        law = rng.dirichlet([0.3] * 4) * (rng.random(4) > 0.4)
        if law.sum() > 0:
            law = law / law.sum()
            u = rng.random()
            assert _drawn(law.tolist(), u) == int(draw(law, np.asarray(u)))
            assert law[_drawn(law.tolist(), np.nextafter(1, 0))] > 0
            assert law[_drawn(law.tolist(), 0.0)] > 0


@pytest.mark.parametrize(
    ("players", "words"),
    [
        ((lr.PolyaUrn(3), Nemesis()), r"players\[0\] must be a Player, got PolyaUrn.*lr.games.Plain"),
        ((Nemesis(), Nemesis), r"players\[1\] must be a Player"),
        ((Nemesis(),), "players must be two"),
        ("ab", "players must be two"),
        ((Fixed([1, 0]), Nemesis()), "fixed mixes 2 actions, and in seat 0 there are 3"),
        ((Plain(lr.PolyaUrn(2)), Nemesis()), "PolyaUrn predicts 2 states, the problem has 3"),
        ((Says(lambda *_: np.ones(2) / 2, "short"), Fixed([1, 0, 0])), "the mixed action of short must have"),
        ((Fixed([1, 0, 0]), Says(lambda *_: np.ones(3), "heavy")), "the mixed action of heavy must sum to one"),
    ],
)
def test_who_cannot_play_is_refused_by_name(players: tuple, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        lr.games.play(RPS, players, 3, 0)


def test_settings_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="rounds"):
        lr.games.play(RPS, (Nemesis(), Fixed([1, 0, 0])), 0, 0)
    with pytest.raises(ValueError, match="model must be a Predictor"):
        Plain(3)
    with pytest.raises(ValueError, match="model"):
        Guarded(lr.PolyaUrn)
    with pytest.raises(ValueError, match="temperature"):
        Plain(lr.PolyaUrn(3), temperature=0)
    with pytest.raises(ValueError, match="name must be some text"):
        Plain(lr.PolyaUrn(3), name=" ")
    with pytest.raises(ValueError, match="mixed_A must sum to one"):
        Fixed([0.5, 0.6])
    with pytest.raises(ValueError, match="mixed_A must be one mixed action"):
        Fixed([[0.5, 0.5]])
