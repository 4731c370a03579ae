"""Checks of a URDF before pinocchio sees it: each mistake has its own error, repairs are reported.

The checker works on a copy made for pinocchio: it writes numbers and axes in plain form, takes out
what pinocchio does not read or does not take, and repairs; every repair is a finding.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from vi_contact.errors import (
    AxisError,
    DuplicateNameError,
    InertiaError,
    JointTypeError,
    LimitError,
    MimicError,
    RobotNameError,
    RobotSizeError,
    TreeError,
    UnknownLinkError,
    ValueFormatError,
    nearest,
)
from vi_contact.robot.parts import Array
from vi_contact.robot.report import Outcome
from vi_contact.robot.xml import Document, Element, local_name

SINGLE = ("revolute", "continuous", "prismatic")
"""Types with one degree of freedom: they have limits, can mimic and be driven by a motor."""

JOINT_TYPES = (*SINGLE, "fixed", "floating", "planar")

GYRATION = 1e-6
"""A body whose radius of gyration is below this is a point mass: rounding of an exporter [m]."""

DEEPEST = 2000
"""Longest chain of joints; pinocchio's parser calls itself once per joint (4000 overflow it)."""

DEGREES = 720.0
"""Angles between a few turns of radians and this look like degrees."""

TRIANGLE_SLACK = 1e-6
"""Relative violation of the triangle inequality that is taken as rounding of the printed digits."""


NOT_GIVEN = -1.0
"""An effort or velocity that some exporters write where they know none."""


def declare_world(document: Document) -> None:
    """Adds the link "world" where joints have it as their parent only, as in files for Drake."""
    root = document.root
    on_world = [tag.getparent() for tag in root.findall("joint/parent[@link='world']")]
    ends = [*root.findall("link[@name='world']"), *root.findall("joint/child[@link='world']")]
    if on_world and not ends:
        root.insert(0, root.makeelement("link", {"name": "world"}))
        message = "its parent 'world' is no <link> of the file: taken as the world, a fixed base"
        document.note(Outcome.APPROXIMATED, on_world[0], message, physics=True)


class Checker:
    """Runs all checks on a document and collects findings."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.root = document.root
        self.findings = document.findings
        self.mimics: dict[str, tuple[str, float, float]] = {}
        """Mimic joint to (source, multiplier, offset), with repaired names."""
        self.spherical: list[str] = []
        """Joints of Bullet's type "spherical", which are floating ones in the copy."""
        self.unlimited: set[str] = set()
        """Joints whose position limits count as not given."""
        self.no_effort: set[str] = set()
        self.no_velocity: set[str] = set()

    def run(self) -> None:
        if not self.root.get("name"):
            self.document.fail(
                RobotNameError, self.root, '<robot> has no name; write <robot name="...">'
            )
        self._names("link")
        self._names("joint")
        for joint in self.root.findall("joint"):
            self._joint(joint)
        self._tree()
        self._mimics()
        for link in self.root.findall("link"):
            self._inertial(link)

    def note(self, outcome: Outcome, element: Element, message: str, physics: bool = False) -> None:
        self.document.note(outcome, element, message, physics)

    # ------------------------------------------------------------ names and tree
    def _names(self, tag: str) -> None:
        elements = self.root.findall(tag)
        for element in elements:
            self.document.text(element, "name")
        for name, count in Counter(element.get("name") for element in elements).items():
            if count > 1:
                second = [element for element in elements if element.get("name") == name][1]
                self.document.fail(
                    DuplicateNameError, second, f"{count} <{tag}> elements are called '{name}'"
                )

    def _end(self, joint: Element, tag: str) -> str:
        """Link name of <parent> or <child>."""
        element = joint.find(tag)
        if element is None:
            self.document.fail(
                ValueFormatError, joint, f"joint '{joint.get('name')}' needs a <{tag} link=.../>"
            )
        return self.document.text(element, "link")

    def _tree(self) -> None:
        links = [str(link.get("name")) for link in self.root.findall("link")]
        if not links:
            soft = "; bodies here are rigid" if self.root.find("deformable") is not None else ""
            self.document.fail(TreeError, self.root, f"the robot has no <link>{soft}")
        parent_of: dict[str, str] = {}
        for joint in self.root.findall("joint"):
            name = joint.get("name")
            parent, child = self._end(joint, "parent"), self._end(joint, "child")
            for link in (parent, child):
                if link not in links:
                    self.document.fail(
                        UnknownLinkError,
                        joint,
                        f"joint '{name}' names the link '{link}'; {nearest(link, links)}",
                    )
            if child in parent_of:
                self.document.fail(
                    TreeError,
                    joint,
                    f"link '{child}' is the child of two joints; a closed loop is a <loop_joint> "
                    "in the <vi_contact> block",
                )
            parent_of[child] = parent
        roots = [link for link in links if link not in parent_of]
        if len(roots) > 1:
            self.document.fail(
                TreeError,
                self.root,
                f"{len(roots)} links have no parent joint: {', '.join(roots[:8])}"
                f"{', ...' if len(roots) > 8 else ''}; a URDF has one root: join them with joints",
            )
        self._circles(links, parent_of)

    def _circles(self, links: list[str], parent_of: dict[str, str]) -> None:
        """Every link must lead to the root, and not by too many joints."""
        depth: dict[str, int] = {}
        for link in links:
            way = [link]
            while way[-1] in parent_of and way[-1] not in depth:
                way.append(parent_of[way[-1]])
                if len(way) > len(links):
                    circle = way[way.index(way[-1]) :]
                    circle = circle[: circle.index(way[-1], 1) + 1]
                    self.document.fail(
                        TreeError,
                        self.root,
                        f"the joints go in a circle: {' <- '.join(circle)}; a closed loop is a "
                        "<loop_joint> in the <vi_contact> block",
                    )
            base = depth.get(way[-1], 0)
            depth.update({name: base + k for k, name in enumerate(reversed(way))})
        if max(depth.values()) > DEEPEST:
            raise RobotSizeError(
                f"{self.document.path}: a chain of {max(depth.values())} joints; pinocchio's "
                f"parser has room for {DEEPEST}"
            )

    # ------------------------------------------------------------ joints
    def _joint(self, joint: Element) -> None:
        name = str(joint.get("name"))
        kind = self.document.text(joint, "type")
        if kind == "spherical":
            self.spherical.append(name)
            joint.set("type", "floating")
            self.note(Outcome.USED, joint, "spherical, a type of Bullet's: a ball joint")
        elif kind not in JOINT_TYPES:
            hint = (
                'for a ball joint write type="floating" and <spherical joint="..."/> in the '
                "<vi_contact> block"
                if kind == "ball"
                else nearest(kind, JOINT_TYPES)
            )
            self.document.fail(
                JointTypeError, joint, f"joint '{name}' has the unknown type '{kind}'; {hint}"
            )
        self.origin(joint)
        self._axis(joint, name, kind)
        if kind in SINGLE:
            self._limit(joint, name, kind)
            self._dynamics(joint, name)
        elif kind != "fixed":
            self._free_motion(joint, kind)
        unread = {"calibration", "safety_controller"}
        if kind not in SINGLE:
            unread |= {"axis", "limit", "dynamics"}
        for element in [child for child in joint if local_name(child) in unread]:
            joint.remove(element)

    def origin(self, parent: Element) -> None:
        """The <origin> of a joint, inertia or shape."""
        element = parent.find("origin")
        self.document.vector(element, "xyz", (0.0, 0.0, 0.0))
        rpy = np.abs(self.document.vector(element, "rpy", (0.0, 0.0, 0.0))).max()
        if rpy > 2.0 * np.pi + 1e-3:
            self.note(Outcome.CHECK, element, f"rpy of {rpy:g} rad: are these degrees?")

    def _axis(self, joint: Element, name: str, kind: str) -> None:
        if kind not in (*SINGLE, "planar"):
            return
        element = joint.find("axis")
        if kind == "planar" and (element is None or element.get("xyz") is None):
            self.note(Outcome.CHECK, joint, "planar joint without <axis>: its plane is x-y")
            return
        axis = self.document.axis(element, (1.0, 0.0, 0.0), AxisError, f"joint '{name}'")
        if kind == "planar" and np.any(axis[:2]):
            self.document.fail(
                AxisError,
                joint,
                f"planar joint '{name}' has the normal {axis}; pinocchio's plane is x-y: turn the "
                'joint\'s <origin rpy> so that the normal is "0 0 1"',
            )

    def _dynamics(self, joint: Element, name: str) -> None:
        dynamics = joint.find("dynamics")
        if dynamics is None:
            return
        for attribute in ("damping", "friction"):
            if self.document.number(dynamics, attribute, 0.0) < 0.0:
                self.document.fail(
                    LimitError, dynamics, f"joint '{name}' has a negative {attribute}"
                )
            dynamics.set(attribute, dynamics.get(attribute, "0"))  # urdfdom refuses an empty one

    def _free_motion(self, joint: Element, kind: str) -> None:
        """Values that a joint of several degrees of freedom cannot have."""
        for tag, attributes in (
            ("limit", ("lower", "upper", "effort", "velocity")),
            ("dynamics", ("damping", "friction")),
        ):
            element = joint.find(tag)
            given = [
                attribute
                for attribute in attributes
                if element is not None and self.document.number(element, attribute, 0.0) != 0.0
            ]
            if given:
                message = f"{', '.join(given)} of a {kind} joint: left out"
                self.note(Outcome.IGNORED, element, message, physics=True)

    def _limit(self, joint: Element, name: str, kind: str) -> None:
        limit = joint.find("limit")
        if limit is None:
            if kind != "continuous":
                self.note(Outcome.CHECK, joint, f"{kind} joint without <limit>: taken as unlimited")
                limit = joint.makeelement("limit", {"effort": "0", "velocity": "0"})
                joint.append(limit)
                self.unlimited.add(name)
            self.no_effort.add(name)
            self.no_velocity.add(name)
            return
        lower, upper, effort, velocity = (
            self.document.number(limit, attribute, 0.0)
            for attribute in ("lower", "upper", "effort", "velocity")
        )
        if kind != "continuous":
            missing = [side for side in ("lower", "upper") if limit.get(side) is None]
            said = f" ({missing[0]} is missing, which means 0)" if len(missing) == 1 else ""
            if lower > upper:
                self.document.fail(
                    LimitError,
                    limit,
                    f"joint '{name}': lower limit {lower} is above upper {upper}{said}; exchange "
                    "them, or leave both out if there are none (which is how Bullet takes this)",
                )
            if said and lower != upper:
                self.note(Outcome.CHECK, limit, f"{missing[0]} is missing: taken as 0")
            if kind == "revolute" and 4.0 * np.pi < max(-lower, upper) <= DEGREES:
                angles = f"{lower:g} .. {upper:g} rad"
                self.note(Outcome.CHECK, limit, f"limits of {angles}: are these degrees?")
            if lower == upper == 0.0:
                self.note(
                    Outcome.CHECK, limit, "lower and upper are 0 or missing: taken as unlimited"
                )
                self.unlimited.add(name)
            elif lower == upper:
                self.note(Outcome.CHECK, limit, f"lower equals upper: locked at {lower:g}")
        given = {"effort": effort, "velocity": velocity}
        for attribute, value in given.items():
            if value == NOT_GIVEN:
                message = f"{attribute} is -1: taken as not given"
                self.note(Outcome.APPROXIMATED, limit, message, physics=True)
            elif value < 0.0:
                message = (
                    f"joint '{name}' has a negative limit, {attribute} {value:g}; for none leave "
                    "it out, or write 0"
                )
                self.document.fail(LimitError, limit, message)
        if effort in (0.0, NOT_GIVEN) and velocity in (0.0, NOT_GIVEN):
            self.no_effort.add(name)
            self.no_velocity.add(name)
            zeros = [attribute for attribute, value in given.items() if value == 0.0]
            if zeros:
                are = "are" if len(zeros) > 1 else "is"
                message = f"{' and '.join(zeros)} {are} 0: taken as not given"
                self.note(Outcome.CHECK, limit, message)
        elif velocity in (0.0, NOT_GIVEN):
            self.no_velocity.add(name)
            if velocity == 0.0:
                self.note(Outcome.CHECK, limit, "velocity is 0: taken as not given")
        elif effort == NOT_GIVEN:
            self.no_effort.add(name)
        elif effort == 0.0:
            self.note(Outcome.CHECK, limit, "effort is 0: this joint cannot be driven")
        for attribute in ("effort", "velocity"):
            if limit.get(attribute) is None or given[attribute] == NOT_GIVEN:
                limit.set(attribute, "0")  # pinocchio's parser demands it; 0 means not given

    def _mimics(self) -> None:
        joints = {str(joint.get("name")): joint for joint in self.root.findall("joint")}
        for name, joint in joints.items():
            mimic = joint.find("mimic")
            if mimic is None:
                continue
            kind = joint.get("type")
            if kind == "fixed":
                self.note(Outcome.IGNORED, mimic, "a fixed joint has nothing to follow with")
                continue
            if kind not in SINGLE:
                self.document.fail(MimicError, mimic, f"the {kind} joint '{name}' cannot mimic")
            source = self._mimic_source(mimic, name, joints)
            source_kind = joints[source].get("type")
            if source_kind not in SINGLE:
                self.document.fail(
                    MimicError,
                    mimic,
                    f"joint '{name}' mimics '{source}', which is {source_kind} and has no single "
                    "coordinate",
                )
            multiplier = self.document.number(mimic, "multiplier", 1.0)
            offset = self.document.number(mimic, "offset", 0.0)
            self.mimics[name] = (source, multiplier, offset)
            if source_kind == "continuous" and (kind == "prismatic" or not multiplier.is_integer()):
                self.note(
                    Outcome.CHECK,
                    mimic,
                    f"follows the continuous joint '{source}', whose full turns count here: turns "
                    "are counted from the start, a configuration q does not tell them",
                )
        for name in self.mimics:
            chain = [name]
            while chain[-1] in self.mimics:
                chain.append(self.mimics[chain[-1]][0])
                if chain[-1] in chain[:-1]:
                    self.document.fail(
                        MimicError,
                        joints[name].find("mimic"),
                        f"mimic joints follow each other in a circle: {' -> '.join(chain)}",
                    )
        for joint in joints.values():  # constraints of ours: pinocchio need not read them
            for mimic in joint.findall("mimic"):
                joint.remove(mimic)

    def _mimic_source(self, mimic: Element, name: str, joints: dict[str, Element]) -> str:
        """The joint followed; a name that lacks the prefix of its follower is completed."""
        source = self.document.text(mimic, "joint")
        if source in joints:
            return source
        completed = [
            joint
            for joint in joints
            if joint.endswith(source) and name.startswith(joint.removesuffix(source))
        ]
        if len(completed) != 1:
            self.document.fail(
                MimicError,
                mimic,
                f"joint '{name}' mimics the unknown joint '{source}'; {nearest(source, joints)}",
            )
        self.note(
            Outcome.APPROXIMATED,
            mimic,
            f"there is no joint '{source}': taken as '{completed[0]}', which has the prefix of "
            f"'{name}'",
            physics=True,
        )
        return completed[0]

    # ------------------------------------------------------------ mass
    def _inertial(self, link: Element) -> None:
        inertial = link.find("inertial")
        name = link.get("name")
        if inertial is None:
            return
        mass_element, inertia_element = inertial.find("mass"), inertial.find("inertia")
        for tag, element in (("mass", mass_element), ("inertia", inertia_element)):
            if element is None:
                self.document.fail(
                    InertiaError, inertial, f"link '{name}': <inertial> needs a <{tag}>"
                )
        self.origin(inertial)
        try:
            mass = self.document.number(mass_element, "value")
            for key in ("ixy", "ixz", "iyz"):  # pinocchio's parser demands them; 0 if missing
                inertia_element.set(key, inertia_element.get(key, "0"))
            moments = {
                key: self.document.number(inertia_element, key)
                for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
            }
        except ValueFormatError as error:
            self.document.fail(
                InertiaError, inertial, f"link '{name}': {str(error).split(': ', 1)[1]}"
            )
        if mass < 0.0:
            self.document.fail(InertiaError, inertial, f"link '{name}' has the mass {mass} kg")
        rounding = mass * GYRATION**2
        diagonal = [moments["ixx"], moments["iyy"], moments["izz"]]
        if min(diagonal) < -rounding:
            self.document.fail(
                InertiaError,
                inertial,
                f"link '{name}' has a negative moment of inertia ({min(diagonal)} kg m2)",
            )
        inertia = np.array(
            [
                [moments["ixx"], moments["ixy"], moments["ixz"]],
                [moments["ixy"], moments["iyy"], moments["iyz"]],
                [moments["ixz"], moments["iyz"], moments["izz"]],
            ]
        )
        if np.abs(inertia).max() < rounding:
            inertia[:] = 0.0
            _write_tensor(inertia_element, inertia)
        if mass == 0.0 and np.any(inertia):
            self.note(Outcome.CHECK, inertial, "zero mass with a moment of inertia: used as it is")
        elif mass == 0.0:
            self.note(Outcome.CHECK, inertial, "zero mass")
        elif not np.any(inertia):
            self.note(Outcome.CHECK, inertial, "no moment of inertia: a point mass")
        self._tensor(inertia_element, inertia)

    def _tensor(self, element: Element, inertia: Array) -> None:
        """Principal moments: positive, and none above the sum of the two others."""
        moments, axes = np.linalg.eigh(inertia)
        shown = " ".join(f"{moment:.4g}" for moment in moments)
        if moments[0] < -TRIANGLE_SLACK * moments[2]:
            moments[0] = moments[2] - moments[1]
            if moments[0] <= 0.0:
                moments[:2] = 0.5 * moments[2]
            _write_tensor(element, axes @ np.diag(moments) @ axes.T)
            self.note(
                Outcome.APPROXIMATED,
                element,
                f"not positive: principal moments {shown}; the smallest was raised to "
                f"{moments[0]:.4g}, the least a real body can have",
                physics=True,
            )
        elif moments[2] > (1.0 + TRIANGLE_SLACK) * (moments[0] + moments[1]):
            self.note(
                Outcome.CHECK,
                element,
                f"triangle inequality violated: principal moments {shown}; no real body has them "
                "(used as they are)",
            )


def _write_tensor(element: Element, inertia: Array) -> None:
    for i, j in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)):
        element.set(f"i{'xyz'[i]}{'xyz'[j]}", repr(float(inertia[i, j])))
