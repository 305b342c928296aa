"""What a worker of test_worker.py runs, apart: whoever starts it imports neither TVM nor pytest."""

import os
import tempfile
import time
from pathlib import Path

from relay_int8.tuning.worker import FOLDER, Worker, requests

START_S = 60


def serve(connection):
    """Leave a file where temporary ones go, and say where; then do as told."""
    for request in requests(connection):
        path = Path(tempfile.mkdtemp()) / "library.so"
        path.write_text("code")
        connection.send(str(path))
        if request == "hang":
            time.sleep(1000)
        if request == "crash":
            os._exit(3)


def left_by(worker, request):
    """Return the file that the worker wrote for a request, which is there now."""
    worker.send(request)
    path = Path(worker.receive(START_S))
    assert FOLDER in str(path)
    return path


def wait_to_be_killed():
    """Print where a worker's file is, and go on."""
    worker = Worker(serve)
    print(left_by(worker, "stay"), flush=True)
    time.sleep(1000)


if __name__ == "__main__":
    wait_to_be_killed()
