"""REMIND and NC-FSCIL: methods that freeze the first blocks of their network."""

from earl.methods.frozen.nc_fscil import NCFSCIL
from earl.methods.frozen.remind import REMIND

__all__ = ["NCFSCIL", "REMIND"]
