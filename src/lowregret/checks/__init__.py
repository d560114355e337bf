"""The laws every predictor, policy and robust predictor obeys, as a suite to run on yours.

``check_predictor(mine)`` raises ``LawBroken`` with a sentence on each law that ``mine`` breaks, or returns the names of
the laws it kept. Each law is also a function of its own (in ``LAWS`` and ``ROBUST_LAWS``), for parametrised tests.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ..policies import Policy
from ..predictors import Predictor
from ..robust import AverageRestart, Robust
from .laws import LAWS, LawBroken, Subject, check_window, subject_of
from .robust import ROBUST_LAWS, Trial, robust_trial

__all__ = [
    "LAWS",
    "ROBUST_LAWS",
    "LawBroken",
    "Subject",
    "Trial",
    "check_policy",
    "check_predictor",
    "check_robust",
    "check_window",
    "robust_trial",
    "subject_of",
]


def check_predictor(
    predictor: Predictor, *, horizon: int = 12, streams: int = 4, seed: int = 0, tolerance: float = 1e-9
) -> list[str]:
    """Run every law on a predictor; raise ``LawBroken`` if any fails, else return the names of the laws kept.

    >>> from lowregret import PolyaUrn
    >>> check_predictor(PolyaUrn(3))[:2]
    ['probabilities are probabilities', 'reading is pure']
    """
    laws = {**LAWS}
    if isinstance(predictor, AverageRestart):
        base, window, reach = predictor.predictor, predictor.window, min(1024, predictor.horizon - predictor.window)
        laws["the base model's context is what it says"] = lambda s: check_window(
            base, window, reach=reach, seed=seed, tolerance=s.tolerance
        )
    return _run(laws, subject_of(predictor, "predict", horizon, streams, seed, tolerance))


def check_policy(
    policy: Policy, *, horizon: int = 12, streams: int = 4, seed: int = 0, tolerance: float = 1e-9
) -> list[str]:
    """Run every law on a policy; raise ``LawBroken`` if any fails, else return the names of the laws kept."""
    return _run(LAWS, subject_of(policy, "policy", horizon, streams, seed, tolerance))


def check_robust(
    robust: Robust, *, horizon: int = 12, streams: int = 64, seed: int = 0, tolerance: float = 1e-9
) -> list[str]:
    """Run every law on a robust predictor and its test; raise ``LawBroken`` if any fails, else return their names.

    What its certificate promises is tried too, by search: a sequence with more regret than that, or a base model that
    is right and gets an alarm more often. What is found is broken for sure; what is not found may still be there.
    """
    trial = robust_trial(robust, horizon, streams, seed, tolerance)
    subject = subject_of(robust, "predict", horizon, 4, seed, tolerance)._replace(tokens=trial.tokens[:4])
    return _run(ROBUST_LAWS, trial) + _run(LAWS, subject)


def _run(laws: Mapping[str, Callable[[Any], None]], subject: Subject | Trial) -> list[str]:
    broken = []
    for name, law in laws.items():
        try:
            law(subject)
        except LawBroken as error:
            broken.append(f"[{name}] {error}")
        except Exception as error:  # a crash is a broken law too: say which
            broken.append(f"[{name}] {subject.name} raised {type(error).__name__}: {error}")
    if broken:
        raise LawBroken("\n".join(broken))
    return list(laws)
