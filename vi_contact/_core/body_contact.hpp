// Contacts of bodies with each other and with fixed obstacles: which features meet, their impulses
// and their place in the Newton step.
//
//   gap  g(q1) of two features at the end of the step (features.hpp)
//   slip d = T [dp_b - dp_a - (r_B 2 u_B + r_A 2 u_A) x n0],   dp over the step, 2 u = h W
//
// The impulse n n0 + T' b acts at the left node on B, its opposite on A, both at the same point of
// the surface of B: linear and angular momentum of the two are kept. n0 is the normal at the left
// node, so that the force is the gradient of the gap there, as for joints.
//
// A contact that moves one link is condensed on it. One between two links couples them: with
// d(impulse) = c - C motion for all, H the tree (and loops), J0 and J1 the rows at either node,
//
//   (I + C S) d = c - C J1 (step without them),   S = J1 H^-1 J0'
//
// is dense in the closed ones, and solved by Gauss.
#pragma once

#include <Eigen/LU>

#include "contact.hpp"
#include "contact_state.hpp"
#include "features.hpp"

namespace vi_contact {

// Stiffness of a closed contact within one Newton iteration: so many times the mass that it moves
// or carries, per time step. What it carries shows in its impulse, against that of a free fall.
inline double hardness(double mass, double impulse, double fall) {
  const double load = impulse / fall;
  double hard = contact_hardness * mass;
  while (8.0 * hard < contact_hardness * load) hard *= 8.0;  // few values, few factorisations
  return hard;
}

// What a free fall is taken for where there is no gravity [m/s2].
inline constexpr double least_gravity = 1.0;

// Of the depth of a shape: a guess that is deeper inside is traced back to where it touches.
inline constexpr double deep = 0.2;

// A feature inside another by more, at the end of a step, was missed [m].
inline constexpr double missed_depth = 1e-10;

class BodyContacts {
 public:
  struct Near : ContactState {
    FeaturePair f;
    Rows3 D, right;          // rows (n, t1, t2) at the left node; with the normal at the right one
    Rows3 left_A, left_B;    // their angular parts, with the sign of each body
    Rows3 right_A, right_B;  // at the right node
    Vector3 a0, b0;          // points of the features at the left node
    Vector3 point;           // where the impulse acts
    double gap0 = 0.0;
    Vector3 mean = Vector3::Zero();  // velocity over the step, for the ledger
    int row = -1;                    // in the coupled system
    bool stuck = false;              // in the last step
  };
  struct Memory {
    FeaturePair f;
    double n = 0.0, b1 = 0.0, b2 = 0.0, anchor1 = 0.0, anchor2 = 0.0, sliding = 0.0;
    Vector3 mean = Vector3::Zero();
  };
  static constexpr int memory_size = 30;

  explicit BodyContacts(const Model& model)
      : model_(model),
        root_(model.size()),
        subtree_mass_(model.size(), 0.0),
        on_path_(model.size()),
        paths_(model.size()),
        moves_(model.size(), 1),
        g_(model.size()) {
    for (int i = 0; i < model.size(); ++i) {
      const int parent = model.links[i].parent;
      root_[i] = parent == world ? i : root_[parent];
      g_[i].linear.setZero(), g_[i].angular.setZero();
    }
    for (int i = model.size() - 1; i >= 0; --i) {
      const Link& link = model.links[i];
      subtree_mass_[i] += link.mass;
      if (link.parent != world) subtree_mass_[link.parent] += subtree_mass_[i];
    }
  }

  std::vector<Near> near;
  std::vector<Memory> memory;  // of those that were closed in the last step

  bool exist() const { return !model_.pairs.empty(); }

  // ------------------------------------------------------------------------------- which ones
  // Features that may meet on the way from one pose to the guessed other.
  void select(const Frames& frames0, const Frames& guess, double h, double gravity) {
    near.clear();
    set_scales(h, h * h * std::max(gravity, least_gravity));
    const double drop = 5.0 * gravity * h * h;  // an unforeseen motion that a step may bring
    for (int k = 0; k < pair_count(); ++k) {
      const ShapePair& pair = model_.pairs[k];
      const Shape &A = model_.shapes[pair.A], &B = model_.shapes[pair.B];
      const Frame &A0 = frame_of(A.link, frames0), &A1 = frame_of(A.link, guess);
      const Frame &B0 = frame_of(B.link, frames0), &B1 = frame_of(B.link, guess);
      const Vector3 d0 = centre(B, B0) - centre(A, A0), d1 = centre(B, B1) - centre(A, A1);
      const double turn = A.reach * (A1.R - A0.R).norm() + B.reach * (B1.R - B0.R).norm();
      const double margin = drop + (d1 - d0).norm() + turn;
      if (std::min(d0.norm(), d1.norm()) > A.reach + B.reach + margin) continue;
      meet(k, frames0, guess, margin);
      for (const FeaturePair& f : found_) {
        if (gap_at(f, guess) < margin) add(f, frames0, h);
      }
    }
  }

  // Looks again where a step has led: adds features that are inside each other there, and if
  // `correct`, exchanges those of shapes that were stopped although they do not touch. False if
  // there is neither.
  bool add_missed(const Frames& frames0, const Frames& frames1, double h, bool correct) {
    bool missed = false;
    closed_.assign(model_.pairs.size(), 0);
    for (const Near& c : near) closed_[c.f.pair] |= c.normal.trial(c.R) > 0.0;
    for (int k = 0; k < pair_count(); ++k) {
      const bool stopped = correct && closed_[k];
      if (!stopped && !within(k, frames1, 1.0)) continue;
      meet(k, frames0, frames1, stopped ? infinity : 0.0);
      const double gap = smallest_gap(frames1);
      if (stopped && gap > missed_depth) {
        std::erase_if(near, [&](const Near& c) { return c.f.pair == k; });
        for (const FeaturePair& f : found_) add(f, frames0, h);
        missed = true;
        continue;
      }
      for (const FeaturePair& f : found_) {
        if (gap_at(f, frames1) > -missed_depth) continue;
        const auto same = [&](const Near& c) { return c.f.key == f.key; };
        const auto known = std::find_if(near.begin(), near.end(), same);
        if (known == near.end()) {
          add(f, frames0, h);
        } else if (!(known->normal.g > -missed_depth)) {
          continue;
        } else if (correct) {
          known->f = f;
          place(*known, frames0);
        } else {  // both, lest they take turns
          const double key = known->f.key + 0.5;
          known->f.key = key;
          add(f, frames0, h);
        }
        missed = true;
      }
    }
    return missed;
  }

  // Smallest gap of each pair of links whose shapes are near, at one node: (name, gap).
  std::vector<std::pair<int, double>> gaps;
  void find_gaps(const Frames& frames) {
    gaps.clear();
    for (int k = 0; k < pair_count(); ++k) {
      if (!within(k, frames, 1.5)) continue;
      const ShapePair& pair = model_.pairs[k];
      const double reach = std::min(model_.shapes[pair.A].reach, model_.shapes[pair.B].reach);
      const double distance = meet(k, frames, frames, 1e-3 * reach);
      const double gap = found_.empty() ? distance : smallest_gap(frames);
      const auto same = [&](const auto& entry) { return entry.first == pair.name; };
      const auto known = std::find_if(gaps.begin(), gaps.end(), same);
      if (known == gaps.end()) {
        gaps.emplace_back(pair.name, gap);
      } else {
        known->second = std::min(known->second, gap);
      }
    }
  }

  // The contacts closed in the last step, at one node: for velocities instead of increments.
  void select_closed(const Frames& frames, double h, double gravity) {
    near.clear();
    set_scales(1.0, h * std::max(gravity, least_gravity));
    for (const Memory& m : memory) {
      add(m.f, frames, 1.0);
      Near& c = near.back();
      c.normal.n = 0.0, c.friction.b.setZero(), c.anchor.setZero();
      c.right = c.D, c.right_A = c.left_A, c.right_B = c.left_B;
      c.mean = m.mean;
      c.stuck = m.sliding == 0.0;
    }
  }

  // ------------------------------------------------------------------------------- one iterate
  void evaluate(const Frames& frames1, const std::vector<Turn>& turns) {
    for (Near& c : near) {
      const Frame &A = frame_of(c.f.A, frames1), &B = frame_of(c.f.B, frames1);
      const Gap gap = gap_between(c.f, A, B);
      const Vector3 lever_a = A.R * c.f.a, lever_b = B.R * c.f.b;
      const Vector3 n0 = c.D.row(0);
      c.normal.g = gap.g;
      Vector3 slip = (B.p + lever_b - c.b0) - (A.p + lever_a - c.a0);
      c.right = c.D;
      c.right.row(0) = gap.n;
      c.right_A.row(0) = -(gap.point - A.p).cross(gap.n);
      c.right_B.row(0) = (gap.point - B.p).cross(gap.n);
      for (int j = 1; j < 3; ++j) {
        const Vector3 t = c.D.row(j);
        c.right_A.row(j) = -lever_a.cross(t);
        c.right_B.row(j) = lever_b.cross(t);
      }
      if (c.f.A != world && c.f.r_A > 0.0) roll(c, turns[c.f.A], c.f.r_A, n0, c.right_A, slip);
      if (c.f.B != world && c.f.r_B > 0.0) roll(c, turns[c.f.B], c.f.r_B, n0, c.right_B, slip);
      c.set_slip(c.D.bottomRows<2>() * slip);
    }
  }

  void evaluate_velocities(const Elimination& tree) {
    for (Near& c : near) {
      const Vector3 u = motion(c, tree);
      c.normal.g = u[0], c.friction.d = u.tail<2>();
    }
  }

  // Relative velocity (n, t1, t2) at the left node by the twists of the links.
  static Vector3 velocity(const Near& c, const std::vector<Wrench>& xi) {
    Vector3 u = Vector3::Zero();
    if (c.f.B != world) u += c.D * xi[c.f.B].linear + c.left_B * xi[c.f.B].angular;
    if (c.f.A != world) u += -c.D * xi[c.f.A].linear + c.left_A * xi[c.f.A].angular;
    return u;
  }

  // Displacement (n, t1, t2) over the step.
  static Vector3 moved(const Near& c) {
    return {c.normal.g - c.gap0, c.slip.x() - c.anchor.x(), c.slip.y() - c.anchor.y()};
  }

  // f += J0' gamma
  static void add_wrench(const Near& c, const Vector3& gamma, std::vector<Wrench>& f) {
    const Vector3 linear = c.D.transpose() * gamma;
    if (c.f.B != world) {
      f[c.f.B].linear += linear;
      f[c.f.B].angular += c.left_B.transpose() * gamma;
    }
    if (c.f.A != world) {
      f[c.f.A].linear -= linear;
      f[c.f.A].angular += c.left_A.transpose() * gamma;
    }
  }
  // Motion (n, t1, t2) of B against A by the increments of the tree.
  Vector3 motion(const Near& c, const Elimination& tree) const {
    Vector3 m = Vector3::Zero();
    if (c.f.B != world && moves_[root_[c.f.B]]) {
      const Vector6& xi = tree.twist(c.f.B);
      m += c.right * xi.head<3>() + c.right_B * xi.tail<3>();
    }
    if (c.f.A != world && moves_[root_[c.f.A]]) {
      const Vector6& xi = tree.twist(c.f.A);
      m += -c.right * xi.head<3>() + c.right_A * xi.tail<3>();
    }
    return m;
  }

  void subtract_forces(std::vector<Wrench>& f) const {
    for (const Near& c : near) add_wrench(c, -c.impulse(), f);
  }

  // ------------------------------------------------------------------------------- Newton step
  void errors(double& largest, double& squares) const {
    for (const Near& c : near) c.add_errors(largest, squares);
  }
  unsigned long linearise_newton() {
    unsigned long pattern = near.size();
    for (Near& c : near) {
      harden(c);
      pattern = pattern * 1000003UL + c.linearise_newton() + hash(c.hard);
    }
    return pattern;
  }
  // The first iteration for velocities: two bodies fall together before anything holds them, and
  // their contact shows neither load nor slip. It does what it did in the last step.
  void linearise_as_before() {
    linearise_newton();
    for (Near& c : near) {
      if (c.stuck) c.c = -c.hard * c.error(), c.C = c.hard * Matrix3::Identity();
    }
  }
  // Contacts with the ground carry what stands on their body.
  unsigned long harden_ground(Contacts& contacts) const {
    unsigned long pattern = 0;
    for (Contacts::Near& c : contacts.near) {
      c.hard = hardness(contacts.root_mass(c.link) / length_, c.normal.n, fall_);
      pattern = pattern * 1000003UL + hash(c.hard);
    }
    return pattern;
  }
  void linearise_stick() {
    for (Near& c : near) {
      harden(c);
      c.linearise_stick();
    }
  }
  void linearise_interior(double kappa) {
    for (Near& c : near) c.linearise_interior(kappa);
  }

  // Contacts on one link go to its block, the closed ones between two links get a row.
  void add_blocks(Elimination& tree) {
    coupled_.clear();
    for (size_t i = 0; i < near.size(); ++i) {
      Near& c = near[i];
      c.row = -1;
      if (c.C.isZero(0.0)) continue;
      if (c.f.A != world && c.f.B != world) {
        c.row = 3 * static_cast<int>(coupled_.size());
        coupled_.push_back(static_cast<int>(i));
        continue;
      }
      const bool on_B = c.f.B != world;
      const double sign = on_B ? 1.0 : -1.0;
      const Rows3 &left = on_B ? c.left_B : c.left_A, &right = on_B ? c.right_B : c.right_A;
      Matrix6& K = tree.stiffen(on_B ? c.f.B : c.f.A);
      const Rows3 CD = sign * (c.C * c.right), CA = c.C * right;
      K.topLeftCorner<3, 3>() += sign * (c.D.transpose() * CD);
      K.topRightCorner<3, 3>() += sign * (c.D.transpose() * CA);
      K.bottomLeftCorner<3, 3>() += left.transpose() * CD;
      K.bottomRightCorner<3, 3>() += left.transpose() * CA;
    }
  }

  bool coupled() const { return !coupled_.empty(); }

  // S and the factors of I + C S. `respond(g, path)` solves the factored tree for wrenches g, given
  // with the sign of residuals; without a path (loops couple the trees) for all links.
  template <class Respond>
  void factor(Elimination& tree, bool trees_apart, Respond&& respond) {
    if (coupled_.empty()) return;
    if (trees_apart) find_paths();
    const int m = 3 * static_cast<int>(coupled_.size());
    S_.setZero(m, m);
    std::fill(moves_.begin(), moves_.end(), trees_apart ? 0 : 1);
    for (int j : coupled_) {
      const Near& c = near[j];
      const int A = root_[c.f.A], B = root_[c.f.B];
      if (trees_apart) {
        moves_[A] = moves_[B] = 1;
        path_ = paths_[A];
        if (B != A) path_.insert(path_.end(), paths_[B].begin(), paths_[B].end());
      }
      for (int k = 0; k < 3; ++k) {
        add_wrench(c, -Vector3::Unit(k), g_);
        respond(g_, path_);
        for (int i : {c.f.A, c.f.B}) g_[i].linear.setZero(), g_[i].angular.setZero();
        for (int i : coupled_) {
          const Near& o = near[i];
          S_.block<3, 1>(o.row, c.row + k) = motion(o, tree);
        }
      }
      if (trees_apart) moves_[A] = moves_[B] = 0;
    }
    std::fill(moves_.begin(), moves_.end(), 1);
    matrix_.setIdentity(m, m);
    for (int j : coupled_) {
      const Near& c = near[j];
      matrix_.middleRows<3>(c.row) += c.C * S_.middleRows<3>(c.row);
    }
    lu_.compute(matrix_);
    rhs_.resize(m);
  }

  // f -= J0' c of all but the coupled ones.
  void subtract_answers(std::vector<Wrench>& f) const {
    for (const Near& c : near) {
      if (c.row < 0) add_wrench(c, -c.c, f);
    }
  }
  // Changes of the coupled impulses, from the step without them.
  void solve_coupled(const Elimination& tree) {
    for (int j : coupled_) {
      const Near& c = near[j];
      rhs_.segment<3>(c.row) = c.c - c.C * motion(c, tree);
    }
    take_solution();
  }
  // f -= J0' change of the coupled ones.
  void subtract_coupled(std::vector<Wrench>& f) const {
    for (int j : coupled_) add_wrench(near[j], -near[j].change, f);
  }

  void find_changes(const Elimination& tree) {
    for (Near& c : near) {
      if (c.row < 0) c.change = c.c - c.C * motion(c, tree);
    }
  }
  double find_interior_changes(const Elimination& tree, double kappa) {
    double a = 1.0;
    find_changes(tree);
    for (Near& c : near) a = std::min(a, c.find_interior_change(motion(c, tree), kappa));
    return a;
  }
  void take_step(double a) {
    for (Near& c : near) c.take(a);
  }
  void take_interior_step(double a) {
    for (Near& c : near) c.take_interior(a);
  }
  void enter_interior(double scale) {
    for (Near& c : near) c.enter_interior(scale);
  }
  void interior_errors(double kappa, double& product, double& slack, double& squares) const {
    for (const Near& c : near) c.add_interior_errors(kappa, product, slack, squares);
  }
  void warm_start() {
    for (Near& c : near) load(c);
  }

  // ------------------------------------------------------------------------------- velocities
  // f += J' (impulse + c + C u) of all but the coupled ones; see `Contacts`.
  void add_velocity_answers(std::vector<Wrench>& f) const {
    for (const Near& c : near) {
      if (c.row < 0) add_wrench(c, c.impulse() + c.c + c.C * c.error(), f);
    }
  }
  // New impulses of the coupled ones, from the velocities without them, and f += J' of those.
  void solve_coupled_velocities(const Elimination& tree, std::vector<Wrench>& f) {
    for (int j : coupled_) {
      const Near& c = near[j];
      rhs_.segment<3>(c.row) = c.impulse() + c.c + c.C * (c.error() - motion(c, tree));
    }
    take_solution();
    for (int j : coupled_) {
      add_wrench(near[j], near[j].change, f);
      near[j].change -= near[j].impulse();
    }
  }
  void change_by_velocities(const Elimination& tree) {
    for (Near& c : near) {
      if (c.row < 0) c.change = c.c - c.C * (motion(c, tree) - c.error());
    }
    take_step(1.0);
  }
  bool any_slides() const {
    return std::any_of(near.begin(), near.end(), [](const Near& c) {
      return c.C(0, 0) > 0.0 && !c.friction.sticks(c.R, c.mu * c.normal.trial(c.R));
    });
  }

  // ------------------------------------------------------------------------------- steps
  bool any_closed() const { return !memory.empty(); }
  int closed() const { return static_cast<int>(memory.size()); }
  void scale(double factor) {
    for (Memory& m : memory) m.n *= factor, m.b1 *= factor, m.b2 *= factor;
  }

  // Whether the set of closed contacts is another than before; writes the memory, and reports
  // impulses on the first link of each pair, numbered from `first` on. Lengths as in `Contacts`.
  bool commit(bool exact, double h0, double h, int first, std::vector<Contacts::Touch>& touches) {
    size_t kept = 0;
    std::swap(memory, before_);
    memory.clear();
    for (const Near& c : near) {
      const double trial = c.normal.trial(c.R);
      if (!(trial > 0.0)) continue;
      const bool sticks = c.friction.sticks(c.R, c.mu * trial);
      Memory& m = memory.emplace_back();
      m.f = c.f;
      m.n = std::max(c.normal.n, 0.0);
      m.b1 = c.friction.b.x(), m.b2 = c.friction.b.y();
      const bool anchored = sticks && exact;
      m.anchor1 = anchored ? c.slip.x() : 0.0, m.anchor2 = anchored ? c.slip.y() : 0.0;
      m.sliding = sticks ? 0.0 : 1.0;
      m.mean = c.mean;
      const bool was_closed = find(before_, c.f.key) != nullptr;
      kept += was_closed;
      const bool slid = !sticks && moved(c).tail<2>().norm() > visible_slip;
      const Vector3 on_B = c.over_step(c.D.transpose() * c.impulse(), was_closed, h0, h);
      const Vector3 on_first = c.f.swapped ? on_B : Vector3(-on_B);
      touches.push_back({first + model_.pairs[c.f.pair].name, on_first, slid, c.point});
    }
    return kept != memory.size() || kept != before_.size();
  }

  void forget() { memory.clear(), near.clear(); }

  int state_size() const { return 1 + memory_size * static_cast<int>(memory.size()); }
  void get_state(double* out) const {
    *out++ = static_cast<double>(memory.size());
    for (const Memory& m : memory) {
      const FeaturePair& f = m.f;
      const double numbers[] = {f.key,        static_cast<double>(f.kind),
                                1.0 * f.pair, 1.0 * f.A,
                                1.0 * f.B,    1.0 * f.swapped,
                                f.r_A,        f.r_B,
                                f.sign,       m.n,
                                m.b1,         m.b2,
                                m.anchor1,    m.anchor2,
                                m.sliding};
      out = std::copy(std::begin(numbers), std::end(numbers), out);
      for (const Vector3* v : {&f.a, &f.b, &f.e_A, &f.e_B, &m.mean}) {
        out = std::copy(v->data(), v->data() + 3, out);
      }
    }
  }
  void set_state(const double* in) {
    memory.resize(static_cast<size_t>(*in++));
    for (Memory& m : memory) {
      FeaturePair& f = m.f;
      f.key = in[0], f.kind = static_cast<Meeting>(static_cast<int>(in[1]));
      f.pair = static_cast<int>(in[2]), f.A = static_cast<int>(in[3]);
      f.B = static_cast<int>(in[4]), f.swapped = in[5] != 0.0;
      f.r_A = in[6], f.r_B = in[7], f.sign = in[8];
      m.n = in[9], m.b1 = in[10], m.b2 = in[11], m.anchor1 = in[12], m.anchor2 = in[13];
      m.sliding = in[14];
      in += 15;
      for (Vector3* v : {&f.a, &f.b, &f.e_A, &f.e_B, &m.mean}) {
        std::copy(in, in + 3, v->data());
        in += 3;
      }
    }
  }

  // Calls `refuse` with what is wrong with numbers that `set_state` would read.
  template <class Refuse>
  void check_state(const double* in, long size, Refuse refuse) const {
    const auto whole = [](double x, double low, double high) {
      return x >= low && x <= high && x == std::floor(x);
    };
    const double most = static_cast<double>((size - 1) / memory_size);
    if (!whole(*in, 0.0, most)) refuse("another number of closed contacts of bodies than it says");
    const long count = static_cast<long>(*in++);
    for (long k = 0; k < count; ++k, in += memory_size) {
      for (int j = 0; j < memory_size; ++j) {
        if (!std::isfinite(in[j])) refuse("numbers that are not finite");
      }
      if (!whole(in[1], 0.0, static_cast<double>(Meeting::lines)) ||
          !whole(in[2], 0.0, pair_count() - 1.0)) {
        refuse("a contact of bodies that are not there");
      }
      const ShapePair& pair = model_.pairs[static_cast<size_t>(in[2])];
      const bool swapped = in[5] != 0.0;
      const int A = model_.shapes[pair.A].link, B = model_.shapes[pair.B].link;
      if (in[3] != (swapped ? B : A) || in[4] != (swapped ? A : B)) {
        refuse("a contact of bodies that are not there");
      }
    }
  }

 private:
  int pair_count() const { return static_cast<int>(model_.pairs.size()); }
  static Vector3 centre(const Shape& shape, const Frame& frame) {
    return frame.p + frame.R * shape.centre;
  }
  static const Memory* find(const std::vector<Memory>& all, double key) {
    for (const Memory& m : all) {
      if (m.f.key == key) return &m;
    }
    return nullptr;
  }

  Separation separation(int k, const Frame& X_A, const Frame& X_B) const {
    const Shape &A = model_.shapes[model_.pairs[k].A], &B = model_.shapes[model_.pairs[k].B];
    if (A.is_ball() && B.is_ball()) {
      const Vector3 p_A = centre(A, X_A), p_B = centre(B, X_B), d = p_B - p_A;
      const double length = d.norm();
      const Vector3 n = length > 0.0 ? Vector3(d / length) : Vector3(Vector3::UnitZ());
      return {length - A.radius - B.radius, n, p_A + A.radius * n, p_B - B.radius * n};
    }
    return model_.separate(k, X_A.R * A.X_LS.q.toRotationMatrix(), X_A.p + X_A.R * A.X_LS.p,
                           X_B.R * B.X_LS.q.toRotationMatrix(), X_B.p + X_B.R * B.X_LS.p);
  }

  // Writes the features of a pair that meet at the second pose into `found_`, none if they are
  // farther apart than the margin; their distance there. Deep inside each other the normal may
  // point to a wrong side: those that meet where the shapes first touch on the way come in, and the
  // others only if they agree.
  double meet(int k, const Frames& frames0, const Frames& frames1, double margin) {
    const ShapePair& pair = model_.pairs[k];
    const Shape &A = model_.shapes[pair.A], &B = model_.shapes[pair.B];
    const Frame &A1 = frame_of(A.link, frames1), &B1 = frame_of(B.link, frames1);
    found_.clear();
    const Separation at = separation(k, A1, B1);
    if (at.distance > margin) return at.distance;
    if (at.distance > -deep * std::min(A.depth, B.depth)) {
      finder_.find(k, A, A1, B, B1, at, found_);
      return at.distance;
    }
    const Frame &A0 = frame_of(A.link, frames0), &B0 = frame_of(B.link, frames0);
    Frame X_A = A1, X_B = B1;
    Separation first = at;
    double low = 0.0, high = 1.0;
    for (int i = 0; i < 12; ++i) {
      const double t = 0.5 * (low + high);
      const Frame A_t = between(A0, A1, t), B_t = between(B0, B1, t);
      const Separation there = separation(k, A_t, B_t);
      if (there.distance < 0.0) {
        high = t, X_A = A_t, X_B = B_t, first = there;
        if (there.distance > -1e-3 * std::min(A.depth, B.depth)) break;
      } else {
        low = t;
      }
    }
    if (first.normal.dot(at.normal) > 0.5) finder_.find(k, A, A1, B, B1, at, found_);
    const size_t last = found_.size();
    finder_.find(k, A, X_A, B, X_B, first, found_);
    const auto twice = [&](const FeaturePair& f) {
      const auto same = [&](const FeaturePair& o) { return o.key == f.key; };
      return std::any_of(found_.begin(), found_.begin() + last, same);
    };
    found_.erase(std::remove_if(found_.begin() + last, found_.end(), twice), found_.end());
    return at.distance;
  }

  static Frame between(const Frame& X0, const Frame& X1, double t) {
    Frame X = X0;
    X.p = (1.0 - t) * X0.p + t * X1.p;
    X.Q = X0.Q.slerp(t, X1.Q);
    X.R = X.Q.toRotationMatrix();
    return X;
  }

  // Whether the balls around two shapes, so many times as large, overlap.
  bool within(int k, const Frames& frames, double times) const {
    const Shape &A = model_.shapes[model_.pairs[k].A], &B = model_.shapes[model_.pairs[k].B];
    const Vector3 d = centre(B, frame_of(B.link, frames)) - centre(A, frame_of(A.link, frames));
    return d.norm() <= times * (A.reach + B.reach);
  }
  static double gap_at(const FeaturePair& f, const Frames& frames) {
    return gap_between(f, frame_of(f.A, frames), frame_of(f.B, frames)).g;
  }
  double smallest_gap(const Frames& frames) const {
    double smallest = infinity;
    for (const FeaturePair& f : found_) smallest = std::min(smallest, gap_at(f, frames));
    return smallest;
  }

  void add(const FeaturePair& f, const Frames& frames0, double h) {
    Near& c = near.emplace_back();
    c.f = f;
    c.mu = model_.pairs[f.pair].friction;
    const double inverse_A = f.A == world ? 0.0 : 1.0 / light(f.A);
    const double inverse_B = f.B == world ? 0.0 : 1.0 / light(f.B);
    c.R = contact_scale / (inverse_A + inverse_B) / h;
    place(c, frames0);
    load(c);
  }

  // Unit of time, and the displacement (or velocity) of a free fall over a step.
  void set_scales(double length, double fall) { length_ = length, fall_ = fall; }

  // On an obstacle a contact carries what stands on its body.
  void harden(Near& c) const {
    const int link = c.f.A == world ? c.f.B : c.f.A;
    const bool fixed = c.f.A == world || c.f.B == world;
    const double mass = fixed ? subtree_mass_[root_[link]] / length_ : c.R / contact_scale;
    c.hard = hardness(mass, c.normal.n, fall_);
  }

  static unsigned long hash(double hard) {
    int exponent;
    std::frexp(hard, &exponent);
    return 4UL * static_cast<unsigned long>(exponent + 1100);
  }

  double light(int link) const {
    return std::max(subtree_mass_[link], 1e-3 * subtree_mass_[root_[link]]);
  }

  void place(Near& c, const Frames& frames0) const {
    const Frame &A = frame_of(c.f.A, frames0), &B = frame_of(c.f.B, frames0);
    const Gap gap = gap_between(c.f, A, B);
    c.gap0 = gap.g;
    c.point = gap.point;
    c.D.row(0) = gap.n;
    c.D.bottomRows<2>() = normal_plane(gap.n);
    c.a0 = A.p + A.R * c.f.a, c.b0 = B.p + B.R * c.f.b;
    for (int j = 0; j < 3; ++j) {
      c.left_A.row(j) = -(gap.point - A.p).cross(Vector3(c.D.row(j)));
      c.left_B.row(j) = (gap.point - B.p).cross(Vector3(c.D.row(j)));
    }
  }

  void load(Near& c) const {
    const Memory* m = find(memory, c.f.key);
    c.normal.n = m ? m->n : 0.0;
    c.friction.b = m ? Vector2(m->b1, m->b2) : Vector2(Vector2::Zero());
    c.anchor = m ? Vector2(m->anchor1, m->anchor2) : Vector2(Vector2::Zero());
  }

  // A round surface rolls:  slip -= 2 r u x n,   d(2 u) = (s I - [u]x) w
  static void roll(const Near& c, const Turn& turn, double r, const Vector3& n, Rows3& rows,
                   Vector3& slip) {
    slip -= r * turn.way().cross(n);
    for (int j = 1; j < 3; ++j) {
      const Vector3 a = n.cross(Vector3(c.D.row(j)));
      rows.row(j) -= r * (turn.s * a + turn.u.cross(a)).transpose();
    }
  }

  // Per tree, the links between its root and the coupled contacts.
  void find_paths() {
    std::fill(on_path_.begin(), on_path_.end(), 0);
    for (auto& path : paths_) path.clear();
    for (int j : coupled_) {
      for (int i : {near[j].f.A, near[j].f.B}) {
        for (; i != world && !on_path_[i]; i = model_.links[i].parent) on_path_[i] = 1;
      }
    }
    for (int i = 0; i < model_.size(); ++i) {
      if (on_path_[i]) paths_[root_[i]].push_back(i);
    }
  }

  void take_solution() {
    rhs_ = lu_.solve(rhs_).eval();
    for (int j : coupled_) near[j].change = rhs_.segment<3>(near[j].row);
  }

  const Model& model_;
  std::vector<int> root_;
  std::vector<double> subtree_mass_;
  double length_ = 1.0, fall_ = 1.0;
  FeatureFinder finder_;
  std::vector<FeaturePair> found_;
  std::vector<Memory> before_;
  std::vector<int> coupled_, path_;
  std::vector<char> on_path_, closed_;
  std::vector<std::vector<int>> paths_;
  std::vector<char> moves_;  // roots of trees that the last solution of the tree moved
  std::vector<Wrench> g_;
  Eigen::MatrixXd S_, matrix_;
  Eigen::PartialPivLU<Eigen::MatrixXd> lu_;
  VectorX rhs_;
};

}  // namespace vi_contact
