"""What ``evaluate --tokens`` says: a model on a recording, window by window."""

from typing import TYPE_CHECKING, Any

import numpy as np
import typer

if TYPE_CHECKING:
    from ..construct import Constructed
    from ..problems import DecisionProblem
    from ..transformer import Recording, Transformer


def on_recording(
    recording: "Recording", model: "Transformer | Constructed", problem: "DecisionProblem"
) -> tuple[dict[str, Any], np.ndarray]:
    """The numbers, printed too, and the windows ``[N, T]`` that are whole.

    Of a recording with a part held out, on that part.
    """
    from ..policies import Respond
    from ..predictors import PolyaUrn
    from ..regret import external_regret
    from ..transformer.held_out import log_losses

    frequencies_S, T = recording.frequencies(), model.context
    if recording.held_out:
        recording = recording.unseen()
    tokens_NxT, own_NxT = (part.numpy() for part in recording.in_order(T))
    lengths_N = own_NxT.sum(axis=-1).astype(np.int64)

    def regret(player: Any) -> float:
        regret_NxT = np.asarray(external_regret(problem, Respond(player, problem, T**-0.5), tokens_NxT))
        ends_N = np.take_along_axis(regret_NxT, lengths_N[:, None] - 1, axis=-1)[:, 0]
        return float(np.average(ends_N, weights=lengths_N))

    losses = log_losses(recording, model, T, frequencies_S)
    found = {"regret": regret(model), "urn": regret(PolyaUrn(model.n_states))}
    in_units = problem.regret_in_payoffs(found["regret"])
    units = "" if in_units == found["regret"] else f" ({in_units:+.6g} in the payoffs' units)"
    typer.echo(losses.on(f"{losses.tokens:,} recorded ones"))
    typer.echo(
        f"Mean regret a step on {len(tokens_NxT)} windows of up to {T} steps: {found['regret']:+.4f}{units}; "
        f"of an urn {found['urn']:+.4f}"
    )
    return {"recording": {**losses._asdict(), **found}}, tokens_NxT[lengths_N == T]
