"""A building that warms up: one explicit step after another, recorded once by topograd.scan."""

import numpy as np

import topograd

hours = np.arange(200) * 0.1
heating = np.where(hours < 8, 2.0, 0.5)  # kW


def temperatures(p):
    """Those of the air in °C, with capacities p[0] and p[1] in kWh/K and resistances in K/kW."""
    def step(k, state):
        air, walls = state
        into_walls = (air - walls) / p[2]
        return (air + 0.1 * (heating[k] - into_walls) / p[0],
                walls + 0.1 * (into_walls - (walls - 5.0) / p[3]) / p[1])

    air, _ = topograd.scan(len(hours), (18.0, 17.0), step)
    return air


truth = np.array([0.5, 3.0, 1.5, 6.0])
measured = temperatures(truth) + 0.02 * np.random.default_rng(0).normal(size=201)
result = topograd.least_squares(lambda p: temperatures(p) - measured, [1.0, 2.0, 1.0, 5.0],
                                bounds=(0.1, np.inf), verbose=1)
print(result.x)
assert np.allclose(result.x, truth, rtol=0.05), result.x


@topograd.step
def step(air, walls, heat, p):
    """One step of the same, for a loop of one's own."""
    into_walls = (air - walls) / p[2]
    return (air + 0.1 * (heat - into_walls) / p[0],
            walls + 0.1 * (into_walls - (walls - 5.0) / p[3]) / p[1])


def by_a_loop(p):
    air, walls = 18.0, 17.0
    found = [air]
    for heat in heating:
        air, walls = step(air, walls, heat, p)
        found.append(air)
    return np.array(found)


again = topograd.least_squares(lambda p: by_a_loop(p) - measured, [1.0, 2.0, 1.0, 5.0], bounds=(0.1, np.inf))
assert np.allclose(again.x, result.x, rtol=1e-6), again.x
