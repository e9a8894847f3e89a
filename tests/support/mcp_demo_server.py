"""A server that speaks MCP, by the official SDK: a little of everything. `python mcp_demo_server.py [FOLDER] [PORT]`.

It notes in FOLDER what its tools did: a call that is not noted there was never made. With a PORT it speaks Streamable
HTTP there, else on standard input and output.
"""

import os
import sys
from pathlib import Path

import anyio
import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

FOLDER = Path(sys.argv[1])
server = MCPServer("demo")


class Wish(BaseModel):
    colour: str


def note(line: str) -> None:
    with (FOLDER / "calls").open("a") as file:
        file.write(line + "\n")


@server.tool()
def echo(text: str) -> str:
    """Say it again."""
    note(f"echo {text}")
    return text


@server.tool()
def send_mail(to: str, body: str) -> str:
    """Send a mail."""
    note(f"send_mail {to} {body}")
    return "sent"


@server.tool()
def forbidden() -> str:
    """Do what is forbidden."""
    note("forbidden")
    return "done"


@server.tool()
def fail() -> types.CallToolResult:
    """Fail."""
    note("fail")
    return types.CallToolResult(content=[types.TextContent(type="text", text="as wanted")], is_error=True)


@server.tool()
def environment(name: str) -> str:
    """Tell a variable."""
    return os.environ.get(name, "(none)")


@server.tool()
async def slow(context: Context) -> str:
    """Take long: until it is cancelled, or for ever."""
    note("slow")
    try:
        await context.report_progress(1, 2, "half of it")
        await anyio.sleep_forever()
    finally:
        note("slow ended")
    return "never"


@server.tool()
async def chat(context: Context) -> str:
    """Ask the client back, by all that there is."""
    await context.session.send_log_message(level="info", data="hello")
    asked = await context.session.create_message(
        messages=[types.SamplingMessage(role="user", content=types.TextContent(type="text", text="2+2?"))], max_tokens=5
    )
    roots = await context.session.list_roots()
    told = await context.elicit("Which colour?", Wish)
    assert not isinstance(asked.content, list)
    said = asked.content.text if isinstance(asked.content, types.TextContent) else ""
    return f"{said} {len(roots.roots)} {told.data.colour if told.action == 'accept' else told.action}"


@server.tool()
async def wish(context: Context) -> str | types.InputRequiredResult:
    """Ask the client for a colour, as the newest protocol has it: it calls once more, with the answer."""
    if context.input_responses is None:
        wanted = types.ElicitRequestFormParams(message="Which colour?", requested_schema=Wish.model_json_schema())
        return types.InputRequiredResult(
            input_requests={"colour": types.ElicitRequest(params=wanted)}, request_state="asked"
        )
    note("wish")
    told = context.input_responses["colour"]
    return str(told.content["colour"]) if isinstance(told, types.ElicitResult) and told.content else "none"


@server.tool()
async def grow(context: Context) -> str:
    """Get another tool."""
    server.add_tool(echo, name="grown", description="New.")
    await context.session.send_tool_list_changed()
    return "grown"


@server.tool()
def die() -> str:
    """End the server."""
    note("die")
    os._exit(7)


@server.resource("demo://weather")
def weather() -> str:
    """Tell the weather."""
    note("weather")
    return "rain"


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    note(f"greet {name}")
    return f"Greet {name}."


if __name__ == "__main__":
    if len(sys.argv) > 2:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        (FOLDER / "pid").write_text(f"{os.getpid()}\n")
        print("the demo server has begun", file=sys.stderr)
        server.run()
