// Python bindings of the compiled equations: arrays in, arrays out.
#include <nanobind/eigen/dense.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include <stdexcept>
#include <string>
#include <tuple>

#include "joints.hpp"
#include "rotation.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace vi_contact {
namespace {

using Vector4 = Eigen::Vector4d;
using Vector7 = Eigen::Matrix<double, 7, 1>;
using Jacobian = Eigen::Matrix<double, Eigen::Dynamic, 6, Eigen::RowMajor>;

Quaternion quaternion(const Vector4& xyzw) { return Quaternion(xyzw); }

Pose pose(const Vector7& xyz_xyzw) { return {xyz_xyzw.head<3>(), Quaternion(xyz_xyzw.tail<4>())}; }

RotationStep rotation_step(const Vector3& w, double time_step) {
  const RotationStep step(w, time_step);
  if (!step.exists()) {
    throw std::invalid_argument(
        "no rotation step: |w| must be below 2 / time_step = " + std::to_string(2.0 / time_step) +
        " rad/s, it is " + std::to_string(w.norm()));
  }
  return step;
}

JointKind joint_kind(int kind) {
  if (kind < 0 || kind >= joint_kind_count) {
    throw std::invalid_argument("no joint kind " + std::to_string(kind) +
                                "; kinds are 0 floating, 1 revolute, 2 prismatic, 3 fixed, "
                                "4 spherical, 5 planar, 6 universal");
  }
  return static_cast<JointKind>(kind);
}

std::tuple<Eigen::VectorXd, Jacobian, Jacobian> joint_constraint_arrays(
    int kind, const Vector3& p_WA, const Vector4& quat_WA_xyzw, const Vector3& p_WB,
    const Vector4& quat_WB_xyzw, const Vector7& frame_A, const Vector7& frame_B,
    const Vector3& axis, const Vector3& axis2) {
  const Joint joint{joint_kind(kind), pose(frame_A), pose(frame_B), axis, axis2};
  JointRows rows;
  joint_constraint(joint, {p_WA, quaternion(quat_WA_xyzw)}, {p_WB, quaternion(quat_WB_xyzw)}, rows);
  const int m = joint_row_count(joint.kind);
  return {rows.c.head(m), rows.jac_A.topRows(m), rows.jac_B.topRows(m)};
}

}  // namespace
}  // namespace vi_contact

NB_MODULE(_compiled, m) {
  using namespace vi_contact;

  m.def(
      "quaternion_product",
      [](const Vector4& a, const Vector4& b) -> Vector4 {
        return (quaternion(a) * quaternion(b)).coeffs();
      },
      "a_xyzw"_a, "b_xyzw"_a, "The product a b of two quaternions x y z w.");

  m.def(
      "rotate",
      [](const Vector4& q, const Vector3& v) -> Vector3 {
        return quaternion(q).toRotationMatrix() * v;
      },
      "quat_WB_xyzw"_a, "v_B"_a, "The vector v_W = R_WB v_B, for a unit quaternion.");

  m.def(
      "quaternion_step",
      [](const Vector4& q, const Vector3& w, double h) -> Vector4 {
        return (quaternion(q) * rotation_step(w, h).quaternion()).coeffs();
      },
      "quat_WB_xyzw"_a, "w_WB_B"_a, "time_step"_a,
      "The quaternion a time step [s] later, at the midpoint angular velocity w [rad/s] in body "
      "axes; ValueError unless |w| < 2 / time_step.");

  m.def(
      "quaternion_step_tangent",
      [](const Vector3& w, double h) -> Matrix3 { return rotation_step(w, h).tangent(); },
      "w_WB_B"_a, "time_step"_a,
      "D (3, 3): the body turns by dtheta = time_step D dw, in body axes after the step.");

  m.def("joint_constraint", &joint_constraint_arrays, "kind"_a, "p_WA"_a, "quat_WA_xyzw"_a,
        "p_WB"_a, "quat_WB_xyzw"_a, "frame_A"_a, "frame_B"_a, "axis"_a, "axis2"_a,
        "Rows c (m,) of a joint between bodies A and B and their Jacobians (m, 6) for "
        "(dx in world axes, dphi in body axes) of A and of B.");
}
