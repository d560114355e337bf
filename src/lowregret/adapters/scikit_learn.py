"""Any classifier with ``predict_proba``, guarded, as a scikit-learn estimator (Algorithm 1, live)."""

from copy import copy
from typing import Any

import numpy as np

from .. import inputs
from ..certificates import Certificate
from ..guard import Event, Guard
from ..problems import DecisionProblem
from .labels import actions_of, floor_of, floored, guard_of, stakes, states_of
from .walk_forward import WalkForward, walked

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
    from sklearn.utils import _safe_indexing, assert_all_finite, column_or_1d, get_tags
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _num_samples, check_consistent_length, check_is_fitted
except ImportError as error:
    wants = f"GuardedClassifier needs {error.name}: pip install 'lowregret[sklearn]'"
    raise ModuleNotFoundError(wants, name=error.name) from error

_NOT_FITTED = (
    "This %(name)s instance is not fitted yet: fit(X, y) trains the model and opens the guard. "
    "A model that is trained already goes in as sklearn.frozen.FrozenEstimator(model): fit then only opens the guard."
)


class GuardedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A classifier that predicts as its model does until the outcomes speak against it, then as a safe fallback.

    ``fit`` trains the model and opens a guard; ``observe`` tells it outcomes as they come, in time order;
    ``predict_proba``, ``predict`` and ``policy`` answer for the next step and change nothing. ``walk_forward`` does all
    of it on recorded rows, with refits. Rows that are not in time order make nonsense of it: do not shuffle.

    Parameters
    ----------
    estimator
        Any object with ``predict_proba``. It is cloned and fitted; one without ``fit`` is used as it is.
    problem
        What is at stake; to guess the label by default. Its states are the classes: by name where the names are the
        same, by sorted order where the problem names none, else as ``classes`` says.
    horizon
        How many outcomes will be observed after ``fit`` at most: what the certificate is for. Needed but in
        ``walk_forward``, where it is the number of guarded rows by default, and with a ``rule``, which has one.
    classes
        The labels in the order of the problem's states, those that no training row has among them.
    rule, fallback, temperature, episode
        As in ``Guard``.
    floor
        How much of the uniform law is mixed into every law. A model that gives a label probability 0 (trees do) is
        switched off by the first row with that label; 0.01 forgives it.

    After ``fit``: ``estimator_``, ``classes_``, ``states_`` (the state of each class), ``problem_``, ``guard_``, and
    what can be read off it: ``switched_``, ``events_``, ``certificate_``.

    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> y = np.where(X[:, 0] > 0, "up", "down")
    >>> model = GuardedClassifier(LogisticRegression(), horizon=200).fit(X, y)
    >>> model.predict([[0.9]]).tolist(), model.switched_
    (['up'], False)
    >>> turned = np.where(y == "up", "down", "up")  # the world turns round
    >>> model.observe(X, turned).switched_, model.events_[0].step
    (True, 5)
    """

    guard_: Guard
    problem_: DecisionProblem
    classes_: np.ndarray  # [K], sorted
    states_: np.ndarray  # [K]

    def __init__(
        self,
        estimator: Any,
        problem: DecisionProblem | None = None,
        horizon: int | None = None,
        *,
        classes: Any = None,
        rule: Any = None,
        fallback: Any = None,
        temperature: float | None = None,
        episode: int | None = None,
        floor: float = 0.0,
    ) -> None:
        self.estimator = estimator
        self.problem = problem
        self.horizon = horizon
        self.classes = classes
        self.rule = rule
        self.fallback = fallback
        self.temperature = temperature
        self.episode = episode
        self.floor = floor

    # Before the first outcome

    def fit(self, X: Any, y: Any, **fit_params: Any) -> "GuardedClassifier":
        """Train a clone of the model on all rows (with ``fit_params``) and open a guard that has seen nothing."""
        y = self._known(y, X)
        fresh = self._opened(y, self.horizon)
        return self._become(fresh._trained(X, y, **fit_params))

    def _opened(self, y: np.ndarray, horizon: int | None) -> "GuardedClassifier":
        """A clone with its problem, classes and guard, and no model yet."""
        seen = np.unique(y)
        fresh = copy(self)
        floor_of(self.floor)
        fresh.problem_, labels = stakes(self.problem, self.rule, self.classes, seen.tolist())
        fresh.guard_ = guard_of(fresh.problem_, horizon, self.rule, self.fallback, self.temperature, self.episode)
        fresh.classes_ = seen if len(seen) == len(labels) else np.unique(np.asarray(labels))
        fresh._state_of = {label: state for state, label in enumerate(labels)}
        fresh.states_ = states_of(fresh.classes_.tolist(), fresh._state_of)
        return fresh

    def _trained(self, X: Any, y: np.ndarray, **fit_params: Any) -> "GuardedClassifier":
        """The same with a model of its own, fitted to these rows."""
        if not hasattr(self.estimator, "predict_proba"):
            raise ValueError(f"estimator must have predict_proba, got {inputs.shown(self.estimator)}")
        fresh = copy(self)
        fresh.estimator_ = clone(self.estimator, safe=False) if hasattr(self.estimator, "fit") else self.estimator
        if hasattr(self.estimator, "fit"):
            fresh.estimator_.fit(X, y, **fit_params)
        for name in ("n_features_in_", "feature_names_in_"):
            fresh.__dict__.pop(name, None)
            if hasattr(fresh.estimator_, name):
                setattr(fresh, name, getattr(fresh.estimator_, name))
        return fresh

    def _become(self, other: "GuardedClassifier") -> "GuardedClassifier":
        """Take over what another has learned, by one assignment: as a whole or not at all."""
        self.__dict__ = other.__dict__
        return self

    # The next step

    def predict_proba(self, X: Any) -> np.ndarray:
        """The laws to act on now, ``[N, K]`` in the order of ``classes_``: the model's, after a switch the fallback's.

        Every row is answered for the next step, whatever the others are.
        """
        laws_NxS = self._laws(X)
        ahead = copy(self.guard_)
        if len(laws_NxS) and _advised(ahead, laws_NxS[0]) is None:
            raise ValueError(
                f"predict_proba needs a fallback that predicts, and {type(ahead.rule.fallback).__name__} acts: "
                "policy(X) has what to play"
            )
        if ahead.switched:
            laws_NxS = np.array([ahead.advise(law_S) for law_S in laws_NxS])
        return laws_NxS[:, self.states_]

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each row under ``predict_proba``."""
        laws_NxK = self.predict_proba(X)
        return self.classes_[laws_NxK.argmax(axis=1)]

    def policy(self, X: Any) -> np.ndarray:
        """The mixed actions ``[N, A]`` that the certificate speaks of, for the next step; pure as ``predict_proba``."""
        laws_NxS = self._laws(X)
        ahead = copy(self.guard_)
        mixed_NxA = np.empty((len(laws_NxS), self.problem_.n_actions))
        for row, law_S in enumerate(laws_NxS):
            _advised(ahead, law_S)
            mixed_NxA[row] = ahead.policy()
        return mixed_NxA

    def _laws(self, X: Any) -> np.ndarray:
        """What the model says of each row, ``[N, S]`` in the order of the states."""
        check_is_fitted(self, "guard_", msg=_NOT_FITTED)
        said_NxK = np.asarray(self.estimator_.predict_proba(X), dtype=np.float64)
        said = getattr(self.estimator_, "classes_", self.classes_)
        columns = states_of(np.asarray(said).tolist(), self._state_of, "estimator.classes_")
        if said_NxK.shape != (_num_samples(X), len(columns)):
            raise ValueError(
                f"estimator.predict_proba(X) must have shape {(_num_samples(X), len(columns))}, got {said_NxK.shape}"
            )
        laws_NxS = np.zeros((len(said_NxK), self.problem_.n_states))
        laws_NxS[:, columns] = said_NxK
        return floored(inputs.probs_of(laws_NxS, laws_NxS.shape[1], "estimator.predict_proba(X)"), self.floor)

    # What came

    def observe(self, X: Any, y: Any, action: Any = None) -> "GuardedClassifier":
        """Rows whose outcomes are now known, in time order: the guard judges what the model says of each.

        The model is not trained on them. All of them count, or none where something is refused. ``action`` says, if you
        like, which was taken on each row, by its place in ``problem_.actions`` or by name: ``guard_.realised_regret``
        needs it.
        """
        check_is_fitted(self, "guard_", msg=_NOT_FITTED)
        y = self._known(y, X)
        states = states_of(y.tolist(), self._state_of)
        taken = [None] * len(y) if action is None else actions_of(action, self.problem_, len(y))
        guard = copy(self.guard_)
        for law_S, state, act in zip(self._laws(X), states.tolist(), taken, strict=True):
            _advised(guard, law_S)
            guard.observe(state, act)
        self.guard_ = guard
        return self

    @property
    def switched_(self) -> bool:
        """Whether it has switched (in this episode); ``guard_.share`` says how much of the model is left in force."""
        return self._opened_guard().switched

    @property
    def events_(self) -> list[Event]:
        """Every switch so far, and every return to the model."""
        return self._opened_guard().events

    @property
    def certificate_(self) -> Certificate:
        """What is guaranteed of ``policy`` over the horizon."""
        return self._opened_guard().certificate

    def _opened_guard(self) -> Guard:
        check_is_fitted(self, "guard_", msg=_NOT_FITTED)
        return self.guard_

    # Recorded rows

    def walk_forward(
        self, X: Any, y: Any, *, train: int, refit_every: int | None = None, window: int | None = None
    ) -> WalkForward:
        """Train on the first ``train`` rows, act on the rest in time order, and learn what came after each.

        The guard goes on through the refits. Afterwards the classifier is as it stood after the last row, ready for the
        next ``observe`` if its horizon is longer than the recording. Only the set of labels is taken from all rows.

        Parameters
        ----------
        refit_every
            After how many rows the model is trained anew, on all rows so far; None is never.
        window
            Train on this many rows at most, the last ones.
        """
        y = self._known(y, X)
        train = inputs.whole(train, "train", most=len(y) - 1)
        every = len(y) if refit_every is None else inputs.whole(refit_every, "refit_every")
        reach = len(y) if window is None else inputs.whole(window, "window")
        own = self.horizon is not None or self.rule is not None
        now = self._opened(y, self.horizon if own else len(y) - train)
        states, refits, said = states_of(y.tolist(), now._state_of)[train:], range(train, len(y), every), []
        for start in refits:
            since = max(0, start - reach)
            now = now._trained(_safe_indexing(X, slice(since, start)), y[since:start])
            said.append(now._laws(_safe_indexing(X, slice(start, min(start + every, len(y))))))
        found = walked(now.guard_, np.concatenate(said), states, train, tuple(refits))
        self._become(now)
        return found

    # What scikit-learn asks

    def _known(self, y: Any, X: Any) -> np.ndarray:
        """The labels, one for each row of X, the rows in time order as far as can be seen."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        check_consistent_length(X, y)
        index: Any = getattr(X, "index", None)
        if "datetime" in str(getattr(index, "dtype", "")) and not index.is_monotonic_increasing:
            raise ValueError("X must have its rows in time order, got an index of times that go back: X.sort_index()")
        return y

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = get_tags(self.estimator)
            tags.input_tags = inner.input_tags
            tags.classifier_tags.multi_class = inner.classifier_tags is None or inner.classifier_tags.multi_class
        return tags


def _advised(guard: Guard, law_S: np.ndarray) -> Any:
    """``advise``; where its horizon is over, the refusal says how a classifier goes on."""
    try:
        return guard.advise(law_S)
    except ValueError as error:
        said = str(error).replace("a Guard with restart()", "guard_.restart() opens a new episode")
        raise ValueError(said) from error
