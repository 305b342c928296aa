"""Code of kernels on disk: found again, whole or not at all, and never another artifact."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from relay_int8.compiler import kernel_code
from relay_int8.compiler.build import compile_module
from relay_int8.compiler.code_cache import SUFFIX, CodeCache
from relay_int8.errors import ConfigError
from relay_int8.notices import Notice
from schedules.targets import native_target
from tests.small_networks import residual

pytestmark = pytest.mark.fast


@pytest.fixture
def cache(tmp_path):
    return CodeCache(tmp_path / "cache")


def files(cache):
    return sorted(cache.folder.iterdir())


def test_what_was_kept_is_found(cache):
    assert cache.find("a") is None
    cache.keep({"a": "define void @x()\n" * 1000, "b": ""})
    assert CodeCache(cache.folder).find("a") == "define void @x()\n" * 1000
    assert cache.find("b") == ""
    assert cache.find("c") is None
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert len(files(cache)) == 2


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-1], lambda c: b"", lambda c: c[:40] + b"x" + c[41:]]
)
def test_a_damaged_file_is_removed_with_a_notice(cache, damage):
    cache.keep({"a": "text"})
    (path,) = files(cache)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(Notice, match="damaged"):
        assert cache.find("a") is None
    assert not files(cache)


def test_files_that_were_read_longest_ago_are_removed(cache):
    cache.keep({name: name * 100 for name in "abc"})
    for age, name in enumerate("cba"):  # c is the oldest
        os.utime(cache.folder / f"{name}{SUFFIX}", (age, age))
    assert cache.find("c") is not None  # now it is the newest
    size = files(cache)[0].stat().st_size
    CodeCache(cache.folder, most_bytes=3 * size).keep({"d": "d" * 100})
    assert [path.stem for path in files(cache)] == ["a", "c", "d"]


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"RELAY_INT8_CACHE": "/x/y", "XDG_CACHE_HOME": "/z"}, "/x/y"),
        ({"XDG_CACHE_HOME": "/z"}, "/z/relay-int8"),
        ({}, "~/.cache/relay-int8"),
    ],
)
def test_the_environment_names_the_folder(environment, folder):
    assert str(CodeCache.of_user(environment).folder) == str(Path(folder).expanduser())


@pytest.mark.parametrize("word", ["off", ""])
def test_switched_off_nothing_is_kept(word):
    cache = CodeCache.of_user({"RELAY_INT8_CACHE": word})
    assert cache.folder is None
    cache.keep({"a": "text"})
    assert cache.find("a") is None


def test_a_folder_that_others_can_write_to_is_not_used(cache):
    cache.keep({"a": "text"})
    cache.folder.chmod(0o770)
    with pytest.warns(Notice, match="chmod 700"):
        assert cache.find("a") is None
    with pytest.warns(Notice, match="chmod 700"):
        cache.keep({"b": "text"})
    assert len(files(cache)) == 1


def test_a_folder_that_cannot_be_made_is_a_notice(tmp_path):
    (tmp_path / "file").write_text("")
    cache = CodeCache(tmp_path / "file" / "cache")
    with pytest.warns(Notice, match="cannot be kept"):
        cache.keep({"a": "text"})
    assert cache.find("a") is None


def test_processes_may_write_and_remove_at_once(cache):
    small = CodeCache(cache.folder, most_bytes=1000)

    def _use(number):
        for turn in range(20):
            small.keep({f"{turn % 7}": f"text {turn % 7}"})
            assert small.find(f"{(turn + number) % 7}") in (None, f"text {(turn + number) % 7}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(_use, range(4)))
    assert not list(cache.folder.glob(".*"))


def test_artifacts_have_the_same_bytes_cold_warm_and_off(tmp_path, monkeypatch):
    found, built = [], []
    compile_kernels = kernel_code.llvm_module

    def _noted(mod, target, *, checks):
        built.append(mod)
        return compile_kernels(mod, target, checks=checks)

    monkeypatch.setattr(kernel_code, "llvm_module", _noted)
    for folder in (tmp_path / "cache", tmp_path / "cache", "off"):
        monkeypatch.setenv("RELAY_INT8_CACHE", str(folder))
        compile_module(residual(), native_target()).export(tmp_path / "library.so")
        found.append(((tmp_path / "library.so").read_bytes(), len(built)))
        built.clear()
    (cold, first), (warm, second), (off, third) = found
    assert cold == warm == off
    assert first == third > 0
    assert not second


def test_without_a_temporary_folder_there_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    with pytest.raises(ConfigError, match="TMPDIR"):
        compile_module(residual(), native_target())
