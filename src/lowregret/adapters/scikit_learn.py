"""Any classifier with ``predict_proba``, guarded, as a scikit-learn estimator (Algorithm 1, live)."""

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..certificates import Certificate
from ..guard import Event, Guard
from ..guard.asked import MOST, Asked, AskedRows, ids_of
from ..problems import DecisionProblem, Names, Positions, actions_of
from .labels import (
    floor_of,
    floored,
    guard_of,
    keys_of,
    of_a_classifier,
    one_each,
    only_scaled,
    references_of,
    refuse_lawless,
    refuse_unordered,
    stakes,
    states_of,
)

# A guard over recorded laws, step by step, and a record of what it did.


class WalkForward(NamedTuple):
    """What ``GuardedClassifier.walk_forward`` did on the N rows after the first training part, in time order.

    Columns are the problem's states and actions in their order: ``backtest(problem, model_probs_NxS, Positions(states),
    **told)`` gives the table of money for the same rows.
    """

    problem: DecisionProblem
    start: int  # the first guarded row
    refits: tuple[int, ...]  # the rows before which the model was fitted
    states: np.ndarray  # [N], what came
    model_probs_NxS: np.ndarray  # what the model said
    probs_NxS: np.ndarray  # what to act on; where a policy is played after a switch, for information
    policy_NxA: np.ndarray  # the mixed action that the certificate speaks of
    payoffs: np.ndarray  # [N], what it earned on average, in the problem's units
    share: np.ndarray  # [N], how much of it was the model's: 1 until a switch
    events: tuple[Event, ...]
    certificate: Certificate
    told: dict[str, Any]  # what else was known of the rows, as ``backtest`` takes it

    @property
    def used_fallback(self) -> np.ndarray:
        """``[N]``, where the answer was not the model's alone."""
        return self.share < 1


def walked(guard: Guard, rows: AskedRows, states: np.ndarray, start: int, refits: tuple[int, ...]) -> WalkForward:
    """Take the guard through the rows, one step each, with labels as late as its lag; it ends after the last row."""
    problem, n, lag = guard.problem, len(states), guard.lag
    assert problem is not None
    probs_NxS, policy_NxA, share = np.empty(rows.laws_NxS.shape), np.empty((n, problem.n_actions)), np.empty(n)
    for row in range(n):
        advice = guard.advise(**rows.said(row))
        probs_NxS[row], policy_NxA[row], share[row] = advice.law, advice.policy, advice.share
        if row + 1 >= lag:
            guard.observe(Positions(states[row + 1 - lag]))
    for state in states[max(0, n + 1 - lag) :]:
        guard.observe(Positions(state))
    payoffs = problem.in_payoffs((policy_NxA * problem.utility[:, states].T).sum(axis=1))
    return WalkForward(
        problem,
        start,
        refits,
        states,
        rows.laws_NxS,
        probs_NxS,
        policy_NxA,
        payoffs * rows.told.get("scale", 1.0),
        share,
        tuple(guard.events),
        guard.certificate,
        _as_recorded(guard, rows.told),
    )


def _as_recorded(guard: Guard, told: dict[str, np.ndarray]) -> dict[str, Any]:
    """What else was known of the rows, as arguments of a backtest."""
    found: dict[str, Any] = {"contexts" if name == "context" else name: part for name, part in told.items()}
    if "references" in told:
        assert guard.rule.knows is not None
        found["references"] = dict(zip(guard.rule.knows.references, np.moveaxis(told["references"], 1, 0), strict=True))
    return found


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

    ``fit`` trains the model and opens a guard; ``predict_proba``, ``predict`` and ``policy`` answer for the next step;
    ``observe`` gives the label of a row that was asked, and judges what was said and played then. ``walk_forward`` does
    all of it on recorded rows, with refits. Rows must be in time order: do not shuffle.

    Parameters
    ----------
    estimator
        Any object with ``predict_proba``. It is cloned and fitted; one without ``fit`` is used as it is.
    problem
        What is at stake; to guess the label by default. Its states are the classes: by name where the names are the
        same (``problems.Names``), by sorted order where the problem names none (labels that are numbers only if none of
        them is the number of another state), else as ``classes`` says. In ``problem_`` states without names get those
        of the classes.
    horizon
        The most outcomes that will be observed after ``fit``, where that is known: it sharpens the certificate. In
        ``walk_forward`` it is the number of guarded rows by default; a ``rule`` has its own.
    classes
        The labels in the order of the problem's states, including those that no training row has.
    rule, fallback, temperature
        As in ``Guard``.
    references
        Other models by name, fitted already, whose ``predict_proba`` is asked of the same rows: what runs today, so
        that the guard is never much worse. They are not trained here.
    contexts
        How many contexts there are, to compare with one fixed action for each; ``context`` says in which a row is.
    payoffs
        "scaled": a row may count less than the problem says; ``scale`` says how much, above 0 and at most 1.
    context, scale
        Where to read them in a row: the name or number of a column, or a function of one row. Or give them beside the
        rows when they are asked.
    on_event
        Called with each event of the guard, as in ``Guard``.
    lag
        How many rows may wait for their labels, as in ``Guard``: 1, the label of each comes before the next is asked.
        Above that rows are asked with an ``id``, under which the label comes later.
    floor
        How much of the uniform law is mixed into every law. A model that gives a label probability 0 (trees do) is
        switched off by the first row with that label; 0.01 prevents that.

    After ``fit``: ``estimator_``, ``classes_``, ``states_`` (the state of each class), ``problem_``, ``guard_``, and
    what can be read off it: ``switched_``, ``events_``, ``certificate_``.

    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> y = np.where(X[:, 0] > 0, "up", "down")
    >>> model = GuardedClassifier(LogisticRegression(), horizon=200).fit(X, y)
    >>> model.predict([[0.9]]).tolist(), model.switched_
    (['up'], False)
    >>> turned = np.where(y == "up", "down", "up")  # the world turns round
    >>> for t in range(10):
    ...     mixed = model.policy(X[t : t + 1])  # act on this
    ...     model = model.observe(X[t : t + 1], turned[t : t + 1])
    >>> model.switched_, model.events_[0].step
    (True, 4)
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
        lag: int = 1,
        references: dict[str, Any] | None = None,
        contexts: int | None = None,
        context: Any = None,
        payoffs: str | None = None,
        scale: Any = None,
        on_event: Callable[[Event], Any] | None = None,
        floor: float = 0.0,
    ) -> None:
        self.estimator = estimator
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
        self.floor = floor

    # Before the first outcome

    def fit(self, X: Any, y: Any, **fit_params: Any) -> "GuardedClassifier":
        """Train a clone of the model on all rows (with ``fit_params``) and open a guard that has seen nothing."""
        y = self._known(y, X)
        fresh = self._opened(y, self.horizon)
        return self._become(fresh._trained(X, y, **fit_params))

    def _opened(self, y: np.ndarray, horizon: int | None) -> "GuardedClassifier":
        """A clone with its problem, classes and guard, but without a model yet."""
        seen = np.unique(y)
        fresh = copy(self)
        floor_of(self.floor)
        fresh.problem_, labels = stakes(self.problem, self.rule, self.classes, self.fallback, seen.tolist())
        fresh.guard_ = guard_of(
            fresh.problem_,
            horizon,
            self.rule,
            fallback=self.fallback,
            temperature=self.temperature,
            lag=self.lag,
            references=tuple(references_of(self.references, "predict_proba")),
            contexts=self.contexts,
            payoffs=only_scaled(self.payoffs),
            on_event=self.on_event,
        )
        fresh._asked = Asked(fresh.guard_)
        fresh.classes_ = seen if len(seen) == len(labels) else np.unique(np.asarray(labels))
        fresh._names = Names(labels, "labels")
        fresh.states_ = states_of(fresh.classes_.tolist(), fresh._names)
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
        """Take over what another has learned in one assignment: all of it or nothing."""
        self.__dict__ = other.__dict__
        return self

    # The next step

    def predict_proba(self, X: Any, id: Any = None, *, context: Any = None, scale: Any = None) -> np.ndarray:
        """The laws to act on now, ``[N, K]`` in the order of ``classes_``: the model's, after a switch the fallback's.

        Every row is answered for the next step, whatever the others are. With an ``id``, or a list of one per row, it
        is taken to be played: rows are then steps in this order, and the label of each comes by ``observe(y, id=...)``.
        The answer to an id that waits for its label does not change. ``context`` and ``scale`` are one per row, where
        the rows do not say. With references, contexts or payoffs, what is played after a switch answers no law: this
        one is then for information, and ``policy`` is what counts.
        """
        rows = self._rows(X, context, scale)
        refuse_lawless(self.guard_, "predict_proba", "policy(X)")
        return self._answered(self._asked.laws, X, rows, id)[:, self.states_]

    def predict(self, X: Any, id: Any = None, *, context: Any = None, scale: Any = None) -> np.ndarray:
        """The likeliest class of each row under ``predict_proba``."""
        chosen_N = self.predict_proba(X, id, context=context, scale=scale).argmax(axis=1)
        return self.classes_[chosen_N]

    def policy(self, X: Any, id: Any = None, *, context: Any = None, scale: Any = None) -> np.ndarray:
        """The mixed actions ``[N, A]`` that the certificate speaks of; the rest as in ``predict_proba``."""
        return self._answered(self._asked.policies, X, self._rows(X, context, scale), id)

    def _answered(self, answers: Callable[..., np.ndarray], X: Any, rows: AskedRows, id: Any) -> np.ndarray:
        ids = None if id is None else ids_of(id, len(rows.laws_NxS))
        return of_a_classifier(lambda: answers(keys_of(X, MOST if ids is None else len(ids)), rows, ids))

    def _rows(self, X: Any, context: Any = None, scale: Any = None) -> AskedRows:
        """All that is known of each row before its label."""
        check_is_fitted(self, "guard_", msg=_NOT_FITTED)
        laws_NxS = floored(self._laws(self.estimator_, X, "estimator"), self.floor)
        told, n = {}, len(laws_NxS)
        if self.references:
            said = [self._laws(model, X, f"references[{name!r}]") for name, model in self.references.items()]
            told["references"] = np.stack(said, axis=1)
        for name, given, own in (("context", context, self.context), ("scale", scale, self.scale)):
            if given is not None or own is not None:
                told[name] = one_each(_read(X, n, own) if given is None else given, n, name)
        return AskedRows(laws_NxS, told)

    def _laws(self, model: Any, X: Any, name: str) -> np.ndarray:
        """What a model says of each row, ``[N, S]`` in the order of the states."""
        said_NxK = np.asarray(model.predict_proba(X), dtype=np.float64)
        said = getattr(model, "classes_", self.classes_)
        columns = states_of(np.asarray(said).tolist(), self._names, f"{name}.classes_")
        if said_NxK.shape != (_num_samples(X), len(columns)):
            raise ValueError(
                f"{name}.predict_proba(X) must have shape {(_num_samples(X), len(columns))}, got {said_NxK.shape}"
            )
        laws_NxS = np.zeros((len(said_NxK), self.problem_.n_states))
        laws_NxS[:, columns] = said_NxK
        return inputs.probs_of(laws_NxS, laws_NxS.shape[1], f"{name}.predict_proba(X)")

    # What came

    def observe(self, X: Any, y: Any = None, action: Any = None, *, id: Any = None) -> "GuardedClassifier":
        """Give the label of a row that was asked: the guard judges what was said and played then. No model is trained.

        ``observe(X, y)``: one row, which was asked since the label before. ``observe(y, id=...)``: rows that were asked
        with these ids, in any order; all of them count, or none where something is refused. ``action`` optionally says
        which was taken on each row, by its position in ``problem_.actions`` or by name: ``guard_.realised_regret``
        needs it.
        """
        check_is_fitted(self, "guard_", msg=_NOT_FITTED)
        if id is not None:
            X, y = (None, X) if y is None else (X, y)
            y = np.atleast_1d(np.asarray(y))
            check_consistent_length(X, y)
        y = self._known(y, X if id is None else y)  # with ids they come in any order
        states = states_of(y.tolist(), self._names).tolist()
        taken = [None] * len(y)
        if action is not None:
            acted = actions_of(self.problem_.action_names, np.atleast_1d(action), "action", shape=(len(y),))
            taken = acted.tolist()
        if id is not None:
            self._asked.label_steps(ids_of(id, len(y)), states, taken, None if X is None else keys_of(X, len(y)))
        elif len(y) != 1 or not self._asked.label(keys_of(X, 1)[0], "X", states[0], taken[0]):
            raise ValueError(
                "X must be one row, which predict_proba, predict or policy was asked of since the label before, got "
                f"{'a row that was not' if len(y) == 1 else len(y)}: what was not played is not judged. Rows that wait "
                "together need lag= and ids, recorded rows go through walk_forward(X, y)"
            )
        return self

    def skip(self, *, id: Any = None) -> "GuardedClassifier":
        """Give up a label (as ``Guard.skip``, before anyone could know it); without an id forget what had none."""
        check_is_fitted(self, "guard_", msg=_NOT_FITTED)
        self._asked.skip(None if id is None else ids_of(id, len(id) if isinstance(id, list) else 1))
        return self

    @property
    def switched_(self) -> bool:
        """Whether it has switched (in this episode); ``guard_.share`` says how much of the model is left in force."""
        return self._open().switched

    @property
    def events_(self) -> list[Event]:
        """Every switch so far, and every return to the model."""
        return self._open().events

    @property
    def certificate_(self) -> Certificate:
        """What is guaranteed of ``policy`` over the horizon."""
        return self._open().certificate

    def _open(self) -> Guard:
        check_is_fitted(self, "guard_", msg=_NOT_FITTED)
        return self.guard_

    # Recorded rows

    def walk_forward(
        self,
        X: Any,
        y: Any,
        *,
        train: int,
        refit_every: int | None = None,
        window: int | None = None,
        context: Any = None,
        scale: Any = None,
    ) -> WalkForward:
        """Train on the first ``train`` rows, act on the rest in time order, and learn what came after each.

        The guard goes on through the refits. Afterwards the classifier is in its state after the last row, ready for
        the next if its horizon is longer than the recording. Only the set of labels is taken from all rows. With a
        ``lag`` each label comes that late, to the guard and to the refits.

        Parameters
        ----------
        refit_every
            After how many rows the model is trained again, on all rows so far; None is never.
        window
            Train on at most this many rows, the last ones.
        context, scale
            One for each row of X, where the rows do not say.
        """
        y = self._known(y, X)
        train = inputs.whole(train, "train", least=inputs.whole(self.lag, "lag"), most=len(y) - 1)
        every = len(y) if refit_every is None else inputs.whole(refit_every, "refit_every")
        reach = len(y) if window is None else inputs.whole(window, "window")
        own = self.horizon is not None or self.rule is not None
        now = self._opened(y, self.horizon if own else len(y) - train)
        beside = {"context": context, "scale": scale}
        beside = {name: one_each(part, len(y), name) for name, part in beside.items() if part is not None}
        states, refits, said = states_of(y.tolist(), now._names)[train:], range(train, len(y), every), []
        for start in refits:
            known = start - now.guard_.lag + 1  # whose labels have come by then
            since = max(0, known - reach)
            now = now._trained(_safe_indexing(X, slice(since, known)), y[since:known])
            block = slice(start, min(start + every, len(y)))
            said.append(now._rows(_safe_indexing(X, block), **{name: part[block] for name, part in beside.items()}))
        laws_NxS = np.concatenate([rows.laws_NxS for rows in said])
        told = {name: np.concatenate([rows.told[name] for rows in said]) for name in said[0].told}
        found = walked(now.guard_, AskedRows(laws_NxS, told), states, train, tuple(refits))
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
        refuse_unordered(X)
        return y

    def __sklearn_clone__(self) -> "GuardedClassifier":
        """A clone asks the same references, which are fitted already, and reports to the same listener."""
        bare = copy(self)
        bare.references = bare.on_event = None
        fresh = super(GuardedClassifier, bare).__sklearn_clone__()
        fresh.references, fresh.on_event = self.references, self.on_event
        return fresh

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            inner = get_tags(self.estimator)
            tags.input_tags = inner.input_tags
            tags.classifier_tags.multi_class = inner.classifier_tags is None or inner.classifier_tags.multi_class
        return tags


def _read(X: Any, n: int, by: Any) -> np.ndarray:
    """What each row says, ``[N]``: a function of one row, or a column by its name or number."""
    if callable(by):
        return np.array([by(_safe_indexing(X, row)) for row in range(n)])
    table = X if hasattr(X, "shape") else np.asarray(X)
    column = _safe_indexing(table, by, axis=1)
    return column.toarray().ravel() if hasattr(column, "toarray") else np.asarray(column)
