"""Event-driven contact beside time stepping: when the foot leaves, and what an impact takes.

    python benchmarks/event_contact.py

The upright jumper is pulled up by a force that rises as 3/2 G t (lift-off at 2/3 s), held over each
step at its mean; it lands with a swinging bent leg; the walker changes legs. Landing is compared
with a continuous integration (DOP853 at 1e-12), the walker with our own at h = 0.1 ms. The foot is
rough enough not to slip by time stepping, whose release is the first step without contact force and
whose loss is that of contact normal and friction in the ledger. The walker by time stepping changes
legs at the first node past the guard.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pinocchio as pin
from scipy.integrate import solve_ivp

import vi_contact as vc

TIME_STEPS = (0.02, 0.01, 0.005, 0.0025, 0.00125)


def rough_jumper() -> vc.Robot:
    """The jumper with a foot that does not slip by time stepping either."""
    text = Path(vc.load_robot("jumper").path).read_text()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "jumper.urdf")
        path.write_text(text.replace('radius="0" friction="0.8"', 'radius="0" friction="100"'))
        robot = vc.load_robot(path)
    assert robot.contacts[0].friction == 100.0
    return robot


JUMPER = rough_jumper()
CALF, FOOT = 3, np.array([0.0, 0.0, -0.432])
SWING = np.array([0.0, 0.5, 1.0, 2.0, -3.0])  # of the leg in flight [m/s, rad/s]
HALF = np.pi / 6.0


def bent() -> np.ndarray:
    """Hip and knee bent, the foot 0.1 m above the ground."""
    q = JUMPER.neutral()
    q[1:5] = pin.Quaternion(pin.rpy.rpyToMatrix(0.0, -0.7, 0.0)).coeffs()
    q[5] = 1.4
    q = JUMPER.on_ground(q)
    q[0] += 0.1
    return q


# ------------------------------------------------------------------ continuous
class Continuous:
    """The jumper's equations of motion, with or without its foot held."""

    def __init__(self) -> None:
        self.model = JUMPER.model
        self.data = self.model.createData()

    def foot(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Height and Jacobian (3, nv) of the foot."""
        pin.computeJointJacobians(self.model, self.data, q)
        J = pin.getJointJacobian(self.model, self.data, CALF, pin.LOCAL_WORLD_ALIGNED)
        place = self.data.oMi[CALF]
        lever = place.rotation @ FOOT
        return (place.translation + lever)[2], J[:3] - pin.skew(lever) @ J[3:]

    def touch_down(self, q0: np.ndarray, v0: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Time, q and v where the foot meets the ground in free flight."""
        nv = self.model.nv

        def unpack(y):
            return pin.integrate(self.model, q0, y[:nv]), y[nv:]

        def motion(_, y):
            # y is the displacement in the tangent space at q0: its rate is v mapped there
            q, v = unpack(y)
            rate = np.linalg.solve(pin.dIntegrate(self.model, q0, y[:nv])[1], v)
            return np.concatenate([rate, pin.aba(self.model, self.data, q, v, np.zeros(nv))])

        def event(_, y):
            return self.foot(unpack(y)[0])[0]

        event.terminal, event.direction = True, -1
        options = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-13, "events": event}
        result = solve_ivp(motion, (0.0, 1.0), np.concatenate([np.zeros(nv), v0]), **options)
        return float(result.t[-1]), *unpack(result.y[:, -1])


def exact_loss() -> tuple[float, float]:
    """Time of touch-down and energy that holding the foot takes."""
    free = Continuous()
    time, q, v = free.touch_down(bent(), SWING)
    _, J = free.foot(q)
    M = pin.crba(free.model, free.data, q)
    M = np.triu(M) + np.triu(M, 1).T
    speed = J @ v
    return time, float(0.5 * speed @ np.linalg.solve(J @ np.linalg.solve(M, J.T), speed))


# ------------------------------------------------------------------ both ways
def release(time_step: float, law: vc.PlasticContact | None) -> float:
    weight = JUMPER.mass * 9.81
    sim = vc.Simulator(JUMPER, time_step, contact=law)
    sim.reset(JUMPER.on_ground(JUMPER.neutral()))
    run = sim.run(
        0.8, lambda state: [1.5 * weight * (state.time + 0.5 * time_step), 0.0, 0.0, 0.0, 0.0]
    )
    if law is not None:
        return run.occurrences[0].time
    return float(run.time[np.flatnonzero(run.contacts["foot"].force[:, 2] <= 0.0)[0]])


def landing(time_step: float, law: vc.PlasticContact | None) -> tuple[float, float]:
    sim = vc.Simulator(JUMPER, time_step, contact=law)
    sim.reset(bent(), SWING)
    run = sim.run(0.2)
    return run.impacts[0][0], float(-(run.ledger.impact + run.ledger.friction).sum())


def change_legs(state: vc.State) -> tuple[list[float], list[float]]:
    (foot, angle), (slip, rate) = state.q, state.v
    return [foot, angle + 2.0 * HALF], [slip, np.cos(2.0 * HALF) * rate]


def walker(time_step: float, solved: bool) -> tuple[float, float]:
    """Time of the second change of legs, and the energy that both took."""
    robot = vc.load_robot("walker")
    event = vc.Event(lambda state: state.q[1] + HALF, change_legs, direction=-1)
    sim = vc.Simulator(robot, time_step, events=[event] if solved else ())
    sim.reset([0.0, HALF], [0.0, -4.0])
    if solved:
        run = sim.run(1.2)
        return run.occurrences[1].time, float(-run.ledger.impact.sum())
    lost, changes = 0.0, 0
    while changes < 2:
        state = sim.step()
        if state.q[1] < -HALF:
            lost += state.energy
            lost -= sim.reset(*change_legs(state), state.time).energy
            changes += 1
    return sim.state.time, lost


def main() -> None:
    law = vc.PlasticContact()
    lift, (touch, loss) = 2.0 / 3.0, exact_loss()
    step, taken = walker(1e-4, True)  # second order: to 2e-8 s
    print(f"continuous: release {lift:.9f} s; touch-down {touch:.9f} s, loss {loss:.6f} J;")
    print(f"            second step {step:.7f} s, loss of both {taken:.6f} J\n")
    names = ("release [s]", "landing [s]", "loss [J]", "step [s]", "loss [J]")
    print("errors   " + f"{'event-driven':<60}" + "time stepping")
    print("h [s]    " + 2 * "".join(f"{name:>12}" for name in names))
    for h in TIME_STEPS:
        row = []
        for solved in (True, False):
            kind = law if solved else None
            found = (release(h, kind), *landing(h, kind), *walker(h, solved))
            row += [a - b for a, b in zip(found, (lift, touch, loss, step, taken), strict=True)]
        print(f"{h:<9g}" + "".join(f"{error:>12.1e}" for error in row), flush=True)


if __name__ == "__main__":
    main()
