"""The page of an audit: its numbers beside a NumPy loop, and in a real browser (`make test-page`) as they are drawn."""

import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pytest

import lowregret as lr
from lowregret.audit.backtesting import recorded
from lowregret.audit.page import page
from lowregret.audit.playing import play
from lowregret.audit.sketch import BINS, DELTAS, POINTS, SPARKS, Sketch, instead, reliability
from lowregret.audit.times import ROWS, Steps
from lowregret.problems import Positions

from ..audit_logs import SHOP, table_of, written

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
MINUS = "\u2212"
EVIL = "</script><script>alert(1)</script>"
NAMES = {"calm": 260, EVIL: 260, "<img src=x onerror=alert(2)>": 260, "other": 260}
TRADE = lr.DecisionProblem.from_payoffs([[90, -60, -10], [0, 0, 0], [-80, 50, 20]], states=["up", "down", "flat"])


def three_states(T=300):
    """One stream with dates; from the middle on "up" and "down" are mixed up, and once what had no chance comes."""
    rng = np.random.default_rng(3)
    laws = rng.dirichlet([1.0, 1.0, 0.6], T)
    came = np.array([rng.choice(3, p=law) for law in laws])
    late = np.arange(T) >= T // 2
    came = np.where(late & (came < 2), 1 - came, came)
    laws[250], came[250] = [0.5, 0.5, 0.0], 2
    days = np.arange(np.datetime64("2025-01-01"), np.datetime64("2025-01-01") + T)
    columns = {"date": days, "state": np.array(TRADE.states)[came]}
    return pa.table(columns | {f"p_{name}": laws[:, s] for s, name in enumerate(TRADE.states)})


def dated(table):
    """The same with a day for each step."""
    days = np.datetime64("2024-01-01") + np.asarray(table["step"]).astype("timedelta64[D]")
    return table.drop_columns(["step"]).append_column("ds", pa.array(days))


def data_in(text):
    return json.loads(text.split('id="data">')[1].split("</script>")[0])


def by_hand(problem, table):
    """Of every stream, in plain loops: days, money by step, bins, and what each action would have earned instead."""
    payoffs, states, found = problem.in_payoffs(problem.utility), list(problem.states), {}
    names = table["stream"].to_pylist() if "stream" in table.column_names else ["0"] * table.num_rows
    order = "ds" if "ds" in table.column_names else "date"
    laws = np.stack([np.asarray(table[f"p_{name}"]) for name in states], axis=1)
    came = [states.index(name) for name in table["state"].to_pylist()]
    for name in dict.fromkeys(names):
        rows = [r for r, own in enumerate(names) if own == name]
        model, each = [], np.zeros((problem.n_actions, len(rows)))
        bins, instead, said = (
            np.zeros((len(states), 3, BINS)),
            np.zeros((problem.n_actions,) * 2),
            [0] * problem.n_actions,
        )
        for t, r in enumerate(rows):
            a = int(np.argmax([sum(p * v for p, v in zip(laws[r], row, strict=True)) for row in payoffs]))
            each[:, t] = payoffs[:, came[r]]
            model.append(each[a, t])
            said[a] += 1
            instead[a] += each[:, t] - each[a, t]
            for s, p in enumerate(laws[r]):
                k = min(int(p * BINS), BINS - 1)
                bins[s, :, k] += 1, p, came[r] == s
        best = each[each.sum(axis=1).argmax()]
        days = [day.toordinal() - 719163 for day in np.asarray(table[order])[rows].astype("datetime64[D]").tolist()]
        lines = {"model": np.cumsum(model), "best fixed action": np.cumsum(best)}
        found[name] = {"days": days, "money": lines, "bins": bins, "instead": instead, "said": said}
        found[name] |= {"laws": laws[rows], "came": [came[r] for r in rows]}
    return found


def guarded(problem, own, horizon, delta, lag=1):
    """What a guard earned by step, live, and at which step it was known that it left."""
    guard, paid = lr.Guard(problem, test=lr.ExactTest(delta, horizon), lag=lag), []
    for t, (law, state) in enumerate(zip(own["laws"], own["came"], strict=True)):
        paid.append(float(guard.advise(law).policy @ problem.in_payoffs(problem.utility[:, state])))
        if t >= lag - 1:
            guard.observe(Positions(own["came"][t - lag + 1]))
    return np.cumsum(paid), next((event.known for event in guard.events if isinstance(event, lr.Alarm)), None)


def agrees(problem, table, found):
    """The JSON of an audit and the data of its page, beside the loops."""
    told, data = json.loads(found.to_json()), data_in(page(found))
    hand, horizon = by_hand(problem, table), found.about["horizon"]
    bins, instead = (sum(own[name] for own in hand.values()) for name in ("bins", "instead"))
    said = np.sum([own["said"] for own in hand.values()], axis=0)
    for s, own in enumerate(told["reliability"]):
        kept = bins[s][:, bins[s][0] > 0]
        assert [one["steps"] for one in own["bins"]] == kept[0].tolist()
        np.testing.assert_allclose([one["said"] for one in own["bins"]], kept[1] / kept[0])
        np.testing.assert_allclose([one["came"] for one in own["bins"]], kept[2] / kept[0])
    pairs = {(one["said"], one["better"]): (one["steps"], one["more"]) for one in told["instead"]}
    names = [str(name) for name in problem.actions]
    asked = {(a, b): (said[i], instead[i, j]) for i, a in enumerate(names) for j, b in enumerate(names) if i != j}
    assert {pair: steps for pair, (steps, _) in pairs.items()} == {p: n for p, (n, _) in asked.items() if n}
    assert {pair: more for pair, (_, more) in pairs.items()} == pytest.approx({p: asked[p][1] for p in pairs})
    for one in told["deltas"]:
        runs = [(own, *guarded(problem, own, horizon, one["delta"])) for own in hand.values()]
        trips = [own["days"][trip - 1] for own, _, trip in runs if trip]
        assert (one["left"], one["first"]) == (len(trips), min(trips) * 86_400_000 if trips else None)
        assert one["guard"] == pytest.approx(sum(line[-1] for _, line, _ in runs))
    assert {one["delta"] for one in told["deltas"]} == {found.about["delta"], *DELTAS}
    assert [one["guard"] for one in data["deltas"]] == [one["guard"] for one in told["deltas"]]
    for one in data["details"]:
        own = hand[found.details[data["details"].index(one)]["stream"]]
        lines = own["money"] | {"guard": guarded(problem, own, horizon, found.about["delta"])[0]}
        steps = [own["days"].index(at // 86_400_000) for at in one["at"]]
        assert steps[0] == 0
        assert steps[-1] == len(own["days"]) - 1
        for name, line in lines.items():
            np.testing.assert_allclose(one["money"][name], line[steps], rtol=2e-6, atol=1e-3)
        zero = [
            own["days"][t] * 86_400_000
            for t, (p, s) in enumerate(zip(own["laws"], own["came"], strict=True))
            if p[s] == 0
        ]
        assert one["excluded"] == zero
    return told, data


def test_numbers_of_one_stream(tmp_path):
    table = three_states()
    found = lr.audit.audit_log(written(table, tmp_path / "log.parquet"), TRADE)
    told, data = agrees(TRADE, table, found)
    assert told["streams"][0]["excluded"] == 1
    assert data["details"][0]["marks"][-1][0] in ("alarm", "return", "left again")
    assert data["all"]["dated"]
    assert data["all"]["at"] == data["details"][0]["at"]


def test_numbers_of_several_streams(tmp_path):
    table = dated(table_of(NAMES, broken=2))
    log = written(table, tmp_path / "log.parquet")
    found = lr.audit.audit_log(log, SHOP)
    _, data = agrees(SHOP, table, found)
    hand = by_hand(SHOP, table)
    grid = np.array(found.about["grid"])
    np.testing.assert_allclose(
        data["all"]["money"]["model"], sum(own["money"]["model"][grid - 1] for own in hand.values()), rtol=2e-6
    )
    trips = [one.switched_at for one in found.streams if one.switched_at]
    assert data["all"]["left"] == [sum(trip <= step for trip in trips) for step in grid]
    for row in data["rows"]:
        own = hand[row[0]]
        at, lines = drawn(row, data)
        steps = [own["days"].index(place // 86_400_000) for place in at]
        assert steps == [round(p / (POINTS - 1) * (len(own["days"]) - 1)) for p in range(POINTS)]
        for name in ("model", "best fixed action"):
            line = lines[data["sparks"]["lines"].index(name)]
            np.testing.assert_allclose(line, own["money"][name][steps], atol=(row[11][1] - row[11][0]) / 4095)


def test_times_that_streams_do_not_share_are_steps(tmp_path):
    table = table_of(NAMES)
    ahead = [{"calm": 5}.get(name, 0) for name in table["stream"].to_pylist()]
    table = dated(table.set_column(1, "step", pa.array(np.asarray(table["step"]) + ahead)))
    data = data_in(page(lr.audit.audit_log(written(table, tmp_path / "log.parquet"), SHOP)))
    assert not data["all"]["dated"]
    assert data["all"]["at"][-1] == 260
    assert data["dated"]
    assert all(one["at"][0] > 10**12 for one in data["details"])


@pytest.mark.parametrize("lag", [1, 3])
def test_a_break_that_is_heard_slowly_is_heard_later_with_a_smaller_delta(tmp_path, lag):
    T, rng = 400, np.random.default_rng(5)
    wet = np.where(rng.random(T) < 0.5, 0.95, 0.4)
    came = rng.random(T) < np.where(wet == 0.95, 0.65, 0.4)
    days = np.arange(np.datetime64("2025-01-01"), np.datetime64("2025-01-01") + T)
    table = pa.table({"ds": days, "state": np.array(["dry", "wet"])[came.astype(int)], "p_dry": 1 - wet, "p_wet": wet})
    found = lr.audit.audit_log(written(table, tmp_path / "log.parquet"), SHOP, lag=lag)
    own, tried = by_hand(SHOP, table)["0"], json.loads(found.to_json())["deltas"]
    for one in tried:
        money, step = guarded(SHOP, own, T, one["delta"], lag)
        assert one["guard"] == pytest.approx(money[-1])
        assert one["first"] == (None if step is None else own["days"][step - 1] * 86_400_000)
    heard = [one["first"] for one in tried if one["left"]]
    assert heard == sorted(heard)
    assert len(set(heard)) > 1
    (stream,), (detail,) = found.streams, found.details
    assert [step for what, step, _ in detail["marks"] if what == "alarm"] == [stream.switched_at]
    reached = [at for at, e in zip(detail["steps"], detail["evidence"], strict=True) if e >= detail["threshold"]]
    assert min(reached) == pytest.approx(stream.switched_at, abs=2)  # the curve has every other step


def test_numbers_have_pairs_of_actions_and_no_reliability():
    orders, T, rng = np.arange(0.0, 60, 10), 60, np.random.default_rng(0)
    stall = lr.Payoff(
        lambda order, demand: 5 * np.minimum(order, demand) - 3 * order,
        *(orders, -150, 100),
        knots=orders,
        outcomes=(0, np.inf),
    )
    said, came = np.sort(rng.gamma(6, 5, (T, 3)), axis=1), rng.gamma(6, 5, T)
    streams = recorded(stall, lr.Quantiles([0.1, 0.5, 0.9], said), came, None, None)
    sketch, guard = Sketch(stall, streams, Steps(np.arange(T), np.zeros(T), ROWS), np.array([1, T])), lr.Guard(stall)
    (block,) = streams.blocks()
    sketch.add(guard, block, play(guard, block), dict.fromkeys(SPARKS, np.zeros((1, T))), np.zeros((1, T)))
    live, asked = lr.Guard(stall, test=lr.ExactTest(1e-9)), dict[tuple[str, str], float]()
    for t in range(T):  # so small a delta that it always answers the model
        a = int(live.advise(lr.Quantiles([0.1, 0.5, 0.9], said[t])).policy.argmax())
        live.observe(came[t])
        for b, order in enumerate(orders):
            pair = str(stall.actions[a]), str(stall.actions[b])
            more = 5 * (min(order, came[t]) - min(orders[a], came[t])) - 3 * (order - orders[a])
            asked[pair] = asked.get(pair, 0.0) + more
    told = sketch.told()
    pairs = instead(stall, told["instead"], told["said"])
    assert {(one["said"], one["better"]): one["more"] for one in pairs} == pytest.approx(
        {pair: more for pair, more in asked.items() if pair[0] != pair[1]}
    )
    assert reliability(stall, told["reliable"]) == []


def drawn(row, data):
    """A spark line of the page: places on the axis, and its lines."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    low, high, axis, text, _ = row[11]
    first, unit, *apart = map(int, data["sparks"]["axes"][axis].split())
    at = first + unit * np.cumsum([0, *apart])
    level = np.array([64 * letters.index(a) + letters.index(b) for a, b in zip(text[::2], text[1::2], strict=True)])
    return at.tolist(), low + level.reshape(-1, POINTS)[:3] / 4095 * (high - low)


# In a browser.


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


class Tab:
    """A page that is open: what is drawn on it, and what went wrong."""

    def __init__(self, browser, file, width, scheme="light"):
        self.said, self.asked, self.file, self.width = [], [], file, width
        self.on = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
        self.on.on("console", lambda message: self.said.append(message.text))
        self.on.on("pageerror", lambda error: self.said.append(str(error)))
        self.on.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        self.on.on("request", lambda request: self.asked.append(request.url))
        self.on.goto(file.as_uri())
        self.on.wait_for_selector("#money .scatterlayer path", state="attached")

    def traces(self, chart):
        """By name, the values of each line of a chart."""
        script = "id => document.getElementById(id).data.map(one => [one.name, one.x, one.y])"
        return {name: (x, y) for name, x, y in self.on.evaluate(script, chart)}

    def ends(self, chart, k):
        """Where the path of the k-th line ends, in the units of its axes."""
        script = """([id, k]) => {
          const chart = document.getElementById(id), {xaxis, yaxis} = chart._fullLayout;
          const path = chart.querySelectorAll(".scatterlayer .trace")[k].querySelector("path.js-line");
          const end = path.getPointAtLength(path.getTotalLength());
          return [xaxis.p2l(end.x), yaxis.p2l(end.y), Math.abs(yaxis.p2l(1) - yaxis.p2l(0))];
        }"""
        return self.on.evaluate(script, [chart, k])

    def cells(self, table):
        script = (
            "id => [...document.getElementById(id).tBodies[0].rows].map(row => [...row.cells].map(c => c.innerText))"
        )
        return self.on.evaluate(script, table)

    def text(self, name):
        return self.on.locator(f"#{name}").inner_text()

    def comes(self, asked):
        """Wait until that is so; the page lets nobody evaluate text, so it is asked from outside."""
        for _ in range(100):
            if self.on.evaluate(asked):
                return
            self.on.wait_for_timeout(50)
        raise AssertionError(asked)

    def well(self):
        """Nothing said, nothing fetched, nothing cut off."""
        assert self.said == []
        assert self.asked == [self.file.as_uri()]
        assert self.on.evaluate("document.documentElement.scrollWidth") <= self.width
        over = """[...document.querySelectorAll(".scroll, h1, p, td, th, .facts div, dd")]
          .filter(one => one.offsetParent && one.scrollWidth > one.clientWidth + 1)
          .map(one => one.outerHTML.slice(0, 200))"""
        assert self.on.evaluate(over) == []
        names = """[...document.querySelectorAll(".legendtext, .xtick text, .ytick text, .annotation-text")]
          .filter(one => { const box = one.getBoundingClientRect(); return box.left < 0 || box.right > innerWidth; })
          .map(one => one.textContent)"""
        assert self.on.evaluate(names) == []


def amount(value, signed=False):
    """A payoff as the page shows it, where it is large or 0."""
    sign = MINUS if value < 0 else "+" if signed and value > 0 else ""
    return f"{sign}{abs(value):,.0f}" if abs(value) >= 100 or value == 0 else None


@pytest.mark.page
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "light"), (1280, "dark"), (390, "dark")])
def test_one_stream_in_a_browser(tmp_path, browser, width, scheme):
    table = three_states()
    found = lr.audit.audit_log(written(table, tmp_path / "log.parquet"), TRADE)
    told, _ = agrees(TRADE, table, found)
    file = tmp_path / "audit.html"
    file.write_text(page(found), encoding="utf-8")
    tab = Tab(browser, file, width, scheme)
    (one,) = told["streams"]
    (detail,) = data_in(page(found))["details"]
    assert not tab.on.locator("#streamsection").is_visible()
    for k, name in enumerate(("model", "guard", "best fixed action")):
        assert amount(one["earned"][name] * one["steps"]) in tab.on.locator("#facts div").nth(k).inner_text()
    assert one["switched_time"] in tab.text("facts")

    # beside the model first, then in all, then with the others
    x, y = tab.traces("money")["guard"]
    assert x == detail["at"]
    np.testing.assert_allclose(y, np.subtract(detail["money"]["guard"], detail["money"]["model"]))
    tab.on.locator("#totals").check()
    assert tab.traces("money")["guard"][1] == detail["money"]["guard"]
    assert "Hedge" not in tab.traces("money")
    tab.on.locator("#others").check()
    shown = tab.traces("money")
    assert {name: shown[name][1] for name in detail["money"]} == detail["money"]
    order = tab.on.evaluate("document.getElementById('money').data.map(one => one.name)")
    end = tab.ends("money", order.index("model"))
    assert end[0] == pytest.approx(detail["at"][-1], abs=3 * 86_400_000)
    assert end[1] == pytest.approx(detail["money"]["model"][-1], abs=1.5 * end[2])
    marked = [at for what, _, at in detail["marks"] if what == "alarm"]
    assert shown["alarm"][0] == marked
    lines = tab.on.evaluate("document.getElementById('money').layout.shapes.map(one => one.x0)")
    assert lines == [at for what, _, at in detail["marks"] if what in ("alarm", "wrong since")]
    assert f"alarm {one['switched_time']}" in tab.on.locator("#money .annotation-text").all_text_contents()
    returns = [at for what, _, at in detail["marks"] if what == "return"]
    assert shown.get("return to the model", ([], []))[0] == returns

    # what is under the pointer
    tab.on.locator("#money").scroll_into_view_if_needed()
    box = tab.on.locator("#money .nsewdrag").bounding_box()
    tab.on.mouse.move(box["x"] + box["width"] / 3, box["y"] + box["height"] / 2)
    tab.on.wait_for_selector("#money .hoverlayer .legend text")
    hovered = tab.on.locator("#money .hoverlayer").text_content()
    assert any(f"model : {value:,.6g}".replace("-", MINUS) in hovered for value in detail["money"]["model"])

    # evidence stays readable though a state came that had probability 0
    evidence = tab.traces("evidence")
    x, y = evidence["evidence"]
    assert max(detail["evidence"]) > 100
    np.testing.assert_allclose(y, np.clip(np.exp(np.minimum(detail["evidence"], 50)), 1e-2, 1e4))
    assert evidence["alarm at 20"][1] == pytest.approx([20, 20])
    assert evidence["came with probability 0"][0] == detail["excluded"]
    assert "probability 0 came once" in tab.text("evidencenote")

    # each state's reliability
    for s, own in enumerate(told["reliability"]):
        tab.on.locator("#state").select_option(label=own["state"])
        x, y = tab.traces("reliability")["how often it came, with 95% intervals"]
        np.testing.assert_allclose(x, [each["said"] for each in own["bins"]], rtol=1e-5)
        np.testing.assert_allclose(y, [each["came"] for each in own["bins"]], rtol=1e-5, atol=1e-9)
        assert TRADE.states[s] in tab.text("reliabilitynote")
    cells = tab.cells("instead")
    assert len(cells) == len(told["instead"])
    for row, pair in zip(cells, told["instead"], strict=True):
        assert row[:3] == [pair["said"], pair["better"], f"{pair['steps']:,}"]
        assert amount(pair["more"], True) in (row[3], None)
    for row, tried in zip(tab.cells("deltas"), told["deltas"], strict=True):
        assert row[0].startswith(f"1 in {1 / tried['delta']:,.0f}")
        assert row[1] == (str(np.datetime64(tried["first"], "ms"))[:10] if tried["left"] else "never")
        more = tried["guard"] - one["earned"]["model"] * one["steps"]
        assert amount(more, True) in (row[3], None)
    for row, (name, value) in zip(tab.cells("players"), one["earned"].items(), strict=True):
        assert row[0] == name
        assert amount(value * one["steps"]) in (row[1], None)
    assert [row[0] for row in tab.cells("payoffs")] == [str(name) for name in TRADE.actions]

    # by day, by night, on paper
    ink = "getComputedStyle(document.querySelector('#money .legendtext')).fill"
    wide = "document.querySelector('#money .main-svg').getBoundingClientRect().width"
    before = tab.on.evaluate(ink)
    tab.on.emulate_media(color_scheme="light" if scheme == "dark" else "dark")
    tab.comes(f"{ink} !== '{before}'")
    tab.well()
    tab.on.emulate_media(color_scheme=scheme, media="print")
    tab.comes(f"{wide} === 680 && {ink} === 'rgb(28, 39, 51)'")
    assert not tab.on.locator("#others").is_visible()
    tab.on.set_viewport_size({"width": 688, "height": 900})  # between the margins of A4
    assert tab.on.evaluate("document.documentElement.scrollWidth") <= 688
    tab.on.set_viewport_size({"width": width, "height": 844})
    tab.on.emulate_media(color_scheme=scheme, media="screen")
    tab.comes(f"{wide} < {width} && {wide} !== 680 && {ink} === '{before}'")
    tab.well()
    tab.on.close()


@pytest.mark.page
@pytest.mark.parametrize("width", [1280, 390])
def test_several_streams_in_a_browser(tmp_path, browser, width):
    found = lr.audit.audit_log(written(dated(table_of(NAMES, broken=2)), tmp_path / "log.parquet"), SHOP)
    file = tmp_path / "audit.html"
    file.write_text(page(found), encoding="utf-8")
    data = data_in(page(found))
    tab = Tab(browser, file, width)
    _, curves = found.curves()
    tab.on.locator("#totals").check()
    for name in ("model", "guard", "best fixed action"):
        np.testing.assert_allclose(tab.traces("money")[name][1], curves[name], rtol=1e-5)
    assert tab.traces("evidence")["left"][1] == data["all"]["left"]
    assert f"{found.alarms} of 4" in tab.text("facts")
    for one in data["details"]:
        tab.on.locator("#which").select_option(label=one["stream"])
        assert one["stream"] in tab.text("over")
        assert tab.traces("money")["guard"][1] == one["money"]["guard"]
        assert tab.cells("instead")[0][2] == f"{one['instead'][0][2]:,}"
        assert "This stream" in tab.text("reliabilitynote")
    tab.on.locator("#which").select_option(label="all streams")
    assert tab.traces("evidence")["left"][1] == data["all"]["left"]
    assert EVIL in tab.text("streams")
    tab.well()
    tab.on.close()


@pytest.mark.page
@pytest.mark.parametrize("width", [1280, 390])
def test_ten_thousand_streams_in_a_browser(tmp_path, browser, width):
    n, T = 10_000, 24
    rng = np.random.default_rng(1)
    wet = rng.beta(1, 1.2, (n, T)).round(4)
    came = rng.random((n, T)) < np.where(np.arange(n)[:, None] % 50, wet, 1 - wet)
    columns = {"stream": np.repeat([f"Shop {i:05}" for i in range(n)], T), "step": np.tile(np.arange(1, T + 1), n)}
    columns |= {"state": np.array(["dry", "wet"])[came.astype(int).ravel()]}
    log = pa.table(columns | {"p_dry": 1 - wet.ravel(), "p_wet": wet.ravel()})
    found = lr.audit.audit_log(written(log, tmp_path / "log.parquet"), SHOP, events=False, fallback=False)
    file = tmp_path / "audit.html"
    text = page(found)
    file.write_text(text, encoding="utf-8")
    assert len(text.encode()) < 9_000_000
    data = data_in(text)
    assert len(data["rows"]) == n
    streams = {one.stream: one for one in found.streams}
    tab = Tab(browser, file, width)
    assert tab.text("shown") == "1\u201325 of 10,000"

    def names():
        return [row[0] for row in tab.cells("streams")]

    assert names() == [row[0] for row in data["rows"][:25]]
    tab.on.locator("#next").click()
    assert names() == [row[0] for row in data["rows"][25:50]]
    tab.on.locator("#previous").click()
    assert names() == [row[0] for row in data["rows"][:25]]
    tab.on.locator("#only").select_option("left")
    assert tab.text("shown").endswith(f"of {found.alarms:,}")
    tab.on.locator("#only").select_option("named")
    assert tab.text("shown").endswith(f"of {len(found.survivors):,}" if found.survivors else "none")
    tab.on.locator("#only").select_option("all")

    # in the order of every column that can be seen, both ways
    players = data["players"]
    model, guard, best = (players.index(name) for name in ("model", "guard", "best fixed action"))
    keys = {
        "stream": lambda row: row[0],
        "steps": lambda row: row[1],
        "model": lambda row: row[10][model],
        "guard, compared": lambda row: row[10][guard] - row[10][model],
        "best fixed action, compared": lambda row: row[10][best] - row[10][model],
        "left the model": lambda row: row[2],
        "wrong since": lambda row: row[4],
        "returns": lambda row: row[6],
        "evidence": lambda row: row[9],
        "named": lambda row: row[8],
    }
    followed = 0
    for name, key in keys.items():
        button = tab.on.locator("#streams th button").filter(has_text=name).first
        if not button.is_visible():
            continue
        followed += 1
        have, none = ([row for row in data["rows"] if (key(row) is None) == missing] for missing in (False, True))
        for down in (False, True) if name == "stream" else (True, False):
            tab.on.locator("#streams th button").filter(has_text=name).first.click()
            ordered = (
                sorted(have, key=lambda row: -key(row) if down else key(row))
                if name != "stream"
                else sorted(have, key=key, reverse=down)
            )
            assert names() == [row[0] for row in [*ordered, *none][:25]], (name, down)
    assert followed == (len(keys) if width == 1280 else 3)

    # any stream is found, with its numbers, its spark line, and its curves above
    asked = next(row[0] for row in reversed(data["rows"]) if row[2] is None)
    tab.on.locator("#search").fill(asked.upper())
    assert names() == [asked]
    own, i = streams[asked], int(asked.split()[1])
    cells = tab.cells("streams")[0]
    shown = amount(own.earned["model"] * T)
    assert shown in (cells[3], None)
    earned = np.where(came[i], -20, 100)
    money = np.cumsum(np.where(100 * (1 - wet[i]) - 20 * wet[i] > 0, earned, 0))
    fixed = np.cumsum(earned if earned.sum() > 0 else 0 * earned)
    steps = np.round(np.arange(POINTS) / (POINTS - 1) * (T - 1)).astype(int)
    beside = (money - fixed)[steps]
    points = tab.on.locator("#streams polyline.model").get_attribute("points").split()
    x, y = np.array([point.split(",") for point in points], dtype=float).T
    low, high = min(0, beside.min()), max(0, beside.max())
    np.testing.assert_allclose(y, 26 - 24 * (beside - low) / (high - low), atol=0.1)
    np.testing.assert_allclose(x, np.linspace(0, 100, POINTS), atol=0.06)
    tab.on.locator("#streams td button").click()
    assert asked in tab.text("over")
    tab.on.locator("#totals").check()
    at, line = tab.traces("money")["model"]
    assert at == (steps + 1).tolist()
    np.testing.assert_allclose(line, money[steps], atol=0.1)
    assert f"Drawn from {POINTS} points" in tab.text("moneynote")
    tab.on.locator("#search").fill("no such stream")
    assert tab.text("shown") == "none"
    tab.on.locator("#search").fill("")
    tab.well()
    tab.on.close()
