"""How much memory there is, on systems that do not say it in the way of Linux."""

import os
import sys

import pytest

from harmonicalign.method import memory


@pytest.fixture
def total():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def broken(self, **options):
    return "MemTotal: 8 kB\nMemAvailable: many kB\n"


def absent(self, **options):
    raise FileNotFoundError(2, "No such file or directory")


def silent(self, **options):
    return "MemTotal: 8 kB\n"


@pytest.mark.skipif(sys.platform == "win32", reason="the numbers of pages are a matter of POSIX")
@pytest.mark.parametrize("text", [broken, absent, silent])
def test_all_of_the_memory_where_nobody_says_what_is_free(monkeypatch, total, text):
    monkeypatch.setattr(memory.Path, "read_text", text)
    assert memory._free_memory() == total
    assert memory.available_bytes() <= total


def test_nothing_is_known_where_pages_cannot_be_counted(monkeypatch):
    def unknown(name):
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(memory.Path, "read_text", absent)
    monkeypatch.setattr(memory.os, "sysconf", unknown)
    assert memory._free_memory() is None


def test_processes_without_limits_of_their_own(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    assert memory._address_space() is None
