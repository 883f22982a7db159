"""A graph of standard ONNX operators in float64, written by operators with names for the results."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, checker, helper, numpy_helper

OPSET = 19  # Equal of texts
IR_VERSION = 9  # of the same release, for older runtimes


class Graph:
    """Operators in the order of their work. Results and constants are texts, the names of tensors."""

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._constants: dict[tuple[Any, ...], str] = {}
        self._tensors: list[TensorProto] = []
        self._inputs: list[ValueInfoProto] = []
        self._outputs: list[ValueInfoProto] = []

    def input(self, name: str, dtype: Any, columns: int) -> str:
        """Declare an input (n, columns)."""
        self._inputs.append(helper.make_tensor_value_info(name, _element(dtype), ["n", columns]))
        return name

    def output(self, tensor: str, name: str, dtype: Any, columns: int | None) -> None:
        """Declare a tensor (n, columns), or (n,) if columns is None, an output of this name."""
        shape: list[str | int | None] = ["n"] if columns is None else ["n", columns]
        self._nodes.append(helper.make_node("Identity", [tensor], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, _element(dtype), shape))

    def constant(self, values: Any) -> str:
        """Return the name of a constant; equal constants are kept once."""
        array = np.asarray(values)
        key = array.dtype.str, array.shape, array.tobytes() if array.dtype != object else tuple(array.ravel())
        if key not in self._constants:
            self._constants[key] = name = f"constant_{len(self._constants)}"
            self._tensors.append(numpy_helper.from_array(array, name))
        return self._constants[key]

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Add an operator and return its result; inputs that are not names are constants."""
        names = [name if isinstance(name, str) else self.constant(name) for name in inputs]
        result = f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, names, [result], **attributes))
        return result

    def model(self, metadata: dict[str, str]) -> ModelProto:
        """Return the checked model."""
        graph = helper.make_graph(self._nodes, "salsa", self._inputs, self._outputs, self._tensors)
        model = helper.make_model(
            graph, producer_name="salsa", opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
        )
        helper.set_model_props(model, metadata)
        checker.check_model(model, full_check=True)
        return model


def _element(dtype: Any) -> int:
    """Return ONNX's number of a type; objects are texts."""
    kind: NDArray[Any] = np.empty(0, dtype=dtype)
    return TensorProto.STRING if kind.dtype == object else helper.np_dtype_to_tensor_dtype(kind.dtype)
