// Block elimination along the tree, leaves first: the Newton step at a cost linear in the links.
//
// A pose increment xi (world axes, at the link's origin) changes the wrench that a link and all
// that hangs on it ask for by dF = K xi + g. Forces act at the left node of the interval and poses
// move at its right node, so left maps (A0, N) and right maps (A1, S) differ and K is unsymmetric:
//
//   xi_c = A1 xi_p + S dq,   N' dF_c + kappa dq = -r     (joint c with parent p)
//   d = N' K_c S + kappa,    U = K_c S,    W = d^-1 N' K_c
//   K_p += A0' (K_c - U W) A1,    g_p += A0' (g_c + U y),    y = d^-1 (-r - N' g_c)
//   dq = y - W A1 xi_p
//
// A = [I, -[r]x; 0, I] moves a twist from the parent's origin to the child's.
// With both nodes the same and masses for tangents this is the articulated-body algorithm.
#pragma once

#include <algorithm>

#include "wheels.hpp"

namespace vi_contact {

// LU decomposition with row exchanges of a small matrix, written out for speed.
template <int n>
struct SmallLU {
  Eigen::Matrix<double, n, n> lu;
  double inverse[n];  // of the pivots
  int order[n];

  bool compute(const Eigen::Matrix<double, n, n>& m) {
    lu = m;
    for (int k = 0; k < n; ++k) {
      int best = k;
      for (int i = k + 1; i < n; ++i) {
        if (std::abs(lu(i, k)) > std::abs(lu(best, k))) best = i;
      }
      order[k] = best;
      if (!(std::abs(lu(best, k)) > 0.0)) return false;
      if (best != k) {
        for (int j = 0; j < n; ++j) std::swap(lu(k, j), lu(best, j));
      }
      inverse[k] = 1.0 / lu(k, k);
      for (int i = k + 1; i < n; ++i) lu(i, k) *= inverse[k];
      for (int j = k + 1; j < n; ++j) {
        for (int i = k + 1; i < n; ++i) lu(i, j) -= lu(i, k) * lu(k, j);
      }
    }
    return true;
  }

  template <typename Vector>
  void solve_in_place(Vector&& x) const {
    for (int k = 0; k < n; ++k) std::swap(x[k], x[order[k]]);
    for (int k = 0; k < n; ++k) {
      for (int i = k + 1; i < n; ++i) x[i] -= lu(i, k) * x[k];
    }
    for (int k = n - 1; k >= 0; --k) {
      x[k] *= inverse[k];
      for (int i = 0; i < k; ++i) x[i] -= lu(i, k) * x[k];
    }
  }
};

// A joint that moves less than this part of the inertia it would with all others held has none but
// round-off, of sums or of the file's angles (1.5708 for pi / 2 leaves 1e-11): the matrix is
// singular.
inline constexpr double least_inertia = 1e-10;

// Of that, for joints that turn about every axis: a light rod on a ball joint has little inertia
// about itself beside what it carries, and only round-off is none.
inline constexpr double least_of_several = 1e-4;

class Elimination {
 public:
  explicit Elimination(const Model& model)
      : model_(model),
        pivots_(model.size()),
        filled_(model.size()),
        dense_(model.dense),
        g_(model.size()),
        xi_(model.size()),
        y_(model.nv),
        stiff_(model.size()),
        kappa(VectorX::Zero(model.nv)),
        kappa_dense(model.dense, Matrix6::Zero()),
        floor(VectorX::Zero(model.nv)) {}

 private:
  struct Pivot {
    Matrix6 K;
    Vector6 U, W;            // of a joint with one coordinate
    Vector3 a0, a1, r0, r1;  // axis and lever at either node
    double inverse;
  };
  struct DensePivot {
    Matrix6 N, S, U, W;  // the first nv columns, of W the first nv rows
    Matrix3 R0, R1;      // of the base at either node
    Vector6 diagonal;    // of what lu3 or lu6 decomposes
    SmallLU<3> lu3;
    SmallLU<6> lu6;
  };

  const Model& model_;
  std::vector<Pivot> pivots_;
  std::vector<char> filled_;  // whether K of the link holds a part of the sum yet
  std::vector<DensePivot> dense_;
  std::vector<Vector6> g_, xi_;
  VectorX y_;
  std::vector<Matrix6> stiff_;
  std::vector<int> stiff_links_;
  const Frames *left_ = nullptr, *right_ = nullptr;
  double inverse_h_ = 1.0;
  int singular_ = world;

 public:
  VectorX kappa;                     // tangent of each joint's own force, one coordinate
  std::vector<Matrix6> kappa_dense;  // the same of joints with several coordinates
  bool driven_base = false;          // whether a free base has a tangent of its own
  VectorX floor;                     // least inertia of each coordinate, see `least_inertia`

  // Blocks to add to single links, such as those of contacts, in every factorisation that follows.
  Matrix6& stiffen(int link) {
    if (std::find(stiff_links_.begin(), stiff_links_.end(), link) == stiff_links_.end()) {
      stiff_links_.push_back(link);
      stiff_[link].setZero();
    }
    return stiff_[link];
  }
  void clear_stiff() { stiff_links_.clear(); }

  int singular_link() const { return singular_; }  // whose joint the last factorisation stopped at

  // The Newton matrix of a step: D = d(left momentum) / d(pose at the right node).
  [[gnu::flatten]] bool factor_step(const Frames& left, const Frames& right,
                                    const std::vector<Turn>& turns, const Spins& spins,
                                    double inverse_h) {
    begin(left, right, inverse_h);
    for (int i = model_.size() - 1; i >= 0; --i) {
      const Link& link = model_.links[i];
      if (link.wheel >= 0) {
        if (!eliminate_wheel(i, turns[i], spins[link.wheel], inverse_h)) return false;
        continue;
      }
      const Matrix3 D = turn_tangent<world_axes>(left[i].J, turns[i]);
      add_body(i, inverse_h * link.mass, inverse_h * D);
      if (!eliminate(i)) return false;
    }
    return true;
  }

  // The mass matrix at one node.
  [[gnu::flatten]] bool factor_mass(const Frames& frames) {
    begin(frames, frames, 1.0);
    const bool symmetric = stiff_links_.empty();
    for (int i = model_.size() - 1; i >= 0; --i) {
      const Link& link = model_.links[i];
      add_body(i, link.mass, frames[i].J);
      if (!(symmetric ? eliminate_symmetric(i) : eliminate(i))) return false;
    }
    return true;
  }

  // Solves for the joint increments dq (axes of the child, right node) that answer the residuals r
  // (axes of the child, left node).
  void solve(const double* r, double* dq) {
    climb(r);
    descend(dq);
  }

  // The first half of it, towards the root.
  [[gnu::flatten]] void climb(const double* r) {
    for (Vector6& g : g_) g.setZero();
    for (int i = model_.size() - 1; i >= 0; --i) up(i, r + model_.links[i].v);
  }
  // The same along a path (links in order, with all their ancestors), with wrenches g on the links
  // (left origins) as well; elsewhere there are none.
  [[gnu::flatten]] void climb(const std::vector<int>& path, const double* r,
                              const std::vector<Wrench>& g) {
    for (int i : path) g_[i] << g[i].linear, g[i].angular;
    for (auto i = path.rbegin(); i != path.rend(); ++i) up(*i, r + model_.links[*i].v);
  }

  // The second half, from the root, or of links that hang on others that are done. Afterwards
  // `twist` gives the increments of the links.
  [[gnu::flatten]] void descend(double* dq) {
    for (int i = 0; i < model_.size(); ++i) down(i, dq + model_.links[i].v);
  }
  [[gnu::flatten]] void descend(const std::vector<int>& links, double* dq) {
    for (int i : links) down(i, dq + model_.links[i].v);
  }

  const Vector6& twist(int i) const { return xi_[i]; }
  Vector6& twist(int i) { return xi_[i]; }

  // Diagonal entry of a joint's own block: after `factor_mass` the inertia that it moves.
  double inertia(const Link& link, int j) const {
    const int i = static_cast<int>(&link - model_.links.data());
    return std::abs(link.nv == 1 ? 1.0 / pivots_[i].inverse : dense_[link.dense].diagonal[j]);
  }

 private:
  void begin(const Frames& left, const Frames& right, double inverse_h) {
    inverse_h_ = inverse_h;
    left_ = &left, right_ = &right;
    std::fill(filled_.begin(), filled_.end(), false);
    for (int i : stiff_links_) pivots_[i].K = stiff_[i], filled_[i] = true;
  }

  // D moved from the centre of mass to the link's origin:
  //   [m I, -m [c1]x; m [c0]x, D - m [c0]x [c1]x],   -[b]x [c1]x = (b.c1) I - c1 b'
  void add_body(int i, double m, const Matrix3& D) {
    Matrix6& K = pivots_[i].K;
    if (!filled_[i]) K.setZero();
    const Vector3& c1 = (*right_)[i].c;
    const Vector3 a = m * c1, b = m * (*left_)[i].c;
    const double bc = b.dot(c1);
    K(0, 0) += m, K(1, 1) += m, K(2, 2) += m;
    K(0, 4) += a.z(), K(0, 5) -= a.y(), K(1, 5) += a.x();
    K(1, 3) -= a.z(), K(2, 3) += a.y(), K(2, 4) -= a.x();
    K(3, 1) -= b.z(), K(3, 2) += b.y(), K(4, 2) -= b.x();
    K(4, 0) += b.z(), K(5, 0) -= b.y(), K(5, 1) += b.x();
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 3; ++k) K(3 + k, 3 + j) += D(k, j) - c1[k] * b[j];
      K(3 + j, 3 + j) += bc;
    }
  }

  bool is_singular(double pivot, int i) {
    if (std::abs(pivot) > inverse_h_ * floor[model_.links[i].v]) return false;
    singular_ = i;
    return true;
  }

  template <int n>
  bool is_singular(const SmallLU<n>& lu, int i) {
    for (int j = 0; j < n; ++j) {
      if (1.0 > std::abs(lu.inverse[j]) * inverse_h_ * floor[model_.links[i].v + j]) continue;
      singular_ = i;
      return true;
    }
    return false;
  }

  bool eliminate(int i) {
    const Link& link = model_.links[i];
    pivots_[i].r0 = (*left_)[i].r, pivots_[i].r1 = (*right_)[i].r;
    if (link.nv == 3) return eliminate_dense<3>(i);
    if (link.nv == 6) return link.parent == world ? eliminate_base(i) : eliminate_dense<6>(i);
    Pivot& pivot = pivots_[i];
    Matrix6& K = pivot.K;
    const Vector3 &a0 = pivot.a0 = (*left_)[i].a, &a1 = pivot.a1 = (*right_)[i].a;
    const int at = link.kind == JointKind::revolute ? 3 : 0;
    pivot.U = a1[0] * K.col(at) + a1[1] * K.col(at + 1) + a1[2] * K.col(at + 2);
    const double d =
        a0[0] * pivot.U[at] + a0[1] * pivot.U[at + 1] + a0[2] * pivot.U[at + 2] + kappa[link.v];
    if (is_singular(d, i)) return false;
    pivot.inverse = 1.0 / d;
    if (link.parent == world) return true;
    const Vector3 scaled = pivot.inverse * a0;
    for (int j = 0; j < 6; ++j) {
      pivot.W[j] = scaled[0] * K(at, j) + scaled[1] * K(at + 1, j) + scaled[2] * K(at + 2, j);
    }
    for (int j = 0; j < 6; ++j) K.col(j) -= pivot.W[j] * pivot.U;
    add_to_parent(i);
    return true;
  }

  // A wheel: with l = A b / h, its wrench has the parts D_c dphi_p + l dq, and its joint's row
  // l.dphi_p + (A / h) dq, besides those of its mass and of what is not symmetric about the axis
  // (dphi_p: turn of the carrier).
  bool eliminate_wheel(int i, const Turn& turn, const Spin& spin, double inverse_h) {
    const Link& link = model_.links[i];
    const Wheel& wheel = model_.wheels[link.wheel];
    const Frame& left = (*left_)[i];
    const Matrix3 D = turn_tangent<world_axes>(unbalance(wheel, left), spin.unbalance);
    add_body(i, inverse_h * link.mass, inverse_h * D);
    Pivot& pivot = pivots_[i];
    Matrix6& K = pivot.K;
    pivot.r0 = left.r, pivot.r1 = (*right_)[i].r;
    const Vector3 &a0 = pivot.a0 = left.a, &a1 = pivot.a1 = (*right_)[i].a;
    const Vector3 l = inverse_h * wheel.axial * spin.axis;
    pivot.U = K.rightCols<3>() * a1;
    const double d = a0.dot(pivot.U.tail<3>()) + inverse_h * wheel.axial + kappa[link.v];
    if (is_singular(d, i)) return false;
    pivot.inverse = 1.0 / d;
    if (link.parent == world) return true;
    pivot.W = pivot.inverse * (K.bottomRows<3>().transpose() * a0);
    pivot.W.tail<3>() += pivot.inverse * l;
    pivot.U.tail<3>() += l;
    K.bottomRightCorner<3, 3>() += inverse_h * carrier_tangent(wheel, left, turn, spin);
    K -= pivot.U * pivot.W.transpose();
    add_to_parent(i);
    return true;
  }

  // The same where K is symmetric: only its lower triangle is read and kept up to date.
  bool eliminate_symmetric(int i) {
    const Link& link = model_.links[i];
    Pivot& pivot = pivots_[i];
    Matrix6& K = pivot.K;
    if (link.nv > 1) {
      for (int j = 0; j < 6; ++j) {
        for (int k = j + 1; k < 6; ++k) K(j, k) = K(k, j);
      }
      return eliminate(i);
    }
    const Vector3& a = pivot.a0 = pivot.a1 = (*left_)[i].a;
    const Vector3& r = pivot.r0 = pivot.r1 = (*left_)[i].r;
    const int at = link.kind == JointKind::revolute ? 3 : 0;
    const auto entry = [&K](int j, int k) { return j < k ? K(k, j) : K(j, k); };
    for (int j = 0; j < 6; ++j) {
      pivot.U[j] = a[0] * entry(j, at) + a[1] * entry(j, at + 1) + a[2] * entry(j, at + 2);
    }
    const double d =
        a[0] * pivot.U[at] + a[1] * pivot.U[at + 1] + a[2] * pivot.U[at + 2] + kappa[link.v];
    if (is_singular(d, i)) return false;
    pivot.inverse = 1.0 / d;
    if (link.parent == world) return true;
    pivot.W = pivot.inverse * pivot.U;
    for (int j = 0; j < 6; ++j) {
      for (int k = j; k < 6; ++k) K(k, j) -= pivot.W[j] * pivot.U[k];
    }
    // [M, B'; B, C] moved by r: B1 = B + [r]x M, C1 = C - ([B [r]x)' - B1 [r]x
    Matrix6& P = pivots_[link.parent].K;
    Matrix3 B, BX;
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 3; ++k) B(k, j) = K(3 + k, j);
    }
    const auto times_r = [&r](const Matrix3& m, int k, int j) {
      const int j1 = (j + 1) % 3, j2 = (j + 2) % 3;
      return r[j2] * m(k, j1) - r[j1] * m(k, j2);
    };
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 3; ++k) BX(k, j) = times_r(B, k, j);
    }
    for (int j = 0; j < 3; ++j) {
      const double x = entry(0, j), y = entry(1, j), z = entry(2, j);
      B(0, j) += r.y() * z - r.z() * y;
      B(1, j) += r.z() * x - r.x() * z;
      B(2, j) += r.x() * y - r.y() * x;
    }
    const bool filled = filled_[link.parent];
    const auto add = [filled](double& sum, double value) { sum = filled ? sum + value : value; };
    for (int j = 0; j < 3; ++j) {
      for (int k = j; k < 3; ++k) {
        add(P(k, j), K(k, j));
        add(P(3 + k, 3 + j), K(3 + k, 3 + j) - BX(j, k) - times_r(B, k, j));
      }
      for (int k = 0; k < 3; ++k) add(P(3 + k, j), B(k, j));
    }
    filled_[link.parent] = true;
    return true;
  }

  // Several coordinates: N and S hold the joint's axes, the axes of the child at either node.
  template <int n>
  bool eliminate_dense(int i) {
    const Link& link = model_.links[i];
    Pivot& pivot = pivots_[i];
    DensePivot& dense = dense_[link.dense];
    motion_subspace(link, (*left_)[i].R, dense.N);
    motion_subspace(link, (*right_)[i].R, dense.S);
    const Matrix6& K = pivot.K;
    const auto N = dense.N.leftCols<n>();
    dense.U.leftCols<n>() = K.lazyProduct(dense.S.leftCols<n>());
    Eigen::Matrix<double, n, n> d = N.transpose().lazyProduct(dense.U.leftCols<n>());
    d += kappa_dense[link.dense].topLeftCorner<n, n>();
    dense.diagonal.head<n>() = d.diagonal();
    if (!lu<n>(dense).compute(d)) return singular_ = i, false;
    if (is_singular<n>(lu<n>(dense), i)) return false;
    if (link.parent == world) return true;
    dense.W.topRows<n>() = N.transpose().lazyProduct(K);
    for (int j = 0; j < 6; ++j) lu<n>(dense).solve_in_place(dense.W.col(j).head<n>());
    pivot.K -= dense.U.leftCols<n>().lazyProduct(dense.W.topRows<n>());
    add_to_parent(i);
    return true;
  }

  // A free base, in world axes: N and S are turned identities and drop out.
  bool eliminate_base(int i) {
    DensePivot& dense = dense_[model_.links[i].dense];
    Matrix6& K = pivots_[i].K;
    const Matrix6& kappa = kappa_dense[model_.links[i].dense];
    const Matrix3 &R0 = dense.R0 = (*left_)[i].R, &R1 = dense.R1 = (*right_)[i].R;
    if (driven_base) {
      for (int j = 0; j < 6; j += 3) {
        for (int k = 0; k < 6; k += 3) {
          K.block<3, 3>(j, k) += R0 * kappa.block<3, 3>(j, k) * R1.transpose();
        }
      }
    }
    dense.diagonal = K.diagonal();
    if (!dense.lu6.compute(K)) return singular_ = i, false;
    return !is_singular<6>(dense.lu6, i);
  }

  template <int n>
  static SmallLU<n>& lu(DensePivot& dense) {
    if constexpr (n == 3) {
      return dense.lu3;
    } else {
      return dense.lu6;
    }
  }

  static void motion_subspace(const Link& link, const Matrix3& R, Matrix6& S) {
    S.setZero();
    switch (link.kind) {
      case JointKind::spherical:
        S.block<3, 3>(3, 0) = R;
        break;
      case JointKind::planar:
        S.block<3, 2>(0, 0) = R.leftCols<2>();
        S.block<3, 1>(3, 2) = R.col(2);
        break;
      default:
        S.block<3, 3>(0, 0) = R;
        S.block<3, 3>(3, 3) = R;
        break;
    }
  }

  // K_p += A0' K A1: columns first, then rows
  void add_to_parent(int i) {
    Matrix6& K = pivots_[i].K;
    Matrix6& P = pivots_[model_.links[i].parent].K;
    const Vector3 &r0 = pivots_[i].r0, &r1 = pivots_[i].r1;
    K.col(3) -= r1.z() * K.col(1) - r1.y() * K.col(2);
    K.col(4) -= r1.x() * K.col(2) - r1.z() * K.col(0);
    K.col(5) -= r1.y() * K.col(0) - r1.x() * K.col(1);
    for (int j = 0; j < 6; ++j) {
      const double x = K(0, j), y = K(1, j), z = K(2, j);
      K(3, j) += r0.y() * z - r0.z() * y;
      K(4, j) += r0.z() * x - r0.x() * z;
      K(5, j) += r0.x() * y - r0.y() * x;
    }
    if (filled_[model_.links[i].parent]) {
      P += K;
    } else {
      P = K;
      filled_[model_.links[i].parent] = true;
    }
  }

  void up(int i, const double* r) {
    const Link& link = model_.links[i];
    Vector6& g = g_[i];
    if (link.nv == 1) {
      const Pivot& pivot = pivots_[i];
      const Vector3& a0 = pivot.a0;
      const int at = link.kind == JointKind::revolute ? 3 : 0;
      const double along = a0[0] * g[at] + a0[1] * g[at + 1] + a0[2] * g[at + 2];
      const double y = -pivot.inverse * (r[0] + along);
      y_[link.v] = y;
      if (link.parent == world) return;
      g += y * pivot.U;
    } else if (link.nv == 3) {
      up_dense<3>(link, r, g);
    } else if (link.parent == world) {
      const Matrix3& R0 = dense_[link.dense].R0;
      g.head<3>() += R0 * Eigen::Map<const Vector3>(r);
      g.tail<3>() += R0 * Eigen::Map<const Vector3>(r + 3);
      dense_[link.dense].lu6.solve_in_place(g);
      y_.segment<6>(link.v) = -g;
    } else {
      up_dense<6>(link, r, g);
    }
    if (link.parent == world) return;
    Vector6& parent = g_[link.parent];
    const Vector3& r0 = pivots_[i].r0;
    parent[3] += r0.y() * g[2] - r0.z() * g[1];
    parent[4] += r0.z() * g[0] - r0.x() * g[2];
    parent[5] += r0.x() * g[1] - r0.y() * g[0];
    parent += g;
  }

  template <int n>
  void up_dense(const Link& link, const double* r, Vector6& g) {
    using Vector = Eigen::Matrix<double, n, 1>;
    DensePivot& dense = dense_[link.dense];
    Vector y = -Eigen::Map<const Vector>(r);
    y -= dense.N.leftCols<n>().transpose().lazyProduct(g);
    lu<n>(dense).solve_in_place(y);
    y_.segment<n>(link.v) = y;
    if (link.parent == world) return;
    g += dense.U.leftCols<n>().lazyProduct(y);
  }

  void down(int i, double* dq) {
    const Link& link = model_.links[i];
    Vector6& xi = xi_[i];
    if (link.parent == world) {
      xi.setZero();
    } else {
      const Vector6& parent = xi_[link.parent];
      const Vector3& r1 = pivots_[i].r1;
      xi = parent;
      xi[0] += parent[4] * r1.z() - parent[5] * r1.y();
      xi[1] += parent[5] * r1.x() - parent[3] * r1.z();
      xi[2] += parent[3] * r1.y() - parent[4] * r1.x();
    }
    if (link.nv == 1) {
      double step = y_[link.v];
      if (link.parent != world) step -= pivots_[i].W.dot(xi);
      dq[0] = step;
      const Vector3& a1 = pivots_[i].a1;
      const int at = link.kind == JointKind::revolute ? 3 : 0;
      for (int j = 0; j < 3; ++j) xi[at + j] += step * a1[j];
    } else if (link.nv == 3) {
      down_dense<3>(link, dq, xi);
    } else if (link.parent == world) {
      const Matrix3& R1 = dense_[link.dense].R1;
      xi = y_.segment<6>(link.v);
      Eigen::Map<Vector3>(dq, 3) = R1.transpose() * xi.head<3>();
      Eigen::Map<Vector3>(dq + 3, 3) = R1.transpose() * xi.tail<3>();
    } else {
      down_dense<6>(link, dq, xi);
    }
  }

  template <int n>
  void down_dense(const Link& link, double* out, Vector6& xi) {
    using Vector = Eigen::Matrix<double, n, 1>;
    const DensePivot& dense = dense_[link.dense];
    Vector dq = y_.segment<n>(link.v);
    if (link.parent != world) dq -= dense.W.topRows<n>().lazyProduct(xi);
    xi += dense.S.leftCols<n>().lazyProduct(dq);
    Eigen::Map<Vector>(out, n) = dq;
  }
};

}  // namespace vi_contact
