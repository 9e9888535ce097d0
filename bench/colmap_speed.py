"""bench/colmap_speed.py TOPOGRAD FOLDER [RUNS]: `topograd solve colmap` beside Ceres on every scene of bench/colmap_scenes.py.

For each scene the run of the median ratio of times: cost and seconds of both, seconds after which our cost was at most Ceres'
final one, and the two ratios. Both use the processors that they find; problems are built before the clocks start.
"""
import json
import os
import subprocess
import sys
import tempfile


def compare(program, scene):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        subprocess.run([program, "solve", "colmap", scene, "--backend", "cpu", "--peer", "ceres", "--json", report],
                       check=True, stdout=subprocess.DEVNULL)
        with open(report, encoding="utf-8") as file:
            found = json.load(file)
    peer = found["peers"][0]
    there = [row["time_s"] for row in found["history"] if row["cost"] <= peer["cost"] * (1 + 1e-9)]
    return {"ours": found["final_cost"], "steps": found["iterations"], "seconds": found["solve_s"],
            "ceres": peer["cost"], "ceres_steps": peer["iterations"], "ceres_seconds": peer["time_s"],
            "reached": there[0] if there else None}


def main():
    program, folder = sys.argv[1:3]
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    print("scene, our steps and cost, Ceres' steps and cost, seconds of ours and Ceres, ratio, to Ceres' cost: seconds, ratio")
    for scene in sorted(os.listdir(folder)):
        rows = [compare(program, os.path.join(folder, scene)) for _ in range(runs)]
        row = sorted(rows, key=lambda r: r["ceres_seconds"] / r["seconds"])[runs // 2]
        there = row["reached"]
        to_cost = "never" if there is None else f"{there:.2f} {row['ceres_seconds'] / there:.2f}"
        print(f"{scene} {row['steps']} {row['ours']:.6f} {row['ceres_steps']} {row['ceres']:.6f} {row['seconds']:.2f} "
              f"{row['ceres_seconds']:.2f} {row['ceres_seconds'] / row['seconds']:.2f} {to_cost}", flush=True)


if __name__ == "__main__":
    main()
