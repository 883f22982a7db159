"""Properties that are computed once per instance, without a lock."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    cached_property = functools.cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801 (the name in functools)
        """``functools.cached_property`` as it is from Python 3.12 on.

        In Python 3.11 the property holds one lock for all instances while it computes: fits in other threads wait for
        each other, and a child that is forked meanwhile waits for ever. Two threads that both find no value both
        compute it here, with the same result.
        """

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            if instance is None or self.attrname is None:
                return super().__get__(instance, owner)
            values = instance.__dict__
            if self.attrname not in values:
                values[self.attrname] = self.func(instance)
            return values[self.attrname]
