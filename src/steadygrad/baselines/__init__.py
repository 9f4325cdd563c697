"""The earlier solutions that the paper discusses, each usable on its own (Pascanu et al. 2013, section 3.1)."""

from .hessian_free import HessianFree as HessianFree

__all__ = ["HessianFree"]
