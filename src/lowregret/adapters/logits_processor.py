"""Algorithm 1 inside ``generate``: a language model that writes states, robust while it writes them."""

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import inputs
from ..arrays import to_numpy
from ..guard import Switch
from ..robust import Robust
from ..rules import RuleMemory

try:
    import torch
    from torch import Tensor
    from transformers import LogitsProcessor
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"RobustLogitsProcessor needs {error.name}: pip install 'lowregret[hf]'", name=error.name
    ) from error

from ..guard.ledger import LOG
from .hugging_face import HFPredictor
from .state_logits import laws_of


class Decided(NamedTuple):
    """Who decided the states of one written sequence."""

    steps: int  # states that were written
    share: float  # of them that the model itself decided; after a switch by its weight in what was played
    switched_at: int | None  # states seen when it was switched away from; None for never


class _Held(NamedTuple):
    """Of one history: what the rule remembers after it, what the model said next, what it has decided so far."""

    memory: RuleMemory
    law_S: np.ndarray | None  # None while it is not kept
    decided: float


class RobustLogitsProcessor(LogitsProcessor):
    """Hand it to ``generate(..., logits_processor=LogitsProcessorList([it]))``: the model then writes robust states.

    What it returns is a function of ``input_ids`` and ``scores``: the history is read from the tokens at every call, so
    rows may be reordered (beams), repeated, padded on the left, dropped or come back later. What the rule remembers of
    a history is kept, looked up by the whole history and never by its row; a history of which it knows no beginning
    (writing goes on from recorded states) is read by the model once, in one pass of ``robust.base``. Between states it
    forces the separator; nothing but states and separators is ever written. It must come first among processors that
    change scores: temperature and the like, which ``generate`` applies afterwards, then act on the robust law.

    Parameters
    ----------
    robust
        ``robustify(HFPredictor(...), problem, horizon)``.
    pad_token_id
        What pads shorter rows on the left; by default the tokenizer's or the model's.
    keep
        How many histories are remembered; older ones are read again when they return.
    on_switch
        Called with a ``Switch`` whenever a history is first seen to switch; its ``stream`` is the row.

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
        on_switch: Callable[[Switch], Any] | None = None,
    ) -> None:
        if not isinstance(robust, Robust) or not isinstance(robust.base, HFPredictor):
            base = f" of {type(robust.base).__name__}" if isinstance(robust, Robust) else ""
            raise ValueError(
                f"robust must be robustify(HFPredictor(...), problem, horizon), got {type(robust).__name__}{base}"
            )
        self.robust, self.rule = robust, robust.rule
        states = robust.base.states
        self._ids_S, self._before, self._separator = (
            to_numpy(part.cpu()) for part in (states.token_ids, states.before, states.separator)
        )
        self._state_of = {int(token): state for state, token in enumerate(self._ids_S)}
        self.pad_token_id = self._pad(pad_token_id)
        self.keep = inputs.whole(keep, "keep")
        self.on_switch = None if on_switch is None else inputs.function(on_switch, "on_switch", "a Switch")
        self._held: OrderedDict[bytes, _Held] = OrderedDict()
        self.rebuilt = 0  # histories that the model had to read, because nothing was known of their beginning

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Scores whose softmax is the robust law over the states, or the separator where that is due."""
        rows = to_numpy(input_ids.cpu())
        if scores.ndim != 2 or len(scores) != len(rows):
            raise ValueError(f"scores must be one row for each of {len(rows)} sequences, got {tuple(scores.shape)}")
        read = [self._read(row, i) for i, row in enumerate(rows)]
        due = [i for i, (_, within) in enumerate(read) if within == 0]
        out = torch.full_like(scores, -math.inf)
        if due:
            said = laws_of(scores[due][:, torch.as_tensor(self._ids_S, device=scores.device)], "the model")
            laws_NxS = said.double().cpu().numpy()
            robust_NxS = np.stack([self._law(read[i][0], law_S, i) for i, law_S in zip(due, laws_NxS, strict=True)])
            with np.errstate(divide="ignore"):
                logs = torch.as_tensor(np.log(robust_NxS), dtype=scores.dtype, device=scores.device)
            for state, token in enumerate(self._ids_S):
                out[due, int(token)] = logs[:, state]
        for i, (_, within) in enumerate(read):
            if within:
                out[i, int(self._separator[within - 1])] = 0.0
        return out

    def decided(self, sequences: Tensor) -> list[Decided]:
        """Of each written sequence (what ``generate`` returned): how many of its states the model itself decided."""
        found = []
        for i, row in enumerate(to_numpy(sequences.cpu())):
            states, _ = self._read(row, i)
            held = self._after(states, i)
            share = held.decided / len(states) if len(states) else 1.0
            found.append(Decided(len(states), share, int(held.memory.tripped_at) or None))
        return found

    # What is in a row

    def _read(self, row: np.ndarray, i: int) -> tuple[np.ndarray, int]:
        """The states written so far, and how much is there already of a last one with its separator."""
        P, before = len(self._before), self._before
        pads = 0
        if self.pad_token_id is not None:
            others = np.flatnonzero(row != self.pad_token_id)
            pads = int(others[0]) if len(others) else len(row)
        # The prompt may itself begin with what pads: the last place where it fits is where it is.
        places = (p for p in range(min(pads, len(row) - P), -1, -1) if np.array_equal(row[p : p + P], before))
        place = next(places, None)
        if place is None:
            raise ValueError(
                f"input_ids of row {i} do not begin with the prompt of {P} tokens"
                + ("" if pads == 0 else f" after {pads} of padding")
                + ": the history was cut, or it is another prompt. A rule that has not seen the beginning cannot go on"
            )
        rest, step = row[place + P :], 1 + len(self._separator)
        whole, within = divmod(len(rest), step)
        written = rest[: whole * step].reshape(whole, step)
        begun = rest[whole * step :]
        tokens = [*written[:, 0].tolist(), *begun[:1].tolist()]
        strange = [n for n, token in enumerate(tokens) if token not in self._state_of]
        if strange:
            where, token = place + P + strange[0] * step, tokens[strange[0]]
            raise ValueError(f"input_ids of row {i} have token {token} at {where}, where one of the states belongs")
        apart = (written[:, 1:] == self._separator).all() and np.array_equal(
            begun[1:], self._separator[: max(within - 1, 0)]
        )
        if not apart:
            raise ValueError(f"input_ids of row {i} lack the separator {self._separator.tolist()} between two states")
        return np.array([self._state_of[token] for token in tokens], dtype=np.int64), within

    # What is known of a history

    def _law(self, states: np.ndarray, law_S: np.ndarray, i: int) -> np.ndarray:
        """The robust law after the states, where the model itself says ``law_S``."""
        held = self._after(states, i)
        self.rule.refuse_past_horizon(held.memory)
        key = states.tobytes()
        self._held[key] = held._replace(law_S=law_S)
        self._held.move_to_end(key)
        while len(self._held) > self.keep:
            self._held.popitem(last=False)
        return to_numpy(self.rule.law(held.memory, law_S))

    def _after(self, states: np.ndarray, i: int) -> _Held:
        """What the rule remembers after the states: from what was said before the last one, else from the model."""
        if len(states) == 0:
            return _Held(self.rule.start(), None, 0.0)
        parent, known = self._held.get(states[:-1].tobytes()), self._held.get(states.tobytes())
        # From what came before it even where it is known: the model may have been asked again since.
        held = (known or self._rebuilt(states)) if parent is None else self._advanced(parent, int(states[-1]))
        if known is None and int(held.memory.tripped_at) > 0 and (parent is None or not int(parent.memory.tripped_at)):
            self._tell(held.memory, i)
        return held

    def _advanced(self, held: _Held, state: int) -> _Held:
        assert held.law_S is not None
        memory = self.rule.update(held.memory, held.law_S, np.asarray(state))
        return _Held(memory, None, held.decided + float(self.rule.share(held.memory)))

    def _rebuilt(self, states: np.ndarray) -> _Held:
        """Everything again from the tokens: one pass of the model over all of them."""
        self.rebuilt += 1
        laws_TxS = np.asarray(to_numpy(self.robust.base.predict_sequence(states)), dtype=np.float64)
        held = _Held(self.rule.start(), None, 0.0)
        for state, law_S in zip(states.tolist(), laws_TxS, strict=True):
            held = self._advanced(held._replace(law_S=law_S), state)
        return held

    def _tell(self, memory: RuleMemory, i: int) -> None:
        statistic, threshold = self.rule.evidence(memory)
        switch = Switch(i, int(memory.tripped_at), type(self.rule).__name__, float(statistic), float(threshold))
        LOG.info("%s", switch)
        if self.on_switch is not None:
            self.on_switch(switch)

    def _pad(self, given: Any) -> int | None:
        base = self.robust.base
        assert isinstance(base, HFPredictor)
        pad = None if given is None else inputs.whole(given, "pad_token_id", least=0)
        for owner in (base.tokenizer, base.model.generation_config, base.model.config):
            pad = getattr(owner, "pad_token_id", None) if pad is None else pad
        if pad in self._state_of:
            raise ValueError(f"pad_token_id {pad} is one of the states: padding could not be told from them")
        return pad
