"""Random kills, cuts, outages and full disks: a small round of the soak."""

from pathlib import Path

from benchmarks import harness

SOAK = Path(__file__).resolve().parents[2] / "benchmarks" / "studies" / "soak.py"


def test_small_soak() -> None:
    result = harness.run_apart(str(SOAK), "--rounds", "2", "--disturbances", "3", "--questions", "3")
    assert result["failures"] == []
