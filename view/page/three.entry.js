// The parts of three.js that the page uses; scripts/vendor-three makes three.min.js of it.
export {
  BufferAttribute, BufferGeometry, Color, DirectionalLight, DynamicDrawUsage,
  HemisphereLight, InstancedMesh, LineBasicMaterial, LineSegments, Matrix4, Mesh,
  MeshStandardMaterial, PerspectiveCamera, Plane, Points, PointsMaterial,
  Raycaster, Scene, Sphere, SphereGeometry, Vector2, Vector3, WebGLRenderer, DoubleSide
} from 'three';
export { OrbitControls } from 'three/examples/jsm/controls/OrbitControls.js';
