"""Tables as other tools write them, and one of ours with ranges of every scheme."""

import numpy as np

from relay_int8.calibration import CalibrationTable, Entry, Range
from relay_int8.calibration.formats import (
    Exchange,
)

F = np.float32

TENSORRT = """TRT-7103-EntropyCalibration2
data_0: 4000889d
conv1_1: 3c8f5c29
x:0: 3f800000
(Unnamed Layer* 12) [Convolution]_output: 3d010a14
a: b: 3d010a14
dead: 00000000
"""
NCNN = """conv1_param_0 156.639840 149.203217 
conv2_dw_param_0 85.100000 
conv1 40.527767 
conv2_dw 13.371337 
"""
TPU_MLIR = """# genetated time: 2024-01-01 10:00:00
# histogram number: 2048
# sample number: 100
# tune number: 5
###
# op_name    threshold    min    max
images 1.0000080 0.0000000 1.0000080
122_Conv 56.4281803 -102.5830231 97.6811752
"""
ONNXRUNTIME_TEXT = """a: b 0.125
data_0 2.008338451385498
x:0 3.0
"""
FILES = {
    "tensorrt": TENSORRT,
    "ncnn": NCNN,
    "tpu-mlir": TPU_MLIR,
    "onnxruntime-text": ONNXRUNTIME_TEXT,
}


def through_json(exchange):
    """Return the exchange after its table was kept as relay-int8's own JSON."""
    table = CalibrationTable.from_json(exchange.table.to_json())
    return Exchange(table=table, weights=exchange.weights)


def entry(low, high, scheme="s8", **more):
    return Entry(
        scheme=scheme,
        low=F(low),
        high=F(high),
        observed=Range(F(low), F(high), 3),
        method="max",
        **more,
    )


MIXED = Exchange(
    table=CalibrationTable(
        entries={
            "a b": entry(-2.5, 2.5),
            "r:0": entry(0, 6, "u8"),
            "z": entry(-0.1, 3, "asymmetric"),
        }
    )
)
