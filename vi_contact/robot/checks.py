"""Checks of a URDF before pinocchio sees it: each mistake has its own error, repairs are reported.

`check` may repair the tree in place (it is a copy made for pinocchio); every repair is a finding.
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
    TreeError,
    UnknownLinkError,
    ValueFormatError,
    nearest,
)
from vi_contact.robot.parts import Array
from vi_contact.robot.report import Finding, Outcome
from vi_contact.robot.xml import Document, Element, describe

JOINT_TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")

ROUNDING = 1e-12
"""Moments of inertia below this are rounding of an exporter and count as zero [kg m2]."""

TRIANGLE_SLACK = 1e-6
"""Relative violation of the triangle inequality that is taken as rounding of the printed digits."""


class Checker:
    """Runs all checks on a document and collects findings."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.root = document.root
        self.findings: list[Finding] = []
        self.mimics: dict[str, tuple[str, float, float]] = {}
        """Mimic joint to (source, multiplier, offset), with repaired names."""
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
        self.findings.append(
            Finding(
                outcome,
                describe(element),
                message,
                self.document.path.name,
                element.sourceline,
                physics,
            )
        )

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
            self.document.fail(TreeError, self.root, "the robot has no <link>")
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
        for link in links:
            seen = [link]
            while seen[-1] in parent_of:
                seen.append(parent_of[seen[-1]])
                if seen[-1] == link:
                    self.document.fail(
                        TreeError,
                        self.root,
                        f"the joints go in a circle: {' <- '.join(seen)}; a closed loop is a "
                        "<loop_joint> in the <vi_contact> block",
                    )
                if len(seen) > len(links):
                    break  # leads into a circle that starts at another link

    # ------------------------------------------------------------ joints
    def _joint(self, joint: Element) -> None:
        name = str(joint.get("name"))
        kind = self.document.text(joint, "type")
        if kind not in JOINT_TYPES:
            hint = (
                'for a ball joint write type="floating" and <spherical joint="..."/> in the '
                "<vi_contact> block"
                if kind in ("spherical", "ball")
                else nearest(kind, JOINT_TYPES)
            )
            self.document.fail(
                JointTypeError, joint, f"joint '{name}' has the unknown type '{kind}'; {hint}"
            )
        for tag, attributes in {"origin": ("xyz", "rpy"), "axis": ("xyz",)}.items():
            for attribute in attributes:
                self.document.vector(joint.find(tag), attribute, (1.0, 0.0, 0.0))
        axis = self.document.vector(joint.find("axis"), "xyz", (1.0, 0.0, 0.0))
        if kind in ("revolute", "continuous", "prismatic", "planar") and not np.any(axis):
            self.document.fail(AxisError, joint, f"joint '{name}' has a zero <axis>")
        if kind == "planar" and joint.find("axis") is not None and np.any(axis[:2]):
            self.document.fail(
                AxisError,
                joint,
                f"planar joint '{name}' has the normal {axis}; pinocchio's plane is x-y: turn the "
                'joint\'s <origin rpy> so that the normal is "0 0 1"',
            )
        if kind in ("revolute", "prismatic", "continuous"):
            self._limit(joint, name, kind)
        dynamics = joint.find("dynamics")
        if dynamics is not None:
            for attribute in ("damping", "friction"):
                if self.document.number(dynamics, attribute, 0.0) < 0.0:
                    self.document.fail(
                        LimitError, dynamics, f"joint '{name}' has a negative {attribute}"
                    )

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
            if lower > upper:
                self.document.fail(
                    LimitError, limit, f"joint '{name}': lower limit {lower} is above upper {upper}"
                )
            if lower == upper == 0.0:
                self.note(
                    Outcome.CHECK, limit, "lower and upper are 0 or missing: taken as unlimited"
                )
                self.unlimited.add(name)
            elif lower == upper:
                self.note(Outcome.CHECK, limit, f"lower equals upper: locked at {lower:g}")
        if effort < 0.0 or velocity < 0.0:
            self.document.fail(
                LimitError, limit, f"joint '{name}': effort and velocity limits cannot be negative"
            )
        if effort == 0.0 and velocity == 0.0:
            self.no_effort.add(name)
            self.no_velocity.add(name)
            self.note(Outcome.CHECK, limit, "effort and velocity are 0: taken as not given")
        elif velocity == 0.0:
            self.no_velocity.add(name)
            self.note(Outcome.CHECK, limit, "velocity is 0: taken as not given")
        elif effort == 0.0:
            self.note(Outcome.CHECK, limit, "effort is 0: this joint cannot be driven")
        for attribute in ("effort", "velocity"):
            if limit.get(attribute) is None:
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
            if kind not in ("revolute", "continuous", "prismatic"):
                self.document.fail(MimicError, mimic, f"the {kind} joint '{name}' cannot mimic")
            source = self._mimic_source(mimic, name, joints)
            source_kind = joints[source].get("type")
            if source_kind not in ("revolute", "continuous", "prismatic"):
                self.document.fail(
                    MimicError,
                    mimic,
                    f"joint '{name}' mimics '{source}', which is {source_kind} and has no single "
                    "coordinate",
                )
            self.mimics[name] = (
                source,
                self.document.number(mimic, "multiplier", 1.0),
                self.document.number(mimic, "offset", 0.0),
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
        for attribute in ("xyz", "rpy"):
            self.document.vector(inertial.find("origin"), attribute, (0.0, 0.0, 0.0))
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
        diagonal = [moments["ixx"], moments["iyy"], moments["izz"]]
        if min(diagonal) < -ROUNDING:
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
        if np.abs(inertia).max() < ROUNDING:
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
