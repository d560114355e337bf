"""Figures say what the numbers say: lines, bands, marks and labels are read back from the axes."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

import lowregret as lr
from lowregret.evaluate import plots


@pytest.fixture(autouse=True)
def _close() -> object:
    yield
    plt.close("all")


def test_regret_curves_are_the_means() -> None:
    heads, tails, fair = (lr.predictors.Scheduled([[1 - p, p]]) for p in (0.8, 0.2, 0.5))
    players = {"model": heads, "robust": lr.robustify(heads, lr.matching(), 200), "urn": lr.PolyaUrn(2)}
    found = lr.compare(players, {"as told": heads, "not": tails, "fair": fair}, lr.matching(), 200, 50, 0)
    axes = found.plot()
    assert axes.shape == (1, 3)
    for w, ax in enumerate(axes.flat):
        assert ax.get_title() == found.sources[w]
        lines = {line.get_label(): line for line in ax.get_lines()}
        for i, name in enumerate(found.predictors):
            x, y = lines[name].get_data()
            assert x[0] == 1
            assert x[-1] == 200
            np.testing.assert_allclose(y, found.regret_PxWxT[i, w, x.astype(int) - 1])
        assert len(ax.collections) == 3  # a band each
    marks = [line for line in axes[0, 1].get_lines() if line.get_marker() == "o"]
    assert [float(mark.get_xdata()[0]) for mark in marks] == [np.median(found.switch_times("robust", "not"))]
    legend = axes[0, 0].figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == list(found.predictors)


@pytest.mark.parametrize("panels", [1, 8])
def test_no_labels_overlap(panels: int) -> None:
    """Titles, tick labels and legend of the 2 x 4 figure, and of one panel alone, as boxes on the canvas."""
    from paper.eight_sources import TITLES, players

    sources = dict(list(lr.evaluate.sources.paper_sources(64).items())[:panels])
    found = lr.compare(players(64), sources, lr.matching(), 64, 10, 0)
    axes = plots.regret_curves(found, titles=TITLES)
    figure = axes[0, 0].figure
    figure.canvas.draw()
    texts = [ax.title for ax in axes.flat] + figure.legends[0].get_texts()
    for axis in [ax.xaxis for ax in axes[-1]] + [ax.yaxis for ax in axes[:, 0]]:
        low, high = axis.get_view_interval()
        texts += [axis.label, *(tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high)]
    boxes = [t.get_window_extent() for t in texts if t.get_text() and t.get_visible()]
    canvas = figure.bbox
    for i, box in enumerate(boxes):
        assert canvas.x0 <= box.x0
        assert box.x1 <= canvas.x1
        assert canvas.y0 <= box.y0
        assert box.y1 <= canvas.y1
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_evidence_marks_the_switch() -> None:
    safe = lr.robustify(lr.predictors.Scheduled([[0.9, 0.1]]), lr.matching(), 60)
    tokens = np.stack([np.zeros(60, dtype=int), np.repeat([0, 1], 30)])
    ax = plots.evidence(safe, tokens, names=["calm", "turned"])
    marks = [line for line in ax.get_lines() if line.get_marker() == "o"]
    assert [int(mark.get_xdata()[0]) for mark in marks] == [int(safe.alarm_times(tokens)[1])]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["threshold", "calm", "turned"]
