// Contacts, joint limits and joint friction in the step, and in the velocities of the nodes.
#pragma once

#include "contact_solver.hpp"
#include "step.hpp"

namespace vi_contact {

// A closed contact approaches slower than this many free falls of one step: no bounce.
inline constexpr double bounce_threshold = 2.0;

// Linearisations of the step for sweeps over the laws, each with twice the sweeps of the last.
inline constexpr int sweep_rounds = 4, first_sweeps = 50;

// Velocities of a node: error of the laws that Newton's method may leave, of 1 m/s and the speed of
// the contacts, and else the number of sweeps.
inline constexpr double velocity_error = 1e-9;
inline constexpr int velocity_sweeps = 400;

// Stiffness of closed contacts where sweeps have found their state, see `contact_hardness`: softer
// converges slower, but redundant contacts then share their loads instead of toppling over.
inline constexpr double polish_hardness = 1e3;

// Iterations of Newton's method with a line search where bodies meet: sweeps know the ground only.
inline constexpr int body_search_limit = 30;

// Features of bodies that met and do not are looked for again at most so often in a step.
inline constexpr int most_corrections = 4;

// Where Newton's method cannot finish what the interior point found, that goes on to this part of
// its last kappa, if it can: contacts then meet to their tolerance, and the next step may begin so.
inline constexpr double last_part = 1e-4;

// Gain of energy that is accepted, as a part of the kinetic energy and the works: with contacts on
// the ground, which only take, and without, where it tells a wrong solution from the error of a
// long step.
inline constexpr double energy_margin = 0.02, free_energy_margin = 0.25;

// Longest change of a joint in one iteration [rad or m].
inline constexpr double most_motion = 0.5;

// The unknowns of one interval, for `ContactSolver`.
class StepWithLaws {
 public:
  explicit StepWithLaws(Stepper& stepper) : s_(stepper), laws_(stepper.laws_) {}

  // Solves the interval that `begin` and `predict` have prepared.
  void solve(StepReport& report) {
    gravity_ = s_.gravity_.norm();
    laws_.joints.begin(s_.x0_.data(), s_.h_);
    forward_kinematics(s_.model_, s_.x1_.data(), s_.frames1_);
    laws_.contacts.select(s_.frames0_, s_.frames1_, s_.h_, gravity_);
    laws_.bodies.select(s_.frames0_, s_.frames1_, s_.h_, gravity_);
    s_.guess_ = s_.x1_;
    s_.warm_.resize(laws_.state_size());
    laws_.get_state(s_.warm_.data());
    report.status = Status::max_iterations;
    bool missed = true;
    for (int round = 0; missed && round < 10; ++round) {  // those thought to be far come in
      if (!solve_selected(report)) return note_singular(report);
      missed = add_missed(round < most_corrections);
    }
    if (missed) return;
    if (laws_.contacts.ground().restitution > 0.0 && set_bounces()) {
      if (!solve_selected(report)) return note_singular(report);
      if (add_missed(false)) return;
    }
    report.status = Status::converged;
  }

  // Writes a solution that was found elsewhere in the place of one's own.
  void take(const Solution& given, StepReport& report) {
    coordinates_of_q(s_.model_, given.q1.data(), s_.x1_.data());
    constexpr double turn = 2.0 * pi;
    for (const Link& link : s_.model_.links) {
      const int c = link.c + (link.kind == JointKind::planar ? 2 : 0);
      if (!link.unbounded && link.kind != JointKind::planar) continue;
      const double expected = s_.x0_[c] + (link.wheel >= 0 ? s_.predictor_.last()[link.v] : 0.0);
      s_.x1_[c] += turn * std::round((expected - s_.x1_[c]) / turn);
    }
    if (s_.closure_.size() > 0) s_.closure_.lambda = given.lambda;
    laws_.joints.begin(s_.x0_.data(), s_.h_);
    laws_.contacts.select_given(given.contacts, s_.frames0_, s_.h_);
    for (JointLaws::Entry& e : laws_.joints.entries) {
      e.low.n = given.joints(e.v, 0), e.high.n = given.joints(e.v, 1);
      e.friction.b.x() = given.joints(e.v, 2);
    }
    const bool turns_exist = s_.evaluate();
    report.iterations = given.iterations;
    report.residual = Stepper::largest(s_.r_);
    report.closure = s_.closure_.error();
    if (!std::isfinite(report.residual)) report.status = Status::not_finite;
    if (turns_exist) return;
    report.status = Status::rotation;
    report.body = s_.fastest_body();
  }

  // ------------------------------------------------------------------------------- as a System
  bool spend() {
    const AllLaws all = laws_.all();
    const double laws = all.contact_count() + static_cast<double>(laws_.joints.entries.size());
    return s_.spend(1.0 + laws / s_.model_.size());
  }

  Distance distance(bool interior, double kappa) {
    Distance d;
    d.exists = s_.evaluate();
    const double closure = s_.closure_.size() > 0 ? s_.closure_.residual(s_.h_) : 0.0;
    d.size = s_.residual_size();
    const double M = s_.model_.mass * s_.inverse_h_;
    double squares = s_.r_.squaredNorm() + M * M * closure * closure;
    double error = 0.0;
    if (interior) {
      double product = 0.0;
      laws_.contacts.interior_errors(kappa, product, error, squares);
      laws_.joints.interior_errors(kappa, product, error, squares);
      laws_.bodies.interior_errors(kappa, product, error, squares);
      d.size = std::max(d.size, product / (0.5 * kappa));
    } else {
      laws_.contacts.errors(error, squares);
      laws_.joints.errors(error, squares);
      laws_.bodies.errors(error, squares);
    }
    const double size = error / contact_tolerance();
    if (!(size <= d.size)) d.size = size;
    d.merit = std::sqrt(squares);
    return d;
  }

  void start_without_motion() { s_.x1_ = s_.x0_; }

  unsigned long linearise(bool interior, double kappa) {
    if (!interior) return laws_.linearise_newton();
    laws_.linearise_interior(kappa);
    return 0;
  }

  unsigned long linearise_stick() {
    laws_.joints.linearise_newton();
    laws_.contacts.linearise_stick();
    laws_.bodies.linearise_stick();
    return 0;
  }

  bool factor() {
    s_.set_joint_tangents();
    s_.tree_.clear_stiff();
    laws_.add_blocks(s_.turns_, s_.tree_);
    const bool done =
        s_.factor_step(s_.tree_) &&
        (s_.closure_.size() == 0 || s_.closure_.factor(s_.tree_, s_.inverse_h_, true));
    s_.tree_.clear_stiff();
    singular_ = !done;
    if (done) factor_coupled(s_.closure_.size() > 0, s_.inverse_h_);
    return done;
  }

  void direction() {
    find_direction(false);
    if (!laws_.bodies.coupled()) return;
    laws_.bodies.solve_coupled(s_.tree_);
    find_direction(true);
  }

  // `coupled`: with the changes that contacts between two links take.
  void find_direction(bool coupled) {
    for (Wrench& f : s_.f_) f.linear.setZero(), f.angular.setZero();
    s_.rhs_ = s_.r_;
    laws_.subtract_answers(s_.f_, s_.rhs_.data());
    if (coupled) laws_.bodies.subtract_coupled(s_.f_);
    project(s_.model_, s_.frames0_, s_.f_, s_.rhs_.data());
    solve_direction();
  }

  // dq and the change of the loops' multipliers for the right-hand side rhs_.
  void solve_direction() {
    if (s_.closure_.size() > 0) {
      s_.lambda_ = s_.closure_.lambda;
      s_.closure_.solve(s_.tree_, s_.rhs_, s_.inverse_h_, s_.dq_.data());
      s_.lambda_change_ = s_.closure_.lambda - s_.lambda_;
      s_.closure_.lambda = s_.lambda_;
    } else {
      s_.tree_.solve(s_.rhs_.data(), s_.dq_.data());
    }
  }

  // The longest step that keeps the cones.
  double find_changes(bool interior, double kappa) {
    const double cap = longest_step();
    if (interior) return std::min(cap, laws_.find_interior_changes(s_.tree_, s_.dq_.data(), kappa));
    laws_.find_changes(s_.tree_, s_.dq_.data());
    return cap;
  }

  void enter_interior(double scale) { laws_.enter_interior(scale); }

  void begin_search() {
    s_.trial_ = s_.x1_;
    taken_ = 0.0;
  }

  Distance take(double a, bool interior, double kappa) {
    s_.x1_ = s_.trial_;
    s_.scaled_ = a * s_.dq_;
    for (const Link& link : s_.model_.links) {
      retract(link, s_.scaled_.data() + link.v, s_.x1_.data() + link.c);
    }
    if (s_.closure_.size() > 0) s_.closure_.lambda = s_.lambda_ + a * s_.lambda_change_;
    laws_.take_step(a - taken_, interior);
    taken_ = a;
    return distance(interior, kappa);
  }

  // ------------------------------------------------------------------------------- velocities
  // M v = p + G' mu + J' c, with the laws of contact for the velocities of those contacts that
  // were closed in the last step: what the contacts leave of the momentum at the node.
  //
  // A body at rest has p = -h/2 weight, the part of gravity that the next step's impulse will
  // take; its velocity is zero.
  bool velocities(double* v) {
    laws_.contacts.select_closed(s_.frames0_);
    laws_.bodies.select_closed(s_.frames0_, s_.h_, s_.gravity_.norm());
    laws_.joints.begin_velocities(s_.h_);
    s_.tree_.clear_stiff();
    s_.set_mass_tangents();
    bool done = s_.factor_mass() && s_.solve_mass(s_.p0_, v);
    laws_.evaluate_velocities(s_.tree_, v);
    const AllLaws all = laws_.all();
    double speed = 1.0;
    for (int k = 0; k < all.contact_count(); ++k) {
      speed = std::max(speed, 1.0 + all.contact(k).error().norm());
    }
    done = done && newton_velocities(v, speed, true);
    if (!done || !(laws_.error() <= velocity_error * speed)) {
      done = sweep_velocities(v, speed);
      const double error = laws_.error();
      const bool better = newton_velocities(v, speed, false) && laws_.error() <= error;
      if (!better) done = sweep_velocities(v, speed);
    }
    book_node(v);
    laws_.joints.end_velocities();
    return done;
  }

  // Newton's method from the velocities v and the impulses that have led to them; `first`: none.
  bool newton_velocities(double* v, double speed, bool first) {
    unsigned long pattern = 0;
    bool done = true;
    Eigen::Map<VectorX> velocity(v, s_.model_.nv);
    for (int k = 0; done && k < 20; ++k) {
      if (laws_.error() <= 1e-13 * speed) break;
      const bool as_before = first && k == 0;
      const unsigned long is = laws_.linearise_newton();
      if (as_before) laws_.bodies.linearise_as_before();
      if (k == 0 || is != pattern || laws_.contacts.any_slides() || laws_.bodies.any_slides()) {
        pattern = as_before && laws_.bodies.any_closed() ? 0 : is;
        s_.set_mass_tangents();
        laws_.contacts.add_node_blocks(s_.tree_);
        laws_.joints.add_blocks(s_.tree_);
        laws_.bodies.add_blocks(s_.tree_);
        done = s_.factor_mass();
        s_.tree_.clear_stiff();
        if (!done) break;
        factor_coupled(s_.closure_.holonomic() > 0, 0.0);
      }
      for (Wrench& f : s_.f_) f.linear.setZero(), f.angular.setZero();
      s_.rhs_ = s_.p0_;
      laws_.contacts.add_velocity_answers(s_.f_);
      laws_.joints.add_velocity_answers(v, s_.rhs_.data());
      laws_.bodies.add_velocity_answers(s_.f_);
      project(s_.model_, s_.frames0_, s_.f_, s_.rhs_.data());
      s_.scaled_ = velocity;
      done = s_.solve_mass(s_.rhs_, v);
      if (laws_.bodies.coupled()) {
        for (Wrench& f : s_.f_) f.linear.setZero(), f.angular.setZero();
        laws_.bodies.solve_coupled_velocities(s_.tree_, s_.f_);
        project(s_.model_, s_.frames0_, s_.f_, s_.rhs_.data());
        done = s_.solve_mass(s_.rhs_, v);
      }
      laws_.contacts.change_by_velocities(s_.tree_);
      laws_.joints.change_by_velocities(s_.scaled_.data(), v);
      laws_.bodies.change_by_velocities(s_.tree_);
      laws_.evaluate_velocities(s_.tree_, v);
    }
    s_.tree_.clear_stiff();
    return done;
  }

  // The same by sweeps over the laws, for contacts among which Newton's method cycles.
  bool sweep_velocities(double* v, double speed) {
    Sweeps& sweeps = laws_.sweeps;
    laws_.clear_impulses();
    s_.set_mass_tangents();
    if (!s_.factor_mass()) return false;
    const AllLaws all = laws_.all();
    sweeps.begin(all);
    for (int k = 0; k < all.contact_count(); ++k) sweeps.add_contact(k);
    for (size_t k = 0; k < laws_.joints.entries.size(); ++k) {
      const JointLaws::Entry& e = laws_.joints.entries[k];
      if (e.bound > 0.0 || e.kept_low > 0.0 || e.kept_high > 0.0) sweeps.add_joint(k);
    }
    set_answers([&] {
      s_.rhs_ *= -1.0;
      s_.solve_mass(s_.rhs_, v);
      return v;
    });
    s_.solve_mass(s_.p0_, v);
    laws_.joints.begin_sweeps();
    sweeps.motions(all, s_.tree_, v, sweeps.displacements());
    sweeps.run(all, 1e-14 * speed, velocity_sweeps);
    s_.spend(sweeps.take_work(s_.model_.size()));
    s_.rhs_ = -s_.p0_;
    subtract_impulse_changes();
    s_.rhs_ *= -1.0;
    if (!s_.solve_mass(s_.rhs_, v)) return false;
    laws_.evaluate_velocities(s_.tree_, v);
    return true;
  }

  // ------------------------------------------------------------------------------- ledger
  // An impulse works at the mean of the velocities before and after it. Of a step's impulse n, the
  // node's share c (that of `velocities`) works at the end of the step before, between its mean
  // velocity and that of the node; the rest between the node's and the mean velocity of the step:
  //
  //   c (dg0 / h + u) / 2,   (n - c) (u + dg1 / h) / 2
  void book_left() {
    Node& node = s_.node_;
    s_.left_friction_ = s_.left_impact_ = s_.left_gap_ = 0.0;
    twists(s_.model_, s_.frames0_, node.v.data(), s_.f_);
    for (Contacts::Near& c : laws_.contacts.near) {
      const Wrench& xi = s_.f_[c.link];
      const Vector3 u = laws_.contacts.directions() * xi.linear + c.left * xi.angular;
      c.rests = begins_at_rest(c.gap0, u[0]);
      Vector3 share = Vector3::Zero();
      for (const auto& [index, impulse] : node.contacts) {
        if (index == c.index) share = impulse;
      }
      const Vector3 mean = s_.inverse_h_ * Contacts::moved(c);
      laws_.contacts.means[c.index] = mean;
      const Vector3 work = 0.5 * (c.impulse() - share).cwiseProduct(u + mean);
      s_.left_impact_ += work[0];
      s_.left_friction_ += work[1] + work[2];
      s_.left_gap_ += 0.5 * (c.impulse().dot(u - mean) + share.dot(mean));
    }
    for (BodyContacts::Near& c : laws_.bodies.near) {
      c.mean = s_.inverse_h_ * BodyContacts::moved(c);
      const Vector3 u = BodyContacts::velocity(c, s_.f_);
      c.rests = begins_at_rest(c.gap0, u[0]);
      book_left_body(c.impulse(), u, c.mean);
      s_.left_gap_ += 0.5 * c.impulse().dot(u - c.mean);
    }
    for (const Node::Body& share : node.bodies) {  // its features need not meet in this step
      Vector3 mean = Vector3::Zero();
      for (const BodyContacts::Near& c : laws_.bodies.near) {
        if (c.f.key == share.key) mean = c.mean;
      }
      book_left_body(-share.impulse, share.u, mean);
      s_.left_gap_ += 0.5 * share.impulse.dot(mean);
    }
    for (size_t i = 0; i < laws_.joints.entries.size(); ++i) {
      JointLaws::Entry& e = laws_.joints.entries[i];
      const Vector2 share = node.joints.empty() ? Vector2::Zero() : node.joints[i];
      const double moved = s_.inverse_h_ * (e.friction.d.x() - e.anchor);
      const double mean = 0.5 * (node.v[e.v] + moved);
      e.mean = moved;
      s_.left_gap_ += 0.5 * (e.impulse() * (node.v[e.v] - moved) + share.sum() * moved);
      s_.left_impact_ += (e.low.n - e.high.n - share[0]) * mean;
      s_.left_friction_ += (e.friction.b.x() - share[1]) * mean;
    }
  }

 private:
  // Whether a contact touches where the motion begins, and not by an impact: it comes slower than
  // it falls in half a step.
  bool begins_at_rest(double gap, double speed) const {
    const double fall = 0.5 * s_.h_ * std::max(s_.gravity_.norm(), least_gravity);
    return s_.last_.h == 0.0 && gap <= touching && -speed <= fall;
  }

  void note_singular(StepReport& report) const {
    if (!singular_) return;
    report.status = Status::singular;
    report.body = s_.tree_.singular_link();
  }

  // Contacts that turn out to be closed and were not thought of.
  bool add_missed(bool correct) {
    const bool ground =
        laws_.contacts.add_missed(s_.frames0_, s_.frames1_, s_.h_, contact_tolerance());
    const bool bodies =
        laws_.bodies.exist() && laws_.bodies.add_missed(s_.frames0_, s_.frames1_, s_.h_, correct);
    return ground || bodies;
  }

  // The dense system of contacts between two links, on the factored tree. Of a step, or with
  // inverse_h zero of velocities at the node.
  void factor_coupled(bool loops, double inverse_h) {
    laws_.bodies.factor(
        s_.tree_, !loops, [&](const std::vector<Wrench>& g, const std::vector<int>& path) {
          if (!loops) {
            s_.tree_.climb(path, s_.no_residual_.data(), g);
            s_.tree_.descend(path, s_.response_.data());
            return;
          }
          s_.f_ = g;
          s_.impulse_.setZero();
          project(s_.model_, s_.frames0_, s_.f_, s_.impulse_.data());
          if (inverse_h > 0.0) {
            s_.closure_.solve_change(s_.tree_, s_.impulse_, inverse_h, s_.response_.data());
          } else {
            s_.impulse_ *= -1.0;
            s_.solve_mass(s_.impulse_, s_.response_.data());
          }
        });
  }

  void book_left_body(const Vector3& impulse, const Vector3& u, const Vector3& mean) {
    const Vector3 work = 0.5 * impulse.cwiseProduct(u + mean);
    s_.left_impact_ += work[0];
    s_.left_friction_ += work[1] + work[2];
  }

  void book_node(const double* v) {
    if (!s_.keep_books) return;
    Node& node = s_.node_;
    node.clear();
    for (const Contacts::Near& c : laws_.contacts.near) {
      const Vector3 u(c.normal.g, c.friction.d.x(), c.friction.d.y());
      const Vector3 work = 0.5 * c.impulse().cwiseProduct(u + laws_.contacts.means[c.index]);
      node.impact += work[0];
      node.friction += work[1] + work[2];
      node.gap -= 0.5 * c.impulse().dot(laws_.contacts.means[c.index]);
      node.contacts.emplace_back(c.index, c.impulse());
    }
    for (const BodyContacts::Near& c : laws_.bodies.near) {
      const Vector3 work = 0.5 * c.impulse().cwiseProduct(c.error() + c.mean);
      node.impact += work[0];
      node.friction += work[1] + work[2];
      node.gap -= 0.5 * c.impulse().dot(c.mean);
      node.bodies.push_back({c.f.key, c.impulse(), c.error()});
    }
    for (const JointLaws::Entry& e : laws_.joints.entries) {
      const double mean = 0.5 * (e.mean + v[e.v]), limit = e.low.n - e.high.n;
      node.impact += limit * mean;
      node.friction += e.friction.b.x() * mean;
      node.gap -= 0.5 * e.impulse() * e.mean;
      node.joints.emplace_back(limit, e.friction.b.x());
    }
  }

  bool solve_selected(StepReport& report) {
    ContactSolver<StepWithLaws> solver(*this);
    Method method = s_.first_method_;
    bool done = method == Method::newton && solver.newton(false, newton_limit) && !gains_energy();
    if (!done && method == Method::newton) {
      method = Method::sweeps;
      start_again();
      done = solver.newton(false, newton_limit, true) && !gains_energy();
    }
    if (!done && method == Method::sweeps) {
      start_again();
      done = solve_by_sweeps(solver) && !gains_energy();
    }
    for (int again = 0;
         !done && method == Method::sweeps && !laws_.bodies.near.empty() && again < 2; ++again) {
      start_again();
      done = solver.newton(true, body_search_limit, again == 0) && !gains_energy();
    }
    if (!done) {
      method = Method::interior;
      start_again();
      const double M = s_.model_.mass * s_.inverse_h_;
      const double last = 1e-11 * M * std::max(gravity_ * s_.h_ * s_.h_, 1e-7);
      distance(false, 0.0);
      const double scale = motion_scale();
      done = solver.interior(scale, M * scale * scale, last);
      if (done) {
        keep_iterate();
        if (!solver.newton(true, polish_limit)) {
          take_kept();
          if (!solver.follow(scale, last, last_part * last)) take_kept();
          distance(true, last);
        }
        done = !gains_energy();
      }
    }
    report.iterations += solver.iterations;
    report.method = std::max(report.method, method);
    if (!done) report.body = s_.fastest_body();
    return done;
  }

  // Sweeps find which laws act, Newton's method the rest.
  bool solve_by_sweeps(ContactSolver<StepWithLaws>& solver) {
    for (int round = 0; round < sweep_rounds && s_.spend(); ++round) {
      ++solver.iterations;
      if (!sweep(first_sweeps << round)) return false;
      keep_iterate();
      laws_.contacts.set_hardness(polish_hardness, s_.h_);
      const bool solved = solver.newton(true, polish_limit);
      laws_.contacts.set_hardness(contact_hardness, s_.h_);
      if (solved) return true;
      take_kept();
    }
    return false;
  }

  // Linearises the step and sweeps over its laws; false if there is no such step.
  bool sweep(int most) {
    Sweeps& sweeps = laws_.sweeps;
    if (!distance(false, 0.0).exists) {
      start_without_motion();
      distance(false, 0.0);
    }
    laws_.release();
    if (!factor()) return false;
    s_.rhs_ = s_.r_;
    solve_direction();
    const AllLaws all = laws_.all();
    sweeps.begin(all);
    choose_laws(true);
    for (int round = 0; round < 6; ++round) {
      set_answers([&] {
        if (s_.closure_.size() > 0) {
          s_.closure_.solve_change(s_.tree_, s_.rhs_, s_.inverse_h_, s_.dq_.data());
        } else {
          s_.tree_.solve(s_.rhs_.data(), s_.dq_.data());
        }
        return s_.dq_.data();
      });
      s_.rhs_ = s_.r_;
      subtract_impulse_changes();
      solve_direction();
      sweeps.set_displacements(all, s_.tree_, s_.dq_.data());
      sweeps.run(all, 0.01 * contact_tolerance(), most);
      if (!s_.spend(sweeps.take_work(s_.model_.size()))) return false;
      s_.rhs_ = s_.r_;
      subtract_impulse_changes();
      solve_direction();
      if (!choose_laws(false)) break;
    }
    sweeps.end(all);
    double a = longest_step();
    begin_search();
    Distance now = take(a, false, 0.0);
    for (int halvings = 0; !now.exists && halvings < 6; ++halvings) {
      now = take(a *= 0.5, false, 0.0);
    }
    return now.exists && std::isfinite(now.size);
  }

  // Adds the laws that the last direction would break and, first, those that act.
  bool choose_laws(bool first) {
    Sweeps& sweeps = laws_.sweeps;
    const int before = sweeps.rows();
    const double* dq = s_.dq_.data();
    const AllLaws all = laws_.all();
    for (int k = 0; k < all.contact_count(); ++k) {
      const ContactState& c = all.contact(k);
      const double g = c.normal.g + all.motion(k, s_.tree_)[0];
      if (g < -contact_tolerance() || (first && c.normal.n > 0.0)) sweeps.add_contact(k);
    }
    for (int k = 0; k < static_cast<int>(laws_.joints.entries.size()); ++k) {
      const JointLaws::Entry& e = laws_.joints.entries[k];
      const bool acts = e.torque > 0.0 || e.low.n > 0.0 || e.high.n > 0.0;
      const double g = std::min(e.low.g + dq[e.v], e.high.g - dq[e.v]);
      if (g < -contact_tolerance() || (first && acts)) sweeps.add_joint(k);
    }
    return sweeps.rows() > before;
  }

  // Columns of W: what the motion answers to unit impulses. `solve` takes minus the generalised
  // impulse rhs_ and returns the increments, which it has also put into the tree.
  template <class Solve>
  void set_answers(Solve solve) {
    Sweeps& sweeps = laws_.sweeps;
    const AllLaws all = laws_.all();
    sweeps.resize();
    int j = 0;
    const auto answer = [&] {
      const double* dq = solve();
      sweeps.motions(all, s_.tree_, dq, sweeps.column(j++));
    };
    for (int k : sweeps.contacts) {
      for (int axis = 0; axis < 3; ++axis) {
        for (Wrench& f : s_.f_) f.linear.setZero(), f.angular.setZero();
        all.add_wrench(k, -Vector3::Unit(axis), s_.f_);
        s_.rhs_.setZero();
        project(s_.model_, s_.frames0_, s_.f_, s_.rhs_.data());
        answer();
      }
    }
    for (int k : sweeps.joints) {
      s_.rhs_.setZero();
      s_.rhs_[laws_.joints.entries[k].v] = -1.0;
      answer();
    }
  }

  // What the sweeps have changed since they began.
  void subtract_impulse_changes() {
    for (Wrench& f : s_.f_) f.linear.setZero(), f.angular.setZero();
    const AllLaws all = laws_.all();
    for (int k : laws_.sweeps.contacts) {
      all.add_wrench(k, all.contact(k).start - all.contact(k).impulse(), s_.f_);
    }
    for (int k : laws_.sweeps.joints) {
      const JointLaws::Entry& e = laws_.joints.entries[k];
      s_.rhs_[e.v] -= e.impulse() - (e.start_low - e.start_high + e.start_friction);
    }
    project(s_.model_, s_.frames0_, s_.f_, s_.rhs_.data());
  }

  // Contacts and limits only take energy. A long step may have a second solution, far off, with
  // much more of it, and where a body turns far within a step its own error may be large: both
  // shrink with the step. In the smallest parts of a step it is accepted.
  bool gains_energy() const {
    if (s_.depth_ >= s_.settings_.max_halvings) return false;
    const Stepper::NodeEnergy node = s_.node_energy();
    const double fall = gravity_ * s_.h_;
    const bool tight = (laws_.pushes() || laws_.contacts.any_closed()) && laws_.bodies.near.empty();
    const double margin = tight ? energy_margin : free_energy_margin;
    return node.gain > margin * (node.exchanged + s_.model_.mass * fall * fall);
  }

  // The part of the last direction within which the linear system means something.
  double longest_step() const {
    const double longest = s_.largest_motion(s_.dq_);
    return longest > most_motion ? most_motion / longest : 1.0;
  }

  // What contacts move or penetrate in the first guess [m].
  double motion_scale() const {
    double scale = std::max(gravity_ * s_.h_ * s_.h_, 1e-7);
    for (const Contacts::Near& c : laws_.contacts.near) {
      scale = std::max(scale, -c.normal.g);
      if (c.normal.g < scale) scale = std::max(scale, 0.5 * c.friction.d.norm());
    }
    for (const BodyContacts::Near& c : laws_.bodies.near) {
      scale = std::max(scale, -c.normal.g);
      if (c.normal.g < scale) scale = std::max(scale, 0.5 * c.friction.d.norm());
    }
    for (const JointLaws::Entry& e : laws_.joints.entries) {
      scale = std::max({scale, -e.low.g, -e.high.g});
    }
    return std::min(scale, 0.1);
  }

  void start_again() {
    s_.x1_ = s_.guess_;
    laws_.contacts.warm_start(1.0);
    laws_.bodies.warm_start();
    laws_.joints.load_impulses(s_.warm_.data() + laws_.contacts.state_size());
    s_.closure_.start_lambda(s_.h_);
  }

  void keep_iterate() {
    s_.guess_ = s_.x1_;
    laws_.keep();
    s_.lambda_kept_ = s_.closure_.lambda;
  }
  void take_kept() {
    s_.x1_ = s_.guess_;
    laws_.take_kept();
    s_.closure_.lambda = s_.lambda_kept_;
  }

  // Contacts that closed in this step and came fast leave at once, from the gap g0 where they are
  // and with the speed w that falling on and bouncing by e times the speed would have had there:
  //   w^2 = e^2 (u^2 + 2 a g0) - 2 a g0,   g(q1) >= g0 + h (w - h a / 2)
  // with u the normal velocity at the left node and a the acceleration towards the ground, held by
  // nothing.
  bool set_bounces() {
    const double e = laws_.contacts.ground().restitution;
    bool any = false;
    laws_.keep();  // the velocities at the node make a selection of their own
    s_.get_v(s_.bounce_v_.data());
    const VectorX a_free = s_.free_acceleration(s_.bounce_v_.data());
    laws_.take_kept();
    twists(s_.model_, s_.frames0_, s_.bounce_v_.data(), s_.f_);
    std::vector<Wrench> accelerations(s_.model_.size());
    twists(s_.model_, s_.frames0_, a_free.data(), accelerations);
    const Vector3& N = laws_.contacts.ground().normal;
    for (Contacts::Near& c : laws_.contacts.near) {
      const bool closes = c.normal.trial(c.R) > 0.0 && !(laws_.contacts.memory[c.index].n > 0.0);
      if (!closes) continue;
      const Vector3 lever = s_.frames0_[c.link].R * c.point;
      const Wrench &xi = s_.f_[c.link], &rate = accelerations[c.link];
      const double u = N.dot(xi.linear + xi.angular.cross(lever));
      if (u > -bounce_threshold * gravity_ * s_.h_) continue;
      const double a = -N.dot(rate.linear + rate.angular.cross(lever)), fall = 2.0 * a * c.gap0;
      const double w = std::sqrt(std::max(0.0, e * e * (u * u + fall) - fall));
      c.target = std::max(0.0, c.gap0 + s_.h_ * (w - 0.5 * s_.h_ * a));
      any |= c.target > 0.0;
    }
    if (s_.closure_.size() > 0) s_.closure_.evaluate(s_.frames0_, s_.x0_.data(), s_.h_, true);
    s_.evaluate();  // at the solution without bounces again
    return any;
  }

  double contact_tolerance() const {
    return std::max(s_.settings_.contact_tolerance, 2e-15 * s_.reach_);
  }

  Stepper& s_;
  Laws& laws_;
  double gravity_ = 0.0, taken_ = 0.0;
  bool singular_ = false;  // the last factorisation found no inertia
};

inline void Stepper::solve_with_laws(StepReport& report) { StepWithLaws(*this).solve(report); }
inline void Stepper::take_solution(StepReport& report) {
  StepWithLaws(*this).take(*given_, report);
}
inline bool Stepper::velocities_with_laws(double* v) { return StepWithLaws(*this).velocities(v); }

inline void Stepper::book_left_laws() { StepWithLaws(*this).book_left(); }

}  // namespace vi_contact
