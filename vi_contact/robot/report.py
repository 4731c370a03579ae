"""The import report: what became of every tag, and what looks wrong in the description."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from vi_contact.robot.drives import peak_torque, top_speed
from vi_contact.robot.parts import WORLD

if TYPE_CHECKING:
    from vi_contact.robot.robot import Robot


class Outcome(Enum):
    """What became of a piece of the description."""

    USED = "used"
    APPROXIMATED = "approximated"
    IGNORED = "ignored"
    CHECK = "check"
    """Used as it is, but looks like a mistake in the description."""


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    outcome: Outcome
    element: str
    """The element, such as link 'foot'/inertial or robot/gazebo."""
    message: str
    file: str = ""
    line: int | None = None
    physics: bool = False
    """Whether it changes the motion: strict import refuses it then."""
    count: int = 1

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{place}{self.element}: {self.outcome.value}: {self.message}{times}"


def drive_findings(robot: Robot) -> list[Finding]:
    """Motors that could do more than the limits of their joints allow."""
    findings = []
    for motor in robot.motors:
        joint = robot.joints[motor.joint]
        torque, torque_by = peak_torque(joint, motor)
        speed, speed_by = top_speed(joint, motor)
        could = min(motor.limits[0], motor.limits[2])
        said = []
        if torque_by == "effort limit" and np.isfinite(could):
            said.append(f"effort to {torque:.4g}, where the motor could give {could:.4g}")
        if speed_by == "velocity limit" and np.isfinite(motor.no_load_speed):
            could = motor.no_load_speed
            said.append(f"velocity to {speed:.4g}, where the motor could turn at {could:.4g}")
        if said:
            message = (
                f"the joint's <limit> holds {' and '.join(said)}; both act, raise it if not meant"
            )
            element = f"motor on '{joint.name}'"
            findings.append(Finding(Outcome.CHECK, element, message, robot.file))
    return findings


class ImportReport:
    """Tables of the robot's parts and every finding; `print` it."""

    def __init__(self, robot: Robot, findings: Iterable[Finding]) -> None:
        self._robot = robot
        self.findings = tuple(findings)

    def of(self, outcome: Outcome) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.outcome is outcome)

    @property
    def used(self) -> tuple[Finding, ...]:
        return self.of(Outcome.USED)

    @property
    def approximated(self) -> tuple[Finding, ...]:
        return self.of(Outcome.APPROXIMATED)

    @property
    def ignored(self) -> tuple[Finding, ...]:
        return self.of(Outcome.IGNORED)

    @property
    def checks(self) -> tuple[Finding, ...]:
        return self.of(Outcome.CHECK)

    @property
    def strict_findings(self) -> tuple[Finding, ...]:
        """What strict import refuses: approximations and ignored physics."""
        return tuple(
            finding
            for finding in self.findings
            if finding.physics and finding.outcome in (Outcome.APPROXIMATED, Outcome.IGNORED)
        )

    def __str__(self) -> str:
        robot = self._robot
        base = "free base" if len(robot.base_dofs) else "fixed base"
        mobility = robot.mobility
        redundant = f", {mobility.redundant} redundant (handled)" if mobility.redundant else ""
        head = [
            f"Robot '{robot.name}': {base}, {robot.mass:.6g} kg, nq {robot.nq}, nv {robot.nv}, "
            f"nu {robot.nu}",
            f"  maximal coordinates: {len(robot.bodies)} bodies, {mobility.rows} constraint rows "
            f"of rank {mobility.rank}{redundant}, {mobility.degrees_of_freedom} degrees of freedom",
        ]
        parts = [
            "\n".join(head),
            self._bodies(),
            self._joints(),
            self._loops(),
            self._motors(),
            self._springs(),
            self._contacts(),
            self._findings_table(),
        ]
        return "\n\n".join(part for part in parts if part)

    def _body_name(self, index: int) -> str:
        return "world" if index == WORLD else self._robot.bodies[index].name

    def _bodies(self) -> str:
        rows = []
        for body in self._robot.bodies:
            moments = np.linalg.eigvalsh(body.inertia)
            merged = ", ".join(body.links[1:])
            rows.append(
                [
                    body.name,
                    f"{body.mass:.5g}",
                    " ".join(f"{value:.4g}" for value in body.com),
                    " ".join(f"{value:.3g}" for value in moments),
                    merged if len(merged) <= 40 else f"{len(body.links) - 1} links",
                ]
            )
        header = ["body", "mass [kg]", "CoM [m]", "principal inertia [kg m2]", "merged links"]
        return table("Bodies", header, rows)

    def _joints(self) -> str:
        rows = []
        for joint in self._robot.joints:
            one = joint.nv == 1
            limits = _range(joint.lower[0], joint.upper[0]) if one else ""
            rows.append(
                [
                    joint.name,
                    "continuous" if joint.continuous else joint.kind.name.lower(),
                    self._body_name(joint.parent),
                    " ".join(f"{value:.3g}" for value in joint.axis) if one else "",
                    limits,
                    _number(joint.effort[0]) if one else "",
                    _number(joint.velocity[0]) if one else "",
                    f"{joint.damping.max(initial=0.0):.3g}",
                    f"{joint.friction.max(initial=0.0):.3g}",
                    self._drive(joint.child),
                ]
            )
        header = ["joint", "type", "parent", "axis", "limits", "effort", "velocity"]
        return table("Joints", [*header, "damping", "friction", "drive"], rows)

    def _drive(self, joint: int) -> str:
        for mimic in self._robot.mimics:
            if mimic.joint == joint:
                source = self._robot.joints[mimic.source].name
                return f"{mimic.multiplier:.4g} x {source} {mimic.offset:+.4g}"
        if any(motor.joint == joint for motor in self._robot.motors):
            return "motor"
        return "torque" if self._robot.joints[joint].actuated else "passive"

    def _loops(self) -> str:
        rows = [
            [
                loop.name,
                loop.kind.name.lower(),
                loop.links[0],
                loop.links[1],
                str(loop.kind.rows),
            ]
            for loop in self._robot.loops
        ]
        title = "Loops"
        if rows:
            title += f" (closed to {self._robot.loop_error(self._robot.neutral()):.1g})"
        return table(title, ["loop", "type", "link 1", "link 2", "rows"], rows)

    def _motors(self) -> str:
        rows = [
            [
                self._robot.joints[motor.joint].name,
                _number(motor.torque_constant),
                _number(motor.resistance),
                _number(motor.voltage),
                _number(motor.current_limit),
                _number(motor.gear_ratio),
                _number(motor.rotor_inertia),
                _number(motor.no_load_speed),
                *self._reach(peak_torque(self._robot.joints[motor.joint], motor)),
                *self._reach(top_speed(self._robot.joints[motor.joint], motor)),
            ]
            for motor in self._robot.motors
        ]
        header = ["motor on", "kt [Nm/A]", "R [ohm]", "V", "Imax [A]", "gear", "rotor [kg m2]"]
        header += ["no-load speed [rad/s]", "peak torque [Nm]", "set by"]
        return table("Motors", [*header, "top speed [rad/s]", "set by"], rows)

    @staticmethod
    def _reach(value_and_cause: tuple[float, str]) -> tuple[str, str]:
        value, cause = value_and_cause
        return _number(value), cause

    def _springs(self) -> str:
        rows = [
            [
                spring.name,
                self._body_name(spring.body_1),
                self._body_name(spring.body_2),
                f"{spring.stiffness:.6g}",
                f"{spring.rest_length:.6g}",
                f"{spring.damping:.6g}",
            ]
            for spring in self._robot.springs
        ]
        header = ["spring", "body 1", "body 2", "stiffness [N/m]", "rest length [m]"]
        return table("Springs", [*header, "damping [Ns/m]"], rows)

    def _contacts(self) -> str:
        groups: dict[tuple[str, str, float, str], list[str]] = {}
        for contact in self._robot.contacts:
            friction = "ground's" if contact.friction is None else f"{contact.friction:.4g}"
            key = (contact.link, contact.source, contact.radius, friction)
            groups.setdefault(key, []).append(contact.name)
        rows = [
            [
                names[0] if len(names) == 1 else f"{names[0]} .. {names[-1]}",
                str(len(names)),
                link,
                source,
                f"{radius:.4g}",
                friction,
            ]
            for (link, source, radius, friction), names in groups.items()
        ]
        header = ["contact", "points", "link", "from", "radius [m]", "friction"]
        return table(f"Contacts ({len(self._robot.contacts)} in all)", header, rows)

    def _findings_table(self) -> str:
        rows = [
            [
                finding.outcome.value,
                finding.element,
                str(finding.count) if finding.count > 1 else "",
                finding.place,
                finding.message,
            ]
            for outcome in (Outcome.CHECK, Outcome.APPROXIMATED, Outcome.IGNORED, Outcome.USED)
            for finding in self.of(outcome)
        ]
        return table("Description", ["outcome", "element", "times", "where", "what"], rows)


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4g}" if np.isfinite(value) else "none"


def _range(lower: float, upper: float) -> str:
    if np.isinf(lower) and np.isinf(upper):
        return "none"
    return f"{lower:.4g} .. {upper:.4g}"


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned text table under a title; empty without rows."""
    if not rows:
        return ""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [title]
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)
