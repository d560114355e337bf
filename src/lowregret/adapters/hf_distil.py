"""Algorithm 1 into the weights of a Hugging Face model (Section 5.2): what ``transformers.Trainer`` needs for it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import inputs
from ..robust import Robust

try:
    import torch
    import torch.nn.functional as F
    from torch import Tensor
    from transformers import TrainerCallback
except ModuleNotFoundError as error:
    wants = f"HFDistil needs {error.name}: pip install 'lowregret[hf]'"
    raise ModuleNotFoundError(wants, name=error.name) from error

from ..construct.base_model import in_use
from ..transformer import data
from ..transformer.tasks import Responses, recovers, robust_probs
from .hugging_face import HFPredictor
from .state_logits import logits_of


@dataclass(eq=False)
class HFDistil:
    """Fine-tune a language model to be its own robust version: at every step the forecast of Algorithm 1 is the target.

    ``Trainer(model, args, train_dataset=recordings, data_collator=it.collate, compute_loss_func=it.loss,
    callbacks=[it.player()])``. Of each batch of recorded sequences half stay as they are; the others become other
    worlds (urns, drifts, change points, the recording renamed or halted, half of them after a true beginning and, where
    the fallback is ``Recovery``, half of them with a true end) or are taken from what a greedy adversary played
    against the model as it was then.

    Parameters
    ----------
    robust
        ``robustify(HFPredictor(base, ...), problem, horizon)`` over the model as it was: a copy that is not trained.
    response_weight
        How much the responses count beside the forecasts: a small error in a forecast can be a large one in regret.
    play_share
        How much of a batch comes from the pool of played sequences.
    play_every, play_count, pool
        After how many steps new ones are played, how many, and how many are kept.

    A recorded sequence is a list of states, or a dict with one under ``"states"``; all have the horizon's length.
    """

    robust: Robust
    response_weight: float = 0.1
    play_share: float = 0.25
    play_every: int = 100
    play_count: int = 64
    pool: int = 1024
    seed: int = 0
    played_NxT: Tensor | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        robust = self.robust
        if not isinstance(robust, Robust) or not isinstance(robust.base, HFPredictor):
            raise ValueError(f"robust must be robustify(HFPredictor(...), ...), got {type(robust).__name__}")
        if robust.problem is None or robust.horizon is None:
            raise ValueError("robust must be for one problem, with a horizon, as by ExactTest(delta, horizon)")
        if not 0 <= self.play_share <= 0.5:
            raise ValueError(f"play_share must lie between 0 and 0.5, got {self.play_share!r}")
        self.base, self.horizon = robust.base, robust.horizon
        self.seed = inputs.whole(self.seed, "seed", least=0, most=None)
        self._batches = 0
        self._home_NxT: Tensor | None = None

    def collate(self, examples: Sequence[Any]) -> dict[str, Tensor]:
        """``data_collator``: ids for the model to read, and as ``labels`` the robust forecasts ``[B, T, S]``."""
        if torch.utils.data.get_worker_info() is not None:
            raise ValueError(
                "dataloader_num_workers must be 0: in a process of its own collate would see nothing of what is "
                "played, and every worker would draw the same"
            )
        tokens_BxT, where = self._recorded(examples), self.base.states.device
        random = data.generator(where, self.seed, self._batches)
        self._batches += 1
        home_NxT = tokens_BxT.to(where)
        self._home_NxT = home_NxT
        half = len(home_NxT) // 2
        from_pool = min(half, round(len(home_NxT) * self.play_share)) if self.played_NxT is not None else 0
        parts = [home_NxT[: len(home_NxT) - half]]
        if half - from_pool:
            rest_NxT = home_NxT[len(home_NxT) - half + from_pool :]
            shuffled = torch.randint(len(home_NxT), (len(rest_NxT),), generator=random, device=where)
            parts.append(data.away_from(rest_NxT, lambda: home_NxT[shuffled], self.base.n_states, random))
            if recovers(self.robust):
                parts[-1] = data.back_home(parts[-1], rest_NxT, random)
        if self.played_NxT is not None:
            which = torch.randint(len(self.played_NxT), (from_pool,), generator=random, device=where)
            parts.append(self.played_NxT[which])
        tokens_BxT = torch.cat(parts)
        probs_BxTxS = torch.as_tensor(self.base.predict_sequence(tokens_BxT))
        ids_BxL = self.base.states.ids(tokens_BxT[:, :-1])
        return {"input_ids": ids_BxL.cpu(), "labels": robust_probs(self.robust, probs_BxTxS, tokens_BxT).cpu()}

    def loss(self, outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        """``compute_loss_func``: how far the forecasts, and the responses to them, are from the targets.

        Forecasts are compared over the whole vocabulary, so the model also learns to write nothing but states.
        """
        states, (B, T, S) = self.base.states, labels.shape
        first, step = len(states.before) - 1, 1 + len(states.separator)
        logits_BxTxV = logits_of(outputs)[:, first::step].float()
        own_BxTxS = logits_BxTxV[..., states.token_ids.to(logits_BxTxV.device)]
        log_probs_BxTxS = own_BxTxS - torch.logsumexp(logits_BxTxV, dim=-1, keepdim=True)
        loss_BxT = F.kl_div(log_probs_BxTxS, labels, reduction="none").sum(-1)
        if self.response_weight:
            responses = Responses.of(self.robust, self.response_weight, labels.device)
            loss_BxT = loss_BxT + responses.divergence(torch.softmax(own_BxTxS, dim=-1), labels)
        return loss_BxT.sum() / (B * T if num_items_in_batch is None else num_items_in_batch / S)

    def player(self) -> TrainerCallback:
        """A callback that lets the greedy adversary play against the model while it is trained."""
        return _DistilledPlayer(self)

    @torch.no_grad()
    def play(self, model: Any, step: int = 0) -> Tensor:
        """Add to the pool what the greedy adversary plays against ``model`` now, ``[N, T]``; returns what was added."""
        states = self.base.states
        ids = [part.tolist() for part in (states.token_ids, states.before, states.separator)]
        with in_use(model):
            student = HFPredictor(model, ids[0], prompt=ids[1], separator=ids[2])
            random = data.generator(student.states.device, self.seed, step, 1)
            home_NxT = self._at_home(random)
            assert self.robust.problem is not None
            assert self.robust.temperature is not None
            choose = data.greedy_choice(home_NxT, self.robust.problem.utility, self.robust.temperature, random)
            memory, tokens = student.start((len(home_NxT),)), []
            for t in range(self.horizon):
                tokens.append(choose(memory.probs.float(), t))
                if t + 1 < self.horizon:
                    memory = student.update(memory, tokens[-1])
        fresh_NxT = torch.stack(tokens, dim=-1).to(states.device)
        kept = [] if self.played_NxT is None else [self.played_NxT]
        self.played_NxT = torch.cat([*kept, fresh_NxT])[-self.pool :]
        return fresh_NxT

    def _at_home(self, random: torch.Generator) -> Tensor:
        """Recorded sequences of the last batch; before the first one, what the base writes."""
        if self._home_NxT is None:
            return data.sequences(self.base, self.play_count, self.horizon, random)
        which = torch.randint(len(self._home_NxT), (self.play_count,), generator=random, device=random.device)
        return self._home_NxT.to(random.device)[which]

    def _recorded(self, examples: Sequence[Any]) -> Tensor:
        rows = [example["states"] if isinstance(example, dict) else example for example in examples]
        tokens_BxT = inputs.sequences_of(np.stack([np.asarray(row) for row in rows]), self.base.n_states, "examples")
        if tokens_BxT.shape[1] != self.horizon:
            raise ValueError(f"examples must have the horizon's {self.horizon} states, got {tokens_BxT.shape[1]}")
        return torch.as_tensor(tokens_BxT)


class _DistilledPlayer(TrainerCallback):
    def __init__(self, distil: HFDistil) -> None:
        self.distil = distil

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
        if self.distil.play_share and state.global_step % self.distil.play_every == 0:
            self.distil.play(model, state.global_step)
