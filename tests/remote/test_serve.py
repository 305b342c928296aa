"""relay-int8 serve: who is let in, what is left behind, what a crash costs."""

import signal

import pytest
from tvm import rpc

from relay_int8.errors import ConfigError, DeployError
from relay_int8.remote.address import Address, is_loopback
from relay_int8.remote.supervisor import ServeOptions
from tests.remote.processes import free_address, gone, server, until

ELSEWHERE = Address("10.0.0.1", 9190)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:9090", "127.0.0.1", 9090), ("[::1]:1", "::1", 1), ("board:65535", "board", 65535)],
)
def test_address(text, host, port):
    address = Address.parse(text)
    assert (address.host, address.port) == (host, port)
    assert str(address) == text


@pytest.mark.fast
@pytest.mark.parametrize("text", ["", "board", "board:", ":9090", "board:0", "board:65536", "a:-1"])
def test_no_address(text):
    with pytest.raises(ConfigError, match="HOST:PORT expected"):
        Address.parse(text)


@pytest.mark.fast
def test_loopback():
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "", "10.0.0.1", "board.lan")))


@pytest.mark.fast
def test_nothing_listens():
    with pytest.raises(DeployError, match=r"127.0.0.1:\d+: no tracker answers \(.*; start one"):
        free_address().check_listening("tracker", "start one")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "0.0.0.0"}, r"ServeOptions\(allow_network=True, key=...\)"),
        ({"host": "", "key": "k"}, r"ServeOptions\(allow_network=True, key=...\)"),
        ({"host": "0.0.0.0", "key": "k"}, r"ServeOptions\(allow_network"),
        ({"host": "0.0.0.0", "allow_network": True}, r"key=...\)"),
        ({"proxy": ELSEWHERE, "key": "k"}, "10.0.0.1 is reached by other computers"),
        ({"tracker": ELSEWHERE}, r"key=...\)"),
        ({"tracker": ELSEWHERE, "proxy": ELSEWHERE, "key": "k"}, "choose one"),
        ({"key": "two words"}, "letters, digits"),
        ({"key": "a:b"}, "letters, digits"),
    ],
)
def test_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        ServeOptions(**options)


@pytest.mark.fast
def test_allowed():
    ServeOptions()
    ServeOptions(host="::1", tracker=ELSEWHERE, key="k")  # the device itself stays on loopback
    ServeOptions(host="0.0.0.0", allow_network=True, key="k")


def test_leaves_nothing_behind(tmp_path):
    with server(tmp_path) as served:
        served.wait_until_serving()
        session = rpc.connect(served.address.host, served.address.port)
        session.upload(bytearray(b"library"), "library.so")
        assert [path.read_bytes() for path in served.files] == [b"library"]
        assert served.folder.stat().st_mode & 0o077 == 0
        below = served.below
        assert len(below) == 2  # the server and its session
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(10) == 0
        assert gone(below)
        assert not served.folder.exists()


def test_killed_server_takes_its_sessions_along(tmp_path):
    with server(tmp_path) as served:
        served.wait_until_serving()
        session = rpc.connect(served.address.host, served.address.port)
        session.upload(bytearray(b"library"), "library.so")
        below = served.below
        served.process.kill()
        until(lambda: gone(below) and not served.folder.exists(), "end of the sessions", 10)


def test_starts_again_after_a_crash(tmp_path):
    with server(tmp_path) as served:
        served.wait_until_serving()
        address = served.address
        session = rpc.connect(address.host, address.port)
        session.upload(bytearray(b"library"), "library.so")
        served.below[1].kill()
        served.wait_until_serving(2)
        assert "starting it again" in served.text
        assert served.address == address
        assert not served.files
        again = rpc.connect(address.host, address.port)
        again.upload(bytearray(b"library"), "library.so")


def test_sessions_stay_in_their_folder(tmp_path):
    with server(tmp_path) as served:
        served.wait_until_serving()
        session = rpc.connect(served.address.host, served.address.port)
        outside = tmp_path / "outside"
        for name in ("../outside", "../../outside", str(outside)):
            with pytest.raises(RuntimeError, match="outside of the session's folder"):
                session.upload(bytearray(b"x"), name)
        outside.write_bytes(b"secret")
        with pytest.raises(RuntimeError, match="outside of the session's folder"):
            session.download(str(outside))
        assert {path.name for path in tmp_path.iterdir()} == {"log", "outside", "work"}
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(10) == 0
        assert not served.folder.exists()


def test_cannot_start(tmp_path):
    with server(tmp_path) as served:
        served.wait_until_serving()
        port = str(served.address.port)
        other = tmp_path / "other"
        other.mkdir()
        with server(other, "--port", port) as second:
            assert second.process.wait(30) == 1
            assert f"error: 127.0.0.1:{port}: cannot listen there" in second.text
            assert "Traceback" not in second.text
            assert not second.folder.exists()
