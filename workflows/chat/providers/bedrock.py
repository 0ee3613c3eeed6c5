"""Amazon Bedrock's Converse API."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
from ag2.config.bedrock import BedrockConfig
from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from botocore import exceptions as aws
from botocore.eventstream import ParserError
from botocore.parsers import ResponseParserError
from botocore.tokens import FrozenAuthToken

from accounting.token_normalization import NORMALIZERS
from workflows.chat.chat_errors import ModelError
from workflows.chat.providers.connections import CONNECT_TIMEOUT_S
from workflows.chat.providers.provider import MAX_CONNECTIONS, OpenModel, Provider, answer_timeout_s
from workflows.chat.providers.provider_errors import explain_transport, status_error
from workflows.models_file import BedrockModel

NAME = "bedrock"


def open_model(spec: BedrockModel, key: str | None) -> OpenModel:
    session = AioSession()
    options: dict[str, Any] = {}
    if key is not None:
        options = {"signature_version": "bearer"}
        session.register_component("token_provider", _BearerToken(key))
        # Otherwise botocore searches for credentials for seconds, and does not use them.
        session.set_credentials("none", "none")
    timeout_s = answer_timeout_s(spec)
    one_client = SharedClientSession(session)
    config = BedrockConfig(  # type: ignore[abstract]  # AG2 stores no files with Bedrock and raises when asked to
        model=spec.model,
        region_name=spec.region,
        endpoint_url=spec.base_url,
        temperature=spec.temperature,
        max_tokens=spec.max_tokens,
        streaming=spec.stream,
        session=one_client,
        botocore_config=AioConfig(
            connect_timeout=min(timeout_s, CONNECT_TIMEOUT_S),
            read_timeout=timeout_s,
            max_pool_connections=MAX_CONNECTIONS,
            retries={"total_max_attempts": 1},
            warm_up_loader_caches=True,  # in a thread: reading the descriptions of AWS's services takes 200 ms
            **options,
        ),
    )
    return OpenModel(config, one_client.aclose, timeout_s, spec.stream)


class SharedClientSession:
    """A session for AG2 with one shared client.

    AG2 asks for a client per call, each with a connection of its own; here all calls share one."""

    def __init__(self, session: AioSession) -> None:
        self._session = session
        self._exit_stack = AsyncExitStack()
        self._open_lock = asyncio.Lock()
        self._client: Any = None

    @asynccontextmanager
    async def create_client(self, service: str, **options: Any) -> AsyncIterator["SharedClientCall"]:
        async with self._open_lock:
            if self._client is None:
                self._client = await self._exit_stack.enter_async_context(
                    self._session.create_client(service, **options)
                )
        call = SharedClientCall(self._client)
        try:
            yield call
        finally:
            call.close()

    async def aclose(self) -> None:
        await self._exit_stack.aclose()


class SharedClientCall:
    """One call of the shared client.

    Closing it closes a stream that was not read to its end, which would keep its connection."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._stream: Any = None

    async def converse(self, **request: Any) -> Any:
        return await self._client.converse(**request)

    async def converse_stream(self, **request: Any) -> Any:
        response = await self._client.converse_stream(**request)
        self._stream = response["stream"]
        return response

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


class _BearerToken:
    """Gives Bedrock's own key to botocore, which looks for tokens."""

    def __init__(self, key: str) -> None:
        self._token = FrozenAuthToken(key)

    def load_token(self, **_: Any) -> FrozenAuthToken:
        return self._token


def explain(error: Exception) -> ModelError | None:
    if isinstance(error, aws.ClientError):  # also for an error in the middle of a stream, which has no status
        meta = error.response.get("ResponseMetadata", {})
        return status_error(
            NAME, meta.get("HTTPStatusCode", 200), error.response.get("Error"), meta.get("HTTPHeaders", {})
        )
    if isinstance(error, aws.NoCredentialsError | aws.PartialCredentialsError):
        return ModelError(f"{NAME} cannot be called: there is no api_key and no AWS identity here", transient=False)
    if isinstance(error, aws.CredentialRetrievalError | aws.TokenRetrievalError):
        return ModelError(f"{NAME} cannot be called: AWS gave no credentials ({type(error).__name__})", transient=True)
    return explain_transport(NAME, _translate_error(error))


def _translate_error(error: Exception) -> Exception:
    if isinstance(error, aws.ReadTimeoutError | aws.ConnectTimeoutError):
        return TimeoutError()
    if isinstance(error, aws.ConnectionError | aws.HTTPClientError | aiohttp.ClientError):
        return error if isinstance(error, OSError) else ConnectionError()
    if isinstance(error, ParserError | ResponseParserError):
        return ValueError()
    return error


PROVIDER = Provider(open_model, explain, NORMALIZERS[NAME])
