"""The command line."""

import subprocess
import sys
from pathlib import Path

import pytest

import vi_contact as vc
from vi_contact.cli import main


def test_inspect_prints_the_report(capsys):
    assert main(["inspect", "fly_hopper"]) == 0
    assert capsys.readouterr().out.strip() == str(vc.load_robot("fly_hopper").report)


def test_inspect_writes_a_picture(tmp_path, capsys):
    file = tmp_path / "walker.html"
    assert main(["inspect", "walker", "--html", str(file)]) == 0
    assert str(file) in capsys.readouterr().out
    assert "MeshCat.Viewer" in file.read_text()


def test_errors_are_one_line_and_exit_code_2(capsys):
    assert main(["inspect", "no_such_robot"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("vi-contact: no_such_robot: no such file")
    assert captured.err.count("\n") == 1


def test_picture_that_cannot_be_written(tmp_path, capsys):
    assert main(["inspect", "walker", "--html", str(tmp_path / "no" / "x.html")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_options_reach_the_loader(capsys):
    assert main(["inspect", "fly_hopper", "--base", "fixed", "--no-contacts", "--strict"]) == 0
    assert "fixed base" in capsys.readouterr().out


def test_help_shows_examples(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "vi-contact inspect fly_hopper" in capsys.readouterr().out


def test_module_runs_as_a_program():
    command = [sys.executable, "-m", "vi_contact.cli", "inspect", "walker"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Robot 'walker'" in done.stdout
    assert done.stderr == ""


def test_reader_that_stops_early():
    """`vi-contact inspect ... | head -1` ends quietly."""
    program = f"{sys.executable} -m vi_contact.cli inspect fly_hopper | head -1"
    done = subprocess.run(program, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Robot 'fly_hopper'")
    assert done.stderr == ""


def test_simulate_moves_a_robot_and_saves(tmp_path, capsys):
    file = tmp_path / "run.npz"
    arguments = ["simulate", "jumper", "--time", "0.2", "--step", "0.01", "--save", str(file)]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "20 steps to t = 0.2 s" in out
    assert "deepest contact" in out
    assert vc.Trajectory.load(file).q.shape == (21, 6)


def test_simulate_without_anything_says_what_it_needs(capsys):
    assert main(["simulate"]) == 2
    assert "needs a URDF" in capsys.readouterr().err


def test_simulate_with_a_bad_step(capsys):
    assert main(["simulate", "walker", "--step", "-1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_demo_without_a_name_lists_them(capsys):
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    files = {file.stem for file in (Path(__file__).parents[1] / "demos").glob("*.py")}
    assert files == {line.split()[0] for line in out.splitlines()}
    assert "PD control of the Fly-Hopper's hips" in out


def test_demo_runs_with_its_own_options(tmp_path, capsys):
    plot = tmp_path / "pd.png"
    assert main(["demo", "pd_joint_0", "--no-viewer", "--plot", str(plot)]) == 0
    assert "from its target" in capsys.readouterr().out
    assert plot.exists()


def test_demo_that_does_not_exist(capsys):
    assert main(["demo", "pd_joint_1"]) == 2
    assert "did you mean 'pd_joint_0'?" in capsys.readouterr().err
