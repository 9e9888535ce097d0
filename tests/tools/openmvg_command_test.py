"""Solves scenes of OpenMVG by the command: python3 openmvg_command_test.py TOPOGRAD. Scenes are made, projected and read
here, by OpenMVG's documentation, and share nothing with the library."""
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

TOPOGRAD = sys.argv.pop(1)
NEW_NAME, NEW_POINTER, EXACT = 2**31, 2**31, 2**30
# The key of the distortion, and its numbers.
CAMERAS = {"pinhole": (None, []), "pinhole_radial_k1": ("disto_k1", [0.05]),
           "pinhole_radial_k3": ("disto_k3", [0.05, -0.02, 0.01]),
           "pinhole_brown_t2": ("disto_t2", [0.05, -0.02, 0.01, 0.002, -0.003]),
           "fisheye": ("fisheye", [0.05, -0.02, 0.01, -0.002])}


def times(A, v):
    return [sum(a * b for a, b in zip(row, v)) for row in A]


def turn(x, y):
    """About the x axis, then about the y axis."""
    a, b, c, d = math.cos(x), math.sin(x), math.cos(y), math.sin(y)
    return [[c, d * b, d * a], [0.0, a, -b], [-d, c * b, c * a]]


def project(kind, focal, center, k, X):
    u, v = X[0] / X[2], X[1] / X[2]
    s = u * u + v * v
    if kind == "fisheye":
        r = math.sqrt(s)
        angle = math.atan(r)
        factor = (angle + sum(c * angle ** (2 * i + 3) for i, c in enumerate(k))) / r
        u, v = u * factor, v * factor
    else:
        radial = 1 + sum(c * s ** (i + 1) for i, c in enumerate(k[:3]))
        t1, t2 = k[3:] if kind == "pinhole_brown_t2" else (0, 0)
        u, v = (u * radial + t2 * (s + 2 * u * u) + 2 * t1 * u * v, v * radial + t1 * (s + 2 * v * v) + 2 * t2 * u * v)
    return [center[0] + focal * u, center[1] + focal * v]


def pointer(number, data):
    return {"id": NEW_POINTER + number, "data": data}


def scene(kinds, nested=False):
    """Three views of each camera on an arc about a box of points, and one view without a pose."""
    chance = random.Random(5)
    out = {"sfm_data_version": "0.3", "root_path": "/photos \"of\" 1", "views": [], "intrinsics": [], "extrinsics": [],
           "structure": [], "control_points": [{"key": 3, "value": {"X": [1, 2, 3], "observations": []}}]}
    names = {}
    pointers = 0
    for k, kind in enumerate(kinds):
        key, distortion = CAMERAS[kind]
        fresh = kind not in names
        names.setdefault(kind, len(names) + 1)
        value = {"polymorphic_id": names[kind] + (NEW_NAME if fresh else 0)}
        if fresh:
            value["polymorphic_name"] = kind
        base = {"width": 800, "height": 600, "focal_length": 700.5 + k, "principal_point": [400.25, 300.75]}
        data = {"value0": base} if nested else base
        if key:
            data[key] = list(distortion)
        value["ptr_wrapper"] = pointer(100 + k, data)
        out["intrinsics"].append({"key": 10 * k, "value": value})
    for view in range(3 * len(kinds) + 1):
        pointers += 1
        base = {"local_path": "/", "filename": f"photo {view}.jpg", "width": 800, "height": 600, "id_view": view + 5,
                "id_intrinsic": 10 * (view % len(kinds)), "id_pose": view + 7}
        prior = view == 2
        data = {"value0": base, "use_pose_center_prior": True, "center_weight": [1.0, 1.0, 1.0],
                "center": [1.5, 2.5, 3.5]} if prior else base
        value = {"polymorphic_id": NEW_NAME + 9, "polymorphic_name": "view_priors"} if prior else {"polymorphic_id": EXACT}
        value["ptr_wrapper"] = pointer(pointers, data)
        out["views"].append({"key": view + 5, "value": value})
        if view == 3 * len(kinds):
            out["views"][-1]["value"]["ptr_wrapper"]["data"]["id_pose"] = 2**32 - 1
            break
        R = turn(0.05 * math.sin(view), 0.12 * view - 0.8)
        away = [0.1 * math.cos(view), 0.05 * view, 6.0]
        center = [-x for x in times([list(row) for row in zip(*R)], away)]
        out["extrinsics"].append({"key": view + 7, "value": {"rotation": R, "center": center}})
    for p in range(80):
        X = [chance.uniform(-2, 2) for _ in range(3)]
        point = {"key": 3 * p, "value": {"X": [x + chance.gauss(0, 0.01) for x in X], "observations": []}}
        for k, (pose, view) in enumerate(zip(out["extrinsics"], out["views"])):
            x = image(out, pose, view, X)
            point["value"]["observations"].append(
                {"key": view["key"], "value": {"id_feat": p + k, "x": [a + chance.gauss(0, 0.3) for a in x]}})
        out["structure"].append(point)
    for camera in out["intrinsics"]:
        data = camera["value"]["ptr_wrapper"]["data"]
        (data["value0"] if nested else data)["focal_length"] *= 1.01
    return out


def kinds_of(out):
    """The class of each camera, by its key: its name stands beside the first of its kind."""
    names, kinds = {}, {}
    for camera in out["intrinsics"]:
        number = camera["value"]["polymorphic_id"] % NEW_NAME
        names.setdefault(number, camera["value"].get("polymorphic_name"))
        kinds[camera["key"]] = names[number]
    return kinds


def image(out, pose, view, X):
    data = view["value"]["ptr_wrapper"]["data"]
    camera_key = data.get("value0", data)["id_intrinsic"]
    camera = next(c for c in out["intrinsics"] if c["key"] == camera_key)
    lens = camera["value"]["ptr_wrapper"]["data"]
    base = lens.get("value0", lens)
    kind = kinds_of(out)[camera_key]
    key = CAMERAS[kind][0]
    center = pose["value"]["center"]
    return project(kind, base["focal_length"], base["principal_point"], lens[key] if key else [],
                   times(pose["value"]["rotation"], [a - b for a, b in zip(X, center)]))


def cost(out):
    views, poses = {v["key"]: v for v in out["views"]}, {p["key"]: p for p in out["extrinsics"]}
    total = 0
    for point in out["structure"]:
        for o in point["value"]["observations"]:
            view = views[o["key"]]
            data = view["value"]["ptr_wrapper"]["data"]
            at = image(out, poses[data.get("value0", data)["id_pose"]], view, point["value"]["X"])
            total += sum((a - b) ** 2 for a, b in zip(at, o["value"]["x"]))
    return total / 2


class OpenMvg(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name

    def tearDown(self):
        self.temporary.cleanup()

    def run_on(self, text, *options):
        with open(f"{self.folder}/sfm_data.json", "w") as file:
            file.write(text)
        return subprocess.run([TOPOGRAD, "solve", "openmvg", f"{self.folder}/sfm_data.json", "--backend", "cpu", "--quiet",
                               *options], capture_output=True, text=True)

    def solved(self, text, *options):
        done = self.run_on(text, "--out", f"{self.folder}/out.json", "--json", f"{self.folder}/report.json", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(f"{self.folder}/out.json") as out, open(f"{self.folder}/report.json") as report:
            return out.read(), json.load(report)

    def test_all_cameras(self):
        for nested in (False, True):
            kinds = list(CAMERAS) + ["pinhole"]
            before = scene(kinds, nested)
            text, report = self.solved(json.dumps(before, indent=4), "--tolerance", "1e-12")
            after = json.loads(text)
            self.assertAlmostEqual(report["initial_cost"] / cost(before), 1, delta=1e-9)
            self.assertAlmostEqual(report["final_cost"] / cost(after), 1, delta=1e-9)
            # 2 · 80 · 18 residuals of 0.3 pixels, less the numbers that are fitted to them.
            free = 2 * 80 * 18 - 3 * 80 - 6 * 18 - 19 + 7
            self.assertAlmostEqual(2 * report["final_cost"] / (0.09 * free), 1, delta=0.1)
            self.assertEqual(report["openmvg"]["models"], {"SIMPLE_PINHOLE": 2, "SIMPLE_RADIAL": 1, "PINHOLE_RADIAL_K3": 1,
                                                           "PINHOLE_BROWN_T2": 1, "PINHOLE_FISHEYE": 1})
            self.assertEqual((report["openmvg"]["images"], report["openmvg"]["points"]), (18, 80))
            for camera, now in zip(before["intrinsics"], after["intrinsics"]):
                data, new = (c["value"]["ptr_wrapper"]["data"] for c in (camera, now))
                base, new_base = data.get("value0", data), new.get("value0", new)
                self.assertNotEqual(base["focal_length"], new_base["focal_length"])
                self.assertAlmostEqual(1.01 * new_base["focal_length"] / base["focal_length"], 1, delta=0.01)
                # What was not refined is what it was.
                new_base["focal_length"] = base["focal_length"]
                key = CAMERAS[kinds_of(before)[camera["key"]]][0]
                if key:
                    new[key] = data[key]
            for part in ("extrinsics", "structure"):
                for old, new in zip(before[part], after[part]):
                    for name in ("rotation", "center", "X"):
                        if name in old["value"]:
                            new["value"][name] = old["value"][name]
            self.assertEqual(before, after)
            self.assertEqual(sorted(os.listdir(self.folder)), ["out.json", "out.png", "report.json", "sfm_data.json"])

    def test_bytes_of_what_is_not_refined(self):
        """In a file of one line, with numbers of other forms."""
        before = json.dumps(scene(list(CAMERAS)))
        before = before.replace("400.25", "4.0025e2", 1).replace('"height": 600', '"height":6E2', 1)
        before = re.sub('"center": \\[[^,]*,', '"center":[ -0,', before, count=1)
        same, report = self.solved(before, "--max-iterations", "0")
        self.assertEqual(same, before)
        after, moved = self.solved(before, "--refine", "points")
        self.assertLess(moved["final_cost"], report["initial_cost"])
        number = r"-?[0-9.]+(e[-+]?[0-9]+)?"
        without = [re.sub(f'"X": \\[{number}, {number}, {number}\\]', "X", text) for text in (before, after)]
        self.assertEqual(*without)
        self.assertNotEqual(before, after)
        after, _ = self.solved(before, "--refine", "focal")
        self.assertEqual(len(before.split('"focal_length": ')), len(after.split('"focal_length": ')))
        without = [re.sub(f'"focal_length": {number}', "f", text) for text in (before, after)]
        self.assertEqual(*without)

    def test_options_of_colmap(self):
        text = json.dumps(scene(["pinhole_radial_k3"]))
        with open(f"{self.folder}/priors", "w") as file:
            for pose in json.loads(text)["extrinsics"]:
                file.write(f"photo {pose['key'] - 7}.jpg " + " ".join(str(x + 100) for x in pose["value"]["center"]) + "\n")
        out, report = self.solved(text, "--priors", f"{self.folder}/priors", "--loss", "huber:1")
        self.assertTrue(report["openmvg"]["aligned"])
        self.assertLess(report["openmvg"]["prior_rmse"], 0.2)
        for point in json.loads(out)["structure"]:
            self.assertLess(math.dist(point["value"]["X"], [100, 100, 100]), 5)

    def test_mistakes_are_one_line(self):
        good = scene(["pinhole", "fisheye"])

        def changed(change):
            out = json.loads(json.dumps(good))
            change(out)
            return json.dumps(out)

        def camera(out):
            return out["intrinsics"][0]["value"]

        rows = [(changed(lambda o: camera(o).update(polymorphic_name="spherical")),
                 "sfm_data.json: intrinsics[0]: expected a camera that is one of pinhole, pinhole_radial_k1, "
                 "pinhole_radial_k3, pinhole_brown_t2, fisheye, got \"spherical\""),
                (changed(lambda o: o["structure"][3]["value"].update(X=[1, 2])),
                 "structure[3]: expected 3 numbers as \"X\", got a list of 2"),
                (changed(lambda o: o["structure"][3]["value"].pop("X")), "structure[3]: expected \"X\", got none"),
                (changed(lambda o: o["structure"][4]["value"]["observations"][0].update(key=99)),
                 "structure[4]: expected observations of views with a pose and a camera, got one of view 99"),
                (changed(lambda o: o["extrinsics"].pop()), "with a pose and a camera, got one of view 10"),
                (changed(lambda o: o["extrinsics"][1]["value"]["rotation"].reverse()),
                 "extrinsics[1]: expected the matrix of a rotation, got one that is none"),
                (changed(lambda o: o["views"][1].update(key=5)), "views[1]: expected another key, got 5 again"),
                (changed(lambda o: o["views"][1].update(key=-1)),
                 "views[1]: expected a whole number of 32 bits as \"key\", got -1"),
                (changed(lambda o: o.pop("structure")), "sfm_data.json: expected structure, got none"),
                (changed(lambda o: o.update(structure=[])), "expected observations of 3D points, got none"),
                (changed(lambda o: camera(o)["ptr_wrapper"]["data"].update(focal_length=0)),
                 "intrinsics[0]: expected a focal length that is not 0, got 0"),
                (changed(lambda o: camera(o)["ptr_wrapper"]["data"].update(focal_length="a")),
                 "intrinsics[0]: expected a number as \"focal_length\", got a text"),
                (json.dumps(good)[:-9], "sfm_data.json: line 1, column "), ("[]", "expected an object, got a list of 0"),
                ("[" * 99, "got more than 64 lists and objects inside of each other")]
        for text, expected in rows:
            done = self.run_on(text)
            self.assertEqual(done.returncode, 2, expected)
            self.assertIn(expected, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        done = self.run_on(json.dumps(good), "--out", f"{self.folder}/out.bin")
        self.assertIn("--out: expected a file that ends in .json", done.stderr)


if __name__ == "__main__":
    unittest.main()
