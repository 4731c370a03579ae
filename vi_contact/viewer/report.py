"""The report of a trajectory: animation, plots whose cursor moves with it, and a summary."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vi_contact.errors import TrajectoryRobotError
from vi_contact.mechanics.drives import FADE_START
from vi_contact.robot.drives import drive_limits
from vi_contact.robot.parts import Array
from vi_contact.robot.robot import Robot
from vi_contact.robot.urdf import bundled_robots, load_robot
from vi_contact.simulation.trajectory import Trajectory
from vi_contact.solvers.newton import Status
from vi_contact.solvers.stepper import METHODS
from vi_contact.viewer import forces, scene
from vi_contact.viewer.page import check_range, render, scene_data

FRAMES_PER_SECOND = 60.0
MAX_FRAMES = 3000
"""More would make the file large; longer motions are shown with fewer frames per second."""

MAX_POINTS = 2000
"""Of a curve; longer ones keep the lowest and the highest value of every stretch."""

CURVES_SHOWN = 6
"""Of a plot when the page opens; the legend shows the others."""

MAX_CURVES = 48


def report_page(
    trajectory: Trajectory, robot: Robot | None = None, collisions: bool = False
) -> str:
    """The page as text; robot: where the trajectory cannot tell, as after loading it elsewhere."""
    found = robot_of(trajectory, robot)
    return render(trajectory.robot_name, report_data(trajectory, found, collisions))


def robot_of(trajectory: Trajectory, robot: Robot | None = None) -> Robot:
    """The robot that moved: the one given or simulated, or loaded again from its file."""
    advice = "give the robot: robot=vc.load_robot(...)"
    found = robot or trajectory.robot
    if found is None:
        name = Path(trajectory.robot_file).stem
        if Path(trajectory.robot_path).is_file():
            source = trajectory.robot_path
        elif name in bundled_robots():
            source = name
        else:
            place = trajectory.robot_path or "unknown"
            raise TrajectoryRobotError(
                f"the file of robot '{trajectory.robot_name}' is not there ({place}); {advice}"
            )
        found = load_robot(source)
        if found.nq != trajectory.q.shape[1]:
            found = load_robot(source, base="fixed" if len(found.base_dofs) else "free")
    names = tuple(body.name for body in found.bodies)
    if names != trajectory.body_names or found.nq != trajectory.q.shape[1]:
        raise TrajectoryRobotError(
            f"the trajectory is not of robot '{found.name}': it has {len(trajectory.body_names)} "
            f"bodies, nq {trajectory.q.shape[1]}, the robot {len(names)}, nq {found.nq}; {advice}"
        )
    return found


def report_data(trajectory: Trajectory, robot: Robot, collisions: bool) -> dict[str, Any]:
    """All that the page shows."""
    _check_range(trajectory)
    frames = _frames(trajectory)
    p_WB, quat = trajectory.p_WB[frames], trajectory.quat_WB_xyzw[frames]
    plane = trajectory.contacts.plane if trajectory.contacts.plane[:3].any() else None
    com = scene.centre_of_mass(robot, p_WB)
    drift = com - com[0]
    if plane is not None:
        drift = drift - np.outer(drift @ plane[:3], plane[:3])  # the camera does not hop
    lower, upper = _swept_box(robot, trajectory.q[frames], drift)
    touches, first = _touches(trajectory, frames)
    most = max(np.diff(first), default=0)
    obstacles = trajectory.obstacles
    data = scene_data(robot, "report", lower, upper, plane, com, collisions, obstacles, int(most))
    return data | {
        "title": f"{trajectory.robot_name}, {trajectory.time[-1] - trajectory.time[0]:g} s",
        "start": float(trajectory.time[0]),
        "summary": summary(trajectory, robot),
        "panels": panels(trajectory, robot),
        "frames": {
            "time": _numbers(trajectory.time[frames] - trajectory.time[0]),
            "poses": scene.poses_of(p_WB, quat),
            "springs": scene.spring_ends(robot, p_WB, quat),
            "centre": _numbers(0.5 * (lower + upper) + drift),
        },
        "touches": {"numbers": touches, "first": first},
    }


def _check_range(trajectory: Trajectory) -> None:
    values = (trajectory.p_WB, trajectory.q, trajectory.tau, trajectory.contacts.touches)
    works = (trajectory.kinetic, trajectory.potential, trajectory.ledger.change)
    check_range(f"the trajectory of '{trajectory.robot_name}'", *values, *works)


def _numbers(values: Array) -> NDArray[np.float32]:
    return np.ascontiguousarray(values, dtype=np.float32)


def _frames(trajectory: Trajectory) -> NDArray[np.intp]:
    """Nodes that are shown."""
    nodes = len(trajectory.time)
    stride = max(1, int(1.0 / (FRAMES_PER_SECOND * trajectory.time_step)))
    stride = max(stride, -(-nodes // MAX_FRAMES))
    frames: NDArray[np.intp] = np.unique(np.append(np.arange(0, nodes, stride), nodes - 1))
    later = np.diff(trajectory.time[frames]) > 0.0  # a reset leaves two nodes at one time
    return frames[np.append(later, True)]


def _swept_box(robot: Robot, q: Array, drift: Array) -> tuple[Array, Array]:
    """Box of the robot over the whole motion, as the camera that follows it sees it [m]."""
    sample = np.unique(np.linspace(0, len(q) - 1, 12).astype(int))
    boxes = [np.array(scene.bounding_box(robot, q[k])) - drift[k] for k in sample]
    return np.min(boxes, axis=(0, 1)), np.max(boxes, axis=(0, 1))


def _touches(
    trajectory: Trajectory, frames: NDArray[np.intp]
) -> tuple[NDArray[np.float32], list[int]]:
    """(M, 6) point and force of the contacts in the step after each frame, and the first of each.

    Of more than MAX_ARROWS at once, the largest.
    """
    table = trajectory.contacts
    rows = np.flatnonzero(np.isin(table.touches[:, 0], frames))
    pushes = forces.pushes(
        table.touches[rows], table.places(rows), table.link_bodies, len(table.bodies)
    )
    ends = np.searchsorted(pushes[:, 0], frames, side="right")
    starts = np.searchsorted(pushes[:, 0], frames)
    shown = [forces.largest(pushes[a:b, 1:]) for a, b in zip(starts, ends, strict=True)]
    first = [0, *np.cumsum([len(part) for part in shown]).tolist()]
    return _numbers(np.concatenate(shown)), first


# ---------------------------------------------------------------- plots
def panels(trajectory: Trajectory, robot: Robot) -> list[dict[str, Any]]:
    """The plots: title, unit and curves."""
    _check_range(trajectory)
    ledger = trajectory.ledger
    works = {
        "motors": ledger.motor,
        "external": ledger.external,
        "damping": ledger.damping,
        "friction": ledger.friction,
        "impacts": ledger.impact,
        "integration": ledger.integration,
    }
    plots = _Plots(trajectory)
    plots.add(
        "Energy",
        "J",
        {
            "kinetic": trajectory.kinetic,
            "potential": trajectory.potential,
            "total": trajectory.energy,
        },
    )
    books = {name: np.append(0.0, np.cumsum(work)) for name, work in works.items() if work.any()}
    plots.add("Where energy came from and went, since the start", "J", books)
    turning = robot.turning_dofs
    angles: dict[str, Array] = {}
    travels: dict[str, Array] = {}
    torques, limits = {}, {}
    for joint in robot.joints:
        if joint.nv == 1:
            group = angles if turning[joint.idx_v] else travels
            group[joint.name] = joint_positions(trajectory, joint.idx_q, joint.continuous)
    for k, (dof, name) in enumerate(zip(robot.actuated_dofs, input_names(robot), strict=True)):
        torques[name] = trajectory.tau[:, k]
        limits[name] = motor_limits(trajectory, robot, int(dof))
    plots.add("Joint angles", "rad", angles)
    plots.add("Joint travels", "m", travels)
    force = "N m" if all(turning[robot.actuated_dofs]) else "N m or N"
    plots.add("Joint torques; dashed: what the motor can give", force, torques, limits)
    contacts = dict(trajectory.contacts)
    normal = trajectory.contacts.plane[:3]
    touched = {name: c for name, c in contacts.items() if c.force.any()}
    feet = set(trajectory.contacts.names[: len(trajectory.contacts.bodies)])
    ground = {name: c.force for name, c in touched.items() if name in feet}
    plots.add("Contact forces, normal", "N", {n: f @ normal for n, f in ground.items()})
    sideways = {
        name: np.linalg.norm(force - np.outer(force @ normal, normal), axis=1)
        for name, force in ground.items()
    }
    plots.add("Contact forces, sideways", "N", sideways)
    between = {n: np.linalg.norm(c.force, axis=1) for n, c in touched.items() if n not in feet}
    plots.add("Contact forces between links and with obstacles", "N", between)
    gaps = {name: c.gap for name, c in (touched or contacts).items()}
    known = {name: gap for name, gap in gaps.items() if np.isfinite(gap).all()}
    plots.add("Gaps of contacts", "m", known)
    if trajectory.constraint_error.any():
        error = {"largest": trajectory.constraint_error}
        plots.add("Constraint error of loops", "m or rad", error, floor=1e-18)
    return plots.panels


class _Plots:
    """Collects plots; curves at nodes or steps share their times."""

    def __init__(self, trajectory: Trajectory) -> None:
        self.panels: list[dict[str, Any]] = []
        time = trajectory.time - trajectory.time[0]
        self.steps = len(trajectory)
        self.nodes_time, self.steps_time = _numbers(time), _numbers(time[:-1])

    def add(
        self,
        title: str,
        unit: str,
        curves: dict[str, Array],
        limits: dict[str, tuple[Array, Array] | None] | None = None,
        floor: float = 0.0,
    ) -> None:
        """A plot of curves (N+1,) or (N,); with a floor above zero its scale is logarithmic."""
        if not curves or not self.steps:
            return
        names = list(curves)[:MAX_CURVES]
        ranges = {name: np.ptp(curves[name]) for name in names}
        shown = sorted(names, key=lambda name: -ranges[name])[:CURVES_SHOWN]
        series = []
        for name in sorted(names, key=lambda name: name not in shown):  # those first: own colours
            y = curves[name]
            x = self.steps_time if len(y) == self.steps else self.nodes_time
            pair = (limits or {}).get(name)
            rows = [y, *pair] if pair else [y]
            if len(y) > MAX_POINTS:
                keep = _extremes(y)
                x, rows = x[keep], [row[keep] for row in rows]
            series.append(
                {
                    "name": name,
                    "shown": name in shown,
                    "step": len(y) == self.steps,
                    "x": x,
                    "y": _numbers(rows[0]),
                    "limits": [_numbers(row) for row in rows[1:]],
                }
            )
        hidden = len(curves) - len(names)
        note = f"; {hidden} more are left out" if hidden else ""
        self.panels.append(
            {
                "title": title + note,
                "unit": unit,
                "series": series,
                "log": floor > 0.0,
                "floor": floor,
            }
        )


def _extremes(y: Array) -> NDArray[np.intp]:
    """Indices of the lowest and the highest value of every stretch, and of both ends."""
    edges = np.linspace(0, len(y), MAX_POINTS // 2 + 1).astype(int)
    keep = [0, len(y) - 1]
    for a, b in pairwise(edges):
        keep += [a + int(np.argmin(y[a:b])), a + int(np.argmax(y[a:b]))]
    return np.unique(keep)


def joint_positions(trajectory: Trajectory, idx_q: int, continuous: bool) -> Array:
    """(N+1,) angle or travel of a joint with one degree of freedom [rad or m]."""
    if continuous:
        return np.unwrap(np.arctan2(trajectory.q[:, idx_q + 1], trajectory.q[:, idx_q]))
    return trajectory.q[:, idx_q]


def input_names(robot: Robot) -> list[str]:
    """One per input: the joint, with an index where it has several."""
    return [
        joint.name if joint.nv == 1 else f"{joint.name}[{k}]"
        for joint in robot.joints
        if joint.actuated
        for k in range(joint.nv)
    ]


def motor_limits(trajectory: Trajectory, robot: Robot, dof: int) -> tuple[Array, Array] | None:
    """(N,), (N,) least and largest torque of a motor at each step's mean speed; None without one.

    At the joint, with gear ratio g: +-g kt V / R - (g kt)^2 w / R, cut to +-g kt i_max and to the
    effort limit, and faded where it drives near the velocity limit.
    """
    for motor in robot.motors:
        joint = robot.joints[motor.joint]
        if joint.idx_v != dof:
            continue
        position = joint_positions(trajectory, joint.idx_q, joint.continuous)
        moved, length = np.diff(position), np.diff(trajectory.time)
        speed = np.divide(moved, length, out=np.zeros_like(moved), where=length > 0.0)
        limits = drive_limits(joint, 0, motor)
        if not np.isfinite([limits.stall, limits.peak]).any():
            return None
        back = limits.slope * speed
        ends = [np.clip(s * limits.stall - back, -limits.peak, limits.peak) for s in (-1.0, 1.0)]
        if np.isfinite(limits.velocity):
            band = (1.0 - FADE_START) * limits.velocity
            for end in ends:
                left = (limits.velocity - np.copysign(speed, end * speed)) / band
                end *= np.clip(left, 0.0, 1.0)
        return ends[0], ends[1]
    return None


# ---------------------------------------------------------------- summary
def summary(trajectory: Trajectory, robot: Robot) -> list[tuple[str, str, bool]]:
    """Rows of the table: name, text, and whether it is bad news."""
    steps = len(trajectory)
    duration = float(trajectory.time[-1] - trajectory.time[0])
    rows = [
        (
            "robot",
            f"{trajectory.robot_name}: {len(robot.bodies)} bodies, nq {robot.nq}, nv {robot.nv}, "
            f"nu {robot.nu}, {len(robot.loops)} loops, {robot.mass:.4g} kg",
            False,
        ),
        ("file", trajectory.robot_file or "-", False),
        ("time", f"{steps} steps of {trajectory.time_step:g} s, {duration:g} s in all", False),
    ]
    if trajectory.status is not Status.CONVERGED:
        end = f"{trajectory.status.name.lower()} after t = {trajectory.time[-1]:g} s"
        rows.append(("stopped", end, True))
    if steps:
        wall = trajectory.wall_time
        rows += [
            ("solver", _solver(trajectory), False),
            (
                "wall time",
                f"{wall:.3g} s, {duration / max(wall, 1e-9):.3g} times real time",
                False,
            ),
            ("momentum residual", f"at most {trajectory.residuals.max():.1e} N s or N m s", False),
            ("open joints", f"at most {trajectory.constraint_error.max():.1e} m or rad", False),
            ("energy balance", f"open by at most {_defect(trajectory):.1e} J per step", False),
        ]
    if len(trajectory.contacts) and steps:
        gaps = [record.gap.min() for record in trajectory.contacts.values()]
        slid = sum(bool(record.sliding.any()) for record in trajectory.contacts.values())
        rows += [
            ("deepest contact", f"{max(0.0, -min(gaps)):.1e} m inside", False),
            ("impacts", f"{len(trajectory.impacts)}", False),
            ("contacts that slid", f"{slid} of {len(trajectory.contacts)}", False),
        ]
    return rows


def _defect(trajectory: Trajectory) -> float:
    return float(np.abs(trajectory.ledger.defect).max())


def _solver(trajectory: Trajectory) -> str:
    counts = np.bincount(trajectory.methods, minlength=len(METHODS))
    used = [f"{name} {count} steps" for name, count in zip(METHODS, counts, strict=True) if count]
    split = int((trajectory.parts > 1).sum())
    return (
        f"{', '.join(used)}; {trajectory.iterations.mean():.2f} iterations per step, at most "
        f"{trajectory.iterations.max()}" + (f"; {split} steps split" if split else "")
    )
