"""Sessions are forks of the server, whatever Python would start processes by (3.14: a forkserver)."""

import json
import subprocess
import sys

import pytest
from tvm import rpc

from relay_int8.remote.address import Address
from relay_int8.remote.client import describe

FORKSERVER = """
import multiprocessing
multiprocessing.set_start_method("forkserver")
from relay_int8.remote.server_process import main
if __name__ == "__main__":
    main()
"""


@pytest.mark.fast
def test_sessions_know_our_functions(tmp_path):
    script = tmp_path / "server.py"
    script.write_text(FORKSERVER)
    orders = {"host": "127.0.0.1", "port": 0, "key": "", "tracker": None, "proxy": None}
    process = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdin and process.stdout
    try:
        process.stdin.write(json.dumps(orders | {"work": str(tmp_path / "work")}) + "\n")
        process.stdin.flush()
        address = Address("127.0.0.1", json.loads(process.stdout.readline())["port"])
        session = rpc.connect(address.host, address.port, "", 60)
        assert describe(session, address).threads > 0
    finally:
        process.stdin.close()  # ends the server's process group
        process.wait(20)
        process.stdout.close()
