"""A model as a web service: health, schema, and predictions with intervals and contributions, all as JSON.

    pip install salsa-learn starlette 'uvicorn[standard]'
    SALSA_MODEL=houses.salsa uvicorn --app-dir examples/service --workers 2 service:app

    curl localhost:8000/schema
    curl localhost:8000/predict -d '{"area": 120, "town": "Bree"}'
    curl 'localhost:8000/predict?interval=0.9&contributions=true' -d '[{"area": 120, "town": "Bree"}]'

Every process loads the model once. Limits: SALSA_MOST_BYTES of a request, SALSA_MOST_ROWS in it, SALSA_SECONDS for its
answer. Errors are JSON, too: {"error": "what is wrong, and what to do"}.
"""

import json
import os
import warnings
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import salsa
from salsa import SalsaClassifier, explain

MOST_BYTES = int(os.environ.get("SALSA_MOST_BYTES", "1000000"))
MOST_ROWS = int(os.environ.get("SALSA_MOST_ROWS", "1000"))
SECONDS = float(os.environ.get("SALSA_SECONDS", "10"))
FEW = 16  # rows that are predicted at once, without a thread of their own

model = salsa.load(os.environ["SALSA_MODEL"])
is_classifier = isinstance(model, SalsaClassifier)
SCHEMA = model.schema()

told: ContextVar[list[str]] = ContextVar("told")  # what salsa warns of while a request is answered
warnings.simplefilter("always")
warnings.showwarning = lambda message, *_: told.get([]).append(str(message))


class RefusedError(Exception):
    """A request that gets no predictions, and the status of the answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


async def health(_: Request) -> JSONResponse:
    return JSONResponse({"status": "ok", "salsa": salsa.__version__, "features": len(SCHEMA["properties"])})


async def schema(_: Request) -> JSONResponse:
    return JSONResponse(SCHEMA)


async def predict(request: Request) -> JSONResponse:
    """Predict a row, or a list of rows."""
    try:
        rows = rows_of(await body_of(request))
        coverage, contributions = options_of(request)
        answer = partial(answer_to, rows, coverage, contributions)
        if len(rows) <= FEW and coverage is None and not contributions:
            return JSONResponse(answer())
        with anyio.fail_after(SECONDS):
            return JSONResponse(await anyio.to_thread.run_sync(answer, abandon_on_cancel=True))
    except RefusedError as refused:
        return JSONResponse({"error": str(refused)}, refused.status)
    except (TypeError, ValueError) as error:
        return JSONResponse({"error": str(error)}, 422)
    except TimeoutError:
        return JSONResponse({"error": f"the answer takes more than {SECONDS:g} seconds: send fewer rows"}, 503)


async def no_such_page(_: Request, error: Exception) -> JSONResponse:
    """Answer requests for other addresses, or by other methods."""
    assert isinstance(error, HTTPException)
    there_are = "there are GET /health, GET /schema and POST /predict"
    return JSONResponse({"error": f"{error.detail}: {there_are}"}, error.status_code, error.headers)


async def body_of(request: Request) -> bytes:
    """Return the body of a request; too long ones are not read to their end."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise RefusedError(413, f"the request has more than {MOST_BYTES} bytes: send fewer rows")
        parts.append(part)
    return b"".join(parts)


def rows_of(body: bytes) -> list[dict[str, Any]]:
    """Return the rows of a request."""
    try:
        found = json.loads(body, parse_constant=_refuse_constant)
    except ValueError as error:
        raise RefusedError(400, f"the request is no JSON: {error}") from None
    rows = found if isinstance(found, list) else [found]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise RefusedError(400, "give a row as a JSON object, or a list of them; /schema says what a row holds")
    if len(rows) > MOST_ROWS:
        raise RefusedError(413, f"the request has {len(rows)} rows: send at most {MOST_ROWS}")
    return rows


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number; a missing value is null")


def options_of(request: Request) -> tuple[float | None, bool]:
    """Return the coverage of intervals or sets, if they are asked for, and whether contributions are."""
    unknown = set(request.query_params) - {"interval", "contributions"}
    if unknown:
        raise RefusedError(400, f"unknown option {min(unknown)!r}: there are interval=0.9 and contributions=true")
    given = request.query_params.get("interval")
    return None if given is None else float(given), request.query_params.get("contributions") == "true"


def answer_to(rows: list[dict[str, Any]], coverage: float | None, contributions: bool) -> dict[str, Any]:
    """Return what is sent for these rows; what salsa warns of is among it."""
    told.set([])
    answer: dict[str, Any] = {"predictions": model.predict(rows).tolist()}
    if is_classifier:
        answer |= {"classes": model.classes_.tolist(), "probabilities": model.predict_proba(rows).tolist()}
    if coverage is not None:
        found = model.predict_set(rows, coverage) if is_classifier else model.predict_interval(rows, coverage)
        answer["sets" if is_classifier else "intervals"] = found.tolist()
    if contributions:
        shares = explain.shapley(model, rows)
        answer |= {"base_value": np.asarray(shares.base_value).tolist(), "contributions": shares.values.tolist()}
    return answer | ({"warnings": told.get()} if told.get() else {})


app = Starlette(
    routes=[
        Route("/health", health),
        Route("/schema", schema),
        Route("/predict", predict, methods=["POST"]),
    ],
    exception_handlers={HTTPException: no_such_page},
)
