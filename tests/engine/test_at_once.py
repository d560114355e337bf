"""Recordings at once are streams: running sums give the alarm times of the loop, and the same is predicted."""

from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.engine import Engine, Inputs, Setting
from lowregret.robust import Robust, algorithm_1

from ..conftest import extra
from ..literal_theorem import some_game

torch = extra("torch")
T = 120
TESTS: dict[str, Any] = {
    "exact": lr.ExactTest(0.2, T),
    "exact, unknown horizon": lr.ExactTest(0.2),
    "gap": lr.RegretGap(T, 1e-6),
    "gap, span aware": lr.RegretGap(T, 1e-6, span_aware=True),
    "gap, sharp": lr.RegretGap(T, 0.1, sharp=True),
    "gap, unknown horizon": lr.RegretGap(None, span_aware=True, delta=0.9),
    "rate": lr.RegretRate(T, 0.6),
    "rate, unknown horizon": lr.RegretRate(None, 0.6),
    "v-regret": lr.VRegret(T, 0.5, np.arange(9) / 8),
    "v-regret, threshold": lr.VRegret(T, 0.9, [0.25, 0.5, 0.75], "threshold"),
}


def streams(rng: np.random.Generator, problem: lr.DecisionProblem) -> tuple[np.ndarray, np.ndarray]:
    """Forecasts and states: in distribution, the wrong way round, broken late, an urn, probabilities of 0."""
    S = problem.n_states
    sure = np.eye(S)[rng.integers(S, size=(10, T))] * 0.96 + 0.04 / S
    sure[2:6] = sure[2:6, :1]  # one forecast for good
    law = np.where(np.arange(10)[:, None, None] % 2 == 0, sure, rng.dirichlet(np.ones(S), (10, T)))
    state = (rng.random((10, T, 1)) > law.cumsum(-1)[..., :-1]).sum(-1)  # 0, 1: in distribution
    worst = np.argmin(problem.quantal_response(law, 0.05) @ problem.utility, axis=-1)
    state[2:4] = np.where(rng.random((2, T)) < 0.9, worst[2:4], state[2:4])  # the wrong way round
    state[4:6, T // 2 :] = worst[4:6, T // 2 :]  # broken late
    law[6:8] = lr.PolyaUrn(S).predict_sequence(state[6:8])
    law[8:, T // 3] = np.eye(S)[(state[8:, T // 3] + [0, 1]) % S]  # sure, and in the second stream wrong
    law[9, T // 3 + 5] = np.eye(S)[(state[9, T // 3 + 5] + 1) % S]
    return law, state


def by_steps(engine: Engine, law: Any, state: Any) -> list[int]:
    rows = engine.start(len(state))
    for t in range(T):
        rows, _ = engine.observe(rows, t + 1, engine.advise(rows, t + 1, Inputs(law[:, t])), state[:, t])
    alarm = engine.head.open(rows).alarm
    return [int(at) or T + 1 for at in alarm]


def setting_for(name: str, problem: lr.DecisionProblem) -> Setting:
    test = TESTS[name]
    return algorithm_1(None if isinstance(test, lr.VRegret) else problem, test)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("name", TESTS)
def test_alarm_times_are_those_of_the_loop(name: str, kind: str) -> None:
    rng, found = np.random.default_rng(sorted(TESTS).index(name)), []
    two = "v-regret" in name
    for problem in (lr.matching(), lr.DecisionProblem([[1, -1], [-1, 1]]), some_game(rng, 4, 2 if two else 3)):
        law, state = streams(rng, problem)
        setting = setting_for(name, problem)
        expected = by_steps(Engine(setting), law, state)
        if kind == "torch":
            from array_api_compat import torch as xp

            law, state, setting = torch.as_tensor(law), torch.as_tensor(state), setting.on(xp)
            assert by_steps(Engine(setting), law, state) == expected
        assert Engine(setting).alarm_times(law, state).tolist() == expected
        found += expected
    assert len(set(found)) > 2  # at different steps, and never


FALLBACKS: dict[str, Any] = {
    "recovery": lambda problem: lr.Recovery(memories=(4, 20), budget=0.1),
    "recovery, urn": lambda problem: lr.Recovery(budget=0.1, safe=lr.PolyaUrn(problem.n_states)),
    "urn": lambda problem: lr.PolyaUrn(problem.n_states),
    "shrunk urn": lambda problem: lr.predictors.ShrunkUrn(problem, T),
}


class Recorded(lr.predictors.Scheduled):
    """Forecasts of a recording, ``[N, T, S]``: of stream n those in row n."""

    def __init__(self, law_NxTxS: Any) -> None:
        super().__init__(np.full((1, law_NxTxS.shape[-1]), 1 / law_NxTxS.shape[-1]))
        object.__setattr__(self, "law_NxTxS", law_NxTxS)

    def predict(self, memory: Any) -> Any:
        return self.law_NxTxS[:, min(int(np.max(np.asarray(memory.step))), T - 1)]


@pytest.mark.parametrize(
    ("name", "known"), [(name, known) for name in FALLBACKS for known in (True, False) if known or "shrunk" not in name]
)
def test_what_is_predicted_is_that_of_the_loop(name: str, known: bool) -> None:
    """For the urns and the way back, in NumPy and in torch; the model's own until the alarm, bit for bit."""
    rng, late = np.random.default_rng(known), 0
    for problem in (lr.matching(), lr.rock_paper_scissors(), lr.DecisionProblem([[0.9, -0.6], [-0.2, 0.3]])):
        law, state = streams(rng, problem)
        setting = algorithm_1(problem, lr.ExactTest(0.2, T if known else None), FALLBACKS[name](problem))
        safe = Robust(Recorded(law), setting, problem)
        memory, expected = safe.start((10,)), []
        for t in range(T):
            expected.append(safe.predict(memory))
            memory = safe.update(memory, state[:, t])
        for kind in (np.asarray, torch.as_tensor):
            found, times = safe.replaced(kind(law), kind(state))
            np.testing.assert_allclose(found, np.stack(expected, axis=1), atol=1e-12)
            early = np.arange(T) < np.asarray(times)[:, None]
            np.testing.assert_array_equal(np.asarray(found)[early], law[early])
        with safe.streams.engine_for(law) as engine:
            told = engine.predictions(law, state, np.asarray(times))
        np.testing.assert_allclose(told, np.stack(expected, axis=1), atol=1e-12)
        late += int((np.asarray(times) < T).sum())
    assert late >= 9
