"""EARL and its ablations."""

from earl.methods.earl.earl import EARL, earl_learnable, earl_no_pdt, earl_no_rc, vanilla_etf

__all__ = ["EARL", "earl_learnable", "earl_no_pdt", "earl_no_rc", "vanilla_etf"]
