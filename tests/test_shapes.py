"""Visual and collision shapes are checked at load; what cannot be drawn or touched is said."""

import numpy as np
import pytest
from urdf_text import INERTIAL, joint, link, robot, write

import vi_contact as vc
from vi_contact.errors import ValueFormatError


def load(tmp_path, shapes, *extra):
    parts = (link("base"), link("arm", INERTIAL + shapes), joint("hinge", "base", "arm"), *extra)
    return vc.load_robot(write(tmp_path, robot(*parts)))


def shape(geometry, role="collision", more=""):
    return f"<{role}>{more}<geometry>{geometry}</geometry></{role}>"


@pytest.mark.parametrize("role", ["visual", "collision"])
@pytest.mark.parametrize(
    ("geometry", "message"),
    [
        ('<sphere radius="x"/>', "finite number"),
        ('<sphere radius="-1"/>', "must not be negative"),
        ("<sphere/>", "needs the attribute 'radius'"),
        ('<box size="1 2"/>', "3 finite numbers"),
        ('<cylinder radius="1"/>', "'length'"),
        ('<capsule radius="1" length="nan"/>', "finite number"),
    ],
)
def test_bad_shape(tmp_path, role, geometry, message):
    with pytest.raises(ValueFormatError, match=message) as caught:
        load(tmp_path, shape(geometry, role))
    assert caught.value.line == 3


def test_bad_origin(tmp_path):
    with pytest.raises(ValueFormatError, match="3 finite numbers"):
        load(tmp_path, shape('<sphere radius="1"/>', more='<origin xyz="1 2"/>'))


@pytest.mark.parametrize("role", ["visual", "collision"])
def test_unknown_shape_costs_itself_only(tmp_path, role):
    shapes = shape('<cone radius="1"/>', role) + shape('<sphere radius=" 0.2 "/>', role)
    loaded = load(tmp_path, shapes)
    model = loaded.collision_model if role == "collision" else loaded.visual_model
    assert [part.geometry.radius for part in model.geometryObjects] == [0.2]
    [finding] = [f for f in loaded.report.ignored if "<cone>" in f.message]
    assert finding.physics is (role == "collision")


def test_mesh_without_a_filename(tmp_path):
    report = load(tmp_path, shape('<mesh filename=""/>')).report
    assert any("has no filename" in finding.message for finding in report.ignored)


# ---------------------------------------------------------------- colours
BALL = '<visual><geometry><sphere radius="1"/></geometry>{}</visual>'
GREEN = '<material name="green"><color rgba="0 1 0 1"/></material>'


@pytest.mark.parametrize(
    ("inside", "beside", "colour"),
    [
        (GREEN, "", [0, 1, 0, 1]),
        ('<material name="green"/>', GREEN, [0, 1, 0, 1]),
        ('<material name="green"/>', GREEN + GREEN, [0, 1, 0, 1]),
        ('<material><color rgba="1 0 0 1"/></material>', "", [1, 0, 0, 1]),
        ('<material><color rgba=" 1&#10;0 0 1"/></material>', "", [1, 0, 0, 1]),
        ('<material name="red"><color rgba="255 0 0 1"/></material>', "", [1, 0, 0, 1]),
        ('<material name="nowhere"/>', "", None),
        ("<material/>", "", None),
    ],
)
def test_colours(tmp_path, inside, beside, colour):
    [part] = load(tmp_path, BALL.format(inside), beside).visual_model.geometryObjects
    assert part.overrideMaterial is (colour is not None)
    if colour:
        np.testing.assert_allclose(part.meshColor, colour)


def test_materials_of_one_name_keep_their_own_colours(tmp_path):
    other = GREEN.replace("0 1 0 1", "0 0 1 1")
    loaded = load(tmp_path, BALL.format(GREEN) + BALL.format(other))
    colours = [part.meshColor.tolist() for part in loaded.visual_model.geometryObjects]
    assert colours == [[0, 1, 0, 1], [0, 0, 1, 1]]


def test_an_unreadable_colour_costs_itself_only(tmp_path):
    loaded = load(tmp_path, BALL.format(GREEN.replace("0 1 0 1", "green")))
    [part] = loaded.visual_model.geometryObjects
    assert part.overrideMaterial is False
    assert any("green" in str(finding.message) for finding in loaded.report.ignored)
