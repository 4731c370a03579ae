// What acts along the joints in a step: drives, servos, damping, rotors, and their tangents.
#pragma once

#include "step.hpp"

namespace vi_contact {

// r += armature dq/h - h/2 (drive torque - damping dq/h), at the mean joint speed dq/h.
inline void Stepper::joint_forces() {
  double d[6];
  for (const Link& link : model_.links) {
    increment(link, x0_.data() + link.c, x1_.data() + link.c, d);
    for (int j = 0; j < link.nv; ++j) {
      const Drive& drive = model_.drives[link.v + j];
      const double speed = inverse_h_ * d[j];
      double torque = 0.0;
      if (drive.input >= 0) {
        const DriveTorque driven = driven_torque(link, drive, d[j]);
        torque = driven.torque;
        saturated_[drive.input] = driven.saturated;
      }
      torque_[link.v + j] = torque;
      r_[link.v + j] -= 0.5 * h_ * (torque - drive.damping * speed);
    }
    add_armature(link, d, 1.0, r_.data());
  }
}

// Torque of a drive over the step with joint increment d. The angle of a servo is that of the
// middle, q_k + d/2; joints without limits take the shorter way to it.
inline DriveTorque Stepper::driven_torque(const Link& link, const Drive& drive, double d) const {
  const double command = command_ ? command_[drive.input] : 0.0;
  const double speed = inverse_h_ * d;
  if (servos_.empty()) return drive_torque(drive, command, speed);
  const Servo& servo = servos_[drive.input];
  double wanted = servo.damping * (servo.speed - speed);
  if (link.nv == 1) {
    double error = servo.angle - x0_[link.c];
    if (link.unbounded) error = std::remainder(error, 2.0 * pi);
    wanted += servo.stiffness * (error - 0.5 * d);
  }
  DriveTorque driven = drive_torque(drive, command + wanted, speed);
  driven.slope -= driven.gain * (servo.damping + 0.5 * h_ * servo.stiffness);
  return driven;
}

inline void Stepper::set_joint_tangents(Elimination& tree) const {
  if (!driven_) {
    tree.kappa.setZero();
    for (Matrix6& kappa : tree.kappa_dense) kappa.setZero();
    return;
  }
  double d[6];
  for (const Link& link : model_.links) {
    increment(link, x0_.data() + link.c, x1_.data() + link.c, d);
    Vector6 k = Vector6::Zero();
    for (int j = 0; j < link.nv; ++j) {
      const Drive& drive = model_.drives[link.v + j];
      k[j] = 0.5 * drive.damping;
      if (drive.input < 0) continue;
      k[j] -= 0.5 * driven_torque(link, drive, d[j]).slope;
    }
    if (link.nv == 1) {
      tree.kappa[link.v] = k[0] + inverse_h_ * model_.drives[link.v].armature;
      continue;
    }
    tree.kappa_dense[link.dense] = k.asDiagonal() * increment_tangent(link, d);
    if (link.kind == JointKind::spherical) {
      tree.kappa_dense[link.dense].topLeftCorner<3, 3>() +=
          inverse_h_ * turn_tangent<body_axes>(armature(link).asDiagonal(), joint_turn(link, d));
    }
  }
}

// d(increment) / d(motion at the right node, axes of the child).
inline Matrix6 Stepper::increment_tangent(const Link& link, const double* d) const {
  Matrix6 E = Matrix6::Zero();
  const auto turn = [](const Vector3& u) -> Matrix3 {
    return std::sqrt(std::max(0.0, 1.0 - u.dot(u))) * Matrix3::Identity() + skew(u);
  };
  if (link.kind == JointKind::spherical) {
    E.topLeftCorner<3, 3>() = turn(0.5 * Vector3(d[0], d[1], d[2]));
  } else if (link.kind == JointKind::planar) {
    E.topLeftCorner<3, 3>() = turn_about(Vector3::UnitZ(), d[2]).toRotationMatrix();
  } else {
    const Vector3 u = 0.5 * Vector3(d[3], d[4], d[5]);
    E.topLeftCorner<3, 3>() = small_rotation(u).toRotationMatrix();
    E.bottomRightCorner<3, 3>() = turn(u);
  }
  return E;
}

inline void Stepper::right_joint_forces() {
  double back[6];
  for (const Link& link : model_.links) {
    const double* d = dq_.data() + link.v;
    increment(link, x1_.data() + link.c, x0_.data() + link.c, back);
    for (int j = 0; j < link.nv; ++j) {
      const Drive& drive = model_.drives[link.v + j];
      const double moved = 0.5 * (d[j] - back[j]);
      const double speed = -inverse_h_ * back[j];
      const double torque = torque_[link.v + j];
      p1_[link.v + j] += 0.5 * h_ * (torque - drive.damping * speed);
      motor_work_ += torque * moved;
      damping_work_ -= 0.5 * drive.damping * inverse_h_ * (d[j] * d[j] + back[j] * back[j]);
      if (drive.input >= 0) tau_[drive.input] = torque;
    }
    add_armature(link, d, -1.0, p1_.data());
  }
}
}  // namespace vi_contact
