"""Makes the names of sub-commands and options of cloud tools, as the catalog keeps them beside it, from their packages.

    $ pip download --no-deps botocore==1.44.8 azure-cli==2.91.0
    $ for w in *.whl; do unzip -q "$w" -d packages; done
    $ python docs/make_services.py packages

aws: the services, the operations whose output holds what must stay secret or is written to a file, and the options of
operations, of botocore's models. Where one option names the file that is sent, no option of its name is kept. az: the
groups, and the options of commands that read, of the modules of azure-cli. An option that few commands have is left
out, and so is one of az that may name a local file: what is not listed is not known, and a human is asked about it.
"""

import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import Any

SERVICES = Path(__file__).parent.parent / "humanlayer_agent" / "shell" / "programs" / "catalog" / "services"
AWS_FEW, AZ_FEW = 4, 3
"""An option that fewer commands have is left out."""
COMMON = frozenset(
    str.split("""acm apigateway athena autoscaling ce cloudformation cloudfront cloudtrail cloudwatch dynamodb ec2 ecr
    ecs eks elasticache elb elbv2 events glue iam kms lambda logs rds redshift route53 s3api secretsmanager sns sqs ssm
    stepfunctions sts""")
)
"""Services of which every option is kept that an operation has which reads."""
RENAMED = {"s3": "s3api", "codedeploy": "deploy", "config": "configservice"}
"""Services that awscli calls by another name (awscli/customizations)."""
ADDED = "s3 configure"
"""Commands of awscli that no service has."""
FILES = re.compile(r"file|path|script|source|body|template|dest|output|cert|blob|^src|folder|directory")
"""Names of options that may be those of local files."""
KEPT = re.compile(
    r"secret(_?(access_?key|string|binary|key|value|text))?|.*password|.*plaintext|private_?key(_material|plaintext)?|"
    r"(auth(orization|entication)?|access|session|security|refresh|id|bearer)_?token|credentials?|api_?key(_?value)?|"
    r"key_?material|client_?secret|.*pre_?signed_?.*url|signed_?url",
    re.IGNORECASE,
)
"""Names of members of an output that must stay secret."""
WITHHELD = re.compile(
    r"(rds|docdb|neptune|redshift|elbv2|dms|fsx|datasync|emr|ec2|cloudhsmv2|chime|appstream) describe-.*|chime .*|"
    r"cognito-idp .*import.*|mailmanager .*|glue (batch-)?get-jobs?|iot .*|lexv2-models .*"
)
"""Operations that have such a member in their output, and leave it empty, by their documentation."""
ASKS = re.compile(r"(describe|list|get|batch-get|head|lookup|search|filter)-|query$|scan$")


def kebab(name: str) -> str:
    """Return the name of a command or option of awscli for a name of botocore's (as its `xform_name` does)."""
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1-\2", name)
    return re.sub(r"([a-z\d])([A-Z])", r"\1-\2", name).lower()


def models(data: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each service by its name in awscli, and its newest model."""
    for folder in sorted(p for p in data.iterdir() if p.is_dir()):
        found = sorted(folder.glob("*/service-2.json*"))
        if found:
            text = gzip.decompress(found[-1].read_bytes()) if found[-1].suffix == ".gz" else found[-1].read_bytes()
            yield RENAMED.get(folder.name, folder.name), json.loads(text)


def aws(packages: Path) -> dict[str, str]:
    """The names for aws."""
    services, secrets, files, streams = set(ADDED.split()), set(), set(), set()
    values: Counter[str] = Counter()
    flags: Counter[str] = Counter()
    for service, model in models(packages / "botocore" / "data"):
        services.add(service)
        shapes = model["shapes"]
        for name, operation in model["operations"].items():
            command = f"{service} {kebab(name)}"
            output = shapes.get(operation.get("output", {}).get("shape"), {})
            payload = output.get("members", {}).get(output.get("payload", ""), {}).get("shape")
            if payload and shapes[payload]["type"] == "blob":
                files.add(command)
            if ASKS.match(kebab(name)) and not WITHHELD.fullmatch(command) and holds_secrets(shapes, output):
                secrets.add(command)
            for member, reference in shapes.get(operation.get("input", {}).get("shape"), {}).get("members", {}).items():
                shape = shapes[reference["shape"]]
                if shape.get("streaming") or reference.get("streaming"):
                    streams.add(kebab(member))
                count = AWS_FEW if service in COMMON and ASKS.match(kebab(name)) else 1
                (flags if shape["type"] == "boolean" else values)[kebab(member)] += count
    kept = {name for name, count in values.items() if count >= AWS_FEW and name not in streams}
    both = {name for name, count in flags.items() if count >= AWS_FEW and name not in kept}
    return {
        "services": words(services),
        "secrets": lines(secrets),
        "outfile": lines(files),
        "options": words(kept),
        "flags": words(both | {f"no-{name}" for name in both}),
    }


def holds_secrets(shapes: dict[str, Any], shape: dict[str, Any], depth: int = 3) -> bool:
    """Tell whether something in `shape`, an output, must stay secret."""
    for name, reference in shape.get("members", {}).items():
        inner = shapes[reference["shape"]]
        if inner["type"] in ("string", "blob") and KEPT.fullmatch(name):
            return True
        while inner["type"] in ("list", "map"):
            inner = shapes[(inner.get("member") or inner.get("value"))["shape"]]
        if inner["type"] == "structure" and depth and holds_secrets(shapes, inner, depth - 1):
            return True
    return False


def az(packages: Path) -> dict[str, str]:
    """The names for az."""
    groups: set[str] = set()
    values: Counter[str] = Counter()
    for path in sorted((packages / "azure" / "cli" / "command_modules").rglob("*.py")):
        if "tests" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        groups |= {g.split()[0] for g in re.findall(r"command_group\(\s*['\"]([a-z][a-z0-9 -]*)['\"]", text)}
        for command in re.findall(r'@register_command\(\s*"([a-z0-9 -]+)"', text):
            groups.add(command.split()[0])
            if command.split()[-1] in ("show", "list", "exists", "wait") or "list-" in command:
                given = {
                    o for names in re.findall(r"options=\[([^\]]*)\]", text) for o in re.findall(r'"(--?[^"]+)"', names)
                }
                values.update(o[2:] for o in given if o.startswith("--"))
    kept = {name for name, count in values.items() if count >= AZ_FEW and not FILES.search(name)}
    return {
        "services": words(groups | {"login", "logout", "rest", "account", "version", "find", "configure"}),
        "options": words(kept),
    }


def words(names: set[str]) -> str:
    """Names, as lines of YAML."""
    return fill(" ".join(sorted(names)), 116, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def lines(names: set[str]) -> str:
    """Commands by their service: `ec2: get-password-data ...`, as lines of YAML."""
    by: dict[str, set[str]] = {}
    for name in names:
        service, _, operation = name.partition(" ")
        by.setdefault(service, set()).add(operation)
    return "\n".join(f"  {service}: {' '.join(sorted(by[service]))}" for service in sorted(by))


def main() -> None:
    """Write the files."""
    packages = Path(sys.argv[1])
    SERVICES.mkdir(exist_ok=True)
    made = {"aws": ("botocore", aws(packages)), "az": ("azure_cli", az(packages))}
    for name, (package, parts) in made.items():
        version = next(packages.glob(f"{package}-*.dist-info")).name.split("-")[1]
        text = f"# Made by docs/make_services.py from {package.replace('_', '-')} {version} (PyPI). Do not edit.\n"
        for key, value in parts.items():
            text += f"{key}:{'' if key in ('secrets', 'outfile') else ' >-'}\n{value}\n"
        (SERVICES / f"{name}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
