// Maps between joints and bodies at one node: P(q), its transpose, the mass matrix, and what the
// bodies hold of energy and momentum.
#pragma once

#include "forces.hpp"

namespace vi_contact {

// out += S' f, the generalised force of a wrench at a joint.
inline void project_joint(const Link& link, const Frame& frame, const Wrench& f, double* out) {
  switch (link.kind) {
    case JointKind::revolute:
      out[0] += frame.a.dot(f.angular);
      break;
    case JointKind::prismatic:
      out[0] += frame.a.dot(f.linear);
      break;
    case JointKind::spherical:
      Eigen::Map<Vector3>(out, 3) += frame.R.transpose() * f.angular;
      break;
    case JointKind::planar:
      out[0] += frame.R.col(0).dot(f.linear);
      out[1] += frame.R.col(1).dot(f.linear);
      out[2] += frame.R.col(2).dot(f.angular);
      break;
    default:
      Eigen::Map<Vector3>(out, 3) += frame.R.transpose() * f.linear;
      Eigen::Map<Vector3>(out + 3, 3) += frame.R.transpose() * f.angular;
      break;
  }
}

// out += P(q)' f; f is summed towards the root in place.
inline void project(const Model& model, const Frames& frames, std::vector<Wrench>& f, double* out) {
  for (int i = model.size() - 1; i >= 0; --i) {
    const Link& link = model.links[i];
    const Frame& frame = frames[i];
    project_joint(link, frame, f[i], out + link.v);
    if (link.parent == world) continue;
    f[link.parent].linear += f[i].linear;
    f[link.parent].angular += f[i].angular + frame.r.cross(f[i].linear);
  }
}

// The twist of every link at its origin.
inline void twists(const Model& model, const Frames& frames, const double* v,
                   std::vector<Wrench>& out) {
  for (int i = 0; i < model.size(); ++i) {
    const Link& link = model.links[i];
    const Frame& frame = frames[i];
    Wrench& xi = out[i];
    xi.linear.setZero(), xi.angular.setZero();
    if (link.parent != world) {
      xi.angular = out[link.parent].angular;
      xi.linear = out[link.parent].linear + xi.angular.cross(frame.r);
    }
    const double* s = v + link.v;
    switch (link.kind) {
      case JointKind::revolute:
        xi.angular += s[0] * frame.a;
        break;
      case JointKind::prismatic:
        xi.linear += s[0] * frame.a;
        break;
      case JointKind::spherical:
        xi.angular += frame.R * Vector3(s[0], s[1], s[2]);
        break;
      case JointKind::planar:
        xi.linear += frame.R * Vector3(s[0], s[1], 0.0);
        xi.angular += s[2] * frame.R.col(2);
        break;
      default:
        xi.linear += frame.R * Vector3(s[0], s[1], s[2]);
        xi.angular += frame.R * Vector3(s[3], s[4], s[5]);
        break;
    }
  }
}

// p = M(q) v; f is work space.
inline void apply_mass_matrix(const Model& model, const Frames& frames, const double* v,
                              std::vector<Wrench>& f, double* p) {
  twists(model, frames, v, f);
  for (int i = 0; i < model.size(); ++i) {
    const Link& link = model.links[i];
    const Frame& frame = frames[i];
    const Vector3 w = f[i].angular;
    f[i].linear = link.mass * (f[i].linear + w.cross(frame.c));
    f[i].angular =
        frame.R * (link.inertia * (frame.R.transpose() * w)) + frame.c.cross(f[i].linear);
  }
  for (int j = 0; j < model.nv; ++j) p[j] = model.drives[j].armature * v[j];
  project(model, frames, f, p);
}

// What a node holds, from q and v: energies, momenta, body poses and velocities.
struct Observation {
  double kinetic, potential, closure;
  Vector3 linear, angular;  // momenta; angular about the centre of mass of the robot
};

// poses: rows (p, quat xyzw) of the bodies' centres of mass; velocities: rows (v, w in body axes);
// null if not wanted. f is work space. Leaves the error of the loops at zero.
inline Observation observe_bodies(const Model& model, const Frames& frames, const double* v,
                                  const Vector3& gravity, std::vector<Wrench>& f, double* poses,
                                  double* velocities) {
  twists(model, frames, v, f);
  Observation o{0.0, 0.0, 0.0, Vector3::Zero(), Vector3::Zero()};
  Vector3 first = Vector3::Zero();
  for (int i = 0; i < model.size(); ++i) {
    const Link& link = model.links[i];
    const Frame& frame = frames[i];
    const Vector3 x = frame.p + frame.c;
    const Vector3 velocity = f[i].linear + f[i].angular.cross(frame.c);
    const Vector3 w = frame.R.transpose() * f[i].angular;
    const Vector3 spin = link.inertia * w;
    o.kinetic += 0.5 * (link.mass * velocity.squaredNorm() + w.dot(spin));
    o.potential -= link.mass * gravity.dot(x);
    o.linear += link.mass * velocity;
    o.angular += frame.R * spin + x.cross(link.mass * velocity);
    first += link.mass * x;
    if (poses) {
      Eigen::Map<Vector3>(poses + 7 * i, 3) = x;
      write(frame.Q, poses + 7 * i + 3);
    }
    if (velocities) {
      Eigen::Map<Vector3>(velocities + 6 * i, 3) = velocity;
      Eigen::Map<Vector3>(velocities + 6 * i + 3, 3) = w;
    }
  }
  if (model.mass > 0.0) o.angular -= first.cross(o.linear) / model.mass;
  for (int j = 0; j < model.nv; ++j) o.kinetic += 0.5 * model.drives[j].armature * v[j] * v[j];
  for (const SpringDamper& spring : model.springs) {
    const double stretch = line_between(spring, frames).length - spring.rest_length;
    o.potential += 0.5 * spring.stiffness * stretch * stretch;
  }
  return o;
}

}  // namespace vi_contact
