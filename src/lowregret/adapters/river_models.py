"""River's classifiers, guarded, and the guard as one of River's drift detectors (Algorithm 1, live)."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import inputs
from ..certificates import Certificate
from ..guard import Event
from ..guard.asked import Asked, AskedRows, ids_of
from ..guard.ledger import LOG
from ..problems import DecisionProblem, Names, Positions
from .labels import (
    floor_of,
    floored,
    guard_of,
    key_of,
    one_each,
    only_scaled,
    references_of,
    refuse_lawless,
    stakes,
    states_of,
)

try:
    from river import base
except ModuleNotFoundError as error:
    wants = f"GuardedRiverClassifier and GuardDriftDetector need {error.name}: pip install 'lowregret[river]'"
    raise ModuleNotFoundError(wants, name=error.name) from error


class _Labelled:
    """Laws as River writes them, dicts from labels to probabilities, for a guard whose states are numbered."""

    def __init__(self, labels: tuple[Any, ...], floor: Any) -> None:
        self.labels, self.floor = labels, floor_of(floor)
        self.names = Names(labels, "labels")

    def law(self, proba: Any, is_floored: bool = True) -> np.ndarray:
        """``[S]``; uniform from a model that says nothing yet."""
        if not isinstance(proba, dict):
            raise ValueError(f"probabilities must be a dict from labels to numbers, got {inputs.shown(proba)}")
        law_S = np.zeros(len(self.labels))
        said = inputs.numbers_of(list(proba.values()), "probabilities", "numbers, one for each label")
        law_S[states_of(proba, self.names, "a label of the probabilities")] = said
        if not law_S.any():
            return np.full(len(law_S), 1 / len(law_S))
        law_S = inputs.probs_of(law_S, len(law_S), "probabilities", shape=())
        return floored(law_S, self.floor) if is_floored else law_S

    def state(self, label: Any) -> int:
        return int(states_of([label], self.names)[0])


class GuardedRiverClassifier(base.Wrapper, base.Classifier):
    """A River classifier that predicts as its model does until the labels speak against it, then as a safe fallback.

    ``predict_proba_one``, ``predict_one`` and ``policy_one`` answer for the next step, and do not move the guard.
    ``learn_one`` gives it the label of the row that was asked, judges what was said and played then, and trains the
    model. A row that was not asked is not a step: the model learns it, and ``unasked`` counts it. The model learns on
    after a switch, and the default fallback returns to it once it is right again.

    Parameters
    ----------
    model
        Any River classifier with ``predict_proba_one``; a label that it leaves out has probability 0.
    problem
        What is at stake; to guess the label by default.
    horizon
        The most labels that will be learned, where that is known: it sharpens the certificate. A ``rule`` has its own.
    classes
        The labels in the order of the problem's states, needed where the states are not named after the labels.
    rule, fallback, temperature
        As in ``Guard``.
    references
        Other models by name, whose ``predict_proba_one`` is asked of the same rows: what runs today, so that the guard
        is never much worse. They are not trained here.
    contexts
        How many contexts there are, to compare with one fixed action for each; ``context`` says in which a row is.
    payoffs
        "scaled": a row may count less than the problem says; ``scale`` says how much, above 0 and at most 1.
    context, scale
        Where to read them in a row: the name of a feature, or a function of the row. Or give them beside the row when
        it is asked.
    on_event
        Called with each event of the guard, as in ``Guard``.
    lag
        How many rows may wait for their labels, as in ``Guard``: 1, each is learned before the next is asked. Above
        that rows are asked, and learned later, with an ``id``.
    rows_change
        Whether a row may look different when its label comes, since a transformer before this learns in between
        (``StandardScaler() | ...``): the label then is that of the only row that waits for one. False: a row that was
        not asked as it is trains the model alone, whatever waits.
    floor
        How much of the uniform law is mixed into every law: River's models start from nothing, and one that is sure of
        the only label it has seen would be switched off by the first other one.

    Beside River's own methods: ``guard``, and what can be read off it: ``switched``, ``events``, ``certificate``.

    >>> from river import naive_bayes
    >>> model = GuardedRiverClassifier(naive_bayes.BernoulliNB(), horizon=300, classes=["calm", "storm"])
    >>> for day in range(200):  # wind means storm, and from day 100 on it means calm
    ...     windy = day % 2 == 0
    ...     chances = model.policy_one({"wind": windy})  # act on this
    ...     model.learn_one({"wind": windy}, "storm" if windy == (day < 100) else "calm")
    >>> [event.step for event in model.events][:1], max(model.predict_proba_one({"wind": True}).values()) < 0.9
    ([126], True)
    """

    def __init__(
        self,
        model: base.Classifier,
        problem: DecisionProblem | None = None,
        horizon: int | None = None,
        *,
        classes: Any = None,
        rule: Any = None,
        fallback: Any = None,
        temperature: float | None = None,
        lag: int = 1,
        references: dict[str, base.Classifier] | None = None,
        contexts: int | None = None,
        context: Any = None,
        payoffs: str | None = None,
        scale: Any = None,
        on_event: Callable[[Event], Any] | None = None,
        rows_change: bool = True,
        floor: float = 0.01,
    ) -> None:
        if not hasattr(model, "predict_proba_one"):
            raise ValueError(f"model must be a River classifier with predict_proba_one, got {inputs.shown(model)}")
        at_stake, labels = stakes(problem, rule, classes, fallback)
        self.guard = guard_of(
            at_stake,
            horizon,
            rule,
            fallback=fallback,
            temperature=temperature,
            lag=lag,
            references=tuple(references_of(references, "predict_proba_one")),
            contexts=contexts,
            payoffs=only_scaled(payoffs),
            on_event=on_event,
        )
        self._asked, self._labelled = Asked(self.guard), _Labelled(labels, floor)
        self.unasked, self._has_warned = 0, False
        self.model = model
        self.problem = problem
        self.horizon = horizon
        self.classes = classes
        self.rule = rule
        self.fallback = fallback
        self.temperature = temperature
        self.lag = lag
        self.references = references
        self.contexts = contexts
        self.context = context
        self.payoffs = payoffs
        self.scale = scale
        self.on_event = on_event
        self.rows_change = inputs.flag(rows_change, "rows_change")
        self.floor = floor

    def learn_one(self, x: dict[Any, Any], y: Any, id: Any = None, **kwargs: Any) -> None:
        """Judge what was said of ``x`` by ``y``, then train the model on both: one step, or nothing where it fails.

        Without an ``id`` it is ``x`` that was asked since the label before; or, with ``rows_change``, the only row that
        was. Labels that come later than that are refused, since what would be judged is not what was played.
        ``model.learn_one`` trains the model alone.
        """
        state, key = self._labelled.state(y), key_of(x)

        def learn() -> None:
            self.model.learn_one(x, y, **kwargs)

        if id is not None:
            self._asked.label_steps(ids_of(id, 1), [state], [None], done=learn)
        elif not self._asked.label(key, "x", state, done=learn):
            only = self._asked.only("x") if self.rows_change else None
            if only is None:
                with self.guard._lock:
                    learn()
                    self.unasked += 1
            else:
                if not self._has_warned:
                    self._has_warned = True
                    LOG.warning(
                        "a row was learned that was not asked as it is: its label is taken for that of the only row "
                        "that waits, as in a pipeline whose transformers learn. If it is another, rows_change=False"
                    )
                self._asked.label(only, "x", state, done=learn)

    def predict_proba_one(self, x: dict[Any, Any], id: Any = None, **kwargs: Any) -> dict[Any, float]:
        """The law to act on now: the model's, after a switch the fallback's.

        With an ``id`` it is taken to be played: ``x`` is the guard's next step, which waits for ``learn_one(x, y, id)``
        and has this answer until then. ``context=`` and ``scale=`` are for the guard where the row does not say; other
        ``kwargs`` for the model. With references, contexts or payoffs, what is played after a switch answers no law:
        this one is then for information, and ``policy_one`` is what counts.
        """
        refuse_lawless(self.guard, "predict_proba_one", "policy_one(x)")
        [law_S] = self._answered(self._asked.laws, x, id, **kwargs)
        return dict(zip(self._labelled.labels, law_S.tolist(), strict=True))

    def predict_one(self, x: dict[Any, Any], id: Any = None, **kwargs: Any) -> Any:
        """The likeliest label under ``predict_proba_one``."""
        refuse_lawless(self.guard, "predict_one", "policy_one(x)")
        [law_S] = self._answered(self._asked.laws, x, id, **kwargs)
        return self._labelled.labels[int(law_S.argmax())]

    def policy_one(self, x: dict[Any, Any], id: Any = None, **kwargs: Any) -> dict[str, float]:
        """The mixed action that the certificate speaks of, by the actions' names; the rest likewise."""
        [mixed_A] = self._answered(self._asked.policies, x, id, **kwargs)
        assert self.guard.problem is not None
        return dict(zip(self.guard.problem.actions, mixed_A.tolist(), strict=True))

    def skip(self, id: Any = None) -> None:
        """Give up the label of a row that was asked with this id; without one: forget what was asked without.

        As with ``Guard.skip``, it must be decided before anyone could know the label.
        """
        self._asked.skip(None if id is None else ids_of(id, 1))

    def _answered(self, answers: Callable[..., np.ndarray], x: dict[Any, Any], id: Any, **kwargs: Any) -> np.ndarray:
        return answers([key_of(x)], self._row(x, **kwargs), None if id is None else ids_of(id, 1))

    @property
    def switched(self) -> bool:
        """Whether it has switched (in this episode); ``guard.share`` says how much of the model is left in force."""
        return self.guard.switched

    @property
    def events(self) -> list[Event]:
        """Every switch so far, and every return to the model."""
        return self.guard.events

    @property
    def certificate(self) -> Certificate:
        """What is guaranteed of ``policy_one`` over the horizon."""
        return self.guard.certificate

    def _row(self, x: dict[Any, Any], context: Any = None, scale: Any = None, **kwargs: Any) -> AskedRows:
        """All that is known of a row before its label."""
        with self.guard._lock:  # a model does not learn while it is asked
            law_S, told = self._labelled.law(self.model.predict_proba_one(x, **kwargs)), {}
        if self.references:
            said = [self._labelled.law(other.predict_proba_one(x), False) for other in self.references.values()]
            told["references"] = np.array([said])
        for name, given, own in (("context", context, self.context), ("scale", scale, self.scale)):
            if given is not None or own is not None:
                told[name] = one_each(_read(x, own, name) if given is None else given, 1, name)
        return AskedRows(law_S[None], told)

    # What River asks

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.model

    @property
    def _multiclass(self) -> bool:
        return len(self._labelled.labels) > 2

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model, naive_bayes, preprocessing

        labels = {"horizon": 10_000, "classes": (False, True)}
        yield {"model": preprocessing.StandardScaler() | linear_model.LogisticRegression(), **labels}
        yield {"model": naive_bayes.GaussianNB(), **labels}


def _read(x: dict[Any, Any], by: Any, name: str) -> Any:
    """What a row says: a function of it, or one of its features."""
    if callable(by):
        return by(x)
    if by not in x:
        raise ValueError(f"{name} must be a feature of the row, or given beside it, got {by!r} and {inputs.shown(x)}")
    return x[by]


_MARGIN = 1e-3  # by how much not trusting costs more than the stated errors, as a share of what is left of 1
_SURE = 50.0  # how many temperatures that is: a model as stated is trusted but for a chance of e^-50


def _trusting(error_rate: Any) -> tuple[DecisionProblem, np.ndarray, float]:
    """Whether to trust a model with this error rate: the problem, the law ``[2]`` of its errors, and the temperature.

    An error costs 1, and not trusting a little more than the stated errors do. So "trust" is played, no bet is won on
    it, and a bet on "do not" pays for an error and loses otherwise: it is fair where errors come as often as stated,
    and less than fair where they come more rarely.
    """
    rate = inputs.positive(error_rate, "error_rate")
    if rate >= 1:
        raise ValueError(f"error_rate must lie between 0 and 1, got {error_rate!r}")
    cost = rate + _MARGIN * (1 - rate)
    problem = DecisionProblem([[0, -1], [-cost, -cost]], actions=["trust", "do not"], states=["right", "wrong"])
    return problem, np.array([1 - rate, rate]), (cost - rate) / _SURE


class GuardDriftDetector(base.DriftAndWarningDetector):
    """A drift detector that knows what is at stake, and how often it may be wrong.

    ``update`` takes one pair, ``(probabilities, label)``: a dict from labels to numbers such as ``predict_proba_one``
    returns, and the label that came. A drift is a switch of the guard: acting on the probabilities has earned less than
    something else by more than chance explains. After each start the chance of a false alarm is at most the rule's
    delta, 0.05 by default, for a model whose probabilities are right.

    With an ``error_rate`` it takes errors instead, 1 for wrong and 0 for right, as River's own
    ``DriftRetrainingClassifier`` and ``ARFClassifier`` feed them. The guard then chooses between trusting the model and
    not trusting it, and a drift means that errors come more often than stated, by more than chance explains. For a
    model that is as good as stated (at each step the chance of an error is at most this rate, whatever came before) the
    chance of a false alarm after each start is at most delta; for a better model it is smaller still.

    The detector starts over with the update after a drift, as River's other detectors do, or after ``horizon`` updates
    without one. ``warning_detected``: the logarithm of the evidence is half of the way to an alarm. With the usual rule
    and without a lag, the chance of a false warning after each start is at most the square root of delta.

    Parameters
    ----------
    problem, classes, rule, fallback, temperature, floor
        As in ``GuardedRiverClassifier``.
    horizon
        For how many updates the guard is made at each start; None: any number. A ``rule`` that is given has its own.
    error_rate
        How often the model may be wrong, in place of a problem: ``update`` then takes errors.
    delta
        The chance of a false alarm after each start, in place of a ``rule``; 0.05 by default.
    lag
        How late labels come, as in ``Guard``: what an update reports was forecast before the labels of the last ``lag -
        1`` updates were known.

    ``guard.events`` has what was found, with the evidence.

    >>> detector = GuardDriftDetector(horizon=1000, classes=["calm", "storm"])
    >>> for day in range(200):  # one day in five is stormy, and from day 100 on each is
    ...     detector.update(({"calm": 0.8, "storm": 0.2}, "calm" if day % 5 and day < 100 else "storm"))
    ...     if detector.drift_detected:
    ...         break
    >>> day, detector.guard.events[0].since
    (116, 112)
    >>> detector = GuardDriftDetector(horizon=1000, error_rate=0.2)
    >>> for day in range(200):
    ...     detector.update(day % 5 == 0 or day >= 100)
    ...     if detector.drift_detected:
    ...         break
    >>> day, detector.guard.events[0].since
    (110, 101)
    """

    def __init__(
        self,
        problem: DecisionProblem | None = None,
        horizon: int | None = None,
        *,
        error_rate: float | None = None,
        classes: Any = None,
        rule: Any = None,
        delta: float | None = None,
        fallback: Any = None,
        temperature: float | None = None,
        lag: int = 1,
        floor: float = 0.01,
    ) -> None:
        super().__init__()
        self.problem = problem
        self.horizon = horizon
        self.error_rate = error_rate
        self.classes = classes
        self.rule = rule
        self.delta = delta
        self.fallback = fallback
        self.temperature = temperature
        self.lag = lag
        self.floor = floor
        settings = {"fallback": fallback, "temperature": temperature}
        if error_rate is not None:
            given = {"problem": problem, "classes": classes, "rule": rule, **settings}
            if any(value is not None for value in given.values()):
                raise ValueError(f"error_rate takes the place of {', '.join(given)}: give one or the other")
            at_stake, self._law_2, settings["temperature"] = _trusting(error_rate)
        else:
            at_stake, labels = stakes(problem, rule, classes, fallback)
            self._labelled = _Labelled(labels, floor)
        if delta is not None and rule is not None:
            raise ValueError("delta is that of the rule where one is given: ExactTest(problem, horizon, delta=...)")
        self.guard = guard_of(at_stake, horizon, rule, lag=lag, delta=delta, **settings)
        self._seen = 0  # since the last beginning

    def update(self, x: Any) -> None:
        """Take in what the model said and what came, ``x = (probabilities, label)``; or whether it was wrong."""
        law_S, state = self._error(x) if self.error_rate is not None else self._pair(x)
        with self.guard._lock:  # one at a time
            if self.drift_detected or self._seen == self.guard.horizon:
                self._reset()
            self.guard.advise(law_S)
            self.guard.observe(Positions(state))
            self._seen += 1
            self._drift_detected = self.guard.switched
            evidence, threshold = self.guard.evidence
            self._warning_detected = not self._drift_detected and bool(evidence >= threshold / 2)

    def _pair(self, x: Any) -> tuple[np.ndarray, int]:
        if not isinstance(x, (tuple, list)) or len(x) != 2:
            told = "; error_rate= says how often the model may be wrong, where x is its error"
            raise ValueError(f"x must be a pair (probabilities, label), got {inputs.shown(x)}{told}")
        return self._labelled.law(x[0]), self._labelled.state(x[1])

    def _error(self, x: Any) -> tuple[np.ndarray, int]:
        if not isinstance(x, (bool, int, float, np.generic)) or x not in (0, 1):
            raise ValueError(f"x must be 1 for an error or 0 for none, got {inputs.shown(x)}")
        return self._law_2, int(x)

    def _reset(self) -> None:
        super()._reset()
        self.guard.restart()
        self._seen = 0

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"horizon": 1000, "classes": (False, True)}
        yield {"horizon": 1000, "error_rate": 0.2}
