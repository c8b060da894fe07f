"""Methods that answer from statistics of fixed features, and train nothing by gradient."""

from earl.methods.embeddings.knn import KNN
from earl.methods.embeddings.ncm import NCM
from earl.methods.embeddings.ranpac import RanPAC
from earl.methods.embeddings.slda import SLDA

__all__ = ["KNN", "NCM", "SLDA", "RanPAC"]
