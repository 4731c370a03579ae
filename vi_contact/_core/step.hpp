// One step of the variational integrator, in position-momentum form.
//
// A node k has joint coordinates q_k and generalised momenta p_k = M(q_k) v_k (up to forces of
// the loops). With P(q) the map from joint to body velocities, l and r the bodies' left and right
// momenta over the interval and F its forces,
//
//   P(q_k)' [ l(q_k, q_k+1) - h/2 F ] - G(q_k)' lambda = p_k,    g(q_k+1) = 0    solved for q_k+1
//   p_k+1 = P(q_k+1)' [ r(q_k, q_k+1) + h/2 F ]
//
// which is the discrete Euler-Lagrange equation at every node, with each interval's forces split
// into halves at its ends.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "closure.hpp"
#include "laws.hpp"
#include "maps.hpp"
#include "predictor.hpp"
#include "watch.hpp"

namespace vi_contact {

enum class Status {
  converged,
  max_iterations,
  rotation,
  singular,
  not_finite,
  work_limit = 7,     // 5 and 6 are of other solvers
  interrupted = 100,  // by the watch
};

struct Settings {
  double momentum_tolerance = 1e-10;
  double velocity_tolerance = 1e-9;
  double closure_tolerance = 1e-12;
  int max_iterations = 30;
  int max_halvings = 4;
  double max_turn = infinity;         // of a body in a step [rad]; further ones are split
  double error_tolerance = infinity;  // of a step, see `step_error` [m or rad]
  double contact_tolerance = 1e-12;
  Ground ground = {};
};

// What solved a step: Newton's method, sweeps over the laws, the interior point.
enum class Method { newton, sweeps, interior };

// What one step did; energies in [J].
struct StepReport {
  Status status = Status::converged;
  int iterations = 0;
  double residual = 0.0;  // largest momentum residual [N s or N m s]
  double closure = 0.0;   // largest loop error [m or rad]
  int body = world;       // the body that turns too fast, if any
  int parts = 1;          // how many smaller steps it took
  double error = 0.0;     // the sum over them, see `Stepper::error` [m or rad]
  int contacts = 0;       // closed ones
  Method method = Method::newton;
};

struct Work {
  double motor = 0.0, external = 0.0, damping = 0.0, friction = 0.0, impact = 0.0;
  double integration = 0.0;  // what the scheme itself adds, see books.hpp
};

// A factorisation is used again, in the same step or the next ones, while an iteration with it is
// expected to be the last, or divides the residual by the first of these. What an old one will do
// is what it did last time, at most the second.
inline constexpr double fall_to_keep_factors = 50.0;
inline constexpr double most_fall = 1e4;

// A Newton step is halved at most so often; after that it is taken as it is.
inline constexpr int most_halvings = 8;

// A step is split before it is tried if its farthest turn would be so many times what is accepted.
inline constexpr double clearly_farther = 1.5;

// Of the kinetic energy of a step, the most that may be across the loops at either end, and the
// largest difference of both, which is the step's error.
inline constexpr double most_bend = 0.02, most_bend_error = 1e-3;

// Work that a step may take in all its parts and by all methods, in iterations of Newton's method
// on the robot alone (some microseconds), and how much more for every part that is done. Refined
// steps take 5 a part; robots that fall onto many contacts at 10 000 g have taken 80 000. Without a
// bound ten halvings with every method at each are millions.
inline constexpr double most_work = 1e5, work_per_part = 30.0;

// What contacts and joint laws did to the velocity of a node, for the ledger.
struct Node {
  VectorX v;
  std::vector<std::pair<int, Vector3>> contacts;
  struct Body {
    double key;  // of the features
    Vector3 impulse, u;
  };
  std::vector<Body> bodies;
  std::vector<Vector2> joints;  // limit, friction
  double friction = 0.0, impact = 0.0;
  double gap = 0.0;  // part of the integration error, see books.hpp

  void clear() {
    contacts.clear(), bodies.clear(), joints.clear();
    friction = impact = gap = 0.0;
  }
};

// The end of an interval as another solver found it: `Stepper` then does the rest of the step.
struct Solution {
  VectorX q1, lambda;  // pinocchio's q; impulses of the rows of `Closure`
  // columns: contact, world impulse, gap to reach
  Eigen::Matrix<double, Eigen::Dynamic, 5, Eigen::RowMajor> contacts;
  // per velocity coordinate: impulses of the lower and the upper limit and of friction
  Eigen::Matrix<double, Eigen::Dynamic, 3, Eigen::RowMajor> joints;
  int iterations = 0;
};

class Stepper {
  friend class StepWithLaws;

 public:
  Stepper(const Model& model, double time_step, const Vector3& gravity, const Settings& settings)
      : model_(model),
        settings_(settings),
        h_(time_step),
        usual_h_(time_step),
        inverse_h_(1.0 / time_step),
        gravity_(gravity),
        tree_(model),
        chord_(model),
        closure_(model),
        frames0_(model.size()),
        frames1_(model.size()),
        turns_(model.size()),
        spins_(model.wheels.size()),
        velocities_(model.size()),
        f_(model.size()),
        half_(model.size()),
        x0_(VectorX::Zero(model.nc)),
        x1_(VectorX::Zero(model.nc)),
        trial_(VectorX::Zero(model.nc)),
        p0_(VectorX::Zero(model.nv)),
        p1_(VectorX::Zero(model.nv)),
        predictor_(model.nv),
        r_(VectorX::Zero(model.nv)),
        dq_(VectorX::Zero(model.nv)),
        v_before_(VectorX::Zero(model.nv)),
        v_after_(VectorX::Zero(model.nv)),
        torque_(VectorX::Zero(model.nv)),
        lean_(VectorX::Zero(model.nv)),
        alpha_(VectorX::Zero(model.nv)),
        leaned_(VectorX::Zero(model.nv)),
        feedback_(VectorX::Zero(model.nv)),
        last_feedback_(VectorX::Constant(model.nv, infinity)),
        tau_(VectorX::Zero(model.nu)),
        saturated_(VectorX::Zero(model.nu)),
        laws_(model, settings.ground, zero_frames(model)) {
    for (const Link& link : model.links) {
      quaternion_identity(link);
      for (int j = 0; j < 6 && link.nv == 6 && link.parent == world; ++j) {
        const Drive& drive = model.drives[link.v + j];
        if (drive.input >= 0 || drive.damping != 0.0) tree_.driven_base = true;
      }
    }
    with_laws_ = laws_.exist();
    least_cosine_ = settings.max_turn < pi ? std::cos(0.5 * settings.max_turn) : 0.0;
    least_cosine_far_ = settings.max_turn < pi ? std::cos(0.25 * settings.max_turn) : 0.0;
    if (!laws_.joints.entries.empty()) passive_ = true;
    warm_ = VectorX::Zero(laws_.state_size());
    rhs_ = scaled_ = bounce_v_ = VectorX::Zero(model.nv);
    no_residual_ = response_ = impulse_ = last_.drives = VectorX::Zero(model.nv);
    last_.rates = VectorX::Zero(closure_.springs.forces.size());
    guess_ = VectorX::Zero(model.nc);
    for (int j = 0; j < model.nv; ++j) {
      const Drive& drive = model.drives[j];
      if (drive.damping != 0.0 || drive.armature != 0.0 || drive.motor) passive_ = true;
    }
    saved_ = VectorX::Zero(state_size());
    set_inertias();
    set_lean();
    inverse_tolerance_ = VectorX::Zero(model.nv);
    chord_of_.x0 = chord_of_.x1 = VectorX::Zero(model.nc);
    chord_.driven_base = tree_.driven_base;
    load_frames();
  }

  Stepper(const Stepper&) = delete;

  double time_step() const { return h_; }
  const Model& model() const { return model_; }

  // ------------------------------------------------------------------------------- state
  // The whole state as numbers: coordinates, momenta, what the predictor knows of the last steps,
  // the feedback of the last step, the step of the last factorisation, and what contacts and joints
  // remember.
  int state_size() const {
    return 3 * model_.nc + 4 * model_.nv + 36 * model_.dense + predictor_.state_size() + 6 +
           4 * static_cast<int>(last_.rates.size()) + laws_.state_size();
  }

  void get_state(double* out) const {
    const auto put = [&](const VectorX& v) { out = std::copy(v.data(), v.data() + v.size(), out); };
    put(x0_), put(p0_), put(last_feedback_);
    predictor_.get_state(out);
    out += predictor_.state_size();
    put(chord_of_.x0), put(chord_of_.x1), put(chord_.kappa);
    for (const Matrix6& kappa : chord_.kappa_dense) out = std::copy_n(kappa.data(), 36, out);
    *out++ = chord_of_.h;
    *out++ = chord_of_.fall;
    *out++ = last_.kinetic, *out++ = last_.power, *out++ = last_.h, *out++ = last_.turning;
    put(last_.drives), put(last_.rates), put(closure_.springs.forces), put(closure_.springs.older);
    put(closure_.springs.owed);
    laws_.get_state(out);
  }

  // Throws where numbers, which may come from a file, are no state: it would lead astray.
  void check_state(const double* in, long size) const {
    const double* begin = in;
    const auto refuse = [&](const char* what) {
      throw std::invalid_argument(std::string("it has ") + what);
    };
    const long fixed = state_size() - laws_.bodies.state_size() + 1;
    if (size < fixed) refuse("too few numbers");
    const long feedback = model_.nc + model_.nv, predictor = feedback + model_.nv;
    const long kinetic =
        predictor + predictor_.state_size() + 2L * model_.nc + model_.nv + 36L * model_.dense + 2;
    for (long k = 0; k < fixed; ++k) {
      const bool may_be_unknown = (k >= feedback && k < predictor) || k == kinetic;
      if (std::isfinite(in[k]) || (may_be_unknown && in[k] == infinity)) continue;
      refuse("numbers that are not finite");
    }
    for (const Link& link : model_.links) {
      const int c = link.c + (link.kind == JointKind::floating ? 3 : 0);
      const bool turns = link.kind == JointKind::floating || link.kind == JointKind::spherical;
      if (turns && !(std::abs(Eigen::Map<const Eigen::Vector4d>(in + c).norm() - 1.0) < 1e-6)) {
        refuse("a quaternion whose length is not one");
      }
    }
    if (!predictor_.has_count(in[predictor])) refuse("a number of increments that cannot be");
    in += fixed - 1 - laws_.joints.state_size();
    if (!laws_.joints.are_flags(in)) refuse("a joint that neither sticks nor slides");
    laws_.bodies.check_state(begin + fixed - 1, size - fixed + 1, refuse);
  }

  void set_state(const double* in) {
    const auto take = [&](VectorX& v) {
      std::copy(in, in + v.size(), v.data());
      in += v.size();
    };
    take(x0_), take(p0_), take(last_feedback_);
    predictor_.set_state(in);
    in += predictor_.state_size();
    take(chord_of_.x0), take(chord_of_.x1), take(chord_.kappa);
    for (Matrix6& kappa : chord_.kappa_dense) {
      std::copy_n(in, 36, kappa.data());
      in += 36;
    }
    chord_of_.h = *in++;
    chord_of_.fall = *in++;
    chord_is_old_ = true;
    last_.kinetic = *in++, last_.power = *in++, last_.h = *in++, last_.turning = *in++;
    take(last_.drives), take(last_.rates), take(closure_.springs.forces);
    take(closure_.springs.older), take(closure_.springs.owed);
    laws_.set_state(in);
    leaned_last_ = true;  // or may have
    load_frames();
  }

  // Momentum-consistent start: p = M(q) v.
  void reset(const double* q, const double* v) {
    coordinates_of_q(model_, q, x0_.data());
    settle_mimic_turns(x0_.data());
    normalise_quaternions();
    laws_.forget();
    last_feedback_.setConstant(infinity);
    chord_of_.h = 0.0;
    chord_of_.fall = fall_to_keep_factors;
    load_frames();
    apply_mass_matrix(model_, frames0_, v, f_, p0_.data());
    last_.kinetic = 0.5 * p0_.dot(Eigen::Map<const VectorX>(v, model_.nv));
    last_.power = with_laws_ ? gravity_power(v) : 0.0;
    last_.h = 0.0;
    last_.turning = fastest_rotation(v).first;
    last_.drives.setZero();
    twists(model_, frames0_, v, f_);
    closure_.start_springs(frames0_, f_, h_, last_.rates);
    predictor_.restart(h_ * Eigen::Map<const VectorX>(v, model_.nv));
  }

  void get_q(double* q) const { q_of_coordinates(model_, x0_.data(), q); }

  // Node velocity: the momentum projected on the loops' tangent, M v = p + G' mu with G v = 0, and
  // on what is in contact. Where no such velocity exists, the mass matrix being singular or
  // contacts without a solution, the mean one of the last step, and false.
  bool get_v(double* v) {
    bool done;
    if (with_laws_ && laws_.act()) {
      done = velocities_with_laws(v);
    } else {
      node_.clear();
      set_mass_tangents();
      done = factor_mass() && solve_mass(p0_, v);
    }
    Eigen::Map<VectorX> velocity(v, model_.nv);
    done = done && velocity.allFinite();
    if (!done) velocity = predictor_.last() * inverse_h_;
    node_.v = velocity;
    return done;
  }

  // Acceleration at the node without contacts and joint laws: what a step with the node's
  // velocities lacks of momentum, over half a step. In the step that `begin` has prepared; forgets
  // the impulses of the laws.
  VectorX free_acceleration(const double* v) {
    const VectorX x1 = x1_, lambda = closure_.lambda;
    laws_.clear_impulses();
    closure_.lambda.setZero();
    x1_ = x0_;
    dq_ = h_ * Eigen::Map<const VectorX>(v, model_.nv);
    move();
    evaluate();
    if (closure_.size() > closure_.holonomic()) {
      closure_.set_node_forces(h_);
      evaluate();
    }
    rhs_ = -r_;
    VectorX a = VectorX::Zero(model_.nv);
    tree_.clear_stiff();
    set_mass_tangents();
    if (factor_mass()) solve_mass(rhs_, a.data());
    x1_ = x1, closure_.lambda = lambda;
    return 2.0 * inverse_h_ * a;
  }
  VectorX free_acceleration(const double* v, const double* tau, const double* wrenches) {
    laws_.keep();
    begin(tau, wrenches);
    const VectorX a = free_acceleration(v);
    laws_.take_kept();
    return a;
  }

  // Largest |w| of a body at the node, and which; wheels may turn as fast as they like.
  std::pair<double, int> fastest_rotation(const double* v) {
    std::pair<double, int> fastest{0.0, world};
    twists(model_, frames0_, v, f_);
    for (int i = 0; i < model_.size(); ++i) {
      const double w = f_[i].angular.norm();
      if (w > fastest.first && model_.links[i].wheel < 0) fastest = {w, i};
    }
    return fastest;
  }

  // ------------------------------------------------------------------------------- step
  // wrenches: world force and torque at each body's centre of mass (n, 6), or null.
  //
  // A step that cannot be solved, in which a body turns too far, or whose error is too large, is
  // taken in two halves, and those in halves again if they must: the state (q, p) at a node serves
  // intervals of any length. If that fails too, the state is the one before the step.
  StepReport step(const double* tau, const double* wrenches) {
    work_ = Work();
    spent_ = 0.0;
    allowed_ = most_work;
    ended_ = Status::converged;
    was_split_ = false;
    laws_.contacts.touches.clear();
    const bool refined = settings_.error_tolerance < infinity;
    StepReport parts;
    parts.parts = 0;
    parts.error = 0.0;
    const bool far = turns_far();
    if (!refined && !far) {
      const StepReport report = interval(tau, wrenches);
      if (report.status == Status::converged || settings_.max_halvings == 0) return report;
      if (ended_ != Status::converged) return report;
      parts.iterations = report.iterations;
    }
    saved_.resize(state_size());
    get_state(saved_.data());
    was_split_ = true;
    laws_.contacts.touches.clear();
    get_v(v_before_.data());
    const double whole = h_;
    const bool done =
        refined || far ? part(tau, wrenches, 0, parts) : halves(tau, wrenches, 1, parts);
    depth_ = 0;
    const double last = h_;
    set_step(whole);
    if (!done) {
      set_state(saved_.data());
      return parts;
    }
    error_ = parts.error;
    predictor_.rescale(whole / last);
    return parts;
  }

  // Servos that act from now on, (nu, 4): angle, speed, stiffness, damping; null for none.
  void set_servos(const double* rows) {
    servos_.clear();
    for (int i = 0; rows && i < model_.nu; ++i, rows += 4) {
      servos_.push_back({rows[0], rows[1], rows[2], rows[3]});
    }
    set_lean();
  }

  // (nv, 3): how the feedback of each coordinate acts in a step of given length, see
  // joint_forces.hpp: alpha, theta, and the feedback of the step before; theta is 1/2 without one.
  Eigen::Matrix<double, Eigen::Dynamic, 3> feedback(double time_step) const;

  // (rows, 5): the rule of each row of springs in a step of given length, see springs.hpp: alpha,
  // share and carried of the left impulse, and of the right one.
  Eigen::Matrix<double, Eigen::Dynamic, 5> spring_rule(double time_step) {
    closure_.evaluate_springs(frames0_, time_step, true);
    Eigen::Matrix<double, Eigen::Dynamic, 5> rule(closure_.springs.forces.size(), 5);
    for (int i = 0; i < rule.rows(); ++i) {
      const Row& row = closure_.rows[closure_.holonomic() + i];
      rule.row(i) << row.alpha, row.share, row.carried, row.right_share, row.right_carried;
    }
    return rule;
  }

  // Forces of the rows of springs and dampers in the last interval, or at the start [N].
  const VectorX& spring_forces() const { return closure_.springs.forces; }

  // A step of any length; the state keeps the warm start of the usual one.
  StepReport step(const double* tau, const double* wrenches, double time_step) {
    const double usual = h_;
    resize(time_step);
    const StepReport report = step(tau, wrenches);
    length_ = time_step;
    resize(usual);
    return report;
  }

  // After an exception in the midst of a step: to the state before it.
  void take_back_step(const double* state) {
    depth_ = 0;
    given_.reset();
    set_step(usual_h_);
    set_state(state);
  }

  double length() const { return length_; }

  // Energy of the last step, -d L_d / d h, less the mean of the potentials at both nodes [J]:
  // kinetic, at the mean velocities, rotors included, and what springs have less at the mean of
  // their lengths. Of a step that was split, that of its last part.
  double interval_energy() const {
    double sum = mean_kinetic(1.0 / part_length_) + closure_.excess_potential();
    for (int j = 0; j < model_.nv; ++j) {
      const double speed = inverse_h_ * predictor_.last()[j];
      sum += 0.5 * model_.drives[j].armature * speed * speed;
    }
    return sum;
  }

  // Impulses of loops, mimic joints, springs and dampers at the left node of the last step, and
  // what those of loops and mimic joints took at the node in the last `get_v` [N s or N m s].
  const VectorX& multipliers() const { return closure_.lambda; }
  const VectorX& node_multipliers() const { return closure_.node_lambda(); }

  // Adds a generalised impulse to the momentum of the node.
  void push(const double* impulse) {
    p0_ += Eigen::Map<const VectorX>(impulse, model_.nv);
    last_.kinetic = infinity;  // not known
    predictor_.rescale(1.0);
  }

  // Estimate of the error of the last step [m or rad], with node velocities v0 before and v1 after
  // it; of a step that was split, the sum over its parts.
  double error(const double* v0, const double* v1) const {
    return was_split_ ? error_ : step_error(v0, v1, part_length_);
  }

  const VectorX& applied_tau() const { return tau_; }
  const VectorX& saturated() const { return saturated_; }

  // Works of the last step, with node velocities v0 before and v1 after it.
  Work work(const double* v0, const double* v1) {
    return was_split_ ? work_ : interval_work(v0, v1);
  }

  // The next step ends here; it is checked and taken, not solved for.
  void prescribe(Solution solution) { given_ = std::move(solution); }

  // May end a step before it is solved: status `interrupted`, the state as before the step.
  Watch* watch = nullptr;

  // Keep what `work` needs; off in runs that do not ask for the ledger.
  bool keep_books = false;

  // ------------------------------------------------------------------------------- for tests
  // See probes.hpp.
  void residual_at(const double* q1, const double* lambda, const double* tau,
                   const double* wrenches, double* r, double* errors);
  bool newton_direction(const double* r, double* dq);
  void contact_rows(const double* q1, double* u, double* left, double* right);
  int row_count() const { return closure_.size(); }

  // Methods before this one are left out.
  void start_with(Method method) { first_method_ = method; }

  // Depth of the deepest contact below the ground at the node [m], and which.
  std::pair<double, int> deepest_contact() const { return laws_.contacts.deepest(frames0_); }
  const std::vector<Contacts::Touch>& touches() const { return laws_.contacts.touches; }
  // Touches of two links are numbered from here on.
  int ground_contacts() const { return laws_.contacts.size(); }

  // Smallest gap of each pair of links that are near at the node: (name, gap).
  const std::vector<std::pair<int, double>>& body_gaps() {
    laws_.bodies.find_gaps(frames0_);
    return laws_.bodies.gaps;
  }

 private:
  void solve_with_laws(StepReport& report);
  void take_solution(StepReport& report);
  bool velocities_with_laws(double* v);
  void book_left_laws();
  void joint_forces();
  void set_lean();
  std::pair<double, double> lean_at(int j, double h) const;
  bool has_servo(const Drive& drive) const;
  void lean();
  void remember_feedback();
  double lean_tangent(int j, const Drive& drive, double speed, double slope) const;
  DriveTorque unservoed(const Drive& drive, double speed) const;
  DriveTorque driven_torque(const Link& link, const Drive& drive, double d) const;
  void set_joint_tangents(Elimination& tree) const;
  Matrix6 increment_tangent(const Link& link, const double* d) const;
  void right_joint_forces();
  void keep_left();
  void keep_right();
  Work interval_work(const double* v0, const double* v1);
  void add_work();

  // Before every iteration: false where the step has had too many, or is to end.
  bool spend(double iterations = 1.0) {
    spent_ += iterations;
    if (watch && watch->stops()) {
      ended_ = Status::interrupted;
    } else if (spent_ > allowed_) {
      ended_ = Status::work_limit;
    }
    return ended_ == Status::converged;
  }

  StepReport interval(const double* tau, const double* wrenches) {
    begin(tau, wrenches);
    predict();
    StepReport report;
    if (given_) {
      take_solution(report);
      given_.reset();
    } else if (with_laws_) {
      solve_with_laws(report);
    } else {
      solve(report);
    }
    report.residual = largest(r_);
    report.closure = closure_.error();
    if (report.status != Status::converged && ended_ != Status::converged) report.status = ended_;
    cosine_ = least_cosine();
    if (report.status == Status::converged && cosine_ < least_cosine_) {
      report.status = Status::rotation;
      report.body = fastest_body();
    }
    find_increments();
    if (report.status == Status::converged && bends_too_far(report)) {
      report.status = Status::max_iterations;
    }
    if (report.status == Status::converged && !commit(report.method)) {
      report.status = Status::not_finite;
    }
    if (report.status != Status::converged && with_laws_) {
      laws_.set_state(warm_.data());  // as they were before the attempt
    }
    report.contacts = laws_.contacts.closed() + laws_.bodies.closed();
    return report;
  }

  // Whether loops turn the motion so far within the step that its energy suffers. A step goes along
  // the chord between two closed configurations. Of its kinetic energy a node has what is along the
  // loops there, so the step gives or takes the difference of what is across them at its two ends.
  // Near singular configurations, where light links whip round, that asks for shorter steps. In the
  // smallest parts of a step it is accepted, as is a step that was foreseen.
  //
  // First by the inertia that the loops moved in the solution, right within a factor of a few, then
  // by the mass matrix.
  bool bends_too_far(const StepReport& report) {
    const bool foreseen = report.iterations < 2 || !closure_.factored();
    if (foreseen || depth_ >= settings_.max_halvings) return false;
    const double slow = 1e3 * closure_tolerance() * inverse_h_;  // loops are no better than that
    const double kinetic = mean_kinetic(inverse_h_) + rotor_kinetic() + model_.mass * slow * slow;
    double left = across_loops(frames0_, true), right = across_loops(frames1_, false);
    if (std::max(std::abs(left), std::abs(right)) < 0.25 * most_bend_error * kinetic) return false;
    turn_inertias(model_, frames1_);
    tree_.clear_stiff();
    set_mass_tangents();
    left = factor_mass(frames0_, x0_) ? across_loops(frames0_, true) : 0.0;
    right = factor_mass(frames1_, x1_) ? across_loops(frames1_, true) : 0.0;
    closure_.evaluate_holonomic(frames0_, x0_.data(), true);
    closure_.evaluate_holonomic(frames1_, x1_.data(), false);
    return std::abs(left - right) > most_bend_error * kinetic ||
           std::max(left, right) > most_bend * kinetic;
  }

  // Kinetic energy of the part of the increment dq_ that the loops forbid at a node [J].
  double across_loops(const Frames& frames, bool left) {
    twists(model_, frames, dq_.data(), f_);
    return closure_.energy_across(f_, left, inverse_h_);
  }

  // What happens to the energy at the left node, see node_energy.hpp.
  struct NodeEnergy {
    double gain;       // of contacts and joint laws [J]
    double exchanged;  // kinetic energy and the sizes of the works [J]
  };
  NodeEnergy node_energy() const;
  double mean_kinetic(double inverse_h) const;
  double rotor_kinetic() const;
  double gravity_power() const;
  double gravity_power(const double* v);
  double spring_work() const;
  double drive_work() const;
  double most_wrench_work() const;

  // After `commit`: largest difference between the way that a coordinate has gone and that of the
  // mean of its velocities, d - h (v0 + v1) / 2. Of the order h^3; of a body that turns by phi it
  // is phi - sin(phi).
  double step_error(const double* v0, const double* v1, double h) const {
    double largest = 0.0, d[6];
    for (const Link& link : model_.links) {
      increment(link, x1_.data() + link.c, x0_.data() + link.c, d);
      if (link.kind == JointKind::floating) lengthen(d + 3);
      if (link.kind == JointKind::spherical) lengthen(d);
      for (int j = link.v; j < link.v + link.nv; ++j) {
        const double off = std::abs(d[j - link.v] - 0.5 * h * (v0[j] + v1[j]));
        if (!(off <= largest)) largest = off;
      }
    }
    return largest;
  }

  // From 2 vec(Q), as `increment` gives it, to the rotation vector.
  static void lengthen(double* d) {
    Eigen::Map<Vector3> turn(d, 3);
    const double sine = 0.5 * turn.norm();
    if (sine > 1e-6) turn *= std::asin(std::min(1.0, sine)) / sine;
  }

  static Frames zero_frames(const Model& model) {
    VectorX x = VectorX::Zero(model.nc);
    for (const Link& link : model.links) {
      if (link.kind == JointKind::floating) x[link.c + 6] = 1.0;
      if (link.kind == JointKind::spherical) x[link.c + 3] = 1.0;
    }
    Frames frames(model.size());
    forward_kinematics(model, x.data(), frames);
    return frames;
  }

  void set_mass_tangents() {
    tree_.kappa.setZero();
    for (Matrix6& kappa : tree_.kappa_dense) kappa.setZero();
    for (const Link& link : model_.links) {
      for (int j = 0; j < link.nv; ++j) {
        const double armature = model_.drives[link.v + j].armature;
        if (link.dense < 0) {
          tree_.kappa[link.v] = armature;
        } else {
          tree_.kappa_dense[link.dense](j, j) = armature;
        }
      }
    }
  }

  bool factor_mass() { return factor_mass(frames0_, x0_); }
  bool factor_mass(const Frames& frames, const VectorX& x) {
    if (!tree_.factor_mass(frames)) return false;
    if (closure_.holonomic() == 0) return true;
    closure_.evaluate_holonomic(frames, x.data(), true);
    closure_.begin(frames);
    return closure_.factor(tree_, 1.0, false);
  }

  // M v = p + G' mu, G v = 0
  bool solve_mass(const VectorX& p, double* v) {
    if (closure_.holonomic() > 0) {
      closure_.project(tree_, p, v);
    } else {
      dq_ = -p;
      tree_.solve(dq_.data(), v);
    }
    return true;
  }

  // The interval that failed, in two halves. Leaves h as it was in the last part.
  bool halves(const double* tau, const double* wrenches, int depth, StepReport& sum) {
    const double half = 0.5 * h_;
    for (int k = 0; k < 2; ++k) {
      resize(half);
      if (!part(tau, wrenches, depth, sum)) return false;
    }
    return true;
  }

  // An interval, in halves if it must be. `sum` adds up what its parts did, or has the status of
  // the one that failed.
  bool part(const double* tau, const double* wrenches, int depth, StepReport& sum) {
    depth_ = depth;
    if (turns_far()) return halves(tau, wrenches, depth + 1, sum);
    bool can_be_halved = depth < settings_.max_halvings;
    const bool refined = can_be_halved && settings_.error_tolerance < infinity;
    if (refined) keep_state();
    const StepReport report = interval(tau, wrenches);
    sum.iterations += report.iterations;
    if (report.status != Status::converged) {
      can_be_halved &= ended_ == Status::converged;
      if (can_be_halved) return halves(tau, wrenches, depth + 1, sum);
      sum.status = report.status, sum.body = report.body;
      sum.residual = report.residual, sum.closure = report.closure;
      return false;
    }
    get_v(v_after_.data());
    const double error = step_error(v_before_.data(), v_after_.data(), h_);
    if (refined && !(error <= settings_.error_tolerance)) {
      take_back();
      return halves(tau, wrenches, depth + 1, sum);
    }
    allowed_ += work_per_part;
    ++sum.parts;
    sum.error += error;
    sum.residual = std::max(sum.residual, report.residual);
    sum.closure = report.closure;
    sum.contacts = report.contacts;
    sum.method = std::max(sum.method, report.method);
    if (keep_books) add_work();
    std::swap(v_before_, v_after_);
    return true;
  }

  // The way of every coordinate in this step.
  void find_increments() {
    for (const Link& link : model_.links) {
      increment(link, x0_.data() + link.c, x1_.data() + link.c, dq_.data() + link.v);
    }
  }

  // Whether a body that turns as in the last step would by far exceed the turn of a step.
  bool turns_far() const {
    return last_.turning * h_ > clearly_farther * settings_.max_turn &&
           depth_ < settings_.max_halvings;
  }

  // Cosine of half the farthest turn of a body in this step.
  double least_cosine() const {
    double least = 1.0;
    for (const Turn& turn : turns_) least = std::min(least, turn.s);
    return least;
  }

  // The state before an interval that may be taken back.
  void keep_state() {
    kept_.resize(state_size());
    get_state(kept_.data());
    kept_node_ = node_;
    touched_ = laws_.contacts.touches.size();
  }
  void take_back() {
    set_state(kept_.data());
    node_ = kept_node_;
    laws_.contacts.touches.resize(touched_);
  }

  void resize(double h) {
    if (h == h_) return;
    predictor_.rescale(h / h_);
    set_step(h);
  }

  void set_step(double h) {
    laws_.scale(h / h_);
    h_ = h;
    inverse_h_ = 1.0 / h;
    set_lean();
  }

  void quaternion_identity(const Link& link) {
    if (link.kind == JointKind::floating) x0_[link.c + 6] = x1_[link.c + 6] = 1.0;
    if (link.kind == JointKind::spherical) x0_[link.c + 3] = x1_[link.c + 3] = 1.0;
  }

  void normalise_quaternions() {
    for (const Link& link : model_.links) {
      if (link.kind == JointKind::floating) x0_.segment<4>(link.c + 3).normalize();
      if (link.kind == JointKind::spherical) x0_.segment<4>(link.c).normalize();
    }
  }

  void load_frames() {
    forward_kinematics(model_, x0_.data(), frames0_);
    turn_inertias(model_, frames0_);
  }

  // Joints without limits are known up to full turns: take the turn that fits the mimic joint.
  void settle_mimic_turns(double* x) const {
    constexpr double turn = 2.0 * pi;
    for (const MimicJoint& mimic : model_.mimics) {
      const Link &joint = model_.links[mimic.joint], &source = model_.links[mimic.source];
      if (joint.unbounded) {
        const double wanted = mimic.multiplier * x[source.c] + mimic.offset;
        x[joint.c] += turn * std::round((wanted - x[joint.c]) / turn);
      } else if (source.unbounded) {
        const double wanted = (x[joint.c] - mimic.offset) / mimic.multiplier;
        x[source.c] += turn * std::round((wanted - x[source.c]) / turn);
      }
    }
  }

  void begin(const double* tau, const double* wrenches) {
    command_ = tau;
    wrenches_ = wrenches;
    driven_ = passive_ || command_ != nullptr || !servos_.empty();
    if (wrenches_ != nullptr) bias(frames0_);
    set_tolerances();
    if (closure_.size() > 0) {
      closure_.evaluate(frames0_, x0_.data(), h_, true);
      closure_.begin(frames0_);
      closure_.start_lambda(h_);
    }
  }

  // half_: half impulses of external wrenches at a node.
  void bias(const Frames& frames) {
    for (int i = 0; i < model_.size(); ++i) {
      const Eigen::Map<const Vector3> force(wrenches_ + 6 * i), torque(wrenches_ + 6 * i + 3);
      half_[i].linear = 0.5 * h_ * force;
      half_[i].angular = 0.5 * h_ * (torque + frames[i].c.cross(force));
    }
  }

  void predict() {
    x1_ = x0_;
    predictor_.predict(dq_);
    move();
  }

  void solve(StepReport& report) {
    report.status = Status::max_iterations;
    double last = infinity;
    Elimination& tree = closure_.size() == 0 ? chord_ : tree_;
    bool factored = closure_.size() == 0 && have_chord();
    int halvings = 0;
    bool kept = false;
    for (int iteration = 0;; ++iteration) {
      const bool turns_exist = evaluate();
      report.iterations = iteration;
      const double size = residual_size();
      if (kept) learn_fall(last, size);
      if (turns_exist && (size <= 1.0 || (iteration > 0 && moves_no_more(last, size)))) {
        report.status = Status::converged;
        return;
      }
      if (!spend()) return;
      if (iteration >= settings_.max_iterations) {
        report.status = turns_exist ? Status::max_iterations : Status::rotation;
        report.body = fastest_body();
        return;
      }
      // A trial that is no better is taken back: half way, or, with an old factorisation, whole.
      const bool worse = !turns_exist || !(size < last);
      if (iteration > 0 && worse && halvings < most_halvings) {
        x1_ = trial_;
        if (kept && closure_.size() == 0) {
          factored = kept = false;
          last = infinity;
          continue;
        }
        ++halvings;
        dq_ *= 0.5;
        if (closure_.size() > 0) closure_.halve_step();
        move();
        continue;
      }
      if (!turns_exist) {
        if (iteration == 0) {  // the guess turns too far: begin without motion
          x1_ = x0_;
          continue;
        }
        report.status = Status::rotation;
        report.body = fastest_body();
        return;
      }
      if (!std::isfinite(size)) {
        report.status = Status::not_finite;
        return;
      }
      const double fall = iteration > 0 ? last / size : chord_of_.fall;
      kept = factored && (size < fall || (iteration > 0 && fall > fall_to_keep_factors));
      if (!kept) {
        set_joint_tangents(tree);
        factored =
            factor_step(tree) && (closure_.size() == 0 || closure_.factor(tree_, inverse_h_, true));
        if (closure_.size() == 0) note_chord(factored);
        if (!factored) {
          report.status = Status::singular;
          report.body = tree.singular_link();
          return;
        }
      }
      if (closure_.size() > 0) {
        closure_.solve(tree_, r_, inverse_h_, dq_.data());
      } else {
        tree.solve(r_.data(), dq_.data());
      }
      last = size;
      trial_ = x1_;
      halvings = 0;
      move();
    }
  }

  // Whether the next iteration would change velocities by less than is accepted, by what this one
  // made of the residual. In long chains that is the case before the residual is small beside the
  // inertia of each joint.
  bool moves_no_more(double before, double after) const {
    if (!std::isfinite(before)) return false;  // no iteration has led here
    const double velocity = inverse_h_ * largest(dq_) * after / before;
    return fall_to_keep_factors * after < before && velocity <= velocity_accepted_ &&
           (closure_.size() == 0 || closure_.residual(h_) <= closure_tolerance());
  }

  // Which step chord_ is the Newton matrix of; a part of the state, as the next steps depend on it.
  struct ChordState {
    VectorX x0, x1;
    double h = 0.0;                      // zero if there is none
    double fall = fall_to_keep_factors;  // by what an iteration with it divided the residual
  };

  // Residuals far below what is accepted are round-off and say the least that a fall was.
  void learn_fall(double before, double after) {
    const double fall = std::min(std::max(1.0, before / after), most_fall);
    if (after > 0.05 || fall > chord_of_.fall) chord_of_.fall = fall;
  }

  void note_chord(bool factored) {
    chord_of_.h = factored ? h_ : 0.0;
    chord_of_.fall = std::min(2.0 * chord_of_.fall, most_fall);  // it may be better than the last
    chord_of_.x0 = x0_, chord_of_.x1 = x1_;
    chord_is_old_ = false;
  }

  // Whether chord_ can be used; after `set_state` it is factored anew.
  bool have_chord() {
    if (chord_of_.h != h_) return false;
    if (chord_is_old_) {
      Frames left(model_.size()), right(model_.size());
      std::vector<Turn> turns(model_.size());
      Spins spins(model_.wheels.size());
      forward_kinematics(model_, chord_of_.x0.data(), left);
      forward_kinematics(model_, chord_of_.x1.data(), right);
      turn_inertias(model_, left);
      for (int i = 0; i < model_.size(); ++i) turns[i] = turn_between(left[i], right[i]);
      vi_contact::turn_wheels(model_, left, right, chord_of_.x0.data(), chord_of_.x1.data(), turns,
                              spins);
      chord_.factor_step(left, right, turns, spins, 1.0 / chord_of_.h);
      chord_is_old_ = false;
    }
    return true;
  }

  void move() {
    for (const Link& link : model_.links) {
      retract(link, dq_.data() + link.v, x1_.data() + link.c);
    }
  }

  // Inertias of what each coordinate moves, taken once, with all coordinates at zero or, where the
  // mass matrix is singular there (thin rods in line), bent; and, with all coordinates free to
  // follow, the inverse: the diagonal of the inverse mass matrix.
  void set_inertias() {
    inertias_.setZero(model_.nv);
    mobilities_.setZero(model_.nv);
    Frames frames = zero_frames(model_);
    set_levers(frames);
    turn_inertias(model_, frames);
    set_mass_tangents();
    set_floor(frames);
    if (!tree_.factor_mass(frames)) {
      frames = bent_frames();
      turn_inertias(model_, frames);
      if (!tree_.factor_mass(frames)) return;
    }
    for (const Link& link : model_.links) {
      for (int j = 0; j < link.nv; ++j) inertias_[link.v + j] = tree_.inertia(link, j);
    }
    for (int j = 0; j < model_.nv; ++j) {
      r_[j] = -1.0;
      tree_.solve(r_.data(), dq_.data());
      r_[j] = 0.0;
      mobilities_[j] = dq_[j];
    }
    dq_.setZero();
    if (laws_.contacts.size() > 0 || laws_.bodies.exist()) set_spring_mobilities(frames);
  }

  // The least inertia that counts of every coordinate, by what it moves with all others held.
  void set_floor(const Frames& frames) {
    for (int j = 0; j < model_.nv; ++j) {
      dq_[j] = 1.0;
      apply_mass_matrix(model_, frames, dq_.data(), f_, p1_.data());
      dq_[j] = 0.0;
      tree_.floor[j] = least_inertia * p1_[j];
    }
    for (const Link& link : model_.links) {  // three turns or slides that go together
      for (int j = 0; link.kind != JointKind::planar && j + 3 <= link.nv; j += 3) {
        auto group = tree_.floor.segment<3>(link.v + j);
        group.setConstant(group.maxCoeff() * least_of_several);
      }
    }
    chord_.floor = tree_.floor;
  }

  // All joints of one coordinate at some angle of their own.
  Frames bent_frames() const {
    VectorX x = x0_;
    for (const Link& link : model_.links) {
      if (link.nv == 1) x[link.c] = 0.3 + 0.1 * std::sin(3.0 * link.v);
    }
    Frames frames(model_.size());
    forward_kinematics(model_, x.data(), frames);
    return frames;
  }

  // The easiest way of the ends of each spring past one another, 1/m: it must do for all positions.
  void set_spring_mobilities(const Frames& frames) {
    for (size_t k = 0; k < model_.springs.size(); ++k) {
      const SpringDamper& spring = model_.springs[k];
      const Line line = line_between(spring, frames);
      for (int axis = 0; axis < 3; ++axis) {
        Row row;
        Springs::set_ends(row, spring, line, Vector3::Unit(axis), true);
        for (Wrench& f : f_) f.linear.setZero(), f.angular.setZero();
        for (const RowEnd& end : row.ends) {
          if (end.link == world) continue;
          f_[end.link].linear -= end.left.linear;
          f_[end.link].angular -= end.left.angular;
        }
        r_.setZero();
        project(model_, frames, f_, r_.data());
        tree_.solve(r_.data(), dq_.data());
        twists(model_, frames, dq_.data(), f_);
        double& mobility = closure_.springs.mobilities[k];
        mobility = std::max(mobility, power(row, f_, true));
      }
    }
    r_.setZero(), dq_.setZero();
  }

  // levers_: sum of mass times distance of what each joint carries, for the round-off of momenta.
  void set_levers(const Frames& frames) {
    levers_.setZero(model_.size());
    for (int i = 0; i < model_.size(); ++i) {
      const Vector3 centre = frames[i].p + frames[i].c;
      for (int j = i; j != world; j = model_.links[j].parent) {
        levers_[j] += model_.links[i].mass * (centre - frames[j].p).norm();
      }
    }
  }

  // Residuals accepted in this step: a small momentum, or what is a small velocity beside 1 m/s or
  // rad/s and the robot's own. Round-off of positions |x| in m |x| / h counts as solved.
  void set_tolerances() {
    reach_ = 0.0;
    for (const Frame& frame : frames0_) {
      for (int j = 0; j < 3; ++j) {
        reach_ = std::max(reach_, std::abs(frame.p[j]) + std::abs(frame.c[j]));
      }
    }
    const double fastest = inverse_h_ * largest_motion(predictor_.last());
    const double velocity = velocity_accepted_ = settings_.velocity_tolerance * (1.0 + fastest);
    const double round_off = 1e-15 * reach_ * inverse_h_;
    const double momentum = std::max(settings_.momentum_tolerance, round_off * model_.mass);
    for (int i = 0; i < model_.size(); ++i) {
      const Link& link = model_.links[i];
      const double floor = std::max(momentum, round_off * levers_[i]);
      for (int j = link.v; j < link.v + link.nv; ++j) {
        inverse_tolerance_[j] = 1.0 / std::max(floor, velocity * inertias_[j]);
      }
    }
    for (const Wheel& wheel : model_.wheels) {  // angles of many turns have round-off, too
      const Link& link = model_.links[wheel.link];
      const double moved = std::abs(x0_[link.c]) + std::abs(predictor_.last()[link.v]);
      const double accepted = 1e-15 * moved * inverse_h_ * wheel.axial;
      inverse_tolerance_[link.v] = std::min(inverse_tolerance_[link.v], 1.0 / accepted);
    }
  }

  // Largest entry of increments or velocities, but for those of wheels.
  template <typename Vector>
  double largest_motion(const Vector& v) const {
    if (model_.wheels.empty()) return largest(v);
    double result = 0.0;
    for (const Link& link : model_.links) {
      if (link.wheel < 0) result = std::max(result, largest(v.segment(link.v, link.nv)));
    }
    return result;
  }

  // Largest residual of momentum and closure, relative to what is accepted; NaN if there is one.
  double residual_size() const {
    double size = closure_.size() > 0 ? closure_.residual(h_) / closure_tolerance() : 0.0;
    for (int j = 0; j < model_.nv; ++j) {
      const double ratio = std::abs(r_[j]) * inverse_tolerance_[j];
      if (!(ratio <= size)) size = ratio;
      if (std::isnan(size)) return size;
    }
    return size;
  }

  double closure_tolerance() const { return std::max(settings_.closure_tolerance, 4e-16 * reach_); }

  // Largest entry; NaN if there is one.
  template <typename Vector>
  static double largest(const Vector& v) {
    double result = 0.0;
    for (double value : v) {
      const double size = std::abs(value);
      if (!(size <= result)) result = size;
      if (std::isnan(result)) return result;
    }
    return result;
  }

  int fastest_body() const {
    int body = world;
    double smallest = infinity;
    for (int i = 0; i < model_.size(); ++i) {
      if (turns_[i].s < smallest) smallest = turns_[i].s, body = i;
    }
    return body;
  }

  // Residual r at x1. False if a body turns by half a turn or more.
  [[gnu::flatten]] bool evaluate() {
    forward_kinematics(model_, x1_.data(), frames1_);
    const int n = model_.size();
    const Vector3 half_fall = 0.5 * h_ * gravity_;
    bool exists = true;
    for (int i = 0; i < n; ++i) {
      const Link& link = model_.links[i];
      const Frame &left = frames0_[i], &right = frames1_[i];
      turns_[i] = turn_between(left, right);
      exists &= turns_[i].s > 0.0 || link.wheel >= 0;
      velocities_[i] = mean_velocity(left, right, inverse_h_);
      f_[i].linear = link.mass * (velocities_[i] - half_fall);
      f_[i].angular = left_angular(turns_[i], inverse_h_) + left.c.cross(f_[i].linear);
    }
    if (!model_.wheels.empty()) turn_wheels();
    if (wrenches_ != nullptr) {
      for (int i = 0; i < n; ++i) {
        f_[i].linear -= half_[i].linear;
        f_[i].angular -= half_[i].angular;
      }
    }
    for (int j = 0; j < model_.nv; ++j) r_[j] = -p0_[j];
    if (closure_.size() > 0) {
      closure_.evaluate(frames1_, x1_.data(), h_, false);
      closure_.subtract_forces(f_, r_.data());
    }
    if (with_laws_) {
      laws_.evaluate(frames1_, turns_, x1_.data());
      laws_.subtract_forces(f_, r_.data());
    }
    project(model_, frames0_, f_, r_.data());
    add_wheel_momenta(r_.data());
    if (driven_) joint_forces();
    return exists;
  }

  // Turns of the wheels, and their left momenta in place of those of any body.
  void turn_wheels() {
    vi_contact::turn_wheels(model_, frames0_, frames1_, x0_.data(), x1_.data(), turns_, spins_);
    for (const Wheel& wheel : model_.wheels) {
      const int i = wheel.link;
      f_[i].angular = left_angular_of(i) + frames0_[i].c.cross(f_[i].linear);
    }
  }

  // Angular momenta of a link about its centre of mass at either end of the interval.
  Vector3 left_angular_of(int i) const {
    const int k = model_.links[i].wheel;
    if (k < 0) return left_angular(turns_[i], inverse_h_);
    return left_angular(model_.wheels[k], turns_[i], spins_[k], inverse_h_);
  }
  Vector3 right_angular_of(int i) const {
    const int k = model_.links[i].wheel;
    if (k < 0) return right_angular(frames1_[i], turns_[i], inverse_h_);
    return right_angular(model_.wheels[k], frames1_[i], turns_[i], spins_[k], inverse_h_);
  }

  // What `project` leaves out of the momenta of their joints.
  void add_wheel_momenta(double* p) const {
    for (size_t k = 0; k < model_.wheels.size(); ++k) {
      const Wheel& wheel = model_.wheels[k];
      p[model_.links[wheel.link].v] +=
          wheel_momentum(wheel, frames0_[wheel.link], turns_[wheel.link], spins_[k], inverse_h_);
    }
  }

  bool factor_step(Elimination& tree) const {
    return tree.factor_step(frames0_, frames1_, turns_, spins_, inverse_h_);
  }

  // Left (side = 1) or right (side = -1) momentum of the rotors; joints that turn about one axis
  // have A dq / h, a spherical one (2/h) (s A u +- u x A u) with 2 u = dq.
  void add_armature(const Link& link, const double* d, double side, double* p) const {
    if (link.nv == 1) {
      p[link.v] += model_.drives[link.v].armature * inverse_h_ * d[0];
    } else if (link.kind == JointKind::spherical) {
      const Turn turn = joint_turn(link, d);
      Eigen::Map<Vector3>(p + link.v, 3) +=
          2.0 * inverse_h_ * (turn.s * turn.Ju + side * turn.u.cross(turn.Ju));
    }
  }

  Vector3 armature(const Link& link) const {
    return {model_.drives[link.v].armature, model_.drives[link.v + 1].armature,
            model_.drives[link.v + 2].armature};
  }

  Turn joint_turn(const Link& link, const double* d) const {
    const Vector3 u(0.5 * d[0], 0.5 * d[1], 0.5 * d[2]);
    return {u, std::sqrt(std::max(0.0, 1.0 - u.dot(u))), armature(link).cwiseProduct(u)};
  }

  // kappa = d(joint force residual) / d(increment at the right node, axes of the child)
  void set_joint_tangents() { set_joint_tangents(tree_); }
  // Right momentum of the interval and half of its forces: the momentum of the new node. False, and
  // the old node stays, if a number is not finite.
  //
  // What is left of the residual at the old node is carried over, so that the round-off of many
  // steps does not add up to a drift of the momentum.
  [[gnu::flatten]] bool commit(Method method) {
    const int n = model_.size();
    const Vector3 half_fall = 0.5 * h_ * gravity_;
    turn_inertias(model_, frames1_);
    if (keep_books) keep_left();
    if (keep_books && with_laws_) book_left_laws();
    if (wrenches_ != nullptr) bias(frames1_);
    for (int i = 0; i < n; ++i) {
      const Link& link = model_.links[i];
      const Frame& right = frames1_[i];
      f_[i].linear = link.mass * (velocities_[i] + half_fall);
      f_[i].angular = right_angular_of(i) + right.c.cross(f_[i].linear);
      if (wrenches_ != nullptr) {
        f_[i].linear += half_[i].linear;
        f_[i].angular += half_[i].angular;
      }
    }
    if (closure_.size() > closure_.holonomic()) closure_.add_right_forces(f_);
    p1_.setZero();
    project(model_, frames1_, f_, p1_.data());
    add_wheel_momenta(p1_.data());
    if (keep_books) carried_ = p1_;
    for (int i = 0; i < n; ++i) carry(i);
    if (keep_books) carried_ -= p1_;
    last_.turning = cosine_ < least_cosine_far_ ? 2.0 * inverse_h_ * std::acos(cosine_) : 0.0;
    motor_work_ = damping_work_ = 0.0;
    if (driven_) {
      right_joint_forces();
    } else {
      torque_.setZero(), tau_.setZero(), saturated_.setZero();
    }
    if (!p1_.allFinite() || !x1_.allFinite()) return false;
    remember_feedback();
    if (keep_books) keep_right();
    const double h_before = last_.h;
    if (with_laws_) {
      last_.kinetic = mean_kinetic(inverse_h_) + rotor_kinetic() + most_wrench_work();
      last_.power = gravity_power();
      closure_.keep_springs(h_, last_.rates);
      last_.h = h_;
      last_.drives = 0.5 * h_ * torque_;
    }
    predictor_.add(dq_);
    const bool exact = method != Method::interior;
    if (with_laws_ && laws_.commit(exact, h_before, h_)) predictor_.rescale(1.0);
    part_length_ = h_;
    std::swap(x0_, x1_);
    std::swap(p0_, p1_);
    std::swap(frames0_, frames1_);
    return true;
  }

  // p1 -= r, turned from the axes of the child at the old node to those at the new one. Of a free
  // robot the angular part is moved along with the lever to its centre of mass, so that the angular
  // momentum about that stays the same to round-off, whatever the tolerance.
  void carry(int i) {
    const Link& link = model_.links[i];
    const Frame &left = frames0_[i], &right = frames1_[i];
    if (link.nv == 1 || link.kind == JointKind::planar) {
      for (int j = 0; j < link.nv; ++j) p1_[link.v + j] -= r_[link.v + j];
      return;
    }
    for (int j = 0; j < link.nv; j += 3) {
      p1_.segment<3>(link.v + j) -= right.R.transpose() * (left.R * r_.segment<3>(link.v + j));
    }
    if (link.nv == 6 && link.parent == world) {
      const Vector3 linear = left.R * r_.segment<3>(link.v);
      const Vector3 lever = (left.p - centre(frames0_)) - (right.p - centre(frames1_));
      p1_.segment<3>(link.v + 3) -= right.R.transpose() * lever.cross(linear);
    }
  }

  Vector3 centre(const Frames& frames) const {
    Vector3 sum = Vector3::Zero();
    for (int i = 0; i < model_.size(); ++i) {
      sum += model_.links[i].mass * (frames[i].p + frames[i].c);
    }
    return sum / model_.mass;
  }

 public:
  Observation observe(const double* q, const double* v, double* poses, double* velocities) {
    coordinates_of_q(model_, q, x1_.data());
    settle_mimic_turns(x1_.data());
    forward_kinematics(model_, x1_.data(), frames1_);
    Observation o = observe_bodies(model_, frames1_, v, gravity_, f_, poses, velocities);
    if (closure_.holonomic() > 0) {
      closure_.evaluate_holonomic(frames1_, x1_.data(), true);
      o.closure = closure_.error();
    }
    return o;
  }

 private:
  const Model& model_;
  Settings settings_;
  double h_, usual_h_, inverse_h_;
  double length_ = h_, part_length_ = h_;  // of the last step, and of its last part
  Vector3 gravity_;
  Elimination tree_, chord_;  // at this node or step, and of a step that may lie back
  ChordState chord_of_;
  bool chord_is_old_ = false;
  Closure closure_;
  Frames frames0_, frames1_;
  std::vector<Turn> turns_;
  Spins spins_;
  std::vector<Vector3> velocities_;
  std::vector<Wrench> f_, half_;
  VectorX x0_, x1_, trial_, p0_, p1_;
  Predictor predictor_;
  VectorX r_, inertias_, mobilities_, levers_, inverse_tolerance_, dq_, v_before_, v_after_,
      torque_, lean_, alpha_, leaned_, feedback_, last_feedback_, tau_, saturated_, saved_;
  Work work_;
  double spent_ = 0.0, allowed_ = 0.0;  // iterations of this step
  Status ended_ = Status::converged;    // why it is not to go on
  bool was_split_ = false;
  double error_ = 0.0;              // of a step that was split
  VectorX left_, right_, carried_;  // for the books, see there
  double motor_work_ = 0.0, damping_work_ = 0.0, external_work_ = 0.0;
  double reach_ = 0.0;
  double velocity_accepted_ = 0.0;
  // Of half the farthest turn of a step, and of that half of which is far in a longer one.
  double least_cosine_, least_cosine_far_;
  double cosine_ = 1.0;  // of half the farthest turn of this step
  VectorX kept_;         // the state before a part of a step, where its error may be too large
  size_t touched_ = 0;
  const double* command_ = nullptr;
  const double* wrenches_ = nullptr;
  std::vector<Servo> servos_;  // per input, or none
  bool driven_ = false, with_laws_ = false;
  // Whether a feedback leans, with these servos and this h, and in the last step that was taken.
  bool leans_ = false, leaned_last_ = false;
  bool passive_ = false;  // joints have forces of their own: damping, rotors, motors, limits
  std::optional<Solution> given_;
  Laws laws_;
  Node node_, kept_node_;
  // What `node_energy` needs of the last step; before the first, of the node.
  struct Last {
    double kinetic = 0.0;  // and the most that wrenches gave
    double power = 0.0;    // of gravity
    double h = 0.0;
    double turning = 0.0;  // speed of the body that turned farthest, if it may turn too far [rad/s]
    VectorX drives;        // their impulses at its end
    VectorX rates;         // of the lengths of springs and dampers
  };
  Last last_;
  Method first_method_ = Method::newton;
  int depth_ = 0;  // how often the step has been halved
  double left_friction_ = 0.0, left_impact_ = 0.0, left_gap_ = 0.0;
  VectorX no_residual_, response_, impulse_;  // work space of coupled contacts
  VectorX guess_, warm_, rhs_, scaled_, bounce_v_, lambda_, lambda_change_, lambda_kept_;
};

}  // namespace vi_contact
