r"""The five-bar leg of the Fly-Hopper in minimal coordinates, against vi_contact.

Bokser's paper on the Fly-Hopper simulates the leg with fixed base as two double pendulums, a loop
constraint c(q) in the plane, the KKT system (12), Baumgarte stabilisation and RK4, and leaves the
quantitative comparison with maximal coordinates open. This program makes it: energy and loop
error against step size, as a table and a plot.

Stabilisation. Ours is the standard one, `c'' + 2 alpha c' + beta^2 c = 0`, gains in 1/s: the error
then decays alike in every pose. Equation (11) as printed multiplies by D M^-1 D^T:
`c'' + D M^-1 D^T (alpha c + beta c') = 0`. That is a spring and damper (N/m, N s/m) in parallel
with the ideal constraint force, so its rates are those of the links' inertia seen at the loop and
change with the pose; `form="printed"` has it.

Motion. Within the knees' limits no passive swing lasts: link lengths 0.1 and 0.3 m make the loop a
parallelogram, gravity pulls both hips to straight down where it is singular, and of 325 starts
from rest on a grid none stayed within the limits for longer than 0.41 s. So constant hip torques
hold the leg's weight at a bent pose, about which it swings; they are conservative, and
`E = T + V - tau . q` is constant.

    python benchmarks/five_bar_baseline.py [--only baseline] [--plot five_bar.png]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

import vi_contact as vc

Array = NDArray[np.float64]
Result = dict[str, Array]
"""time (N+1,), q and v (N+1, 4), energy (N+1,) [J], loop_error (N+1,) [m]."""
Method = Callable[[Array, Array, float, float], Result]
"""From q0, v0, time step and duration to a Result; its name heads its columns."""
Form = Literal["standard", "printed"]

PLANE = [0, 2]
"""The leg moves in x and z."""
PARALLELOGRAM = np.array([[1.0, 0.0], [-1.0, 1.0], [0.0, 1.0], [1.0, -1.0]])
"""q = PARALLELOGRAM u closes the loop for all hip angles u = (q_0, q_2)."""
HOLD = PARALLELOGRAM @ [-0.25, 0.3]
"""Pose about which the leg swings [rad]; the hip torques carry its weight there."""
START = PARALLELOGRAM @ [-0.85, 0.3]
"""Released from here at rest it swings for 10 s with joint 1 between -0.29 and 1.25 rad (limits
-0.76 and 1.82) and hips below 5.3 rad/s; two starts 1e-6 apart stay within 4e-6."""
DURATION = 10.0
STEPS = (0.01, 0.005, 0.002, 0.001, 0.0005)
GAINS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 200.0)
"""Baumgarte gains alpha = beta of the scan [1/s]; RK4 is stable up to 2.78 / time step."""


def five_bar(spring: bool = False) -> vc.Robot:
    """The leg on a fixed base without ground contact; without its parallel spring, as the paper."""
    robot = vc.load_robot("fly_hopper", base="fixed", contacts="none")
    springs = robot.springs if spring else ()
    return vc.Robot(
        robot.name, robot.model, robot.bodies, robot.joints, loops=robot.loops, springs=springs
    )


class Leg:
    """Equations of motion of the leg in q (4,): mass matrix, bias and loop from pinocchio."""

    def __init__(self, robot: vc.Robot, tau: Array | None = None) -> None:
        self.robot = robot
        self.model = robot.model.copy()
        loop = robot.loops[0]
        self._loop = [
            self._add_frame(loop.parent, loop.frame_parent.p),
            self._add_frame(loop.child, loop.frame_child.p),
        ]
        self._springs = [
            (spring, self._add_frame(spring.body_1, spring.p_1),
             self._add_frame(spring.body_2, spring.p_2))
            for spring in robot.springs
        ]  # fmt: skip
        self._data = self.model.createData()
        self.tau = self.hold() if tau is None else tau
        """(4,) constant joint torques [N m]."""

    def _add_frame(self, body: int, p_BF: Array) -> int:
        """A frame at a point given in the body frame, which has its origin at the CoM."""
        placement = pin.SE3(np.eye(3), self.robot.bodies[body].com + p_BF)
        name = f"point_{self.model.nframes}"
        return self.model.addFrame(
            pin.Frame(name, body + 1, 0, placement, pin.FrameType.OP_FRAME), False
        )

    def hold(self) -> Array:
        """(4,) hip torques that carry the weight of the leg (and its springs) at HOLD [N m]."""
        load = pin.computeGeneralizedGravity(self.model, self._data, HOLD)
        pin.computeJointJacobians(self.model, self._data, HOLD)
        pin.updateFramePlacements(self.model, self._data)
        load = load - self._spring_force(np.zeros(4))
        tau = np.zeros(4)
        tau[[0, 2]] = PARALLELOGRAM.T @ load
        return tau

    def _frame(self, frame: int) -> tuple[Array, Array]:
        """Position in the world and its Jacobian, (3,) and (3, 4)."""
        jacobian = pin.getFrameJacobian(
            self.model, self._data, frame, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        )
        return self._data.oMf[frame].translation.copy(), jacobian[:3]

    def _spring_force(self, v: Array) -> Array:
        """(4,) generalised force of the springs; kinematics must be up to date."""
        force = np.zeros(4)
        for spring, frame_1, frame_2 in self._springs:
            (p_1, J_1), (p_2, J_2) = self._frame(frame_1), self._frame(frame_2)
            length = np.linalg.norm(p_2 - p_1)
            D = (p_2 - p_1) / length @ (J_2 - J_1)
            tension = spring.stiffness * (length - spring.rest_length) + spring.damping * (D @ v)
            force -= D * tension
        return force

    def loop(self, q: Array) -> Array:
        """Loop error c(q) (2,) in x and z, (4)-(6) [m]."""
        pin.framesForwardKinematics(self.model, self._data, q)
        point_1, point_2 = (self._data.oMf[frame].translation for frame in self._loop)
        return (point_1 - point_2)[PLANE]

    def terms(self, q: Array, v: Array) -> tuple[Array, Array, Array, Array, Array]:
        """M (4, 4), force (4,), c (2,), D = dc/dq (2, 4), d = D' v (2,): (7), (10) and (12)."""
        model, data = self.model, self._data
        zero = np.zeros(4)
        bias = pin.rnea(model, data, q, v, zero)
        M = pin.crba(model, data, q)
        pin.forwardKinematics(model, data, q, v, zero)
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        (p_1, J_1), (p_2, J_2) = (self._frame(frame) for frame in self._loop)
        drift = [  # acceleration of the points at zero joint acceleration
            pin.getFrameClassicalAcceleration(
                model, data, frame, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
            ).linear
            for frame in self._loop
        ]
        force = self.tau - bias + self._spring_force(v)
        return M, force, (p_1 - p_2)[PLANE], (J_1 - J_2)[PLANE], (drift[0] - drift[1])[PLANE]

    def acceleration(self, q: Array, v: Array, alpha: float, beta: float, form: Form) -> Array:
        r"""Joint accelerations (4,) of the stabilised KKT system (12).

        :math:`M a - D^\top \lambda = f`, :math:`D a = -(d + e)` with e of the module's docstring.
        """
        M, force, c, D, d = self.terms(q, v)
        if form == "standard":
            e = 2.0 * alpha * (D @ v) + beta**2 * c
        else:
            e = D @ np.linalg.solve(M, D.T @ (alpha * c + beta * (D @ v)))
        kkt = np.zeros((6, 6))
        kkt[:4, :4], kkt[:4, 4:], kkt[4:, :4] = M, -D.T, D
        return np.linalg.solve(kkt, np.concatenate([force, -(d + e)]))[:4]

    def reduced_acceleration(self, u: Array, w: Array) -> Array:
        """Hip accelerations (2,) on the closed parallelogram: no loop constraint, no drift."""
        M, force, _, _, _ = self.terms(PARALLELOGRAM @ u, PARALLELOGRAM @ w)
        return np.linalg.solve(PARALLELOGRAM.T @ M @ PARALLELOGRAM, PARALLELOGRAM.T @ force)

    def energy(self, q: Array, v: Array) -> float:
        """Kinetic, gravity and spring energy less what the constant torques have done [J]."""
        model, data = self.model, self._data
        energy = pin.computeKineticEnergy(model, data, q, v)
        energy += pin.computePotentialEnergy(model, data, q)
        pin.framesForwardKinematics(model, data, q)
        for spring, frame_1, frame_2 in self._springs:
            length = np.linalg.norm(data.oMf[frame_2].translation - data.oMf[frame_1].translation)
            energy += 0.5 * spring.stiffness * (length - spring.rest_length) ** 2
        return float(energy - self.tau @ q)

    def result(self, time: Array, q: Array, v: Array) -> Result:
        """Energies and loop errors of a motion."""
        energy = np.array([self.energy(*state) for state in zip(q, v, strict=True)])
        loop_error = np.array([np.abs(self.loop(row)).max() for row in q])
        return {"time": time, "q": q, "v": v, "energy": energy, "loop_error": loop_error}


def simulate(
    q0: Array,
    v0: Array,
    time_step: float,
    duration: float,
    alpha: float,
    beta: float,
    form: Form = "standard",
    leg: Leg | None = None,
) -> Result:
    """The paper's simulation: KKT system, Baumgarte stabilisation, RK4.

    alpha, beta: gains [1/s]; of (11) as printed [N/m] and [N s/m] with form="printed".
    A motion that blows up ends in NaN.
    """
    leg = leg or Leg(five_bar())
    steps = round(duration / time_step)
    q, v = np.full((steps + 1, 4), np.nan), np.full((steps + 1, 4), np.nan)
    q[0], v[0] = q0, v0

    def rate(x: Array) -> Array:
        return np.concatenate([x[4:], leg.acceleration(x[:4], x[4:], alpha, beta, form)])

    x, h = np.concatenate([q0, v0]), time_step
    for k in range(1, steps + 1):
        k1 = rate(x)
        k2 = rate(x + h / 2 * k1)
        k3 = rate(x + h / 2 * k2)
        k4 = rate(x + h * k3)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        if not np.abs(x).max() < 1e3:  # rad and rad/s: far beyond any motion of the leg
            break
        q[k], v[k] = x[:4], x[4:]
    return leg.result(time_step * np.arange(steps + 1), q, v)


def reference(q0: Array, v0: Array, times: Array, leg: Leg | None = None) -> Result:
    """The exact motion to about 1e-12, in the two hip angles, where the loop cannot open."""
    leg = leg or Leg(five_bar())
    u0, w0 = q0[[0, 2]], v0[[0, 2]]
    if max(np.ptp(q0 - PARALLELOGRAM @ u0), np.ptp(v0 - PARALLELOGRAM @ w0)) > 1e-12:
        raise ValueError("q0 and v0 must lie on the parallelogram: q_1 = q_2 - q_0 = -q_3")
    solution = solve_ivp(
        lambda _, x: np.concatenate([x[2:], leg.reduced_acceleration(x[:2], x[2:])]),
        (times[0], times[-1]),
        np.concatenate([u0, w0]),
        method="DOP853",
        t_eval=times,
        rtol=3e-14,
        atol=1e-14,
        max_step=0.01,  # dense output, of order 7, must not be the weakest part
    )
    return leg.result(times, solution.y[:2].T @ PARALLELOGRAM.T, solution.y[2:].T @ PARALLELOGRAM.T)


def ours(q0: Array, v0: Array, time_step: float, duration: float) -> Result:
    """vi_contact: maximal coordinates, variational integrator."""
    robot = five_bar()
    tau = Leg(robot).tau
    sim = vc.Simulator(robot, time_step=time_step)
    sim.reset(q0, v0)
    trajectory = sim.run(duration, controller=lambda state: tau[robot.actuated_dofs])
    return {
        "time": trajectory.time,
        "q": trajectory.q,
        "v": trajectory.v,
        "energy": trajectory.energy - trajectory.q @ tau,
        "loop_error": trajectory.constraint_error,
    }


# ------------------------------------------------------------------------------- comparison
@dataclass(frozen=True)
class Errors:
    """Largest errors of a method over a motion."""

    energy: float
    """|E - E0| over the largest kinetic energy of the exact motion."""
    loop: float
    """[m]."""
    position: float
    """Against the exact motion [rad]."""


class Comparison:
    """One motion and its exact solution, against which methods are measured."""

    def __init__(self, q0: Array = START, v0: Array | None = None) -> None:
        self.q0, self.v0 = q0, np.zeros(4) if v0 is None else v0
        self.leg = Leg(five_bar())

    @cached_property
    def exact(self) -> Result:
        """The exact motion at every 10 ms, which every step size meets."""
        times = np.linspace(0.0, DURATION, round(DURATION / max(STEPS)) + 1)
        return reference(self.q0, self.v0, times, self.leg)

    @cached_property
    def energy_scale(self) -> float:
        """Largest kinetic energy of the exact motion [J]."""
        model, data = self.leg.model, self.leg.model.createData()
        states = zip(self.exact["q"], self.exact["v"], strict=True)
        return max(pin.computeKineticEnergy(model, data, *state) for state in states)

    def errors(self, method: Method, time_step: float) -> Errors:
        """Largest errors of a method at a step size; inf where it blew up."""
        result = method(self.q0, self.v0, time_step, DURATION)
        stride = round(max(STEPS) / time_step)
        energy = np.abs(result["energy"] - result["energy"][0]).max() / self.energy_scale
        position = np.abs(result["q"][::stride] - self.exact["q"]).max()
        values = np.array([energy, result["loop_error"].max(), position])
        return Errors(*np.where(np.isfinite(values), values, np.inf))

    def check_exact(self) -> str:
        """What the oracle can be held to: its own energy, and the distance to the joint limits."""
        exact = self.exact
        drift = np.ptp(exact["energy"]) / self.energy_scale
        limits = [(joint.lower[0], joint.upper[0]) for joint in self.leg.robot.joints]
        margin = min(
            min((exact["q"][:, i] - low).min(), (high - exact["q"][:, i]).min())
            for i, (low, high) in enumerate(limits)
        )
        if margin <= 0.0:
            raise RuntimeError("the motion crosses a joint limit: start it elsewhere")
        return (
            f"exact motion: energy constant to {drift:.1e}, loop to "
            f"{exact['loop_error'].max():.1e} m; {margin:.2f} rad from the nearest joint limit"
        )


def baseline(alpha: float, beta: float, form: Form = "standard", leg: Leg | None = None) -> Method:
    """The paper's simulation with given gains, as a method of the comparison."""
    leg = leg or Leg(five_bar())

    def method(q0: Array, v0: Array, time_step: float, duration: float) -> Result:
        return simulate(q0, v0, time_step, duration, alpha, beta, form, leg)

    method.__name__ = "RK4 + Baumgarte"
    return method


def scan_gains(
    comparison: Comparison, steps: Sequence[float] = STEPS, gains: Sequence[float] = GAINS
) -> float:
    """Prints errors for every gain alpha = beta and step size; returns the gain for the table.

    That is the one whose worst rank over all steps, by energy and by loop error, is best: the mean
    logarithm of both errors, with a motion that blew up ruled out.
    """
    print("\nBaumgarte gains alpha = beta [1/s]: energy error | loop error [m]")
    print("  gain  " + "".join(f"h = {h:<17g}" for h in steps))
    scores = {}
    for gain in gains:
        row = [comparison.errors(baseline(gain, gain, leg=comparison.leg), h) for h in steps]
        print(f"{gain:6g}  " + "".join(f"{e.energy:.1e} | {e.loop:.1e}    " for e in row))
        scores[gain] = np.mean([np.log(e.energy) + np.log(max(e.loop, 1e-16)) for e in row])
    best = min(scores, key=scores.__getitem__)
    print(f"smallest in the mean over all steps: {best:g} 1/s")
    return best


def scan_printed(comparison: Comparison, time_step: float = 0.001) -> None:
    """Prints errors of equation (11) as printed at one step size."""
    print(f"\nEquation (11) as printed, h = {time_step:g}: energy error | loop error [m]")
    dampings = (0.0, 1.0, 10.0, 100.0)
    print("alpha [N/m]  " + "".join(f"beta = {beta:<4g} N s/m     " for beta in dampings))
    for alpha in (0.0, 10.0, 100.0, 1000.0, 10000.0):
        row = [
            comparison.errors(baseline(alpha, beta, "printed", comparison.leg), time_step)
            for beta in dampings
        ]
        print(f"{alpha:11g}  " + "".join(f"{e.energy:.1e} | {e.loop:.1e}    " for e in row))


def compare(
    comparison: Comparison, methods: Sequence[Method], steps: Sequence[float] = STEPS
) -> dict[str, list[Errors]]:
    """Prints the table of errors against step size; returns them by the method's name."""
    table = {}
    print("\nLargest errors over 10 s: energy / largest kinetic energy, loop [m], position [rad]")
    for method in methods:
        name = method.__name__
        table[name] = [comparison.errors(method, h) for h in steps]
        print(f"\n{name:>18}    energy      loop  position")
        for h, errors in zip(steps, table[name], strict=True):
            print(f"{h:18g}  {errors.energy:8.1e}  {errors.loop:8.1e}  {errors.position:8.1e}")
    return table


def plot(table: dict[str, list[Errors]], path: str, steps: Sequence[float] = STEPS) -> None:
    """Energy and loop error against step size, logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.0, 4.0), layout="constrained")
    titles = {"energy": "energy error / largest kinetic energy", "loop": "loop error [m]"}
    for axes, (quantity, title) in zip(panels, titles.items(), strict=True):
        for name, errors in table.items():
            axes.loglog(steps, [getattr(e, quantity) for e in errors], "o-", label=name)
        axes.set(xlabel="time step [s]", title=title)
        axes.grid(True, which="both", alpha=0.3)
    panels[0].legend()
    figure.suptitle("Fly-Hopper's leg, 10 s of free swing: largest errors against step size")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(methods: Sequence[Method] = (ours,)) -> dict[str, list[Errors]]:
    """Scans the gains, prints the table and writes the plot.

    methods: what to compare with the paper's simulation; any `Method` may be added.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["baseline"], help="leave vi_contact out")
    parser.add_argument("--plot", default="five_bar.png", help="file of the plot")
    arguments = parser.parse_args()

    comparison = Comparison()
    print(comparison.check_exact())
    gain = scan_gains(comparison)
    scan_printed(comparison)
    best = baseline(gain, gain, leg=comparison.leg)
    table = compare(comparison, [best, *(() if arguments.only else methods)])
    plot(table, arguments.plot)
    print(f"\nplot: {arguments.plot}")
    return table


if __name__ == "__main__":
    main()
