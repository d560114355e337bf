"""River's classifiers, guarded, and the guard as one of River's drift detectors (Algorithm 1, live)."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import inputs
from ..engine import ExactTest, QuantalResponse
from ..guard import Guard
from ..problems import DecisionProblem, Positions
from . import steps
from .labels import Labels, guard_of, labels_of

try:
    from river import base
except ModuleNotFoundError as error:
    wants = f"GuardedRiverClassifier and GuardDriftDetector need {error.name}: pip install 'lowregret[river]'"
    raise ModuleNotFoundError(wants, name=error.name) from error


def _forecast(labels: Labels, proba: Any) -> np.ndarray:
    """A dict from labels to probabilities as a forecast ``[S]``; uniform where all are 0, before anything is learnt."""
    probs_K = np.array(list(proba.values()), dtype=np.float64)
    if not probs_K.any():
        return np.full(len(labels.labels), 1 / len(labels.labels))
    [probs_S] = labels.forecasts(probs_K[None], list(proba), "probabilities")
    return probs_S


class GuardedRiverClassifier(base.Wrapper, base.Classifier):
    """A River classifier that answers as its model does until the labels speak against it, then as the fallback does.

    ``predict_one``, ``predict_proba_one`` and ``policy_one`` answer for a step of the guard. ``learn_one`` gives the
    guard the label and trains the model; where no row waits for its label, the model alone. Steps, ids, labels that
    come late, saving and threads are those of ``GuardedClassifier``. With a lag, what asks again as the label comes
    (``DriftRetrainingClassifier``) goes inside, as the model.

    Parameters
    ----------
    model
        Any River classifier; a label that it leaves out has probability 0.
    guard
        A ``Guard`` of one stream, a pattern of which the attribute ``guard`` is a fresh one; by default of guessing the
        label.
    classes
        The labels in the order of the problem's states; by default they are the states' names.
    floor
        How much of the uniform distribution is mixed into every forecast: a model that is sure of the only label it has
        seen would have an alarm at the first other one.

    >>> from river import naive_bayes
    >>> model = GuardedRiverClassifier(naive_bayes.BernoulliNB(), classes=["calm", "storm"])
    >>> for day in range(200):  # wind means storm, and from day 100 on it means calm
    ...     windy = day % 2 == 0
    ...     guess = model.predict_one({"wind": windy})  # act on this
    ...     model.learn_one({"wind": windy}, "storm" if windy == (day < 100) else "calm")
    >>> [event.step for event in model.guard.events][:1], max(model.predict_proba_one({"wind": True}).values()) < 0.9
    ([126], True)
    """

    def __init__(
        self, model: base.Classifier, guard: Guard | None = None, classes: Any = None, floor: float = 0.01
    ) -> None:
        self.model = model
        self.guard = guard_of(guard, classes)
        self.classes = classes
        self.floor = floor
        self._labels = Labels(labels_of(self.guard.problem, classes, stated=True), floor)

    def learn_one(self, x: dict[Any, Any], y: Any, id: Any = None, **kwargs: Any) -> None:
        """The label of the row with this id, or of the one that has waited longest; the model learns from both.

        If the model fails to learn, the guard takes no step either. ``kwargs`` are for the model.
        """
        guard, [state] = self.guard, self._labels.states([y]).tolist()
        with guard.lock:
            numbers = steps.waiting(guard, id) if id is not None or guard.waiting else []
            self.model.learn_one(x, y, **{name: part for name, part in kwargs.items() if name not in steps.SIDE})
            for number in filter(None, numbers):
                guard.observe(Positions(state), step=number)

    def predict_one(self, x: dict[Any, Any], id: Any = None, **kwargs: Any) -> Any:
        """The guard's action, where its actions are the labels; else the likeliest label.

        ``kwargs``: what else ``Guard.advise`` takes, ``context``, ``scale``, ``payoffs``, and ``references`` as a dict
        of probabilities such as ``predict_proba_one`` returns; others are for the model.
        """
        found, played = self._ask(x, id, kwargs), self._labels.played(self.guard.problem)
        return self._labels.labels[found.probs_NxS[0].argmax()] if played is None else played[found.action_N[0]]

    def predict_proba_one(self, x: dict[Any, Any], id: Any = None, **kwargs: Any) -> dict[Any, float]:
        """The distribution that is acted on; the rest as in ``predict_one``.

        Until an alarm it is the model's. A policy that is played after one answers none: it is then for information.
        """
        return dict(zip(self._labels.labels, self._ask(x, id, kwargs).probs_NxS[0].tolist(), strict=True))

    def policy_one(self, x: dict[Any, Any], id: Any = None, **kwargs: Any) -> dict[str, float]:
        """The mixed action that the certificate is about, by the actions' names; the rest as in ``predict_one``."""
        return dict(zip(self.guard.problem.actions, self._ask(x, id, kwargs).policy_NxA[0].tolist(), strict=True))

    def skip(self, id: Any = None) -> None:
        """Give up the label of a row; as ``Guard.skip``, before anyone could know it."""
        self.guard.skip(*steps.waiting(self.guard, id))

    def _ask(self, x: dict[Any, Any], id: Any, kwargs: dict[str, Any]) -> steps.Answers:
        inputs_N: dict[str, Any] = {name: [kwargs.pop(name)] for name in steps.SIDE if name in kwargs}
        if "references" in inputs_N:
            [each] = inputs_N["references"]
            inputs_N["references"] = {name: [_forecast(self._labels, probs)] for name, probs in each.items()}
        with self.guard.lock:  # the model does not learn while it is asked
            probs_S = _forecast(self._labels, self.model.predict_proba_one(x, **kwargs))
            inputs_N["forecast"] = self._labels.floored(probs_S)[None]
            return steps.ask(self.guard, inputs_N, id)

    # What River asks

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.model

    @property
    def _multiclass(self) -> bool:
        return len(self._labels.labels) > 2

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, naive_bayes, preprocessing

        yield {"model": preprocessing.StandardScaler() | linear_model.LogisticRegression(), "classes": (False, True)}
        yield {"model": naive_bayes.GaussianNB(), "classes": (False, True)}


class GuardDriftDetector(base.DriftAndWarningDetector):
    """A drift detector that knows what is at stake, and how often it may be wrong.

    ``update`` takes one pair, ``(probabilities, label)``: a dict such as ``predict_proba_one`` returns, and the label.
    A drift is an alarm of the guard (``guard.events``): acting on the probabilities has earned less than something else
    by more than chance explains. While they are right, the chance of a false alarm after each start is at most the
    delta of the guard's test. The detector starts over with the update after a drift, as River's others do.
    ``warning_detected``: the logarithm of the evidence is halfway to an alarm; without a lag, the chance of a false
    warning is at most sqrt(delta).

    Parameters
    ----------
    guard, classes, floor
        As in ``GuardedRiverClassifier``. With a lag, what an update reports was forecast before the labels of the last
        ``lag`` - 1 updates were known.
    forecast
        Probabilities of the labels that are the same in every update, which then takes the label alone.

    >>> detector = GuardDriftDetector(classes=["calm", "storm"])
    >>> for day in range(200):  # one day in five is stormy, and from day 100 on each is
    ...     detector.update(({"calm": 0.8, "storm": 0.2}, "calm" if day % 5 and day < 100 else "storm"))
    ...     if detector.drift_detected:
    ...         break
    >>> day
    116
    """

    def __init__(
        self, guard: Guard | None = None, classes: Any = None, forecast: Any = None, floor: float = 0.01
    ) -> None:
        super().__init__()
        self.guard = guard_of(guard, classes)
        self.classes = classes
        self.forecast = forecast
        self.floor = floor
        self._labels = Labels(labels_of(self.guard.problem, classes, stated=True), floor)
        S = len(self._labels.labels)
        self._probs_S = None if forecast is None else inputs.probs_of(np.array(forecast), S, "forecast", shape=())

    @classmethod
    def of_errors(cls, rate: float, test: ExactTest | None = None) -> "GuardDriftDetector":
        """A detector of errors, 1 for wrong and 0 for right, as River's ``DriftRetrainingClassifier`` feeds it.

        The guard chooses between trusting the model and not: an error costs 1, and not trusting a little more than
        errors at this rate do. A bet on that pays for an error and loses otherwise: if the chance of an error is at
        most the rate at each step, whatever happened before, that of a false alarm is at most the test's delta.

        >>> detector = GuardDriftDetector.of_errors(0.2)
        >>> for day in range(200):
        ...     detector.update(day % 5 == 0 or day >= 100)
        ...     if detector.drift_detected:
        ...         break
        >>> day, detector.guard.events[0].since
        (109, 101)
        """
        rate = inputs.probability(rate, "rate")
        cost = rate + 1e-3 * (1 - rate)
        problem = DecisionProblem([[0, -1], [-cost, -cost]], actions=["trust", "do not"])
        trusting = QuantalResponse((cost - rate) / 50)  # a model as stated is not trusted with a chance of e^-50
        return cls(Guard(problem, test=test or ExactTest(), response=trusting), forecast=(1 - rate, rate), floor=0.0)

    def update(self, x: Any) -> None:
        """Take in a forecast and its label, ``x = (probabilities, label)``, or the label alone."""
        probs_S, label = self._probs_S, int(x) if isinstance(x, (bool, np.bool_)) else x
        if probs_S is None:
            if not isinstance(x, tuple) or len(x) != 2 or not isinstance(x[0], dict):
                others = "for errors there is GuardDriftDetector.of_errors(rate)"
                raise ValueError(f"x must be a pair (dict of probabilities, label), got {inputs.shown(x)}: {others}")
            probs_S, label = self._labels.floored(_forecast(self._labels, x[0])), x[1]
        [state] = self._labels.states([label], "the label").tolist()
        if self.drift_detected:
            self._reset()
            self.guard.restart()
        self.guard.advise(probs_S)
        self.guard.observe(Positions(state))
        self._drift_detected = self.guard.switched
        evidence, threshold = self.guard.evidence
        self._warning_detected = not self._drift_detected and evidence >= threshold / 2

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classes": (False, True)}
        yield cls.of_errors(0.2)._get_params()
