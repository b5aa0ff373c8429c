"""AeroJAX: three-dimensional air combat after the paper's appendix. ``docs/aerojax.md`` describes it."""
