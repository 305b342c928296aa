"""relay-int8 serve and deploy: what is wrong is said before anything is started.

What they do is tested in tests/remote/test_serve.py and tests/remote/test_deploy.py.
"""

import socket

import numpy as np
import pytest

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--work-dir", "/"], "/: cannot be made (File exists)"),
        (["--tracker", "127.0.0.1:1", "--key", "k"], "127.0.0.1:1: no tracker answers"),
        (["--proxy", "127.0.0.1:1", "--key", "k"], "127.0.0.1:1: no proxy answers"),
        (["--proxy", "127.0.0.1:1"], "give --key"),
        (["--host", "0.0.0.0"], "0.0.0.0 is reached by other computers"),
        (["--tracker", "nowhere"], "'nowhere' is no address; HOST:PORT expected"),
    ],
)
def test_serve(invoke, arguments, message):
    code, out, err = invoke("serve", *arguments)
    assert code == 1
    assert err.startswith("error: ")
    assert message in err
    assert not out


def test_a_busy_port_is_one_line(invoke):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        code, out, err = invoke("serve", "--port", port)
    assert (code, out) == (1, "")
    assert err == (
        f"error: 127.0.0.1:{port}: cannot listen there (Address already in use); name another "
        "--port, or 0 for any that is free\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rpc", "nowhere"], "'nowhere' is no address"),
        (["--tracker", "127.0.0.1:1"], "name one with --key"),
        (["--tracker", "127.0.0.1:1", "--key", "k"], "127.0.0.1:1: no tracker answers"),
        (["--rpc", "nowhere.invalid:1"], "nowhere.invalid:1: no computer of that name"),
        (["--rpc", "127.0.0.1:1", "-o", "y.npy"], "name a .npz file"),
        (["--rpc", "127.0.0.1:1", "-i", "none.npy"], "none.npy: cannot be read"),
        (["--rpc", "127.0.0.1:1", "-i", "{x}"], "shape 4 given, 2 x 3 expected"),
        (["--rpc", "127.0.0.1:1", "--reference", "none.ri8"], "none.ri8: no such file"),
    ],
)
def test_deploy(invoke, artifact, tmp_path, arguments, message):
    np.save(tmp_path / "x.npy", np.zeros(4, "float32"))
    code, out, err = invoke(
        "deploy", artifact, *(argument.format(x=tmp_path / "x.npy") for argument in arguments)
    )
    assert code == 1
    assert err.startswith("error: ")
    assert message in err
    assert not out


@pytest.mark.parametrize("arguments", [[], ["--rpc", "a:1", "--tracker", "b:1"]])
def test_deploy_to_one_place(invoke, artifact, arguments):
    code, _, err = invoke("deploy", artifact, *arguments)
    assert code == 2
    assert "give either --rpc or --tracker" in err
