// Contact points of the links with the ground: geometry, impulses and their place in the tree.
//
// A contact is a small sphere (centre C, radius r) on a link; the ground a plane N.p = d.
//
//   gap  g = N.p_C(q1) - d - r              at the end of the step
//   slip d = T [p_C(q1) - p_C(q0) - r (h W) x N],   h W = 2 u the step's rotation, u = vec(Q1 Q0*)
//
// The impulse n N + T' b acts at the left node on the surface point p_C(q0) - r N. Slip is a
// displacement, not a velocity, and what is left of it by the tolerance is made up for in the next
// step (`anchor`), so that a sticking contact does not creep.
#pragma once

#include "contact_state.hpp"
#include "elimination.hpp"

namespace vi_contact {

// Stiffness of a closed contact within one Newton iteration, in masses of the robot per time step.
inline constexpr double contact_hardness = 1e5;

// Of the mass of a link and all it carries, about what a contact has to move.
inline constexpr double contact_scale = 0.3;

// Redundant contacts may stand on their cones without moving: less slip than this is none [m].
inline constexpr double visible_slip = 1e-10;

using Rows3 = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;

class Contacts {
 public:
  // One contact that may touch in this step.
  struct Near : ContactState {
    int index, link;
    double radius;
    Vector3 point;            // the centre, in the frame of the link
    Vector3 centre0, lever1;  // centre at the left node; from the link's origin at the right one
    Rows3 left, right;        // angular parts of the rows (N, t1, t2) at either node
    double gap0 = 0.0;        // at the left node
    double target = 0.0;      // gap to reach, above zero after a bounce
  };
  // What a contact keeps from step to step.
  struct Memory {
    double n = 0.0, b1 = 0.0, b2 = 0.0, anchor1 = 0.0, anchor2 = 0.0;
    double sliding = 0.0;
  };
  static constexpr int memory_size = 6;

  Contacts(const Model& model, const Ground& ground)
      : model_(model), ground_(ground), count_(ground.present ? model.contacts.size() : 0) {
    D_.row(0) = ground.normal.transpose();
    D_.bottomRows<2>() = normal_plane(ground.normal);
    memory.resize(count_);
    means.assign(count_, Vector3::Zero());
    is_near_.assign(count_, 0);
    near.reserve(count_);
    touches.reserve(count_);
    root_mass_.assign(model.size(), 0.0);
    std::vector<int> root(model.size());
    for (int i = 0; i < model.size(); ++i) {
      const Link& link = model.links[i];
      root[i] = link.parent == world ? i : root[link.parent];
      root_mass_[root[i]] += link.mass;
    }
    for (int i = 0; i < model.size(); ++i) root_mass_[i] = root_mass_[root[i]];
    subtree_mass_.assign(model.size(), 0.0);
    for (int i = model.size() - 1; i >= 0; --i) {
      const Link& link = model.links[i];
      subtree_mass_[i] += link.mass;
      if (link.parent != world) subtree_mass_[link.parent] += subtree_mass_[i];
    }
    first_.assign(model.size() + 1, 0);
    reach_.assign(model.size(), 0.0);
    for (int k = 0; k < count_; ++k) {
      const ContactPoint& contact = model.contacts[k];
      ++first_[contact.link + 1];
      reach_[contact.link] = std::max(reach_[contact.link], contact.p.norm() + contact.radius);
    }
    for (int i = 0; i < model.size(); ++i) first_[i + 1] += first_[i];
    order_.resize(count_);
    std::vector<int> next(first_.begin(), first_.end() - 1);
    for (int k = 0; k < count_; ++k) order_[next[model.contacts[k].link]++] = k;
  }

  std::vector<Near> near;
  std::vector<Memory> memory;

  int size() const { return count_; }
  const Ground& ground() const { return ground_; }
  const Rows3& directions() const { return D_; }

  // ------------------------------------------------------------------------------- which ones
  // Contacts that may close on the way from one pose to the guessed other. What is missed here
  // `add_missed` finds after the step has been solved.
  void select(const Frames& frames0, const Frames& guess, double h, double g) {
    for (const Near& c : near) is_near_[c.index] = 0;
    near.clear();
    const double drop = 5.0 * g * h * h;  // an unforeseen motion that a step may bring
    for (int i = 0; i < model_.size(); ++i) {
      if (first_[i] == first_[i + 1]) continue;
      const double low0 = height(frames0[i].p) - reach_[i], low1 = height(guess[i].p) - reach_[i];
      if (std::min(low0, low1) > drop + std::abs(low1 - low0)) continue;
      for (int j = first_[i]; j < first_[i + 1]; ++j) {
        const double gap0 = gap(order_[j], frames0[i]), gap1 = gap(order_[j], guess[i]);
        if (std::min(gap0, gap1) > drop + std::abs(gap1 - gap0)) continue;
        add(order_[j], frames0[i], h);
      }
    }
    forget_far();
  }

  // The contacts of a solution found elsewhere: rows (contact, world impulse, gap to reach).
  template <typename Table>
  void select_given(const Table& table, const Frames& frames0, double h) {
    for (const Near& c : near) is_near_[c.index] = 0;
    near.clear();
    for (int i = 0; i < table.rows(); ++i) {
      const int k = static_cast<int>(table(i, 0));
      add(k, frames0[model_.contacts[k].link], h);
      Near& c = near.back();
      const Vector3 impulse = D_ * Vector3(table(i, 1), table(i, 2), table(i, 3));
      c.normal.n = impulse[0], c.friction.b = impulse.tail<2>();
      c.target = table(i, 4);
    }
    forget_far();
  }

  // The contacts closed in the last step, at one node: for velocities instead of increments.
  void select_closed(const Frames& frames) {
    for (const Near& c : near) is_near_[c.index] = 0;
    near.clear();
    for (int i = 0; i < model_.size(); ++i) {
      for (int j = first_[i]; j < first_[i + 1]; ++j) {
        if (!(memory[order_[j]].n > 0.0)) continue;
        add(order_[j], frames[i], 1.0);
        Near& c = near.back();
        c.normal.n = 0.0, c.friction.b.setZero();
        c.right = c.left;
      }
    }
  }

  // Velocities of the selected contacts, from the twists of the last solution.
  void evaluate_velocities(const Elimination& tree) {
    for (Near& c : near) {
      const Vector3 u = motion(c, tree);
      c.normal.g = u[0];
      c.friction.d = u.tail<2>();
    }
  }

  // f += J' (impulse + c + C u): the right-hand side whose solution is the next velocity.
  void add_velocity_answers(std::vector<Wrench>& f) const {
    for (const Near& c : near) {
      add_wrench(c, c.impulse() + c.c + c.C * c.error(), f[c.link]);
    }
  }
  void change_by_velocities(const Elimination& tree) {
    for (Near& c : near) c.change = c.c - c.C * (motion(c, tree) - c.error());
    take_step(1.0);
  }
  bool any_slides() const {
    return std::any_of(near.begin(), near.end(), [](const Near& c) {
      return c.C(0, 0) > 0.0 && !c.friction.sticks(c.R, c.mu * c.normal.trial(c.R));
    });
  }
  void add_node_blocks(Elimination& tree) {
    for (Near& c : near) add_block(c, tree);
  }

  // Adds the contacts outside the selection that lie below the ground; false if there is none.
  bool add_missed(const Frames& frames0, const Frames& frames1, double h, double tolerance) {
    bool missed = false;
    for (int i = 0; i < model_.size(); ++i) {
      if (first_[i] == first_[i + 1] || height(frames1[i].p) > reach_[i]) continue;
      for (int j = first_[i]; j < first_[i + 1]; ++j) {
        if (is_near_[order_[j]] || !(gap(order_[j], frames1[i]) < -tolerance)) continue;
        add(order_[j], frames0[i], h);
        missed = true;
      }
    }
    return missed;
  }

  double gap(int k, const Frame& frame) const {
    const ContactPoint& contact = model_.contacts[k];
    return height(frame.p + frame.R * contact.p) - contact.radius;
  }

  // Depth of the deepest contact below the ground [m], and which.
  std::pair<double, int> deepest(const Frames& frames) const {
    std::pair<double, int> result{0.0, -1};
    for (int k = 0; k < count_; ++k) {
      const double depth = -gap(k, frames[model_.contacts[k].link]);
      if (depth > result.first) result = {depth, k};
    }
    return result;
  }

  // ------------------------------------------------------------------------------- one iterate
  void evaluate(const Frames& frames1, const std::vector<Turn>& turns) {
    for (Near& c : near) {
      const Frame& right = frames1[c.link];
      c.lever1 = right.R * c.point;
      const Vector3 centre = right.p + c.lever1;
      c.normal.g = height(centre) - c.radius - c.target;
      Vector3 slip = centre - c.centre0;
      if (c.radius > 0.0) {
        slip -= c.radius * turns[c.link].way().cross(ground_.normal);
      }
      c.set_slip(D_.bottomRows<2>() * slip);
    }
  }

  void subtract_forces(std::vector<Wrench>& f) const {
    for (const Near& c : near) add_wrench(c, -c.impulse(), f[c.link]);
  }

  // Displacement (N, t1, t2) over the step.
  static Vector3 moved(const Near& c) {
    return {c.normal.g + c.target - c.gap0, c.slip.x() - c.anchor.x(), c.slip.y() - c.anchor.y()};
  }
  std::vector<Vector3> means;  // mean velocity over the last step, for the ledger

  Vector3 world_impulse(const Near& c) const { return D_.transpose() * c.impulse(); }

  void add_wrench(const Near& c, const Vector3& gamma, Wrench& f) const {
    f.linear.noalias() += D_.transpose() * gamma;
    f.angular.noalias() += c.left.transpose() * gamma;
  }

  void errors(double& largest, double& squares) const {
    for (const Near& c : near) c.add_errors(largest, squares);
  }

  // Returns a number that tells which contacts are open, stick and slide.
  unsigned long linearise_newton() {
    unsigned long pattern = near.size();
    for (Near& c : near) pattern = pattern * 1000003UL + c.linearise_newton();
    return pattern;
  }

  void set_hardness(double hardness, double h) {
    for (Near& c : near) c.hard = hardness * root_mass_[c.link] / h;
  }

  void linearise_stick() {
    for (Near& c : near) c.linearise_stick();
  }

  void add_blocks(const std::vector<Turn>& turns, Elimination& tree) {
    for (Near& c : near) {
      set_right_rows(c, turns);
      add_block(c, tree);
    }
  }

  // K += J0' C J1
  void add_block(const Near& c, Elimination& tree) const {
    if (c.C.isZero(0.0)) return;
    Matrix6& K = tree.stiffen(c.link);
    const Rows3 CD = c.C * D_, CA = c.C * c.right;
    K.topLeftCorner<3, 3>().noalias() += D_.transpose() * CD;
    K.topRightCorner<3, 3>().noalias() += D_.transpose() * CA;
    K.bottomLeftCorner<3, 3>().noalias() += c.left.transpose() * CD;
    K.bottomRightCorner<3, 3>().noalias() += c.left.transpose() * CA;
  }

  // f -= J0' c: what the laws ask for where nothing moves.
  void subtract_answers(std::vector<Wrench>& f) const {
    for (const Near& c : near) add_wrench(c, -c.c, f[c.link]);
  }

  // Motion (N, t1, t2) of a contact by the increments of the tree.
  Vector3 motion(const Near& c, const Elimination& tree) const {
    const Vector6& xi = tree.twist(c.link);
    return D_ * xi.head<3>() + c.right * xi.tail<3>();
  }

  void find_changes(const Elimination& tree) {
    for (Near& c : near) c.change = c.c - c.C * motion(c, tree);
  }

  void take_step(double a) {
    for (Near& c : near) c.take(a);
  }

  // ------------------------------------------------------------------------------- interior point
  void enter_interior(double gap_scale) {
    for (Near& c : near) c.enter_interior(gap_scale);
  }
  // Largest error against kappa, and of the slacks [m]; `squares` adds both, scaled by R.
  void interior_errors(double kappa, double& product, double& slack, double& squares) const {
    for (const Near& c : near) c.add_interior_errors(kappa, product, slack, squares);
  }
  void linearise_interior(double kappa) {
    for (Near& c : near) c.linearise_interior(kappa);
  }
  // Changes of all variables; the longest step that stays inside.
  double find_interior_changes(const Elimination& tree, double kappa) {
    double a = 1.0;
    find_changes(tree);
    for (Near& c : near) a = std::min(a, c.find_interior_change(motion(c, tree), kappa));
    return a;
  }
  void take_interior_step(double a) {
    for (Near& c : near) c.take_interior(a);
  }

  // ------------------------------------------------------------------------------- steps
  // Impulses of the last step as a first guess.
  void warm_start(double factor) {
    for (Near& c : near) load(c, factor);
  }

  // What touched in the last step: contact, mean force times its length, in world axes, whether it
  // slid; between two links also the place at the left node.
  struct Touch {
    int index;
    Vector3 impulse;
    bool sliding;
    Vector3 point = Vector3::Zero();
  };
  std::vector<Touch> touches;

  bool any_closed() const {
    return std::any_of(memory.begin(), memory.end(), [](const Memory& m) { return m.n > 0.0; });
  }
  int closed() const {
    int count = 0;
    for (const Near& c : near) count += memory[c.index].n > 0.0;
    return count;
  }

  // A step of another length has impulses of another size.
  void scale(double factor) {
    for (Memory& m : memory) m.n *= factor, m.b1 *= factor, m.b2 *= factor;
  }

  // Whether the set of closed contacts is another than before; writes the memory. Lengths of the
  // step before, zero at the start, and of this one.
  bool commit(bool exact, double h0, double h) {
    bool changed = false;
    for (Near& c : near) {
      Memory& m = memory[c.index];
      const double trial = c.normal.trial(c.R);
      const bool closed = trial > 0.0;
      const bool sticks = closed && c.friction.sticks(c.R, c.mu * trial);
      const bool was_closed = m.n > 0.0;
      changed |= closed != was_closed;
      m.n = closed ? std::max(c.normal.n, 0.0) : 0.0;
      m.b1 = closed ? c.friction.b.x() : 0.0, m.b2 = closed ? c.friction.b.y() : 0.0;
      const bool anchored = sticks && exact;
      m.anchor1 = anchored ? c.slip.x() : 0.0, m.anchor2 = anchored ? c.slip.y() : 0.0;
      m.sliding = closed && !sticks ? 1.0 : 0.0;
      const bool slid = !sticks && moved(c).tail<2>().norm() > visible_slip;
      if (!closed) continue;
      touches.push_back({c.index, c.over_step(world_impulse(c), was_closed, h0, h), slid});
    }
    return changed;
  }

  void set_selection(const std::vector<Near>& selected) {
    for (const Near& c : near) is_near_[c.index] = 0;
    near = selected;
    for (const Near& c : near) is_near_[c.index] = 1;
  }

  void forget() {
    for (Memory& m : memory) m = {};
    for (const Near& c : near) is_near_[c.index] = 0;
    near.clear();
  }

  void get_state(double* out) const {
    for (const Memory& m : memory) {
      *out++ = m.n, *out++ = m.b1, *out++ = m.b2;
      *out++ = m.anchor1, *out++ = m.anchor2, *out++ = m.sliding;
    }
  }
  void set_state(const double* in) {
    for (Memory& m : memory) {
      m.n = *in++, m.b1 = *in++, m.b2 = *in++;
      m.anchor1 = *in++, m.anchor2 = *in++, m.sliding = *in++;
    }
  }
  int state_size() const { return memory_size * count_; }

  double height(const Vector3& p) const { return ground_.normal.dot(p) - ground_.height; }

  // The rows (N, t1, t2) of contact k at one node: angular parts at the surface point.
  Rows3 node_rows(int k, const Frame& frame) const {
    const ContactPoint& contact = model_.contacts[k];
    return rows_at(frame.R * contact.p - contact.radius * ground_.normal);
  }
  double root_mass(int link) const { return root_mass_[link]; }

 private:
  Rows3 rows_at(const Vector3& lever) const {
    Rows3 rows;
    for (int j = 0; j < 3; ++j) rows.row(j) = lever.cross(Vector3(D_.row(j))).transpose();
    return rows;
  }

  void add(int k, const Frame& frame, double h) {
    const ContactPoint& contact = model_.contacts[k];
    Near& c = near.emplace_back();
    c.index = k, c.link = contact.link;
    c.mu = contact.friction, c.radius = contact.radius, c.point = contact.p;
    // an order of magnitude of the mass at the contact, for the choice of its state
    c.R = contact_scale * std::max(subtree_mass_[c.link], 1e-3 * root_mass_[c.link]) / h;
    c.hard = contact_hardness * root_mass_[c.link] / h;
    const Vector3 lever = frame.R * contact.p;
    c.centre0 = frame.p + lever;
    c.gap0 = height(c.centre0) - c.radius;
    c.left = rows_at(lever - contact.radius * ground_.normal);
    load(c, 1.0);
    is_near_[k] = 1;
  }

  void load(Near& c, double factor) const {
    const Memory& m = memory[c.index];
    c.normal.n = factor * m.n;
    c.friction.b = {factor * m.b1, factor * m.b2};
    c.anchor = {m.anchor1, m.anchor2};
  }

  // Contacts that are far now have no past.
  void forget_far() {
    for (int k = 0; k < count_; ++k) {
      if (!is_near_[k]) memory[k] = {};
    }
  }

  //   dslip = T (v + w x lever1) - r T (E w x N),   E = s I - [u]x
  void set_right_rows(Near& c, const std::vector<Turn>& turns) const {
    c.right = rows_at(c.lever1);
    if (!(c.radius > 0.0)) return;
    const Turn& turn = turns[c.link];
    for (int j = 1; j < 3; ++j) {
      const Vector3 a = ground_.normal.cross(Vector3(D_.row(j)));
      c.right.row(j) -= c.radius * (turn.s * a + turn.u.cross(a)).transpose();
    }
  }

  const Model& model_;
  Ground ground_;
  int count_;
  Rows3 D_;  // rows N, t1, t2
  std::vector<char> is_near_;
  std::vector<double> root_mass_, subtree_mass_, reach_;
  std::vector<int> first_, order_;  // contacts by link
};

}  // namespace vi_contact
