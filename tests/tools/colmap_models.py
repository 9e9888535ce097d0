"""An independent reader and writer of COLMAP's sparse models, text and binary, by its documentation."""
import math
import os
import struct

MODELS = ["SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV", "OPENCV_FISHEYE", "FULL_OPENCV", "FOV",
          "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE", "THIN_PRISM_FISHEYE", "RAD_TAN_THIN_PRISM_FISHEYE",
          "SIMPLE_DIVISION", "DIVISION", "SIMPLE_FISHEYE", "FISHEYE", "EUCM"]
SIZES = [3, 4, 4, 5, 8, 8, 12, 5, 4, 5, 12, 16, 4, 5, 3, 4, 6]
NO_POINT = 2**64 - 1


class Model:
    """cameras: id -> (model, width, height, params); images: id -> dict(pose, camera, name, points [(x, y, id or -1)]);
    points: id -> dict(xyz, rgb, error, track [(image, index)]); rigs: id -> [(type, id, pose or None)], the reference
    first; frames: id -> (rig, pose, [(type, sensor, data)]). Poses are seven numbers, first the quaternion."""

    def __init__(self):
        self.cameras, self.images, self.points, self.rigs, self.frames = {}, {}, {}, {}, {}

    def write(self, folder, binary):
        os.makedirs(folder, exist_ok=True)
        for name in ["cameras", "images", "points3D"] + (["rigs", "frames"] if self.rigs else []):
            data = getattr(self, f"{name}_{'bin' if binary else 'txt'}")()
            with open(f"{folder}/{name}.{'bin' if binary else 'txt'}", "wb") as file:
                file.write(data if binary else ("# " + name + "\n" + data).encode())

    def cameras_txt(self):
        return "".join(f"{i} {m} {w} {h} " + " ".join(map(repr, p)) + "\n" for i, (m, w, h, p) in self.cameras.items())

    def images_txt(self):
        return "".join(f"{i} " + " ".join(map(repr, m["pose"])) + f" {m['camera']} {m['name']}\n" +
                       " ".join(f"{x!r} {y!r} {p}" for x, y, p in m["points"]) + "\n" for i, m in self.images.items())

    def points3D_txt(self):
        return "".join(f"{i} " + " ".join(map(repr, p["xyz"])) + " " + " ".join(map(str, p["rgb"])) + f" {p['error']!r}" +
                       "".join(f" {a} {b}" for a, b in p["track"]) + "\n" for i, p in self.points.items())

    def rigs_txt(self):
        return "".join(f"{i} {len(s)}" + "".join(
            f" {t} {c}" + ("" if k == 0 else " 0" if pose is None else " 1 " + " ".join(map(repr, pose)))
            for k, (t, c, pose) in enumerate(s)) + "\n" for i, s in self.rigs.items())

    def frames_txt(self):
        return "".join(f"{i} {r} " + " ".join(map(repr, pose)) + f" {len(d)}" + "".join(f" {t} {s} {n}" for t, s, n in d) +
                       "\n" for i, (r, pose, d) in self.frames.items())

    def cameras_bin(self):
        return struct.pack("<Q", len(self.cameras)) + b"".join(
            struct.pack(f"<IiQQ{len(p)}d", i, MODELS.index(m), w, h, *p) for i, (m, w, h, p) in self.cameras.items())

    def images_bin(self):
        return struct.pack("<Q", len(self.images)) + b"".join(
            struct.pack("<I7dI", i, *m["pose"], m["camera"]) + m["name"].encode() + b"\0" +
            struct.pack("<Q", len(m["points"])) +
            b"".join(struct.pack("<ddQ", x, y, NO_POINT if p == -1 else p) for x, y, p in m["points"])
            for i, m in self.images.items())

    def points3D_bin(self):
        return struct.pack("<Q", len(self.points)) + b"".join(
            struct.pack("<Q3d3BdQ", i, *p["xyz"], *p["rgb"], p["error"], len(p["track"])) +
            b"".join(struct.pack("<II", a, b) for a, b in p["track"]) for i, p in self.points.items())

    @staticmethod
    def sensor_type(name):
        return {"CAMERA": 0, "IMU": 1}[name]

    def rigs_bin(self):
        out = struct.pack("<Q", len(self.rigs))
        for i, sensors in self.rigs.items():
            out += struct.pack("<II", i, len(sensors))
            for k, (t, c, pose) in enumerate(sensors):
                out += struct.pack("<iI", self.sensor_type(t), c)
                if k > 0:
                    out += struct.pack("<B", pose is not None) + (struct.pack("<7d", *pose) if pose else b"")
        return out

    def frames_bin(self):
        return struct.pack("<Q", len(self.frames)) + b"".join(
            struct.pack("<II7dI", i, r, *pose, len(d)) +
            b"".join(struct.pack("<iIQ", self.sensor_type(t), s, n) for t, s, n in d)
            for i, (r, pose, d) in self.frames.items())


class Bytes:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        self.at = 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]

    def end(self):
        assert self.at == len(self.data)


def read_binary(folder):
    model = Model()
    f = Bytes(f"{folder}/cameras.bin")
    for _ in range(f.take("Q")):
        i, m, w, h = f.take("IiQQ")
        model.cameras[i] = (MODELS[m], w, h, list(f.take(f"{SIZES[m]}d")))
    f.end()
    f = Bytes(f"{folder}/images.bin")
    for _ in range(f.take("Q")):
        i = f.take("I")
        pose, camera = list(f.take("7d")), f.take("I")
        end = f.data.index(b"\0", f.at)
        name, f.at = f.data[f.at:end].decode(), end + 1
        points = [f.take("ddQ") for _ in range(f.take("Q"))]
        model.images[i] = {"pose": pose, "camera": camera, "name": name,
                           "points": [(x, y, -1 if p == NO_POINT else p) for x, y, p in points]}
    f.end()
    f = Bytes(f"{folder}/points3D.bin")
    for _ in range(f.take("Q")):
        i = f.take("Q")
        model.points[i] = {"xyz": list(f.take("3d")), "rgb": list(f.take("3B")), "error": f.take("d"),
                           "track": [f.take("II") for _ in range(f.take("Q"))]}
    f.end()
    if not os.path.exists(f"{folder}/rigs.bin"):
        return model
    f = Bytes(f"{folder}/rigs.bin")
    for _ in range(f.take("Q")):
        i, n = f.take("II")
        sensors = []
        for k in range(n):
            t, c = f.take("iI")
            pose = list(f.take("7d")) if k > 0 and f.take("B") else None
            sensors.append((["CAMERA", "IMU"][t], c, pose))
        model.rigs[i] = sensors
    f.end()
    f = Bytes(f"{folder}/frames.bin")
    for _ in range(f.take("Q")):
        i, r = f.take("II")
        pose = list(f.take("7d"))
        data = [f.take("iIQ") for _ in range(f.take("I"))]
        model.frames[i] = (r, pose, [(["CAMERA", "IMU"][t], s, n) for t, s, n in data])
    f.end()
    return model


def lines(path):
    with open(path) as file:
        return [line.rstrip("\n") for line in file if not line.startswith("#")]


def read_text(folder):
    model = Model()
    for line in lines(f"{folder}/cameras.txt"):
        w = line.split()
        model.cameras[int(w[0])] = (w[1], int(w[2]), int(w[3]), list(map(float, w[4:])))
        assert len(w) - 4 == SIZES[MODELS.index(w[1])]
    all_lines = lines(f"{folder}/images.txt")
    for head, tail in zip(all_lines[::2], all_lines[1::2]):
        w, p = head.split(), tail.split()
        model.images[int(w[0])] = {"pose": list(map(float, w[1:8])), "camera": int(w[8]), "name": w[9],
                                   "points": [(float(x), float(y), int(i)) for x, y, i in zip(p[::3], p[1::3], p[2::3])]}
    for line in lines(f"{folder}/points3D.txt"):
        w = line.split()
        track = list(map(int, w[8:]))
        model.points[int(w[0])] = {"xyz": list(map(float, w[1:4])), "rgb": list(map(int, w[4:7])), "error": float(w[7]),
                                   "track": list(zip(track[::2], track[1::2]))}
    if not os.path.exists(f"{folder}/rigs.txt"):
        return model
    for line in lines(f"{folder}/rigs.txt"):
        w = line.split()
        sensors, at = [], 2
        for k in range(int(w[1])):
            t, c, pose, at = w[at], int(w[at + 1]), None, at + 2
            if k > 0:
                has, at = w[at] == "1", at + 1
                if has:
                    pose, at = list(map(float, w[at:at + 7])), at + 7
            sensors.append((t, c, pose))
        assert at == len(w)
        model.rigs[int(w[0])] = sensors
    for line in lines(f"{folder}/frames.txt"):
        w = line.split()
        model.frames[int(w[0])] = (int(w[1]), list(map(float, w[2:9])),
                                   [(w[k], int(w[k + 1]), int(w[k + 2])) for k in range(10, len(w), 3)])
        assert len(w) == 10 + 3 * int(w[9])
    return model


def read(folder):
    return read_binary(folder) if os.path.exists(f"{folder}/cameras.bin") else read_text(folder)


# Arithmetic of poses.

def rotate(q, v):
    w, x, y, z = q
    n = w * w + x * x + y * y + z * z
    c = (y * v[2] - z * v[1], z * v[0] - x * v[2], x * v[1] - y * v[0])
    d = (y * c[2] - z * c[1], z * c[0] - x * c[2], x * c[1] - y * c[0])
    return [v[k] + 2 * (w * c[k] + d[k]) / n for k in range(3)]


def times(p, q):
    return [p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3], p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
            p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1], p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0]]


def moved(pose, v):
    return [a + b for a, b in zip(rotate(pose[:4], v), pose[4:])]


def product(a, b):
    return times(a[:4], b[:4]) + moved(a, b[4:])


def center(pose):
    return [-x for x in rotate([pose[0], -pose[1], -pose[2], -pose[3]], pose[4:])]


# Camera models, as COLMAP documents them.

def fisheye(u, v):
    r = math.hypot(u, v)
    return (u, v) if r < 1e-12 else (u * math.atan(r) / r, v * math.atan(r) / r)


def lens(u, v, k, p=(0, 0)):
    s = u * u + v * v
    radial = 1 + sum(c * s ** (i + 1) for i, c in enumerate(k))
    return (u * radial + 2 * p[0] * u * v + p[1] * (s + 2 * u * u), v * radial + 2 * p[1] * u * v + p[0] * (s + 2 * v * v))


def project(model, c, X):
    x, y, z = X
    u, v = x / z, y / z
    one = model in ("SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE",
                    "SIMPLE_DIVISION", "SIMPLE_FISHEYE")
    fx, fy, cx, cy, k = (c[0], c[0], c[1], c[2], c[3:]) if one else (c[0], c[1], c[2], c[3], c[4:])
    if "FISHEYE" in model:
        u, v = fisheye(u, v)
    if model in ("SIMPLE_RADIAL", "RADIAL", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE", "OPENCV_FISHEYE"):
        u, v = lens(u, v, k)
    elif model == "OPENCV":
        u, v = lens(u, v, k[:2], k[2:])
    elif model == "FULL_OPENCV":
        s = u * u + v * v
        ratio = (1 + k[0] * s + k[1] * s**2 + k[4] * s**3) / (1 + k[5] * s + k[6] * s**2 + k[7] * s**3)
        du, dv = lens(u, v, [], k[2:4])
        u, v = du + u * (ratio - 1), dv + v * (ratio - 1)
    elif model == "FOV":
        r, w = math.hypot(u, v), k[0]
        factor = math.atan(2 * r * math.tan(w / 2)) / (r * w)
        u, v = u * factor, v * factor
    elif model == "THIN_PRISM_FISHEYE":
        s = u * u + v * v
        u, v = lens(u, v, [k[0], k[1], k[4], k[5]], k[2:4])
        u, v = u + k[6] * s, v + k[7] * s
    elif model == "RAD_TAN_THIN_PRISM_FISHEYE":
        u, v = lens(u, v, k[:6])
        s = u * u + v * v
        du, dv = lens(u, v, [], [k[7], k[6]])
        u, v = du + k[8] * s + k[9] * s * s, dv + k[10] * s + k[11] * s * s
    elif model in ("SIMPLE_DIVISION", "DIVISION"):
        r = 2 / (z + math.sqrt(z * z - 4 * (x * x + y * y) * k[0]))
        u, v = r * x, r * y
    elif model == "EUCM":
        d = k[0] * math.sqrt(k[1] * (x * x + y * y) + z * z) + (1 - k[0]) * z
        u, v = x / d, y / d
    return fx * u + cx, fy * v + cy


def pose_of(model, image):
    if not model.frames:
        return model.images[image]["pose"]
    for rig, pose, data in model.frames.values():
        for kind, sensor, number in data:
            if kind == "CAMERA" and number == image:
                for k, (t, c, local) in enumerate(model.rigs[rig]):
                    if (t, c) == ("CAMERA", sensor):
                        return pose if k == 0 else product(local, pose)
    raise KeyError(image)


def cost(model):
    """Half the sum of squares of the reprojection errors."""
    total = 0
    for i, image in model.images.items():
        pose = pose_of(model, i)
        name, _, _, params = model.cameras[image["camera"]]
        for x, y, p in image["points"]:
            if p != -1:
                a, b = project(name, params, moved(pose, model.points[p]["xyz"]))
                total += (a - x) ** 2 + (b - y) ** 2
    return total / 2


def from_bal(path):
    """Snavely's cameras look along -z: half a turn about x makes them COLMAP's."""
    with open(path) as file:
        words = iter(file.read().split())
    cameras, points, observations = (int(next(words)) for _ in range(3))
    seen = [(int(next(words)), int(next(words)), float(next(words)), float(next(words))) for _ in range(observations)]
    model = Model()
    for c in range(cameras):
        a, t, (f, k1, k2) = ([float(next(words)) for _ in range(3)] for _ in range(3))
        angle = math.sqrt(sum(x * x for x in a))
        q = [math.cos(angle / 2)] + [x * (math.sin(angle / 2) / angle if angle else 0.5) for x in a]
        model.cameras[c + 1] = ("RADIAL", 1000, 1000, [f, 0.0, 0.0, k1, k2])
        model.images[c + 1] = {"pose": times([0, 1, 0, 0], q) + [t[0], -t[1], -t[2]], "camera": c + 1,
                               "name": f"image{c + 1:03}.jpg", "points": [(1.5, 2.25, -1)]}
    for p in range(points):
        model.points[p + 7] = {"xyz": [float(next(words)) for _ in range(3)], "rgb": [p % 256, 7, 200], "error": -1.0,
                               "track": []}
    for c, p, x, y in seen:
        model.points[p + 7]["track"].append((c + 1, len(model.images[c + 1]["points"])))
        model.images[c + 1]["points"].append((x, -y, p + 7))
    return model
