"""The policies that jobs may name: those that are built in, and the one of the site's own."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import cast

from mgpu.config.model import Config
from mgpu.core.errors import ConfigError
from mgpu.core.policies import POLICIES, Policy


def load_policies(settings: Config) -> Mapping[str, Policy]:
    """Imports the site's module. Raises ConfigError where it, or its function, cannot be had."""
    name = settings.default_policy
    module, colon, function = name.partition(":")
    if not colon:
        return POLICIES
    where = f"{settings.path}: scheduling.default_policy: {name} cannot be loaded"
    try:
        found = getattr(importlib.import_module(module), function)
    except Exception as error:  # a site's own module may fail in any way
        raise ConfigError([f"{where}: {type(error).__name__}: {error}".splitlines()[0]]) from error
    if not callable(found):
        raise ConfigError([f"{where}: it is no function"])
    return {**POLICIES, name: cast(Policy, found)}
