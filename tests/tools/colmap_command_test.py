"""Solves models of COLMAP by the command: python3 colmap_command_test.py TOPOGRAD. Models are made and read by
colmap_models.py, which shares nothing with the library. TOPOGRAD_BAL may name problem-49-7776-pre.txt."""
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import unittest

import colmap_models
from colmap_models import Model, center, cost, moved, product, project, read

TOPOGRAD = sys.argv.pop(1)
PEER = os.path.exists(os.path.join(os.path.dirname(TOPOGRAD), "topograd_peer_ceres.so"))
FILES = ["cameras", "images", "points3D"]


def solve(folder, out, *options, backend="cpu"):
    report = out + ".json"
    subprocess.run([TOPOGRAD, "solve", "colmap", folder, "--backend", backend, "--quiet", "--tolerance", "1e-13",
                    "--max-iterations", "300", "--out", out, "--json", report, *options], check=True)
    with open(report) as file:
        return json.load(file)


def parameters(name):
    one = colmap_models.SIZES[colmap_models.MODELS.index(name)] - len(name_of_distortion(name)) == 3
    return [500.0 if one else 505.0] + ([] if one else [495.0]) + [320.0, 240.0] + name_of_distortion(name)


def name_of_distortion(name):
    return {"SIMPLE_RADIAL": [0.02], "RADIAL": [0.03, -0.01], "OPENCV": [0.02, -0.01, 0.001, -0.002],
            "OPENCV_FISHEYE": [0.02, -0.01, 0.003, 0.001], "FULL_OPENCV": [0.1, 0.02, 0.001, 0.002, 0.01, 0.05, 0.01, 0.002],
            "FOV": [0.8], "SIMPLE_RADIAL_FISHEYE": [0.03], "RADIAL_FISHEYE": [0.03, -0.01],
            "THIN_PRISM_FISHEYE": [0.02, -0.01, 0.001, 0.002, 0.003, 0.001, 0.001, -0.002],
            "RAD_TAN_THIN_PRISM_FISHEYE": [0.02, -0.01, 0.003, 0.001, 0.0, 0.001, 0.001, 0.002, 0.001, 0.0, -0.002, 0.001],
            "SIMPLE_DIVISION": [-0.05], "DIVISION": [-0.04], "EUCM": [0.5, 1.1]}.get(name, [])


def about_y(angle):
    return [math.cos(angle / 2), 0.0, math.sin(angle / 2), 0.0]


def scene(names, rigs=False, images_of_each=2):
    """Cameras on an arc about a box of points. Each camera takes several images; with rigs each two cameras are one."""
    chance = random.Random(7)
    model = Model()
    for k, name in enumerate(names):
        model.cameras[3 * k + 2] = (name, 640, 480, parameters(name))
    for p in range(120):
        model.points[10 * p + 3] = {"xyz": [chance.uniform(-2, 2) for _ in range(3)], "rgb": [p, 2 * p, 255 - p],
                                    "error": 0.5, "track": []}
    number = 0
    cameras = list(model.cameras)
    local = [1.0, 0.01, 0.02, -0.01, -0.3, 0.02, 0.05]
    for _ in range(images_of_each):
        for k, camera in enumerate(cameras):
            number += 1
            pose = about_y(0.13 * number) + [0.05 * math.sin(number), 0.1 * math.cos(number), 6.0 + 0.1 * (number % 3)]
            if rigs and k % 2 == 1:
                pose = product(local, model.images[4 * (number - 1)]["pose"])
            model.images[4 * number] = {"pose": pose, "camera": camera, "name": f"folder/{number}.jpg",
                                        "points": [(10.5, 20.25, -1)]}
    if rigs:
        for k in range(0, len(cameras), 2):
            pair = cameras[k:k + 2]
            model.rigs[k + 1] = [("CAMERA", pair[0], None), ("IMU", 77, None)] + [("CAMERA", c, local) for c in pair[1:]]
            for start in [i for i, m in model.images.items() if m["camera"] == pair[0]]:
                data = [("CAMERA", pair[0], start), ("IMU", 77, 2**40)]
                data += [("CAMERA", c, start + 4) for c in pair[1:]]
                model.frames[start + 1] = (k + 1, model.images[start]["pose"], data)
    for i, image in model.images.items():
        name, _, _, params = model.cameras[image["camera"]]
        for p, point in model.points.items():
            x, y = project(name, params, moved(image["pose"], point["xyz"]))
            point["track"].append((i, len(image["points"])))
            image["points"].append((x + chance.gauss(0, 0.3), y + chance.gauss(0, 0.3), p))
    for point in model.points.values():
        point["xyz"] = [x + chance.gauss(0, 0.01) for x in point["xyz"]]
    for name, _, _, params in model.cameras.values():
        params[0] *= 1.01
    return model


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


class Colmap(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name

    def tearDown(self):
        self.temporary.cleanup()

    def solved(self, model, *options):
        """Solves as text and as binary; returns the report and the model of both, which agree."""
        results = []
        for binary in (False, True):
            kind = "bin" if binary else "txt"
            source, out = f"{self.folder}/{kind}", f"{self.folder}/out-{kind}"
            model.write(source, binary)
            report = solve(source, out, *options)
            self.assertEqual(sorted(os.listdir(out)), sorted(os.listdir(source)))
            results.append((report, read(out)))
        (text, as_text), (binary, as_binary) = results
        self.assertEqual(text["final_cost"], binary["final_cost"])
        for part in ("cameras", "images", "points", "rigs", "frames"):
            self.assertEqual(getattr(as_text, part), getattr(as_binary, part), part)
        return text, as_text

    def check(self, before, report, after):
        self.assertAlmostEqual(cost(after) / report["final_cost"], 1, delta=1e-9)
        self.assertAlmostEqual(cost(before) / report["initial_cost"], 1, delta=1e-9)
        self.assertLess(report["final_cost"], 0.5 * report["initial_cost"])
        self.assertEqual(list(before.images), list(after.images))
        for i, image in before.images.items():
            for key in ("camera", "name", "points"):
                self.assertEqual(image[key], after.images[i][key])
        for i, (name, width, height, params) in before.cameras.items():
            self.assertEqual((name, width, height), after.cameras[i][:3])
            principal = len(params) - len(name_of_distortion(name)) - 2
            self.assertEqual(params[principal:principal + 2], after.cameras[i][3][principal:principal + 2])
            self.assertNotEqual(params[0], after.cameras[i][3][0])
        for i, point in before.points.items():
            for key in ("rgb", "track"):
                self.assertEqual(point[key], after.points[i][key])
            errors = [math.dist(project(after.cameras[after.images[j]["camera"]][0],
                                        after.cameras[after.images[j]["camera"]][3],
                                        moved(colmap_models.pose_of(after, j), after.points[i]["xyz"])),
                                after.images[j]["points"][k][:2]) for j, k in point["track"]]
            self.assertAlmostEqual(after.points[i]["error"], sum(errors) / len(errors), delta=1e-7)

    def test_all_camera_models(self):
        model = scene(colmap_models.MODELS)
        report, after = self.solved(model)
        self.check(model, report, after)
        self.assertEqual(report["colmap"]["models"], {name: 1 for name in colmap_models.MODELS})
        self.assertLess(report["reprojection"]["rmse"], 0.45)

    def test_rigs(self):
        model = scene(["PINHOLE", "OPENCV", "SIMPLE_RADIAL", "OPENCV_FISHEYE"], rigs=True, images_of_each=4)
        report, after = self.solved(model)
        self.check(model, report, after)
        self.assertEqual(report["colmap"]["sensors"], 2)
        for i, image in after.images.items():  # their poses repeat those of frames
            for a, b in zip(moved(image["pose"], [1, 2, 3]), moved(colmap_models.pose_of(after, i), [1, 2, 3])):
                self.assertAlmostEqual(a, b, delta=1e-12)
        report, after = self.solved(model, "--refine", "focal,poses,points", "--loss", "soft_l1:1")
        self.assertEqual(after.rigs, model.rigs)
        self.assertEqual(report["colmap"]["gauge"], "camera")

    def test_bytes_of_what_stays(self):
        model = scene(["RADIAL", "FOV"], rigs=True)
        for binary in (False, True):
            source, kind = f"{self.folder}/{binary}", "bin" if binary else "txt"
            model.write(source, binary)
            for refine, changed in [("points", ["points3D"]), ("focal,distortion", ["cameras"]), ("rigs", ["images", "rigs"]),
                                    ("poses", ["frames", "images"])]:
                out = f"{self.folder}/{binary}-{refine}"
                solve(source, out, "--refine", refine)
                for name in FILES + ["rigs", "frames"]:
                    same = bytes_of(f"{source}/{name}.{kind}") == bytes_of(f"{out}/{name}.{kind}")
                    self.assertEqual(same, name not in changed, (refine, name))

    def test_priors_give_place_and_scale(self):
        model = scene(["PINHOLE"], images_of_each=8)
        with open(f"{self.folder}/priors.txt", "w") as file:
            for image in model.images.values():
                x, y, z = center(image["pose"])
                file.write(f"{image['name']} {100 - 5 * y!r} {5 * x!r} {5 * z!r} 0.01 0.02 0.01\n")
        report, after = self.solved(model, "--priors", f"{self.folder}/priors.txt")
        self.assertTrue(report["colmap"]["aligned"])
        self.assertEqual(report["colmap"]["gauge"], "none")
        self.assertLess(report["colmap"]["prior_rmse"], 0.1)
        first, last = (center(after.images[i]["pose"]) for i in (4, 32))
        expected = 5 * math.dist(*(center(model.images[i]["pose"]) for i in (4, 32)))
        self.assertAlmostEqual(math.dist(first, last) / expected, 1, delta=0.01)

    @unittest.skipUnless(PEER, "built without Ceres")
    def test_ceres_has_the_same_rigs_and_priors(self):
        model = scene(["PINHOLE", "OPENCV_FISHEYE", "FOV", "SIMPLE_RADIAL"], rigs=True, images_of_each=4)
        model.write(f"{self.folder}/a", True)
        with open(f"{self.folder}/priors.txt", "w") as file:
            for i, image in model.images.items():
                x, y, z = center(image["pose"])
                error = 0.1 if i % 3 == 0 else 0.01
                file.write(f"{image['name']} {x + error!r} {y - error!r} {z!r} 4e-4 1e-4 0 9e-4 -1e-4 4e-4\n")
        priors = ["--priors", f"{self.folder}/priors.txt"]
        for options in ([], ["--loss", "huber:0.3"], priors,
                        priors + ["--loss", "cauchy:1", "--prior-loss", "soft_l1:0.5", "--refine", "focal,poses,points"]):
            report = solve(f"{self.folder}/a", f"{self.folder}/out", "--peer", "ceres", *options)
            ceres = report["peers"][0]
            self.assertAlmostEqual(report["initial_cost"] / ceres["initial_cost"], 1, delta=1e-11, msg=options)
            self.assertAlmostEqual(report["final_cost"] / ceres["cost"], 1, delta=1e-9, msg=options)
            self.assertLess(report["final_cost"], 0.9 * report["initial_cost"])

    def test_follows_the_valley_of_a_turntable(self):
        """All cameras turn about one axis: heights and the second focal length are determined weakly, by a curved valley
        with this minimum by Ceres. Steps that follow it get there with default tolerances."""
        scene(["PINHOLE"], images_of_each=8).write(f"{self.folder}/a", True)
        subprocess.run([TOPOGRAD, "solve", "colmap", f"{self.folder}/a", "--backend", "cpu", "--quiet", "--json",
                        f"{self.folder}/a.json"], check=True)
        with open(f"{self.folder}/a.json") as file:
            report = json.load(file)
        self.assertEqual(report["linear_solver"], "schur")
        self.assertEqual(report["termination"], "CONVERGENCE")
        self.assertAlmostEqual(report["final_cost"] / 70.123034034, 1, delta=1e-6)
        self.assertLess(report["iterations"], 60)  # 235 without following

    def test_points_are_moved_where_they_fit(self):
        """One point begins behind the cameras that see it in front. Another one is where its rays meet, behind them, and
        begins in front."""
        model = scene(["PINHOLE"], images_of_each=3)
        behind = [5 * x for x in center(model.images[4]["pose"])]
        lost, diverging = list(model.points)[:2]
        model.points[lost]["xyz"], model.points[diverging]["xyz"] = behind, [0.0, 0.0, 100.0]
        for image in model.images.values():
            x, y = project("PINHOLE", model.cameras[image["camera"]][3], moved(image["pose"], behind))
            image["points"] = [(x, y, p) if p == diverging else (u, v, p) for u, v, p in image["points"]]
        model.write(f"{self.folder}/a", True)
        reports, ends = {}, {}
        for kind in ("off", "front", "anywhere", None):
            out = f"{self.folder}/{kind}"
            subprocess.run([TOPOGRAD, "solve", "colmap", f"{self.folder}/a", "--backend", "cpu", "--quiet", "--refine", "points",
                            "--out", out, "--json", out + ".json"] + (["--retriangulate", kind] if kind else []), check=True)
            with open(out + ".json") as file:
                reports[kind] = json.load(file)
            ends[kind] = read(out)
            self.assertAlmostEqual(cost(ends[kind]) / reports[kind]["final_cost"], 1, delta=1e-9)
        self.assertEqual([r["colmap"]["moved_points"] for r in reports.values()], [0, 1, 2, 1])
        costs = [r["final_cost"] for r in reports.values()]
        self.assertGreater(costs[0], costs[1] + 1)
        self.assertGreater(costs[1], costs[2] + 1)
        self.assertEqual(costs[1], costs[3])
        for kind in ("front", "anywhere"):
            self.assertLess(math.dist(ends[kind].points[lost]["xyz"], [0, 0, 0]), 4)  # in the box
        self.assertLess(math.dist(ends["anywhere"].points[diverging]["xyz"], behind), 1e-3)

    def test_points_are_moved_before_the_last_digits(self):
        """A tolerance of 0 is never reached; points are looked at where steps gain no more than a millionth."""
        model = scene(["PINHOLE"], images_of_each=3)
        lost = list(model.points)[0]
        model.points[lost]["xyz"] = [5 * x for x in center(model.images[4]["pose"])]
        model.write(f"{self.folder}/a", True)
        reports = []
        for tolerance in ("1e-6", "0"):
            out = f"{self.folder}/{tolerance}"
            subprocess.run([TOPOGRAD, "solve", "colmap", f"{self.folder}/a", "--backend", "cpu", "--quiet", "--refine",
                            "points", "--tolerance", tolerance, "--max-iterations", "200", "--json", out], check=True)
            with open(out) as file:
                reports.append(json.load(file))
        self.assertEqual([r["colmap"]["moved_points"] for r in reports], [1, 1])
        self.assertLessEqual(reports[1]["final_cost"], reports[0]["final_cost"])

    def lost_point(self):
        """A model whose first point begins behind a camera that sees it in front, and is moved."""
        model = scene(["PINHOLE"], images_of_each=3)
        model.points[list(model.points)[0]]["xyz"] = [5 * x for x in center(model.images[4]["pose"])]
        model.write(f"{self.folder}/a", True)

    def report(self, *options):
        subprocess.run([TOPOGRAD, "solve", "colmap", f"{self.folder}/a", "--backend", "cpu", "--quiet", "--json",
                        f"{self.folder}/report", *options], check=True)
        with open(f"{self.folder}/report") as file:
            return json.load(file)

    def test_limits_are_those_of_the_whole_solve(self):
        self.lost_point()
        first = self.report("--retriangulate", "off")["iterations"]
        report = self.report("--tolerance", "1e-15", "--max-iterations", str(first + 2))
        self.assertEqual(report["colmap"]["moved_points"], 1)
        self.assertEqual(report["iterations"], first + 2)
        self.assertEqual(report["message"], f"maximum number of iterations reached: {first + 2}")

    def test_checkpoints_are_those_before_points_are_moved(self):
        self.lost_point()
        state = f"{self.folder}/state"
        whole = self.report("--refine", "points", "--deterministic", "--checkpoint", state, "--checkpoint-every", "0")
        resumed = self.report("--refine", "points", "--deterministic", "--resume", state)
        self.assertEqual(whole["colmap"]["moved_points"], 1)
        for name in ("final_cost", "iterations", "initial_cost", "message", "colmap"):
            self.assertEqual(resumed[name], whole[name], name)

    def test_mistakes_are_one_line(self):
        model = scene(["PINHOLE"])
        model.write(f"{self.folder}/a", False)
        model.write(f"{self.folder}/b", True)
        for name, text in [("negative", "folder/1.jpg 0 0 0 0.1 -0.1 0.1\n"), ("empty", "# none\n")]:
            with open(f"{self.folder}/{name}", "w") as file:
                file.write(text)
        rows = [([], "colmap: expected a folder"),
                ([f"{self.folder}/none"], "expected a folder with cameras, images and points3D"),
                ([f"{self.folder}/a", "--refine", "lens"], "to refine, got \"lens\""),
                ([f"{self.folder}/a", "--gauge", "free"], "gauge: expected one of automatic, none, camera"),
                ([f"{self.folder}/a", "--retriangulate", "on"],
                 "retriangulate: expected one of off, front, anywhere, got \"on\""),
                ([f"{self.folder}/a", "--out", f"{self.folder}/a/"], "--out: expected another folder than"),
                ([f"{self.folder}/a", "--out", f"{self.folder}/b"], "expected a folder without cameras.bin"),
                ([f"{self.folder}/a", "--out", f"{self.folder}/a/cameras.txt"], "expected a folder, got a file"),
                ([f"{self.folder}/a", "--priors", f"{self.folder}/none"], "none: cannot be read"),
                ([f"{self.folder}/a", "--priors", f"{self.folder}/negative"],
                 "negative:1: expected standard deviations > 0, got -0.1"),
                ([f"{self.folder}/a", "--priors", f"{self.folder}/empty"], "empty:2: expected priors, got none"),
                ([f"{self.folder}/a", "--prior-loss", "huber:1"], "--prior-loss: expected --priors, got none"),
                ([f"{self.folder}/a", "--refine", "rigs"], "to refine that the model has, got \"rigs\""),
                ([f"{self.folder}/a", "--out", f"{self.folder}/a/cameras.txt/new"],
                 "a/cameras.txt/new: cannot be made: Not a directory"),
                ([f"{self.folder}/a", "--out", "/proc/self/new"], "/proc/self/new: cannot be made"),
                ([f"{self.folder}/a", "--fix", "points"], "expected --fix with bal")]
        for arguments, expected in rows:
            done = subprocess.run([TOPOGRAD, "solve", "colmap", *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(expected, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_folders_of_answers_are_made(self):
        scene(["PINHOLE"]).write(f"{self.folder}/a", False)
        done = subprocess.run([TOPOGRAD, "solve", "colmap", f"{self.folder}/a", "--quiet", "--refine", "points,rigs",
                               "--out", f"{self.folder}/new/deep"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "topograd: warning: --refine rigs: the model has none\n")
        self.assertEqual(sorted(os.listdir(f"{self.folder}/new")), ["deep", "deep.png"])

    @unittest.skipUnless(os.environ.get("TOPOGRAD_BAL"), "TOPOGRAD_BAL names no file")
    def test_minimum_of_bundle_adjustment_in_the_large(self):
        model = colmap_models.from_bal(os.environ["TOPOGRAD_BAL"])
        report, after = self.solved(model, "--gauge", "none")
        self.check(model, report, after)
        self.assertAlmostEqual(2 * report["initial_cost"], 1701824.92136, delta=1e-4)
        self.assertLess(2 * report["final_cost"], 26688.65)


if __name__ == "__main__":
    unittest.main()
