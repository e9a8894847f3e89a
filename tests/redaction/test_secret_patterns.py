"""What the patterns of secrets match passes the literals by which texts are passed over, and the tokens of services go."""

import re
from collections.abc import Iterable, Iterator
from itertools import product
from random import Random
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.redaction.command_secrets import may_hold
from humanlayer_agent.redaction.redactor import Redactor, redact
from humanlayer_agent.redaction.secret_patterns import Pattern, Table, text_patterns, token_patterns
from humanlayer_agent.redaction.text_secrets import by_itself, in_text
from tests.redaction.fresh_keys import KINDS, NOTATIONS
from tests.support.extent import examples

TABLES = {"text": text_patterns(), "tokens": token_patterns()}
PATTERNS = [(table, pattern) for table in TABLES.values() for pattern in table]
ANY = "\0"
"""In a way through an expression: something that is not known."""

MOST_WAYS = 10_000


class Ways:
    """Every way through an expression, with `ANY` for what may be of any length or more than four things.

    Args:
        letters: others are `ANY` too.
    """

    def __init__(self, letters: Iterable[str]) -> None:
        self.letters = {*letters}

    def through(self, parsed: Iterable[Any]) -> list[str]:
        made = [""]
        for operation, argument in parsed:
            further = product(made, self._of(operation, argument))
            made = [*{re.sub(f"{ANY}+", ANY, before + after): None for before, after in further}]
            assert len(made) <= MOST_WAYS
        return made

    def _of(self, operation: Any, argument: Any) -> list[str]:
        if operation is sre.LITERAL:
            return self._letters([argument])
        if operation is sre.IN:
            return self._of_set(argument)
        if operation is sre.BRANCH:
            return [way for branch in argument[1] for way in self.through(branch)]
        if operation is sre.SUBPATTERN:
            return self.through(argument[3])
        if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            least, most, inner = argument
            if (least, most) == (0, 1):
                return ["", *self.through(inner)]
            once = self.through(inner) if least else [ANY]
            return [f"{way}{ANY}" if most > 1 else way for way in once]
        if operation is sre.ASSERT:  # it stands in the text, beside what is matched
            return [f"{ANY}{way}{ANY}" for way in self.through(argument[1])]
        if operation in (sre.AT, sre.ASSERT_NOT):
            return [""]
        assert operation in (sre.NOT_LITERAL, sre.ANY, sre.GROUPREF), operation
        return [ANY]

    def _of_set(self, members: list[Any]) -> list[str]:
        ranges = [
            (given, given) if kind is sre.LITERAL else given for kind, given in members if kind is not sre.CATEGORY
        ]
        if {kind for kind, _ in members} <= {sre.LITERAL, sre.RANGE} and sum(
            end - start + 1 for start, end in ranges
        ) <= 4:
            return self._letters([each for start, end in ranges for each in range(start, end + 1)])
        return [ANY]

    def _letters(self, codes: list[int]) -> list[str]:
        return [letter if (letter := chr(code)).lower() in self.letters else ANY for code in codes]


def test_every_match_holds_a_literal() -> None:
    """Proved from the expressions: there is no way through one on which none of its literals stands."""
    without = {}
    for _, pattern in PATTERNS:
        parsed = parser.parse(pattern.expression.pattern, pattern.expression.flags)
        found = Ways("".join(pattern.literals)).through(parsed)
        if missing := [way for way in found if not any(literal in way.lower() for literal in pattern.literals)]:
            without[pattern.expression.pattern] = missing[:3]
    assert without == {}
    assert len(PATTERNS) > 90


def test_the_proof_sees_what_is_missing() -> None:
    for expression in ("a(?:bc|d)", "(?:ab)?c", "(?:ab)*", "[abc]b", "a(?!b)"):
        assert not all("ab" in way for way in Ways("ab").through(parser.parse(expression)))
    for expression in ("ab+", "a(?:b|bc)", "(?<=ab)c", "(?i:ab){1,3}"):
        assert all("ab" in way for way in Ways("ab").through(parser.parse(expression)))


def test_literals_are_small_letters() -> None:
    assert all(literal and literal == literal.lower() for _, pattern in PATTERNS for literal in pattern.literals)
    assert all(pattern.literals for _, pattern in PATTERNS)


def test_a_pattern_is_looked_for_where_a_literal_stands_and_nowhere_else() -> None:
    one = Pattern("one", ("ab", "cd"), re.compile("ab|cd"))
    two = Pattern("two", ("cd",), re.compile("cd"))
    table = Table([one, two])
    assert [table.possible(text) for text in ("xaby", "xCDy", "abcd", "ac bd", "")] == [
        [one],
        [one, two],
        [one, two],
        [],
        [],
    ]


@pytest.mark.parametrize("letter", ["İ", "ı", "ſ", "\N{KELVIN SIGN}"])
def test_letters_that_are_alike_when_case_is_ignored(letter: str) -> None:
    text = "".join(
        letter if re.fullmatch(letter, each, re.IGNORECASE) else each for each in "set password is hUnter22x"
    )
    said = next(pattern for pattern in text_patterns() if pattern.what == "said")
    assert bool(said.expression.search(text)) is (said in text_patterns().possible(text)) is True
    identified = f"{letter}dentified by 'hUnter22x'"
    assert [*in_text(identified)] or letter not in "İı"


@pytest.mark.long
@settings(max_examples=examples(300))
@given(st.data())
def test_whatever_a_pattern_matches_passes(data: st.DataObject) -> None:
    """With letters of another case too, where the expression ignores it."""
    table, pattern = data.draw(st.sampled_from(PATTERNS))
    text = data.draw(st.from_regex(pattern.expression))
    assert pattern in table.possible(text), text


@settings(max_examples=examples(100))
@given(st.sampled_from(sorted(KINDS)), st.sampled_from(sorted(NOTATIONS)))
def test_a_key_passes_every_pattern_that_matches_it(kind: str, notation: str) -> None:
    text = NOTATIONS[notation](KINDS[kind]().text)
    for table in TABLES.values():
        assert {*table.possible(text)} >= {pattern for pattern in table if pattern.expression.search(text)}


# The tokens of services, as they are described by those: made anew each time, so that none stands here

HEX, LOWER, UPPER, WORD, URL = "[0-9a-f]", "[a-z0-9]", "[A-Z0-9]", "[A-Za-z0-9]", "[A-Za-z0-9_-]"
UUID = f"{HEX}{{8}}-{HEX}{{4}}-4{HEX}{{3}}-[89ab]{HEX}{{3}}-{HEX}{{12}}"
SHAPED = {
    "1Password": f"A3-{UPPER}{{6}}-{UPPER}{{11}}-{UPPER}{{5}}-{UPPER}{{5}}-{UPPER}{{5}}",
    "1Password service account": "ops_ey" + f"J{WORD}{{250,300}}",
    "Airtable": f"pat{WORD}{{14}}\\.{HEX}{{64}}",
    "Alibaba": f"LTAI{WORD}{{20}}",
    "Anthropic": f"sk-ant-(?:api|admin)03-{URL}{{93}}AA",
    "Atlassian": f"ATATT3xFfGF0{URL}{{170,180}}={UPPER}{{8}}",
    "AWS": "A(?:KIA|SIA)[A-Z2-7]{16}",
    "AWS Bedrock": f"ABSK{WORD}{{109,120}}==",
    "Azure AD": f"{WORD}{{3}}[0-9]Q~{WORD}{{31,34}}",
    "Azure DevOps": f"{WORD}{{76}}AZDO{WORD}{{4}}",
    "Azure OpenAI": f"{WORD}{{52}}JQQJ99{WORD}{{26}}",
    "Azure storage": f"{WORD}{{76}}\\+ASt{WORD}{{6}}==",
    "Bitbucket": f"ATBB{WORD}{{24}}{UPPER}{{8}}",
    "Brevo": f"xkeysib-{HEX}{{64}}-{WORD}{{16}}",
    "Buildkite": f"bkua_{HEX}{{40}}",
    "CircleCI": f"CCIPAT_{WORD}{{22}}_{HEX}{{40}}",
    "Clojars": f"CLOJARS_{LOWER}{{60}}",
    "Cloudflare origin": f"v1\\.0-{HEX}{{24}}-{HEX}{{146}}",
    "crates.io": f"cio{WORD}{{32}}",
    "Databricks": f"dapi{HEX}{{32}}",
    "DigitalOcean": f"do[por]_v1_{HEX}{{64}}",
    "Discord bot": f"M{WORD}{{23}}\\.{URL}{{6}}\\.{URL}{{27}}",
    "Discord webhook": f"https://discord\\.com/api/webhooks/[0-9]{{18}}/{URL}{{68}}",
    "Docker": f"dckr_pat_{URL}{{27}}",
    "Doppler": f"dp\\.pt\\.{WORD}{{43}}",
    "Dynatrace": f"dt0c01\\.{UPPER}{{24}}\\.{UPPER}{{64}}",
    "Facebook": f"EAA{WORD}{{120,180}}",
    "Figma": f"figd_{URL}{{40}}",
    "Fly": f"fm2_{WORD}{{100}}",
    "GitHub": f"gh[pousr]_{WORD}{{36}}",
    "GitHub, fine-grained": f"github_pat_{WORD}{{22}}_{WORD}{{59}}",
    "GitLab": f"gl(?:pat|rt|dt|ptt)-{URL}{{20}}",
    "GitLab, routable": f"glpat-{URL}{{27,40}}\\.[0-9a-z]{{2}}{LOWER}{{7}}",
    "Google": f"AIza{URL}{{35}}",
    "Google OAuth": f"ya29\\.{URL}{{100}}",
    "Google OAuth client": f"GOCSPX-{URL}{{28}}",
    "Google refresh": f"1//0{URL}{{60}}",
    "Grafana": f"glc_{WORD}{{40}}=",
    "Grafana service account": f"glsa_{WORD}{{32}}_{HEX}{{8}}",
    "Groq": f"gsk_{WORD}{{52}}",
    "HashiCorp Terraform": f"{WORD}{{14}}\\.atlasv1\\.{URL}{{64}}",
    "HashiCorp Vault": f"hv[sb]\\.{URL}{{90}}",
    "Heroku": f"HRKU-AA{URL}{{58}}",
    "Honeycomb": f"hcaik_{LOWER}{{58}}",
    "HubSpot": f"pat-na1-{UUID}",
    "HuggingFace": "hf_[A-Za-z]{34}",
    "JSON web token": f"eyJ{URL}{{30}}\\.eyJ{URL}{{40}}\\.{URL}{{43}}",
    "LangSmith": f"lsv2_pt_{HEX}{{32}}_{HEX}{{10}}",
    "LaunchDarkly": f"sdk-{UUID}",
    "Linear": f"lin_api_{WORD}{{40}}",
    "Mailchimp": f"{HEX}{{32}}-us[0-9]{{1,2}}",
    "Mailgun": f"key-{HEX}{{32}}",
    "MongoDB Atlas": f"mdb_sa_sk_{URL}{{40}}",
    "Netlify": f"nfp_{WORD}{{36}}",
    "New Relic": f"NRAK-{UPPER}{{27}}",
    "Notion": f"ntn_[0-9]{{11}}{WORD}{{35}}",
    "npm": f"npm_{WORD}{{36}}",
    "NuGet": f"oy2{LOWER}{{43}}",
    "NVIDIA": f"nvapi-{URL}{{64}}",
    "OpenAI": f"sk-(?:proj|svcacct)-{URL}{{74}}T3BlbkFJ{URL}{{74}}",
    "OpenRouter": f"sk-or-v1-{HEX}{{64}}",
    "Perplexity": f"pplx-{WORD}{{48}}",
    "Pinecone": f"pcsk_{WORD}{{6}}_{WORD}{{60}}",
    "Plaid": f"access-sandbox-{UUID}",
    "PlanetScale": f"pscale_tkn_{URL}{{32,60}}",
    "Postman": f"PMAK-{HEX}{{24}}-{HEX}{{34}}",
    "Pulumi": f"pul-{HEX}{{40}}",
    "PyPI": f"pypi-AgEIcHlwaS5vcmc{URL}{{80,120}}",
    "Razorpay": f"rzp_live_{WORD}{{14}}",
    "Replicate": f"r8_{WORD}{{37}}",
    "Resend": f"re_{WORD}{{8}}_{WORD}{{24}}",
    "RubyGems": f"rubygems_{HEX}{{48}}",
    "SendGrid": f"SG\\.{URL}{{22}}\\.{URL}{{43}}",
    "Sentry": f"sntryu_{HEX}{{64}}",
    "Shopify": f"shp(?:at|ca|pa|ss)_{HEX}{{32}}",
    "Slack": f"xox[bp]-[0-9]{{11,13}}-[0-9]{{11,13}}-{WORD}{{24}}",
    "Slack app": f"xapp-1-{UPPER}{{11}}-[0-9]{{13}}-{HEX}{{64}}",
    "Slack webhook": f"https://hooks\\.slack\\.com/services/T{UPPER}{{8}}/B{UPPER}{{8}}/{WORD}{{24}}",
    "SonarQube": f"squ_{HEX}{{40}}",
    "Square": f"EAAA{URL}{{60}}",
    "Stripe": f"[sr]k_(?:live|test)_{WORD}{{24,99}}",
    "Stripe webhook": f"whsec_{WORD}{{32}}",
    "Supabase": f"sbp_{HEX}{{40}}",
    "Tailscale": f"tskey-auth-{WORD}{{12}}CNTRL-{WORD}{{32}}",
    "Teams webhook": f"https://acme\\.webhook\\.office\\.com/webhookb2/{UUID}@{UUID}/IncomingWebhook/{HEX}{{32}}/{UUID}",
    "Telegram": f"[1-9][0-9]{{9}}:AA{URL}{{33}}",
    "Twilio": f"SK{HEX}{{32}}",
    "Typeform": f"tfp_{WORD}{{44}}_{WORD}{{14}}",
    "Vercel": f"vcp_{WORD}{{56}}",
    "xAI": f"xai-{WORD}{{80}}",
    "Zapier webhook": f"https://hooks\\.zapier\\.com/hooks/catch/[0-9]{{7}}/{LOWER}{{7}}",
}
"""Service: the shape of its tokens."""

NAMED = {
    "Algolia": ("ALGOLIA_ADMIN_API_KEY", f"{HEX}{{32}}"),
    "AWS secret": ("AWS_SECRET_ACCESS_KEY", "[A-Za-z0-9+/]{40}"),
    "Azure PAT": ("AZURE_DEVOPS_EXT_PAT", "[a-z2-7]{52}"),
    "Cloudflare": ("CLOUDFLARE_API_TOKEN", f"{URL}{{40}}"),
    "Cohere": ("COHERE_API_KEY", f"{WORD}{{40}}"),
    "Datadog": ("DD_API_KEY", f"{HEX}{{32}}"),
    "Datadog application": ("DD_APP_KEY", f"{HEX}{{40}}"),
    "Fastly": ("FASTLY_API_TOKEN", f"{URL}{{32}}"),
    "Heroku": ("HEROKU_API_KEY", UUID),
    "Linode": ("LINODE_TOKEN", f"{HEX}{{64}}"),
    "Mistral": ("MISTRAL_API_KEY", f"{WORD}{{32}}"),
    "Okta": ("OKTA_API_TOKEN", f"00{URL}{{40}}"),
    "PagerDuty": ("PAGERDUTY_TOKEN", f"u\\+{URL}{{18}}"),
    "Postmark": ("POSTMARK_SERVER_TOKEN", UUID),
    "Snowflake": ("SNOWFLAKE_PASSWORD", f"{WORD}{{16}}"),
    "Twilio": ("TWILIO_AUTH_TOKEN", f"{HEX}{{32}}"),
    "Weights & Biases": ("WANDB_API_KEY", f"{HEX}{{40}}"),
}
"""Service: how its tokens are called, and their shape, which others have too."""

AROUND = (
    "deploy {} now",
    "cat > x <<'E'\n{}\nE\n",
    'echo "{}"',
    "printf 'a\\n{}\\n'",
    "x={};y",
    "curl h/{}",
    "curl -d a%0A{} h",
    "git push # {}",
)


def pieces(token: str) -> Iterator[str]:
    """The last parts of a token that are long enough to be secret."""
    return (part for part in re.findall("[A-Za-z0-9_-]{20,}", token.rpartition("/")[2]))


def test_fifty_services_and_more() -> None:
    assert len({name.partition(",")[0].partition(" ")[0] for name in {*SHAPED, *NAMED}}) >= 70


def drawn(shape: str, random: Random) -> str:
    """A text of this shape."""
    return "".join(_drawn(operation, argument, random) for operation, argument in parser.parse(shape))


def _drawn(operation: Any, argument: Any, random: Random) -> str:
    if operation is sre.LITERAL:
        return chr(argument)
    if operation is sre.IN:
        kind, member = random.choice(argument)
        return chr(member if kind is sre.LITERAL else random.randint(*member))
    if operation is sre.BRANCH:
        return "".join(_drawn(*each, random) for each in random.choice(argument[1]))
    if operation is sre.SUBPATTERN:
        return "".join(_drawn(*each, random) for each in argument[3])
    assert operation is sre.MAX_REPEAT, operation
    least, most, inner = argument
    return "".join(_drawn(*each, random) for _ in range(random.randint(least, most)) for each in inner)


@pytest.mark.long
@settings(max_examples=examples(50))
@given(st.randoms(use_true_random=True))
def test_the_tokens_of_services(random: Random) -> None:
    """Whatever stands around them; and they pass, as the command does that holds them."""
    left = []
    for service, shape in SHAPED.items():
        token, around = drawn(shape, random), random.choice(AROUND)
        text = around.format(token)
        for made in (redact(text), Redactor().text(text)):
            if not made.erased or any(piece in made.text for piece in pieces(token)):
                left.append((service, text, made.text))
        assert token_patterns().possible(text)
    assert left == []


@settings(max_examples=examples(50))
@given(st.randoms(use_true_random=True))
def test_tokens_that_show_by_their_names(random: Random) -> None:
    left = []
    for service, (name, shape) in NAMED.items():
        token = drawn(shape, random)
        around = random.choice(["{}={} deploy", "cat > .env <<'E'\n{}={}\nE\n", "export {}='{}'", "x -e {}={}"])
        text = around.format(name, token)
        if token in redact(text).text:
            left.append((service, text))
        assert may_hold(text)
    assert left == []


@given(st.text("ghp_AKIA-sk:=./ \n", max_size=40))
def test_nothing_is_found_where_nothing_is_possible(text: str) -> None:
    for table in TABLES.values():
        impossible = [pattern for pattern in table if pattern not in table.possible(text)]
        assert not [pattern.what for pattern in impossible if pattern.expression.search(text)]
    assert [*by_itself(text)] == [] or token_patterns().possible(text)


@pytest.mark.long
def test_searching_takes_no_more_than_linear_work() -> None:
    """Long hostile texts end; the suite's time-out would show it if one did not."""
    begin, end = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
    for piece in (
        *(
            begin,
            f"{begin}\n",
            "-----BEGIN ",
            "-----BEGIN PRIVATE ",
            "-----BEGIN OpenVPN ",
            end,
            f"A\n{end}",
            "private",
        ),
        *(
            "A" * 16 + "\n",
            "A" * 16 + "+",
            "+",
            "\\",
            "\\n",
            "\n",
            '"',
            "AAAA+",
            f"{begin}Version: ",
            "MIIE",
            "MIIEvQIBADAN",
        ),
        *(
            "Private-Lines: 1\n",
            "Private-Lines: 1\nAAAAAAAAAAAAAAAAAAAA\n",
            "a/",
            "/a",
            "kty d: ",
            "<D>",
            "A1a",
            "b3Bl",
        ),
    ):
        for lead in ("", f"{begin}\nkty "):
            Redactor().text(lead + piece * (6_000 // len(piece)))
    for literal in {literal for _, pattern in PATTERNS for literal in pattern.literals}:
        Redactor().text(literal * (2_000 // len(literal)))
