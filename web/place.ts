// Where solves that keep a factor run: on the device or in JavaScript.

/** Most time of a trial on the device, over JavaScript's. */
const patience = 2;

/** Solves in JavaScript that are no measure: they make the factor. */
const warmUp = 2;

export type Place = "javascript" | "device";

/** Measures both, JavaScript first, and takes the faster one. The numbers are seconds of a step. */
export class Race {
  #runs = 0;  // in JavaScript
  seconds: { javascript: number; device: number | undefined } = { javascript: Infinity, device: undefined };

  get next(): Place {
    const { javascript, device } = this.seconds;
    if (this.#runs <= warmUp) return "javascript";
    return device === undefined || device < javascript ? "device" : "javascript";
  }

  /** Seconds after which a solve of so many steps on the device is given up. */
  limit(steps: number): number {
    return this.seconds.device === undefined ? patience * steps * this.seconds.javascript : Infinity;
  }

  /** Takes over the time of a solve; one that was given up has taken forever. */
  took(place: Place, seconds: number, steps: number): void {
    if (place === "javascript" && this.#runs++ < warmUp) return;
    this.seconds[place] = Math.min(this.seconds[place] ?? Infinity, seconds / Math.max(1, steps));
  }

  /** Why JavaScript is used, where it has won. */
  get reason(): string {
    const { javascript, device } = this.seconds, ms = (s: number) => (1000 * s).toPrecision(2);
    if (device === undefined || this.next === "device") return "";
    return `while a handle is dragged, JavaScript takes ${Number(ms(javascript))} ms a step, and WebGPU ${
      device === Infinity ? "more than twice as long" : `${Number(ms(device))} ms`}`;
  }
}
