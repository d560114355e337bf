"""The way back of a guard for several problems: a plain loop, every sequence, adversaries, and what it earns."""

import json
import math
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret import adversaries
from lowregret.checks.rules import Guarded
from lowregret.rules import JointTest

from .. import literal_engine as literal
from ..conftest import random_markov, sweep
from ..rules.test_joint import by_hand, prefix_laws

PROTECT = lr.cost_loss(cost=1, loss=4)
WALK = lr.DecisionProblem.from_payoffs([[3, -2], [1, 1], [0, 2]], actions=["walk", "bus", "stay"])
PROBLEMS = {"protect": PROTECT, "walk": WALK, "dull": lr.DecisionProblem([[0.3, -0.2]] * 2)}
T = 600
EAGER = lr.Recovery(memories=(3, 9), share=0.02, budget=0.08)  # its budget is spent, and won back, within a few steps


def breaks_and_comes_back(seed: int, steps: int = T) -> tuple[np.ndarray, np.ndarray]:
    """A model that is right but for a quarter of the time, in which it says the opposite of what comes."""
    rng = np.random.default_rng(seed)
    laws = np.where(rng.random(steps)[:, None] < 0.5, [0.9, 0.1], [0.3, 0.7])
    wrong = (np.arange(steps) >= steps // 6) & (np.arange(steps) < steps * 5 // 12)
    event = np.where(wrong, laws[:, 0], laws[:, 1])
    return laws, (rng.random(steps) < event).astype(int)


def run(guard: lr.Guard, laws: np.ndarray, came: np.ndarray, begin: int = 0, end: int | None = None) -> list[Any]:
    played = []
    for law, state in zip(laws[begin:end], came[begin:end].tolist(), strict=True):
        played.append(guard.advise(law).policies)
        guard.observe(["calm", "event"][state])
    return played


class Alone:
    """One problem after the alarm, in plain loops: the literal mixture, its budget and its safe play."""

    def __init__(self, problem: lr.DecisionProblem, horizon: int | None, recipe: lr.Recovery) -> None:
        rates = np.ones(1)
        made = problem.n_actions, problem.n_states, problem.span, horizon, 0.1, rates, 1, 0, 0, 1, False, "Recovery"
        own = {name: getattr(recipe, name) for name in ("memories", "share", "budget")}
        self.problem, self.back = problem, literal.Mixture(literal.Settings(*made, temperature=0.0, **own))

    def step(self, law: np.ndarray, state: int, late: bool, step: int) -> np.ndarray:
        """What is played in it."""
        now = SimpleNamespace(plays=[], late=late, step=step, paid=self.problem.utility[:, state])
        now.told = SimpleNamespace(forecast=law, references=None, acting=False, outcome=state)
        now.told.utility = lambda at: self.problem.utility[:, at]
        now.respond = lambda law: literal.best_of(self.problem.utility @ law)
        now.base = now.respond(law)
        mixed = self.back.play(now) if late else now.base
        self.back.see(now, mixed)
        if late and self.problem.span == 0:
            self.back.is_safe = False  # nothing can be lost
        return mixed


@pytest.mark.parametrize("recipe", [lr.Recovery(), EAGER], ids=["usual", "eager"])
@pytest.mark.parametrize("horizon", [T, None])
@pytest.mark.parametrize("seed", sweep(range(8), 2))
def test_each_problem_plays_what_a_plain_loop_plays(seed: int, horizon: int | None, recipe: lr.Recovery) -> None:
    laws, came = breaks_and_comes_back(seed, 300)
    guard = lr.Guard(problems=PROBLEMS, horizon=horizon, fallback=recipe)  # type: ignore[arg-type]
    loops = {name: Alone(problem, horizon, recipe) for name, problem in PROBLEMS.items()}
    alarm, _ = by_hand(guard.rule, laws, came)  # type: ignore[arg-type]
    trusted, told, was_safe, lead = dict.fromkeys(PROBLEMS, False), [], set(), {name: 0.0 for name in PROBLEMS}
    for t in range(1, 301):
        advice = guard.advise(laws[t - 1])
        policies = advice.policies
        assert advice.trusted == (t <= alarm or all(trusted.values()))
        guard.observe(["calm", "event"][came[t - 1]])
        for name, loop in loops.items():
            mixed = loop.step(laws[t - 1], int(came[t - 1]), t > alarm, t)
            np.testing.assert_allclose(policies[name], mixed, atol=1e-9)
            paid_A = loop.problem.utility[:, came[t - 1]]
            lead[name] = lead[name] + paid_A - mixed @ paid_A
            was_safe |= {name} if loop.back.is_safe else set()
            share = loop.back.share()
            trusts = t > alarm and (share > 0.5 or (trusted[name] and share > 0.25))
            if trusts != trusted[name]:
                told.append((lr.Return if trusts else lr.guard.ledger.Left, name, t))
            trusted[name] = trusts
    switch, *turns = guard.events
    assert switch.step == alarm < 150
    assert [(type(event), event.problem, event.step) for event in turns] == told
    assert "dull" in {name for _, name, _ in told}
    for name, loop in loops.items():
        assert guard.regrets[name] == pytest.approx(np.max(lead[name]) / 300)
        assert guard.shares[name] == pytest.approx(loop.back.share())
    assert guard.share == min(guard.shares.values())
    assert recipe is not EAGER or was_safe
    assert "dull" not in was_safe


@pytest.mark.parametrize("seed", sweep(range(12), 3))
@pytest.mark.parametrize(("S", "steps"), [(2, 8), (3, 5)])
def test_no_sequence_breaks_a_certificate(S: int, steps: int, seed: int) -> None:
    """All S^T sequences, laws of their own for every prefix, budgets that are spent at once and later."""
    rng = np.random.default_rng((seed, S))
    tokens_NxT, used = np.array(list(product(range(S), repeat=steps))), 0.0
    for budget in (0.05, 0.5):
        shapes = [(int(rng.integers(2, 4)), S) for _ in range(int(rng.integers(1, 3)))]
        problems = {str(i): lr.DecisionProblem(rng.choice([-1, 0, 0.3, 1], shape)) for i, shape in enumerate(shapes)}
        problems["guess"] = lr.matching(S)
        horizon = steps if rng.random() < 0.7 else None
        back = lr.Recovery(memories=(2,), share=0.1, budget=budget)
        rule = JointTest(problems, horizon, delta=0.5, temperature=0.0, fallback=back)
        laws_NxTxS = prefix_laws(rng, S, steps)
        memory, lead_NxP = rule.start((len(tokens_NxT),)), np.zeros((len(tokens_NxT), rule.n_comparators))
        behind_NxP = lead_NxP + 0.0
        for t in range(steps):
            moment = rule.look(memory, laws_NxTxS[:, t])
            played, state_N = rule.answer(memory, moment), tokens_NxT[:, t]
            lead_NxP += rule.leads(played, state_N).T
            behind_NxP += (rule.leads(played, state_N) - rule.leads(moment.base_A1, state_N)).T
            memory = rule.update(memory, laws_NxTxS[:, t], state_N)
            for name, rows in rule.rows.items():
                given, worst = rule.certificate.for_problem(name).at(t + 1), lead_NxP[:, rows].max()
                assert worst <= (t + 1) * given.regret_bound + 1e-12
                assert behind_NxP[:, rows].max() <= (t + 1) * (given.against_model or 0.0) + 1e-12
                used = max(used, worst / (t + 1) / given.regret_bound if given.regret_bound else 0.0)
    assert used > 0.2


@pytest.mark.parametrize("seed", sweep(range(8), 1))
def test_no_adversary_breaks_a_certificate(seed: int) -> None:
    rng, steps = np.random.default_rng(seed), 300
    problems = {"protect": PROTECT, "walk": WALK, "small": lr.DecisionProblem(rng.uniform(-0.01, 0.01, (3, 2)))}
    base, used = random_markov(rng, 2, 1), 0.0
    for budget in (0.05, 0.5):
        back = lr.Recovery(budget=budget)
        rule = JointTest(problems, steps, delta=0.05, temperature=0.0, fallback=back)
        for name, problem in problems.items():
            bound, player = rule.certificate.for_problem(name).regret_bound, Guarded(base, rule, name)
            for found in (
                adversaries.greedy(player, problem, steps),
                adversaries.beam(player, problem, steps, width=8),
            ):
                assert found.regret <= bound < problem.span
                used = max(used, found.regret / bound)
    assert used > 0.2


def test_the_alarm_is_the_same_whatever_follows_it() -> None:
    """delta is spent there: by enumeration its chance is at most delta, and the fallback does not enter."""
    steps, delta = 9, 0.4
    rules = [JointTest(PROBLEMS, steps, delta, temperature=0.0, fallback=f) for f in (EAGER, lr.PolyaUrn(2))]
    tokens = np.array(list(product(range(2), repeat=steps)))
    for seed in range(3):
        laws = prefix_laws(np.random.default_rng(seed), 2, steps)
        first, second = (rule.trip_times(laws, tokens) for rule in rules)
        np.testing.assert_array_equal(first, second)
        chance = np.take_along_axis(laws, tokens[..., None], axis=-1)[..., 0].prod(axis=1)
        assert 0 < chance[first <= steps].sum() <= delta


@pytest.mark.parametrize("problem", [PROTECT, WALK, lr.matching()])
@pytest.mark.parametrize("horizon", [T, None])
def test_one_problem_by_name_plays_what_a_guard_of_it_alone_plays(
    problem: lr.DecisionProblem, horizon: int | None
) -> None:
    laws, came = breaks_and_comes_back(3)
    named, alone = lr.Guard(problems={"it": problem}, horizon=horizon), lr.Guard(problem, horizon, likelihood=False)
    for law, state in zip(laws, came.tolist(), strict=True):
        said = named.advise(law).policies["it"]
        np.testing.assert_array_equal(said, alone.advise(law).policy)
        for guard in (named, alone):
            guard.observe(lr.problems.Positions(state))
        assert named.share == alone.share
    assert [(type(e), e.step) for e in named.events] == [(type(e), e.step) for e in alone.events]
    assert len(named.events) > 1
    for steps in (50, T):
        given = named.certificate.at(steps), alone.certificate.at(steps)
        assert given[0].regret_bound == given[1].regret_bound
        assert given[0].against_model == given[1].against_model
    assert named.certificate.assumptions == alone.certificate.assumptions
    assert "as Recovery says from then on" in named.certificate.assumptions[0]


def test_a_model_that_comes_back_earns_more_than_the_urn() -> None:
    earned: dict[str, list[float]] = {}
    for seed in range(4):
        laws, came = breaks_and_comes_back(seed)
        for what, back in (("way back", lr.Recovery()), ("urn", lr.PolyaUrn(2))):
            guard = lr.Guard(problems=PROBLEMS, horizon=T, fallback=back)  # type: ignore[arg-type]
            played = run(guard, laws, came)
            for name in ("protect", "walk"):
                pays_TxA, own_TxA = PROBLEMS[name].utility[:, came].T, np.array([each[name] for each in played])
                earned.setdefault(f"{name}, {what}", []).append(float((own_TxA * pays_TxA).sum(axis=1).mean()))
            returned = {event.problem for event in guard.events if isinstance(event, lr.Return)}
            assert returned == (set(PROBLEMS) if what == "way back" else set())
    found = {what: round(float(np.mean(each)), 3) for what, each in earned.items()}
    print("earned a step:", found)
    for name in ("protect", "walk"):
        assert found[f"{name}, way back"] > found[f"{name}, urn"] + 0.05


@pytest.mark.parametrize("recipe", [lr.Recovery(), EAGER], ids=["usual", "eager"])
@pytest.mark.parametrize("half", [50, 140, 200, 400])
def test_saved_and_resumed_it_goes_on_bit_for_bit(half: int, recipe: lr.Recovery, tmp_path: Any) -> None:
    laws, came = breaks_and_comes_back(1)
    whole, first, second, third = (
        lr.Guard(problems=PROBLEMS, horizon=T, fallback=recipe)  # type: ignore[arg-type]
        for _ in range(4)
    )
    want = run(whole, laws, came)
    run(first, laws, came, 0, half)
    first.save(tmp_path / "guard.safetensors")
    third.load(tmp_path / "guard.safetensors")
    first.advise(laws[half])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    second.observe(["calm", "event"][came[half]])
    for guard, begin in ((second, half + 1), (third, half)):
        for one, other in zip(want[begin:], run(guard, laws, came, begin), strict=True):
            for name in PROBLEMS:
                np.testing.assert_array_equal(one[name], other[name])
        assert (guard.events, guard.regrets, guard.shares) == (whole.events, whole.regrets, whole.shares)
    urn = lr.Guard(problems=PROBLEMS, horizon=T, fallback=lr.PolyaUrn(2))
    with pytest.raises(ValueError, match=r"differs in: .*fallback"):
        urn.load_state_dict(first.state_dict())


def test_a_fleet_is_its_streams_one_by_one() -> None:
    worlds = [breaks_and_comes_back(seed) for seed in range(3)]
    fleet = lr.Guard(problems=PROBLEMS, horizon=T, streams=["a", "b", "c"])
    alone = [lr.Guard(problems=PROBLEMS, horizon=T) for _ in worlds]
    for t in range(T):
        advice = fleet.advise(np.stack([laws[t] for laws, _ in worlds]))
        for n, (guard, (laws, came)) in enumerate(zip(alone, worlds, strict=True)):
            for name, policy in guard.advise(laws[t]).policies.items():
                np.testing.assert_allclose(advice.policies[name][n], policy, atol=1e-9)
            guard.observe(["calm", "event"][came[t]])
        fleet.observe([["calm", "event"][came[t]] for _, came in worlds])
        for name in PROBLEMS:
            np.testing.assert_allclose(fleet.shares[name], [guard.shares[name] for guard in alone], atol=1e-9)
    assert fleet.share.shape == (3,)
    for stream, guard in zip("abc", alone, strict=True):
        own = [event._replace(stream=()) for event in fleet.events if event.stream == stream]
        key = [(type(e), e.step, getattr(e, "problem", None)) for e in own]
        assert key == [(type(e), e.step, getattr(e, "problem", None)) for e in guard.events]
    fleet.retire(["b"])
    assert fleet.shares["walk"].shape == (2,)


def test_actions_by_name_are_drawn_taken_and_judged() -> None:
    laws, came = breaks_and_comes_back(2, 300)
    guard, again = (lr.Guard(problems=PROBLEMS, horizon=300, fallback=EAGER) for _ in range(2))  # type: ignore[arg-type]
    lead, mixed_steps, together = {name: 0.0 for name in PROBLEMS}, 0, []
    for law, state in zip(laws, came.tolist(), strict=True):
        advice = guard.advise(law)
        again.advise(law)
        drawn: Any = guard.act(seed=7)
        assert drawn == guard.act(seed=7) == again.act(seed=7)
        assert drawn.keys() == PROBLEMS.keys()
        for name, problem in PROBLEMS.items():
            assert advice.policies[name][drawn[name]] > 0
            mixed_steps += advice.policies[name].max() < 1
            earned_A = problem.utility[:, state]
            lead[name] = lead[name] + earned_A - earned_A[drawn[name]]
        if advice.policies["protect"].max() < 1:
            together.append(len({guard.act(seed=seed)["walk"] for seed in range(4)}))  # type: ignore[index]
        by_text = {name: PROBLEMS[name].actions[drawn[name]] for name in PROBLEMS}
        guard.observe(["calm", "event"][state], action=by_text if state else drawn)
        again.observe(["calm", "event"][state])
    assert mixed_steps > 20
    assert max(together) > 1
    for name in PROBLEMS:
        assert guard.realised_regrets[name] == pytest.approx(np.max(lead[name]) / 300)
    assert guard.realised_regret == max(guard.realised_regrets.values())
    assert all(math.isnan(regret) for regret in again.realised_regrets.values())
    guard.restart()
    guard.advise(laws[0])
    many = lr.Guard(problems=PROBLEMS, horizon=300, batch_shape=(4,))
    many.advise(np.tile(laws[0], (4, 1)))
    picked: Any = many.act(np.random.default_rng(0))
    assert {name: taken.shape for name, taken in picked.items()} == {name: (4,) for name in PROBLEMS}
    many.observe(["calm"] * 4, action=picked)
    assert many.realised_regrets["walk"].shape == (4,)
    for wrong in (0, {"walk": 0}, {**drawn, "swim": 0}):
        with pytest.raises(ValueError, match="action must be a dict of the action in each of protect, walk, dull"):
            guard.observe("calm", action=wrong)
    with pytest.raises(ValueError, match="action in walk"):
        guard.observe("calm", action={**drawn, "walk": 3})
    with pytest.raises(ValueError, match="realised_regrets needs a guard for several problems"):
        _ = lr.Guard(PROTECT, 9).realised_regrets


def test_draws_of_two_problems_are_no_copies_of_each_other() -> None:
    twins = {"one": lr.matching(), "other": lr.matching()}
    guard = lr.Guard(problems=twins, horizon=400, temperature=1.0)
    same = 0
    for _ in range(200):
        guard.advise([0.5, 0.5])
        drawn: Any = guard.act(seed=0)
        same += drawn["one"] == drawn["other"]
        guard.observe(0)
    assert 70 < same < 130


def test_episodes_begin_with_the_model_again() -> None:
    laws, came = breaks_and_comes_back(0)
    guard = lr.Guard(problems=PROBLEMS, horizon=T, episode=T // 2)
    run(guard, laws, came)
    assert guard.episodes == 2
    assert guard.shares == dict.fromkeys(PROBLEMS, 1.0)
    assert {event.episode for event in guard.events} == {1}


def test_what_a_return_says_and_a_recovery_that_does_not_fit() -> None:
    laws, came = breaks_and_comes_back(0)
    guard = lr.Guard(problems=PROBLEMS, horizon=T)
    run(guard, laws, came)
    back = next(event for event in guard.events if isinstance(event, lr.Return) and event.problem == "walk")
    assert f"returned in walk after {back.step} steps of episode 1: the model has {back.share:.0%} again" in str(back)
    given: Any = guard.certificate
    behind = {name: given.for_problem(name).against_model for name in PROBLEMS}
    assert given.against_model == max(behind.values()) > min(behind.values()) == behind["dull"] == 0
    assert f"{given.against_model:.4f} a step behind the model itself; nothing up to the alarm" in str(given)
    with pytest.raises(ValueError, match="safe AdaHedge was made for another problem"):
        lr.Guard(problems=PROBLEMS, horizon=T, fallback=lr.Recovery(safe=lr.policies.AdaHedge(WALK)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shares needs a guard for several problems"):
        _ = lr.Guard(PROTECT, 9).shares
