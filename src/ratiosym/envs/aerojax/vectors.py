"""3D vectors as three separate arrays, which XLA fuses into long loops over aircraft or pairs."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Vec:
    """Components x (east), y (north) and z (up), of any common shape."""

    x: Float[Array, "*b"]
    y: Float[Array, "*b"]
    z: Float[Array, "*b"]

    @classmethod
    def of(cls, array: Float[Array, "*b 3"]) -> "Vec":
        """Split an array's last axis into components."""
        return cls(array[..., 0], array[..., 1], array[..., 2])

    def array(self) -> Float[Array, "*b 3"]:
        """Stack the components along a new last axis."""
        return jnp.stack([self.x, self.y, self.z], axis=-1)

    def __add__(self, other: "Vec") -> "Vec":
        return Vec(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other: "Vec") -> "Vec":
        return Vec(self.x - other.x, self.y - other.y, self.z - other.z)

    def __neg__(self) -> "Vec":
        return Vec(-self.x, -self.y, -self.z)

    def __mul__(self, scale: Float[Array, "*b"] | float) -> "Vec":
        return Vec(self.x * scale, self.y * scale, self.z * scale)

    def __getitem__(self, index: Any) -> "Vec":
        return Vec(self.x[index], self.y[index], self.z[index])


def dot(a: Vec, b: Vec) -> Float[Array, "*b"]:
    """a · b."""
    return a.x * b.x + a.y * b.y + a.z * b.z


def cross(a: Vec, b: Vec) -> Vec:
    """a × b."""
    return Vec(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)


def norm(a: Vec) -> Float[Array, "*b"]:
    """|a|."""
    return jnp.sqrt(dot(a, a))


def unit(a: Vec, least: float = 1e-6) -> Vec:
    """Return a / |a|, or a / ``least`` if a is shorter than that."""
    return a * (1.0 / jnp.maximum(norm(a), least))


def where(condition: Array, a: Vec, b: Vec) -> Vec:
    """Return a where the condition holds, else b."""
    return Vec(*(jnp.where(condition, p, q) for p, q in ((a.x, b.x), (a.y, b.y), (a.z, b.z))))
