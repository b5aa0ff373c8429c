"""An independent flight model in NumPy and float64, integrated with RK4."""

import numpy as np

G = 9.80665
MASS, AREA, THRUST = 9300.0, 27.87, 108e3
RAD = np.pi / 180


def density(h):
    return 1.225 * np.exp(-h / 9300)


def lift_coefficient(a):
    s = 1 / (1 + np.exp(-40 * (np.abs(a) - 25 * RAD)))
    return (1 - s) * 3.6 * a + s * np.sin(2 * a)


def drag_coefficient(a, mach):
    s = 1 / (1 + np.exp(-40 * (np.abs(a) - 25 * RAD)))
    x = np.clip((mach - 0.8) / 0.3, 0, 1)
    return (
        0.020
        + (1 - s) * 0.14 * (3.6 * a) ** 2
        + s * 2.4 * np.sin(a) ** 2
        + 0.023 * (3 * x**2 - 2 * x**3)
    )


def forces(h, V, a, throttle):
    """Return lift, drag and thrust (N)."""
    q = density(h) * V**2 / 2
    mach = V / (340.3 - 0.0041 * h)
    thrust = throttle * THRUST * (density(h) / 1.225) ** 0.75
    return q * AREA * lift_coefficient(a), q * AREA * drag_coefficient(a, mach), thrust


def derivative(state, aileron, elevator, throttle):
    p, v, lh, a = state
    V = np.linalg.norm(v, axis=-1)
    vh = v / V[..., None]
    L, D, T = forces(p[..., 2], V, a, throttle)
    q = density(p[..., 2]) * V**2 / 2
    authority = np.clip(q / (1.225 * 90**2 / 2), 0.1, 1)
    dv = ((T * np.cos(a) - D) / MASS)[..., None] * vh + ((L + T * np.sin(a)) / MASS)[..., None] * lh
    dv = dv + np.array([0, 0, -G])
    dl = -((dv * lh).sum(-1) / V)[..., None] * vh  # stays perpendicular to v
    dl = dl + (aileron * 150 * RAD * authority)[..., None] * np.cross(vh, lh)
    return v, dv, dl, elevator * 25 * RAD * authority


def rk4(state, aileron, elevator, throttle, time, dt):
    """Integrate the state (p, v, lh, a) for ``time`` with controls that are functions of time."""

    def moved(state, slope, dt):
        return tuple(x + dt * k for x, k in zip(state, slope, strict=True))

    for step in range(round(time / dt)):
        t = step * dt
        controls = [(aileron(t + x), elevator(t + x), throttle(t + x)) for x in (0, dt / 2, dt)]
        k1 = derivative(state, *controls[0])
        k2 = derivative(moved(state, k1, dt / 2), *controls[1])
        k3 = derivative(moved(state, k2, dt / 2), *controls[1])
        k4 = derivative(moved(state, k3, dt), *controls[2])
        slope = tuple(
            (a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True)
        )
        state = moved(state, slope, dt)
    return state


def root(function, low, high):
    """Find the zero of an increasing function by bisection."""
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return (low + high) / 2


def alpha_for_load(h, V, n, throttle):
    """Return the angle of attack at which L + T sin a = n m g, below the stall."""

    def excess(a):
        L, _, T = forces(h, V, a, throttle)
        return L + T * np.sin(a) - n * MASS * G

    return root(excess, -0.1, MOST_LIFT_ALPHA)


def sustained(h, V):
    """Return load factor and angle of attack of the level turn that full thrust sustains."""

    def excess(a):
        _, D, T = forces(h, V, a, 1.0)
        return D - T * np.cos(a)

    a = root(excess, 0.0, 25 * RAD)
    L, _, T = forces(h, V, a, 1.0)
    return (L + T * np.sin(a)) / (MASS * G), a


def turn_rate(n, V):
    """Return the rate of a level turn in rad/s."""
    return G * np.sqrt(np.maximum(n**2 - 1, 0)) / V


_ANGLES = np.linspace(0, 28, 28001) * RAD
MOST_LIFT = lift_coefficient(_ANGLES).max()
MOST_LIFT_ALPHA = _ANGLES[lift_coefficient(_ANGLES).argmax()]


def stall_speed(h, load=1.0):
    """Return the stall speed without thrust."""
    return np.sqrt(2 * load * MASS * G / (density(h) * AREA * MOST_LIFT))


def best_sustained(h):
    """Return speed, load factor and rate of the fastest sustained level turn."""
    speeds = np.linspace(100, 400, 601)
    loads = np.array([sustained(h, V)[0] for V in speeds])
    rates = turn_rate(np.minimum(loads, 9), speeds)
    best = rates.argmax()
    return speeds[best], loads[best], rates[best]


def top_speed(h):
    """Return the speed of level flight at full thrust."""

    def deficit(V):
        a = alpha_for_load(h, V, 1.0, 1.0)
        _, D, T = forces(h, V, a, 1.0)
        return D - T * np.cos(a)

    return root(deficit, 250.0, 700.0)
