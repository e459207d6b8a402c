"""Where a row's fields begin and end: headers, delimiters, and separators inside names."""

from __future__ import annotations

import gzip

import pytest

from collectors.slurm.parse import SlurmOutput, parse_output
from collectors.slurm.records import Reading, SourceFailedError

HEADER = "JobIDRaw|JobName|User|Account|Partition|State|Start|End|ElapsedRaw|AllocTRES|Comment"
ROW = "7|train|u|lab|gpu|COMPLETED|1796020000|1796027200|7200|cpu=4,gres/gpu=4|"
FOX = (
    "1879824|1879824|u|ac|COMPLETED|2025-09-12T14:06:12|2025-09-12T15:06:12||||||3600|0:0|||||32|128G|1||2025-09-07T22:16:06|"
    "00:00:00|00:00:00|20160|00:00:00|gpu-2|accel|billing=32,cpu=32,gres/gpu:a100=1,gres/gpu=1,mem=128G,node=1|11429|"
)


def parse(text: str | bytes, **reading: object) -> SlurmOutput:
    data = text if isinstance(text, bytes) else text.encode()
    return parse_output(data, "saved.txt", Reading(**reading))  # type: ignore[arg-type]


def names(output: SlurmOutput) -> list[str]:
    return [row["name"] for row in output.rows]


def test_the_columns_of_a_header_may_stand_in_any_order_and_case() -> None:
    output = parse("gpus|STATE|jobid|jobname%20|Start|End|alloctres\nx|COMPLETED|7|train|1796020000|1796027200|gres/gpu=4\n")

    [row] = output.rows
    assert (row["job_id"], row["state"], row["name"], row["gpu_count"]) == ("7", "COMPLETED", "train", 4)


@pytest.mark.parametrize("delimiter", ["|", "\x1f", ";", "\t", "::"])
@pytest.mark.parametrize("closing", [False, True])
def test_the_delimiter_is_found_from_the_header_whether_or_not_one_closes_the_line(delimiter: str, closing: bool) -> None:
    lines = [line.replace("|", delimiter) + delimiter * closing for line in (HEADER, ROW)]

    assert names(parse("\n".join(lines))) == ["train"]


@pytest.mark.parametrize(
    "text",
    [
        f"{HEADER}\r\n{ROW}\r\n",
        f"\ufeff{HEADER}\n{ROW}",
        f"{HEADER}\n{HEADER}\n\n{ROW}\n",
    ],
)
def test_line_ends_a_byte_order_mark_and_a_repeated_header_do_not_matter(text: str) -> None:
    assert names(parse(text)) == ["train"]


def test_packed_and_utf_16_files_are_read() -> None:
    text = f"{HEADER}\n{ROW}\n"
    assert names(parse(gzip.compress(text.encode()))) == ["train"]
    assert names(parse(text.encode("utf-16"))) == ["train"]


def test_a_name_in_an_old_encoding_does_not_cost_the_row() -> None:
    output = parse(f"{HEADER}\n{ROW}\n".encode().replace(b"train", b"na\xefve\0"))

    assert names(output) == ["na\ufffdve\ufffd"]
    assert output.rejects == []


def test_a_damaged_gzip_file_is_a_failed_source() -> None:
    with pytest.raises(SourceFailedError, match=r"saved.txt: the gzip data is broken.*fetch it again"):
        parse(gzip.compress(HEADER.encode() * 100)[:-9])


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_an_empty_file_is_a_failed_source(text: str) -> None:
    with pytest.raises(SourceFailedError, match=r"saved\.txt: the file is empty"):
        parse(text)


def test_a_header_alone_is_no_job() -> None:
    output = parse(HEADER)

    assert (output.rows, output.rejects, output.observed_at) == ([], [], None)


@pytest.mark.parametrize(
    ("name", "comment"),
    [("train|llama", ""), ("a|b|c", ""), ("|", ""), ("a|COMPLETED|b", ""), ("train", "x|y"), ("train", "|")],
)
def test_surplus_cells_go_back_into_the_free_text_they_came_from(name: str, comment: str) -> None:
    row = ROW.replace("|train|", f"|{name}|") + comment

    [parsed] = parse(f"{HEADER}\n{row}\n").rows
    assert parsed["name"] == name
    assert (parsed["queue"], parsed["gpu_count"]) == ("gpu", 4)


def test_a_surplus_on_both_sides_goes_where_the_shapes_leave_it() -> None:
    row = ROW.replace("|train|", "|train|llama|") + "two|comments"

    assert names(parse(f"{HEADER}\n{row}\n")) == ["train|llama"]


def test_a_row_that_can_be_cut_in_several_ways_is_quarantined() -> None:
    output = parse(
        "JobIDRaw|JobName|WorkDir|State|Start|End\n7|a|b|c|COMPLETED|1796020000|1796027200\n8|x|/home|COMPLETED|1796020000|1796027200\n"
    )

    assert names(output) == ["x"]
    [reject] = output.rejects
    assert (reject.file, reject.line, reject.reason) == ("saved.txt", 2, "ambiguous_fields")
    assert "--delimiter" in reject.detail
    assert reject.text.startswith("7|a|b|c")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("JobID|JobName|AllocTRES|Start|End", "no field State.*sacct -o"),
        ("JobID|State|AllocTRES|Elapsed", "no field Start"),
        ("JobID|State|AllocTRES|Start", "no field End or ElapsedRaw or Elapsed"),
    ],
)
def test_an_output_that_cannot_tell_who_held_what_until_when_is_a_failed_source(header: str, message: str) -> None:
    with pytest.raises(SourceFailedError, match=message):
        parse(header)


def test_ways_beyond_counting_are_ambiguous() -> None:
    free = "|".join(["Comment", "WorkDir", "WCKey", "Extra", "StdIn", "StdOut"])
    output = parse(f"JobIDRaw|State|Start|End|{free}\n7|COMPLETED|1796020000|1796027200" + "|x" * 18)

    assert [reject.reason for reject in output.rejects] == ["ambiguous_fields"]


@pytest.mark.parametrize(
    ("row", "detail"),
    [
        ("7|train|u|lab", "4 fields where 11 belong"),
        ("sacct: error|" + ROW.split("|", 1)[1], "'sacct: error' is no JobIDRaw"),
        (ROW.replace("COMPLETED", "done"), "'done' is no State"),
        (ROW.replace("|COMPLETED|", "|x|done|"), "no way to cut the row"),
        (ROW + "|x" * 100, "no way to cut the row"),
    ],
)
def test_a_row_that_is_none_is_quarantined_with_its_line_and_the_rest_lands(row: str, detail: str) -> None:
    output = parse(f"{HEADER}\n{ROW}\n{row}\n{ROW}\n")

    assert len(output.rows) == 2
    [reject] = output.rejects
    assert (reject.line, reject.reason) == (3, "malformed")
    assert detail in reject.detail


def test_a_comma_as_delimiter_is_told_from_the_commas_of_a_resource_list() -> None:
    header, row = HEADER.replace("|", ","), ROW.replace("|", ",")
    quoted = ",".join(f'"{cell}"' for cell in ROW.split("|"))

    for line in (row, quoted):
        [parsed] = parse(f"{header}\n{line}\n").rows
        assert (parsed["gpu_count"], parsed["cpu_count"]) == (4, 4)
    assert len(parse(f'{header}\n{row}\n7,"tra').rejects) == 1
    assert len(parse(f'{header}\n{row}\n7,"tra"\rin').rejects) == 1


def test_an_output_without_header_has_the_default_fields() -> None:
    [row] = parse(f"{FOX}siam|E3F1\n").rows

    assert (row["job_id"], row["name"], row["gpu_model"], row["memory_bytes"]) == ("1879824", "siam|E3F1", "a100", 128 * 2**30)


def test_an_output_without_header_whose_lines_are_closed_is_read_too() -> None:
    assert names(parse(f"{FOX}siam|\n{FOX}a|b|\n")) == ["siam", "a|b"]


def test_the_fields_of_an_output_without_header_can_be_named() -> None:
    fields = tuple(HEADER.lower().split("|"))

    assert names(parse(ROW, fields=fields)) == ["train"]
    assert names(parse(ROW.replace("|", "~"), fields=fields, delimiter="~")) == ["train"]
    assert names(parse(ROW.replace("|", "\x1f"), fields=fields)) == ["train"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((), "no header that names JobID.*--fields"),
        (("State", "JobIDRaw", "Start", "End"), "no row has the 4 fields of --fields"),
        (("State", "Start", "End"), "no field JobIDRaw or JobID"),
    ],
)
def test_an_output_without_header_and_with_other_fields_is_a_failed_source(fields: tuple[str, ...], message: str) -> None:
    with pytest.raises(SourceFailedError, match=message):
        parse(ROW, fields=fields)


BROKEN = "JobIDRaw|JobName|State|Start|End|AllocTRES|Comment\n"


@pytest.mark.parametrize(
    ("rows", "names", "rejects"),
    [
        # a line end in the middle, several of them, with the delimiter in another text
        ("7|two\nlines|COMPLETED|1796020000|1796023600|gres/gpu=2|\n", ["two\nlines"], []),
        ("7|a\nb\nc|COMPLETED|1796020000|1796023600|gres/gpu=2|x|y\n8|d|FAILED|1796020000|1796023600||\n", ["a\nb\nc", "d"], []),
        # behind a whole row: the rest of its last text, or a message
        ("7|train|COMPLETED|1796020000|1796023600|gres/gpu=2|see\nbelow\n", ["train"], [3]),
        ("7|train|COMPLETED|1796020000|1796023600|gres/gpu=2|see\nsacct: error: lost\n", ["train"], [3]),
        # a row that is cut off stays alone, the next one is whole
        ("7|two\n8|d|FAILED|1796020000|1796023600||\n", ["d"], [2]),
        ("7|train|COMPL\n8|d|FAI\n9|e|FAILED|1796020000|1796023600||\n", ["e"], [2, 3]),
        # a line end outside free text is damage
        ("7|train|COMPLETED|17960\n20000|1796023600|gres/gpu=2|\n", [], [2, 3]),
        ("7|train|COMPLETED|1796020000|1796023600|gres/gpu=2|see\n8|d\n", ["train"], [3]),
    ],
)
def test_line_ends_in_free_text_are_mended_and_nowhere_else(rows: str, names: list[str], rejects: list[int]) -> None:
    """A job whose comment held a line end was quarantined, and its GPU-hours with it."""
    output = parse_output((BROKEN + rows).encode(), "saved", Reading())

    assert [row["name"] for row in output.rows] == names
    assert [reject.line for reject in output.rejects] == rejects
