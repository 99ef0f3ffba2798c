// The marks over the points as a list of shapes, which can be drawn on a canvas and written as SVG.
//
// A shape is { path: [[x, y], ...], closed, fill, alpha, stroke, width, dash }, { ring: [x, y], radius, stroke, width },
// { dot: [x, y], radius, fill }, { segments: [x, y, x, y, ...], stroke, width } with separate lines, or { text, at: [x, y], size, fill, halo, anchor }. `alpha` is the opacity of the filling.

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

/** The CSS font of a text of a size in pixels. */
export function font(size) {
  return `600 ${size}px ${FONT}`;
}

/** Draws shapes on a 2D context. */
export function drawShapes(pen, shapes) {
  pen.lineJoin = "round";
  for (const it of shapes) {
    if (it.text !== undefined) {
      pen.font = font(it.size);
      pen.textAlign = { start: "left", middle: "center" }[it.anchor];
      pen.textBaseline = "middle";
      if (it.halo) {
        pen.strokeStyle = it.halo;
        pen.lineWidth = 3.5;
        pen.strokeText(it.text, ...it.at);
      }
      pen.fillStyle = it.fill;
      pen.fillText(it.text, ...it.at);
      continue;
    }
    pen.beginPath();
    if (it.path) {
      it.path.forEach((point) => pen.lineTo(...point));
      if (it.closed) pen.closePath();
    } else if (it.segments) {
      const { segments } = it;
      for (let i = 0; i + 3 < segments.length; i += 4) {
        pen.moveTo(segments[i], segments[i + 1]);
        pen.lineTo(segments[i + 2], segments[i + 3]);
      }
    } else {
      pen.arc(...(it.ring ?? it.dot), it.radius, 0, 2 * Math.PI);
    }
    if (it.fill) {
      pen.globalAlpha = it.alpha ?? 1;
      pen.fillStyle = it.fill;
      pen.fill();
      pen.globalAlpha = 1;
    }
    if (it.stroke) {
      pen.setLineDash(it.dash ?? []);
      pen.strokeStyle = it.stroke;
      pen.lineWidth = it.width;
      pen.stroke();
    }
  }
  pen.setLineDash([]);
}

const short = (value) => Number(value.toFixed(2));
const ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
// SVG forbids control characters, even escaped ones.
const plain = (text) => text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, " ").replace(/[&<>"]/g, (it) => ESCAPES[it]);

/** Writes shapes as SVG elements. */
export function svgShapes(shapes) {
  return shapes.map((it) => {
    if (it.text !== undefined) {
      const halo = it.halo ? ` stroke="${plain(it.halo)}" stroke-width="3.5" stroke-linejoin="round" paint-order="stroke"` : "";
      return `<text x="${short(it.at[0])}" y="${short(it.at[1])}" font-size="${it.size}" font-weight="600" font-family="${plain(FONT)}" `
        + `text-anchor="${it.anchor}" dominant-baseline="central" fill="${plain(it.fill)}"${halo}>${plain(it.text)}</text>`;
    }
    const fill = it.fill ? `fill="${plain(it.fill)}" fill-opacity="${it.alpha ?? 1}"` : 'fill="none"';
    const dash = it.dash ? ` stroke-dasharray="${it.dash.join(" ")}"` : "";
    const stroke = it.stroke ? ` stroke="${plain(it.stroke)}" stroke-width="${it.width}" stroke-linejoin="round"${dash}` : "";
    if (it.path) {
      const steps = it.path.map(([x, y], i) => `${i ? "L" : "M"}${short(x)} ${short(y)}`).join("");
      return `<path d="${steps}${it.closed ? "Z" : ""}" ${fill}${stroke}/>`;
    }
    if (it.segments) {
      const steps = [];
      for (let i = 0; i + 3 < it.segments.length; i += 4) {
        const [ax, ay, bx, by] = it.segments.slice(i, i + 4).map(short);
        steps.push(`M${ax} ${ay}L${bx} ${by}`);
      }
      return `<path d="${steps.join("")}" ${fill}${stroke}/>`;
    }
    const [x, y] = it.ring ?? it.dot;
    return `<circle cx="${short(x)}" cy="${short(y)}" r="${short(it.radius)}" ${fill}${stroke}/>`;
  }).join("\n");
}
