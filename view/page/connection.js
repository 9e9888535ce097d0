// The connection to the session: reads geometry, frames and states, sends commands.

const kBlock = 64, kSmall = 1, kLarge = 2, kColors = 4;

/** Points, triangles and lines as the server gives them. */
export function readGeometry(buffer) {
  const [points, triangles, lines] = new Uint32Array(buffer, 0, 3);
  let at = 12;
  const take = (Type, count) => {
    const part = new Type(buffer, at, count);
    at += 4 * count;
    return part;
  };
  return {
    points,
    start: take(Float32Array, 3 * points),
    triangles: take(Uint32Array, 3 * triangles),
    lines: take(Uint32Array, 2 * lines),
  };
}

/** The frames of a session, decoded one after the other. */
export class Frames {
  #cells = null;
  colors = null;
  positions = null;

  /** Applies one frame; returns its head. */
  read(buffer) {
    const view = new DataView(buffer);
    const size = view.getUint32(4, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, size)));
    const count = head.points;
    if (this.#cells === null || this.#cells.length !== 3 * count) {
      this.#cells = new Uint16Array(3 * count);
      this.positions = new Float32Array(3 * count);
      this.colors = new Uint8Array(count);
    }
    let at = 8 + size;
    for (let first = 0; first < count; first += kBlock) {
      const last = Math.min(first + kBlock, count), bits = view.getUint8(at++);
      if (bits & kSmall) {
        for (let k = 3 * first; k < 3 * last; ++k) this.#cells[k] += view.getInt8(at++);
      } else if (bits & kLarge) {
        for (let k = 3 * first; k < 3 * last; ++k, at += 2) this.#cells[k] = view.getUint16(at, true);
      }
      if (bits & kColors) for (let k = first; k < last; ++k) this.colors[k] = view.getUint8(at++);
    }
    for (let k = 0; k < 3 * count; ++k)
      this.positions[k] = head.origin[k % 3] + head.step * this.#cells[k];
    return head;
  }
}

/** Connects, and again after a loss. `on` has frame(head, frames), state(state) and lost(). */
export class Connection {
  #socket = null;
  #on;

  constructor(on) {
    this.#on = on;
    this.#open();
  }

  #open() {
    const address = new URL('ws', location.href);
    address.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:';
    const socket = new WebSocket(address);
    const frames = new Frames();
    socket.binaryType = 'arraybuffer';
    socket.onmessage = ({data}) => {
      if (typeof data === 'string') {
        this.#on.state(JSON.parse(data));
        return;
      }
      const head = frames.read(data);
      requestAnimationFrame(() => this.send({do: 'drawn', frame: head.frame}));
      this.#on.frame(head, frames);
    };
    socket.onclose = () => {
      this.#on.lost();
      setTimeout(() => this.#open(), 2000);
    };
    this.#socket = socket;
  }

  send(message) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }
}
