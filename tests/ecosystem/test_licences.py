"""The table of licences is complete, and nothing under the GPL comes with `harmonicalign[all]`."""

import importlib.util
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "ecosystem" / "licences.py"
if not SCRIPT.is_file():
    pytest.skip("the script is in the repository only", allow_module_level=True)


@pytest.fixture(scope="module")
def licences():
    spec = importlib.util.spec_from_file_location("licences", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def installed(name):
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def test_table_lists_every_package_with_its_extras(licences):
    rows = re.findall(
        r"^\| \**([a-z0-9-]+)\** \| (.+?) \| (.+?) \|$", licences.PAGE.read_text(), re.MULTILINE
    )
    listed = {name: re.findall(r"`(\w+)`", extras) for name, extras, _ in rows if name != "licence"}
    expected = {name: [e for e in extras if e != "–"] for name, extras in licences.direct().items()}
    assert {name: extras for name, extras in listed.items() if name in expected} == expected


def test_nothing_under_the_gpl_is_required_or_in_all(licences):
    pytest.importorskip("packaging")
    names = {name for name in licences.of_extra("all") if installed(name)}
    assert {"numpy", "scipy"} <= names
    assert "harmonypy" not in names
    found = {name: licences.licence(name) for name in licences.closure(names) if installed(name)}
    assert not {name: terms for name, terms in found.items() if licences.COPYLEFT.search(terms)}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"License-Expression": "MIT OR Apache-2.0"}, "MIT OR Apache-2.0"),
        ({"License": "BSD 3-Clause License\n\nCopyright (c)"}, "BSD-3-Clause"),
        ({"License": "GNU Lesser General Public License v3"}, "LGPL"),
        ({"License": "GNU General Public License (GPL)"}, "GPL"),
        ({"License": "", "Classifier": ["License :: OSI Approved :: MIT License"]}, "MIT"),
    ],
)
def test_licence_from_what_packages_say(licences, monkeypatch, facts, expected):
    class About(dict):
        def get_all(self, name):
            return self.get(name)

    class Package:
        metadata = About(facts)

    monkeypatch.setattr(licences, "distribution", lambda name: Package)
    assert licences.licence("some-package") == expected


def test_unknown_terms_are_an_error(licences, monkeypatch):
    class Package:
        metadata = type("About", (dict,), {"get_all": dict.get})({"License": "ask us"})

    monkeypatch.setattr(licences, "distribution", lambda name: Package)
    with pytest.raises(ValueError, match="does not say its licence"):
        licences.licence("some-package")
