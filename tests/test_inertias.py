"""Every motion has inertia: massless links are kept only where the mass matrix allows it."""

import numpy as np
import pinocchio as pin
import pytest
from support import example
from urdf_text import INERTIAL, extension, joint, link, robot, write

import vi_contact as vc

POINT = '<inertial><mass value="1"/><inertia ixx="0" iyy="0" izz="0"/></inertial>'

FAR_POINT = POINT.replace("<mass", '<origin xyz="1 0 0"/><mass')


def load(tmp_path, text):
    return vc.load_robot(write(tmp_path, text), base="fixed")


def mass_matrix(robot_):
    """Columns of inverse dynamics; pinocchio's crba wants joints in depth-first order."""
    rng = np.random.default_rng(1)
    q = pin.integrate(robot_.model, robot_.neutral(), 0.3 * rng.normal(size=robot_.nv))
    zero, unit = np.zeros(robot_.nv), np.eye(robot_.nv)
    model, data = robot_.model.copy(), robot_.model.createData()
    model.gravity = pin.Motion.Zero()
    return np.array([pin.rnea(model, data, q, zero, a) for a in unit])


def chain(kind, axes, middle="", last=INERTIAL):
    names = ["base", *(f"m{k}" for k in range(len(axes) - 1)), "tip"]
    links = [link(names[0]), *(link(name, middle) for name in names[1:-1]), link("tip", last)]
    joints = [
        joint(f"j{k}", names[k], names[k + 1], kind, axis=axis) for k, axis in enumerate(axes)
    ]
    return robot(*links, *joints)


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        (chain("revolute", ["0 1 0"] * 3), 2),  # coincident hinges: only their sum moves mass
        (chain("prismatic", ["1 0 0", "0 1 0", "0 0 1", "1 1 1"]), 3),  # four slides in space
        (chain("prismatic", ["1 0 0", "0 1 0", "0 0 1"]), 0),
        (chain("revolute", ["1 0 0", "0 1 0", "0 0 1"]), 0),
        (chain("revolute", ["1 0 0", "0 1 0"], last=POINT), 2),  # a point where the axes cross
        (chain("revolute", ["0 1 0"] * 3, last=FAR_POINT), 2),
    ],
    ids=["coincident hinges", "four slides", "three slides", "hinges", "point", "far point"],
)  # fmt: skip
def test_singular_mass_matrix_is_completed(tmp_path, text, completed):
    loaded = load(tmp_path, text)
    assert len(loaded.report.approximated) == completed
    assert len(loaded.report.strict_findings) == completed
    M = mass_matrix(loaded)
    scale = 1.0 / np.sqrt(np.diag(M))
    assert np.linalg.eigvalsh(M * np.outer(scale, scale))[0] > 1e-7
    kept = sum("kept as it is" in finding.message for finding in loaded.report.used)
    assert kept == sum(body.mass == 0.0 and not body.inertia.any() for body in loaded.bodies)


def test_branches_in_any_order(tmp_path):
    """The massless middle of one branch is declared after the other branch."""
    text = robot(
        link("base"), link("a", ""), link("b", ""), link("a2"), link("b2", POINT),
        joint("ja", "base", "a", axis="1 0 0"), joint("jb", "base", "b", axis="1 0 0"),
        joint("ja2", "a", "a2", axis="0 1 0"), joint("jb2", "b", "b2", axis="0 1 0"),
    )  # fmt: skip
    loaded = load(tmp_path, text)
    names = {finding.element for finding in loaded.report.approximated}
    assert names == {"joint 'jb'", "joint 'jb2'"}
    assert np.linalg.eigvalsh(mass_matrix(loaded))[0] > 1e-7


def test_rotor_is_inertia_enough(tmp_path):
    motor = extension('<motor joint="j0" torque_constant="1" rotor_inertia="1e-3"/>')
    text = chain("revolute", ["0 1 0"] * 2).replace("</robot>", f"{motor}</robot>")
    assert not load(tmp_path, text).report.approximated


@pytest.mark.parametrize(("moment", "kept"), [("1e-13", False), ("2e-12", True)])
def test_radius_of_gyration_below_a_micrometre_is_a_point(tmp_path, moment, kept):
    body = INERTIAL.replace('"0.1"', f'"{moment}"')
    loaded = load(tmp_path, robot(link("base"), link("arm", body), joint("j", "base", "arm")))
    assert bool(loaded.bodies[0].inertia[0, 0] == float(moment)) is kept


def test_small_parts_keep_their_inertia(tmp_path):
    """A milligram with a radius of gyration of 0.1 mm: 1e-14 kg m2 is no rounding."""
    body = INERTIAL.replace('"0.1"', '"1e-14"').replace('mass value="1"', 'mass value="1e-6"')
    loaded = load(tmp_path, robot(link("base"), link("arm", body), joint("j", "base", "arm")))
    assert loaded.bodies[0].inertia[0, 0] == 1e-14


def shares(model, q):
    """(nv,) a coordinate's inertia with all others free to follow, by that with them locked."""
    model = model.copy()
    model.gravity = pin.Motion.Zero()
    zero, unit = np.zeros(model.nv), np.eye(model.nv)
    M = np.array([pin.rnea(model, model.createData(), q, zero, a) for a in unit])
    return 1.0 / (np.linalg.inv(M).diagonal() * M.diagonal())


@pytest.mark.parametrize("turn", [0.0, 1e-5, -1.3], ids=["singular", "nearly", "elsewhere"])
def test_point_mass_on_two_hinges_has_inertia_in_the_neutral_configuration(tmp_path, turn):
    """Both hinges move it the same way there, as in iCub's neck; elsewhere they do not."""
    head = POINT.replace("<mass", f'<origin xyz="{np.cos(turn)} {np.sin(turn)} 1"/><mass')
    text = chain("revolute", ["1 0 0", "0 0 1"], middle=POINT, last=head)
    loaded = load(tmp_path, text)
    # the least that the head of 1 kg can have is 4e-4 kg m2, beside 1 kg m2 locked
    assert shares(loaded.model, loaded.neutral()).min() > 1e-4
    assert len(loaded.report.strict_findings) == (0 if turn == -1.3 else 2)


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_almost_no_inertia_is_none(tmp_path, kind):
    """A link of a picogram between two joints along the same axis; scaling changes nothing."""
    for scale in (1e-3, 1.0, 1e3):
        speck = f'<inertial><mass value="{1e-12 * scale}"/><inertia ixx="{1e-12 * scale}" ' \
            f'iyy="{1e-12 * scale}" izz="{1e-12 * scale}"/></inertial>'  # fmt: skip
        whole = INERTIAL.replace('"0.1"', f'"{0.1 * scale}"').replace('"1"', f'"{scale}"')
        loaded = load(tmp_path, chain(kind, ["0 1 0"] * 2, middle=speck, last=whole))
        assert shares(loaded.model, loaded.neutral()).min() > 1e-7
        assert len(loaded.report.strict_findings) == 2


def test_small_links_between_hinges_are_left_alone(tmp_path):
    """A link of 10 mg and 1e-9 kg m2 before one of 1 kg is light, but physics."""
    light = INERTIAL.replace('"0.1"', '"1e-8"').replace('mass value="1"', 'mass value="1e-5"')
    loaded = load(tmp_path, chain("revolute", ["0 1 0"] * 2, middle=light))
    assert not loaded.report.strict_findings


@pytest.mark.parametrize("base", ["free", "fixed"])
def test_icub_moves_sanely_from_its_neutral_configuration(base):
    """0.01 N m for 0.1 s on any joint; without inertia in its head it reached 6e4 rad/s."""
    icub = vc.load_robot(example("icub.urdf"), base=base, contacts="none")
    for k in range(icub.nu):
        sim = vc.Simulator(icub, gravity=(0.0, 0.0, 0.0), ground=None, joint_limits=False)
        sim.reset(pin.neutral(icub.model))
        torque = 0.01 * np.eye(icub.nu)[k]
        end = sim.run(0.1, lambda _, torque=torque: torque)
        # 1e-3 N m s against 1e-4 kg m2, the least of its joints; damping makes it 0.02
        assert np.abs(end.v).max() < 10.0
    lines = " ".join(str(finding) for finding in icub.report.strict_findings)
    assert "neck_roll" in lines and "neck_yaw" in lines
