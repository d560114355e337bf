"""What it costs to be told more than a law: references and contexts, beside a guard that is told nothing else."""

import time
from typing import Any

import numpy as np

import lowregret as lr


def leaves(memory: Any) -> list[Any]:
    return [leaf for part in memory for leaf in leaves(part)] if isinstance(memory, tuple) else [memory]


def known_before() -> None:
    """The least of many short runs, in turns, with the extra ``fast`` where it is installed."""
    count = 200
    print("one stream, advise + observe: us a step   times none   numbers kept")
    for problem in (lr.matching(), lr.rock_paper_scissors()):
        rng, S = np.random.default_rng(0), problem.n_states
        probs = rng.dirichlet([20] * S, count)
        laws, names = rng.dirichlet([20] * S, (count, 10)), tuple(f"model {n}" for n in range(10))
        places = rng.integers(1000, size=count).tolist()
        cases: dict[str, tuple[lr.Guard, list[dict[str, Any]]]] = {
            "none": (lr.Guard(problem, 10**6), [{}] * count),
            "ten references": (lr.Guard(problem, 10**6, references=names), [{"references": each} for each in laws]),
            "1,000 contexts": (lr.Guard(problem, 10**6, contexts=1000), [{"context": at} for at in places]),
            "payoffs told": (
                lr.Guard(problem, 10**6, payoffs="change"),
                [{"payoffs": problem.utility * float(u)} for u in rng.uniform(0.5, 1, count)],
            ),
        }
        least = dict.fromkeys(cases, float("inf"))
        for _ in range(30):
            states = [int(rng.choice(S, p=p)) for p in probs]  # as the model says: nobody shall switch
            for name, (guard, told) in cases.items():
                begin = time.perf_counter()
                for p, s, more in zip(probs, states, told, strict=True):
                    guard.advise(p, **more)
                    guard.observe(problem.states[s])
                least[name] = min(least[name], (time.perf_counter() - begin) / count)
        for name, (guard, _) in cases.items():
            title = f"{problem.n_actions} actions, {name}"
            kept = sum(leaf.size for leaf in leaves(guard._at.ledger) if leaf is not None)
            switched = " (switched)" if guard.events else ""
            print(f"  {title:28s} {least[name] * 1e6:8.1f} {least[name] / least['none']:9.2f}x {kept:11d}{switched}")


if __name__ == "__main__":
    known_before()
