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

#include <Eigen/LU>
#include <algorithm>

#include "momentum.hpp"

namespace vi_contact {

struct Block6 {
  Matrix3 ll, la, al, aa;

  void set_zero() { ll.setZero(), la.setZero(), al.setZero(), aa.setZero(); }
  Matrix6 matrix() const {
    Matrix6 m;
    m << ll, la, al, aa;
    return m;
  }
};

// m [r]x, column by column
inline Matrix3 times_skew(const Matrix3& m, const Vector3& r) {
  Matrix3 result;
  result.col(0) = r.z() * m.col(1) - r.y() * m.col(2);
  result.col(1) = r.x() * m.col(2) - r.z() * m.col(0);
  result.col(2) = r.y() * m.col(0) - r.x() * m.col(1);
  return result;
}

// [r]x m
inline Matrix3 skew_times(const Vector3& r, const Matrix3& m) {
  Matrix3 result;
  for (int j = 0; j < 3; ++j) result.col(j) = r.cross(m.col(j));
  return result;
}

class Elimination {
 public:
  explicit Elimination(const Model& model)
      : model_(model),
        pivots_(model.size()),
        dense_(model.dense),
        g_(model.size()),
        xi_(model.size()),
        y_(model.nv),
        stiff_(model.size()),
        kappa(VectorX::Zero(model.nv)),
        kappa_dense(model.dense, Matrix6::Zero()) {}

 private:
  struct Pivot {
    Block6 K;
    Vector3 Ul, Ua, Wl, Wa;  // of a joint with one coordinate
    double inverse;
  };
  struct DensePivot {
    Matrix6 N, S, U, W;  // the first nv columns, of W the first nv rows
    Matrix6 inverse;
  };

  const Model& model_;
  std::vector<Pivot> pivots_;
  std::vector<DensePivot> dense_;
  std::vector<Wrench> g_, xi_;
  VectorX y_;
  std::vector<Block6> stiff_;
  std::vector<int> stiff_links_;
  const Frames *left_ = nullptr, *right_ = nullptr;

 public:
  VectorX kappa;                     // tangent of each joint's own force, one coordinate
  std::vector<Matrix6> kappa_dense;  // the same of joints with several coordinates

  // Blocks to add to single links, such as those of contacts, in every factorisation that follows.
  Block6& stiffen(int link) {
    if (std::find(stiff_links_.begin(), stiff_links_.end(), link) == stiff_links_.end()) {
      stiff_links_.push_back(link);
      stiff_[link].set_zero();
    }
    return stiff_[link];
  }
  void clear_stiff() { stiff_links_.clear(); }

  // The Newton matrix of a step: D = d(left momentum) / d(pose at the right node).
  bool factor_step(const Frames& left, const Frames& right, const std::vector<Turn>& turns,
                   double inverse_h) {
    begin(left, right);
    for (int i = model_.size() - 1; i >= 0; --i) {
      const Link& link = model_.links[i];
      const Matrix3 T = turn_tangent(link.inertia, turns[i]);
      add_body(i, inverse_h * link.mass, inverse_h * (left[i].R * T) * right[i].R.transpose());
      if (!eliminate(i)) return false;
    }
    return true;
  }

  // The mass matrix at one node.
  bool factor_mass(const Frames& frames) {
    begin(frames, frames);
    for (int i = model_.size() - 1; i >= 0; --i) {
      const Link& link = model_.links[i];
      const Matrix3& R = frames[i].R;
      add_body(i, link.mass, (R * link.inertia) * R.transpose());
      if (!eliminate(i)) return false;
    }
    return true;
  }

  // Solves for the joint increments dq (axes of the child, right node) that answer the residuals r
  // (axes of the child, left node) and, where given, the wrenches g on the links (left origins).
  void solve(const double* r, const std::vector<Wrench>* g, double* dq) {
    const int n = model_.size();
    for (int i = 0; i < n; ++i) {
      if (g) {
        g_[i] = (*g)[i];
      } else {
        g_[i].linear.setZero(), g_[i].angular.setZero();
      }
    }
    for (int i = n - 1; i >= 0; --i) up(i, r + model_.links[i].v);
    for (int i = 0; i < n; ++i) down(i, dq + model_.links[i].v);
  }

  // The same along a path (links in order, with all their ancestors); wrenches elsewhere are zero.
  // Afterwards `twist` gives the increments of the links on it.
  void solve_path(const std::vector<int>& path, const double* r, const std::vector<Wrench>& g,
                  double* dq) {
    for (int i : path) g_[i] = g[i];
    for (auto i = path.rbegin(); i != path.rend(); ++i) up(*i, r + model_.links[*i].v);
    for (int i : path) down(i, dq + model_.links[i].v);
  }

  const Wrench& twist(int i) const { return xi_[i]; }

 private:
  void begin(const Frames& left, const Frames& right) {
    left_ = &left, right_ = &right;
    for (Pivot& pivot : pivots_) pivot.K.set_zero();
    for (int i : stiff_links_) pivots_[i].K = stiff_[i];
  }

  // D moved from the centre of mass to the link's origin:
  //   [m I, -m [c1]x; m [c0]x, D - m [c0]x [c1]x]
  void add_body(int i, double m, const Matrix3& D) {
    Block6& K = pivots_[i].K;
    const Vector3 &c0 = (*left_)[i].c, &c1 = (*right_)[i].c;
    K.ll.diagonal().array() += m;
    const Vector3 a = m * c1, b = m * c0;
    K.la(0, 1) += a.z(), K.la(0, 2) -= a.y(), K.la(1, 2) += a.x();
    K.la(1, 0) -= a.z(), K.la(2, 0) += a.y(), K.la(2, 1) -= a.x();
    K.al(0, 1) -= b.z(), K.al(0, 2) += b.y(), K.al(1, 2) -= b.x();
    K.al(1, 0) += b.z(), K.al(2, 0) -= b.y(), K.al(2, 1) += b.x();
    // -[b]x [c1]x = (b.c1) I - c1 b'
    K.aa.noalias() += D - c1 * b.transpose();
    K.aa.diagonal().array() += b.dot(c1);
  }

  bool eliminate(int i) {
    const Link& link = model_.links[i];
    if (link.nv > 1) return link.nv == 3 ? eliminate_dense<3>(i) : eliminate_dense<6>(i);
    Pivot& pivot = pivots_[i];
    Block6& K = pivot.K;
    const Vector3 &a0 = (*left_)[i].a, &a1 = (*right_)[i].a;
    double d;
    if (link.kind == JointKind::revolute) {
      pivot.Ul.noalias() = K.la * a1;
      pivot.Ua.noalias() = K.aa * a1;
      pivot.Wl.noalias() = K.al.transpose() * a0;
      pivot.Wa.noalias() = K.aa.transpose() * a0;
      d = a0.dot(pivot.Ua);
    } else {
      pivot.Ul.noalias() = K.ll * a1;
      pivot.Ua.noalias() = K.al * a1;
      pivot.Wl.noalias() = K.ll.transpose() * a0;
      pivot.Wa.noalias() = K.la.transpose() * a0;
      d = a0.dot(pivot.Ul);
    }
    d += kappa[link.v];
    if (!(std::abs(d) > 0.0)) return false;
    pivot.inverse = 1.0 / d;
    pivot.Wl *= pivot.inverse;
    pivot.Wa *= pivot.inverse;
    if (link.parent == world) return true;
    K.ll.noalias() -= pivot.Ul * pivot.Wl.transpose();
    K.la.noalias() -= pivot.Ul * pivot.Wa.transpose();
    K.al.noalias() -= pivot.Ua * pivot.Wl.transpose();
    K.aa.noalias() -= pivot.Ua * pivot.Wa.transpose();
    add_to_parent(i);
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
    const Matrix6 K = pivot.K.matrix();
    const auto N = dense.N.leftCols<n>();
    dense.U.leftCols<n>().noalias() = K * dense.S.leftCols<n>();
    Eigen::Matrix<double, n, n> d = N.transpose() * dense.U.leftCols<n>();
    d += kappa_dense[link.dense].topLeftCorner<n, n>();
    const Eigen::PartialPivLU<Eigen::Matrix<double, n, n>> lu(d);
    for (int j = 0; j < n; ++j) {
      const double pivot_size = std::abs(lu.matrixLU()(j, j));
      if (!(pivot_size > 0.0)) return false;
    }
    dense.inverse.topLeftCorner<n, n>() = lu.inverse();
    if (link.parent == world) return true;
    dense.W.topRows<n>().noalias() =
        dense.inverse.topLeftCorner<n, n>() * (N.transpose() * K).eval();
    const Matrix6 rest = K - dense.U.leftCols<n>() * dense.W.topRows<n>();
    pivot.K = {rest.topLeftCorner<3, 3>(), rest.topRightCorner<3, 3>(),
               rest.bottomLeftCorner<3, 3>(), rest.bottomRightCorner<3, 3>()};
    add_to_parent(i);
    return true;
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

  // K_p += A0' K A1
  void add_to_parent(int i) {
    Block6& K = pivots_[i].K;
    Block6& P = pivots_[model_.links[i].parent].K;
    const Vector3 &r0 = (*left_)[i].r, &r1 = (*right_)[i].r;
    K.la -= times_skew(K.ll, r1);
    K.aa -= times_skew(K.al, r1);
    P.ll += K.ll;
    P.la += K.la;
    P.al += K.al + skew_times(r0, K.ll);
    P.aa += K.aa + skew_times(r0, K.la);
  }

  void up(int i, const double* r) {
    const Link& link = model_.links[i];
    Wrench& g = g_[i];
    if (link.nv == 1) {
      const Pivot& pivot = pivots_[i];
      const Vector3& a0 = (*left_)[i].a;
      const double along = link.kind == JointKind::revolute ? a0.dot(g.angular) : a0.dot(g.linear);
      const double y = -pivot.inverse * (r[0] + along);
      y_[link.v] = y;
      if (link.parent == world) return;
      g.linear += y * pivot.Ul;
      g.angular += y * pivot.Ua;
    } else if (link.nv == 3) {
      up_dense<3>(link, r, g);
    } else {
      up_dense<6>(link, r, g);
    }
    if (link.parent == world) return;
    Wrench& parent = g_[link.parent];
    parent.linear += g.linear;
    parent.angular += g.angular + (*left_)[i].r.cross(g.linear);
  }

  template <int n>
  void up_dense(const Link& link, const double* r, Wrench& g) {
    using Vector = Eigen::Matrix<double, n, 1>;
    const DensePivot& dense = dense_[link.dense];
    Vector6 wrench;
    wrench << g.linear, g.angular;
    const Vector along = Eigen::Map<const Vector>(r) + dense.N.leftCols<n>().transpose() * wrench;
    const Vector y = -(dense.inverse.topLeftCorner<n, n>() * along);
    y_.segment<n>(link.v) = y;
    if (link.parent == world) return;
    wrench.noalias() += dense.U.leftCols<n>() * y;
    g.linear = wrench.head<3>();
    g.angular = wrench.tail<3>();
  }

  void down(int i, double* dq) {
    const Link& link = model_.links[i];
    Wrench& xi = xi_[i];
    if (link.parent == world) {
      xi.linear.setZero(), xi.angular.setZero();
    } else {
      const Wrench& parent = xi_[link.parent];
      xi.linear = parent.linear + parent.angular.cross((*right_)[i].r);
      xi.angular = parent.angular;
    }
    if (link.nv == 1) {
      const Pivot& pivot = pivots_[i];
      dq[0] = y_[link.v];
      if (link.parent != world) dq[0] -= pivot.Wl.dot(xi.linear) + pivot.Wa.dot(xi.angular);
      const Vector3& a1 = (*right_)[i].a;
      if (link.kind == JointKind::revolute) {
        xi.angular += dq[0] * a1;
      } else {
        xi.linear += dq[0] * a1;
      }
    } else if (link.nv == 3) {
      down_dense<3>(link, dq, xi);
    } else {
      down_dense<6>(link, dq, xi);
    }
  }

  template <int n>
  void down_dense(const Link& link, double* out, Wrench& xi) {
    using Vector = Eigen::Matrix<double, n, 1>;
    const DensePivot& dense = dense_[link.dense];
    Vector dq = y_.segment<n>(link.v);
    Vector6 twist;
    twist << xi.linear, xi.angular;
    if (link.parent != world) dq.noalias() -= dense.W.topRows<n>() * twist;
    twist.noalias() += dense.S.leftCols<n>() * dq;
    xi.linear = twist.head<3>();
    xi.angular = twist.tail<3>();
    Eigen::Map<Vector>(out, n) = dq;
  }
};

}  // namespace vi_contact
