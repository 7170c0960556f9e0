"""Host lists mean what Slurm means by them, and damage is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.hostlist import MAX_HOSTS, HostlistError, expand


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node1", ["node1"]),
        ("n", ["n"]),
        ("gpu-a.site.org", ["gpu-a.site.org"]),
        ("d13n[03,05,07-08,16]", ["d13n03", "d13n05", "d13n07", "d13n08", "d13n16"]),
        ("ng[30103,30706-30707]", ["ng30103", "ng30706", "ng30707"]),
        ("rack[0-1]n[09-10]", ["rack0n09", "rack0n10", "rack1n09", "rack1n10"]),
        ("n[1-2]-ib", ["n1-ib", "n2-ib"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("n[63-65]", ["n63", "n64", "n65"]),
        ("login,n[1-2],x.y", ["login", "n1", "n2", "x.y"]),
        ("  n1 ", ["n1"]),
        ("[1-2]", ["1", "2"]),
        ("bgl[000x011]", ["bgl000", "bgl001", "bgl010", "bgl011"]),
        ("bgl[0Ax1B]", ["bgl0A", "bgl0B", "bgl1A", "bgl1B"]),
        ("bgl[00x01,7]", ["bgl00", "bgl01", "bgl7"]),
    ],
)
def test_forms_of_host_lists(text, hosts):
    assert list(expand(text)) == hosts


@pytest.mark.parametrize("text", ["", "None assigned", "(null)", "(unknown)", "Unknown"])
def test_words_for_no_nodes_give_no_names(text):
    assert expand(text) == ()


def test_box_has_one_name_per_point():
    assert len(expand("bgl[000x133]")) == 2 * 4 * 4
    assert expand("bgl[000x133]")[-1] == "bgl133"


@pytest.mark.parametrize(
    "text",
    [
        "n[1-2", "n1-2]", "n[[1]]", "n[]", "n[1,]", "n[a-b]", "n[2-1]", "n[1-2,...5]", "a,,b", ",a",
        "a,", "two words", "n[1 -2]", "n[000x13]", "n[11x00]", "n[1-2-3]", "n[-1]", "a\nb",
        "n[" + "9" * 5000 + "]",
    ],
)  # fmt: skip
def test_malformed_lists_are_refused(text):
    with pytest.raises(HostlistError):
        expand(text)


@pytest.mark.parametrize(
    "text",
    [
        "n[0-65536]", "n[0-40000,0-40000]", "n[0-40000],m[0-40000]", "n[0-999]x[0-999]",
        "n[00000xZZZZZ]", "n[0-999999999999999999]", "n[1-99]" * 40,
    ],
)  # fmt: skip
def test_lists_above_the_limit_are_refused_before_they_fill_the_memory(text):
    with pytest.raises(HostlistError, match="too many hosts"):
        expand(text)


def test_limit_counts_every_name():
    assert len(expand("n[1-65536]")) == MAX_HOSTS
    assert len(expand("a,n[1-3]", limit=4)) == 4
    with pytest.raises(HostlistError, match="too many hosts"):
        expand("a,n[1-3]", limit=3)


def test_message_shows_a_bounded_piece_of_the_list():
    with pytest.raises(HostlistError) as error:
        expand("n[x]" * 10_000)
    assert len(str(error.value)) < 300


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 80), st.integers(1, 5)), min_size=1),
    st.sampled_from(["n", "node-", "a.b"]),
)
def test_ranges_mean_every_number_between_their_ends(ranges, prefix):
    text = ",".join(f"{low:0{width}d}-{low + more:0{width}d}" for low, more, width in ranges)
    expected = [
        f"{prefix}{number:0{max(width, len(str(low)))}d}"
        for low, more, width in ranges
        for number in range(low, low + more + 1)
    ]
    assert list(expand(f"{prefix}[{text}]")) == expected


@given(st.text(alphabet="n1,-[]x. 0Z", max_size=30))
def test_any_text_gives_names_or_a_clear_refusal(text):
    try:
        hosts = expand(text, limit=1000)
    except HostlistError as error:
        assert str(error)  # noqa: PT017 - either outcome is right
    else:
        assert len(hosts) <= 1000
        assert not any(set(host) & set("[], ") for host in hosts)
