"""Ctrl-C ends every kind of simulation at once and leaves the simulator after a whole step."""

import signal
import subprocess
import sys
import time

import pytest

START = """
import time, signal, sys
import numpy as np
import vi_contact as vc

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

def at_once(work, prepare=lambda: None):
    print("ready", flush=True)
    try:
        work()
    except KeyboardInterrupt:
        print("interrupted", time.time(), flush=True)
    else:
        print("finished", flush=True)

def goes_on(sim, first=0.0):
    \"\"\"From the last whole step, as another simulator does from there.\"\"\"
    state = sim.state
    steps = (state.time - first) / sim.time_step
    assert steps > 0.5 and abs(steps - round(steps)) < 1e-6, steps
    kept = sim.snapshot()
    ways = [sim.step().q.tobytes() for _ in range(3)]
    sim.restore(kept)
    assert ways == [sim.step().q.tobytes() for _ in range(3)]
"""

RUN = """
sim = vc.Simulator(vc.load_robot("fly_hopper"), 0.001)
at_once(lambda: sim.run(600.0))
goes_on(sim)
"""

CONTROLLED = """
sim = vc.Simulator(vc.load_robot("fly_hopper"), 0.001)
at_once(lambda: sim.run(600.0, lambda state: np.zeros(sim.robot.nu)))
goes_on(sim)
"""

EVENTS = """
sim = vc.Simulator(vc.load_robot("jumper"), contact=vc.PlasticContact())
at_once(lambda: sim.run(600.0))
goes_on(sim)
"""

IPOPT = """
sim = vc.Simulator(vc.load_robot("walker"), solver="ipopt")
sim.step()
at_once(lambda: sim.run(600.0))
goes_on(sim)
"""

OBSTACLES = """
robot = vc.load_robot("fly_hopper")
table = vc.Obstacle.box((4.0, 4.0, 0.1), (0.0, 0.0, -0.05), name="table")
sim = vc.Simulator(robot, 0.001, ground=None, obstacles=table)
q = robot.on_ground(robot.neutral())
q[2] += 0.05
"""

RUN_WITH_OBSTACLES = (
    OBSTACLES
    + """
sim.reset(q)
at_once(lambda: sim.run(600.0))
goes_on(sim)
"""
)

ROLLOUT = """
robot = vc.load_robot("fly_hopper")
q = np.tile(robot.on_ground(robot.neutral()), (8, 1))
at_once(lambda: vc.rollout(robot, 0.001, q, None, np.zeros((100_000, robot.nu)), threads=3))
assert vc.rollout(robot, 0.001, q, None, np.zeros((5, robot.nu))).steps.tolist() == [5] * 8
"""

ROLLOUT_WITH_OBSTACLES = (
    OBSTACLES
    + """
more = dict(ground=None, obstacles=table, threads=3)
starts = np.tile(q, (64, 1))
at_once(lambda: vc.rollout(robot, 0.001, starts, None, np.zeros((50_000, robot.nu)), **more))
few = vc.rollout(robot, 0.001, starts[:3], None, np.zeros((5, robot.nu)), **more)
assert few.steps.tolist() == [5, 5, 5]
"""
)


@pytest.mark.parametrize(
    "script",
    [RUN, CONTROLLED, EVENTS, IPOPT, RUN_WITH_OBSTACLES, ROLLOUT, ROLLOUT_WITH_OBSTACLES],
    ids=["run", "controlled", "events", "ipopt", "obstacles", "rollout", "rollout obstacles"],
)
def test_interrupt(script):
    command = [sys.executable, "-c", START + script + '\nprint("went on")']
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.7)
        asked = time.time()
        process.send_signal(signal.SIGINT)
        told, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors.decode()
    words = told.decode().split()
    assert words[0] == "interrupted" and words[2:] == ["went", "on"], told
    # 0.5 s is what is promised; half a second more where the machine is busy with other things
    assert float(words[1]) - asked < 1.0


def test_error_of_a_worker_is_raised_when_all_have_ended(monkeypatch):
    import numpy as np

    import vi_contact as vc
    from vi_contact.robot.pairs import BodyPairs

    def broken(pairs):
        def separate(pair, poses):
            raise LookupError("the shapes are gone")

        return separate

    robot = vc.load_robot("fly_hopper")
    table = vc.Obstacle.box((4.0, 4.0, 0.1), (0.0, 0.0, -0.05), name="table")
    q = robot.on_ground(robot.neutral())
    sim = vc.Simulator(robot, ground=None, obstacles=table)
    sim.reset(q)
    kept = sim.snapshot()
    monkeypatch.setattr(BodyPairs, "separator", broken)
    with pytest.raises(LookupError, match="gone"):
        vc.rollout(
            robot, 0.01, np.tile(q, (8, 1)), None, np.zeros((9, robot.nu)), ground=None,
            obstacles=table, threads=3,
        )  # fmt: skip
    assert np.isfinite(sim.restore(kept).q).all()
