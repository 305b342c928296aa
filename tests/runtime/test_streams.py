"""Several runs at a time give what one run at a time gives, in the order of what went in."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tvm_ffi

import relay_int8
from relay_int8.demo import MODEL, load_images
from relay_int8.errors import ArtifactError, ConfigError
from relay_int8.runtime.artifact import load
from relay_int8.runtime.streams import intervals_ms

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Return an artifact of batch 1 and 30 images."""
    path, images = tmp_path_factory.mktemp("streams") / "digits.ri8", load_images()
    calibration = [images.calibration[:8]]
    relay_int8.compile_model(
        MODEL,
        calibration,
        path,
        samples=0,
        imports=relay_int8.ImportOptions(batch=1),
        options=relay_int8.BuildOptions(threads=1),
    )
    return path, images.test[:30]


def test_results_come_in_order_and_are_those_of_one_run_at_a_time(digits):
    path, images = digits
    alone = load(path)
    with relay_int8.Streams(path, 3) as streams:
        found = list(streams.map({"image": image[None]} for image in images))
    for image, outputs in zip(images, found, strict=True):
        np.testing.assert_array_equal(outputs["logits"], alone.run(image[None])["logits"])


def constants_of(module, image):
    """Return where the last constant of each convolution lies, which is in front of its result."""
    found = []

    def note(_func, name, before, _result, *arguments):
        if before and name.startswith("conv2d"):
            found.append(arguments[-2].data_ptr())

    module.machine["set_instrument"](tvm_ffi.convert(note))
    module.machine["main"](*module.arguments(image))
    module.machine["set_instrument"](None)
    return found


def test_copies_share_constants_and_nothing_that_changes(digits):
    path, images = digits
    module = load(path)
    twin = module.twin()
    constants = constants_of(module, images[:1])
    assert constants and constants_of(twin, images[:1]) == constants
    assert constants_of(load(path), images[:1]) != constants
    expected = module.run(images[1:2])["logits"]
    twin.run(images[:1])
    np.testing.assert_array_equal(twin.run(images[1:2])["logits"], expected)


def test_few_inputs_are_held_at_a_time(digits):
    path, images = digits
    taken = []

    def batches():
        for number, image in enumerate(images):
            taken.append(number)
            yield image[None]

    with relay_int8.Streams(path, 2) as streams:
        next(results := streams.map(batches()))
        assert len(taken) == 5
        assert len(list(results)) == len(images) - 1


def test_threads_of_the_caller_stay_as_they_were(digits):
    path, images = digits
    before = load(path).threads
    with relay_int8.Streams(path, 2) as streams:
        streams.submit(images[:1]).result()
        assert load(path).threads == before
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("stream")]


def test_wrong_inputs_are_an_error_of_their_run_alone(digits):
    path, images = digits
    with relay_int8.Streams(path, 2) as streams:
        wrong, right = streams.submit(images[:2]), streams.submit(images[:1])
        with pytest.raises(ArtifactError, match="input image"):
            wrong.result()
        assert right.result()["logits"].shape == (1, 10)


def test_what_cannot_be_streams(digits, tmp_path):
    with pytest.raises(ConfigError, match="0 streams asked for"):
        relay_int8.Streams(digits[0], 0)
    with pytest.raises(ConfigError, match="100000 streams asked for; a number from 1 to 1024"):
        relay_int8.Streams(digits[0], 100_000)
    with pytest.raises(ArtifactError, match="no such file"):
        relay_int8.Streams(tmp_path / "absent.ri8", 2)


@pytest.mark.parametrize("wanted", ["100000", "0", "-1", "abc", "", "٣"])
def test_a_pool_of_absurd_size_is_not_made(digits, monkeypatch, wanted):
    monkeypatch.setenv("TVM_NUM_THREADS", wanted)
    with pytest.raises(ConfigError, match=f"TVM_NUM_THREADS={wanted} is set in the environment, a"):
        load(digits[0])


def test_threads_are_an_integer(digits):
    with pytest.raises(ConfigError, match=r"load: threads is '2' \(str\); expected int"):
        load(digits[0], threads="2")


def test_closed_streams_say_so(digits):
    path, images = digits
    with relay_int8.Streams(path, 1) as streams:
        pass
    streams.close()
    for use in (streams.submit, streams.time, lambda x: list(streams.map([x]))):
        with pytest.raises(ConfigError, match=r"digits\.ri8: its streams are closed"):
            use(images[:1])


def test_threads_that_the_system_does_not_start_are_not_waited_for(digits, monkeypatch):
    started = threading.Thread.start

    def start_two(thread):
        if thread.name.endswith("_2"):
            raise RuntimeError("can't start new thread")
        started(thread)

    monkeypatch.setattr(threading.Thread, "start", start_two)
    with pytest.raises(ConfigError, match="4 streams asked for, and the system starts no more"):
        relay_int8.Streams(digits[0], 4)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_fork_is_refused_where_it_would_wait_forever(digits, threads):
    """A process of its own: the pool of threads of this one is what other tests made it."""
    script = f"""
import os, signal, sys
import numpy as np
import relay_int8
x = np.zeros((1, 1, 8, 8), "float32")
network = relay_int8.load({str(digits[0])!r}, threads={threads})
network.run(x)
for use in (lambda: network.run(x), lambda: relay_int8.load({str(digits[0])!r}).run(x)):
    sys.stdout.flush()
    if (child := os.fork()) == 0:
        signal.alarm(20)
        try:
            use()
            print("ran", flush=True)
        except relay_int8.Int8Error as error:
            print(error, flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    lines = done.stdout.splitlines()
    expected = "ran" if threads == 1 else "a fork has none of these; load it in processes"
    assert len(lines) == 2 and all(expected in line for line in lines), lines


@pytest.mark.parametrize(
    ("ends_ms", "expected"),
    [
        ([[14.0, 18.0]], [4.0, 4.0]),
        ([[14.0, 18.0], [14.0, 18.0]], [2.0, 2.0]),  # in step
        ([[12.0, 16.0], [14.0, 18.0]], [2.0, 2.0]),  # by turns
        ([[11.0], [12.0], [13.0], [14.0]], [1.0]),  # one after the other: no gain at all
    ],
)
def test_intervals(ends_ms, expected):
    assert intervals_ms(10.0, ends_ms) == expected


def test_more_streams_than_cores_are_no_faster(digits):
    """The sum of the intervals is what the clock on the wall says, also of a single repeat."""
    with relay_int8.Streams(digits[0], 40) as streams:
        start = time.perf_counter()
        times_ms = streams.time({"image": digits[1][:1]}, repeats=1, warmup=0)
        wall_ms = (time.perf_counter() - start) * 1e3
        alone_ms = min(load(digits[0], threads=1).time({"image": digits[1][:1]}))
    assert len(times_ms) == 1
    assert alone_ms / (2 * (os.cpu_count() or 1)) < times_ms[0] <= wall_ms / 40
