"""The benchmark of RatioLoss plays every loss it names."""

from benchmarks import torch as benchmark


def test_losses_are_compared(monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "WIDTHS", (8,))
    monkeypatch.setattr(benchmark, "ROUNDS", {16: 4})
    benchmark.main()
    _, head, *rows = capsys.readouterr().out.splitlines()
    assert head == "two layers of 8, 16 samples"
    assert [row.split("  ")[1] for row in rows] == [
        "ClipPPOLoss",
        "RatioLoss mappo",
        "RatioLoss maspo",
        "RatioLoss mars",
        "RatioLoss mars, no diagnostics",
    ]
    assert rows[0].endswith("x 1.00")
