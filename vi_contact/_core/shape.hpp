// Convex shapes of links and obstacles, as the compiled step sees them.
//
// A shape is a polytope swept by a sphere: one vertex is a ball, a segment a capsule; a box or a
// convex mesh has radius zero.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "joints.hpp"

namespace vi_contact {

struct Shape {
  int link;   // -1 for the world
  Pose X_LS;  // its frame in that of the link
  double radius;
  std::vector<Vector3> vertices;  // in the frame of the link, as all that follows
  std::vector<std::array<int, 2>> edges;
  struct Face {
    Vector3 normal;
    std::vector<int> loop;  // vertices, anticlockwise seen from outside
  };
  std::vector<Face> faces;
  Vector3 centre = Vector3::Zero();
  double reach = 0.0;  // from the centre to the farthest point
  double depth = 0.0;  // from the centre to the nearest face

  void finish() {
    for (const Vector3& v : vertices) centre += v / static_cast<double>(vertices.size());
    for (const Vector3& v : vertices) reach = std::max(reach, (v - centre).norm());
    depth = faces.empty() ? 0.0 : reach;
    for (const Face& face : faces) {
      depth = std::min(depth, face.normal.dot(vertices[face.loop[0]] - centre));
    }
    reach += radius, depth += radius;
  }
  bool is_ball() const { return vertices.size() == 1; }
};

struct ShapePair {
  int A, B;  // shapes
  double friction;
  int name;  // of the links that meet; several pairs may have the same
};

// Signed distance of two shapes, its normal from A to B and the points nearest to each other.
struct Separation {
  double distance;
  Vector3 normal, p_A, p_B;
};

// From the pair and the rotations and positions of both shapes' frames: the collision library.
using Separator = std::function<Separation(int pair, const Matrix3& R_WA, const Vector3& p_WA,
                                           const Matrix3& R_WB, const Vector3& p_WB)>;

}  // namespace vi_contact
