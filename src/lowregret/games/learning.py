"""How the exploiter learns (extra ``torch``): an actor and a critic over a GRU, a chunk of rounds at a time.

With q_t(a) what a move would earn against the player's mixed action, b_t the sum of pi_t(a) q_t(a), and later_t what
came after round t (by TD(lambda), discounted), the actor climbs b_t + ln pi_t(a_t) (later_t + b_t - critic_t): the
first term is exact for all moves, the second is of the one that was made.
"""

from typing import Any

import numpy as np

try:
    import torch
except ImportError as error:
    raise ImportError("the learned exploiter needs the extra torch: pip install 'lowregret[torch]'") from error
from torch import Tensor, nn

from ..problems import DecisionProblem
from .crowds import Crowd
from .recurrent import Settings, View, answers, drawn

_DISCOUNT, _TRACE = 0.95, 0.95  # of what is yet to come, and of how far it is read off the moves rather than the critic
_CRITIC, _SECOND, _ENTROPY = 0.5, 0.5, 0.003


class Net(nn.Module):
    """A GRU cell and three heads: what to play, what is yet to come, what the other will play."""

    def __init__(self, actions: int, others: int, settings: Settings, rng: np.random.Generator) -> None:
        super().__init__()
        H = settings.hidden
        self.cell = nn.GRUCell(settings.window * (actions + others) + 1, H)
        self.policy, self.critic, self.second = nn.Linear(H, actions), nn.Linear(H, 1), nn.Linear(H, others)
        with torch.no_grad():
            for weight in self.parameters():
                weight.copy_(torch.from_numpy(rng.uniform(-1, 1, tuple(weight.shape)) / np.sqrt(H)))
            self.policy.weight.zero_()
            self.policy.bias.zero_()


class Learner:
    """A net at some tables, which learns from every match it plays there."""

    def __init__(self, stakes: DecisionProblem, tables: int, seed: int, settings: Settings, device: str) -> None:
        try:
            self.device = torch.device(device)
        except RuntimeError as error:
            raise ValueError(f"device must be one of torch's, such as cpu or cuda, got {device!r}") from error
        self.stakes, self.tables, self.settings = stakes, tables, settings
        self.rng = np.random.default_rng(seed)
        self.net = Net(stakes.n_actions, stakes.n_states, settings, self.rng).to(device)
        self.answers_BxA = torch.from_numpy(answers(stakes.utility).T.copy()).to(device)
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=settings.rate)

    def weights(self) -> dict[str, np.ndarray]:
        """The net as plain arrays."""
        return {name: value.detach().cpu().numpy().copy() for name, value in self.net.state_dict().items()}

    def match(self, crowd: Crowd, rounds: int) -> float:
        """Play one match at every table, and learn on the way; what was earned a table, in payoffs."""
        (A, B), N, net = self.stakes.utility.shape, self.tables, self.net
        view, total = View(A, B, self.settings.window, rounds, N), 0.0
        memory = torch.zeros((N, self.settings.hidden), device=self.device)
        mixed_NxB: Any = crowd.begin()
        chunk: list[tuple[Any, ...]] = []
        for t in range(rounds):
            memory = net.cell(torch.from_numpy(view.shown).to(self.device), memory)
            second = net.second(memory)
            # What it expects is learnt from what the other did, not from what that brought in.
            scores = net.policy(memory) + torch.softmax(second.detach(), -1) @ self.answers_BxA
            own_N = drawn(torch.softmax(scores.detach().double(), -1).cpu().numpy(), self.rng)
            other_N = drawn(mixed_NxB, self.rng)
            worth_NxA = mixed_NxB @ self.stakes.utility.T
            total += float(worth_NxA[np.arange(N), own_N].mean())
            chunk.append((scores, net.critic(memory)[:, 0], second, own_N, worth_NxA, mixed_NxB))
            view.after(own_N, other_N)
            mixed_NxB = crowd.step(other_N, own_N, t + 1 == rounds)
            if len(chunk) == self.settings.unroll or t + 1 == rounds:
                self._learn(chunk, None if t + 1 == rounds else self._outlook(view, memory))
                memory, chunk = memory.detach(), []
        return float(self.stakes.in_payoffs(total / rounds)) * rounds

    def _outlook(self, view: View, memory: Tensor) -> Tensor:
        """What the critic says is to come from the next round on."""
        with torch.no_grad():
            return self.net.critic(self.net.cell(torch.from_numpy(view.shown).to(self.device), memory))[:, 0]

    def _learn(self, chunk: list[tuple[Any, ...]], outlook: Tensor | None) -> None:
        """One step of the optimiser on a chunk of rounds; ``outlook``: what is to come after it."""
        scores, critic, second = (torch.stack([step[i] for step in chunk]) for i in range(3))
        own, worth, mixed = (torch.from_numpy(np.stack([step[i] for step in chunk])).to(self.device) for i in (3, 4, 5))
        worth, mixed = worth.float() / max(self.stakes.span, 1e-9), mixed.float()
        log_pi = torch.log_softmax(scores, -1)
        pi, earned = log_pi.exp(), worth.gather(-1, own[..., None])[..., 0]
        value, later = critic.detach(), torch.zeros_like(earned)
        after = torch.zeros_like(earned[0]) if outlook is None else outlook
        trace = torch.zeros_like(after)
        for t in range(len(chunk) - 1, -1, -1):
            later[t] = _DISCOUNT * (after + _TRACE * trace)
            trace = earned[t] + later[t] - value[t]
            after = value[t]
        at_once, chosen = (pi * worth).sum(-1), log_pi.gather(-1, own[..., None])[..., 0]
        actor = at_once + chosen * (later + at_once.detach() - value)
        loss = -actor.mean() + _CRITIC * ((earned + later - critic) ** 2).mean()
        loss = loss - _SECOND * (mixed * torch.log_softmax(second, -1)).sum(-1).mean()
        loss = loss + _ENTROPY * (pi * log_pi).sum(-1).mean()
        self.optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimiser.step()
