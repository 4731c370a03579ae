"use strict";

// ------------------------------------------------------------------ data
// gzip of: length of the header (4 bytes), header (JSON), numbers (float32) and meshcat's commands.
async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const first = 4 + new DataView(buffer).getUint32(0, true);
  const piece = ([offset, length]) => buffer.slice(first + offset, first + offset + length);
  return JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, first - 4)), (key, value) => {
    if (value && value.float32) return new Float32Array(piece(value.float32));
    if (value && value.bytes) return new Uint8Array(piece(value.bytes));
    return value;
  });
}

// the bytes of a command, which comes in pieces
function joined(pieces) {
  const bytes = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
  let first = 0;
  for (const piece of pieces) { bytes.set(piece, first); first += piece.length; }
  return bytes;
}

const element = (id) => document.getElementById(id);

// index of the last of the rising numbers that is at most x; 0 if none is
function lastBefore(numbers, x) {
  let low = 0, high = numbers.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (numbers[middle] <= x) low = middle; else high = middle - 1;
  }
  return low;
}

// ------------------------------------------------------------------ scene
class Scene {
  constructor(data) {
    this.data = data;
    this.viewer = new MeshCat.Viewer(element("scene"));
    const frame = element("frame");
    const resize = this.viewer.set_3d_pane_size;
    this.viewer.set_3d_pane_size = () =>
      resize.call(this.viewer, frame.clientWidth, frame.clientHeight);
    new ResizeObserver(() => this.viewer.set_3d_pane_size()).observe(frame);
    this.viewer.set_3d_pane_size();
    this.failures = [];
    for (const pieces of data.commands) {
      try {
        this.viewer.handle_command_bytearray(joined(pieces));
      } catch (error) {
        this.failures.push(error.message); // of one mesh; the others can be drawn
      }
    }
    this.bodies = data.bodies.map((name) => this.node("robot", name));
    this.springs = data.springs.map((_, k) => this.node("springs", String(k)));
    this.arrows = Array.from({ length: data.arrows }, (_, k) => this.node("forces", String(k)));
    this.home();
  }

  node(...path) { return this.viewer.scene_tree.find(["meshcat", ...path]).object; }

  // The camera as near as shows the whole box; meshcat's camera lives in axes with y up.
  home() {
    const { lower, upper, direction } = this.data.camera;
    const camera = this.viewer.camera;
    camera.fov = 45;
    const target = lower.map((value, k) => 0.5 * (value + upper[k]));
    const level = Math.hypot(direction[0], direction[1]);
    const right = [-direction[1] / level, direction[0] / level, 0];
    const up = [-direction[2] * right[1], direction[2] * right[0], level];
    const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    const tall = Math.tan((Math.PI / 360) * camera.fov);
    let distance = 0;
    for (let corner = 0; corner < 8; ++corner) {
      const p = target.map((value, k) => ((corner >> k) & 1 ? upper[k] : lower[k]) - value);
      const across = Math.max(Math.abs(dot(p, right)) / camera.aspect, Math.abs(dot(p, up)));
      distance = Math.max(distance, (1.02 * across) / tall + dot(p, direction));
    }
    const [x, y, z] = target.map((value, k) => value + distance * direction[k]);
    camera.near = 0.01 * distance;
    camera.far = 100 * distance;
    camera.position.set(x, z, -y);
    this.viewer.controls.target.set(target[0], target[2], -target[1]);
    this.viewer.controls.update();
    this.centre = target;
    this.viewer.set_dirty();
  }

  // moves the camera along
  follow(centre) {
    const [x, y, z] = centre.map((value, k) => value - this.centre[k]);
    if (!x && !y && !z) return;
    for (const point of [this.viewer.camera.position, this.viewer.controls.target]) {
      point.set(point.x + x, point.y + z, point.z - y);
    }
    this.centre = Array.from(centre);
  }

  paint(dark) {
    const [top, bottom, ground, lines] = dark
      ? [[0.13, 0.16, 0.2], [0.08, 0.1, 0.13], [0.2, 0.24, 0.29, 1], [0.31, 0.36, 0.43, 1]]
      : [[0.9, 0.93, 0.97], [0.76, 0.81, 0.88], [0.85, 0.87, 0.9, 1], [0.68, 0.72, 0.78, 1]];
    this.viewer.set_property(["Background"], "top_color", top);
    this.viewer.set_property(["Background"], "bottom_color", bottom);
    this.viewer.set_property(["meshcat", "ground", "plate"], "color", ground);
    this.viewer.set_property(["meshcat", "ground", "grid"], "color", lines);
    this.viewer.set_dirty();
  }

  // poses: position and quaternion x y z w of every body
  place(poses) {
    this.bodies.forEach((body, k) => {
      body.position.fromArray(poses, 7 * k);
      body.quaternion.fromArray(poses, 7 * k + 3);
    });
    this.viewer.set_dirty();
  }

  // ends: both ends of every spring, six numbers each
  stretch(ends) {
    this.springs.forEach((spring, k) => {
      const [ax, ay, az, bx, by, bz] = ends.slice(6 * k, 6 * k + 6);
      this.point(spring, [ax, ay, az], [bx - ax, by - ay, bz - az]);
    });
  }

  // touches: point and force, six numbers each
  push(touches) {
    const scale = this.data.metresPerNewton;
    this.arrows.forEach((arrow, k) => {
      arrow.visible = 6 * k < touches.length;
      if (!arrow.visible) return;
      const [x, y, z, fx, fy, fz] = touches.slice(6 * k, 6 * k + 6);
      const length = this.point(arrow, [x, y, z], [fx, fy, fz], false) * scale;
      const [shaft, head] = ["shaft", "head"].map((part) => this.node("forces", String(k), part));
      shaft.scale.z = Math.max(length, 1e-9);
      head.position.z = length;
    });
    this.viewer.set_dirty();
  }

  // puts an object at a point, its z-axis along a vector; the vector's length
  point(object, place, vector, stretch = true) {
    const along = object.position.clone().fromArray(vector);
    const length = along.length();
    object.position.fromArray(place);
    const up = object.position.clone().set(0, 0, 1);
    if (length > 0) object.quaternion.setFromUnitVectors(up, along.divideScalar(length));
    if (stretch) object.scale.z = Math.max(length, 1e-9);
    return length;
  }
}

// ------------------------------------------------------------------ playback
// meshcat's animator keeps the time: its own controls, ours and the plots all move it.
class Player {
  constructor(scene, data) {
    this.scene = scene;
    this.data = data;
    this.listeners = [];
    this.shown = -1;
    this.still = 0;
    this.duration = data.frames.time[data.frames.time.length - 1];
    this.trail = null;
    if (scene) {
      this.load();
      this.precede(scene.viewer);
    }
    element("transport").hidden = false;
    element("slider").max = this.duration;
    element("slider").addEventListener("input", (event) => this.seek(+event.target.value));
    element("play").addEventListener("click", () => this.toggle());
    element("speed").addEventListener("change", (event) => this.hasten(+event.target.value));
    element("home").addEventListener("click", () => { scene?.home(); this.shown = -1; });
    document.addEventListener("keydown", (event) => this.press(event));
    requestAnimationFrame(() => this.tick());
  }

  load() {
    const { time, poses } = this.data.frames;
    const bodies = this.data.bodies.length;
    const column = (body, first, width) => {
      const values = new Float32Array(time.length * width);
      for (let k = 0; k < time.length; ++k) {
        const start = 7 * (k * bodies + body) + first;
        values.set(poses.subarray(start, start + width), width * k);
      }
      return values;
    };
    const animations = this.data.bodies.map((name, body) => ({
      path: ["meshcat", "robot", name],
      clip: {
        name: "trajectory", fps: 1, tracks: [
          { name: ".position", type: "vector", times: time, values: column(body, 0, 3) },
          { name: ".quaternion", type: "quaternion", times: time, values: column(body, 3, 4) },
        ],
      },
    }));
    this.animator = this.scene.viewer.animator;
    this.scene.viewer.set_animation(animations, { play: false, repetitions: Infinity });
    this.animator.play(); // a paused animation can be moved in time, one never started can not
    this.animator.pause();
    this.animator.seek(0);
    this.trail = this.scene.viewer.scene_tree.find(["meshcat", "trail", "<object>"]).object;
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) this.animator.play();
  }

  // what is not a body moves before each picture is drawn, so that it fits the bodies
  precede(viewer) {
    const render = viewer.render.bind(viewer);
    viewer.render = () => {
      if (this.time !== this.shown) this.show();
      render();
    };
  }

  get time() { return this.animator ? this.animator.time : this.still; }
  get playing() { return Boolean(this.animator && this.animator.playing); }

  seek(time) {
    const inside = Math.min(this.duration, Math.max(0, time));
    this.still = inside;
    if (this.animator) {
      this.animator.seek(inside);
      this.animator.display_progress(inside);
    }
    this.show();
  }

  toggle() {
    if (!this.animator) return;
    if (this.animator.playing) this.animator.pause(); else this.animator.play();
  }

  hasten(factor) { if (this.animator) this.animator.mixer.timeScale = factor; }

  press(event) {
    if (event.target.closest("input, select, button")) return;
    const step = this.duration / Math.max(1, this.data.frames.time.length - 1);
    const action = {
      " ": () => this.toggle(),
      ArrowLeft: () => this.seek(this.time - step),
      ArrowRight: () => this.seek(this.time + step),
      Home: () => this.seek(0),
      End: () => this.seek(this.duration),
    }[event.key];
    if (action) { action(); event.preventDefault(); }
  }

  tick() {
    requestAnimationFrame(() => this.tick());
    element("play").textContent = this.playing ? "❚❚" : "▶";
    if (this.time !== this.shown) this.show();
  }

  show() {
    const time = this.time;
    this.shown = time;
    element("slider").value = time;
    element("clock").textContent = `${(time + this.data.start).toFixed(3)} s`;
    if (this.scene) this.decorate(time);
    for (const listener of this.listeners) listener(time);
  }

  // what is not a body: springs, forces, the trail, the camera
  decorate(time) {
    const { frames, springs, touches } = this.data;
    const k = lastBefore(frames.time, time);
    const next = Math.min(k + 1, frames.time.length - 1);
    const span = frames.time[next] - frames.time[k];
    const part = span > 0 ? Math.min(1, (time - frames.time[k]) / span) : 0;
    const between = (numbers, width) => Array.from({ length: width }, (_, i) =>
      (1 - part) * numbers[k * width + i] + part * numbers[next * width + i]);
    if (springs.length) this.scene.stretch(between(frames.springs, 6 * springs.length));
    this.scene.push(touches.numbers.subarray(6 * touches.first[k], 6 * touches.first[k + 1]));
    this.scene.follow(between(frames.centre, 3));
    if (this.trail.geometry) this.trail.geometry.setDrawRange(0, k + 1);
    this.scene.viewer.set_dirty();
  }
}

// ------------------------------------------------------------------ plots
const svgElement = (name, attributes = {}) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

function ticks(low, high, count) {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= raw);
  const list = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k) list.push(k * step);
  return list;
}

function number(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1);
  return String(+value.toPrecision(4));
}

class Plot {
  constructor(panel, player, start) {
    Object.assign(this, { panel, player, start, height: 170, left: 54, right: 10, top: 8, bottom: 20 });
    this.box = document.createElement("div");
    this.box.className = "plot";
    const heading = document.createElement("h2");
    heading.textContent = `${panel.title} `;
    heading.append(Object.assign(document.createElement("small"), { textContent: panel.unit }));
    this.svg = svgElement("svg", { height: this.height, role: "img" });
    this.svg.setAttribute("aria-label", panel.title);
    this.legend = document.createElement("div");
    this.legend.className = "legend";
    this.box.append(heading, this.svg, this.legend);
    this.shown = panel.series.map((series) => series.shown);
    this.values = panel.series.map((series, k) => this.addEntry(series, k));
    new ResizeObserver(() => this.draw()).observe(this.svg);
    const seek = (event) => player.seek(this.timeAt(event.clientX));
    this.svg.addEventListener("pointerdown", (event) => {
      this.svg.setPointerCapture(event.pointerId);
      seek(event);
    });
    this.svg.addEventListener("pointermove", (event) => { if (event.buttons) seek(event); });
    player.listeners.push((time) => this.mark(time));
  }

  addEntry(series, k) {
    const button = document.createElement("button");
    const swatch = document.createElement("i");
    const value = document.createElement("b");
    swatch.style.background = `var(--c${k % 8})`;
    button.type = "button";
    button.setAttribute("aria-pressed", this.shown[k]);
    button.append(swatch, series.name, value);
    button.addEventListener("click", () => {
      this.shown[k] = !this.shown[k];
      button.setAttribute("aria-pressed", this.shown[k]);
      this.draw();
    });
    this.legend.append(button);
    return value;
  }

  get span() { return this.svg.clientWidth - this.left - this.right; }

  timeAt(clientX) {
    const x = clientX - this.svg.getBoundingClientRect().left - this.left;
    return (x / Math.max(1, this.span)) * this.player.duration;
  }

  x(time) { return this.left + (this.span * time) / (this.player.duration || 1); }

  scale(value) { return this.panel.log ? Math.log10(Math.max(value, this.panel.floor)) : value; }

  range() {
    let low = Infinity, high = -Infinity;
    this.panel.series.forEach((series, k) => {
      if (!this.shown[k]) return;
      for (const value of series.y) {
        if (!Number.isFinite(value)) continue;
        low = Math.min(low, this.scale(value));
        high = Math.max(high, this.scale(value));
      }
    });
    if (low > high) return [0, 1];
    if (this.panel.log) return [Math.floor(low), Math.max(Math.ceil(high), Math.floor(low) + 1)];
    const margin = 0.06 * (high - low) || 0.5 * Math.abs(high) || 1;
    return [low - margin, high + margin];
  }

  draw() {
    if (this.span <= 0) return;
    const [low, high] = this.range();
    const rows = this.height - this.top - this.bottom;
    const y = (value) => this.top + rows * (1 - (this.scale(value) - low) / (high - low));
    const inside = (value) => Math.min(this.height - this.bottom, Math.max(this.top, y(value)));
    this.svg.replaceChildren();
    const label = (x, yy, text, anchor) => {
      const made = svgElement("text", { x, y: yy, "text-anchor": anchor });
      made.textContent = text;
      this.svg.append(made);
    };
    const values = this.panel.log
      ? ticks(low, high, 4).filter(Number.isInteger).map((power) => 10 ** power)
      : ticks(low, high, 4);
    for (const value of values) {
      const at = y(value);
      this.svg.append(svgElement("line", {
        class: "grid", x1: this.left, x2: this.left + this.span, y1: at, y2: at }));
      label(this.left - 6, at + 4, this.panel.log ? value.toExponential(0) : number(value), "end");
    }
    const start = this.start, end = start + this.player.duration;
    for (const time of ticks(start, end || 1, Math.max(2, this.span / 80))) {
      label(this.x(time - start), this.height - 5, number(time), "middle");
    }
    this.panel.series.forEach((series, k) => {
      if (!this.shown[k]) return;
      const colour = `var(--c${k % 8})`;
      this.line(series.x, series.y, series.step, y, { stroke: colour });
      for (const limit of series.limits || []) {
        this.line(series.x, limit, series.step, inside, { stroke: colour, class: "limit" });
      }
    });
    this.cursor = svgElement("line", { class: "cursor", y1: this.top, y2: this.height - this.bottom });
    this.svg.append(this.cursor);
    this.mark(this.player.time);
  }

  line(times, numbers, step, y, attributes) {
    let path = "", pen = "M";
    for (let k = 0; k < numbers.length; ++k) {
      if (!Number.isFinite(numbers[k])) { pen = "M"; continue; }
      const at = y(numbers[k]).toFixed(1);
      path += `${pen}${this.x(times[k]).toFixed(1)} ${at}`;
      if (step) path += `H${this.x(k + 1 < times.length ? times[k + 1] : this.player.duration).toFixed(1)}`;
      pen = "L";
    }
    const made = svgElement("path", { d: path });
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "stroke") made.style.stroke = value; else made.setAttribute(key, value);
    }
    this.svg.append(made);
  }

  mark(time) {
    if (!this.cursor) return;
    const x = this.x(time);
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    this.panel.series.forEach((series, k) => {
      this.values[k].textContent = number(series.y[lastBefore(series.x, time)]);
    });
  }
}

// ------------------------------------------------------------------ page
function theme(scene) {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const set = (dark) => {
    root.dataset.theme = dark ? "dark" : "light";
    scene?.paint(dark);
  };
  system.addEventListener("change", () => set(system.matches));
  element("theme").addEventListener("click", () => set(root.dataset.theme !== "dark"));
  set(system.matches);
}

function summary(rows) {
  element("summary").hidden = !rows.length;
  for (const [name, text, bad] of rows) {
    const row = element("summary").firstElementChild.insertRow();
    row.append(Object.assign(document.createElement("th"), { textContent: name, scope: "row" }));
    row.insertCell().textContent = text;
    if (bad) row.className = "bad";
  }
}

// shows what the simulation sends while it runs
function listen(scene, edition) {
  element("transport").hidden = false;
  for (const id of ["play", "slider", "speed"]) element(id).hidden = true;
  element("home").addEventListener("click", () => scene.home());
  const source = new EventSource(`stream/${edition}`);
  source.onmessage = (event) => {
    const news = JSON.parse(event.data);
    if (news.reload) { location.reload(); return; }
    element("clock").textContent = `${news.time.toFixed(3)} s`;
    scene.place(news.poses);
    scene.stretch(news.springs);
    scene.push(news.touches);
    scene.follow(news.centre);
  };
  source.onerror = () => { element("clock").textContent = "not connected"; };
}

async function main() {
  const data = await unpack(element("data").textContent);
  const page = { data, scene: null, player: null };
  document.body.className = data.kind;
  element("title").textContent = data.title;
  const notice = (text) => {
    element("notice").hidden = false;
    element("notice").append(Object.assign(document.createElement("span"), { textContent: text }));
  };
  if (data.missing) notice(data.missing);
  try {
    page.scene = new Scene(data);
    const { failures } = page.scene;
    if (failures.length) notice(`Meshes that cannot be drawn: ${failures.length} (${failures[0]})`);
  } catch (error) {
    notice(`This browser cannot draw in 3D (WebGL): ${error.message}`);
  }
  theme(page.scene);
  summary(data.summary);
  const collisions = element("collisions");
  collisions.hidden = !(data.collisions && page.scene);
  collisions.firstElementChild.addEventListener("change", (event) => {
    for (const body of [...data.bodies, "world"]) {
      page.scene.node("robot", body, "collision").visible = event.target.checked;
      page.scene.node("robot", body, "visual").visible = !event.target.checked;
    }
    page.scene.viewer.set_dirty();
  });
  if (data.kind === "report") {
    page.player = new Player(page.scene, data);
    element("plots").hidden = false;
    page.plots = data.panels.map((panel) => new Plot(panel, page.player, data.start));
    element("plots").append(...page.plots.map((plot) => plot.box));
  } else if (page.scene) {
    page.scene.place(data.poses);
    page.scene.stretch(data.ends);
    page.scene.push([]);
    if (data.kind === "live") listen(page.scene, data.edition);
  }
  window.viContact = page;
  document.body.dataset.state = "ready";
}

main();
