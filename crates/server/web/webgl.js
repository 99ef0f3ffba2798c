// Draws the points of the map with WebGL. The positions stay on the graphics card; a move of the map only changes a few
// numbers, so that the time of a frame does not grow with the number of points.

const MOVE = `
  uniform vec2 centre;
  uniform vec4 view;
  vec4 on_screen(vec2 place) {
    vec2 t = place - centre;
    vec2 b = vec2(1.0 - dot(centre, place), centre.y * place.x - centre.x * place.y);
    vec2 moved = vec2(dot(t, b), t.y * b.x - t.x * b.y) / dot(b, b);
    return vec4(view.xy * moved + view.zw, 0.0, 1.0);
  }`;

const POINT_VERTEX = `
  attribute vec2 place;
  attribute float depth;
  attribute vec4 colour;
  uniform vec2 range;
  uniform float size;
  uniform float mark;
  varying vec4 shade;
  varying float wide;
  ${MOVE}
  void main() {
    bool shown = depth >= range.x && depth <= range.y && abs(255.0 * colour.a - mark) < 0.5;
    gl_Position = shown ? on_screen(place) : vec4(2.0, 2.0, 2.0, 1.0);
    gl_PointSize = size;
    shade = colour;
    wide = size;
  }`;

// Small dots are squares, because the difference is not visible.
const POINT_FRAGMENT = `
  precision mediump float;
  varying vec4 shade;
  varying float wide;
  void main() {
    float edge = wide < 3.0 ? 1.0 : clamp(0.5 * wide - wide * distance(gl_PointCoord, vec2(0.5)), 0.0, 1.0);
    gl_FragColor = vec4(shade.rgb * edge, edge);
  }`;

const LINE_VERTEX = `
  attribute vec2 place;
  ${MOVE}
  void main() { gl_Position = on_screen(place); }`;

const LINE_FRAGMENT = `
  precision mediump float;
  uniform vec4 shade;
  void main() { gl_FragColor = vec4(shade.rgb * shade.a, shade.a); }`;

/** Alpha of the colours that are drawn first. They are drawn opaque, too. */
export const BEHIND = 254;

/**
 * Creates a renderer on a canvas, or returns `null` if the browser has no working WebGL. `lost` is called when the browser has
 * restored a context that it had dropped, after which the map must be drawn again.
 */
export function pointRenderer(canvas, lost) {
  const gl = canvas.getContext("webgl", { antialias: false, depth: false, stencil: false, powerPreference: "high-performance" });
  if (!gl) return null;
  let programs = null;
  let buffers = null;
  let behind = false;
  // The uploaded arrays, to upload them again after the browser lost the WebGL context.
  const content = { places: new Float32Array(0), depth: new Float32Array(0), colours: new Uint32Array(0), lines: new Float32Array(0) };

  function setUp() {
    programs = { points: program(gl, POINT_VERTEX, POINT_FRAGMENT), lines: program(gl, LINE_VERTEX, LINE_FRAGMENT) };
    buffers = Object.fromEntries(Object.keys(content).map((name) => [name, gl.createBuffer()]));
    Object.keys(content).forEach(upload);
    gl.disable(gl.DEPTH_TEST);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  function upload(name) {
    gl.bindBuffer(gl.ARRAY_BUFFER, buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, content[name], gl.STATIC_DRAW);
  }

  function put(name, values) {
    content[name] = values;
    if (!gl.isContextLost()) upload(name);
  }

  function attribute(of, name, buffer, size, type = gl.FLOAT, normalised = false) {
    const at = of.attributes[name];
    gl.bindBuffer(gl.ARRAY_BUFFER, buffers[buffer]);
    gl.enableVertexAttribArray(at);
    gl.vertexAttribPointer(at, size, type, normalised, 0, 0);
  }

  function view(of, eye) {
    const { uniforms } = of;
    gl.useProgram(of.program);
    gl.uniform2f(uniforms.centre, eye.ax, eye.ay);
    gl.uniform4f(uniforms.view, 2 * eye.scale / eye.width, 2 * eye.scale / eye.height, 2 * eye.x / eye.width, -2 * eye.y / eye.height);
  }

  /** Draws the points and lines of a view. `back` and `lineColour` are lists of numbers from 0 to 255. */
  function draw(eye, { back, range, radius, lineColour, lineAlpha }) {
    if (gl.isContextLost()) return;
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(back[0] / 255, back[1] / 255, back[2] / 255, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const points = content.depth.length;
    if (points) {
      const { points: of } = programs;
      view(of, eye);
      gl.uniform2f(of.uniforms.range, ...range);
      gl.uniform1f(of.uniforms.size, 2 * radius);
      attribute(of, "place", "places", 2);
      attribute(of, "depth", "depth", 1);
      attribute(of, "colour", "colours", 4, gl.UNSIGNED_BYTE, true);
      // Points without an own colour are drawn first, so that they cover no others.
      for (const mark of behind ? [BEHIND, 255] : [255]) {
        gl.uniform1f(of.uniforms.mark, mark);
        gl.drawArrays(gl.POINTS, 0, points);
      }
    }
    if (content.lines.length) {
      const { lines: of } = programs;
      view(of, eye);
      gl.uniform4f(of.uniforms.shade, ...lineColour.map((it) => it / 255), lineAlpha);
      attribute(of, "place", "lines", 2);
      gl.drawArrays(gl.LINES, 0, content.lines.length / 2);
    }
  }

  canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
  canvas.addEventListener("webglcontextrestored", () => {
    setUp();
    lost();
  });
  try {
    setUp();
  } catch {
    return null; // A driver that cannot compile the shaders is as good as none.
  }

  return {
    draw,
    /** Sets the positions and depths of the points. */
    points: (x, y, depth) => {
      const places = new Float32Array(2 * x.length);
      for (let i = 0; i < x.length; i++) {
        places[2 * i] = x[i];
        places[2 * i + 1] = y[i];
      }
      put("places", places);
      put("depth", depth);
      behind = false;
      put("colours", new Uint32Array(x.length));
    },
    /**
     * Sets the colours of the points, packed as by `word` of paint.js. With `some`, points whose alpha is `BEHIND` are
     * drawn behind the others.
     */
    colours: (words, some) => {
      behind = some;
      put("colours", words);
    },
    /** Sets line segments: four numbers each. */
    lines: (ends) => put("lines", ends),
  };
}

function program(gl, vertex, fragment) {
  const made = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS) && !gl.isContextLost()) {
    throw new Error(`the shaders of the map do not compile: ${gl.getProgramInfoLog(made)}`);
  }
  const names = (count, info, place) => Object.fromEntries(Array.from({ length: gl.getProgramParameter(made, count) },
    (_, i) => gl[info](made, i).name).map((name) => [name, gl[place](made, name)]));
  return { program: made,
    attributes: names(gl.ACTIVE_ATTRIBUTES, "getActiveAttrib", "getAttribLocation"),
    uniforms: names(gl.ACTIVE_UNIFORMS, "getActiveUniform", "getUniformLocation") };
}
