"""bench/colmap_scenes.py BAL FOLDER: models of COLMAP for `topograd solve colmap FOLDER/NAME --peer ceres`.

  l49-MODEL  a copy of a BAL file with a camera of this model for each image, from its focal lengths and distortions
  c60-MODEL  60 images on a circle about 12,000 points share one camera, whose focal lengths begin 1 % off and
             distortions at 0; 144,000 observations with noise of half a pixel
"""
import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/tools"))
import colmap_models  # noqa: E402

ONE_FOCAL = ("SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL")
OF_BAL = ("SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL", "RADIAL", "OPENCV", "FULL_OPENCV")
OF_CIRCLE = ("PINHOLE", "OPENCV")
DISTORTION = [-0.05, 0.01, 0.001, -0.001]


def parameters(name, focal, principal, distortion=()):
    head = [focal] * (1 if name in ONE_FOCAL else 2) + principal
    left = colmap_models.SIZES[colmap_models.MODELS.index(name)] - len(head)
    return head + (list(distortion) + left * [0.0])[:left]


def copy_of(path, name):
    model = colmap_models.from_bal(path)
    for i, (_, width, height, (focal, _, _, *distortion)) in model.cameras.items():
        model.cameras[i] = (name, width, height, parameters(name, focal, [0.0, 0.0], distortion))
    return model


def circle(name, images=60, points=12000):
    chance = random.Random(11)
    model = colmap_models.Model()
    true = parameters(name, 800.0, [500.0, 400.0], DISTORTION)
    for i in range(images):
        angle = math.pi * i / images
        model.images[i + 1] = {"pose": [math.cos(angle), 0.0, math.sin(angle), 0.0, 0.05 * math.sin(i),
                                        0.1 * math.cos(i), 6.0 + 0.1 * (i % 3)],
                               "camera": 1, "name": f"{i + 1:03}.jpg", "points": []}
    for p in range(1, points + 1):
        at = [chance.uniform(-2, 2) for _ in range(3)]
        track = []
        count, first = chance.randint(6, 18), chance.randrange(images)
        for k in range(count):
            image = model.images[(first + k) % images + 1]
            x, y = colmap_models.project(name, true, colmap_models.moved(image["pose"], at))
            if 0 <= x < 1000 and 0 <= y < 800:
                track.append(((first + k) % images + 1, len(image["points"])))
                image["points"].append((x + chance.gauss(0, 0.5), y + chance.gauss(0, 0.5), p))
        model.points[p] = {"xyz": at, "rgb": [1, 2, 3], "error": 0.5, "track": track}
    for point in model.points.values():
        point["xyz"] = [x + chance.gauss(0, 0.01) for x in point["xyz"]]
    for image in model.images.values():
        image["pose"] = [x + chance.gauss(0, 0.001 if k < 4 else 0.01) for k, x in enumerate(image["pose"])]
    model.cameras[1] = (name, 1000, 800, parameters(name, 808.0, [500.0, 400.0]))
    return model


def main(bal, folder):
    for name in OF_BAL:
        copy_of(bal, name).write(f"{folder}/l49-{name}", True)
    for name in OF_CIRCLE:
        circle(name).write(f"{folder}/c60-{name}", True)


if __name__ == "__main__":
    main(*sys.argv[1:])
