"""What is made once a run: by one process, also where two begin, and whole."""

import pytest

from tests.made_once import VARIABLE, made_once

pytestmark = pytest.mark.fast


def filled(calls, meanwhile=lambda: None):
    def make(folder):
        calls.append(folder)
        (folder / "file").write_text(str(len(calls)))
        meanwhile()

    return make


def test_the_second_process_finds_what_the_first_made(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    calls = []
    places = {made_once("thing", filled(calls)) for _ in range(2)}
    assert places == {tmp_path / "thing"} and len(calls) == 1
    assert made_once("other", filled(calls)) == tmp_path / "other" and len(calls) == 2


def test_the_first_of_two_at_once_stays(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    calls = []
    place = made_once("thing", filled(calls, lambda: made_once("thing", filled([]))))
    assert (place / "file").read_text() == "1" and len(calls) == 1


def test_what_fails_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))

    def fail(folder):
        (folder / "half").touch()
        raise RuntimeError("g++ failed")

    with pytest.raises(RuntimeError, match="failed"):
        made_once("thing", fail)
    place = made_once("thing", filled([]))
    assert [path.name for path in place.iterdir()] == ["file"]


def test_a_process_of_its_own_has_its_own(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    first, second = (made_once("thing", filled([])) for _ in range(2))
    assert first != second and (first / "file").exists()
