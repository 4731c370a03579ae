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
#pragma once

#include <array>

#include "forces.hpp"

namespace vi_contact {

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
  double offset = 0.0;            // error without a way [m]
  double stiffness = 0.0, damping = 0.0;
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
  explicit Springs(const Model& model) : model_(model), starts_(model.springs.size()) {}

  static int rows_of(const SpringDamper& spring) {
    return 3 * is_central(spring) + has_line(spring);
  }

  // Writes their rows at a node; `left` as well as right fills both sides.
  void evaluate(const Frames& frames, double h, bool left, Row* row) {
    for (size_t k = 0; k < model_.springs.size(); ++k) {
      const SpringDamper& spring = model_.springs[k];
      const Line line = line_between(spring, frames);
      if (left) starts_[k] = line;
      if (is_central(spring)) {
        for (int axis = 0; axis < 3; ++axis, ++row) {
          set_ends(*row, spring, line, Vector3::Unit(axis), false);
          if (left) set_ends(*row, spring, line, Vector3::Unit(axis), true);
          set_law(*row, line.way[axis], {spring.stiffness, 0.0, 0.0}, h, left);
        }
      }
      if (has_line(spring)) evaluate_line(spring, line, starts_[k], h, left, *row++);
    }
  }

 private:
  struct Law {
    double stiffness, rest_length, damping;
  };

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
    const double stiffness = is_central(spring) ? 0.0 : spring.stiffness;
    Vector3 n = line.length > 0.0 ? line.direction : start.direction;
    double length = line.length;
    if (stiffness == 0.0 && n.dot(start.direction) < 0.0) n = -n, length = -length;
    set_ends(row, spring, line, n, false);
    if (left || start.length == 0.0) set_ends(row, spring, start, n, true);
    set_law(row, length, {stiffness, spring.rest_length, spring.damping}, h, left);
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

  static void set_law(Row& row, double length, const Law& law, double h, bool left) {
    if (left) {
      row.start = length;
      row.stiffness = law.stiffness, row.damping = law.damping;
      row.compliance = 1.0 / (0.25 * h * h * law.stiffness + 0.5 * h * law.damping);
      row.offset = 0.5 * h * h * row.compliance * law.stiffness * (length - law.rest_length);
    }
    row.way = length - row.start;
    row.error = row.way + row.offset;
  }

  const Model& model_;
  std::vector<Line> starts_;  // at the left node
};

}  // namespace vi_contact
