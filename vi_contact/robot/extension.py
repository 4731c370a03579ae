"""The <vi_contact> block, and the dialects of loop joints people already use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pinocchio as pin

from vi_contact.errors import (
    DuplicateNameError,
    ExtensionError,
    JointTypeError,
    MotorError,
    UnknownLinkError,
    nearest,
)
from vi_contact.robot.parts import Array, JointKind, perpendicular_basis
from vi_contact.robot.xml import Document, Element, local_name

BLOCK = "vi_contact"

_POINT = {"link", "xyz"}
_FRAME = {"link", "xyz", "rpy"}
_GRAMMAR: Mapping[str, tuple[set[str], Mapping[str, set[str]]]] = {
    "base": ({"type"}, {}),
    "loop_joint": (
        {"name", "type"},
        {"link1": _FRAME, "link2": _FRAME, "axis": {"xyz"}, "axis2": {"xyz"}},
    ),
    "spherical": ({"joint"}, {}),
    "motor": (
        {
            "joint",
            "torque_constant",
            "resistance",
            "voltage",
            "current_limit",
            "gear_ratio",
            "rotor_inertia",
        },
        {},
    ),
    "spring": (
        {"name", "stiffness", "rest_length", "damping"},
        {"link1": _POINT, "link2": _POINT},
    ),
    "contact": ({"name", "link", "xyz", "radius", "friction"}, {}),
}

_LOOP_KINDS = {
    "spherical": JointKind.SPHERICAL,
    "revolute": JointKind.REVOLUTE,
    "continuous": JointKind.REVOLUTE,
    "prismatic": JointKind.PRISMATIC,
    "fixed": JointKind.FIXED,
    "universal": JointKind.UNIVERSAL,
}


@dataclass(frozen=True)
class LoopSpec:
    """A loop joint as written: frames in link coordinates."""

    name: str
    kind: JointKind
    links: tuple[str, str]
    frames: tuple[pin.SE3, pin.SE3]
    axis: Array
    axis2: Array
    line: int | None
    axis_given: bool = True


@dataclass(frozen=True)
class SpringSpec:
    """A spring as written: points in link coordinates."""

    name: str
    links: tuple[str, str]
    points: tuple[Array, Array]
    stiffness: float
    rest_length: float
    damping: float


@dataclass(frozen=True)
class ContactSpec:
    """A contact as written: its centre in link coordinates."""

    name: str
    link: str
    point: Array
    radius: float
    friction: float | None


@dataclass(frozen=True)
class MotorSpec:
    """A motor as written; a gear that is not given may come from a transmission."""

    joint: str
    torque_constant: float
    resistance: float
    voltage: float
    current_limit: float
    gear_ratio: float | None
    rotor_inertia: float


@dataclass
class Extension:
    """Everything the block, and loop joints outside it, say."""

    base: str | None = None
    loops: list[LoopSpec] = field(default_factory=list)
    spherical: list[str] = field(default_factory=list)
    motors: list[MotorSpec] = field(default_factory=list)
    springs: list[SpringSpec] = field(default_factory=list)
    contacts: list[ContactSpec] = field(default_factory=list)


def read_extension(document: Document) -> Extension:
    """Reads all <vi_contact> blocks, top-level <loop_joint> and <drake:ball_constraint>."""
    reader = _Reader(document)
    for element in document.root:
        tag = local_name(element)
        if tag == BLOCK:
            reader.check_attributes(element, set())
            for child in element:
                reader.read(child)
        elif tag == "loop_joint":
            reader.read(element)
        elif tag == "drake:ball_constraint":
            reader.read_ball_constraint(element)
    return reader.result


class _Reader:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.result = Extension()
        self.links = [link.get("name", "") for link in document.root.findall("link")]
        self.joints = {joint.get("name"): joint for joint in document.root.findall("joint")}
        self.names: dict[str, set[str]] = {}

    def read(self, element: Element) -> None:
        tag = local_name(element)
        if tag not in _GRAMMAR:
            self._fail(element, f"unknown tag <{tag}>; {nearest(tag, _GRAMMAR)}")
        attributes, children = _GRAMMAR[tag]
        self.check_attributes(element, attributes)
        for child in element:
            name = local_name(child)
            if name not in children:
                self._fail(child, f"unknown tag <{name}> in <{tag}>; {nearest(name, children)}")
            self.check_attributes(child, children[name])
        getattr(self, f"_read_{tag}")(element)

    def _fail(self, element: Element, message: str) -> None:
        self.document.fail(ExtensionError, element, message)

    def check_attributes(self, element: Element, known: set[str]) -> None:
        for attribute in element.attrib:
            if attribute not in known:
                self._fail(
                    element,
                    f"unknown attribute '{attribute}' of <{local_name(element)}>; "
                    f"{nearest(str(attribute), sorted(known))}",
                )

    def _name(self, element: Element) -> str:
        name = self.document.text(element, "name")
        seen = self.names.setdefault(local_name(element), set())
        if name in seen:
            self.document.fail(
                DuplicateNameError, element, f"two <{local_name(element)}> are called '{name}'"
            )
        seen.add(name)
        return name

    def _link(self, element: Element, attribute: str = "link") -> str:
        link = self.document.text(element, attribute)
        if link not in self.links:
            owner = element if element.get("name") else element.getparent()
            what = f"<{local_name(owner)}> '{owner.get('name', '')}'" if owner is not None else ""
            self.document.fail(
                UnknownLinkError,
                element,
                f"{what} names the link '{link}'; {nearest(link, self.links)}",
            )
        return link

    def _child(self, element: Element, tag: str) -> Element:
        child = element.find(tag)
        if child is None:
            self._fail(element, f"<{local_name(element)}> needs a <{tag}>")
        return child

    def _number(
        self, element: Element, attribute: str, default: float | None, positive: bool = False
    ) -> float:
        value = self.document.number(element, attribute, default)
        if value < 0.0 or (positive and value == 0.0):
            self._fail(
                element,
                f'<{local_name(element)} {attribute}="{element.get(attribute)}"> must be '
                f"{'positive' if positive else 'zero or more'}",
            )
        return value

    def _joint(self, element: Element) -> tuple[str, str]:
        """Name and type of the joint an element speaks of."""
        name = self.document.text(element, "joint")
        if name not in self.joints:
            kind = MotorError if local_name(element) == "motor" else ExtensionError
            self.document.fail(
                kind,
                element,
                f"<{local_name(element)}> names the joint '{name}'; "
                f"{nearest(name, [str(joint) for joint in self.joints])}",
            )
        return name, self.joints[name].get("type", "")

    # ------------------------------------------------------------ one method per tag
    def _read_base(self, element: Element) -> None:
        base = self.document.text(element, "type")
        if base not in ("free", "fixed"):
            self._fail(element, f"<base type=\"{base}\"> is neither 'free' nor 'fixed'")
        if self.result.base not in (None, base):
            self._fail(element, f'<base type="{base}"> contradicts the <base> before it')
        self.result.base = base

    def _read_loop_joint(self, element: Element) -> None:
        name = self._name(element)
        if name in self.joints:
            self.document.fail(
                DuplicateNameError, element, f"a joint and a loop joint are both called '{name}'"
            )
        kind = self.document.text(element, "type")
        if kind not in _LOOP_KINDS:
            self.document.fail(
                JointTypeError,
                element,
                f"loop joint '{name}' has the type '{kind}'; {nearest(kind, _LOOP_KINDS)}",
            )
        ends = [self._child(element, tag) for tag in ("link1", "link2")]
        owner = f"loop joint '{name}'"
        axis = self.document.axis(element.find("axis"), (1.0, 0.0, 0.0), ExtensionError, owner)
        x, y, z = perpendicular_basis(axis)[0]
        axis2 = self.document.axis(element.find("axis2"), (x, y, z), ExtensionError, owner)
        self.result.loops.append(
            LoopSpec(
                name=name,
                kind=_LOOP_KINDS[kind],
                links=(self._link(ends[0]), self._link(ends[1])),
                frames=(self._frame(ends[0]), self._frame(ends[1])),
                axis=axis,
                axis2=axis2,
                line=element.sourceline,
                axis_given=element.find("axis") is not None,
            )
        )

    def _frame(self, element: Element) -> pin.SE3:
        rpy = self.document.vector(element, "rpy", (0.0, 0.0, 0.0))
        xyz = self.document.vector(element, "xyz", (0.0, 0.0, 0.0))
        return pin.SE3(pin.rpy.rpyToMatrix(rpy), xyz)

    def read_ball_constraint(self, element: Element) -> None:
        """Drake's dialect: two bodies and a point on each, no name."""
        parts = {
            local_name(child).removeprefix("drake:ball_constraint_"): child for child in element
        }
        missing = [part for part in ("body_A", "body_B", "p_AP", "p_BQ") if part not in parts]
        if missing:
            self._fail(
                element, f"<drake:ball_constraint> needs <drake:ball_constraint_{missing[0]}>"
            )
        origin = (0.0, 0.0, 0.0)
        points = [self.document.vector(parts[part], "value", origin) for part in ("p_AP", "p_BQ")]
        axis = np.array([1.0, 0.0, 0.0])
        self.result.loops.append(
            LoopSpec(
                name=f"ball_constraint_{len(self.result.loops)}",
                kind=JointKind.SPHERICAL,
                links=(self._link(parts["body_A"], "name"), self._link(parts["body_B"], "name")),
                frames=(pin.SE3(np.eye(3), points[0]), pin.SE3(np.eye(3), points[1])),
                axis=axis,
                axis2=perpendicular_basis(axis)[0],
                line=element.sourceline,
            )
        )

    def _read_spherical(self, element: Element) -> None:
        name, kind = self._joint(element)
        if kind != "floating":
            self._fail(
                element,
                f'<spherical joint="{name}"/> needs the URDF joint to be type="floating", '
                f'it is "{kind}"',
            )
        self.result.spherical.append(name)

    def _read_motor(self, element: Element) -> None:
        name, kind = self._joint(element)
        if name in (motor.joint for motor in self.result.motors):
            self.document.fail(DuplicateNameError, element, f"joint '{name}' has two motors")
        if kind not in ("revolute", "continuous", "prismatic"):
            self.document.fail(
                MotorError,
                element,
                f"a motor cannot turn the {kind} joint '{name}'; motors go on revolute, "
                "continuous or prismatic joints",
            )
        if self.joints[name].find("mimic") is not None:
            self.document.fail(
                MotorError,
                element,
                f"joint '{name}' mimics another one and cannot have a motor; put it on the joint "
                "that is followed",
            )
        if element.get("torque_constant") is None:
            self.document.fail(
                MotorError,
                element,
                f"the motor on '{name}' needs its torque_constant [N m/A]; voltage and resistance, "
                "current_limit, gear_ratio and rotor_inertia may be left out",
            )
        if (element.get("voltage") is None) != (element.get("resistance") is None):
            self.document.fail(
                MotorError,
                element,
                f"the motor on '{name}' needs voltage and resistance together: they set the "
                "torque-speed line",
            )
        for attribute in (
            "torque_constant",
            "resistance",
            "voltage",
            "current_limit",
            "gear_ratio",
        ):
            if element.get(attribute) is not None and self.document.number(element, attribute) <= 0:
                self.document.fail(
                    MotorError,
                    element,
                    f"the motor on '{name}' has {attribute}=\"{element.get(attribute)}\": it must "
                    "be positive",
                )
        self.result.motors.append(
            MotorSpec(
                joint=name,
                torque_constant=self.document.number(element, "torque_constant"),
                resistance=self.document.number(element, "resistance", np.nan),
                voltage=self.document.number(element, "voltage", np.inf),
                current_limit=self.document.number(element, "current_limit", np.inf),
                gear_ratio=(
                    None
                    if element.get("gear_ratio") is None
                    else self.document.number(element, "gear_ratio")
                ),
                rotor_inertia=self._number(element, "rotor_inertia", 0.0),
            )
        )

    def _read_spring(self, element: Element) -> None:
        ends = [self._child(element, tag) for tag in ("link1", "link2")]
        self.result.springs.append(
            SpringSpec(
                name=self._name(element),
                links=(self._link(ends[0]), self._link(ends[1])),
                points=(
                    self.document.vector(ends[0], "xyz", (0.0, 0.0, 0.0)),
                    self.document.vector(ends[1], "xyz", (0.0, 0.0, 0.0)),
                ),
                stiffness=self._number(element, "stiffness", None),
                rest_length=self._number(element, "rest_length", None),
                damping=self._number(element, "damping", 0.0),
            )
        )

    def _read_contact(self, element: Element) -> None:
        friction = None
        if element.get("friction") is not None:
            friction = self._number(element, "friction", None)
        self.result.contacts.append(
            ContactSpec(
                name=self._name(element),
                link=self._link(element),
                point=self.document.vector(element, "xyz", (0.0, 0.0, 0.0)),
                radius=self._number(element, "radius", 0.0),
                friction=friction,
            )
        )
