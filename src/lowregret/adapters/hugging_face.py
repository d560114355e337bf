"""A causal language model as a predictor over some of its tokens (Section 2.1): nothing about the model changes."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import inputs

try:
    import torch
    import transformers
    from torch import Tensor, nn
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"HFPredictor needs {error.name}: pip install 'lowregret[hf]'", name=error.name
    ) from error

from .state_logits import StateLogits, a_module, different, ids_of, logits_of, steps_in, try_out
from .torch_module import TokenPredictor


class KeyValues:
    """What the model last computed, and for which rows of tokens.

    No answer depends on it: it is used only where its rows are the beginnings of the rows asked for, in whatever order;
    otherwise the model reads everything again.
    """

    def __init__(self, model: nn.Module, keeps: bool) -> None:
        self.model, self.keeps = model, keeps
        self._held: deque[tuple[tuple[Any, ...], Tensor, Any]] = deque(maxlen=1)  # weights, rows, what was computed

    def last_logits(self, ids_BxL: Tensor) -> Tensor:
        """Logits ``[B, V]`` of what follows each row; call it without gradients."""
        weights = self._weights()
        past, length = self._fitting(ids_BxL, weights)
        fresh = {"logits_to_keep": 1} if self.keeps else {}
        output = self.model(ids_BxL[:, length:], past_key_values=past, use_cache=True, **fresh)
        if (past := getattr(output, "past_key_values", None)) is not None:
            self._held.append((weights, ids_BxL.clone(), past))
        return logits_of(output)[:, -1]

    def _fitting(self, ids_BxL: Tensor, weights: tuple[Any, ...]) -> tuple[Any, int]:
        """The cache for the beginnings of these rows, and how long they are."""
        try:
            made_by, rows, past = self._held.pop()  # the model writes into it: nobody else may have it meanwhile
        except IndexError:
            return None, 0
        length = rows.shape[1]
        if made_by != weights or length >= ids_BxL.shape[1]:
            return None, 0
        begun = ids_BxL[:, :length]
        if rows.shape == begun.shape and torch.equal(rows, begun):
            return past, length
        places = {tuple(row): i for i, row in enumerate(rows.tolist())}
        index = [places.get(tuple(row)) for row in begun.tolist()]
        if None in index:
            return None, 0
        try:
            past.batch_select_indices(torch.tensor(index, device=ids_BxL.device))
        except (AttributeError, NotImplementedError):  # not every layer supports it
            return None, 0
        return past, length

    def _weights(self) -> tuple[Any, ...]:
        """Where the weights are and how often each was written to: a cache made with other weights must not be used."""
        return tuple(
            (weight.data_ptr(), weight.dtype, None if weight.is_inference() else weight._version)
            for weight in self.model.parameters()
        )


@dataclass(frozen=True, eq=False)
class HFPredictor(TokenPredictor):
    """Any causal language model of ``transformers``, over a chosen set of its tokens.

    The model reads the prompt, then the states, each followed by the separator; its probabilities are renormalised over
    the states, and ``mass`` says how much they had before. A stream keeps the model's key-value cache; a recorded
    sequence takes one pass. Memories are plain values: a cache that does not belong to one is rebuilt.

    Parameters
    ----------
    model
        In eval mode, of any precision (forecasts are float32 or better).
    state_tokens
        One for each state, in order: words that are single tokens (often with their space, as in ``" rock"``), or ids.
    tokenizer
        For words; without one ``prompt``, ``separator`` and the states are ids.
    prompt
        What the model reads first. An empty one is the tokenizer's (or the model's) BOS token.
    separator
        What comes after each state.

    >>> import transformers
    >>> config = transformers.GPT2Config(vocab_size=12, n_embd=8, n_layer=1, n_head=2, n_positions=64, bos_token_id=0)
    >>> coin = HFPredictor(transformers.GPT2LMHeadModel(config).eval(), state_tokens=[3, 5], prompt=[7, 1])
    >>> coin.predict_sequence([[0, 1, 1]]).shape, coin.context
    ((1, 3, 2), 63)
    """

    model: Any
    state_tokens: Sequence[Any]
    tokenizer: Any = field(default=None, repr=False)
    prompt: Any = ""
    separator: Any = ""
    states: StateLogits = field(init=False, repr=False)
    cache: KeyValues = field(init=False, repr=False)
    context: int | None = field(init=False)

    def __post_init__(self) -> None:
        model = a_module(self.model, "model")
        if not isinstance(model, transformers.PreTrainedModel):
            raise ValueError(
                f"model must be a causal language model of transformers, got {type(model).__name__}: FromModule takes "
                "any other module that gives logits"
            )
        in_words = any(isinstance(token, str) for token in self.state_tokens)
        ids = tuple(map(self._single, self.state_tokens)) if in_words else ids_of(self.state_tokens, "state_tokens", 1)
        different(ids, "state_tokens", list(self.state_tokens))
        before, separator = self._prompt_ids(), self._ids_of(self.separator, "separator")
        room = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        context = steps_in(room, before, separator, "prompt")
        states = StateLogits(model, ids, before, separator)
        inputs.keep(self, state_tokens=tuple(self.state_tokens), states=states, context=context)
        inputs.keep(self, cache=KeyValues(model, states.keeps))
        try_out(states, "model", context or 4)

    def __repr__(self) -> str:
        tokens = ", ".join(map(repr, self.state_tokens))
        return (
            f"HFPredictor({type(self.model).__name__} over {tokens}, room for {self.context or 'any number of'} states)"
        )

    def _next_logits(self, tokens_NxT: Tensor) -> Tensor:
        return self.cache.last_logits(self.states.ids(tokens_NxT))

    # What is a token

    def _single(self, word: Any) -> int:
        ids = self._ids_of(word, "state_tokens")
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        if len(ids) == 1 and ids[0] != unknown:
            return ids[0]
        if not ids or ids[0] == unknown:
            raise ValueError(f"state_tokens must be tokens of the vocabulary: {word!r} is unknown to the tokenizer")
        pieces = [self.tokenizer.decode([i]) for i in ids]
        other = f" {word}" if not word.startswith(" ") else word.strip()
        alone = len(self.tokenizer(other, add_special_tokens=False)["input_ids"]) == 1
        hint = f"; {other!r} is one token" if alone else ""
        raise ValueError(f"state_tokens must be single tokens: {word!r} is {len(ids)} of them, {pieces}{hint}")

    def _ids_of(self, text: Any, name: str, special: bool = False) -> tuple[int, ...]:
        if not isinstance(text, str):
            return ids_of(text, name, 0)
        if text == "":
            return ()
        if self.tokenizer is None:
            raise ValueError(f"tokenizer must be given for {name} in words ({text!r}); without one they are token ids")
        return tuple(self.tokenizer(text, add_special_tokens=special)["input_ids"])

    def _prompt_ids(self) -> tuple[int, ...]:
        if ids := self._ids_of(self.prompt, "prompt", special=True):
            return ids
        for owner in (self.tokenizer, self.model.config):
            if (bos := getattr(owner, "bos_token_id", None)) is not None:
                return (bos,)
        raise ValueError("prompt must not be empty: neither tokenizer nor model has a BOS token to begin with")
