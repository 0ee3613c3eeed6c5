"""Names of span attributes: OpenTelemetry's GenAI conventions, and ours.

The conventions are still in development.
"""

from typing import Final

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_write.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
WORKFLOW_NAME: Final = "gen_ai.workflow.name"
AGENT_NAME: Final = "gen_ai.agent.name"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
CONVERSATION: Final = "gen_ai.conversation.id"
ERROR_TYPE: Final = "error.type"

# Content, only if content capture is on.
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

RUN_ID: Final = "unattended.run_id"
APP_ID: Final = "unattended.app_id"
WORKFLOW: Final = "unattended.workflow"
TRIGGER_TYPE: Final = "unattended.trigger.type"
TRIGGER_NAME: Final = "unattended.trigger.name"
ACCEPTED: Final = "unattended.accepted"
ATTEMPT: Final = "unattended.attempt"
WORKER: Final = "unattended.worker"
TURN: Final = "unattended.turn"
HANDOFF: Final = "unattended.handoff"
USAGE: Final = "unattended.usage"
OUTCOME: Final = "unattended.outcome"
STATE: Final = "unattended.state"
CUT_OFF: Final = "unattended.cut_off"
LINK: Final = "unattended.link"

# Provider names of the conventions; the others have the same names here and there.
PROVIDERS: Final = {
    "openai_responses": "openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
