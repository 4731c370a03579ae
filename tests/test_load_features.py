"""What the loader understands: joint types, dialects, motors, limits, meshes, pinocchio models."""

import re

import numpy as np
import pinocchio as pin
import pytest
from support import example, random_configuration
from urdf_text import INERTIAL, extension, joint, link, pair, robot, write

import vi_contact as vc
from vi_contact.robot.parts import JointKind

HEAVY = INERTIAL.replace('"0.1"', '"0.2"').replace('mass value="1"', 'mass value="2"')


def load(tmp_path, text, **options):
    return vc.load_robot(write(tmp_path, text), **options)


@pytest.mark.parametrize(
    ("kind", "expected", "nq", "nv"),
    [
        ("revolute", JointKind.REVOLUTE, 1, 1),
        ("continuous", JointKind.REVOLUTE, 2, 1),
        ("prismatic", JointKind.PRISMATIC, 1, 1),
        ("floating", JointKind.FLOATING, 7, 6),
        ("planar", JointKind.PLANAR, 4, 3),
    ],
)
def test_joint_types(tmp_path, kind, expected, nq, nv):
    loaded = load(tmp_path, pair(kind=kind, axis="0 0 1"), base="fixed")
    assert loaded.joints[0].kind is expected
    assert (loaded.nq, loaded.nv) == (nq, nv)
    q, v = random_configuration(loaded, np.random.default_rng(1)), np.ones(nv)
    q_back, v_back = loaded.to_minimal(loaded.to_maximal(q, v), near=q)
    np.testing.assert_allclose(q_back, q, atol=1e-12)
    np.testing.assert_allclose(v_back, v, atol=1e-12)


def test_fixed_links_are_merged_and_keep_their_names(tmp_path):
    text = pair(
        link("tool", HEAVY), joint("weld", "arm", "tool", "fixed", origin="1 0 0", limit="")
    )
    loaded = load(tmp_path, text)
    arm = loaded.bodies[1]
    assert arm.links == ("arm", "tool")
    assert arm.mass == 3.0
    np.testing.assert_allclose(arm.com, [2.0 / 3.0, 0.0, 0.0])
    # parallel axes: 0.1 + 0.2 about each own centre plus m1 m2 / (m1 + m2) d^2
    np.testing.assert_allclose(np.diag(arm.inertia), [0.3, 0.3 + 2.0 / 3.0, 0.3 + 2.0 / 3.0])
    body, placement = loaded.link_placement("tool")
    assert body == 1
    np.testing.assert_allclose(placement.translation, [1.0 / 3.0, 0.0, 0.0])
    with pytest.raises(vc.errors.LinkNotFoundError, match="did you mean 'tool'"):
        loaded.link_placement("tol")


def test_spherical_joint(tmp_path):
    text = pair(extension('<spherical joint="hinge"/>'), kind="floating", origin="0 0 2", limit="")
    loaded = load(tmp_path, text, base="fixed")
    assert loaded.joints[0].kind is JointKind.SPHERICAL
    assert (loaded.nq, loaded.nv, loaded.nu) == (4, 3, 3)
    assert loaded.model.existBodyName("arm")
    half = np.sqrt(0.5)
    state = loaded.to_maximal([half, 0.0, 0.0, half])
    np.testing.assert_allclose(state.p_WB, [[0.0, 0.0, 2.0]], atol=1e-15)


def test_spherical_keeps_the_rest_of_the_model(tmp_path):
    text = robot(
        link("base"),
        link("arm"),
        link("hand"),
        joint("ball", "base", "arm", "floating", limit=""),
        joint("wrist", "arm", "hand", origin="0 0 1", body='<dynamics damping="3" friction="2"/>'),
        extension('<spherical joint="ball"/>'),
    )
    wrist = load(tmp_path, text).joints[2]
    assert (wrist.lower[0], wrist.upper[0]) == (-1.0, 1.0)
    assert (wrist.effort[0], wrist.velocity[0]) == (10.0, 5.0)
    assert (wrist.damping[0], wrist.friction[0]) == (3.0, 2.0)


# ---------------------------------------------------------------- base
@pytest.mark.parametrize(
    ("root", "block", "option", "free"),
    [
        ("base", "", None, True),
        ("world", "", None, False),
        ("base", '<base type="fixed"/>', None, False),
        ("world", '<base type="free"/>', None, True),
        ("base", '<base type="fixed"/>', "free", True),
        ("base", "", "fixed", False),
    ],
)
def test_base(tmp_path, root, block, option, free):
    text = robot(link(root), link("arm"), joint("hinge", root, "arm"), extension(block))
    assert len(load(tmp_path, text, base=option).base_dofs) == (6 if free else 0)


@pytest.mark.parametrize("name", ["root_joint", "vi_contact_root_joint"])
def test_own_root_joint_name_does_not_clash(tmp_path, name):
    text = robot(
        link("base"), link("arm"), link("hand"),
        joint("root_joint", "base", "arm"), joint("vi_contact_root_joint", "arm", "hand"),
    )  # fmt: skip
    names = load(tmp_path, text).joint_names
    assert names.count(name) == 1
    assert len(set(names)) == 3


# ---------------------------------------------------------------- numbers
def test_numbers_with_white_space_reach_pinocchio(tmp_path):
    """urdfdom refuses blanks about a number, and drops the inertia, or the whole file, for it."""
    blanks = INERTIAL.replace('"1"', '" 1&#10;"').replace('"0.1"', '"&#9;0.1 "')
    limit = '<limit lower=" -1" upper="1 " effort=" 10" velocity="5 "/>'
    text = robot(
        link("base"),
        link("arm", blanks),
        joint("hinge", "base", "arm", axis=" 0 1&#10;0 ", origin="1&#9;2  3", limit=limit,
              body='<dynamics damping=" 0.5 "/>'),
    )  # fmt: skip
    loaded = load(tmp_path, text, strict=True)
    assert loaded.mass == 2.0
    np.testing.assert_array_equal(loaded.bodies[1].inertia, 0.1 * np.eye(3))
    hinge = loaded.joints[1]
    np.testing.assert_array_equal(hinge.frame_parent.p, [1.0, 2.0, 3.0])
    assert (hinge.lower[0], hinge.upper[0], hinge.effort[0]) == (-1.0, 1.0, 10.0)
    assert hinge.damping[0] == 0.5


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        ("<axis/>", [1, 0, 0]),
        ("", [1, 0, 0]),
        ('<axis xyz="0 1e-200 0"/>', [0, 1, 0]),
        ('<axis xyz="0 3e200 4e200"/>', [0, 0.6, 0.8]),
        ('<axis xyz="0 0 -7"/>', [0, 0, -1]),
    ],
)
def test_axes_of_any_length(tmp_path, axis, expected):
    loaded = load(tmp_path, pair().replace('<axis xyz="0 1 0"/>', axis))
    np.testing.assert_allclose(loaded.joints[1].axis, expected, rtol=1e-15)


@pytest.mark.parametrize(
    "body", ["<dynamics/>", '<calibration rising="x"/>', "<safety_controller/>"]
)
def test_elements_that_urdfdom_refuses(tmp_path, body):
    assert load(tmp_path, pair(body=body)).nv == 7


def visual(geometry):
    return f"<visual><geometry>{geometry}</geometry></visual>"


def collision(geometry):
    return f"<collision><geometry>{geometry}</geometry></collision>"


def arm(body):
    return robot(link("base"), link("arm", INERTIAL + body), joint("hinge", "base", "arm"))


def limit(effort, velocity):
    return f'<limit lower="-1" upper="1" effort="{effort}" velocity="{velocity}"/>'


REDUCTION = (
    '<transmission name="t"><joint name="hinge"/><actuator name="m">'
    "<mechanicalReduction>reduction</mechanicalReduction></actuator></transmission>"
)
XACRO = pair('<xacro:imu name="a"/>').replace("<robot ", '<robot xmlns:xacro="http://xacro" ')
HYPHENS = "<!--- a -- b\n --->"

SLIPS = {
    "version 0.0": ('<?xml version="0.0" ?>\n' + pair(), "version '0.0': .*read as 1.0"),
    "late declaration": ('\n\n<?xml version="1.0"?>' + pair(), "XML declaration .* left out"),
    "both": ('\n<?xml version="0.0"?>' + pair(HYPHENS), "XML declaration .* left out"),
    "zero bytes at the end": (pair() + "\0", "zero bytes, left out"),
    "hyphens in a comment": (pair(HYPHENS), "Double hyphen .* left out"),
    "latin-1 in UTF-8": (pair("<!-- \xe9 -->"), "encoding: replaced"),
    "effort -1": (pair(limit=limit(-1, 5)), "effort is -1: taken as not given"),
    "velocity -1": (pair(limit=limit(10, -1.0)), "velocity is -1: taken as not given"),
    "undeclared world": (pair(joint("j", "world", "base")), "'world' is no <link>"),
    "words for a reduction": (pair(REDUCTION), "'reduction' is no number"),
    "scale of one number": (arm(collision('<mesh filename="a.stl" scale="2"/>')), "one number"),
    "scale of four": (arm(collision('<mesh filename="a.stl" scale="1 2 3 4"/>')), "first 3"),
    "rpy of four": (pair().replace("<origin ", '<origin rpy="1 2 3 0" '), "the first 3 numbers"),
    "commas": (pair(origin="1, 2, 3"), "read as 1 2 3"),
    "two stops": (pair(body='<dynamics damping="1.5."/>'), "read as 1.5"),
    "no shape": (arm("<collision/>"), "no shape in a <geometry>"),
    "two shapes": (
        arm(collision('<sphere radius="1"/><box size="1 1 1"/>')),
        "a <box> beside the <sphere>",
    ),
    "macro unknown to xacro": (XACRO, "a macro that xacro did not know"),
}


@pytest.mark.parametrize("case", SLIPS)
def test_slips_that_others_pass_over(tmp_path, case):
    """Each is a line in the report, and what strict refuses."""
    text, words = SLIPS[case]
    encoding = "latin-1" if "latin" in case else "utf-8"
    (tmp_path / "a.stl").write_text("solid a\nendsolid a\n")
    file = tmp_path / "robot.urdf"
    file.write_bytes(text.encode(encoding))
    loaded = vc.load_robot(file)
    told = loaded.report.approximated + loaded.report.ignored
    assert any(re.search(words, finding.message) for finding in told), told
    assert "hinge" in loaded.joint_names
    with pytest.raises(vc.errors.StrictImportError, match=words):
        vc.load_robot(file, strict=True)


def test_what_slips_become(tmp_path):
    turned = load(tmp_path, SLIPS["rpy of four"][0]).joints[1].frame_parent
    wanted = pin.Quaternion(pin.rpy.rpyToMatrix(1.0, 2.0, 3.0)).coeffs()
    assert abs(turned.quat_xyzw @ wanted) == pytest.approx(1.0, abs=1e-14)
    commas = load(tmp_path, SLIPS["commas"][0])
    np.testing.assert_array_equal(commas.joints[1].frame_parent.p, [1.0, 2.0, 3.0])
    assert load(tmp_path, SLIPS["two stops"][0]).joints[1].damping[0] == 1.5
    on_world = load(tmp_path, SLIPS["undeclared world"][0])
    assert len(on_world.base_dofs) == 0
    assert on_world.link_placement("world")[0] == -1


@pytest.mark.parametrize(
    ("effort", "velocity", "wanted"),
    [
        (-1, 5, (np.inf, 5.0)),
        (10, -1, (10.0, np.inf)),
        (-1, -1, (np.inf, np.inf)),
        (0, -1, (np.inf, np.inf)),
        (-1, 0, (np.inf, np.inf)),
    ],
)
def test_limits_of_minus_one(tmp_path, effort, velocity, wanted):
    hinge = load(tmp_path, pair(limit=limit(effort, velocity))).joints[1]
    assert (hinge.effort[0], hinge.velocity[0]) == wanted


@pytest.mark.parametrize(
    "shape",
    ['<box size="1 0 1"/>', '<sphere radius="0"/>', '<mesh filename="a.stl" scale="0 1 1"/>',
     '<cylinder radius="0" length="0"/>'],
)  # fmt: skip
def test_shapes_of_size_zero_are_not_drawn(tmp_path, shape):
    loaded = load(tmp_path, arm(visual(shape)), strict=True)
    assert loaded.visual_model.ngeoms == 0
    assert any("not drawn" in finding.message for finding in loaded.report.ignored)


def test_colours_that_are_no_colours(tmp_path):
    drawn = '<visual><geometry><box size="1 1 1"/></geometry>{}</visual>'
    for rgba in ('rgba="red"', 'rgba="1 0 0"', ""):
        colour = f'<material name="m"><color {rgba}/></material>'
        loaded = load(tmp_path, arm(drawn.format(colour)), strict=True)
        assert loaded.visual_model.ngeoms == 1
        assert any("rgba" in finding.message for finding in loaded.report.ignored)


def test_spherical_joint_of_bullet(tmp_path):
    loaded = load(tmp_path, pair(kind="spherical", limit=""), base="fixed", strict=True)
    assert loaded.joints[0].kind is JointKind.SPHERICAL
    assert any("a type of Bullet's" in finding.message for finding in loaded.report.used)


def test_arrays_of_a_robot_are_read_only(tmp_path):
    loaded = load(tmp_path, pair())
    for array in (loaded.bodies[0].com, loaded.joints[1].axis, loaded.joints[1].frame_parent.p):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


# ---------------------------------------------------------------- limits and drives
@pytest.mark.parametrize(
    ("limit", "lower", "upper", "effort", "velocity"),
    [
        ('<limit lower="-1" upper="2" effort="3" velocity="4"/>', -1, 2, 3, 4),
        ('<limit lower="-1" upper="2" effort="0" velocity="0"/>', -1, 2, np.inf, np.inf),
        ('<limit lower="-1" upper="2" effort="3" velocity="0"/>', -1, 2, 3, np.inf),
        ('<limit lower="-1" upper="2" effort="0" velocity="4"/>', -1, 2, 0, 4),
        ('<limit effort="3" velocity="4"/>', -np.inf, np.inf, 3, 4),
        ("", -np.inf, np.inf, np.inf, np.inf),
    ],
)
def test_limits(tmp_path, limit, lower, upper, effort, velocity):
    hinge = load(tmp_path, pair(limit=limit)).joints[1]
    assert (hinge.lower[0], hinge.upper[0]) == (lower, upper)
    assert (hinge.effort[0], hinge.velocity[0]) == (effort, velocity)


def test_neutral_is_inside_the_limits(tmp_path):
    limit = '<limit lower="0.5" upper="2" effort="3" velocity="4"/>'
    loaded = load(tmp_path, pair(limit=limit), base="fixed")
    np.testing.assert_array_equal(loaded.neutral(), [0.5])


def test_every_movable_joint_is_actuated_where_nothing_is_declared(tmp_path):
    loaded = load(tmp_path, pair())
    assert loaded.actuated_joints == ("hinge",)
    np.testing.assert_array_equal(loaded.actuated_dofs, [6])


def three_bars(*extra):
    return robot(
        link("a"), link("b"), link("c"), joint("j1", "a", "b"), joint("j2", "b", "c"), *extra
    )


TRANSMISSION = (
    '<transmission name="t"><type>SimpleTransmission</type><joint name="j2"/>'
    '<actuator name="m"><mechanicalReduction>20</mechanicalReduction></actuator></transmission>'
)


def test_transmission_declares_its_joint(tmp_path):
    assert load(tmp_path, three_bars(TRANSMISSION)).actuated_joints == ("j2",)


def test_motor_with_all_its_values(tmp_path):
    motor = (
        '<motor joint="j1" torque_constant="0.25" resistance="0.3" voltage="48" '
        'current_limit="30" gear_ratio="7" rotor_inertia="1e-4"/>'
    )
    loaded = load(tmp_path, three_bars(extension(motor)))
    assert loaded.actuated_joints == ("j1",)
    [part] = loaded.motors
    assert loaded.joint_names[part.joint] == "j1"
    assert (part.torque_constant, part.resistance, part.voltage) == (0.25, 0.3, 48.0)
    assert (part.current_limit, part.gear_ratio, part.rotor_inertia) == (30.0, 7.0, 1e-4)
    assert loaded.joints[part.joint].armature[0] == pytest.approx(49e-4)
    assert loaded.model.armature[6] == pytest.approx(49e-4)


def test_motor_takes_the_gear_of_its_transmission(tmp_path):
    block = extension('<motor joint="j2" torque_constant="0.1"/>')
    [part] = load(tmp_path, three_bars(TRANSMISSION, block)).motors
    assert part.gear_ratio == 20.0
    assert np.isinf(part.current_limit) and np.isinf(part.voltage)


@pytest.mark.parametrize(
    "place",
    [
        '<joint name="j2"><mechanicalReduction>20</mechanicalReduction></joint>',
        '<joint name="j2"/><mechanicalReduction>20</mechanicalReduction>',
        '<joint name="j2"/><mechanicalReduction>-20</mechanicalReduction>',
    ],
    ids=["joint", "top level", "reversed"],
)
def test_reduction_in_other_places(tmp_path, place):
    transmission = f'<transmission name="t">{place}<actuator name="m"/></transmission>'
    block = extension('<motor joint="j2" torque_constant="0.1"/>')
    [part] = load(tmp_path, three_bars(transmission, block)).motors
    assert part.gear_ratio == 20.0


def test_mimic_is_a_constraint_and_not_actuated(tmp_path):
    text = robot(
        link("a"),
        link("b"),
        link("c"),
        joint("j1", "a", "b", body='<mimic joint="j2" multiplier="-2" offset="0.3"/>'),
        joint("j2", "b", "c"),
    )
    loaded = load(tmp_path, text, base="fixed")
    assert loaded.actuated_joints == ("j2",)
    q = loaded.neutral()
    assert q[0] == pytest.approx(-2.0 * q[1] + 0.3, abs=1e-12)
    assert loaded.mobility.degrees_of_freedom == 1


def test_spring_points_are_in_body_coordinates(tmp_path):
    off_centre = INERTIAL.replace("<inertial>", '<inertial><origin xyz="0.5 0 0"/>')
    block = extension(
        '<spring name="s" stiffness="10" rest_length="0.2" damping="1">'
        '<link1 link="base" xyz="0 0 1"/><link2 link="arm" xyz="1 0 0"/></spring>'
    )
    text = robot(link("base"), link("arm", off_centre), joint("hinge", "base", "arm"), block)
    [spring] = load(tmp_path, text).springs
    np.testing.assert_allclose(spring.p_1, [0.0, 0.0, 1.0])
    np.testing.assert_allclose(spring.p_2, [0.5, 0.0, 0.0])
    assert (spring.stiffness, spring.rest_length, spring.damping) == (10.0, 0.2, 1.0)


# ---------------------------------------------------------------- loop dialects
IN_BLOCK = (
    '<vi_contact><loop_joint name="loop" type="spherical"><link1 link="b" xyz="1 0 0"/>'
    '<link2 link="c" xyz="0 0 1"/></loop_joint></vi_contact>'
)
TOP_LEVEL = IN_BLOCK.replace("<vi_contact>", "").replace("</vi_contact>", "")
DRAKE = (
    '<drake:ball_constraint><drake:ball_constraint_body_A name="b"/>'
    '<drake:ball_constraint_body_B name="c"/><drake:ball_constraint_p_AP value="1 0 0"/>'
    '<drake:ball_constraint_p_BQ value="0 0 1"/></drake:ball_constraint>'
)


def open_square(loop, name='name="test"'):
    wide = '<limit lower="-3" upper="3" effort="10" velocity="5"/>'
    text = robot(
        link("world", ""),
        link("a"),
        link("b"),
        link("c"),
        joint("j_a", "world", "a", limit=wide),
        joint("j_b", "a", "b", limit=wide, origin="0 0 1"),
        joint("j_c", "world", "c", limit=wide, origin="1 0 0"),
        loop,
    )
    return text.replace('name="test"', name)


@pytest.mark.parametrize(
    "text",
    [
        open_square(IN_BLOCK),
        open_square(TOP_LEVEL),
        open_square(DRAKE),
        open_square(DRAKE, 'name="test" xmlns:drake="http://drake.mit.edu"'),
    ],
    ids=["block", "top level", "drake", "drake with namespace"],
)
def test_loop_dialects(tmp_path, text):
    loaded = load(tmp_path, text)
    [loop] = loaded.loops
    assert loop.kind is JointKind.SPHERICAL
    assert loop.links == ("b", "c")
    np.testing.assert_allclose(loop.frame_parent.p, [1.0, 0.0, 0.0])
    np.testing.assert_allclose(loop.frame_child.p, [0.0, 0.0, 1.0])
    assert not loaded.report.ignored


def test_loop_frames_and_axes(tmp_path):
    block = extension(
        '<loop_joint name="loop" type="universal">'
        '<link1 link="b" xyz="1 0 0" rpy="0 0 1.5707963267948966"/>'
        '<link2 link="c" xyz="0 0 1"/><axis xyz="0 0 2"/><axis2 xyz="0 3 0"/></loop_joint>'
    )
    [loop] = load(tmp_path, open_square(block)).loops
    np.testing.assert_allclose(loop.axis, [0.0, 0.0, 1.0])
    np.testing.assert_allclose(loop.axis2, [0.0, 1.0, 0.0])
    np.testing.assert_allclose(loop.frame_parent.quat_xyzw, [0, 0, np.sqrt(0.5), np.sqrt(0.5)])


# ---------------------------------------------------------------- pinocchio models
def test_from_pinocchio_equals_loading_the_file():
    file = example("panda.urdf")
    model = pin.buildModelFromUrdf(str(file))
    built, loaded = vc.from_pinocchio(model), vc.load_robot(file, base="fixed")
    assert built.joint_names == loaded.joint_names
    for one, other in zip(built.bodies, loaded.bodies, strict=True):
        assert one.mass == other.mass
        np.testing.assert_array_equal(one.inertia, other.inertia)
    assert built.nu == 9
    assert built.contacts == ()
    assert "Robot 'panda'" in str(built.report)


def test_from_pinocchio_takes_rotors_as_armature():
    model = pin.buildSampleModelManipulator()
    model.rotorInertia[:2], model.rotorGearRatio[:] = 1e-4, 100.0
    model.armature[1] = 0.5
    built = vc.from_pinocchio(model)
    assert [joint.armature[0] for joint in built.joints[:3]] == [1.0, 0.5, 0.0]
    assert sum("armature" in finding.message for finding in built.report.used) == 1


def test_from_pinocchio_reports_limits_that_do_not_act():
    model = pin.buildSampleModelHumanoid()  # on a free base, without limits there
    assert not any(
        "limits" in finding.message for finding in vc.from_pinocchio(model).report.ignored
    )
    model.upperPositionLimit[2] = 3.0
    (finding,) = (f for f in vc.from_pinocchio(model).report.ignored if "limits" in f.message)
    assert finding.element == f"joint '{model.names[1]}'"


def test_from_pinocchio_copies_the_model():
    model = pin.buildSampleModelManipulator()
    built = vc.from_pinocchio(model)
    model.inertias[1] = pin.Inertia.Zero()
    assert built.bodies[0].mass > 0.0


def test_from_pinocchio_takes_contacts_from_collision_shapes():
    model = pin.buildSampleModelManipulator()
    shapes = pin.buildSampleGeometryModelManipulator(model)
    assert len(vc.from_pinocchio(model, collision_model=shapes).contacts) > 0


def test_parts_can_be_replaced():
    hopper = vc.load_robot("fly_hopper")
    bare = hopper.with_parts(springs=(), motors=())
    assert (bare.springs, bare.motors) == ((), ())
    assert bare.loops == hopper.loops
    assert bare.contact_names == hopper.contact_names
    assert (bare.file, bare.path) == (hopper.file, hopper.path)
    assert len(hopper.springs) == 1
