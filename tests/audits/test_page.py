"""The page of an audit: every number on it beside NumPy, and in a real browser (`make test-page`)."""

import os
import re
import shutil
from datetime import UTC, datetime
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

import lowregret as lr
from lowregret.audits import AuditSettings, answer, audit
from lowregret.audits.page import _amounts, _times, page

from .test_answer import BEGIN, FORTY, ONE, forty, made, one, weather

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
EVIL = "</script><script>alert(1)</script>"


class Reader(HTMLParser):
    """What a page shows: tables as rows of texts, drawings, and the text of each kind of element."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.drawings, self.texts, self.tags, self.pairs, self.open = [], [], {}, set(), set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, pairs):
        found = dict(pairs)
        self.tags.add(tag)
        self.pairs |= set(pairs)
        self.open += [] if tag in ("meta", "link") else [tag]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "svg":
            self.drawings.append(
                {"kind": found["class"], "lines": {}, "dots": [], "labels": [], "title": found["aria-label"]}
            )
        elif tag in ("polyline", "polygon"):
            points = np.array([point.split(",") for point in found["points"].split()], dtype=float)
            self.drawings[-1]["lines"].setdefault(found["class"], []).append(points)
        elif tag == "circle":
            self.drawings[-1]["dots"].append((float(found["cx"]), float(found["cy"])))
        elif tag == "text":
            self.drawings[-1]["labels"].append([float(found["x"]), float(found["y"]), found["text-anchor"], ""])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data)
            if self.open[-1] in ("td", "th", "bdi"):
                self.tables[-1][-1][-1] += data
            elif self.open[-1] == "text":
                self.drawings[-1]["labels"][-1][3] += data


def scale_of(drawing, axis, value_of):
    """Values of places on an axis (0: across, 1: up), by its labels and the lines beside them."""
    anchor = "end" if axis else "middle"
    lines = [line[0, axis] for line in drawing["lines"]["grid"] if line[0, axis] == line[1, axis]]
    labels = [
        (place[axis], value_of(text))
        for *place, own, text in drawing["labels"]
        if own == anchor and value_of(text) is not None
    ]
    assert len(labels) == len(lines) > 1
    for (at, _), line in zip(labels, lines, strict=True):
        assert at == pytest.approx(line, abs=5)
    values = [value for _, value in labels]
    slope, level = np.polyfit(lines, values, 1)
    assert (slope < 0) == bool(axis)  # to the right, and up
    np.testing.assert_allclose(np.polyval((slope, level), lines), values, atol=abs(slope) * 0.06 * max(1, axis))
    return lambda places: slope * np.asarray(places) + level, abs(slope)


def amount_in(text):
    return float(text.replace(",", "")) if re.fullmatch(r"-?[\d,.]+", text) else None


def percent_in(text):
    return float(text[:-1]) / 100 if re.fullmatch(r"\d+%", text) else None


def month_in(text):
    found = re.fullmatch(r"[A-Z][a-z]{2} \d{4}", text)
    return datetime.strptime(text, "%b %Y").replace(tzinfo=UTC).timestamp() * 1e9 if found else None


# Every number beside NumPy


@pytest.mark.parametrize("found", [one, forty])
def test_the_table_of_money_is_the_one_that_is_printed(found):
    table = answer.table(found())  # beside literal sums in test_answer.py
    assert Reader(page(found())).tables[0] == [list(row) for row in (table.header, *table.rows)]


@pytest.mark.parametrize("make", [one, forty])
@pytest.mark.parametrize("first", ["2026-01-01", None])
def test_money_over_time(make, first):
    found = make(first=first)
    wide, narrow, *_ = Reader(page(found)).drawings
    assert (wide["kind"], narrow["kind"]) == ("plot wide", "plot narrow")
    many, at = len(found.streams) > 1, np.linspace(1, found.paid["model"].shape[1], 241)[1:]
    if first is not None:
        at = BEGIN.astype("datetime64[ns]").astype(int) + (at - 1) * 86_400e9
    for drawing in (wide, narrow):
        x_of, _ = scale_of(drawing, 0, amount_in if first is None else month_in)
        y_of, unit = scale_of(drawing, 1, amount_in)
        lines = {}
        for kind, name in (("model", "model"), ("guard", "guard"), ("best", answer.BEST)):
            line = np.cumsum((found.paid[name] - many * found.paid["model"]).sum(axis=0))
            days = np.floor(np.linspace(1, len(line), 241)[1:]).astype(int) - 1
            (points,) = drawing["lines"][kind]
            lines[kind] = line[days]
            np.testing.assert_allclose(x_of(points[:, 0]), at, atol=(at[-1] - at[0]) / 1000)
            np.testing.assert_allclose(y_of(points[:, 1]), line[days], atol=0.3 * unit)
        names = {"model": "acting on the model", "guard": "guarded", "best": answer.BEST}
        ends = [f"{name} {lines[kind][-1]:,.0f} euros" for kind, name in names.items()]
        assert drawing["title"].endswith(f" In the end: {', '.join(ends)}.")
        ((between,),) = [drawing["lines"]["between"]]
        outline = np.concatenate([lines["model"], lines["guard"][::-1]])
        np.testing.assert_allclose(y_of(between[:, 1]), outline, atol=0.3 * unit)
        assert ("alarm" in drawing["lines"]) != many
        if not many:
            asked = np.array([203, 240], dtype=float)
            if first is not None:
                asked = ((BEGIN + (asked.astype(int) - 1)).astype("datetime64[ns]")).astype(float)
            ((line,), (area,)) = drawing["lines"]["alarm"], drawing["lines"]["since"]
            np.testing.assert_allclose(x_of(line[:, 0]), asked[1], atol=(at[-1] - at[0]) / 500)
            np.testing.assert_allclose(x_of(area[:, 0]), asked[[0, 0, 1, 1]], atol=(at[-1] - at[0]) / 500)


def test_a_best_action_that_is_far_away_is_not_drawn():
    found = forty()
    found.curves[answer.BEST] = found.curves["model"] - np.arange(240) * 1e4
    text = page(found)
    wide, *_ = Reader(text).drawings
    y_of, unit = scale_of(wide, 1, amount_in)
    assert "best" not in wide["lines"]
    assert "The best fixed action is not drawn: it is at -2,390,000 euros in the end." in text
    gain = found.paid["guard"].sum() - found.paid["model"].sum()
    assert y_of(wide["lines"]["guard"][0][-1, 1]) == pytest.approx(gain, abs=unit)


def by_hand(found, state, part):
    """By tenth of a probability of a state, in a plain loop: steps, mean forecast, share."""
    bins = np.zeros((10, 3))
    for at in zip(*np.nonzero(found.after_NxT == part), strict=True):
        probability = found.probs_NxTxS[at][state]
        bins[min(int(probability * 10), 9)] += 1, probability, found.outcomes_NxT[at] == state
    bins = bins[bins[:, 0] > 0]
    return bins[:, 0], bins[:, 1] / bins[:, 0], bins[:, 2] / bins[:, 0]


@pytest.mark.parametrize("how", ["upside down", "stuck", "right"])
def test_reliability_up_to_the_alarm_and_after_it(how):
    found = one(how) if how != "right" else made(*weather(1, 400), **ONE)
    read = Reader(page(found))
    assert read.texts["h3"] == (["Up to the alarm", "After it"] if found.alarms else ["All days"])
    for part, drawing in enumerate(read.drawings[2:]):
        (x_of, x_unit), (y_of, y_unit) = (scale_of(drawing, axis, percent_in) for axis in (0, 1))
        steps, forecasts, shares = by_hand(found, 1, part)
        x, y = np.array(drawing["dots"]).T
        np.testing.assert_allclose(x_of(x), forecasts, atol=x_unit * 0.2)
        np.testing.assert_allclose(y_of(y), shares, atol=y_unit * 0.2)
        kind = "model bar" if part else "guard bar"
        for bar, n, share in zip(drawing["lines"][kind], steps, shares, strict=True):
            wide = 1.96**2 / n  # the ends are where (p - share)^2 = wide p (1 - p)
            ends = np.roots([1 + wide, -2 * share - wide, share**2])
            np.testing.assert_allclose(sorted(y_of(bar[:, 1])), sorted(ends.real), atol=y_unit * 0.2)
        each = zip(forecasts, shares, steps, strict=True)
        shown = [f"{p:.0%} forecast, {q:.0%} occurred, {n:.0f} day{'' if n == 1 else 's'}" for p, q, n in each]
        assert set(shown) <= set(read.texts["title"])
        off = np.abs(shares - forecasts) * np.sqrt(steps / (forecasts * (1 - forecasts) + 1 / steps))
        k = off.argmax()
        days, share = f"({steps[k]:,.0f} days)", f"wet occurred in {shares[k]:.0%}."
        worst = f"here the forecast of wet was about {forecasts[k]:.0%} {days}, {share}"
        sentence = read.texts["figcaption"][part]
        assert sentence.endswith(worst)
        assert sentence.startswith("Upside down: w") == (how == "upside down" and part == 1)
        if not sentence.startswith("Upside down: "):
            assert sentence.startswith("Within chance. At worst: ") == (off[k] < 3)
    assert sentence.startswith("Within") == (how == "right")


def test_what_had_no_chance_and_occurred_is_not_chance():
    found = made(np.array([[[1.0, 0.0]] * 9]), np.eye(9, dtype=int)[:1], {0: (None, 1)}, **ONE)
    worst, never = Reader(page(found)).texts["figcaption"]
    assert worst == "Where the forecast of wet was about 0% (1 day), wet occurred in 100%."
    assert never == "Within chance. At worst: where the forecast of wet was about 0% (8 days), wet occurred in 0%."


def test_what_is_off_by_little_is_close_unless_something_is_off_by_much():
    found = made(*weather(1, 400), **ONE)
    for more, says in (
        ([], "Close. At worst: where the forecast of wet was about 5% (100,000 days), wet occurred in 6%."),
        ([(200, 0.5, 0.75)], "Where the forecast of wet was about 50% (200 days), wet occurred in 75%."),
    ):
        found.reliability[:] = 0
        for n, forecast, share in [(100_000, 0.05, 0.06), (100, 0.85, 0.85), *more]:
            found.reliability[0, 1, :, int(forecast * 10)] = n, n * forecast, n * share
        assert Reader(page(found)).texts["figcaption"] == [says]


def test_of_several_states_the_worst_is_shown():
    problem = lr.DecisionProblem.from_payoffs([[9, -6, 0], [0, 0, 1], [-8, 5, 2]], states=["up", "down", "flat"])
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([1, 1, 1], (1, 600))
    outcomes = np.array([[rng.choice(3, p=p) for p in probs[0]]])
    outcomes[0, 300:][outcomes[0, 300:] == 1] = 0  # "down" is "up" from then on
    found = made(probs, outcomes, {0: (301, 320)}, problem=problem, **ONE)
    read, worst = Reader(page(found)), []
    for state in range(3):
        steps, forecasts, shares = by_hand(found, state, 1)
        worst.append(np.max(np.abs(shares - forecasts) * np.sqrt(steps / (forecasts * (1 - forecasts) + 1 / steps))))
    assert np.argmax(worst) < 2
    assert all(f" of {problem.states[np.argmax(worst)]} " in sentence for sentence in read.texts["figcaption"])


def test_quantiles_have_their_coverage():
    rng, levels = np.random.default_rng(1), np.array([0.1, 0.5, 0.9])
    orders = [0, 10, 20, 30]
    stall = lr.Payoff.from_knots([[0, 0, 0, 0], [-30, 20, 20, 20], [-60, -10, 40, 40]], orders, outcomes=(0, None))
    demand, quantiles = rng.gamma(6, 3, 300), np.quantile(rng.gamma(6, 3, 10_000), levels)
    demand[150:] *= 0.4
    columns = {f"q{level * 100:.0f}": [q] * 300 for level, q in zip(levels, quantiles, strict=True)}
    found = audit(pl.DataFrame({"y": demand} | columns), stall)
    read, parts = Reader(page(found)), np.split(demand, [found.streams["alarm"][0]])
    for drawing, part, sentence in zip(read.drawings[2:], parts, read.texts["figcaption"], strict=True):
        shares = (part[:, None] <= quantiles).mean(axis=0)
        (x_of, _), (y_of, unit) = (scale_of(drawing, axis, percent_in) for axis in (0, 1))
        x, y = np.array(drawing["dots"]).T
        np.testing.assert_allclose(x_of(x), levels, atol=unit)
        np.testing.assert_allclose(y_of(y), shares, atol=unit)
        k = np.abs((shares - levels) / np.sqrt(levels * (1 - levels) + 1 / len(part))).argmax()
        worst = f"{shares[k]:.0%} of outcomes ({len(part)} steps) were at or below the {levels[k]:.0%}"
        assert sentence.endswith(f"{worst} quantile.")


def test_the_table_of_streams():
    found = forty(alarms=FORTY | {1: (400, 430)}, named=FORTY, follows=[6])
    read = Reader(page(found))
    assert read.texts["p"][0] == "Audit of shops.csv: 20,000 days of 40 shops, from 1 January 2026 to 15 May 2027"
    promise = (
        "whatever happens, the guard earns at most 10.50 euros per day less than the best fixed action of its shop"
    )
    assert promise in read.texts["dd"]
    _, rows, _ = read.tables
    header = ["difference guarded", "wrong since about", "alarm", "followed at the end"]
    assert rows[0] == ["shop", "days", "acting on the model", *header]
    alarmed = sorted([*FORTY, 1], reverse=True)  # those with a larger number have more evidence
    others = [n for n in range(40) if n not in alarmed]
    assert [row[0] for row in rows[1:]] == [f"shop-{n:03}" for n in alarmed + others]
    for row in rows[1:]:
        n = int(row[0][5:])
        model, guard = (found.paid[name][n].sum() for name in ("model", "guard"))
        assert row[1:4] == ["500", f"{model:,.0f}", f"{guard - model:+,.0f}" if guard != model else "0"]
        since, alarm = (FORTY | {1: (400, 430)}).get(n, (None, None))
        date = [step and f"{(BEGIN + (step - 1)).item():%d %b %Y}".lstrip("0") for step in (since, alarm)]
        ends = "yes" if alarm is None or n == 6 else "no"
        assert row[4:] == [date[0] or "-", (date[1] or "-") + " ?" * (n == 1), ends]


@pytest.mark.parametrize("alarmed", [[7, 9, 90], []])
def test_of_many_streams_those_with_an_alarm_are_listed(alarmed):
    read = Reader(page(made(*weather(120, 24), {n: (7, 18) for n in alarmed})))
    rows = [[row[0] for row in table[1:]] for table in read.tables[1:-1]]
    assert rows == [[f"shop-{n:03}" for n in reversed(alarmed)]] * bool(alarmed)
    assert f"{120 - len(alarmed)} more without an alarm are in streams.parquet." in read.texts["p"]


# What it is made of


def hostile():
    names = [
        EVIL,
        "<img src=x onerror=alert(2)>",
        "\u202eevil\x00\x07",
        "x" * 10_000,
        "\u05e9\u05dc\u05d5\u05dd",
        "a&b'\"",
    ]
    states, actions = ["<i>dry\u202e", "w" * 10_000], ["<b>open</b>", "s" * 300]
    problem = lr.DecisionProblem.from_payoffs([[100, -20], [0, 0]], actions, states)
    more = {"source": "<script>x</script>" * 500, "notes": (f"{EVIL}\x00",), "unit": "<day\x07>", "first": "<first>"}
    more |= {"settings": AuditSettings(currency="<u>€</u>"), "columns": {"stream": "<b>", "state": "</title>"}}
    return made(*weather(6, 300, [0, 1]), {0: (150, 170), 1: (150, 171)}, problem=problem, names=names, **more)


def test_texts_of_a_log_stay_texts():
    text = page(hostile())
    read = Reader(text)
    assert not read.tags & {"script", "img", "b", "u", "object", "iframe"}
    assert read.texts["bdi"].count(EVIL) == 1
    assert "\u202eevil" not in text
    assert "x" * 61 not in text
    assert all(sign.isprintable() or sign == "\n" for sign in text)
    assert not [name for name, _ in read.pairs if name.startswith("on") or name in ("src", "style", "action")]
    assert {value for name, value in read.pairs if name == "href"} == {"data:,"}
    assert not re.search(r"@import|url\(", text)
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text


def stores():
    broken = range(0, 10_000, 50)
    return made(*weather(10_000, 24, broken, at=6), {n: (7, 18) for n in broken}, columns={"stream": "store"})


@pytest.mark.parametrize(("make", "most"), [(one, 100_000), (forty, 100_000), (stores, 150_000), (hostile, 100_000)])
def test_a_page_is_small_and_the_same_each_time(make, most):
    text = page(make())
    assert len(text.encode()) < most
    assert text == page(make())
    assert text.count("at most 5%") == 1
    if make is stores:
        assert len(Reader(text).tables[1]) == 101
        assert "9,900 more are in streams.parquet." in text


@pytest.mark.parametrize("span", [2.0, 0.3, 7, 1.6e6, 1e-4, 12])
@pytest.mark.parametrize("low", [0.0, -3.3, 51.7])
def test_amounts_on_an_axis_are_round(span, low):
    ticks = _amounts(low * span, (low + 1) * span, 6)
    values = np.array([value for value, _ in ticks])
    assert 2 <= len(ticks) <= 7
    assert len({label for _, label in ticks}) == len(ticks)
    np.testing.assert_allclose([float(label.replace(",", "")) for _, label in ticks], values, atol=span * 1e-9)
    step = values[1] - values[0]
    assert f"{step:.0e}"[0] in "125"
    assert low * span - step * 1e-6 <= values[0] < low * span + step


@pytest.mark.parametrize("seconds", [4, 50, 400, 4_000, 30_000, 2e5, 1e6, 6e6, 4e7, 2e8, 3e9])
@pytest.mark.parametrize("most", [3, 8])
def test_times_on_an_axis_are_round(seconds, most):
    low = np.datetime64("2026-03-04T05:06:07", "ns")
    high = low + np.timedelta64(int(seconds * 1e9), "ns")
    ticks = _times(low, high, most)
    assert 1 <= len(ticks) <= most + 1
    assert len({label for _, label in ticks}) == len(ticks)
    at = np.array([value for value, _ in ticks]).astype(np.int64).astype("datetime64[ns]")
    assert ((low <= at) & (at <= high)).all()
    for time, (_, label) in zip(at, ticks, strict=True):
        own = time.astype("datetime64[s]").item()
        units = {f"{own:%H:%M:%S}": "s", f"{own:%H:%M}": "m", f"{own.day} {own:%b %H:%M}": "h", f"{own:%Y}": "Y"}
        units |= {f"{own.day} {own:%b}": "D", f"{own:%b %Y}": "M"}
        assert time.astype(f"datetime64[{units[label]}]") == time


# In a browser


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as p:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        made = p.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield made
        made.close()


@pytest.mark.page
@pytest.mark.parametrize("make", [one, forty, stores, hostile])
def test_a_page_in_a_browser(tmp_path, browser, make):
    file = tmp_path / "audit.html"
    file.write_text(page(make()), encoding="utf-8")
    fetched, colours = [], set()
    for width, scheme, media in ((1280, "light", "screen"), (390, "dark", "screen"), (700, "dark", "print")):
        shown = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme}
        context = browser.new_context(**shown, java_script_enabled=False)
        tab = context.new_page()
        tab.on("request", lambda request: fetched.append(request.url))
        tab.emulate_media(media=media, color_scheme=scheme)
        tab.goto(file.as_uri())
        kinds = [tab.locator(f"svg.{kind}").first.is_visible() for kind in ("wide", "narrow")]
        assert kinds == [width > 640, width < 640]
        for svg in tab.locator("svg:visible").all():
            box = svg.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        colours.add((scheme, media, tab.evaluate("getComputedStyle(document.body).backgroundColor")))
        context.close()
    assert set(fetched) == {file.as_uri()}
    paper, night = "rgb(255, 255, 255)", "rgb(18, 24, 31)"
    assert colours == {("light", "screen", paper), ("dark", "screen", night), ("dark", "print", paper)}
