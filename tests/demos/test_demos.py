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


def test_every_demo_is_tested():
    text = Path(__file__).read_text()
    for demo in DEMOS.glob("*.py"):
        assert f'run("{demo.stem}"' in text
