"""What is at stake: decision problems, common ones, and what actions earn in them."""

from .decision import (
    DecisionProblem,
    a_problem,
    action_utilities,
    belief_with_lead,
    best_of,
    same_problem,
    two_states,
)
from .from_file import currency_in, payoffs_in
from .names import Names, Positions, actions_of, by_name
from .payoff import Gains, Payoff, as_lines
from .presets import cost_loss, matching, newsvendor, newsvendor_of_numbers, rock_paper_scissors, trading

__all__ = [
    "DecisionProblem",
    "Gains",
    "Names",
    "Payoff",
    "Positions",
    "a_problem",
    "action_utilities",
    "actions_of",
    "as_lines",
    "belief_with_lead",
    "best_of",
    "by_name",
    "cost_loss",
    "currency_in",
    "matching",
    "newsvendor",
    "newsvendor_of_numbers",
    "payoffs_in",
    "rock_paper_scissors",
    "same_problem",
    "trading",
    "two_states",
]
