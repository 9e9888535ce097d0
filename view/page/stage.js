// The three-dimensional view: mesh, lines or points, handles, picking and dragging.
import {
  BufferAttribute, BufferGeometry, Color, DirectionalLight, DoubleSide,
  DynamicDrawUsage, HemisphereLight, InstancedMesh, LineBasicMaterial, LineSegments, Matrix4, Mesh,
  MeshStandardMaterial, OrbitControls, PerspectiveCamera, Plane, Points,
  PointsMaterial, Raycaster, Scene, Sphere, SphereGeometry, Vector2, Vector3, WebGLRenderer,
} from './three.min.js';
import {palette} from './plots.js';

const kClay = new Color('#d9b28c'), kHandle = new Color('#1f6feb'), kHot = new Color('#e4572e');
const kMostHandles = 4096, kSmoothPoints = 100000, kPickPixels = 14;

/** `on` has grab(vertex), drag(handle, position, begins), release(handle). */
export class Stage {
  #renderer = new WebGLRenderer({antialias: true, preserveDrawingBuffer: true});
  #scene = new Scene();
  #camera = new PerspectiveCamera(35, 1, 0.01, 1000);
  #controls;
  #geometry = new BufferGeometry();
  #surface = null;
  #handles = [];
  #balls;
  #lights;
  #size;
  #movable;
  #plain = null;
  #flat = false;
  #dragged = null;
  #pending = null;
  #dirty = true;
  #on;
  #ray = new Raycaster();

  constructor(parent, scene, geometry, on) {
    this.#on = on;
    this.#size = scene.size;
    this.#movable = scene.movable;
    this.#scene.background = new Color('#f3f5f7');
    this.#renderer.setPixelRatio(Math.min(devicePixelRatio || 1, 2));
    parent.append(this.#renderer.domElement);
    this.#lights = new DirectionalLight('#ffffff', 2.1);
    this.#scene.add(new HemisphereLight('#ffffff', '#8d99a8', 1.5), this.#lights);
    this.#addGeometry(geometry);
    this.#balls = new InstancedMesh(
        new SphereGeometry(1, 20, 14), new MeshStandardMaterial({roughness: 0.5}), kMostHandles);
    this.#balls.instanceMatrix.setUsage(DynamicDrawUsage);
    this.#balls.count = 0;
    this.#balls.frustumCulled = false;
    this.#scene.add(this.#balls);
    this.#controls = new OrbitControls(this.#camera, this.#renderer.domElement);
    this.#controls.addEventListener('change', () => { this.#dirty = true; });
    this.#frameAll(geometry.start);
    this.#listen();
    new ResizeObserver(() => this.#resize(parent)).observe(parent);
    this.#resize(parent);
    this.#animate();
  }

  #addGeometry({start, triangles, lines, points}) {
    this.#geometry.setAttribute('position', new BufferAttribute(new Float32Array(start), 3).setUsage(DynamicDrawUsage));
    this.#geometry.setAttribute('color', new BufferAttribute(new Float32Array(3 * points), 3).setUsage(DynamicDrawUsage));
    this.#paint(null);
    if (triangles.length > 0) {
      const flat = points > kSmoothPoints;
      const surface = new BufferGeometry();
      for (const name of ['position', 'color']) surface.setAttribute(name, this.#geometry.getAttribute(name));
      surface.setIndex(new BufferAttribute(triangles, 1));
      this.#surface = new Mesh(surface, new MeshStandardMaterial({
        vertexColors: true, roughness: 0.72, side: DoubleSide, flatShading: flat,
        polygonOffset: true, polygonOffsetFactor: 1, polygonOffsetUnits: 1,
      }));
      if (!flat) surface.computeVertexNormals();
      this.#surface.frustumCulled = false;
      this.#scene.add(this.#surface);
    }
    if (lines.length > 0) {
      const net = new BufferGeometry();
      for (const name of ['position', 'color']) net.setAttribute(name, this.#geometry.getAttribute(name));
      net.setIndex(new BufferAttribute(lines, 1));
      const drawn = new LineSegments(net, new LineBasicMaterial({vertexColors: true}));
      drawn.frustumCulled = false;
      this.#scene.add(drawn);
    }
    if (triangles.length === 0) {
      const dots = new Points(this.#geometry, new PointsMaterial({vertexColors: true, size: 3, sizeAttenuation: false}));
      dots.frustumCulled = false;
      this.#scene.add(dots);
    }
  }

  #frameAll(start) {
    const sphere = new Sphere(), low = new Vector3(Infinity, Infinity, Infinity), high = low.clone().negate();
    for (let k = 0; k < start.length; k += 3) {
      low.min(new Vector3(start[k], start[k + 1], start[k + 2]));
      high.max(new Vector3(start[k], start[k + 1], start[k + 2]));
    }
    sphere.center.addVectors(low, high).multiplyScalar(0.5);
    sphere.radius = low.distanceTo(high) / 2 || 1;
    // What lies in a plane is looked at from the front, and dragged in its plane.
    this.#flat = high.z - low.z < 1e-6 * sphere.radius;
    const away = (this.#flat ? new Vector3(0, 0, 1) : new Vector3(0.55, 0.3, 1)).normalize().multiplyScalar(3.6 * sphere.radius);
    this.#camera.position.copy(sphere.center).add(away);
    this.#camera.near = sphere.radius / 100;
    this.#camera.far = sphere.radius * 100;
    this.#controls.target.copy(sphere.center);
    this.#controls.update();
  }

  #resize(parent) {
    const width = parent.clientWidth, height = parent.clientHeight;
    if (width === 0 || height === 0) return;
    this.#renderer.setSize(width, height);
    this.#camera.aspect = width / height;
    this.#camera.updateProjectionMatrix();
    this.#dirty = true;
  }

  #animate() {
    requestAnimationFrame(() => this.#animate());
    if (this.#pending !== null) {
      this.#on.drag(this.#dragged.id, this.#pending, this.#dragged.begins);
      this.#dragged.begins = false;
      this.#pending = null;
    }
    if (!this.#dirty) return;
    this.#dirty = false;
    this.#lights.position.copy(this.#camera.position).add(new Vector3(this.#size, 2 * this.#size, 0));
    const ball = new Matrix4(), at = new Vector3();
    this.#handles.forEach((handle, k) => {
      at.fromArray(handle.position);
      const size = 0.0045 * at.distanceTo(this.#camera.position) * (handle.id === this.#dragged?.id ? 1.5 : 1);
      ball.makeScale(size * 1.6, size * 1.6, size * 1.6).setPosition(at);
      this.#balls.setMatrixAt(k, ball);
      this.#balls.setColorAt(k, handle.id === this.#dragged?.id ? kHot : kHandle);
    });
    this.#balls.count = Math.min(this.#handles.length, kMostHandles);
    this.#balls.instanceMatrix.needsUpdate = true;
    if (this.#balls.instanceColor) this.#balls.instanceColor.needsUpdate = true;
    this.#renderer.render(this.#scene, this.#camera);
  }

  /** Shows positions, and colours unless they are null. */
  show(positions, colors) {
    const attribute = this.#geometry.getAttribute('position');
    attribute.array.set(positions);
    attribute.needsUpdate = true;
    this.#paint(colors);
    if (this.#surface && !this.#surface.material.flatShading) this.#surface.geometry.computeVertexNormals();
    this.#dirty = true;
  }

  #paint(colors) {
    if (colors === null && this.#plain === true) return;
    this.#plain = colors === null;
    const attribute = this.#geometry.getAttribute('color'), color = new Color();
    for (let k = 0; k < attribute.count; ++k) {
      if (colors === null) color.copy(kClay);
      else color.setRGB(palette[3 * colors[k]], palette[3 * colors[k] + 1], palette[3 * colors[k] + 2], 'srgb');
      attribute.setXYZ(k, color.r, color.g, color.b);
    }
    attribute.needsUpdate = true;
  }

  /** The handles of the session; that of a running drag stays where the pointer is. */
  showHandles(handles) {
    const held = this.#handles.find((handle) => handle.id === this.#dragged?.id);
    this.#handles = handles.map((handle) => handle.id === held?.id ? {...handle, position: held.position} : handle);
    if (held && !this.#handles.some((handle) => handle.id === held.id)) this.#handles.push(held);
    this.#dirty = true;
  }

  /** Where a point is on the page, in CSS pixels. */
  project(position) {
    const box = this.#renderer.domElement.getBoundingClientRect();
    this.#camera.updateMatrixWorld();
    const at = new Vector3().fromArray(position).project(this.#camera);
    return [box.left + (at.x + 1) / 2 * box.width, box.top + (1 - at.y) / 2 * box.height];
  }

  picture() {
    this.#dirty = true;
    this.#renderer.render(this.#scene, this.#camera);
    return new Promise((done) => this.#renderer.domElement.toBlob(done));
  }

  #aim(event) {
    const box = this.#renderer.domElement.getBoundingClientRect();
    const at = new Vector2((event.clientX - box.left) / box.width * 2 - 1, 1 - (event.clientY - box.top) / box.height * 2);
    this.#ray.setFromCamera(at, this.#camera);
  }

  #handleAt(event) {
    let best = null, least = kPickPixels;
    for (const handle of this.#handles) {
      const [x, y] = this.project(handle.position);
      const far = Math.hypot(x - event.clientX, y - event.clientY);
      if (far < least) [best, least] = [handle, far];
    }
    return best;
  }

  #vertexAt(event) {
    const positions = this.#geometry.getAttribute('position').array;
    if (this.#surface) {
      this.#aim(event);
      this.#surface.geometry.boundingSphere = null;
      const hit = this.#ray.intersectObject(this.#surface, false)[0];
      if (hit === undefined) return null;
      const corners = [hit.face.a, hit.face.b, hit.face.c].filter((v) => v < this.#movable);
      const far = (v) => hit.point.distanceTo(new Vector3().fromArray(positions, 3 * v));
      return corners.length === 0 ? null : corners.reduce((a, b) => far(a) <= far(b) ? a : b);
    }
    let best = null, least = kPickPixels;
    for (let v = 0; v < this.#movable; ++v) {
      const [x, y] = this.project(positions.subarray(3 * v, 3 * v + 3));
      const far = Math.hypot(x - event.clientX, y - event.clientY);
      if (far < least) [best, least] = [v, far];
    }
    return best;
  }

  #listen() {
    const canvas = this.#renderer.domElement;
    const plane = new Plane(), normal = new Vector3(), at = new Vector3();
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0 || !this.#on.writes()) return;
      let handle = this.#handleAt(event);
      if (handle && event.shiftKey) {
        this.#on.release(handle.id);
        event.stopImmediatePropagation();
        return;
      }
      let begins = true;
      if (handle === null) {
        const vertex = this.#vertexAt(event);
        if (vertex === null) return;
        const id = this.#on.grab(vertex);
        if (id === null) return;
        const positions = this.#geometry.getAttribute('position').array;
        handle = {id, anchor: vertex, position: Array.from(positions.subarray(3 * vertex, 3 * vertex + 3))};
        this.#handles.push(handle);
        begins = false;
      }
      this.#dragged = {id: handle.id, begins};
      this.#controls.enabled = false;
      canvas.setPointerCapture(event.pointerId);
      if (this.#flat) normal.set(0, 0, 1);
      else this.#camera.getWorldDirection(normal);
      plane.setFromNormalAndCoplanarPoint(normal, new Vector3().fromArray(handle.position));
      this.#dirty = true;
      event.stopImmediatePropagation();
    }, {capture: true});
    canvas.addEventListener('pointermove', (event) => {
      if (this.#dragged === null) {
        if (event.buttons === 0) canvas.style.cursor = this.#handleAt(event) ? 'grab' : 'default';
        return;
      }
      this.#aim(event);
      if (this.#ray.ray.intersectPlane(plane, at) === null) return;
      const handle = this.#handles.find((one) => one.id === this.#dragged.id);
      if (handle === undefined) return;
      handle.position = at.toArray();
      this.#pending = handle.position;
      this.#dirty = true;
    }, {capture: true});
    const end = () => {
      if (this.#dragged === null) return;
      if (this.#pending !== null) this.#on.drag(this.#dragged.id, this.#pending, this.#dragged.begins);
      this.#pending = null;
      this.#dragged = null;
      this.#controls.enabled = true;
      this.#dirty = true;
    };
    canvas.addEventListener('pointerup', end, {capture: true});
    canvas.addEventListener('pointercancel', end, {capture: true});
  }
}
