"""What becomes of every tag of a URDF: used or ignored, and whether that is physics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from vi_contact.errors import nearest
from vi_contact.robot.extension import BLOCK
from vi_contact.robot.report import Finding, Outcome
from vi_contact.robot.xml import Document, Element, is_xacro, local_name

Rule = tuple[Outcome, str, bool]


def _used(message: str) -> Rule:
    return (Outcome.USED, message, False)


def _ignored(message: str, physics: bool = False) -> Rule:
    return (Outcome.IGNORED, message, physics)


_APPEARANCE = _ignored("appearance only")
_TUNING = _ignored("contact here is hard: there is nothing to tune", physics=True)

_RULES: Mapping[str, Rule] = {
    "link": _used("merged into the body of its joint; its frame is kept"),
    "link/inertial": _used("mass, centre of mass and inertia"),
    "link/visual": _used("pictures"),
    "link/visual/material/texture": _APPEARANCE,
    "link/collision": _used("contacts, unless the file declares its own"),
    "link/collision/material": _APPEARANCE,
    "link/collision/verbose": _ignored("a switch of another tool"),
    "link/collision_checking": _ignored("a hint to another tool's collision checker"),
    "link/self_filter": _ignored("a filter for sensor data"),
    "link/contact": _used("Bullet's contact block"),
    "link/contact/lateral_friction": _used("friction coefficient of the link's contacts"),
    "link/contact/restitution": _ignored("restitution belongs to the ground here", physics=True),
    "link/contact/rolling_friction": _ignored("no rolling friction", physics=True),
    "link/contact/spinning_friction": _ignored("no spinning friction", physics=True),
    "link/contact/stiffness": _TUNING,
    "link/contact/damping": _TUNING,
    "link/contact/contact_cfm": _TUNING,
    "link/contact/contact_erp": _TUNING,
    "link/surface": _ignored("an SDFormat block that URDF does not have", physics=True),
    "link/origin": _ignored("a link has no origin in URDF: its joint has", physics=True),
    "link/gravity": _ignored("gravity acts on every link", physics=True),
    "link/kinematic": _ignored("a switch of another tool", physics=True),
    "joint": _used("joint of the tree"),
    "joint/origin": _used("joint frame"),
    "joint/parent": _used("tree"),
    "joint/child": _used("tree"),
    "joint/axis": _used("axis"),
    "joint/limit": _used("position, effort and velocity limits"),
    "joint/dynamics": _used("damping and Coulomb friction"),
    "joint/mimic": _used("constraint between two joints"),
    "joint/calibration": _ignored("sensor calibration, not physics"),
    "joint/safety_controller": _ignored("limits of a controller, not physics"),
    "material": _used("pictures"),
    "material/texture": _APPEARANCE,
    "transmission": _used("its joints are actuated; its reduction is a motor's default gear"),
    "gazebo/mu1": _used("friction coefficient of the link's contacts"),
    "gazebo/mu": _ignored("Gazebo's URDF tag is mu1", physics=True),
    "gazebo/collision": _ignored("an SDFormat block for Gazebo", physics=True),
    "gazebo/mu2": _ignored("friction is isotropic, mu1 is taken", physics=True),
    "gazebo/fdir1": _ignored("friction is isotropic", physics=True),
    "gazebo/kp": _TUNING,
    "gazebo/kd": _TUNING,
    "gazebo/minDepth": _TUNING,
    "gazebo/maxVel": _TUNING,
    "gazebo/maxContacts": _TUNING,
    "gazebo/selfCollide": _ignored("contact between links is not derived from it", physics=True),
    "gazebo/turnGravityOff": _ignored("gravity acts on every link", physics=True),
    "gazebo/gravity": _ignored("gravity acts on every link", physics=True),
    "gazebo/dampingFactor": _ignored("Gazebo's artificial damping", physics=True),
    "gazebo/springStiffness": _ignored("a joint spring of Gazebo", physics=True),
    "gazebo/springReference": _ignored("a joint spring of Gazebo", physics=True),
    "gazebo/stopCfm": _TUNING,
    "gazebo/stopErp": _TUNING,
    "gazebo": _ignored("sensors, plugins and looks of Gazebo"),
    "ros2_control": _ignored("controllers and hardware, not physics"),
    "sensor": _ignored("sensors"),
    "gripper": _ignored("a hint to another tool"),
    "loop_joint": _used("loop joint"),
    "drake:ball_constraint": _used("spherical loop joint"),
    BLOCK: _used("extension block"),
}

_HARMLESS_VALUES = {
    "gazebo/turnGravityOff": ("false", "0"),
    "gazebo/gravity": ("true", "1"),
    "gazebo/selfCollide": ("false", "0"),
}
"""Switches that say what happens anyway."""

_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "link": ("name", "type"),
    "link/inertial": (),
    "link/inertial/origin": ("xyz", "rpy"),
    "link/inertial/mass": ("value",),
    "link/inertial/inertia": ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"),
    **{
        f"link/{role}{path}": names
        for role in ("visual", "collision")
        for path, names in {
            "": ("name", "group"),
            "/origin": ("xyz", "rpy"),
            "/geometry": ("name",),
            "/geometry/box": ("size",),
            "/geometry/sphere": ("radius",),
            "/geometry/cylinder": ("radius", "length"),
            "/geometry/capsule": ("radius", "length"),
            "/geometry/mesh": ("filename", "scale"),
        }.items()
    },
    "link/contact/lateral_friction": ("value",),
    "joint": ("name", "type", "dont_collapse"),
    "joint/origin": ("xyz", "rpy"),
    "joint/parent": ("link",),
    "joint/child": ("link",),
    "joint/axis": ("xyz",),
    "joint/limit": ("lower", "upper", "effort", "velocity"),
    "joint/dynamics": ("damping", "friction"),
    "joint/mimic": ("joint", "multiplier", "offset"),
}
"""Attributes of standard tags; others are ignored and said, as many are slips of the pen."""

_ONCE: Mapping[str, tuple[str, ...]] = {
    "link": ("inertial",),
    "link/inertial": ("origin", "mass", "inertia"),
    "link/visual": ("origin", "geometry", "material"),
    "link/collision": ("origin", "geometry"),
    "joint": ("origin", "parent", "child", "axis", "limit", "dynamics", "mimic"),
    "loop_joint": ("link1", "link2", "axis", "axis2"),
    f"{BLOCK}/loop_joint": ("link1", "link2", "axis", "axis2"),
    f"{BLOCK}/spring": ("link1", "link2"),
}
"""Tags of which only the first counts."""

_LOOKS = ("link/visual", "material")
"""Where nothing is physics."""

_WITHOUT_LINE = ("geometry", "origin", "mass", "inertia", "color", "material", "shape")
"""Parts of used elements that need no line of their own."""


def tag_findings(document: Document) -> list[Finding]:
    """One finding per kind of tag with the number of times it occurs, in the order of the file."""
    findings: dict[tuple[str, str], Finding] = {}
    for element, path in _walk(document.root, ""):
        rule = _rule(element, path)
        for outcome, message, physics in (*((rule,) if rule else ()), *_slips(element, path)):
            key = (path, message)
            if key in findings:
                findings[key] = replace(findings[key], count=findings[key].count + 1)
            else:
                findings[key] = Finding(
                    outcome, path, message, document.path.name, element.sourceline, physics
                )
    return list(findings.values())


def _slips(element: Element, path: str) -> Iterator[Rule]:
    """Unknown attributes of a standard tag, and tags given twice of which the first counts."""
    physics = not path.startswith("link/visual")
    if path in _ATTRIBUTES:
        for attribute in element.attrib:
            known = _ATTRIBUTES[path]
            if attribute not in known and ":" not in attribute:  # with a prefix: another tool's
                yield _ignored(
                    f"unknown attribute '{attribute}'; {nearest(attribute, known)}", physics
                )
    if path in _ONCE:
        tags = [local_name(child) for child in element]
        for tag in _ONCE[path]:
            if tags.count(tag) > 1:
                yield _ignored(f"{tags.count(tag)} <{tag}> of which the first counts", physics)


def _walk(parent: Element, path: str) -> Iterator[tuple[Element, str]]:
    """Elements below parent with their paths; below ignored ones nothing is listed again."""
    for element in parent:
        here = f"{path}/{local_name(element)}" if path else local_name(element)
        yield element, here
        rule = _rule(element, here)
        if here == "gazebo" or rule is None or rule[0] is Outcome.USED:
            yield from _walk(element, here)


def _rule(element: Element, path: str) -> Rule | None:
    """The rule of a path; None where the element above speaks for it."""
    if path == "gazebo":  # one line for the block unless all its children have their own
        children = [f"gazebo/{local_name(child)}" for child in element]
        return None if children and all(child in _RULES for child in children) else _RULES[path]
    text = (element.text or "").strip()
    if text in _HARMLESS_VALUES.get(path, ()):
        return _used("says what happens anyway")
    if path == "gazebo/mu2" and text == (element.getparent().findtext("mu1") or "").strip():
        return _used("equal to mu1")
    if path in _RULES:
        return _RULES[path]
    if is_xacro(element):
        return _ignored("a macro that xacro did not know", physics=not path.startswith(_LOOKS))
    top = path.split("/")[0]
    if top in ("gazebo", "transmission", BLOCK, "loop_joint", "drake:ball_constraint"):
        return _used("extension block") if path.count("/") == 1 and top == BLOCK else None
    if path.split("/")[-1] in _WITHOUT_LINE or "/geometry/" in path:
        return None
    return _ignored("unknown tag: nothing is known about its meaning", physics=True)
