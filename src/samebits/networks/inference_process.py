"""A process of its own that infers the sizes of a model's values: `python inference_process.py MOST_BYTES`.

onnx carries the numbers of shapes along as it infers, and an array of 25 million of them, which forty bytes of a file
make, as one message each: such a file must not use up its caller's memory. The model comes on
standard input, what was inferred goes to standard output, without the model's own tensors.
"""

from __future__ import annotations

import os
import resource
import sys


def main() -> int:
    """Infers; the exit status is 1 where shapes do not fit, with the reason on standard error."""
    most_bytes = int(sys.argv[1])
    answer = os.fdopen(os.dup(1), "wb")
    # Keeps what a library prints out of the answer.
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    import onnx

    model = onnx.ModelProto()
    model.ParseFromString(sys.stdin.buffer.read())
    try:
        graph = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    except MemoryError:
        print("more memory than is given to it", file=sys.stderr)
        return 1
    except Exception as error:
        print(str(error), file=sys.stderr)
        return 1
    inferred = onnx.ModelProto()
    inferred.graph.value_info.extend([*graph.value_info, *graph.output])
    answer.write(inferred.SerializeToString())
    answer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
