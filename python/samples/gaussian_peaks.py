"""Gaussian peaks in a stack of small images: five unknowns for each, all images in one call.

    python gaussian_peaks.py [IMAGES]
"""

import sys
import time

import numpy as np

import topograd

SIZE = 9
Y, X = np.mgrid[0:SIZE, 0:SIZE].astype(float)


def peak(p):
    """An image with amplitude, centre, width and background p."""
    amplitude, cx, cy, width, background = p
    return amplitude * np.exp(-((X - cx) ** 2 + (Y - cy) ** 2) / (2 * width**2)) + background


def residuals(p, image):
    """Of one image."""
    return (peak(p) - image).reshape(-1)


def main(count):
    rng = np.random.default_rng(0)
    truth = rng.uniform([80, 3, 3, 1.0, 5], [200, 5, 5, 1.8, 15], (count, 5))
    shape = (count, 1, 1)
    amplitude, cx, cy, width, background = (truth[:, k].reshape(shape) for k in range(5))
    images = amplitude * np.exp(-((X - cx) ** 2 + (Y - cy) ** 2) / (2 * width**2)) + background
    images += rng.normal(0, 2, images.shape)

    # The start: the darkest pixel, and the brightest one above it.
    flat = images.reshape(count, -1)
    brightest = np.argmax(flat, axis=1)
    low, high = flat.min(axis=1), flat.max(axis=1)
    start = np.column_stack([high - low, brightest % SIZE, brightest // SIZE, np.full(count, 1.5), low])

    began = time.perf_counter()
    result = topograd.least_squares_many(residuals, start, (images,), covariances=True)
    seconds = time.perf_counter() - began

    error = result.x[:, 1:3] - truth[:, 1:3]
    expected = 2 * np.sqrt(result.covariance[:, [1, 2], [1, 2]])
    found = np.mean(result.success)
    print(f"{count} images of {SIZE} x {SIZE} pixels: {100 * found:.2f} % converged, "
          f"{count / seconds:.0f} fits a second")
    print(f"error of the centres {np.sqrt(np.mean(error**2)):.4f} pixels, expected from the noise "
          f"{np.sqrt(np.mean(expected**2)):.4f}")
    return found, np.sqrt(np.mean((error / expected) ** 2))


if __name__ == "__main__":
    found, ratio = main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
    if found < 0.995 or not 0.9 < ratio < 1.1:
        sys.exit("the peaks were not found")
