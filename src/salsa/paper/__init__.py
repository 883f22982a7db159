"""The paper's data sets, protocol and experiments."""

from salsa.paper.datasets import DATASETS, Dataset, load_dataset
from salsa.paper.protocol import AuthorsProtocol

__all__ = ["DATASETS", "AuthorsProtocol", "Dataset", "load_dataset"]
