// Running plots, and the colours of numbers.

const kSamples = 240;
const kStops = [
  [0.267, 0.005, 0.329], [0.283, 0.141, 0.458], [0.254, 0.265, 0.53], [0.207, 0.372, 0.553],
  [0.164, 0.471, 0.558], [0.128, 0.567, 0.551], [0.135, 0.659, 0.518], [0.267, 0.749, 0.441],
  [0.478, 0.821, 0.318], [0.741, 0.873, 0.15], [0.993, 0.906, 0.144],
];  // viridis, by Nathaniel Smith and Stéfan van der Walt (CC0)

/** 256 colours as red, green and blue in 0 .. 1, as on a screen. */
export const palette = (() => {
  const out = new Float32Array(3 * 256);
  for (let k = 0; k < 256; ++k) {
    const at = k / 255 * (kStops.length - 1), low = Math.min(Math.floor(at), kStops.length - 2);
    for (let c = 0; c < 3; ++c)
      out[3 * k + c] = kStops[low][c] + (at - low) * (kStops[low + 1][c] - kStops[low][c]);
  }
  return out;
})();

export function drawScale(canvas) {
  const context = canvas.getContext('2d');
  for (let x = 0; x < canvas.width; ++x) {
    const k = Math.floor(x / canvas.width * 256);
    context.fillStyle = `rgb(${[0, 1, 2].map((c) => Math.round(255 * palette[3 * k + c])).join(' ')})`;
    context.fillRect(x, 0, 1, canvas.height);
  }
}

/** Curves of the last samples. A logarithmic one is scaled between its extremes, others from 0. */
export class Plot {
  #canvas;
  #colors;
  #logarithmic;
  #samples = [];

  constructor(canvas, colors, logarithmic = false) {
    this.#canvas = canvas;
    this.#colors = colors;
    this.#logarithmic = logarithmic;
  }

  add(values) {
    this.#samples.push(values);
    if (this.#samples.length > kSamples) this.#samples.shift();
  }

  draw() {
    const canvas = this.#canvas, scale = devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const context = canvas.getContext('2d');
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    const shown = (x) => this.#logarithmic ? Math.log10(Math.max(x, 1e-300)) : x;
    const all = this.#samples.flat().filter(Number.isFinite).map(shown);
    if (all.length === 0) return;
    let low = this.#logarithmic ? Math.min(...all) : 0, high = Math.max(...all);
    if (!(high > low)) high = low + 1;
    context.strokeStyle = '#e6e9ed';
    context.beginPath();
    context.moveTo(0, height - 0.5);
    context.lineTo(width, height - 0.5);
    context.stroke();
    context.lineWidth = 1.5;
    this.#colors.forEach((color, curve) => {
      context.strokeStyle = color;
      context.beginPath();
      this.#samples.forEach((values, k) => {
        const y = height - 3 - (shown(values[curve]) - low) / (high - low) * (height - 7);
        context.lineTo(k / (kSamples - 1) * width, y);
      });
      context.stroke();
    });
    context.fillStyle = '#8a93a0';
    context.font = '10px system-ui, sans-serif';
    const most = this.#logarithmic ? 10 ** high : high;
    context.textAlign = 'right';
    context.fillText(most.toPrecision(3), width, 9);
  }
}
