// All inequalities of a robot, contacts and joint laws, as one thing that the solver moves.
#pragma once

#include "body_contact.hpp"
#include "contact.hpp"
#include "limits.hpp"
#include "sweeps.hpp"

namespace vi_contact {

struct Laws {
  Contacts contacts;
  JointLaws joints;
  Sweeps sweeps;
  BodyContacts bodies;

  Laws(const Model& model, const Ground& ground, const Frames& frames)
      : contacts(model, ground), joints(model, frames), bodies(model) {}

  // The selection with its iterate, to come back to.
  void keep() {
    kept_contacts_ = contacts.near, kept_joints_ = joints.entries, kept_bodies_ = bodies.near;
  }
  void take_kept() {
    contacts.set_selection(kept_contacts_), joints.entries = kept_joints_;
    bodies.near = kept_bodies_;
  }

  AllLaws all() { return {contacts, bodies, joints}; }

  bool exist() const { return contacts.size() > 0 || !joints.entries.empty() || bodies.exist(); }

  void evaluate(const Frames& frames1, const std::vector<Turn>& turns, const double* x1) {
    contacts.evaluate(frames1, turns);
    joints.evaluate(x1);
    bodies.evaluate(frames1, turns);
  }
  void subtract_forces(std::vector<Wrench>& f, double* r) const {
    contacts.subtract_forces(f);
    joints.subtract_forces(r);
    bodies.subtract_forces(f);
  }
  unsigned long linearise_newton() {
    const unsigned long hard = bodies.near.empty() ? 0UL : bodies.harden_ground(contacts);
    const unsigned long pattern = contacts.linearise_newton() * 31UL + joints.linearise_newton();
    return (pattern * 31UL + bodies.linearise_newton()) * 31UL + hard;
  }
  // No answer to motion: the linear system without laws.
  void release() {
    for (Contacts::Near& c : contacts.near) c.c.setZero(), c.C.setZero();
    for (BodyContacts::Near& c : bodies.near) c.c.setZero(), c.C.setZero();
    for (JointLaws::Entry& e : joints.entries) e.C_low = e.C_high = e.C_friction = 0.0;
  }
  void clear_impulses() {
    for (Contacts::Near& c : contacts.near) c.normal.n = 0.0, c.friction.b.setZero();
    for (BodyContacts::Near& c : bodies.near) c.normal.n = 0.0, c.friction.b.setZero();
    for (JointLaws::Entry& e : joints.entries) e.low.n = e.high.n = e.friction.b.x() = 0.0;
  }
  void linearise_interior(double kappa) {
    contacts.linearise_interior(kappa);
    joints.linearise_interior(kappa);
    bodies.linearise_interior(kappa);
  }
  void add_blocks(const std::vector<Turn>& turns, Elimination& tree) {
    contacts.add_blocks(turns, tree);
    joints.add_blocks(tree);
    bodies.add_blocks(tree);
  }
  void subtract_answers(std::vector<Wrench>& f, double* r) const {
    contacts.subtract_answers(f);
    joints.subtract_answers(r);
    bodies.subtract_answers(f);
  }
  void find_changes(const Elimination& tree, const double* dq) {
    contacts.find_changes(tree);
    joints.find_changes(dq);
    bodies.find_changes(tree);
  }
  double find_interior_changes(const Elimination& tree, const double* dq, double kappa) {
    return std::min({contacts.find_interior_changes(tree, kappa),
                     joints.find_interior_changes(dq, kappa),
                     bodies.find_interior_changes(tree, kappa)});
  }
  void take_step(double a, bool interior) {
    if (interior) {
      contacts.take_interior_step(a), joints.take_interior_step(a), bodies.take_interior_step(a);
    } else {
      contacts.take_step(a), joints.take_step(a), bodies.take_step(a);
    }
  }
  void enter_interior(double scale) {
    contacts.enter_interior(scale);
    joints.enter_interior(scale);
    bodies.enter_interior(scale);
  }
  // `exact`: what slipped within the tolerance is to be made up for; the interior point leaves
  // more, on which contacts need not agree. Lengths of the step before and of this one.
  bool commit(bool exact, double h0, double h) {
    const bool contact = contacts.commit(exact, h0, h), joint = joints.commit();
    const bool body = bodies.commit(exact, h0, h, contacts.size(), contacts.touches);
    return contact || joint || body;
  }
  // At a node, by the velocities of the last solution of the tree.
  void evaluate_velocities(const Elimination& tree, const double* v) {
    contacts.evaluate_velocities(tree);
    joints.evaluate_velocities(v);
    bodies.evaluate_velocities(tree);
  }
  // Largest error of the laws [m or m/s].
  double error() const {
    double largest = 0.0, squares = 0.0;
    contacts.errors(largest, squares);
    joints.errors(largest, squares);
    bodies.errors(largest, squares);
    return largest;
  }
  // Whether a contact or a limit pushes in this iterate.
  bool pushes() const {
    return std::any_of(contacts.near.begin(), contacts.near.end(),
                       [](const Contacts::Near& c) { return c.normal.n > 0.0; }) ||
           std::any_of(bodies.near.begin(), bodies.near.end(),
                       [](const BodyContacts::Near& c) { return c.normal.n > 0.0; }) ||
           std::any_of(joints.entries.begin(), joints.entries.end(),
                       [](const JointLaws::Entry& e) { return e.low.n > 0.0 || e.high.n > 0.0; });
  }
  // Whether the velocity at the node needs them.
  bool act() const { return contacts.any_closed() || joints.act() || bodies.any_closed(); }
  void scale(double factor) { contacts.scale(factor), joints.scale(factor), bodies.scale(factor); }
  void forget() { contacts.forget(), joints.forget(), bodies.forget(); }
  // Changes with the contacts of bodies that are closed; those stand last.
  int state_size() const {
    return contacts.state_size() + joints.state_size() + bodies.state_size();
  }
  void get_state(double* out) const {
    contacts.get_state(out);
    joints.get_state(out + contacts.state_size());
    bodies.get_state(out + contacts.state_size() + joints.state_size());
  }
  void set_state(const double* in) {
    contacts.set_state(in);
    joints.set_state(in + contacts.state_size());
    bodies.set_state(in + contacts.state_size() + joints.state_size());
  }

 private:
  std::vector<Contacts::Near> kept_contacts_;
  std::vector<JointLaws::Entry> kept_joints_;
  std::vector<BodyContacts::Near> kept_bodies_;
};

}  // namespace vi_contact
