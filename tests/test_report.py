"""The import report says what became of everything."""

import pytest
from support import EXAMPLE_FILES, example
from urdf_text import INERTIAL, extension, joint, link, pair, robot, write

import vi_contact as vc
from vi_contact.robot.tags import tag_findings
from vi_contact.robot.xml import local_name, parse


def load(tmp_path, text, **options):
    return vc.load_robot(write(tmp_path, text), **options)


def test_tables_of_the_hopper():
    text = str(vc.load_robot("fly_hopper").report)
    for title in ("Bodies", "Joints", "Loops", "Motors", "Springs", "Contacts", "Description"):
        assert f"\n{title}" in text
    for part in ("link_3", "joint_2", "spherical", "no-load speed", "1500", "foot", "0.025"):
        assert part in text


def test_hoppers_inertias_look_too_small():
    """A uniform rod of link 1's length has about 87 mm; the CAD says 46."""
    checks = {
        finding.element: finding.message for finding in vc.load_robot("fly_hopper").report.checks
    }
    assert "radius of gyration 45.7 mm: small" in checks["link 'link_1'/inertial"]


def test_heavy_inertia_is_noticed(tmp_path):
    big = INERTIAL + '<visual><geometry><box size="0.1 0.1 0.1"/></geometry></visual>'
    loaded = load(tmp_path, robot(link("base"), link("arm", big), joint("hinge", "base", "arm")))
    assert any("more than mass inside" in finding.message for finding in loaded.report.checks)


@pytest.mark.parametrize(
    ("inertia", "message"),
    [
        ('ixx="1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"', "triangle inequality"),
        ('ixx="0" iyy="0" izz="0" ixy="0" ixz="0" iyz="0"', "point mass"),
    ],
)
def test_inertia_checks(tmp_path, inertia, message):
    body = f'<inertial><origin xyz="1 0 0"/><mass value="1"/><inertia {inertia}/></inertial>'
    loaded = load(tmp_path, robot(link("base"), link("arm", body), joint("hinge", "base", "arm")))
    [finding] = [f for f in loaded.report.checks if message in f.message]
    assert finding.element.startswith("link 'arm'/inertial")
    assert finding.place == "robot.urdf:3"


def test_zero_mass_is_noticed(tmp_path):
    body = INERTIAL.replace('mass value="1"', 'mass value="0"')
    loaded = load(tmp_path, robot(link("base"), link("arm", body), joint("hinge", "base", "arm")))
    assert any("zero mass" in finding.message for finding in loaded.report.checks)


def test_unset_limits_are_noticed(tmp_path):
    loaded = load(tmp_path, pair(limit='<limit effort="0" velocity="0"/>'))
    messages = " ".join(finding.message for finding in loaded.report.checks)
    assert "taken as unlimited" in messages
    assert "taken as not given" in messages


@pytest.mark.parametrize(
    ("part", "element", "physics"),
    [
        ('<gazebo reference="arm"><kp>1</kp></gazebo>', "gazebo/kp", True),
        ('<gazebo reference="arm"><mu1>1</mu1><mu2>2</mu2></gazebo>', "gazebo/mu2", True),
        ("<gazebo><plugin/></gazebo>", "gazebo", False),
        ("<ros2_control/>", "ros2_control", False),
        ("<frobnicate/>", "frobnicate", True),
        (
            link("hand", "<gravity/>") + joint("j", "arm", "hand", "fixed", limit=""),
            "link/gravity",
            True,
        ),
    ],
)
def test_ignored_tags(tmp_path, part, element, physics):
    loaded = load(tmp_path, pair(part))
    [finding] = [f for f in loaded.report.ignored if f.element == element]
    assert finding.physics is physics
    assert finding.line


def test_switches_that_say_what_happens_anyway_are_not_ignored(tmp_path):
    block = '<gazebo reference="arm"><turnGravityOff>false</turnGravityOff></gazebo>'
    assert not load(tmp_path, pair(block)).report.ignored


def test_every_tag_of_every_example_is_accounted_for():
    """A tag is listed, or stands below one that is."""
    for file in EXAMPLE_FILES:
        document = parse(file)
        listed = {finding.element for finding in tag_findings(document)}
        for element in document.root.iter():
            path = []
            while element is not document.root:
                path.append(local_name(element))
                element = element.getparent()
            parts = list(reversed(path))
            below = ["/".join(parts[: i + 1]) for i in range(len(parts))]
            # a block of gazebo is listed by its children when all of them are known
            assert not parts or listed & set(below) or parts == ["gazebo"], "/".join(parts)


def test_report_of_a_real_robot_counts_its_tags():
    report = vc.load_robot(example("go2.urdf")).report
    used = {finding.element: finding.count for finding in report.used}
    root = parse(example("go2.urdf")).root
    assert used["joint"] == len(root.findall("joint"))
    assert used["link/inertial"] == len(root.findall("link/inertial"))


def test_robot_that_cannot_move(tmp_path):
    loaded = load(tmp_path, robot(link("rock")), base="fixed")
    assert (loaded.nq, loaded.nv, len(loaded.bodies)) == (0, 0, 0)
    assert "0 bodies" in str(loaded.report)


def test_repr_is_one_line():
    text = repr(vc.load_robot("fly_hopper"))
    assert text.startswith("Robot('fly_hopper', 5 bodies")
    assert "\n" not in text


def test_block_without_anything(tmp_path):
    assert load(tmp_path, pair(extension(""))).report.used
