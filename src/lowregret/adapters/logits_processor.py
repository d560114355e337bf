"""Algorithm 1 inside ``generate``: a language model that writes states, robust while it writes them."""

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import to_numpy
from ..engine import Engine, Inputs
from ..guard.events import Alarm, announce
from ..robust import Robust
from .hugging_face import HFPredictor
from .state_logits import forecasts_of, not_training

try:
    import torch
    from torch import Tensor
    from transformers import LogitsProcessor
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"RobustLogitsProcessor needs {error.name}: pip install 'lowregret[hf]'", name=error.name
    ) from error


_ENDED = -1  # in place of the position within a separator: the row has ended, and is padded from there on


class Decided(NamedTuple):
    """Who decided the states of one written sequence."""

    steps: int  # states that were written
    share: float  # the part of them that the model itself decided; after a switch, by its weight in what was played
    switched_at: int | None  # states seen when it was switched away from; None for never


class RobustLogitsProcessor(LogitsProcessor):
    """Hand it to ``generate(..., logits_processor=LogitsProcessorList([it]))``: the model then writes robust states.

    What it returns is a function of ``input_ids`` and ``scores``: the history is read from the tokens at every call, so
    rows may be reordered (beams), repeated, padded on the left, dropped or come back later. A history whose beginning
    it has not seen is read by the model once, in one pass of ``robust.base``. Only states and separators are written.
    Rows that end early (a state for EOS, a stopping criterion) are padded.

    It must come first among processors that change scores: temperature and the like then act on the robust forecast.
    With a separator, beams must not be sampled: ``generate`` would take tokens of probability 0, which is refused.
    After further training of the model, make a new one.

    Parameters
    ----------
    robust
        ``robustify(HFPredictor(...), problem, horizon)``.
    pad_token_id
        What pads shorter rows on the left; by default the tokenizer's or the model's.
    keep
        How many histories are remembered; older ones are read again when they return.
    on_event
        Called with an ``Alarm`` whenever a history is first seen to have one; its ``stream`` is the row.

    >>> import transformers
    >>> from lowregret import HFPredictor, matching, robustify
    >>> config = transformers.GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=2, n_positions=64, bos_token_id=0)
    >>> model = transformers.GPT2LMHeadModel(config).eval()
    >>> writes = RobustLogitsProcessor(robustify(HFPredictor(model, [3, 5], prompt=[7]), matching(), horizon=20))
    >>> scores = writes(torch.tensor([[7]]), torch.zeros((1, 9)))
    >>> scores.exp().round(decimals=2).tolist()
    [[0.0, 0.0, 0.0, 0.5, 0.0, 0.5, 0.0, 0.0, 0.0]]
    """

    def __init__(
        self,
        robust: Robust,
        *,
        pad_token_id: int | None = None,
        keep: int = 4096,
        on_event: Callable[[Any], object] | None = None,
    ) -> None:
        if not isinstance(robust, Robust) or not isinstance(robust.base, HFPredictor):
            raise ValueError(
                f"robust must be robustify(HFPredictor(...), problem, horizon), got {inputs.shown(robust)}"
            )
        self.robust, self.on_event = robust, on_event
        self._states = states = robust.base.states
        self._ids_S, self._before, self._separator = (
            to_numpy(part.cpu()) for part in (states.token_ids, states.before, states.separator)
        )
        base = robust.base
        for owner in (base.tokenizer, base.model.generation_config, base.model.config):
            pad_token_id = getattr(owner, "pad_token_id", None) if pad_token_id is None else pad_token_id
        if pad_token_id in self._ids_S.tolist():
            raise ValueError(f"pad_token_id {pad_token_id} is one of the states: it cannot pad rows, too")
        self.pad_token_id = pad_token_id
        self._histories = Histories(robust, inputs.whole(keep, "keep"))

    @property
    def rebuilt(self) -> int:
        """How many histories the model had to read, because their beginning was not known."""
        return self._histories.rebuilt

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Scores whose softmax is the robust forecast over the states, or the separator where that is due."""
        rows = to_numpy(input_ids.cpu())
        not_training(self._states.module, "model")
        read = [self._read_or_ended(row, i) for i, row in enumerate(rows)]
        due = [i for i, (_, within) in enumerate(read) if within == 0]
        out = torch.full_like(scores, -math.inf)
        if due:
            ids_S = self._states.token_ids.to(scores.device)
            own_MxS = forecasts_of(scores.index_select(1, ids_S)[due].double())  # never all columns
            logs_MxS = torch.as_tensor(self._robust([read[i][0] for i in due], to_numpy(own_MxS.cpu()), due)).log()
            due_M = torch.tensor(due, device=scores.device)
            out[due_M[:, None], ids_S] = logs_MxS.to(out)
        for i, (_, within) in enumerate(read):
            if within == _ENDED:
                out[i, self.pad_token_id] = 0.0
            elif within:
                out[i, int(self._separator[within - 1])] = 0.0
        return out

    def decided(self, sequences: Tensor) -> list[Decided]:
        """For each written sequence (what ``generate`` returned): how many of its states the model itself decided."""
        rows_BxL = to_numpy(sequences.cpu())
        read = [self._read_or_ended(row, i, returned=True)[0] for i, row in enumerate(rows_BxL)]
        found: dict[int, Decided] = {}
        for rows, states_NxT in _by_length(read):
            after, T = self._histories.after(states_NxT), states_NxT.shape[1]
            self._tell(after, self._histories.remember(states_NxT, after), rows)
            for i, one, at in zip(rows, after, self._histories.alarms(after), strict=True):
                found[i] = Decided(T, one.decided / T if T else 1.0, at or None)
        return [found[i] for i in range(len(read))]

    def _read_or_ended(self, row: np.ndarray, i: int, returned: bool = False) -> tuple[np.ndarray, int]:
        """``_read``; for a row that has ended, what was written before its padding.

        Unless ``generate`` has ``returned`` it, only a row whose last state was asked for here can have ended: any
        other was padded on the wrong side.
        """
        try:
            return self._read(row, i)
        except ValueError as error:
            kept = 1 + np.flatnonzero(row != self.pad_token_id)[-1:]
            if self.pad_token_id is None or not 0 < kept.sum() < len(row):
                raise
            try:
                states, _ = self._read(row[: kept[0]], i)
            except ValueError:
                raise error from None
            if not returned and not self._histories.wrote(states):
                raise
            return states, _ENDED

    def _read(self, row: np.ndarray, i: int) -> tuple[np.ndarray, int]:
        """The states written so far, and how many tokens of a last one whose separator is unfinished."""
        P, before, pads = len(self._before), self._before, 0
        if self.pad_token_id is not None:
            pads = int(np.cumprod(row == self.pad_token_id).sum())
        # The prompt may itself begin with what pads: the last place where it fits is where it is.
        places = (p for p in range(min(pads, len(row) - P), -1, -1) if np.array_equal(row[p : p + P], before))
        place = next(places, None)
        if place is None:
            raise ValueError(
                f"input_ids of row {i} do not begin with the prompt of {P} tokens, after {pads} of padding: the "
                "history was cut, or it is another prompt. A test that has not seen the beginning cannot go on"
            )
        rest, step = row[place + P :], 1 + len(self._separator)
        is_state_TxS = rest[::step, None] == self._ids_S
        strange = np.flatnonzero(~is_state_TxS.any(axis=1))
        if len(strange):
            where = place + P + int(strange[0]) * step
            raise ValueError(
                f"input_ids of row {i} have token {row[where]} at {where}, where a state belongs; padding belongs on "
                "the left"
            )
        if not all((rest[k::step] == token).all() for k, token in enumerate(self._separator, start=1)):
            raise ValueError(f"input_ids of row {i} lack the separator {self._separator.tolist()} between two states")
        return is_state_TxS.argmax(axis=1), len(rest) % step

    def _robust(self, states: list[np.ndarray], probs_NxS: np.ndarray, rows: list[int]) -> np.ndarray:
        """The robust forecasts after these states, where those of the model itself are ``probs_NxS``."""
        robust_NxS = np.empty_like(probs_NxS)
        self.robust.within_horizon(1 + max(map(len, states)))  # before anything is remembered
        for which, states_MxT in _by_length(states):
            after = self._histories.after(states_MxT)
            robust_NxS[which] = self._histories.in_force(after, probs_NxS[which])
            news = self._histories.remember(states_MxT, after, probs_NxS[which])
            self._tell(after, news, [rows[i] for i in which])
        return robust_NxS

    def _tell(self, found: list["History"], news: list[int], rows: list[int]) -> None:
        if not news:
            return
        engine, steps = self._histories.engine, self._histories.alarms(found)
        evidence = engine.evidence(rows_of(found)).tolist()
        announce(tuple(Alarm(rows[n], steps[n], steps[n], evidence[n], engine.needed) for n in news), self.on_event)


def _by_length(states: list[np.ndarray]) -> list[tuple[list[int], np.ndarray]]:
    """Which of the histories have one length, and these side by side; the shortest first."""
    rows: dict[int, list[int]] = {}
    for i, states_T in enumerate(states):
        rows.setdefault(len(states_T), []).append(i)
    return [(which, np.stack([states[i] for i in which])) for _, which in sorted(rows.items())]


# What the engine remembers of histories that come in any row, order and batch (Algorithm 1), found by their states.


class History(NamedTuple):
    """One history."""

    row_W: np.ndarray  # what the engine remembers of it
    decided: float  # of its states so far, how many the model itself decided
    probs_S: np.ndarray | None = None  # the model's forecast of the next; None where it was not asked


class Histories:
    """The last ``keep`` histories, looked up as a whole and never by row.

    One whose beginning is not known is read again, by the base model in one pass.
    """

    def __init__(self, robust: Robust, keep: int) -> None:
        self.engine, self.base, self.keep = Engine(robust.setting), robust.base, keep
        self.held: OrderedDict[bytes, History] = OrderedDict()
        self.rebuilt = 0

    def after(self, states_NxT: np.ndarray) -> list[History]:
        """What is remembered after the states: from the forecast of the last one, else from the model."""
        # From its beginning even where a history is known itself: the model may have been asked again since.
        parents = [self._asked_after(row[:-1]) if len(row) else None for row in states_NxT]
        begun = [i for i, parent in enumerate(parents) if parent is not None]
        found = dict(zip(begun, self._advanced([parents[i] for i in begun], states_NxT[begun, -1:]), strict=True))
        read: dict[bytes, History] = {}  # the same history may stand in several rows
        for i, row in enumerate(states_NxT):
            if i not in found:
                key = row.tobytes()
                found[i] = read[key] = self.held.get(key) or read.get(key) or self._read(row)
        return [found[i] for i in range(len(parents))]

    def in_force(self, found: list[History], probs_NxS: np.ndarray) -> np.ndarray:
        """The forecast in force ``[N, S]``, where that of the model is ``probs_NxS``."""
        if not any(self.alarms(found)):
            return probs_NxS
        step = self.engine.advise(rows_of(found), 1, Inputs(probs_NxS))
        return np.where(step.in_force_N[:, None], step.mixture_NxS, probs_NxS)

    def alarms(self, found: list[History]) -> list[int]:
        """How many states each had when its alarm was raised; 0 for never."""
        return [int(at) for at in self.engine.head.open(rows_of(found)).alarm]

    def remember(self, states_NxT: np.ndarray, found: list[History], probs_NxS: np.ndarray | None = None) -> list[int]:
        """Keep them, with the forecasts of what follows; returns the rows whose alarm is new."""
        news = []
        for i, (row, at) in enumerate(zip(states_NxT, self.alarms(found), strict=True)):
            key = row.tobytes()
            fresh = key not in self.held
            if fresh and at and (at == len(row) or row[:-1].tobytes() not in self.held):
                news.append(i)
            if fresh or probs_NxS is not None:
                self.held[key] = found[i]._replace(probs_S=None if probs_NxS is None else probs_NxS[i])
            self.held.move_to_end(key)
        while len(self.held) > self.keep:
            self.held.popitem(last=False)
        return news

    def wrote(self, states_T: np.ndarray) -> bool:
        """Whether the last of these states was asked for here; if so, its forecast is kept a while longer."""
        if len(states_T) == 0 or self._asked_after(states_T[:-1]) is None:
            return False
        self.held.move_to_end(states_T[:-1].tobytes())
        return True

    def _asked_after(self, states_T: np.ndarray) -> History | None:
        """A history that is held together with the forecast of what follows."""
        found = self.held.get(states_T.tobytes())
        return None if found is None or found.probs_S is None else found

    def _advanced(self, before: list[Any], state_Nx1: np.ndarray) -> list[History]:
        """One more state each."""
        if not before:
            return []
        rows_NxW = rows_of(before)
        step = self.engine.advise(rows_NxW, 1, Inputs(np.stack([one.probs_S for one in before])))
        after_NxW, _ = self.engine.observe(rows_NxW, 1, step, state_Nx1[:, 0])
        own_N = [one.decided for one in before] + self.engine.share(rows_NxW)
        return [History(row_W, own) for row_W, own in zip(after_NxW, own_N.tolist(), strict=True)]

    def _read(self, states_T: np.ndarray) -> History:
        """Everything again from the tokens: one pass of the model over all of them."""
        rows_1xW = self.engine.start(1)
        if len(states_T) == 0:
            return History(rows_1xW[0], 0.0)
        self.rebuilt += 1
        laws_TxS = np.asarray(to_numpy(self.base.predict_sequence(states_T)), dtype=np.float64)
        played = self.engine.run(rows_1xW, Inputs(laws_TxS[None]), states_T[None])
        return History(played.rows[0], float(played.share_NxT.sum()))


def rows_of(found: list[History]) -> np.ndarray:
    return np.stack([one.row_W for one in found])
