"""Arenas: scores by hand, the bias of a worst mean, and matches that are the same however they are played."""

import json
import math
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowregret as lr
from lowregret.files import Journal, lines_in
from lowregret.games import Arena, Fixed, Guarded, MatchScore, Nemesis, Plain, Player, bots
from lowregret.games.open_spiel import OpenSpielBot

from ..table_talk import Follows, Says, after_the_others, in_turn

OTHERS = [Fixed([0.6, 0.2, 0.2], "rocky"), Fixed([0.1, 0.2, 0.7], "scissory"), Plain(Follows(), name="follows")]
URN = Plain(lr.PolyaUrn(3), name="urn")


def timeless(arena: Arena) -> list[MatchScore]:
    """Everything but the clock."""
    return [played._replace(ms=0.0) for played in arena.played]


def made_up(payoffs_OxM: np.ndarray) -> Arena:
    """An arena with these payoffs, two seats in turn."""
    return Arena(
        "us",
        10,
        payoffs_OxM.shape[1],
        0,
        tuple(
            MatchScore(f"o{o}", m % 2, m // 2, float(x), -float(x), float(x), 0.0, None, None, 0, 0, 0.5)
            for o, row in enumerate(payoffs_OxM)
            for m, x in enumerate(row)
        ),
    )


def test_scores_are_what_they_say() -> None:
    payoffs = np.random.default_rng(0).normal([[3.0], [-1.0], [7.0]], 2.0, (3, 8))
    found = made_up(payoffs)
    seats = payoffs[:, ::2], payoffs[:, 1::2]
    means, errors = payoffs.mean(axis=1), np.sqrt(sum(seat.var(axis=1, ddof=1) / 4 for seat in seats)) / 2
    assert found.population == pytest.approx((means.mean(), math.sqrt((errors**2).sum()) / 3))
    assert found.worst == pytest.approx((means[1], errors[1]))
    assert found.worst_opponent == "o1"
    weights = np.array([1 / 3, 4 / 3, 1 / 3])
    assert found.aggregate == pytest.approx((means.mean() + means[1], math.sqrt(((weights * errors) ** 2).sum())))
    halves = payoffs[:, [0, 1, 4, 5]], payoffs[:, [2, 3, 6, 7]]  # as many of each seat in both
    assert [half[1].mean() < min(half[0].mean(), half[2].mean()) for half in halves] == [True, True]
    error = math.sqrt(sum(half[1, k::2].var(ddof=1) / 2 for half in halves for k in (0, 1))) / 4
    assert found.worst_split == pytest.approx((payoffs[1].mean(), error))
    assert made_up(payoffs[:, :2]).worst_split is None
    assert found.only(["o0", "o2"]).worst.value == pytest.approx(means[0])
    assert (found.ms, found.alarms, found.returns, found.held) == (0.5, 0, 0, None)


def test_the_worst_is_between_its_two_estimates() -> None:
    """With all true means 0: the least mean errs low, the split one not at all. With one lower, it errs high."""
    rng, n = np.random.default_rng(1), 160
    level = 4.5  # standard errors: about one false alarm in 100,000
    for means, off in ((np.zeros(8), False), (np.array([-0.3, *np.zeros(7)]), True)):
        found = [made_up(rng.normal(means[:, None], 1.0, (8, 8))) for _ in range(n)]
        low = np.array([arena.worst.value for arena in found])
        high = np.array([arena.worst_split.value for arena in found if arena.worst_split is not None])
        assert low.mean() + level * low.std() / math.sqrt(n) < means.min()
        slack = level * high.std() / math.sqrt(n)
        if off:
            assert high.mean() - slack > means.min()
        else:
            assert abs(high.mean()) < slack
        zs = np.array([(a.population.value - means.mean()) / a.population.error for a in found])
        assert abs(zs.std() - 1) < 0.3  # its standard error is right: five of this ratio's own


def test_both_seats_are_taken_in_turn() -> None:
    """Deterministic players in a game that favours the row: each seat's payoff by hand."""
    row = lr.DecisionProblem.from_payoffs([[2.0, 2.0, 2.0]] * 3)
    found = lr.games.arena(Says(in_turn, "us"), [Says(after_the_others, "them")], 7, 4, 0, problem=row)
    assert [(p.seat, p.match, p.payoff, p.theirs) for p in found.played] == [
        *[(0, 0, 14.0, -14.0), (1, 0, -14.0, 14.0)],
        *[(0, 1, 14.0, -14.0), (1, 1, -14.0, 14.0)],
    ]
    assert found.population == found.worst == (0, 0)  # nothing is left to chance, so there is no error
    assert lr.games.arena(Says(in_turn, "us"), [Says(after_the_others, "them")], 7, 2, 0, problem=row).worst == (
        0,
        14.0,
    )
    paper, rock = Fixed([0, 1, 0], "paper"), Fixed([1, 0, 0], "rock")
    assert [(p.payoff, p.theirs) for p in lr.games.arena(paper, [rock], 7, 2, 0).played] == [(7.0, -7.0)] * 2


def test_a_match_depends_on_seed_name_seat_and_number_alone() -> None:
    whole = lr.games.arena(URN, OTHERS, 30, 4, 7)
    by_key = {p[:3]: p for p in timeless(whole)}
    for fewer in (lr.games.arena(URN, OTHERS[::-1], 30, 2, 7), lr.games.arena(URN, {"rocky": OTHERS[0]}, 30, 4, 7)):
        assert all(by_key[p[:3]] == p for p in timeless(fewer))
    assert len({p.expected for p in whole.played}) == 12  # no two matches are one
    renamed = lr.games.arena(URN, {"stone": OTHERS[0]}, 30, 4, 7)
    assert [p.payoff for p in renamed.played] != [p.payoff for p in whole.played[:4]]
    assert timeless(lr.games.arena(URN, OTHERS, 30, 4, 8)) != timeless(whole)
    alike = lr.games.arena(OTHERS[0], {"twin": OTHERS[0]}, 30, 4, 7).played  # one seed in both seats: opposite payoffs
    assert [p.payoff for p in alike[::2]] != [-p.payoff for p in alike[1::2]]
    assert lr.games.arena(URN, OTHERS, 30, 2, np.random.default_rng(0)).seed > 2**32


def test_processes_play_the_same_matches() -> None:
    guarded = Guarded(lr.PolyaUrn(3), name="us")
    others = [*OTHERS[:2], Plain(lr.predictors.OpponentModel(), name="mixture")]  # another process can import them
    alone, spread = (lr.games.arena(guarded, others, 20, 2, 3, jobs=jobs) for jobs in (1, 2))
    assert timeless(alone) == timeless(spread)
    assert spread.held is True


def test_a_process_that_cannot_load_a_player_is_told_of() -> None:
    with pytest.raises(RuntimeError, match=r"jobs: .* take jobs=1"):
        lr.games.arena(URN, [Plain(Nowhere(), name="nowhere"), OTHERS[0]], 20, 2, 3, jobs=2)


class Nowhere(Follows):
    """A model that another process cannot make."""

    def __reduce__(self) -> Any:
        return _made_here, ()


def _made_here() -> Nowhere:
    if multiprocessing.parent_process() is not None:
        raise ImportError("this is another process")
    return Nowhere()


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    """Killed outright it can tell them nothing."""
    script = tmp_path / "run.py"
    script.write_text(
        "import lowregret as lr\n"
        "from lowregret.games import Fixed\n"
        "if __name__ == '__main__':\n"
        "    others = [Fixed([1, 0, 0], 'rocky')]\n"
        "    told = lambda share, name: print('one', flush=True)\n"
        "    lr.games.arena(Fixed([1, 0, 0]), others, 1000, 2000, 0, jobs=2, progress=told)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(lr.__file__).parents[1])}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, env=env) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"one\n"
        run.kill()
        run.communicate(timeout=60)  # its pipe is closed once the last of its processes has ended


def test_cut_at_any_byte_it_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    whole, cut, seen = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl", []
    asked = lr.games.arena(URN, OTHERS[:2], 6, 2, 5, path=whole)
    data = whole.read_bytes()
    ends = np.cumsum([len(line) for line in data.splitlines(keepends=True)]).tolist()
    assert len(ends) == 6
    for n in sorted({*range(0, len(data), 61), *(end + k for end in ends for k in (-2, -1, 0, 1)), len(data)}):
        cut.write_bytes(data[:n])
        seen.clear()
        found = lr.games.arena(URN, OTHERS[:2], 6, 2, 5, path=cut, progress=lambda share, name: seen.append(share))
        assert timeless(found) == timeless(asked), n
        kept = max(0, sum(end <= n + 1 for end in ends) - 2)  # a line is whole without its end
        assert len(seen) == 4 - kept, n
        assert found.played[:kept] == asked.played[:kept], (
            n
        )  # those were not played again, their times are the old ones
    more = lr.games.arena(URN, OTHERS, 6, 4, 5, path=whole)
    assert timeless(more) == timeless(lr.games.arena(URN, OTHERS, 6, 4, 5))


def test_another_run_s_matches_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "matches.jsonl"
    usual: dict[str, Any] = {"player": URN, "opponents": OTHERS[:1], "rounds": 6, "matches": 2, "seed": 5}
    lr.games.arena(**usual, path=path)
    data = path.read_bytes()
    for change, words in (
        ({"rounds": 7}, "played with rounds 6, these have 7"),
        ({"seed": 6}, "played with seed 5, these have 6"),
        ({"player": Plain(lr.PolyaUrn(3, prior=2.0), name="urn")}, "played with player urn: .*prior=1.0"),
        ({"problem": lr.DecisionProblem(np.eye(3))}, "played with problem"),
        ({"opponents": [Fixed([0.5, 0.3, 0.2], "rocky")]}, "the opponent rocky was .*0.6.*, now it is .*0.5"),
    ):
        with pytest.raises(ValueError, match=words):
            lr.games.arena(**{**usual, **change}, path=path)
    assert path.read_bytes() == data
    # Settings that print alike: functions, and whatever a version changed.
    other = tmp_path / "other.jsonl"
    lr.games.arena(**{**usual, "player": Says(lambda *_: np.eye(3)[0])}, path=other)
    with pytest.raises(ValueError, match=r"match 0 with rocky in seat 0 earned .* and now earns .* take another path"):
        lr.games.arena(**{**usual, "player": Says(lambda *_: np.eye(3)[1])}, path=other)
    path.write_bytes(data.replace(b'"seat":0', b'"seat":1', 1))
    with pytest.raises(ValueError, match="line 3 is damaged"):
        lr.games.arena(**usual, path=path)
    path.write_text("my notes\n")
    with pytest.raises(ValueError, match="must be a record of matches"):
        lr.games.arena(**usual, path=path)
    assert path.read_text() == "my notes\n"


class Hidden(Player):
    """Its settings do not print."""

    def __init__(self, laws: Any, name: str) -> None:
        self.laws, self.name = laws, name

    def sit(self, problem: lr.DecisionProblem, rounds: int, rng: np.random.Generator, seat: int) -> Any:
        return Fixed(self.laws[seat]).sit(problem, rounds, rng, seat)

    def __repr__(self) -> str:
        return "Hidden()"


EVEN, ROCKY = [1 / 3] * 3, [0.6, 0.2, 0.2]


@pytest.mark.parametrize(
    ("changed", "seat"),
    [
        ((ROCKY, EVEN), 0),
        ((EVEN, ROCKY), 1),
        ((EVEN, [1 / 3, 1 / 3 + 1e-4, 1 / 3 - 1e-4]), 1),  # so little that no move is another
    ],
)
def test_any_opponent_that_has_changed_is_found(changed: Any, seat: int, tmp_path: Path) -> None:
    path, before = tmp_path / "matches.jsonl", Hidden((EVEN, EVEN), "b")
    others = [Hidden((EVEN, EVEN), "a"), before, Hidden((EVEN, EVEN), "c")]
    lr.games.arena(URN, others, 8, 4, 5, path=path)
    data = path.read_bytes()
    others[1] = Hidden(changed, "b")
    with pytest.raises(ValueError, match=rf"match 0 with b in seat {1 - seat} earned .* take another path"):
        lr.games.arena(URN, others, 8, 8, 5, path=path)
    assert path.read_bytes() == data
    others[1] = before
    assert timeless(lr.games.arena(URN, others, 8, 8, 5, path=path)) == timeless(lr.games.arena(URN, others, 8, 8, 5))


def test_records_from_before_go_on(tmp_path: Path) -> None:
    """Lines that say nothing of what was said in a match: what it earned must then do."""
    path = tmp_path / "matches.jsonl"
    asked = lr.games.arena(URN, OTHERS, 8, 2, 5, path=path)
    lines = lines_in(path, "arena", "a record of matches")
    path.unlink()
    with Journal(path, "arena", "a record of matches") as journal:
        journal.append({name: value for name, value in line.items() if name != "said"} for line in lines)
    assert b"said" not in path.read_bytes()
    assert timeless(lr.games.arena(URN, OTHERS, 8, 2, 5, path=path)) == timeless(asked)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"matches": 3}, "matches must be an even number"),
        ({"matches": 0}, "matches must be a whole number >= 2"),
        ({"rounds": 0}, "rounds must be a whole number"),
        ({"jobs": 0}, "jobs must be a whole number"),
        ({"opponents": []}, "opponents must be at least one"),
        ({"opponents": [OTHERS[0], OTHERS[0]]}, "two called rocky"),
        ({"opponents": "rocky"}, "opponents must be a list"),
        ({"opponents": [lr.PolyaUrn(3)]}, r"opponents\[0\] must be a Player"),
        ({"opponents": {"": OTHERS[0]}}, "names that are text"),
        ({"player": lr.PolyaUrn(3)}, "player must be a Player"),
        ({"opponents": [*OTHERS, OpenSpielBot("greenberg")]}, "rounds: greenberg plays matches of exactly 1000"),
        ({"player": Nemesis(), "opponents": [Nemesis("other")]}, "other sees through the other, and so does nemesis"),
        ({"player": Nemesis(), "opponents": {"player": URN, "o": Nemesis()}}, "o sees through the other, and so does"),
        ({"opponents": {"player": OpenSpielBot("boom")}}, "rounds: boom plays matches of exactly 1000"),
        ({"opponents": {"\ud800": OTHERS[0]}}, "opponents must have names that are text, got '.ud800'"),
        ({"progress": 3}, "progress must be a function"),
        ({"player": Says(lambda *_: np.eye(3)[0]), "jobs": 2}, "jobs: with 2 processes.* cannot be pickled"),
    ],
)
def test_what_cannot_be_played_is_refused_before_it_begins(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    settings: dict[str, Any] = {"player": URN, "opponents": OTHERS, "rounds": 6, "matches": 2, "seed": 0, **change}
    with pytest.raises(ValueError, match=words):
        lr.games.arena(**settings)


def test_what_was_found_is_written_and_read_back() -> None:
    found = lr.games.arena(Guarded(lr.PolyaUrn(3), name="us"), OTHERS, 20, 4, 0)
    assert "± standard error" in found.table().title
    again = Arena.from_json(found.to_json())
    assert again.played == found.played
    assert json.loads(found.to_json())["aggregate"]["value"] == found.aggregate.value == again.aggregate.value
    assert found.held is True
    printed = str(found.table())
    assert all(name in printed for name in ("rocky", "population", "worst, split", "aggregate"))
    ax = found.plot()
    assert [label.get_text() for label in ax.get_yticklabels()][-1] == max(
        found.opponents, key=lambda name: found.by_opponent[name].value
    )
    ax.figure.clear()
    with pytest.raises(
        ValueError, match=r"opponents must be a list of names among rocky, scissory, follows, got .nobody."
    ):
        found.only(["nobody"])
    broken = Arena("us", 1, 2, 0, (*found.played[1:], found.played[0]._replace(held=False)))
    assert broken.held is False


def test_tournament_programs_play_the_same_again_whatever_is_in_between() -> None:
    rps, (one, other) = lr.rock_paper_scissors(), (OpenSpielBot("iocainebot"), OpenSpielBot("randbot"))
    match = lr.games.play(rps, (one, other), 1000, 5)
    seats = [who.sit(rps, 1000, np.random.default_rng(i), i) for i, who in enumerate((one, other))]
    alone = [int(np.argmax(seats[1].policy()))]
    for _ in range(9):
        seats[1].observe(alone[-1], 0)
        alone.append(int(np.argmax(seats[1].policy())))
    seat = other.sit(rps, 1000, np.random.default_rng(1), 1)
    for t in range(10):
        seats[0].policy()  # draws of another seat, from the same library
        assert int(np.argmax(seat.policy())) == alone[t]
        seats[0].observe(0, alone[t])
        seat.observe(alone[t], 0)
    again = lr.games.play(rps, (one, other), 1000, 5)
    assert np.array_equal(match.moves[0], again.moves[0])
    assert np.array_equal(match.moves[1], again.moves[1])
    assert not np.array_equal(match.moves[1], lr.games.play(rps, (one, other), 1000, 6).moves[1])


def test_programs_that_are_known_play_as_they_are_known() -> None:
    """Rocks; rotations; a copy of the last move: they see the moves, and sit right in both seats."""
    rps = lr.rock_paper_scissors()
    ours = Says(in_turn, "us")
    for seat in (0, 1):
        for name, rule in (("rockbot", lambda t, us: 0), ("copybot", lambda t, us: (us[t - 1] + 1) % 3)):
            pair = (ours, OpenSpielBot(name)) if seat == 1 else (OpenSpielBot(name), ours)
            match = lr.games.play(rps, pair, 1000, 0)
            us, them = match.moves[1 - seat].tolist(), match.moves[seat].tolist()
            assert them[1:] == [rule(t, us) for t in range(1, 1000)], (name, seat)
    found = lr.games.arena(Guarded(lr.PolyaUrn(3)), [OpenSpielBot("rockbot"), Nemesis()], 1000, 2, 0)
    assert found.by_opponent["rockbot"].value > 980
    assert found.held is True


def test_the_two_halves_are_all_of_them() -> None:
    names = [bot.name for bot in bots()]
    assert len(names) == 43
    assert sorted([bot.name for bot in bots("A")] + [bot.name for bot in bots("B")]) == names == sorted(names)
    with pytest.raises(ValueError, match=r"half must be .A. or .B., got .C."):
        bots("C")
    with pytest.raises(ValueError, match=r"name must be one of actr_lag2_decay, .*got 'deepblue'"):
        OpenSpielBot("deepblue")
    with pytest.raises(ValueError, match="greenberg plays rock_paper_scissors"):
        OpenSpielBot("greenberg").sit(lr.matching(3), 1000, np.random.default_rng(0), 0)
