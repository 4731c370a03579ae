// Where two convex shapes may touch: pairs of features, and the gap between them.
//
// For each pair of features the gap is a closed expression of the poses, exact at any pose while
// the same features meet:
//
//   face A, point b      g = n.(p_b - p_a) - r        n = R_A n_A
//   point a, point b     g = |p_b - p_a| - r          n = (p_b - p_a) / |p_b - p_a|
//   line A, point b      g = |d - e.d e| - r          d = p_b - p_a,  e = R_A e_A
//   line A, line B       g = n.(p_b - p_a) - r        n = +-e_A x e_B / |e_A x e_B|
//
// r is the sum of both radii, n points from A to B. Which features meet follows from the normal of
// the shapes' distance, which the collision library gives (`Separation`).
#pragma once

#include <cmath>

#include "kinematics.hpp"

namespace vi_contact {

// The normal counts as that of a face within this angle (cosine); clipping finds what touches.
inline constexpr double face_cosine = 0.99;

// Edges that cross at a smaller angle (sine) touch along their length.
inline constexpr double parallel_sine = 0.05;

// Of the size of a shape: points that are this close to a border lie on it.
inline constexpr double border = 1e-6;

// Contact points of one pair of shapes at most.
inline constexpr int most_points = 8;

enum class Meeting { plane, points, line_point, lines };

// Two features that may touch.
struct FeaturePair {
  Meeting kind = Meeting::plane;
  int pair = 0;
  int A = world, B = world;                              // links
  bool swapped = false;                                  // A is the link of the pair's second shape
  Vector3 a, b;                                          // points in the frames of the links
  Vector3 e_A = Vector3::Zero(), e_B = Vector3::Zero();  // normal of a face, or lines
  double r_A = 0.0, r_B = 0.0;
  double sign = 1.0;  // of e_A x e_B
  double key = 0.0;   // the same from step to step while the same features meet
};

// The world's own frame, or that of a link.
inline const Frame& frame_of(int link, const Frames& frames) {
  static const Frame fixed{Quaternion::Identity(), Matrix3::Identity(), Vector3::Zero(),
                           Vector3::Zero(),        Vector3::Zero(),     Vector3::Zero(),
                           Matrix3::Zero()};
  return link == world ? fixed : frames[link];
}

// Gap, normal and a point on the line of the normal force.
struct Gap {
  double g;
  Vector3 n, point;  // the point lies on the surface of B
};

inline Gap gap_between(const FeaturePair& f, const Frame& A, const Frame& B) {
  const Vector3 p_a = A.p + A.R * f.a, p_b = B.p + B.R * f.b;
  const double r = f.r_A + f.r_B;
  const Vector3 d = p_b - p_a;
  if (f.kind == Meeting::plane) {
    const Vector3 n = A.R * f.e_A;
    return {n.dot(d) - r, n, p_b - f.r_B * n};
  }
  if (f.kind == Meeting::lines) {
    const Vector3 e = A.R * f.e_A, k = B.R * f.e_B;
    const Vector3 n = f.sign * e.cross(k).normalized();
    // the foot on line B: d + t k is across e in the plane of both lines
    const Vector3 across = n.cross(e);
    const double t = -across.dot(d) / across.dot(k);
    return {n.dot(d) - r, n, p_b + t * k - f.r_B * n};
  }
  Vector3 away = d;
  if (f.kind == Meeting::line_point) {
    const Vector3 e = A.R * f.e_A;
    away -= e.dot(d) * e;
  }
  const double length = away.norm();
  const Vector3 n = length > 0.0 ? Vector3(away / length) : Vector3(Vector3::UnitZ());
  return {length - r, n, p_b - f.r_B * n};
}

// ------------------------------------------------------------------------------- features
class FeatureFinder {
 public:
  // The features of a pair that meet along the normal, at given poses of the links.
  void find(int pair, const Shape& A, const Frame& X_A, const Shape& B, const Frame& X_B,
            const Separation& at, std::vector<FeaturePair>& out) {
    pair_ = pair;
    const size_t first = out.size();
    const Side a{A, X_A, false}, b{B, X_B, true};
    double cosine_A, cosine_B;
    const int face_A = best_face(a, at.normal, cosine_A);
    const int face_B = best_face(b, -at.normal, cosine_B);
    if (std::max(cosine_A, cosine_B) > face_cosine) {
      // A keeps the face where both would do
      if (cosine_A > cosine_B - 1e-3) {
        faces(a, face_A, b, out);
      } else {
        faces(b, face_B, a, out);
      }
    }
    // what its features say must be the distance; a prism's faces, say, stand at small angles
    const double doubt = 1e-4 * std::min(A.reach, B.reach) + 0.02 * std::abs(at.distance);
    const auto fits = [&] {
      double smallest = infinity;
      for (size_t i = first; i < out.size(); ++i) {
        const Frame &left = out[i].swapped ? X_B : X_A, &right = out[i].swapped ? X_A : X_B;
        smallest = std::min(smallest, gap_between(out[i], left, right).g);
      }
      return std::abs(smallest - at.distance) < doubt;
    };
    if (!fits()) {
      out.resize(first);
      edges(a, b, at.normal, out);
    }
    if (!fits()) {  // the plane between the nearest points
      out.resize(first);
      FeaturePair f;
      begin(f, Meeting::plane, a, b, 0);
      f.a = X_A.R.transpose() * (at.p_A - X_A.p);
      f.b = X_B.R.transpose() * (at.p_B - X_B.p);
      f.e_A = X_A.R.transpose() * at.normal;
      f.r_A = f.r_B = 0.0;
      out.push_back(f);
    }
  }

 private:
  struct Side {
    const Shape& shape;
    const Frame& frame;
    bool second;
    Vector3 at(int vertex) const { return frame.p + frame.R * shape.vertices[vertex]; }
    Vector3 local(const Vector3& p) const { return frame.R.transpose() * (p - frame.p); }
  };
  struct Corner {
    Vector3 p;
    int code;
  };

  void begin(FeaturePair& f, Meeting kind, const Side& a, const Side& b, int code) const {
    f.kind = kind, f.pair = pair_;
    f.A = a.shape.link, f.B = b.shape.link, f.swapped = a.second;
    f.r_A = a.shape.radius, f.r_B = b.shape.radius;
    f.key = ((pair_ * 4.0 + static_cast<int>(kind)) * 2.0 + a.second) * 1048576.0 + code;
  }

  static int best_face(const Side& side, const Vector3& n, double& cosine) {
    cosine = -2.0;
    int best = -1;
    const Vector3 local = side.frame.R.transpose() * n;
    for (size_t i = 0; i < side.shape.faces.size(); ++i) {
      const double c = side.shape.faces[i].normal.dot(local);
      if (c > cosine + 1e-9) cosine = c, best = static_cast<int>(i);
    }
    return best;
  }

  // Points of B over a face of A: B's face that looks at it most, its segment or its vertex, cut
  // off where the face of A ends.
  void faces(const Side& a, int face, const Side& b, std::vector<FeaturePair>& out) {
    const Shape::Face& F = a.shape.faces[face];
    const Vector3 n = a.frame.R * F.normal;
    polygon_.clear();
    double cosine;
    const int other = best_face(b, -n, cosine);
    if (other >= 0) {
      for (int v : b.shape.faces[other].loop) polygon_.push_back({b.at(v), v});
    } else {
      for (size_t v = 0; v < b.shape.vertices.size(); ++v) {
        polygon_.push_back({b.at(static_cast<int>(v)), static_cast<int>(v)});
      }
    }
    const double slack = border * std::min(a.shape.reach, b.shape.reach);
    const int sides = static_cast<int>(F.loop.size());
    for (int i = 0; i < sides && !polygon_.empty(); ++i) {
      const Vector3 p = a.at(F.loop[i]), q = a.at(F.loop[(i + 1) % sides]);
      clip(p, (q - p).cross(n).normalized(), slack, i);
    }
    reduce(n);
    const Vector3 p_a = a.at(F.loop[0]);
    for (const Corner& corner : polygon_) {
      FeaturePair f;
      begin(f, Meeting::plane, a, b, corner.code);
      f.b = b.local(corner.p);
      f.a = a.local(corner.p - n.dot(corner.p - p_a) * n);
      f.e_A = F.normal;
      out.push_back(f);
    }
  }

  // Keeps the part of the polygon (or segment, or point) with outward.(x - p) <= slack.
  void clip(const Vector3& p, const Vector3& outward, double slack, int side) {
    clipped_.clear();
    const int n = static_cast<int>(polygon_.size());
    for (int i = 0; i < n; ++i) {
      const Corner &u = polygon_[i], &v = polygon_[(i + 1) % n];
      const double du = outward.dot(u.p - p), dv = outward.dot(v.p - p);
      if (du <= slack) clipped_.push_back(u);
      const bool crosses = (du > slack) != (dv > slack);
      if (!crosses || (n == 2 && i == 1) || n == 1) continue;
      const double t = du / (du - dv);
      const int code = 1000 + 64 * (std::min(u.code, v.code) % 1000) + side % 64;
      clipped_.push_back({u.p + std::clamp(t, 0.0, 1.0) * (v.p - u.p), code});
    }
    if (n == 2 && clipped_.size() > 2) clipped_.resize(2);
    std::swap(polygon_, clipped_);
  }

  // Drops double points; of many keeps those farthest out in evenly spread directions.
  void reduce(const Vector3& n) {
    clipped_.clear();
    for (const Corner& c : polygon_) {
      const bool twice = std::any_of(clipped_.begin(), clipped_.end(), [&](const Corner& o) {
        return (o.p - c.p).squaredNorm() < 1e-16;
      });
      if (!twice) clipped_.push_back(c);
    }
    polygon_.clear();
    if (static_cast<int>(clipped_.size()) <= most_points) {
      std::swap(polygon_, clipped_);
      return;
    }
    const Vector3 x = n.unitOrthogonal(), y = n.cross(x);
    std::vector<int> taken;
    for (int k = 0; k < most_points; ++k) {
      const double angle = k * 2.0 * pi / most_points;
      const Vector3 direction = std::cos(angle) * x + std::sin(angle) * y;
      int best = 0;
      for (size_t i = 1; i < clipped_.size(); ++i) {
        if (direction.dot(clipped_[i].p) > direction.dot(clipped_[best].p) + 1e-12) {
          best = static_cast<int>(i);
        }
      }
      if (std::find(taken.begin(), taken.end(), best) == taken.end()) taken.push_back(best);
    }
    for (int i : taken) polygon_.push_back(clipped_[i]);
  }

  // Edges and vertices of a shape that are farthest along a direction, as segments.
  static void outermost(const Side& side, const Vector3& n, std::vector<std::array<int, 2>>& out) {
    const Vector3 local = side.frame.R.transpose() * n;
    out.clear();
    if (side.shape.edges.empty()) {
      out.push_back({0, 0});
      return;
    }
    double most = -infinity;
    for (const Vector3& v : side.shape.vertices) most = std::max(most, local.dot(v));
    const double near = most - 0.1 * side.shape.reach;
    for (const auto& edge : side.shape.edges) {
      const double u = local.dot(side.shape.vertices[edge[0]]);
      const double v = local.dot(side.shape.vertices[edge[1]]);
      if (std::max(u, v) >= near) out.push_back(edge);
    }
  }

  // The two segments, one of each shape, that are nearest to each other along the normal.
  void edges(const Side& a, const Side& b, const Vector3& n, std::vector<FeaturePair>& out) {
    outermost(a, n, of_A_), outermost(b, -n, of_B_);
    double best = infinity;
    Closest found{};
    std::array<int, 2> edge_A{}, edge_B{};
    for (const auto& i : of_A_) {
      for (const auto& k : of_B_) {
        const Closest c = closest(a.at(i[0]), a.at(i[1]), b.at(k[0]), b.at(k[1]));
        if (c.square < best - 1e-14) best = c.square, found = c, edge_A = i, edge_B = k;
      }
    }
    const Vector3 A0 = a.at(edge_A[0]), A1 = a.at(edge_A[1]);
    const Vector3 B0 = b.at(edge_B[0]), B1 = b.at(edge_B[1]);
    const Vector3 e = A1 - A0, k = B1 - B0;
    const bool line_A = edge_A[0] != edge_A[1], line_B = edge_B[0] != edge_B[1];
    if (line_A && line_B) {
      const Vector3 cross = e.cross(k);
      if (cross.norm() < parallel_sine * e.norm() * k.norm()) {
        parallel(a, edge_A, b, edge_B, out);
        if (!out.empty() && out.back().pair == pair_) return;
      }
    }
    const bool inner_A = line_A && found.s > 0.0 && found.s < 1.0;
    const bool inner_B = line_B && found.t > 0.0 && found.t < 1.0;
    const int code = (std::min(edge_A[0], edge_A[1]) % 1000) * 1000 + edge_B[0] % 1000;
    FeaturePair f;
    const Vector3 p_a = A0 + found.s * e, p_b = B0 + found.t * k;
    if (inner_A && inner_B) {
      begin(f, Meeting::lines, a, b, code);
      f.a = a.local(p_a), f.b = b.local(p_b);
      f.e_A = a.frame.R.transpose() * e.normalized();
      f.e_B = b.frame.R.transpose() * k.normalized();
      f.sign = e.cross(k).dot(n) < 0.0 ? -1.0 : 1.0;
    } else if (inner_B) {
      begin(f, Meeting::line_point, b, a, code);
      f.a = b.local(p_b), f.b = a.local(p_a);
      f.e_A = b.frame.R.transpose() * k.normalized();
    } else if (inner_A) {
      begin(f, Meeting::line_point, a, b, code);
      f.a = a.local(p_a), f.b = b.local(p_b);
      f.e_A = a.frame.R.transpose() * e.normalized();
    } else {
      begin(f, Meeting::points, a, b, code);
      f.a = a.local(p_a), f.b = b.local(p_b);
    }
    out.push_back(f);
  }

  // Two segments side by side: the ends of the length that they share.
  void parallel(const Side& a, const std::array<int, 2>& edge_A, const Side& b,
                const std::array<int, 2>& edge_B, std::vector<FeaturePair>& out) {
    const auto add = [&](const Side& line, const std::array<int, 2>& edge, const Side& point,
                         int vertex) {
      const Vector3 p = line.at(edge[0]), e = line.at(edge[1]) - p;
      const Vector3 q = point.at(vertex);
      const double t = e.dot(q - p) / e.squaredNorm();
      if (t < 0.0 || t > 1.0) return;
      FeaturePair f;
      begin(f, Meeting::line_point, line, point, vertex);
      f.a = line.local(p + t * e), f.b = point.local(q);
      f.e_A = line.frame.R.transpose() * e.normalized();
      out.push_back(f);
    };
    for (int v : edge_B) add(a, edge_A, b, v);
    for (int v : edge_A) add(b, edge_B, a, v);
  }

  struct Closest {
    double square, s, t;
  };

  // Nearest points p + s (q - p), u + t (v - u) of two segments.
  static Closest closest(const Vector3& p, const Vector3& q, const Vector3& u, const Vector3& v) {
    const Vector3 d = q - p, e = v - u, r = p - u;
    const double dd = d.dot(d), ee = e.dot(e), de = d.dot(e), dr = d.dot(r), er = e.dot(r);
    double s = 0.0, t = 0.0;
    if (dd > 0.0 && ee > 0.0) {
      const double determinant = dd * ee - de * de;
      s = determinant > 1e-12 * dd * ee ? std::clamp((de * er - dr * ee) / determinant, 0.0, 1.0)
                                        : 0.0;
      t = (de * s + er) / ee;
      if (t < 0.0) {
        t = 0.0, s = std::clamp(-dr / dd, 0.0, 1.0);
      } else if (t > 1.0) {
        t = 1.0, s = std::clamp((de - dr) / dd, 0.0, 1.0);
      }
    } else if (dd > 0.0) {
      s = std::clamp(-dr / dd, 0.0, 1.0);
    } else if (ee > 0.0) {
      t = std::clamp(er / ee, 0.0, 1.0);
    }
    return {(r + s * d - t * e).squaredNorm(), s, t};
  }

  int pair_ = 0;
  std::vector<Corner> polygon_, clipped_;
  std::vector<std::array<int, 2>> of_A_, of_B_;
};

}  // namespace vi_contact
