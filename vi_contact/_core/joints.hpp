// Constraint rows of a joint between two rigid bodies A and B, and their Jacobians.
//
// Frames: F is the joint frame fixed on body A, G the joint frame fixed on body B. A body frame
// has its origin at the body's centre of mass. The rows vanish where the joint holds together.
//
// The six Jacobian columns of a body are (dx, dphi): dx moves its centre of mass along the world
// axes, dphi turns it about its own axes, R <- R exp([dphi]x).
#pragma once

#include <cmath>

#include "rotation.hpp"

namespace vi_contact {

// A floating joint has no rows; a continuous joint is a revolute one; a gliding one keeps the
// origin of G in the plane of F across the axis, and no more.
enum class JointKind {
  floating,
  revolute,
  prismatic,
  fixed,
  spherical,
  planar,
  universal,
  gliding
};
inline constexpr int joint_kind_count = 8;

inline constexpr int joint_row_count(JointKind kind) {
  constexpr int rows[joint_kind_count] = {0, 5, 5, 6, 3, 3, 4, 1};
  return rows[static_cast<int>(kind)];
}

struct Pose {
  Vector3 p;
  Quaternion q;
};

struct Joint {
  JointKind kind;
  Pose X_AF, X_BG;
  Vector3 axis;   // unit, the same coordinates in F and G
  Vector3 axis2;  // unit, in G; the second axis of a universal joint
};

// Only the first joint_row_count(kind) rows are written.
struct JointRows {
  Eigen::Matrix<double, 6, 1> c;
  Eigen::Matrix<double, 6, 6, Eigen::RowMajor> jac_A, jac_B;
};

using Plane = Eigen::Matrix<double, 2, 3>;

// Rows n1', n2' which complete the unit axis a to a right-handed basis (a, n1, n2):
// n1 = a x e_k, normalised, with e_k the coordinate axis of the smallest |a_k| (first on ties).
inline Plane normal_plane(const Vector3& a) {
  int k;
  a.cwiseAbs().minCoeff(&k);
  const Vector3 n1 = a.cross(Vector3::Unit(k)).normalized();
  Plane n;
  n.row(0) = n1.transpose();
  n.row(1) = a.cross(n1).transpose();
  return n;
}

// Everything that the rows of one joint share, at one configuration of its two bodies.
class JointKinematics {
 public:
  JointKinematics(const Joint& joint, const Pose& X_WA, const Pose& X_WB)
      : p_AF_(joint.X_AF.p),
        p_BG_(joint.X_BG.p),
        R_WA_(X_WA.q.toRotationMatrix()),
        R_WB_(X_WB.q.toRotationMatrix()),
        R_AF_(joint.X_AF.q.toRotationMatrix()),
        R_BG_(joint.X_BG.q.toRotationMatrix()),
        R_WF_(R_WA_ * R_AF_),
        d_W_(X_WB.p + R_WB_ * p_BG_ - X_WA.p - R_WA_ * p_AF_),
        q_FG_((X_WA.q * joint.X_AF.q).conjugate() * (X_WB.q * joint.X_BG.q)) {}

  // d = p_WG - p_WF, world axes.
  //   dd = dx_B - R_WB [p_BG]x dphi_B - dx_A + R_WA [p_AF]x dphi_A
  void displacement(JointRows& rows, int first) const {
    rows.c.segment<3>(first) = d_W_;
    rows.jac_A.block<3, 3>(first, 0) = -Matrix3::Identity();
    rows.jac_A.block<3, 3>(first, 3) = R_WA_ * skew(p_AF_);
    rows.jac_B.block<3, 3>(first, 0).setIdentity();
    rows.jac_B.block<3, 3>(first, 3) = -R_WB_ * skew(p_BG_);
  }

  // S R_WF' d: the components of d along the rows of S, which turn with F.
  //   R_WF' dd - [dphi_F]x R_WF' d, whose columns of A use p_AG = p_AF + R_WA' d
  template <int m>
  void displacement_along(const Eigen::Matrix<double, m, 3>& S, JointRows& rows, int first) const {
    const Eigen::Matrix<double, m, 3> S_W = S * R_WF_.transpose();
    const Vector3 p_AG = p_AF_ + R_WA_.transpose() * d_W_;
    rows.c.segment<m>(first) = S_W * d_W_;
    rows.jac_A.block<m, 3>(first, 0) = -S_W;
    rows.jac_A.block<m, 3>(first, 3) = S * R_AF_.transpose() * skew(p_AG);
    rows.jac_B.block<m, 3>(first, 0) = S_W;
    rows.jac_B.block<m, 3>(first, 3) = -S_W * R_WB_ * skew(p_BG_);
  }

  // S 2 vec(q_FG), with q_FG = (e, w): for small angles the rotation vector of G in F [rad].
  //   2 d(vec q_FG) = (w I + [e]x) R_BG' dphi_B - (w I - [e]x) R_AF' dphi_A
  template <int m>
  void rotation_along(const Eigen::Matrix<double, m, 3>& S, JointRows& rows, int first) const {
    const Matrix3 w_I = q_FG_.w() * Matrix3::Identity();
    const Matrix3 e_x = skew(q_FG_.vec());
    rows.c.segment<m>(first) = S * (2.0 * q_FG_.vec());
    rows.jac_A.block<m, 3>(first, 0).setZero();
    rows.jac_A.block<m, 3>(first, 3) = -S * (w_I - e_x) * R_AF_.transpose();
    rows.jac_B.block<m, 3>(first, 0).setZero();
    rows.jac_B.block<m, 3>(first, 3) = S * (w_I + e_x) * R_BG_.transpose();
  }

  // All three rotations. q and -q are one rotation: the sign takes the nearer way round, so that
  // a body that has turned by a full circle still satisfies the same rows.
  void rotation(JointRows& rows, int first) const {
    const double sign = q_FG_.w() >= 0.0 ? 1.0 : -1.0;
    rotation_along<3>(sign * Matrix3::Identity(), rows, first);
  }

  // (R_WF a) . (R_WG a2): the two axes of a universal joint stay perpendicular.
  //   dphi_A . (R_AF a x R_WA' b2) + dphi_B . (R_BG a2 x R_WB' b), with b, b2 the axes in W
  void perpendicular(const Vector3& a, const Vector3& a2, JointRows& rows, int row) const {
    const Vector3 a_A = R_AF_ * a;
    const Vector3 a2_B = R_BG_ * a2;
    const Vector3 b_W = R_WA_ * a_A;
    const Vector3 b2_W = R_WB_ * a2_B;
    rows.c[row] = b_W.dot(b2_W);
    rows.jac_A.block<1, 3>(row, 0).setZero();
    rows.jac_A.block<1, 3>(row, 3) = a_A.cross(R_WA_.transpose() * b2_W).transpose();
    rows.jac_B.block<1, 3>(row, 0).setZero();
    rows.jac_B.block<1, 3>(row, 3) = a2_B.cross(R_WB_.transpose() * b_W).transpose();
  }

 private:
  Vector3 p_AF_, p_BG_;
  Matrix3 R_WA_, R_WB_, R_AF_, R_BG_, R_WF_;
  Vector3 d_W_;
  Quaternion q_FG_;
};

inline void joint_constraint(const Joint& joint, const Pose& X_WA, const Pose& X_WB,
                             JointRows& rows) {
  if (joint.kind == JointKind::floating) return;
  const JointKinematics kinematics(joint, X_WA, X_WB);
  const Vector3& a = joint.axis;
  switch (joint.kind) {
    case JointKind::floating:
      break;
    case JointKind::revolute:
      kinematics.displacement(rows, 0);
      kinematics.rotation_along<2>(normal_plane(a), rows, 3);
      break;
    case JointKind::prismatic:
      kinematics.displacement_along<2>(normal_plane(a), rows, 0);
      kinematics.rotation(rows, 2);
      break;
    case JointKind::fixed:
      kinematics.displacement(rows, 0);
      kinematics.rotation(rows, 3);
      break;
    case JointKind::spherical:
      kinematics.displacement(rows, 0);
      break;
    case JointKind::planar:
      kinematics.displacement_along<1>(a.transpose(), rows, 0);
      kinematics.rotation_along<2>(normal_plane(a), rows, 1);
      break;
    case JointKind::universal:
      kinematics.displacement(rows, 0);
      kinematics.perpendicular(a, joint.axis2, rows, 3);
      break;
    case JointKind::gliding:
      kinematics.displacement_along<1>(a.transpose(), rows, 0);
      break;
  }
}

}  // namespace vi_contact
