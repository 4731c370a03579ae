"""Every demo runs without a window and shows what it claims."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

DEMOS = Path(__file__).parents[2] / "demos"


def run(name, *arguments, viewer=False):
    spec = importlib.util.spec_from_file_location(name, DEMOS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main([*([] if viewer else ["--no-viewer"]), *arguments])


def test_pd_of_joint_0_reaches_its_target(tmp_path, capsys):
    error = run("pd_joint_0", "--plot", str(tmp_path / "pd.png"))
    assert abs(error) < np.radians(0.5)  # the paper's curve has settled within a second
    assert (tmp_path / "pd.png").stat().st_size > 10_000
    assert "loop open by at most" in capsys.readouterr().out


def test_hopper_hops_to_a_steady_height(capsys):
    figures = run("hop")
    assert figures.hops >= 10
    assert figures.spread < 0.02
    assert figures.height == pytest.approx(0.25, rel=0.02)  # as asked for
    assert figures.loop_error < 1e-9
    assert not figures.slid
    assert 0.01 < figures.saturated < 0.5  # the motors' limits act
    assert "hops within" in capsys.readouterr().out


def test_hopper_writes_its_report(tmp_path, capsys):
    file = tmp_path / "hop.html"
    run("hop", "--time", "1", "--html", str(file), viewer=True)
    assert capsys.readouterr().out.splitlines()[-1] == f"report: {file}"
    assert file.stat().st_size < 10e6


def test_jumper_bounces_with_bounded_energy(tmp_path):
    """60 of the 400 s; a contact every 0.481 s, the first after half of that."""
    plot, page = tmp_path / "energy.png", tmp_path / "run.html"
    figures = run("jumper_elastic", "--time", "60", "--plot", str(plot), "--html", str(page))
    assert {step: contacts for step, (contacts, _) in figures.items()} == {0.01: 125, 0.005: 125}
    assert figures[0.01][1] < 1.3e-3  # as published
    assert figures[0.005][1] < 1.3e-4
    assert plot.stat().st_size > 10_000 and page.stat().st_size > 100_000


def test_jumper_leaves_the_ground_at_the_published_times(tmp_path):
    plot, page = tmp_path / "release.png", tmp_path / "run.html"
    times = run("jumper_plastic", "--plot", str(plot), "--html", str(page))
    np.testing.assert_allclose(times, [0.6570, 0.6591796875, 0.6597], rtol=0, atol=1e-9)
    assert plot.stat().st_size > 10_000 and page.stat().st_size > 100_000


def test_walker_takes_two_steps_and_falls(tmp_path, capsys):
    plot, page = tmp_path / "walk.png", tmp_path / "run.html"
    events = run("walker_passive", "--plot", str(plot), "--html", str(page))
    assert [name for name, _ in events] == ["step", "step", "fall"]
    # the continuous motion, at second order: 6e-5 s at h = 5 ms
    np.testing.assert_allclose([t for _, t in events], [0.251185, 1.051474, 1.871432], atol=1e-4)
    assert "energy 20.4794 J -> 11.5405 J" in capsys.readouterr().out
    assert plot.stat().st_size > 10_000 and page.stat().st_size > 100_000


def test_dropped_hopper_stands_with_both_solvers(tmp_path, capsys):
    figures = run("ipopt_drop", "--plot", str(tmp_path / "drop.png"))
    assert figures.apart.max() < 1e-5  # the tolerances leave 1e-9
    assert figures.impact == pytest.approx(0.13)  # at 0.12 s it is 13 um above the ground
    assert figures.speed < 0.01  # it stands
    assert (tmp_path / "drop.png").stat().st_size > 10_000
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:2]] == ["newton", "ipopt"]
    assert run("ipopt_drop", "--solver", "newton").apart.max() == 0.0


def test_every_demo_is_tested():
    text = Path(__file__).read_text()
    for demo in DEMOS.glob("*.py"):
        assert f'run("{demo.stem}"' in text
