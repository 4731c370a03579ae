// Springs and dampers between two points, as compliant rows of `Closure`.
//
// The potential V is taken at the mean of the lengths l0 and l1 at both nodes, -h V in the discrete
// Lagrangian, and the damper acts at the mean rate. Their impulse is lambda along the line at the
// left node, and again along the line at the right one:
//
//   lambda = -h/2 (k ((l0 + l1)/2 - rest) + c (l1 - l0)/h)
//   (l1 - l0 + offset) / h + compliance lambda = 0
//   compliance = 1 / (h^2 k/4 + h c/2),   offset = h compliance h/2 k (l0 - rest)
//
// A spring of rest length zero has no direction where it is at rest, and needs none: V = 1/2 k d^2
// is taken at the mean of the vectors d from A to B at both nodes, three such rows along the axes
// of the world. Its damper has a row of its own.
//
// That keeps the energy of oscillations, but of those that the step does not resolve, f + g > 4
// with f = h^2 k/m and g = h c/m, forces change their sign from step to step, and contacts that
// open and close in between gain energy. Where there may be contacts such a spring has
// the forces S = k (l - rest) + c dl/h of its last intervals at every node,
//
//   (4 S_k + 4 S_k-1 + S_k-2) / 9,   l at l0 + 2/3 (l1 - l0):  of the lengths, ((1 + 2 z) / 3)^3
//
// second order, and amplifications are at most 1 for all f and g, 1/2 where f is large. What of
// that goes into the momentum of the node is h/2 (S_k-1 + 2 S_k-2 + S_k-3) / 4, so that steady
// forces leave no velocity and alternating ones little; the interval that follows owes the rest.
#pragma once

#include <array>

#include "forces.hpp"

namespace vi_contact {

// f + g up to which contacts leave a spring to the midpoint: omega h = 2.
inline constexpr double most_resolved = 4.0;

// One end of a row: a wrench on a link, or the force of a joint with one coordinate.
struct RowEnd {
  int link = world;
  bool joint = false;
  double coefficient = 0.0;  // of a joint
  Wrench left, right;        // of a link, at its origin; at the left and right node
};

struct Row {
  std::array<RowEnd, 2> ends;
  double error = 0.0;       // [m or rad]
  double compliance = 0.0;  // of a spring or damper, 1 / (N s / (m / s))
  // Of a spring or damper:
  double start = 0.0, way = 0.0;  // length at the left node, its change over the interval [m]
  double stretch = 0.0;           // beyond the rest length at the left node [m]
  double offset = 0.0;            // error without a way [m]
  double stiffness = 0.0, damping = 0.0;
  double alpha = 0.5;                 // where the length is taken, of the way
  double share = 1.0, carried = 0.0;  // impulse at the left node: share lambda + carried
  double right_share = 1.0, right_carried = 0.0;

  double left_impulse(double lambda) const { return share * lambda + carried; }
  double right_impulse(double lambda) const { return right_share * lambda + right_carried; }
};

// What two wrenches on the ends of a row do at the twists of their links [W].
inline double power(const Row& row, const std::vector<Wrench>& twists, bool left) {
  double sum = 0.0;
  for (const RowEnd& end : row.ends) {
    if (end.link == world) continue;
    const Wrench &f = left ? end.left : end.right, &xi = twists[end.link];
    sum += f.linear.dot(xi.linear) + f.angular.dot(xi.angular);
  }
  return sum;
}

class Springs {
 public:
  explicit Springs(const Model& model) : model_(model), starts_(model.springs.size()) {
    int rows = 0;
    for (const SpringDamper& spring : model.springs) rows += rows_of(spring);
    forces = older = owed = VectorX::Zero(rows);
    mobilities = VectorX::Zero(model.springs.size());
  }

  VectorX forces, older;  // of the rows in the last two intervals [N]
  VectorX owed;           // by the last interval [N s]
  VectorX mobilities;     // of the springs, 1/m; zero where all stiffness is left to the midpoint

  static int rows_of(const SpringDamper& spring) {
    return 3 * is_central(spring) + has_line(spring);
  }

  // Writes their rows at a node; `left` as well as right fills both sides.
  void evaluate(const Frames& frames, double h, bool left, Row* rows) {
    Row* row = rows;
    for (size_t k = 0; k < model_.springs.size(); ++k) {
      const SpringDamper& spring = model_.springs[k];
      const Line line = line_between(spring, frames);
      if (left) starts_[k] = line;
      if (is_central(spring)) {
        for (int axis = 0; axis < 3; ++axis, ++row) {
          set_ends(*row, spring, line, Vector3::Unit(axis), false);
          if (left) set_ends(*row, spring, line, Vector3::Unit(axis), true);
          if (left) set_rule(*row, row - rows, spring.stiffness, 0.0, mobilities[k], h);
          set_law(*row, line.way[axis], 0.0, h, left);
        }
      }
      if (!has_line(spring)) continue;
      const double stiffness = is_central(spring) ? 0.0 : spring.stiffness;
      if (left) set_rule(*row, row - rows, stiffness, spring.damping, mobilities[k], h);
      evaluate_line(spring, line, starts_[k], h, left, *row++);
    }
  }

  // After a step: its forces, and the mean rates of the lengths.
  void keep(const Row* rows, const double* impulses, double h, VectorX& rates) {
    older = forces;
    for (int i = 0; i < forces.size(); ++i) {
      forces[i] = -2.0 / h * impulses[i];
      owed[i] = impulses[i] - rows[i].right_impulse(impulses[i]);
      rates[i] = rows[i].way / h;
    }
  }

  // The start: forces of the node, for given rates of the lengths.
  void start(const Row* rows, const VectorX& rates) {
    for (int i = 0; i < forces.size(); ++i) {
      forces[i] = rows[i].stiffness * rows[i].stretch + rows[i].damping * rates[i];
    }
    older = forces;
    owed.setZero();
  }

  // The rate of the length is n.(velocity of B - velocity of A).
  static void set_ends(Row& row, const SpringDamper& spring, const Line& line, const Vector3& n,
                       bool left) {
    RowEnd &A = row.ends[0], &B = row.ends[1];
    A.link = spring.A, B.link = spring.B;
    Wrench &on_A = left ? A.left : A.right, &on_B = left ? B.left : B.right;
    on_A.linear = -n, on_A.angular = n.cross(line.lever_A);
    on_B.linear = n, on_B.angular = line.lever_B.cross(n);
  }

 private:
  static bool is_central(const SpringDamper& spring) {
    return spring.A != spring.B && spring.stiffness > 0.0 && spring.rest_length == 0.0;
  }
  static bool has_line(const SpringDamper& spring) {
    const bool along = spring.stiffness > 0.0 && spring.rest_length != 0.0;
    return spring.A != spring.B && (along || spring.damping > 0.0);
  }

  // Without a length the line has the direction of the other node: there any force keeps the
  // angular momentum. A damper may pass through the length zero; its length is negative on the
  // other side.
  static void evaluate_line(const SpringDamper& spring, const Line& line, const Line& start,
                            double h, bool left, Row& row) {
    Vector3 n = line.length > 0.0 ? line.direction : start.direction;
    double length = line.length;
    if (row.stiffness == 0.0 && n.dot(start.direction) < 0.0) n = -n, length = -length;
    set_ends(row, spring, line, n, false);
    if (left || start.length == 0.0) set_ends(row, spring, start, n, true);
    set_law(row, length, spring.rest_length, h, left);
  }

  void set_rule(Row& row, long i, double stiffness, double damping, double mobility, double h) {
    row.stiffness = stiffness, row.damping = damping;
    const bool resolved = h * (h * stiffness + damping) * mobility <= most_resolved;
    row.alpha = resolved ? 0.5 : 2.0 / 3.0;
    row.share = resolved ? 1.0 : 8.0 / 9.0;
    row.carried = owed[i] + (resolved ? 0.0 : h / 18.0 * (forces[i] - 2.0 * older[i]));
    row.right_share = resolved ? 1.0 : 0.25;
    row.right_carried = resolved ? 0.0 : -h / 8.0 * (2.0 * forces[i] + older[i]);
  }

  static void set_law(Row& row, double length, double rest, double h, bool left) {
    if (left) {
      row.start = length, row.stretch = length - rest;
      row.compliance = 1.0 / (0.5 * h * h * row.alpha * row.stiffness + 0.5 * h * row.damping);
      row.offset = 0.5 * h * h * row.compliance * row.stiffness * row.stretch;
    }
    row.way = length - row.start;
    row.error = row.way + row.offset;
  }

  const Model& model_;
  std::vector<Line> starts_;  // at the left node
};

}  // namespace vi_contact
