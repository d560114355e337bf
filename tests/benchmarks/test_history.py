"""The ratios of ``make bench`` are read off what it prints, and compared with the last release before."""

from pathlib import Path

from benchmarks.history import compared, keep, ratios

PRINTED = """Algorithm 1 on 4 x 8 bits, one core  ns/token  times the loop  peak memory / input
  RegretGap, scalar loop                  120.0
  RegretGap, arrays                         6.0           20.0x                 1.50
one stream, advise + observe: rates   us a step   times RegretGap
  2 actions, ExactTest, Recovery                    12    190.5      2.25x
import lowregret: 0.150 s
"""
FOUND = {
    "Algorithm 1 on 4 x 8 bits, one core: RegretGap, arrays": 20.0,
    "one stream, advise + observe: 2 actions, ExactTest, Recovery": 2.25,
}


def test_ratios_are_the_figures_that_end_in_x() -> None:
    assert ratios(PRINTED) == FOUND


def test_a_run_is_compared_with_the_last_release_before_it(tmp_path: Path) -> None:
    slow, fast = FOUND
    assert compared(FOUND, "0.9.0", tmp_path) == "No earlier release has its ratios kept."
    keep({slow: 10.0, fast: 2.25, "a table that went: row": 1.0}, "0.10.0", tmp_path)
    keep({slow: 1.0, fast: 1.0}, "0.9.0", tmp_path)
    keep({slow: 1.0, fast: 1.0}, "1.0.0", tmp_path)
    assert compared(FOUND, "1.0.0", tmp_path).splitlines() == [
        "Since 0.10.0: 1 of 2 ratios moved by more than a quarter",
        f"  {slow}: 10x, now 20x",
    ]
