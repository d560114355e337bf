"""Any classifier with ``predict_proba``, guarded, as a scikit-learn estimator (Algorithm 1, live)."""

from typing import Any

import numpy as np

from .. import inputs
from ..guard import Guard
from ..problems import Positions, actions_of
from . import steps
from .labels import Labels, guard_of, labels_of

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
    from sklearn.utils import column_or_1d, get_tags
    from sklearn.utils.validation import check_is_fitted
except ImportError as error:
    wants = f"GuardedClassifier needs {error.name}: pip install 'lowregret[sklearn]'"
    raise ModuleNotFoundError(wants, name=error.name) from error

_NOT_FITTED = (
    "This %(name)s instance is not fitted yet: fit(X, y) trains the model and opens the guard. "
    "A model that is trained already goes in as sklearn.frozen.FrozenEstimator(model): fit then only opens the guard."
)


class GuardedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A classifier that answers as its model does until the labels speak against it, then as the guard's fallback does.

    ``fit`` trains the model and opens a guard. ``predict``, ``predict_proba`` and ``policy`` answer for a step of the
    guard, and ``observe`` gives the label. Rows must come in the order of time.

    A single row is a step: asked again it is advised anew, unless the guard has a lag; then every question is the next
    step, and labels come in the same order. With an ``id`` (a text or a whole number, or one for each row) a row keeps
    its answer until its label comes, by ``observe(y, id=...)``, in any order. Several rows without ids, or one row
    while others wait by id, take no step: each is answered as if it were the next. A label that comes too late is
    ignored, with an event. What is saved of the guard includes the steps that wait and their ids. Threads may share it.

    Parameters
    ----------
    model
        Any scikit-learn classifier with ``predict_proba``. It is cloned and fitted.
    guard
        A ``Guard`` of one stream, which is a pattern and never touched; by default of guessing the label. Its states
        are the labels, by name; where they have no names, in sorted order.
    floor
        How much of the uniform distribution is mixed into every forecast. A model that gives a label probability 0
        (trees do) has an alarm at the first row with that label; 0.01 prevents that.

    After ``fit``: ``model_``, ``guard_`` (``guard_.events``, ``guard_.certificate``), ``classes_`` and ``states_``, the
    state of each class.

    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> y = np.where(X[:, 0] > 0, "up", "down")
    >>> model = GuardedClassifier(LogisticRegression()).fit(X, y)
    >>> model.predict([[0.9]]).tolist(), model.guard_.switched
    (['up'], False)
    >>> reversed_y = np.where(y == "up", "down", "up")  # the world changes
    >>> for t in range(10):
    ...     guess = model.predict(X[t : t + 1])  # act on this
    ...     model = model.observe(reversed_y[t])
    >>> model.guard_.events[0].step, model.predict(X[:1]).tolist()
    (4, ['up'])
    """

    def __init__(self, model: Any, guard: Guard | None = None, floor: float = 0.0) -> None:
        self.model = model
        self.guard = guard
        self.floor = floor

    def fit(self, X: Any, y: Any, **fit_params: Any) -> "GuardedClassifier":
        """Train a clone of the model (with ``fit_params``) and open a guard that has seen nothing."""
        if not hasattr(self.model, "predict_proba"):
            raise ValueError(f"model must have predict_proba, got {inputs.shown(self.model)}")
        model = clone(self.model).fit(X, y, **fit_params)
        guard = guard_of(self.guard, model.classes_.tolist())
        labels = Labels(labels_of(guard.problem, model.classes_.tolist(), stated=False), self.floor)
        self.model_, self.guard_, self._labels = model, guard, labels
        knows_all = len(model.classes_) == len(labels.labels)
        self.classes_ = model.classes_ if knows_all else np.unique(np.array(labels.labels))
        self.states_ = labels.states(self.classes_.tolist())
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        return self

    # A step

    def predict(self, X: Any, id: Any = None, **side: Any) -> np.ndarray:
        """The guard's action for each row, where its actions are the labels; else the likeliest class.

        ``side``: what else ``Guard.advise`` takes, one for each row: ``context``, ``scale``, ``payoffs``, and
        ``references`` as a dict of probabilities ``[N, K]`` in the order of ``classes_``.
        """
        found, played = self._ask(X, id, side), self._labels.played(self.guard_.problem)
        if played is None:
            return self.classes_[found.probs_NxS[:, self.states_].argmax(axis=1)]
        return np.array(played, dtype=self.classes_.dtype)[found.action_N]

    def predict_proba(self, X: Any, id: Any = None, **side: Any) -> np.ndarray:
        """The distribution that is acted on, ``[N, K]`` in the order of ``classes_``; the rest as in ``predict``.

        Until an alarm it is the model's. A policy that is played after one answers none: it is then for information.
        """
        return self._ask(X, id, side).probs_NxS[:, self.states_]

    def policy(self, X: Any, id: Any = None, **side: Any) -> np.ndarray:
        """The mixed actions ``[N, A]`` that the certificate is about; the rest as in ``predict``."""
        return self._ask(X, id, side).policy_NxA

    def _ask(self, X: Any, id: Any, side: dict[str, Any]) -> steps.Answers:
        check_is_fitted(self, "guard_", msg=_NOT_FITTED)
        labels, names = self._labels, self.model_.classes_.tolist()
        probs_NxS = labels.floored(labels.forecasts(self.model_.predict_proba(X), names, "predict_proba(X)"))
        for name, given in side.items():
            if name not in steps.SIDE:
                raise TypeError(f"{name} is none of what may be given beside the rows: {', '.join(steps.SIDE)}")
            if name == "references":
                order = self.classes_.tolist()
                each = {who: inputs.numbers_of(probs, name, "probabilities [N, K]") for who, probs in given.items()}
                side[name] = {who: labels.forecasts(probs_NxK, order, name) for who, probs_NxK in each.items()}
            elif np.ndim(given) == 0:
                side[name] = [given]
            elif len(given) != len(probs_NxS):
                raise ValueError(f"{name} must be one for each row, {len(probs_NxS)} of them, got {given!r}")
        return steps.ask(self.guard_, {"forecast": probs_NxS, **side}, id)

    def observe(self, y: Any, *, id: Any = None, action: Any = None) -> "GuardedClassifier":
        """Labels: of the rows with these ids, or of those that have waited longest. No model is trained.

        ``action`` is what was done on each row, by its position or name in ``guard_.problem.actions``:
        ``guard_.realised_regret`` needs it. All labels count, or none where something is refused.
        """
        check_is_fitted(self, "guard_", msg=_NOT_FITTED)
        states = self._labels.states(column_or_1d(np.atleast_1d(np.asarray(y))).tolist()).tolist()
        taken = [None] * len(states)
        if action is not None:
            names = self.guard_.problem.action_names
            taken = actions_of(names, np.atleast_1d(action), "action", shape=(len(states),)).tolist()
        with self.guard_.lock:
            numbers = steps.waiting(self.guard_, id, len(states))
            for number, state, act in zip(numbers, states, taken, strict=True):
                if number:
                    self.guard_.observe(Positions(state), act, step=number)
        return self

    def skip(self, *, id: Any = None) -> "GuardedClassifier":
        """Give up the label of a row; as ``Guard.skip``, before anyone could know it."""
        check_is_fitted(self, "guard_", msg=_NOT_FITTED)
        self.guard_.skip(*steps.waiting(self.guard_, id))
        return self

    # What scikit-learn asks

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.model)
        tags.input_tags, tags.classifier_tags = inner.input_tags, inner.classifier_tags
        return tags
