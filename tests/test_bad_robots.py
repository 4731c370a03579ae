"""Each kind of bad input has its own error, which says where and what to do."""

import pickle

import pytest
from urdf_text import INERTIAL, extension, joint, link, loop_square, pair, robot, write

import vi_contact as vc
from vi_contact import errors

LOOP = (
    '<loop_joint name="loop" type="spherical"><link1 link="base"/><link2 link="arm"/></loop_joint>'
)


def inertial(mass="1", **moments):
    values = {"ixx": "0.1", "ixy": "0", "ixz": "0", "iyy": "0.1", "iyz": "0", "izz": "0.1"}
    values |= moments
    inertia = " ".join(f'{key}="{value}"' for key, value in values.items())
    return f'<inertial><mass value="{mass}"/><inertia {inertia}/></inertial>'


def heavy_arm(body):
    return robot(link("base"), link("arm", body), joint("hinge", "base", "arm"))


def mimic(source):
    return f'<mimic joint="{source}"/>'


CASES = {
    "not XML": ("<robot name='a'><link", errors.NotXmlError, "not well-formed"),
    "another top element": ("<mujoco/>", errors.NotXmlError, "MuJoCo MJCF"),
    "xacro": (
        '<robot name="a" xmlns:xacro="http://ros.org/wiki/xacro"><xacro:macro/></robot>',
        errors.NotXmlError,
        "xacro",
    ),
    "xacro without links": (
        '<robot name="a" xmlns:xacro="http://ros.org/wiki/xacro"><xacro:pelvis/></robot>',
        errors.NotXmlError,
        "xacro",
    ),
    "xacro in a number": (
        pair(origin="$(optenv IMU 0 0 0)"),
        errors.ValueFormatError,
        "run `xacro FILE",
    ),
    "version 0.0 and a tag left open": (
        '<?xml version="0.0"?>\n<robot name="a"><link>',
        errors.NotXmlError,
        "2: not well-formed XML: Premature end",
    ),
    "a second robot in the file": (pair() + pair(), errors.NotXmlError, "Extra content"),
    "deformable": ('<robot name="a"><deformable/></robot>', errors.TreeError, "bodies .* rigid"),
    "huge mesh": (
        heavy_arm('<visual><geometry><mesh filename="a" scale="1 1e39 1"/></geometry></visual>'),
        errors.ValueFormatError,
        "above 1e\\+15: check its units",
    ),
    "huge distance": (pair(origin="1e300 0 0"), errors.ValueFormatError, "above 1e\\+15"),
    "huge motor": (
        pair(extension('<motor joint="hinge" torque_constant="1e300"/>')),
        errors.ValueFormatError,
        "above 1e\\+15",
    ),
    "huge gear": (
        pair(extension('<motor joint="hinge" torque_constant="1" gear_ratio="1e300"/>')),
        errors.ValueFormatError,
        "above 1e\\+15",
    ),
    "huge reduction": (
        pair('<transmission name="t"><joint name="hinge"/>'
             "<mechanicalReduction>1e300</mechanicalReduction></transmission>"),
        errors.ValueFormatError,
        "above 1e\\+15",
    ),
    "huge rest length": (
        pair(extension('<spring name="s" stiffness="1" rest_length="1e300"><link1 link="base"/>'
                       '<link2 link="arm"/></spring>')),
        errors.ValueFormatError,
        "above 1e\\+15",
    ),
    "negative size": (
        heavy_arm('<collision><geometry><sphere radius="-1"/></geometry></collision>'),
        errors.ValueFormatError,
        "must not be negative",
    ),
    "no robot name": (
        pair().replace(' name="test"', ""),
        errors.RobotNameError,
        "<robot> has no name",
    ),
    "no link": (robot(), errors.TreeError, "no <link>"),
    "two roots": (
        robot(link("a"), link("b")),
        errors.TreeError,
        "2 links have no parent joint: a, b",
    ),
    "two parents": (
        robot(
            link("a"), link("b"), link("c"),
            joint("j1", "a", "c"), joint("j2", "b", "c"), joint("j3", "a", "b"),
        ),
        errors.TreeError,
        "'c' is the child of two joints",
    ),
    "circle of joints": (
        robot(link("a"), link("b"), link("c"), joint("j1", "b", "c"), joint("j2", "c", "b")),
        errors.TreeError,
        "circle",
    ),
    "duplicate link": (pair(link("arm")), errors.DuplicateNameError, "2 <link>.*'arm'"),
    "duplicate joint": (
        pair(link("hand"), joint("hinge", "arm", "hand")),
        errors.DuplicateNameError,
        "2 <joint>.*'hinge'",
    ),
    "duplicate loop": (pair(extension(LOOP + LOOP)), errors.DuplicateNameError, "'loop'"),
    "unknown joint type": (
        pair(kind="revolut"),
        errors.JointTypeError,
        "unknown type 'revolut'; did you mean 'revolute'",
    ),
    "ball joint type": (pair(kind="ball"), errors.JointTypeError, 'type="floating"'),
    "joint to an unknown link": (
        robot(link("base"), link("arm"), joint("hinge", "base", "amr")),
        errors.UnknownLinkError,
        "did you mean 'arm'",
    ),
    "negative mass": (heavy_arm(inertial("-1")), errors.InertiaError, "mass -1.0 kg"),
    "infinite mass": (heavy_arm(inertial("inf")), errors.InertiaError, "finite"),
    "mass is not a number": (heavy_arm(inertial("heavy")), errors.InertiaError, "finite"),
    "negative inertia": (
        heavy_arm(inertial(iyy="-0.1")),
        errors.InertiaError,
        "negative moment of inertia",
    ),
    "infinite inertia": (heavy_arm(inertial(izz="nan")), errors.InertiaError, "finite"),
    "inertia missing": (
        heavy_arm('<inertial><mass value="1"/></inertial>'),
        errors.InertiaError,
        "needs a <inertia>",
    ),
    "zero axis": (pair(axis="0 0 0"), errors.AxisError, "zero <axis>"),
    "axis of two numbers": (pair(axis="0 1"), errors.ValueFormatError, "3 finite numbers"),
    "tilted plane": (pair(kind="planar", axis="1 0 0"), errors.AxisError, "x-y"),
    "lower above upper": (
        pair(limit='<limit lower="1" upper="-1" effort="1" velocity="1"/>'),
        errors.LimitError,
        "lower limit 1.0 is above upper -1.0",
    ),
    "negative effort": (
        pair(limit='<limit lower="-1" upper="1" effort="-2" velocity="1"/>'),
        errors.LimitError,
        "negative limit, effort -2",
    ),
    "negative damping": (
        pair(body='<dynamics damping="-1"/>'),
        errors.LimitError,
        "negative damping",
    ),
    "mimic of an unknown joint": (
        pair(body=mimic("hing")),
        errors.MimicError,
        "unknown joint 'hing'",
    ),
    "mimic of itself": (pair(body=mimic("hinge")), errors.MimicError, "circle"),
    "mimic in a circle": (
        robot(
            link("a"), link("b"), link("c"),
            joint("j1", "a", "b", body=mimic("j2")), joint("j2", "b", "c", body=mimic("j1")),
        ),
        errors.MimicError,
        "circle: j1 -> j2 -> j1",
    ),
    "loop joint with an unknown link": (
        pair(extension(LOOP.replace('"arm"', '"am"'))),
        errors.UnknownLinkError,
        "<loop_joint> 'loop' names the link 'am'; did you mean 'arm'",
    ),
    "loop joint of unknown type": (
        pair(extension(LOOP.replace("spherical", "ball"))),
        errors.JointTypeError,
        "type 'ball'",
    ),
    "loop joint with a zero axis": (
        pair(extension(LOOP.replace("</loop_joint>", '<axis xyz="0 0 0"/></loop_joint>'))),
        errors.ExtensionError,
        "zero <axis>",
    ),
    "loop joint with one end": (
        pair(extension(LOOP.replace('<link2 link="arm"/>', ""))),
        errors.ExtensionError,
        "needs a <link2>",
    ),
    "loop that cannot be closed": (
        loop_square("spherical").replace('xyz="1 0 0"/><link2', 'xyz="9 0 0"/><link2'),
        errors.LoopClosureError,
        "'loop' stays open",
    ),
    "revolute loop joint without an axis": (
        loop_square("revolute")
        .replace('<link2 link="c" xyz="0 0 1"/>', '<link2 link="c" xyz="0 0 2"/>')
        .replace('<axis xyz="0 1 0"/></loop_joint>', "</loop_joint>"),
        errors.LoopClosureError,
        "'loop' is revolute and has no <axis>, which makes it x",
    ),
    "motor without a torque constant": (
        pair(extension('<motor joint="hinge" voltage="48"/>')),
        errors.MotorError,
        "needs its torque_constant",
    ),
    "motor on a fixed joint": (
        pair(extension('<motor joint="hinge" torque_constant="1"/>'), kind="fixed", limit=""),
        errors.MotorError,
        "cannot turn the fixed joint 'hinge'",
    ),
    "motor on an unknown joint": (
        pair(extension('<motor joint="hing" torque_constant="1"/>')),
        errors.MotorError,
        "did you mean 'hinge'",
    ),
    "motor of impossible resistance": (
        pair(extension('<motor joint="hinge" torque_constant="1" voltage="1" resistance="0"/>')),
        errors.MotorError,
        "must be positive",
    ),
    "motor with voltage but no resistance": (
        pair(extension('<motor joint="hinge" torque_constant="1" voltage="1"/>')),
        errors.MotorError,
        "together",
    ),
    "two motors on a joint": (
        pair(extension('<motor joint="hinge" torque_constant="1"/>' * 2)),
        errors.DuplicateNameError,
        "two motors",
    ),
    "unknown extension tag": (
        pair(extension("<sprin/>")),
        errors.ExtensionError,
        "unknown tag <sprin>; did you mean 'spring'",
    ),
    "unknown extension attribute": (
        pair(extension('<contact name="foot" link="arm" frction="0.5"/>')),
        errors.ExtensionError,
        "unknown attribute 'frction' of <contact>; did you mean 'friction'",
    ),
    "unknown tag in a loop joint": (
        pair(extension(LOOP.replace("link2", "link3"))),
        errors.ExtensionError,
        "did you mean 'link",
    ),
    "contact on an unknown link": (
        pair(extension('<contact name="foot" link="leg"/>')),
        errors.UnknownLinkError,
        "'foot' names the link 'leg'",
    ),
    "contact with negative radius": (
        pair(extension('<contact name="foot" link="arm" radius="-1"/>')),
        errors.ExtensionError,
        "zero or more",
    ),
    "spring without stiffness": (
        pair(extension('<spring name="s" rest_length="1"><link1 link="base"/>'
                       '<link2 link="arm"/></spring>')),
        errors.ValueFormatError,
        "needs the attribute 'stiffness'",
    ),
    "spherical on a hinge": (
        pair(extension('<spherical joint="hinge"/>')),
        errors.ExtensionError,
        'type="floating"',
    ),
    "base of unknown type": (
        pair(extension('<base type="fly"/>')),
        errors.ExtensionError,
        "neither 'free' nor 'fixed'",
    ),
    "incomplete ball constraint": (
        pair('<drake:ball_constraint><drake:ball_constraint_body_A name="base"/>'
             '</drake:ball_constraint>'),
        errors.ExtensionError,
        "ball_constraint_body_B",
    ),
    "underscore in a number": (heavy_arm(inertial("1_0")), errors.InertiaError, "1_0"),
    "digits of another script": (
        pair(body='<dynamics damping="\u0663"/>'),
        errors.ValueFormatError,
        "finite number",
    ),
    "absurd mass": (heavy_arm(inertial("1e200")), errors.InertiaError, "above 1e\\+15"),
    "absurd inertia": (heavy_arm(inertial(ixy="1e20")), errors.InertiaError, "check its units"),
    "zero axis of a planar joint": (pair(kind="planar", axis="0 0 0"), errors.AxisError, "zero"),
    "infinite limit": (
        pair(limit='<limit lower="-inf" upper="inf" effort="1" velocity="1"/>'),
        errors.ValueFormatError,
        "leave lower and upper out",
    ),
    "lower limit alone": (
        pair(limit='<limit lower="1" effort="1" velocity="1"/>'),
        errors.LimitError,
        "upper is missing",
    ),
    "empty link name": (pair(link("")), errors.ValueFormatError, "<link name=''> is empty"),
    "empty joint name": (pair().replace('"hinge"', '""'), errors.ValueFormatError, "is empty"),
    "default namespace": (
        pair().replace("<robot ", '<robot xmlns="http://a" '),
        errors.NotXmlError,
        'remove its default namespace, xmlns="http://a"',
    ),
    "entity": (
        '<!DOCTYPE robot [<!ENTITY m "1">]>' + pair().replace('mass value="1"', 'mass value="&m;"'),
        errors.NotXmlError,
        "entity &m;",
    ),
    "attribute of the block": (
        pair('<vi_contact base="free"/>'),
        errors.ExtensionError,
        "unknown attribute 'base' of <vi_contact>",
    ),
    "contradicting bases": (
        pair(extension('<base type="free"/><base type="fixed"/>')),
        errors.ExtensionError,
        "contradicts",
    ),
    "friction that is no number": (
        pair('<gazebo reference="arm"><mu1>much</mu1></gazebo>'),
        errors.ValueFormatError,
        "'much' should be a finite number",
    ),
    "negative friction": (
        pair('<gazebo reference="arm"><mu1>-1</mu1></gazebo>'),
        errors.ValueFormatError,
        "0 or more",
    ),
    "negative friction of Bullet": (
        heavy_arm(INERTIAL + '<contact><lateral_friction value="-1"/></contact>'),
        errors.ValueFormatError,
        "0 or more",
    ),
    "reduction of zero": (
        pair('<transmission name="t"><joint name="hinge"/>'
             "<mechanicalReduction>0</mechanicalReduction></transmission>"),
        errors.ValueFormatError,
        "mechanicalReduction of 0",
    ),
    "text where a number belongs": (
        pair(body='<dynamics damping="much"/>'),
        errors.ValueFormatError,
        "finite number",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_file(tmp_path, case):
    text, kind, message = CASES[case]
    file = write(tmp_path, text)
    with pytest.raises(kind, match=message) as caught:
        vc.load_robot(file)
    assert isinstance(caught.value, vc.ViContactError)
    assert str(file) in str(caught.value)


def test_the_line_is_named(tmp_path):
    text = robot(link("base"), link("arm"), joint("hinge", "base", "arm", axis="0 0 0"))
    with pytest.raises(errors.AxisError) as caught:
        vc.load_robot(write(tmp_path, text))
    assert caught.value.line == 4
    assert "robot.urdf:4:" in str(caught.value)


def test_open_loop_names_its_line(tmp_path):
    text = loop_square("spherical").replace('xyz="1 0 0"/><link2', 'xyz="9 0 0"/><link2')
    with pytest.raises(errors.LoopClosureError, match=r"robot\.urdf:9: .*'loop'"):
        vc.load_robot(write(tmp_path, text))


@pytest.mark.parametrize("path", [None, 3, b"walker"])
def test_path_of_the_wrong_kind(path):
    with pytest.raises(errors.ArgumentError, match="path is .* it can be a .urdf file"):
        vc.load_robot(path)


@pytest.mark.parametrize("path", ["a" * 5000, "a\0b"])
def test_path_that_cannot_be_a_file(path):
    with pytest.raises(errors.RobotFileNotFoundError):
        vc.load_robot(path)


def test_package_dirs_of_the_wrong_kind():
    with pytest.raises(errors.ArgumentError, match="package_dirs"):
        vc.load_robot("walker", package_dirs=None)


def chain(count, kind="revolute"):
    links = [link(f"l{i}") for i in range(count)]
    return robot(*links, *(joint(f"j{i}", f"l{i}", f"l{i + 1}", kind) for i in range(count - 1)))


def test_robot_without_memory_for_its_work_space(tmp_path, monkeypatch):
    """pinocchio's Data takes 64 nv^3 bytes; the computer is said to have 10 MB."""
    monkeypatch.setattr("os.sysconf", lambda name: 10_000_000 if name == "SC_PAGE_SIZE" else 1)
    vc.load_robot(write(tmp_path, chain(40)))
    with pytest.raises(errors.RobotSizeError, match="65 degrees of freedom: pinocchio's work"):
        vc.load_robot(write(tmp_path, chain(60)))


def test_chain_of_320_links_loads_without_a_work_space(tmp_path):
    loaded = vc.load_robot(write(tmp_path, chain(320)))
    assert loaded.nv == 325
    assert "data" not in vars(loaded)  # 2 GB, made when first needed


def test_chain_too_long_for_the_parser(tmp_path):
    with pytest.raises(errors.RobotSizeError, match="chain of 2999 joints"):
        vc.load_robot(write(tmp_path, chain(3000, "fixed")))


def test_file_not_found_lists_the_bundled_robots():
    with pytest.raises(errors.RobotFileNotFoundError, match="did you mean 'fly_hopper'"):
        vc.load_robot("fly_hoper")


def test_folder_is_not_a_file(tmp_path):
    with pytest.raises(errors.RobotFileNotFoundError, match="folder"):
        vc.load_robot(tmp_path)


@pytest.mark.parametrize("option", [{"base": "floating"}, {"contacts": "all"}])
def test_unknown_option(option):
    with pytest.raises(vc.ViContactError, match="it can be"):
        vc.load_robot("walker", **option)


# ---------------------------------------------------------------- strict
def test_missing_inertial_on_a_movable_leaf(tmp_path):
    file = write(tmp_path, robot(link("base"), link("arm", ""), joint("hinge", "base", "arm")))
    loaded = vc.load_robot(file)
    assert loaded.mass == 1.0
    assert any("without inertia" in finding.message for finding in loaded.report.approximated)
    with pytest.raises(errors.StrictImportError, match="hinge.*without inertia"):
        vc.load_robot(file, strict=True)


MESH = '<{role}><geometry><mesh filename="package://nowhere/foot.stl"/></geometry></{role}>'


def test_missing_collision_mesh_costs_contacts_only(tmp_path):
    shape = MESH.format(role="collision")
    file = write(
        tmp_path, robot(link("base", INERTIAL + shape), link("arm"), joint("h", "base", "arm"))
    )
    loaded = vc.load_robot(file)
    assert loaded.contacts == ()
    [finding] = [f for f in loaded.report.ignored if "mesh not found" in f.message]
    assert "package://nowhere/foot.stl" in finding.message
    assert finding.element == "link 'base'/collision"
    with pytest.raises(errors.StrictImportError, match="mesh not found"):
        vc.load_robot(file, strict=True)


def test_missing_meshes_are_one_warning_that_says_what_to_try(tmp_path, caplog):
    both = MESH.format(role="visual") + MESH.format(role="collision")
    ball = '<collision><geometry><sphere radius="0.1"/></geometry></collision>'
    text = robot(
        link("base", INERTIAL + both), link("arm", INERTIAL + both + ball), link("hand"),
        joint("h", "base", "arm"), joint("g", "arm", "hand"),
    )  # fmt: skip
    loaded = vc.load_robot(write(tmp_path, text))
    [record] = caplog.records
    assert (record.name, record.levelname) == ("vi_contact", "WARNING")
    message = record.getMessage()
    for words in (
        "'test'", "4 meshes were not found", "package://nowhere/foot.stl", "package_dirs",
        "--package-dir", "base has no contact shape and passes through the ground",
    ):  # fmt: skip
        assert words in message
    assert "arm" not in message  # it has the ball
    assert len(loaded.missing_meshes) == 4
    assert pickle.loads(pickle.dumps(loaded)).missing_meshes == loaded.missing_meshes
    assert loaded.with_parts(springs=()).missing_meshes == loaded.missing_meshes
    _ = loaded.contacts, loaded.report, loaded.visual_model
    assert len(caplog.records) == 1
    caplog.clear()
    vc.load_robot(write(tmp_path, text), contacts="none")
    assert "through the ground" not in caplog.text
    declared = extension('<contact name="foot" link="base" xyz="0 0 0" radius="0.1"/>')
    vc.load_robot(write(tmp_path, text.replace("</robot>", f"{declared}</robot>")))
    assert "through the ground" not in caplog.text
    assert len(caplog.records) == 2


@pytest.mark.parametrize("address", ["m" * 5000, f"package://{'p' * 300}/a.stl", "package://"])
def test_meshes_whose_names_no_file_can_have(tmp_path, address):
    shape = f'<collision><geometry><mesh filename="{address}"/></geometry></collision>'
    loaded = vc.load_robot(
        write(tmp_path, robot(link("base", INERTIAL + shape))), package_dirs="d" * 300
    )
    assert [mesh.address for mesh in loaded.missing_meshes] == [address]
    [finding] = [f for f in loaded.report.ignored if "mesh not found" in f.message]
    assert len(finding.message) < 300


def test_meshes_that_cannot_be_read_are_one_warning(tmp_path, caplog):
    (tmp_path / "broken.stl").write_text("no mesh")
    shape = '<visual><geometry><mesh filename="broken.stl"/></geometry></visual>'
    loaded = vc.load_robot(write(tmp_path, robot(link("base", INERTIAL + shape))), base="free")
    assert not caplog.records
    for _ in range(2):
        assert loaded.visual_model.ngeoms == 0
    [record] = caplog.records
    assert "1 mesh was not found or could not be read" in record.getMessage()
    assert [mesh.link for mesh in loaded.missing_meshes] == ["base"]


def test_strict_lists_every_finding(tmp_path):
    text = robot(
        link("base", INERTIAL + MESH.format(role="collision")),
        link("arm", ""),
        joint("hinge", "base", "arm"),
        '<gazebo reference="arm"><kp>1e6</kp></gazebo>',
        "<mystery/>",
    )
    with pytest.raises(errors.StrictImportError) as caught:
        vc.load_robot(write(tmp_path, text), strict=True)
    assert len(caught.value.findings) == 4
    for part in ("mesh not found", "without inertia", "gazebo/kp", "mystery"):
        assert any(part in finding for finding in caught.value.findings)


@pytest.mark.parametrize("name", vc.bundled_robots())
def test_bundled_robots_pass_strict(name):
    vc.load_robot(name, strict=True)


# ---------------------------------------------------------------- pinocchio models
def test_unsupported_pinocchio_joint():
    import pinocchio as pin

    model = pin.Model()
    model.addJoint(0, pin.JointModelTranslation(), pin.SE3.Identity(), "move")
    model.appendBodyToJoint(1, pin.Inertia.Random(), pin.SE3.Identity())
    with pytest.raises(errors.UnsupportedJointError, match="JointModelTranslation.*has"):
        vc.from_pinocchio(model)


def hinge_model():
    import pinocchio as pin

    model = pin.Model()
    model.addJoint(0, pin.JointModelRX(), pin.SE3.Identity(), "hinge")
    model.appendBodyToJoint(1, pin.Inertia.Random(), pin.SE3.Identity())
    return model


def test_bad_pinocchio_models():
    with pytest.raises(errors.ArgumentError, match="pinocchio.Model"):
        vc.from_pinocchio("walker")
    with pytest.raises(errors.ArgumentError, match="collision_model"):
        vc.from_pinocchio(hinge_model(), collision_model=3)
    model = hinge_model()
    model.inertias[1].mass = -2.0
    with pytest.raises(errors.ModelError, match="'hinge' carries -2 kg"):
        vc.from_pinocchio(model)
    model.inertias[1].mass = float("nan")
    with pytest.raises(errors.ModelError, match="not finite"):
        vc.from_pinocchio(model)
    model = hinge_model()
    model.lowerPositionLimit[:], model.upperPositionLimit[:] = 2.0, 1.0
    with pytest.raises(errors.ModelError, match="'hinge': lower limit"):
        vc.from_pinocchio(model)


def test_a_loop_that_closes_beyond_the_limits_only(tmp_path, caplog):
    narrow = '<limit lower="0.5" upper="0.6" effort="10" velocity="5"/>'
    wide = '<limit lower="-3" upper="3" effort="10" velocity="5"/>'
    text = loop_square("spherical").replace(wide, narrow)  # a parallelogram turns j_b back by j_a
    loaded = vc.load_robot(write(tmp_path, text))
    assert "no closed configuration within the limits" in caplog.text
    with pytest.raises(errors.JointLimitError, match="widen the limits of '(j_a|j_b|j_c)'") as told:
        vc.Simulator(loaded)
    assert "as robot.neutral() does" not in str(told.value)
    vc.Simulator(loaded, joint_limits=False)  # the advice works


def test_a_loop_joint_without_an_axis_is_reported(tmp_path):
    text = loop_square("revolute")
    assert "no <axis>" not in str(vc.load_robot(write(tmp_path, text)).report)
    text = text.replace('<axis xyz="0 1 0"/></loop_joint>', "</loop_joint>")
    loaded = vc.load_robot(write(tmp_path, text))  # closed as it stands, but stiff
    assert "no <axis>: x of its frames is taken" in str(loaded.report)
    loaded = vc.load_robot(write(tmp_path, text.replace('revolute"><link1', 'spherical"><link1')))
    assert "no <axis>" not in str(loaded.report)
