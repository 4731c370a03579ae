// Rotations of rigid bodies: unit quaternions (components x y z w) and their discrete step.
#pragma once

#include <Eigen/Core>
#include <Eigen/Geometry>
#include <cmath>

namespace vi_contact {

using Vector3 = Eigen::Vector3d;
using Matrix3 = Eigen::Matrix3d;
using Quaternion = Eigen::Quaterniond;  // Eigen stores it x y z w, as pinocchio does

// [a]x with [a]x b = a x b.
inline Matrix3 skew(const Vector3& a) {
  Matrix3 m;
  m << 0.0, -a.z(), a.y(),  //
      a.z(), 0.0, -a.x(),   //
      -a.y(), a.x(), 0.0;
  return m;
}

// The rotation of one time step h [s] at the midpoint angular velocity w [rad/s, body axes],
// split into the quaternion's vector part u and scalar part s:
//
//   u = h w / 2,   s = sqrt(1 - u.u),   Q_{k+1} = Q_k * (u, s)
//
// so the norm of Q holds by construction. Exists for |u| < 1 only; beyond that s is NaN.
struct RotationStep {
  Vector3 u;
  double s;

  RotationStep(const Vector3& w, double h) : u(0.5 * h * w), s(std::sqrt(1.0 - u.dot(u))) {}

  bool exists() const { return s > 0.0; }  // false for NaN too

  Quaternion quaternion() const { return Quaternion(s, u.x(), u.y(), u.z()); }

  // Q_{k+1} turns by dtheta = h D dw (body axes at k+1) when w changes by dw:
  //
  //   D = s I + u u' / s - [u]x
  Matrix3 tangent() const { return s * Matrix3::Identity() + (u / s) * u.transpose() - skew(u); }
};

}  // namespace vi_contact
