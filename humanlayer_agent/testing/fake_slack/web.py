"""The methods of the Web API that a channel uses."""

import copy
import json
import secrets
from collections.abc import Callable, Mapping
from types import MappingProxyType

from humanlayer_agent.testing.fake_slack import blocks, world
from humanlayer_agent.testing.fake_slack.limits import KINDS, LIMITS, SCOPES, TIER_OF, TIERS, ApiError, Json
from humanlayer_agent.testing.fake_slack.world import World, public

POST_BURST = 3
"""Messages that a channel takes at once before the rule of about one a second holds."""


def call(state: World, base: str, socket: str, method: str, token: str, args: Json) -> Json:
    """Answer one call.

    Args:
        base: where the HTTP server is, for upload and response addresses.
        socket: where the Socket Mode server is.

    Raises:
        ApiError: Slack would say no.
    """
    _authorize(state, method, token, args)
    if wait := _over_limit(state, method, args):
        raise ApiError("ratelimited", retry_after=wait)
    if method == "apps.connections.open":
        ticket = secrets.token_hex(8)
        state.tickets[ticket] = state.clock()
        return {"url": f"{socket}/link/?ticket={ticket}&app_id={world.APP}"}
    if method == "files.getUploadURLExternal":
        return _upload_url(state, base, args)
    handler = METHODS.get(method)
    if handler is None:
        raise ApiError("unknown_method", req_method=method)
    return handler(state, args)


def _authorize(state: World, method: str, token: str, args: Json) -> None:
    if not token:
        raise ApiError("not_authed")
    found = state.tokens.get(token)
    if found is None:
        raise ApiError("invalid_auth")
    wanted = "app" if method == "apps.connections.open" else "bot"
    if found.kind != wanted:
        raise ApiError("not_allowed_token_type")
    needed = SCOPES.get(method, ())
    if len(needed) > 1:
        kind = KINDS.get(str(args.get("channel", ""))[:1], "channels")
        needed = tuple(scope for scope in needed if scope.startswith(kind))
    if needed and not found.scopes & set(needed):
        raise ApiError("missing_scope", needed=needed[0], provided=",".join(sorted(found.scopes)))


def _over_limit(state: World, method: str, args: Json) -> float:
    """Seconds to wait; 0 where the call is within its limit."""
    if not state.rate_limits:
        return 0
    now = state.clock()
    if method == "chat.postMessage":
        bucket, most, span = state.buckets[method, str(args.get("channel"))], POST_BURST, float(POST_BURST)
    else:
        bucket, most, span = state.buckets[method, ""], TIERS[TIER_OF.get(method, 3)], 60.0
    while bucket and now - bucket[0] > span:
        bucket.popleft()
    if len(bucket) >= most:
        return span - (now - bucket[0])
    bucket.append(now)
    return 0


# ---- messages ---------------------------------------------------------------------------------------


def conversation(state: World, channel: object) -> Json:
    """The channel, as far as the app may write in it."""
    found = state.channels.get(str(channel))
    if found is None or (found["id"].startswith("G") and world.BOT not in found["members"]):
        raise ApiError("channel_not_found")
    if found["is_archived"]:
        raise ApiError("is_archived")
    if world.BOT not in found["members"]:
        raise ApiError("not_in_channel")
    return found


def message(args: Json) -> Json:
    """A message of the app, checked."""
    text, given = str(args.get("text") or ""), args.get("blocks")
    if not text and not given:
        raise ApiError("no_text")
    if given is not None:
        if errors := blocks.message_errors(given):
            raise ApiError("invalid_blocks", errors=errors, response_metadata={"messages": errors})
        if blocks.characters(given) > LIMITS["message_characters"]:
            raise ApiError("msg_blocks_too_long")
    made = copy.deepcopy(given) or []
    for block in made:
        block.setdefault("block_id", secrets.token_hex(3))
    return {
        "type": "message",
        "user": world.BOT,
        "bot_id": world.BOT_ID,
        "app_id": world.APP,
        "team": world.TEAM,
        "text": text[: LIMITS["message_text"]],
        "blocks": made,
        **({"metadata": args["metadata"]} if args.get("metadata") else {}),
        "_pings": sorted({*blocks.mentions(text), *blocks.pings(made)}),
        "_unfurls": _true(args.get("unfurl_links", True)) or _true(args.get("unfurl_media", True)),
    }


def _true(value: object) -> bool:
    return str(value).lower() not in ("0", "false")


def _post(state: World, args: Json) -> Json:
    channel = conversation(state, args.get("channel"))
    made = message(args)
    made["ts"] = state.next_ts()
    if thread := args.get("thread_ts"):
        parent = state.messages[channel["id"]].get(thread)
        if parent is None or parent.get("thread_ts", thread) != thread:
            raise ApiError("thread_not_found")
        made["thread_ts"] = parent["thread_ts"] = thread
        made["_broadcast"] = _true(args.get("reply_broadcast", False))
    state.messages[channel["id"]][made["ts"]] = made
    return {"channel": channel["id"], "ts": made["ts"], "message": public(made)}


def _update(state: World, args: Json) -> Json:
    channel = conversation(state, args.get("channel"))
    old = state.messages[channel["id"]].get(str(args.get("ts")))
    if old is None:
        raise ApiError("message_not_found")
    if old.get("user") != world.BOT:
        raise ApiError("cant_update_message")
    made = message({"metadata": old.get("metadata"), **args})
    made |= {key: old[key] for key in ("ts", "thread_ts", "_broadcast", "_unfurls") if key in old}
    made["edited"] = {"user": world.BOT}
    made["_history"] = [*old.get("_history", ()), old]
    made["_pings"] = old["_pings"]  # a change notifies nobody
    state.messages[channel["id"]][old["ts"]] = made
    return {"channel": channel["id"], "ts": old["ts"], "text": made["text"], "message": public(made)}


def _ephemeral(state: World, args: Json) -> Json:
    channel = conversation(state, args.get("channel"))
    if args.get("user") not in channel["members"]:
        raise ApiError("user_not_in_channel")
    made = message(args) | {"ts": state.next_ts(), "_to": args["user"], "_channel": channel["id"]}
    state.ephemerals.append(made)
    return {"message_ts": made["ts"]}


def _history(state: World, args: Json) -> Json:
    channel = conversation(state, args.get("channel"))
    oldest = float(args.get("oldest") or 0)
    found = [
        public(each)
        for each in state.messages[channel["id"]].values()
        if float(each["ts"]) >= oldest and (each.get("thread_ts", each["ts"]) == each["ts"] or each.get("_broadcast"))
    ]
    if not _true(args.get("include_all_metadata", False)):
        found = [{key: value for key, value in each.items() if key != "metadata"} for each in found]
    found.sort(key=lambda each: str(each["ts"]), reverse=True)
    limit = int(args.get("limit") or 100)
    return {"messages": found[:limit], "has_more": len(found) > limit}


# ---- people and channels ----------------------------------------------------------------------------


def _auth_test(state: World, args: Json) -> Json:
    return {
        "team": "fake",
        "team_id": world.TEAM,
        "user": "humanlayer",
        "user_id": world.BOT,
        "bot_id": world.BOT_ID,
        "is_enterprise_install": False,
    }


def _bots_info(state: World, args: Json) -> Json:
    if args.get("bot") != world.BOT_ID:
        raise ApiError("bot_not_found")
    return {"bot": {"id": world.BOT_ID, "app_id": world.APP, "user_id": world.BOT, "name": "humanlayer"}}


def _users_info(state: World, args: Json) -> Json:
    found = state.users.get(str(args.get("user")))
    if found is None:
        raise ApiError("user_not_found")
    return {"user": dict(found)}


def _usergroup(state: World, args: Json) -> Json:
    found = state.usergroups.get(str(args.get("usergroup")))
    if found is None:
        raise ApiError("no_such_subteam")
    return {"users": list(found)}


def _channel_info(state: World, args: Json) -> Json:
    found = state.channels.get(str(args.get("channel")))
    if found is None:
        raise ApiError("channel_not_found")
    member = world.BOT in found["members"]
    return {"channel": {k: found[k] for k in ("id", "name", "is_archived")} | {"is_member": member}}


# ---- files ------------------------------------------------------------------------------------------


def _upload_url(state: World, base: str, args: Json) -> Json:
    length = int(args.get("length") or 0)
    if not args.get("filename") or length < 1:
        raise ApiError("missing_argument")
    if args.get("snippet_type") and length > LIMITS["snippet_bytes"]:
        raise ApiError("snippet_too_large")
    made = f"F{secrets.token_hex(4).upper()}"
    state.files[made] = {"id": made, "name": args["filename"], "length": length, "data": None, "shared": ()}
    return {"upload_url": f"{base}/upload/{made}", "file_id": made}


def _upload_done(state: World, args: Json) -> Json:
    done = []
    for given in args.get("files") or []:
        file = state.files.get(given.get("id"))
        if file is None or file["data"] is None:
            raise ApiError("file_not_found")
        if args.get("channel_id"):
            channel, thread = conversation(state, args["channel_id"]), args.get("thread_ts")
            if thread and thread not in state.messages[channel["id"]]:
                raise ApiError("invalid_thread_ts" if "." not in str(thread) else "thread_not_found")
            comment = str(args.get("initial_comment") or "")
            made = message({"text": comment or file["name"]}) | {"ts": state.next_ts(), "files": [file["id"]]}
            if thread:
                made["thread_ts"] = thread
            state.messages[channel["id"]][made["ts"]] = made
            file["shared"] = (channel["id"], thread)
        file["title"] = given.get("title")
        done.append({"id": file["id"], "title": given.get("title")})
    return {"files": done}


# ---- forms ------------------------------------------------------------------------------------------


def checked_view(value: object) -> Json:
    """A view, checked, with ids for its blocks."""
    if errors := blocks.view_errors(value):
        raise ApiError("invalid_arguments", response_metadata={"messages": errors})
    assert isinstance(value, dict)
    if len(json.dumps(value).encode()) > LIMITS["view_bytes"]:
        raise ApiError("view_too_large")
    made = copy.deepcopy(value)
    for block in made["blocks"]:
        block.setdefault("block_id", secrets.token_hex(3))
    return made


def _form(state: World, args: Json) -> tuple[str, Json]:
    """Whose trigger it is, and a form, checked."""
    made = checked_view(args.get("view"))
    if made["type"] != "modal":
        raise ApiError("invalid_arguments", response_metadata={"messages": ["must be a modal [/view/type]"]})
    return state.spend_trigger(str(args.get("trigger_id"))), made


def _put(state: World, user: str, made: Json, *, root: str = "", previous: str | None = None) -> Json:
    view_id = f"V{secrets.token_hex(5).upper()}"
    made |= {
        "id": view_id,
        "team_id": world.TEAM,
        "app_id": world.APP,
        "bot_id": world.BOT_ID,
        "root_view_id": root or view_id,
        "previous_view_id": previous,
        "hash": secrets.token_hex(4),
        "_open": made["type"] == "modal",
        "_user": user,
    }
    state.views[view_id] = made
    return {"view": public(made)}


def _open_view(state: World, args: Json) -> Json:
    return _put(state, *_form(state, args))


def _push_view(state: World, args: Json) -> Json:
    """Put a form on the one that is open: three at most."""
    user, made = _form(state, args)
    stack = [each for each in state.views.values() if each["_open"] and each["_user"] == user]
    if not stack:
        raise ApiError("not_found")
    if len(stack) >= LIMITS["view_stack"]:
        raise ApiError("push_limit_reached")
    return _put(state, user, made, root=stack[0]["id"], previous=stack[-1]["id"])


def _update_view(state: World, args: Json) -> Json:
    old = state.views.get(str(args.get("view_id")))
    if old is None or not old["_open"]:
        raise ApiError("not_found")
    made = checked_view(args.get("view"))
    kept = ("id", "team_id", "app_id", "bot_id", "root_view_id", "previous_view_id", "_open", "_user")
    made |= {key: old[key] for key in kept} | {"hash": secrets.token_hex(4)}
    state.views[old["id"]] = made
    return {"view": public(made)}


def _publish_view(state: World, args: Json) -> Json:
    """Show somebody the home of the app: it takes no scope, and a home that the app's settings have switched on."""
    if not state.has_home:
        raise ApiError("not_enabled")
    user = str(args.get("user_id"))
    if user not in state.users:
        raise ApiError("user_not_found")
    made = checked_view(args.get("view"))
    if made["type"] != "home":
        raise ApiError("invalid_arguments", response_metadata={"messages": ["must be a home [/view/type]"]})
    done = _put(state, user, made)
    state.homes[user] = made["id"]
    return done


METHODS: Mapping[str, Callable[[World, Json], Json]] = MappingProxyType(
    {
        "auth.test": _auth_test,
        "bots.info": _bots_info,
        "chat.postMessage": _post,
        "chat.update": _update,
        "chat.postEphemeral": _ephemeral,
        "conversations.history": _history,
        "conversations.info": _channel_info,
        "users.info": _users_info,
        "usergroups.users.list": _usergroup,
        "files.completeUploadExternal": _upload_done,
        "views.open": _open_view,
        "views.push": _push_view,
        "views.update": _update_view,
        "views.publish": _publish_view,
    }
)
