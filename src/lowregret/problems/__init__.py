"""What is at stake: decision problems, the usual ones, and what actions earn in them."""

from .decision import DecisionProblem, a_problem, same_problem, with_first
from .earnings import action_utilities, leads
from .from_file import payoffs_in
from .inverse import belief_with_lead
from .names import Names, Positions, actions_of, numbers_apart
from .payoff import Gains, Payoff
from .presets import cost_loss, matching, newsvendor, rock_paper_scissors, trading
from .stakes import Scene, response_at, widest, worth_of
from .value import Solved, solved

__all__ = [
    "DecisionProblem",
    "Gains",
    "Names",
    "Payoff",
    "Positions",
    "Scene",
    "Solved",
    "a_problem",
    "action_utilities",
    "actions_of",
    "belief_with_lead",
    "cost_loss",
    "leads",
    "matching",
    "newsvendor",
    "numbers_apart",
    "payoffs_in",
    "response_at",
    "rock_paper_scissors",
    "same_problem",
    "solved",
    "trading",
    "widest",
    "with_first",
    "worth_of",
]
