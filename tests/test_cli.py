"""The command line."""

import re
import signal
import subprocess
import sys
import urllib.request
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


def test_simulate_by_ipopt(tmp_path):
    file = tmp_path / "run.npz"
    command = ["simulate", "jumper", "--time", "0.05", "--save", str(file), "--solver"]
    assert main([*command, "ipopt"]) == 0
    assert (vc.Trajectory.load(file).methods == 3).all()


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


CONTROLLERS = """
class Lift:
    def __init__(self, robot):
        self.robot = robot

    def __call__(self, state):
        return [5.0] * self.robot.nu


class Late:
    def __init__(self, robot):
        pass

    def __call__(self, state):
        if state.time > 0.05:
            raise KeyError("no such gain")
        return [0.0, 0.0]
"""


@pytest.fixture
def controllers(tmp_path, monkeypatch):
    """A user's file, in the current folder."""
    (tmp_path / "my_control.py").write_text(CONTROLLERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    return tmp_path


@pytest.mark.parametrize("place", ["my_control.py", "my_control"])
def test_simulate_with_the_users_controller(controllers, capsys, place):
    command = ["simulate", "fly_hopper_rail", "--time", "0.1", "--save", "run.npz"]
    assert main([*command, "--controller", f"{place}:Lift"]) == 0
    tau = vc.Trajectory.load("run.npz").tau_command
    assert (tau == 5.0).all()


def test_controllers_that_fail_are_told_in_one_line(controllers, capsys):
    command = ["simulate", "fly_hopper_rail", "--controller"]
    for name, words in {
        "my_control.py:Late": "failed at t = 0.06 s: KeyError: 'no such gain' (",
        "my_control.py:Lft": "has no class 'Lft'; did you mean 'Lift'?",
        "no_file.py:Lift": "cannot make the controller",
        "no_module:Lift": "No module named 'no_module'",
        "my_control.py": "give MODULE:CLASS",
    }.items():
        assert main([*command, name]) == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1


def test_simulate_holds_by_pd_and_writes_report_and_plots(tmp_path, capsys):
    html, plot, file = tmp_path / "run.html", tmp_path / "run.png", tmp_path / "run.npz"
    command = ["simulate", "fly_hopper_rail", "--drop", "0.05", "--gain", "300,10", "--time", "1"]
    outputs = ["--html", str(html), "--plot", str(plot), "--save", str(file)]
    assert main([*command, *outputs]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"report: {html}"
    assert html.exists() and plot.exists()
    trajectory = vc.Trajectory.load(file)
    assert trajectory.contacts["foot"].gap[0] == pytest.approx(0.05, abs=1e-12)  # exact
    assert abs(trajectory.v[-1]).max() < 0.05  # nearly at rest [m/s, rad/s]; it fell at 1 m/s


def test_gains_that_are_none(capsys):
    for gain in ("x", "1,2,3", "-1"):
        assert main(["simulate", "jumper", f"--gain={gain}"]) == 2
        assert "give KP or KP,KD" in capsys.readouterr().err
    assert main(["simulate", "jumper", "--gravity-compensation"]) == 2
    assert "needs --gain" in capsys.readouterr().err


def test_view_serves_a_run_until_interrupted(tmp_path):
    file = tmp_path / "run.npz"
    vc.Simulator(vc.load_robot("walker"), ground=None).run(0.1).save(file)
    command = [sys.executable, "-m", "vi_contact.cli", "view", str(file), "--no-browser"]

    def heed_interrupts():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore them

    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    ) as process:
        try:
            url = re.search(r"http://\S+", process.stdout.readline())[0]
            with urllib.request.urlopen(url) as answer:
                assert b"walker" in answer.read()
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 0
        finally:
            process.kill()


def test_view_of_what_is_not_there(capsys):
    assert main(["view", "no_run.npz"]) == 2
    assert "there is no file no_run.npz" in capsys.readouterr().err
    assert main(["view", "no_robot"]) == 2


@pytest.mark.parametrize("command", ["inspect", "simulate", "view", "demo"])
def test_help_of_every_command_shows_examples(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"examples:\n  vi-contact {command}" in capsys.readouterr().out
