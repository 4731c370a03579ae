// What happens to the energy at a node, to tell solutions in which contacts give some.
//
// Between the mean velocities of the last step and of this one the kinetic energy changes by what
// the halves of impulses that meet at the node do at the mean of both, and by what contacts and
// joint laws take. Of wrenches the most is assumed.
#pragma once

#include "step.hpp"

namespace vi_contact {

// Kinetic energy at the mean velocities of the step [J].
inline double Stepper::mean_kinetic(double inverse_h) const {
  double sum = 0.0;
  for (int i = 0; i < model_.size(); ++i) {
    const Turn& turn = turns_[i];
    const int wheel = model_.links[i].wheel;
    sum += 0.5 * model_.links[i].mass * velocities_[i].squaredNorm() +
           (wheel < 0
                ? 2.0 * inverse_h * inverse_h * turn.u.dot(turn.Ju)
                : wheel_kinetic(model_.wheels[wheel], frames0_[i], turn, spins_[wheel], inverse_h));
  }
  return sum;
}

// The rotors' part of that.
inline double Stepper::rotor_kinetic() const {
  if (!passive_) return 0.0;
  double sum = 0.0, d[6];
  for (const Link& link : model_.links) {
    increment(link, x0_.data() + link.c, x1_.data() + link.c, d);
    for (int j = 0; j < link.nv; ++j) {
      sum += 0.5 * model_.drives[link.v + j].armature * inverse_h_ * inverse_h_ * d[j] * d[j];
    }
  }
  return sum;
}

// Power of gravity at the mean velocities of the step [W].
inline double Stepper::gravity_power() const {
  double sum = 0.0;
  for (int i = 0; i < model_.size(); ++i) {
    sum += model_.links[i].mass * gravity_.dot(velocities_[i]);
  }
  return sum;
}

// The same at a node with velocities v.
inline double Stepper::gravity_power(const double* v) {
  for (int i = 0; i < model_.size(); ++i) {
    const Vector3 weight = model_.links[i].mass * gravity_;
    f_[i] = {weight, frames0_[i].c.cross(weight)};
  }
  VectorX& force = rhs_;
  force.setZero();
  project(model_, frames0_, f_, force.data());
  return force.dot(Eigen::Map<const VectorX>(v, model_.nv));
}

inline Stepper::NodeEnergy Stepper::node_energy() const {
  const double kinetic = mean_kinetic(inverse_h_) + rotor_kinetic(), drives = drive_work();
  const double halves = 0.5 * (last_.h + h_), springs = spring_work();
  const double gravity = 0.5 * halves * (last_.power + gravity_power());
  return {kinetic - last_.kinetic - most_wrench_work() - drives - gravity - springs,
          kinetic + std::abs(drives) + std::abs(gravity + springs)};
}

// Work of springs and dampers at the left node.
inline double Stepper::spring_work() const {
  const int first = closure_.holonomic();
  double sum = 0.0;
  for (int i = first; i < closure_.size(); ++i) {
    const double impulse = closure_.rows[i].left_impulse(closure_.lambda[i]) -
                           0.5 * last_.h * closure_.springs.forces[i - first] -
                           closure_.springs.owed[i - first];
    const double rate = inverse_h_ * closure_.rows[i].way;
    sum += 0.5 * impulse * (last_.rates[i - first] + rate);
  }
  return sum;
}

// Work of the drives at the left node.
inline double Stepper::drive_work() const {
  if (!driven_) return 0.0;
  double sum = 0.0, d[6];
  for (const Link& link : model_.links) {
    increment(link, x0_.data() + link.c, x1_.data() + link.c, d);
    for (int j = 0; j < link.nv; ++j) {
      const int k = link.v + j;
      double impulse = last_.drives[k] + 0.5 * h_ * torque_[k];
      if (leans_) impulse += leaned_[k];
      sum += 0.5 * impulse * inverse_h_ * (predictor_.last()[k] + d[j]);
    }
  }
  return sum;
}

// The most that wrenches may have given; at an impact they work at either velocity.
inline double Stepper::most_wrench_work() const {
  double sum = 0.0;
  for (int i = 0; wrenches_ && i < model_.size(); ++i) {
    const Eigen::Map<const Vector3> force(wrenches_ + 6 * i), torque(wrenches_ + 6 * i + 3);
    sum += std::abs(h_ * force.dot(velocities_[i])) + std::abs(torque.dot(turns_[i].way()));
  }
  return sum;
}

}  // namespace vi_contact
