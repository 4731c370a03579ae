"""Every demo runs without a window and shows what it claims."""

import importlib.util
from pathlib import Path

import numpy as np

DEMOS = Path(__file__).parents[2] / "demos"


def run(name, *arguments):
    spec = importlib.util.spec_from_file_location(name, DEMOS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main(["--no-viewer", *arguments])


def test_pd_of_joint_0_reaches_its_target(tmp_path, capsys):
    error = run("pd_joint_0", "--plot", str(tmp_path / "pd.png"))
    assert abs(error) < np.radians(0.5)  # the paper's curve has settled within a second
    assert (tmp_path / "pd.png").stat().st_size > 10_000
    assert "loop open by at most" in capsys.readouterr().out


def test_every_demo_is_tested():
    text = Path(__file__).read_text()
    for demo in DEMOS.glob("*.py"):
        assert f'run("{demo.stem}"' in text
