"""A submission whose answer nobody waits for any more: whatever came of it is to go again."""

from __future__ import annotations

import os

from mgpu.client import http
from mgpu.lean.json import loads
from mgpu.lean.typing import Any


def take_back(endpoint: http.Endpoint, body: dict[str, Any]) -> bool:
    """The same request_id asks which job it became, so that it can be cancelled. False = nobody knows, or it may be one
    that another command began under the same --request-id."""
    try:
        answer = http.request(endpoint, "POST", "/v1/jobs", body)
        http.raise_for_error(answer)
        made = loads(answer.body)
        if body.get("key") and not made.get("created"):
            return False
        cancel = {"request_id": os.urandom(16).hex(), "ids": [made["job_id"]]}
        http.raise_for_error(http.request(endpoint, "POST", "/v1/cancel", cancel))
    except http.NoMaster:
        return False
    except http.MasterError:
        pass  # it refused: then nothing is queued
    return True
