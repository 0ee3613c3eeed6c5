"""One chat. `chat_loop` takes turns, `turn` is one of them. The rooms, in the order of a turn: `agents` (built once per
version, from `package_code`), `limits`, `hooks` (before and after the agent), `model_call` through `providers`, `tools`,
`questions` to people, `routing` to the next speaker, `history` that is committed.
"""
