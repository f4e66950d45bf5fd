"""What all sections of the configuration have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_the_empty(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return {} if data is None else data
        return {key: value for key, value in data.items() if value is not None or key not in cls.model_fields}
