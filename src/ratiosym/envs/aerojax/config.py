"""Constants of AeroJAX, in SI units and degrees, and presets."""

from dataclasses import dataclass, field, replace
from math import radians

GRAVITY = 9.80665  # m/s²


@dataclass(frozen=True)
class Airframe:
    """A type of aircraft. The default is a fighter in the class of the F-16."""

    mass: float = 9300.0  # kg
    wing_area: float = 27.87  # m²
    thrust: float = 108e3  # N, full throttle at sea level
    lift_slope: float = 3.6  # 1/rad, for attached flow
    drag: float = 0.020  # 1, zero-lift and subsonic
    induced_drag: float = 0.14  # 1, times CL²
    wave_drag: float = 0.023  # 1, in addition above the speed of sound
    stalled_drag: float = 2.4  # 1, times sin² of the angle of attack
    roll_rate: float = radians(150.0)  # rad/s
    alpha_rate: float = radians(25.0)  # rad/s, of the angle of attack at full elevator
    most_g: float = 9.0  # g
    least_g: float = -3.0  # g


@dataclass(frozen=True)
class Cone:
    """Elliptic cone along the nose. Its two full angles differ, so that roll matters."""

    width: float  # degrees, in the plane of the wings
    height: float  # degrees, in the plane of symmetry
    depth: float  # m


@dataclass(frozen=True)
class Script:
    """Parameters of the heuristic pilots. ``s`` is a pilot's skill, from 0 to 1."""

    # Effects of skill
    load: tuple[float, float] = (0.3, 0.7)  # fraction of the airframe's maximum: first + second s
    noise: float = 0.6  # rad, aiming error at s = 0, decreasing to 0 at s = 1
    urgency: tuple[float, float] = (
        1.0,
        1.5,
    )  # 1/s, turn rate per radian of error: first + second s
    steepest: tuple[float, float] = (0.2, 0.5)  # sine of the steepest intended dive
    fastest: tuple[float, float] = (230.0, 60.0)  # m/s, above which the throttle closes
    lead_skill: float = 0.75  # minimum for lead pursuit and breaks
    energy_skill: float = 1.0  # minimum for energy management

    # Pursuit
    turn_weight: float = 1.5  # a foe's distance is multiplied by this minus the cosine to it
    lead_range: float = (
        700.0  # m, beyond which pilots aim ahead: by distance / lead_speed, at most lead_time
    )
    lead_speed: float = 700.0  # m/s
    lead_time: float = 2.0  # s
    chase_range: float = 900.0  # m, behind a foe, within which speed is matched
    chase_distance: float = 350.0  # m, intended
    chase_gain: float = 0.1  # 1/s, desired closing speed per metre
    overshoot_rate: float = 0.12  # 1/s, closing speed over distance above which to aim behind
    lag_time: float = 0.6  # s
    throttle_band: float = 40.0  # m/s, from closed to open
    cruise: float = 220.0  # m/s, of pilots that fly straight

    # Breaks, collisions, edges
    threat_range: float = 2500.0  # m
    threat_angle: float = 35.0  # degrees, off the foe's nose
    answer_angle: float = 60.0  # degrees off the own nose, within which a foe is fought, not fled
    break_urgency: float = 3.0  # 1/s
    save_urgency: float = 4.0  # 1/s, away from collisions and edges
    avoid_time: float = 3.0  # s, look-ahead
    avoid_range: float = 1500.0  # m
    avoid_miss: tuple[float, float] = (100.0, 30.0)  # m, and m per second of look-ahead
    floor: float = 400.0  # m, margin of a pull-up above the ground
    roof: float = 500.0  # m, margin below the ceiling
    wall: float = 900.0  # m, margin before the wall
    reserve: float = 0.8  # fraction of the load that is assumed available near the boundaries
    panic: float = 1.4  # factor on the pilot's own load limit there
    reaction: float = 2.5  # s, of sinking or climbing before the nose comes around
    wall_reaction: float = 2.0  # s
    shallow: float = 0.3  # sine of the steepest dive that can be recovered in a turn
    room: float = 3000.0  # m from the wall, within which dives get shallower
    depth: float = 2500.0  # m above 500 and below the ceiling, likewise for dives and climbs
    slow_share: float = 0.75  # fraction of the corner speed below which energy is saved


def _airframes() -> tuple[Airframe, ...]:
    heavy = Airframe(
        22e3, 56.0, 190e3, drag=0.022, roll_rate=radians(90.0), alpha_rate=radians(18.0), most_g=7.0
    )
    interceptor = Airframe(14e3, 30.0, 190e3, drag=0.018, roll_rate=radians(120.0), most_g=7.5)
    return Airframe(), heavy, interceptor


TYPES = ("fighter", "heavy", "interceptor")  # in the order of Config.airframes


@dataclass(frozen=True)
class Config:
    """All parameters. Lengths in metres, times in seconds, angles in degrees unless stated."""

    # Air, exponential in height
    density: float = 1.225  # kg/m³ at sea level
    scale_height: float = 9300.0  # m
    speed_of_sound: float = 340.3  # m/s at sea level
    speed_of_sound_slope: float = 0.0041  # 1/s, decrease per metre of height
    thrust_exponent: float = 0.75  # 1, of thrust as a power of density

    # Flight
    airframes: tuple[Airframe, ...] = field(default_factory=_airframes)  # by type, as in TYPES
    stall_angle: float = radians(25.0)  # rad, at which half the flow has separated
    stall_sharpness: float = 40.0  # 1/rad
    least_alpha: float = radians(-10.0)  # rad
    most_alpha: float = radians(28.0)  # rad
    control_speed: float = 90.0  # m/s at sea level; below its dynamic pressure controls weaken
    least_control: float = 0.1  # 1, minimum effect of the controls
    substep: float = 0.1  # s
    num_substeps: int = 2  # per decision

    # Sensing
    view: Cone = Cone(140.0, 100.0, 6000.0)
    radio_range: float = 5000.0  # m, within which allies share detections

    # Weapons
    weapon: Cone = Cone(24.0, 36.0, 1200.0)
    damage_rate: float = 1.0  # health/s, of a full lock at short range
    lock_delay: float = 0.4  # s of lock without damage
    lock_ramp: float = 0.8  # s from there to the full rate
    full_range: float = 500.0  # m, up to which the effect is full
    far_effect: float = 0.3  # 1, effect at the far end of the weapon cone
    collision_distance: float = 20.0  # m

    # Airspace and episode
    radius: float = 8000.0  # m, of the cylinder
    ceiling: float = 12e3  # m
    time_limit: int = 500  # decisions
    kill_reward: float = 1.0  # divided by the team size
    death_reward: float = -0.5  # divided by the team size
    win_reward: float = 1.0

    # Start
    start_neutral: float = (
        0.5  # fraction of head-on starts; otherwise either team starts behind the other
    )
    start_gap: float = 6000.0  # m, between the teams in head-on starts
    start_behind: tuple[float, float] = (800.0, 2000.0)  # m
    start_height: tuple[float, float] = (4000.0, 6000.0)  # m
    start_speed: tuple[float, float] = (200.0, 250.0)  # m/s
    start_spacing: float = 400.0  # m, side by side
    start_jitter: float = 100.0  # m, in every direction

    # Opponents
    skill: tuple[float, float] = (0.25, 0.75)  # range; drawn uniformly per opponent at reset
    script: Script = Script()

    @property
    def decision(self) -> float:
        """Seconds between decisions."""
        return self.substep * self.num_substeps

    @property
    def lock_time(self) -> float:
        """Seconds from a lock to its full effect."""
        return self.lock_delay + self.lock_ramp


# The tasks use ``default``; ``easy`` and ``hard`` are for experiments.
PRESETS: dict[str, Config] = {
    "easy": replace(Config(), skill=(0.0, 0.4), weapon=Cone(36.0, 48.0, 1200.0)),
    "default": Config(),
    "hard": replace(Config(), skill=(1.0, 1.0), start_neutral=1.0),
}
