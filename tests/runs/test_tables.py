"""Tables: read back bit for bit; appended, truncated and restored."""

import math
import shutil

import numpy as np
import pytest

from ratiosym.errors import InputError
from ratiosym.runs import tables
from ratiosym.runs.tables import Table, check_table, read_table, restore_table, write_table

AWKWARD = (
    0.1,
    1 / 3,
    -0.0,
    5e-324,
    1.7976931348623157e308,
    float(np.float32(0.1)),
    math.inf,
    -math.inf,
    math.nan,
)


def test_a_table_comes_back_bit_for_bit(tmp_path):
    rows = [{"update": i, "steps": 128 * i, "value": x, "other": -x} for i, x in enumerate(AWKWARD)]
    write_table(tmp_path / "table.csv", rows)
    table = read_table(tmp_path / "table.csv")
    assert list(table) == ["update", "steps", "value", "other"]
    assert table["update"].tolist() == list(range(len(AWKWARD)))
    assert table["value"].tobytes()[:-8] == np.array(AWKWARD).tobytes()[:-8]
    assert math.isnan(table["value"][-1])
    again = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    write_table(
        tmp_path / "again.csv",
        [{**row, "update": int(row["update"]), "steps": int(row["steps"])} for row in again],
    )
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "table.csv").read_bytes()


def test_a_table_is_what_other_programs_read(tmp_path):
    write_table(
        tmp_path / "table.csv", [{"update": 1, "value": 0.1}, {"update": 2, "value": math.nan}]
    )
    assert (tmp_path / "table.csv").read_text() == "update,value\n1,0.1\n2,nan\n"


def test_tables_without_rows(tmp_path):
    (tmp_path / "header.csv").write_text("update,value\n")
    table = read_table(tmp_path / "header.csv")
    assert {name: values.size for name, values in table.items()} == {"update": 0, "value": 0}
    (tmp_path / "empty.csv").write_text("")
    assert read_table(tmp_path / "empty.csv") == {}


def test_a_line_that_is_still_being_written_is_left_out(tmp_path):
    (tmp_path / "table.csv").write_text("update,value\n1,0.5\n2,0.2")
    assert read_table(tmp_path / "table.csv")["value"].tolist() == [0.5]
    (tmp_path / "table.csv").write_text("update,va")
    assert read_table(tmp_path / "table.csv") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("update,value\n1,2,3\n", r"its line 2 has 3 entries, not 2"),
        ("update,value\n1,2\n\n", r"its line 3 has 0 entries, not 2"),
        ("update,value\n1,2\nx,3\n", r"could not convert string to float: 'x'"),
    ],
)
def test_a_damaged_table_is_named(tmp_path, text, message):
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(InputError, match=rf"'{tmp_path}/table\.csv' cannot be read \({message}"):
        read_table(tmp_path / "table.csv")


def test_a_table_that_is_no_text_is_named(tmp_path):
    (tmp_path / "table.csv").write_bytes(b"update\n\xff\n")
    with pytest.raises(InputError, match=r"table\.csv' cannot be read"):
        read_table(tmp_path / "table.csv")


# --------------------------------------------------------------------------------------- appending


ROWS = [{"update": i, "value": x} for i, x in enumerate(AWKWARD)]


@pytest.fixture
def paths(tmp_path):
    return tmp_path / "table.csv", tmp_path / "checkpoint" / "table.csv"


def append(paths, rows):
    """Append rows; return the extent after each of them."""
    table = Table(*paths)
    try:
        extents = [table.sync()]
        for row in rows:
            table.append(row)
            extents.append(table.sync())
        return extents
    finally:
        table.close()


def test_appended_rows_are_those_of_a_table_written_whole(paths, tmp_path):
    append(paths, ROWS[:4])
    append(paths, ROWS[4:])
    write_table(tmp_path / "whole.csv", ROWS)
    for path in paths:
        assert path.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_row_costs_the_same_however_many_there_are(paths, monkeypatch):
    """One write per file, of just the row."""
    table = Table(*paths)
    written = []
    write = tables._write_all
    monkeypatch.setattr(
        tables, "_write_all", lambda file, data: (written.append(len(data)), write(file, data))
    )
    for update in range(10, 1000):
        table.append({"update": update % 10 + 10, "value": 0.5})
    header = len("update,value\n")
    assert written[2:] == [len("10,0.5\n")] * (len(written) - 2)
    assert written[:2] == [header + len("10,0.5\n")] * 2
    assert len(vars(table)) == 3  # files, checksum, length: nothing grows
    table.close()


def damage_none(path):
    pass


def damage_remove(path):
    path.unlink()


def damage_edit(path):
    path.write_text(path.read_text().replace("0", "1"))


def damage_tear(path):
    path.write_bytes(path.read_bytes()[:20])


def damage_link(path):
    path.rename(path.with_suffix(".away"))
    path.symlink_to(path.with_suffix(".away"))


@pytest.mark.parametrize("which", [0, 1], ids=["table", "journal"])
@pytest.mark.parametrize(
    "damage", [damage_none, damage_remove, damage_edit, damage_tear, damage_link]
)
def test_a_table_is_restored_to_a_checkpoint(paths, damage, which):
    extent = append(paths, ROWS)[4]
    expected = paths[0].read_bytes()[: extent.num_bytes]
    assert expected.count(b"\n") == 5
    damage(paths[which])
    restore_table(*paths, extent)
    assert [path.read_bytes() for path in paths] == [expected] * 2
    assert not any(path.is_symlink() for path in paths)
    assert append(paths, ROWS[4:])[0] == extent


def test_what_a_link_points_at_is_left_alone(paths):
    extent = append(paths, ROWS)[4]
    damage_link(paths[0])
    outside = paths[0].with_suffix(".away")
    before = outside.read_bytes()
    restore_table(*paths, extent)
    assert outside.read_bytes() == before
    damage_link(paths[0])
    with pytest.raises(OSError, match="symbolic links"):
        Table(*paths)


def test_a_torn_last_line_is_cut(paths):
    extent = append(paths, ROWS[:3])[-1]
    for path in paths:
        with open(path, "a") as file:
            file.write("3,0.12")
    restore_table(*paths, extent)
    assert read_table(paths[0])["update"].tolist() == [0, 1, 2]
    append(paths, ROWS[3:])
    assert read_table(paths[0])["update"].tolist() == list(range(len(ROWS)))


def test_a_table_before_its_first_row_is_not_there(paths):
    start, *_ = append(paths, ROWS)
    assert start == tables.EMPTY
    restore_table(*paths, start)
    assert not any(path.exists() for path in paths)
    restore_table(*paths, start)


def test_rows_that_are_lost_for_good_are_reported_and_nothing_is_changed(paths):
    extent = append(paths, ROWS)[4]
    damage_edit(paths[0])
    damage_tear(paths[1])
    before = [path.read_bytes() for path in paths]
    for action in (check_table, restore_table):
        with pytest.raises(InputError, match=r"The rows of '.*table\.csv' .* are lost: both it"):
            action(*paths, extent)
    assert [path.read_bytes() for path in paths] == before


def test_a_directory_that_is_gone_is_no_changed_table(paths):
    """It is reported like any other place that cannot be written."""
    extent = append(paths, ROWS)[4]
    shutil.rmtree(paths[0].parent)
    with pytest.raises(FileNotFoundError):
        restore_table(*paths, extent)
