"""Settings of Django: known where a program makes them itself, before it does anything else."""

import pytest

from humanlayer_agent.shell.languages.python import read

HEAD = "import shutil, tempfile\nimport django\nfrom django.conf import settings\n"
APPS = "INSTALLED_APPS=['django.contrib.staticfiles']"
GUARDED = (
    f"if not settings.configured:\n    settings.configure(STATIC_ROOT=tempfile.mkdtemp(), {APPS})\n    django.setup()\n"
)
DELETE = "shutil.rmtree(settings.STATIC_ROOT)\n"
DATABASE = "DATABASES={'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': 'a.db'}}, ROOT_URLCONF=__name__"


def deleted(source: str) -> set[str]:
    """What is deleted; "" is something that is not known."""
    acts = [act for act in read(source).acts if act.kind == "delete"]
    return {choice for act in acts for text in act.operands for choice in text.choices or ("",)}


@pytest.mark.parametrize(
    "made",
    [
        GUARDED,
        f"settings.configure(STATIC_ROOT=tempfile.mkdtemp(), {DATABASE})\n",
        f"from django.core.files.base import ContentFile\nURL = '/static/'\n{GUARDED}",
        f"{GUARDED}from django.test import TestCase\n",
    ],
)
def test_what_a_program_sets_itself_is_known(made: str) -> None:
    assert "" not in deleted(HEAD + made + DELETE)
    assert deleted(HEAD + made + DELETE)


def test_a_folder_that_it_names_is_that_folder() -> None:
    assert deleted(f"{HEAD}settings.configure(STATIC_ROOT='/srv/x')\n{DELETE}") == {"/srv/x"}


@pytest.mark.parametrize(
    "more",
    [
        "import shop\n", "from .settings import *\n", "from django.test import override_settings\n",
        "from django.conf import settings as s\n", "settings.STATIC_ROOT = '/srv/x'\n", "del settings.STATIC_ROOT\n",
        "settings._setup()\n", "print(settings)\n", "other = settings\n", "for settings in []:\n    pass\n",
        "try:\n    pass\nexcept OSError as settings:\n    pass\n", "exec('1')\n", "getattr(django, 'conf')\n",
        "django.conf\n", "import os\nos.environ['DJANGO_SETTINGS_MODULE'] = 'shop.settings'\n",
        "match 1:\n    case settings:\n        pass\n", "def settings():\n    pass\n",
        "import django.test.utils as u\nu.override_settings(STATIC_ROOT='/srv/x').enable()\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("first", [True, False])
def test_who_may_have_got_others_is_not_believed(more: str, first: bool) -> None:
    source = HEAD + (more + GUARDED if first else GUARDED + more) + DELETE
    assert "" in deleted(source), source


@pytest.mark.parametrize(
    "made",
    [
        "",
        "if tempfile:\n    settings.configure(STATIC_ROOT=tempfile.mkdtemp())\n",
        "settings.configure(STATIC_ROOT=tempfile.mkdtemp(), **{})\n",
        "settings.configure(STATIC_ROOT=tempfile.mkdtemp(), INSTALLED_APPS=['shop'])\n",
        "settings.configure(STATIC_ROOT=tempfile.mkdtemp(), STATICFILES_STORAGE='shop.Storage')\n",
        "settings.configure(STATIC_ROOT=tempfile.mkdtemp(), ROOT_URLCONF='urls')\n",
        f"print(settings.DEBUG)\n{GUARDED}",
        f"from django.contrib.auth import models\n{GUARDED}",
        "settings.configure(MEDIA_ROOT=tempfile.mkdtemp())\n",
    ],
)
def test_settings_of_a_project_are_not_known(made: str) -> None:
    assert "" in deleted(HEAD + made + DELETE)


def test_what_is_read_before_is_not_known() -> None:
    assert "" in deleted(HEAD + DELETE + GUARDED)
    assert deleted(f"import shutil\nsettings = open('x')\nsettings.configure(STATIC_ROOT='build')\n{DELETE}") == {""}
