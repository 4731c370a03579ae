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

Motion. Within the knees' limits no passive swing lasts: gravity pulls both hips to straight down,
where the loop is singular, and of 325 starts from rest on a grid none stayed within the limits for
longer than 0.41 s. So constant hip torques hold the leg's weight at a bent pose, about which it
swings; they are conservative, and `E = T + V - tau . q` is constant.

Two legs. As built, pin 0.1 m out on link 3, the loop is a parallelogram, closed by the linear
q_1 = q_2 - q_0 = -q_3. Runge-Kutta keeps linear invariants exactly, so the baseline's loop cannot
open and stabilisation has nothing to do. Pinned 0.15 m out it is a general five-bar, and does.

    python benchmarks/five_bar_baseline.py [--only baseline] [--plot five_bar.png]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

import vi_contact as vc

Array = NDArray[np.float64]
Result = dict[str, Array]
"""time (N+1,), q and v (N+1, 4), energy (N+1,) [J], loop_error (N+1,) [m]."""
Method = Callable[["Leg", Array, Array, float, float], Result]
"""From leg, q0, v0, time step and duration to a Result."""
Form = Literal["standard", "printed"]

PLANE = [0, 2]
"""The leg moves in x and z."""
HIPS, KNEES = [0, 2], [1, 3]
PIN_AS_BUILT, PIN_GENERAL = 0.1, 0.15
"""Where the loop is pinned to link 3, from joint 3 [m]."""
HOLD = np.array([-0.25, 0.3])
"""Hip angles about which the leg swings [rad]; the hip torques carry its weight there."""
START = np.array([-0.85, 0.3])
"""Hip angles at which it is released. It then swings for 10 s within the joint limits, and starts
1e-6 rad apart stay within 4e-5: not chaotic."""
DURATION = 10.0
STEPS = (0.01, 0.005, 0.002, 0.001, 0.0005)
GAINS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 200.0)
"""Baumgarte gains alpha = beta of the scan [1/s]; RK4 is stable up to 2.78 / time step."""


def five_bar(pin_distance: float = PIN_AS_BUILT, spring: bool = False) -> vc.Robot:
    """The leg on a fixed base without ground contact; without its parallel spring, as the paper."""
    robot = vc.load_robot("fly_hopper", base="fixed", contacts="none")
    (loop,) = robot.loops
    p_3 = np.array([pin_distance, 0.0, 0.0]) - robot.bodies[loop.child].com
    loop = replace(loop, frame_child=replace(loop.frame_child, p=p_3))
    springs = robot.springs if spring else ()
    return vc.Robot(
        robot.name, robot.model, robot.bodies, robot.joints, loops=(loop,), springs=springs
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
        self.tau = np.zeros(4)
        _, force, _, D, _ = self.terms(self.close(HOLD), np.zeros(4))
        tau = np.zeros(4)
        tau[HIPS] = -self._by_hips(D).T @ force
        return tau

    def close(self, hips: Array) -> Array:
        """(4,) the closed configuration at given hip angles on the branch of the real leg."""
        q = np.array([hips[0], hips[1] - hips[0], hips[1], hips[0] - hips[1]])
        for _ in range(50):
            _, _, c, D, _ = self.terms(q, np.zeros(4))
            step = np.linalg.solve(D[:, KNEES], c)
            q[KNEES] -= step
            if np.abs(step).max() < 1e-14:  # rounding of angles of about 1 rad
                return q
        raise ValueError(f"the loop cannot be closed with hips at {hips} rad")

    def _by_hips(self, D: Array) -> Array:
        """(4, 2) velocities of the closed leg by those of its hips."""
        N = np.zeros((4, 2))
        N[HIPS] = np.eye(2)
        N[KNEES] = -np.linalg.solve(D[:, KNEES], D[:, HIPS])
        return N

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

    def closed_state(self, hips: Array, rates: Array) -> tuple[Array, Array]:
        """Configuration and velocity of the closed leg from those of its hips."""
        q = self.close(hips)
        return q, self._by_hips(self.terms(q, np.zeros(4))[3]) @ rates

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
    """The exact motion to about 1e-12: hips integrated, knees from the loop, which cannot open."""
    leg = leg or Leg(five_bar())
    x0 = np.concatenate([q0[HIPS], v0[HIPS]])
    closed = np.concatenate(leg.closed_state(x0[:2], x0[2:]))
    if np.abs(np.concatenate([q0, v0]) - closed).max() > 1e-12:
        raise ValueError("q0 and v0 must close the loop; use leg.closed_state(hips, rates)")

    def rate(_: float, x: Array) -> Array:
        q, v = leg.closed_state(x[:2], x[2:])
        return np.concatenate([x[2:], leg.acceleration(q, v, 0.0, 0.0, "standard")[HIPS]])

    solution = solve_ivp(
        rate,
        (times[0], times[-1]),
        x0,
        method="DOP853",
        t_eval=times,
        rtol=3e-14,
        atol=1e-14,
        max_step=0.01,  # dense output, of order 7, must not be the weakest part
    )
    states = [leg.closed_state(x[:2], x[2:]) for x in solution.y.T]
    return leg.result(times, np.array([q for q, _ in states]), np.array([v for _, v in states]))


def ours(leg: Leg, q0: Array, v0: Array, time_step: float, duration: float) -> Result:
    """vi_contact: maximal coordinates, variational integrator."""
    tau = leg.tau[leg.robot.actuated_dofs]
    sim = vc.Simulator(leg.robot, time_step=time_step)
    sim.reset(q0, v0)
    trajectory = sim.run(duration, controller=lambda state: tau)
    return {
        "time": trajectory.time,
        "q": trajectory.q,
        "v": trajectory.v,
        "energy": trajectory.energy - trajectory.q @ leg.tau,
        "loop_error": trajectory.constraint_error,
    }


# ------------------------------------------------------------------------------- comparison
@dataclass(frozen=True)
class Errors:
    """Errors of a method over a motion; energies over the largest kinetic energy."""

    energy: float
    """Largest |E - E0|."""
    drift: float
    """Mean energy of the last tenth less that of the first, absolute."""
    loop: float
    """Largest [m]."""
    position: float
    """Largest joint angle error against the exact motion [rad]."""


class Comparison:
    """One leg, one motion and its exact solution, against which methods are measured."""

    def __init__(self, pin_distance: float) -> None:
        self.leg = Leg(five_bar(pin_distance))
        self.q0, self.v0 = self.leg.closed_state(START, np.zeros(2))

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
        """Errors of a method at a step size; inf where it blew up."""
        result = method(self.leg, self.q0, self.v0, time_step, DURATION)
        energy = (result["energy"] - result["energy"][0]) / self.energy_scale
        tenth = len(energy) // 10
        stride = round(max(STEPS) / time_step)
        values = np.array(
            [
                np.abs(energy).max(),
                abs(energy[-tenth:].mean() - energy[:tenth].mean()),
                result["loop_error"].max(),
                np.abs(result["q"][::stride] - self.exact["q"]).max(),
            ]
        )
        return Errors(*np.where(np.isfinite(values), values, np.inf).tolist())

    def check_exact(self) -> str:
        """What the oracle is held to: its own energy, the loop, and the joint limits."""
        exact, joints = self.exact, self.leg.robot.joints
        lower = np.array([joint.lower[0] for joint in joints])
        upper = np.array([joint.upper[0] for joint in joints])
        margin = min((exact["q"] - lower).min(), (upper - exact["q"]).min())
        if margin <= 0.0:
            raise RuntimeError("the motion crosses a joint limit: start it elsewhere")
        return (
            f"exact motion: energy constant to {np.ptp(exact['energy']) / self.energy_scale:.1e}, "
            f"loop to {exact['loop_error'].max():.1e} m; {margin:.2f} rad from the nearest limit"
        )


def baseline(alpha: float, beta: float, form: Form = "standard") -> Method:
    """The paper's simulation with given gains, as a method of the comparison."""

    def method(leg: Leg, q0: Array, v0: Array, time_step: float, duration: float) -> Result:
        return simulate(q0, v0, time_step, duration, alpha, beta, form, leg)

    return method


def scan_gains(comparison: Comparison) -> float:
    """Prints errors by gain alpha = beta and step size; returns the gain for the table.

    That is the one with the smallest geometric mean of energy and loop errors over all steps.
    """
    print("\nBaumgarte gains alpha = beta [1/s]: energy | loop [m]")
    print("    gain" + "".join(f"  h = {h:<14g}" for h in STEPS))
    scores = {}
    for gain in GAINS:
        row = [comparison.errors(baseline(gain, gain), h) for h in STEPS]
        print(f"{gain:8g}" + "".join(f"  {e.energy:7.1e} | {e.loop:7.1e} " for e in row))
        scores[gain] = np.mean([np.log(e.energy) + np.log(max(e.loop, 1e-16)) for e in row])
    best = min(scores, key=scores.__getitem__)
    print(f"smallest in the mean: {best:g} 1/s")
    return best


def scan_printed(comparison: Comparison, time_step: float = 0.001) -> None:
    """Prints errors of equation (11) as printed, by its two gains, at one step size."""
    dampings = (0.0, 0.1, 1.0, 10.0, 100.0)
    print(f"\nEquation (11) as printed, h = {time_step:g}: energy | loop [m]")
    print("alpha [N/m]" + "".join(f"  beta = {beta:<5g} N s/m " for beta in dampings))
    for alpha in (0.0, 10.0, 100.0, 1e3, 1e4):
        methods = [baseline(alpha, beta, "printed") for beta in dampings]
        row = [comparison.errors(method, time_step) for method in methods]
        print(f"{alpha:11g}" + "".join(f"  {e.energy:7.1e} | {e.loop:7.1e} " for e in row))


def compare(comparison: Comparison, methods: dict[str, Method]) -> dict[str, list[Errors]]:
    """Prints the table of errors against step size; returns it by the method's name."""
    table = {}
    for name, method in methods.items():
        table[name] = [comparison.errors(method, h) for h in STEPS]
        print(f"\n{name:>16}    energy     drift  loop [m]   q [rad]")
        for h, e in zip(STEPS, table[name], strict=True):
            print(f"{h:16g}  {e.energy:8.1e}  {e.drift:8.1e}  {e.loop:8.1e}  {e.position:8.1e}")
    return table


def plot(tables: dict[str, dict[str, list[Errors]]], path: str) -> None:
    """Energy and loop error against step size, logarithmic; one line per method and leg."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.0, 4.0), layout="constrained")
    titles = {"energy": "energy error / largest kinetic energy", "loop": "loop error [m]"}
    styles = dict(zip(tables, ("o--", "s-"), strict=True))
    for axes, (quantity, title) in zip(panels, titles.items(), strict=True):
        for leg, table in tables.items():
            for i, (name, errors) in enumerate(table.items()):
                values = [getattr(e, quantity) for e in errors]
                axes.loglog(STEPS, values, styles[leg], color=f"C{i}", label=f"{name}, {leg}")
        axes.set(xlabel="time step [s]", title=title)
        axes.grid(True, which="both", alpha=0.3)
    panels[0].legend(fontsize="small")
    figure.suptitle(f"Fly-Hopper's leg swinging for {DURATION:g} s: largest errors")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(others: Mapping[str, Method] = MappingProxyType({"vi_contact": ours})) -> None:
    """Scans the gains, prints the tables and writes the plot.

    others: the methods to compare with the paper's, by name.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=["baseline"], help="leave vi_contact out")
    parser.add_argument("--plot", default="five_bar.png", help="file of the plot")
    arguments = parser.parse_args()

    tables = {}
    legs = {"as built": PIN_AS_BUILT, "general": PIN_GENERAL}
    for name, pin_distance in legs.items():
        print(f"\n== Leg {name}: pin {pin_distance:g} m out on link 3; {DURATION:g} s")
        comparison = Comparison(pin_distance)
        print(comparison.check_exact())
        gain = scan_gains(comparison)
        if name == "general":
            scan_printed(comparison)
        methods = {"RK4 Baumgarte": baseline(gain, gain)}
        if not arguments.only:
            methods.update(others)
        tables[name] = compare(comparison, methods)
    plot(tables, arguments.plot)
    print(f"\nplot: {arguments.plot}")


if __name__ == "__main__":
    main()
