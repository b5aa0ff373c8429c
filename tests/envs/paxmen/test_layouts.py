"""The maps: unchanged, valid, and with correct tables."""

import hashlib

import jax
import numpy as np
import pytest

from ratiosym.envs.paxmen.env import PaxMen
from ratiosym.envs.paxmen.layouts import (
    HELD_OUT,
    LAYOUTS,
    Arm,
    Layout,
    free_cells,
    tables,
    validate,
    walls,
)
from ratiosym.envs.protocol import check_env
from ratiosym.errors import InputError
from tests.envs.paxmen.reference import Reference

FINGERPRINTS = {
    4: ["788a3e4cec736bee", "16b8249723378bb0", "18824504b616b6a5", "44e28085eb679c39"],
    5: ["956c3bac1368d585", "2a5c1464bad74d13", "8b2594c760408b0b", "62b6a7ffa7e10cd5"],
    6: ["8b5729c75f9459be", "5b1b54219d9ae0d1", "fc5574ef3c9b5840", "ae5aea27b3de9fc2"],
}
ALL = [(num_agents, number) for num_agents in LAYOUTS for number in range(4)]


def fingerprint(grid):
    return hashlib.sha256(np.packbits(grid).tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("num_agents", LAYOUTS)
def test_walls_are_the_published_ones(num_agents):
    assert [fingerprint(walls(layout)) for layout in LAYOUTS[num_agents]] == FINGERPRINTS[
        num_agents
    ]
    assert [fingerprint(Reference(num_agents, i).walls) for i in range(4)] == FINGERPRINTS[
        num_agents
    ]


@pytest.mark.parametrize(
    ("num_agents", "size", "num_cells"), [(4, 41, 101), (5, 43, 140), (6, 45, 187)]
)
def test_sizes_of_maps_and_of_held_out_ones(num_agents, size, num_cells):
    for layout in (*LAYOUTS[num_agents], *HELD_OUT[num_agents]):
        assert layout.size == size
        assert len(layout.arms) == num_agents
        assert len(set(free_cells(layout))) == num_cells
        assert (~walls(layout)).sum() == num_cells


@pytest.mark.parametrize("num_agents", LAYOUTS)
def test_held_out_maps_are_new_and_have_the_same_corridors(num_agents):
    known, new = ([fingerprint(walls(x)) for x in maps[num_agents]] for maps in (LAYOUTS, HELD_OUT))
    assert len(set(known) | set(new)) == 8
    lengths = sorted(arm.length for arm in LAYOUTS[num_agents][0].arms)
    assert all(
        sorted(arm.length for arm in layout.arms) == lengths for layout in HELD_OUT[num_agents]
    )


@pytest.mark.parametrize(("num_agents", "number"), ALL)
def test_tables_are_those_of_the_grid(num_agents, number):
    table, reference = tables(LAYOUTS[num_agents]), Reference(num_agents, number)
    positions = [tuple(cell) for cell in table.positions[number]]
    assert positions == reference.critic_cells
    for arm in range(num_agents):
        start, room = table.corridor_starts[number, arm], table.room_starts[number, arm]
        assert positions[start:room] == reference.corridors[arm]
        assert positions[room : room + 15] == reference.rooms[arm]
    for (row, column), window in zip(positions, table.windows[number], strict=True):
        seen = [(row + y, column + x) for y in range(-2, 3) for x in range(-2, 3)]
        expected = [
            len(positions) if reference.walls[cell] else positions.index(cell) for cell in seen
        ]
        assert window.tolist() == expected


def one(*arms, hub=3):
    return (Layout(hub, tuple(Arm(*arm) for arm in arms)),)


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        ((), "no layouts; a task needs at least one"),
        (one(("N", 0, 4), hub=4), "Layout 0: its hub has the side 4; it must be an odd int"),
        (one(), "it has 0 arms; at least 1"),
        (
            one(("N", 0, 4), ("S", 0, 4), hub=1),
            "it has 2 arms; at least 1, and at most the 1 cells of its hub",
        ),
        (one(("X", 0, 4)), "unknown side; choose from N, S, E, W"),
        (one(("N", 2, 4)), "does not touch the hub; offset must be an int of at most +-1"),
        (one(("N", 0, 13)), "has a corridor of 13; it must be an int from 1 to 12"),
        (one(("N", 0, 0)), "has a corridor of 0; it must be an int from 1 to 12"),
        (
            one(("N", -1, 4), ("N", 1, 4)),
            "meets Arm(side='N', offset=-1, length=4) at row 10, column 20",
        ),
        (one(("E", 0, 4), ("E", 1, 9)), "meets Arm(side='E', offset=0, length=4)"),
        (
            one(("N", 0, 4)) + one(("N", 0, 5)),
            "Layout 1 has a number of free cells of 29, layout 0 28",
        ),
        (one(("N", 0, 4)) + one(("N", 0, 4), hub=5), "Layout 1 has a hub of side 5, layout 0 3"),
        (
            one(("N", 0, 4)) + one(("N", 0, 4), ("S", 0, 4)),
            "Layout 1 has a number of arms of 2, layout 0 1",
        ),
    ],
)
def test_unsound_maps_are_refused(layouts, message):
    with pytest.raises(InputError) as error:
        validate(layouts)
    assert message in str(error.value)


def test_maps_of_ones_own_make_an_environment():
    mine = one(("N", 0, 1), ("W", 1, 3), hub=5) + one(("S", -2, 2), ("S", 2, 2), hub=5)
    validate(mine)
    env = PaxMen("mine", mine, time_limit=4, score_range=(-1.0, 10.0))
    assert (env.spec.num_agents, env.spec.state_size) == (2, 25 + 4 + 30)
    assert env.references == {}
    check_env(env, jax.random.key(0), num_steps=5)
