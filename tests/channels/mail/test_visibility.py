"""What people do not see of a mail, or see struck out, is no answer, and beside it nothing is an approval."""

import pytest

from humanlayer_agent.channels.mail.authenticity import Refusal, Reply, vet
from tests.channels.mail.test_authenticity import DESK, mail

UNSEEN = {
    # Struck out
    "del": "<del>{}</del>", "s": "<s>{}</s>", "strike": "<strike>{}</strike>",
    "line-through": '<span style="text-decoration: underline line-through">{}</span>',
    "line-through, in full": '<span style="text-decoration-line:line-through !important">{}</span>',
    # Hidden
    "display": '<p style="color:red;DISPLAY : None">{}</p>', "visibility": '<i style="visibility:hidden">{}</i>',
    "collapse": '<i style="visibility: collapse">{}</i>', "hidden": "<p hidden>{}</p>",
    "hidden, until found": "<p hidden=until-found>{}</p>", "opacity": '<p style="opacity:0">{}</p>',
    "nearly no opacity": '<p style="opacity:.02">{}</p>', "a percent of opacity": '<p style="opacity:1%">{}</p>',
    "aria": '<p aria-hidden="true">{}</p>', "word": '<p style="mso-hide:all">{}</p>',
    "content": '<p style="content-visibility:hidden">{}</p>', "a comment in it": '<p style="display:/**/none">{}</p>',
    "an escape in it": r'<p style="display:n\6fne">{}</p>', "an entity in it": '<p style="display:&#110;one">{}</p>',
    "a second style": '<p style="color:red" style="display:none">{}</p>', "a variable": '<p style="display:var(--x)">{}</p>',
    "a slash that does not end it": '<span style="display:none"/>{}', "details": "<details>{}</details>",
    "for those without scripts": "<noscript>{}</noscript>", "a drawing": "<svg><text>{}</text></svg>",
    "an option": "<select><option>{}</option></select>", "a dialog": "<dialog>{}</dialog>",
    "a class": "<style>.x {{ color: red; display: none }}</style><p class=x>{}</p>",
    "a class of words before": '<style>p::before {{ content: "do not " }}</style>{}',
    "an outer element": '<div style="display:none"><table><tr><td><b>{}</b></td></tr></table></div>',
    "the body": '<html><body style="visibility:hidden"><p>{}</p></body></html>',
    "an element that a wrong end leaves open": '<span style="display:none"><p></span>{}',
    "one that is taken up again": "<div><s></div>{}</s>",
    # Tiny
    "font-size": '<p style="font-size:0">{}</p>', "a pixel": '<p style="font-size: 1px">{}</p>',
    "a tenth": '<p style="font-size:0.1em">{}</p>', "a font of nothing": '<p style="font: 0/0 a">{}</p>',
    "height": '<div style="height:0;overflow:hidden">{}</div>', "max-height": '<div style="max-height:0px">{}</div>',
    "width": '<div style="width:0">{}</div>', "an attribute": "<table><tr><td height=0>{}</td></tr></table>",
    "line-height": '<p style="line-height:0">{}</p>', "letter-spacing": '<p style="letter-spacing:-1em">{}</p>',
    "scale": '<p style="transform:scale(0)">{}</p>', "clip": '<p style="clip:rect(0 0 0 0)">{}</p>',
    "clip-path": '<p style="clip-path: inset(100%)">{}</p>',
    # Off the screen
    "left": '<p style="position:absolute;left:-9999px">{}</p>', "relative": '<p style="position:relative;top:-200em">{}</p>',
    "text-indent": '<p style="text-indent:-9999px">{}</p>', "margin": '<p style="margin-left:-500pt">{}</p>',
    "right": '<p style="margin: 0 0 0 5000px">{}</p>',
    # No contrast
    "white": '<p style="color:#fff">{}</p>', "white, in full": '<p style="color: rgb(255, 255, 255)">{}</p>',
    "font": "<font color=white>{}</font>", "nearly white": '<p style="color:#fdfdfe">{}</p>',
    "its background": '<p style="color:navy;background:#000080">{}</p>',
    "an unknown colour": '<p style="color:peru;background:peru">{}</p>', "no colour": '<p style="color:transparent">{}</p>',
    "hardly a colour": '<p style="color:rgba(0,0,0,.05)">{}</p>', "hex of no colour": '<p style="color:#00000000">{}</p>',
    "the background outside": '<td bgcolor="black"><b style="color:#010101">{}</b></td>',
    "a body of white": '<body text="#ffffff">{}</body>', "its fill": '<p style="-webkit-text-fill-color:transparent">{}</p>',
}  # fmt: skip


@pytest.mark.sample(24)
@pytest.mark.parametrize("form", UNSEEN.values(), ids=UNSEEN)
def test_what_is_not_seen(form: str) -> None:
    assert said(form.format("approve")) == "unclear", "it is no answer"
    assert said(form.format("reject")) == "unclear", "nor is the other"
    assert said("approve" + form.format("only on staging")) == "unclear", "and somebody else may see it"
    assert said("reject" + form.format("approve")) in ("reject", "unclear"), "what is seen may still say no"


SEEN = {
    "as Gmail": '<div dir="ltr" style="color:rgb(34,34,34);font-size:small;text-decoration-style:initial">{}</div>',
    "as Apple Mail": '<span style="caret-color: rgb(0, 0, 0); -webkit-text-stroke-width: 0px; text-decoration: none; '
    'text-indent: 0px; letter-spacing: normal; float: none; display: inline !important">{}</span>',
    "as Word": '<p class=MsoNormal style="margin:0cm;text-indent:-18.0pt;line-height:115%;color:windowtext">{}</p>',
    "as Outlook": '<div style="font-family: &quot;\\FF2D\\FF33&quot;; font-size: 12pt; color: rgb(0, 0, 0);" '
    'aria-hidden="false">{}</div>',
    "with a style sheet": "<style><!-- p.MsoNormal {{margin:0cm; font-size:11.0pt; color:black}} @page W {{size:612.0pt "
    "792.0pt; margin:72.0pt}} @list l0:level1 {{text-indent:-.25in}} --></style>{}",
    "on a dark background": '<body style="background-color:#1e1e1e;color:#fff"><p>{}</p></body>',
    "in a table": '<table width="100%"><tr><td width="1%" style="width:1%;max-width:600px">{}</td></tr></table>',
    "in a font": '<p style="font: 700 14px/1.4 Helvetica, sans-serif">{}</p>',
    "beside something empty": '<div style="display:none">&nbsp; </div>{}',
}  # fmt: skip


@pytest.mark.parametrize("form", SEEN.values(), ids=SEEN)
def test_what_mail_programs_write_is_seen(form: str) -> None:
    assert said(form.format("approve")) == "approve"
    assert said(form.format("approve, but only on staging")) == "unclear"


@pytest.mark.parametrize(
    "odd", ["<!--> only on staging-->", "<![CDATA[> only on staging]]>", "<!--x--!> only on staging-->"]
)
def test_what_only_browsers_see(odd: str) -> None:
    assert said(f"approve{odd}") == "unclear"


def test_what_is_quoted_may_be_hidden() -> None:
    assert said('approve<blockquote><p style="display:none">x</p><s>y</s></blockquote>') == "approve"


def test_a_style_that_takes_long_to_read() -> None:
    for style in ("1" * 90_000, "/*" * 40_000, ";" * 90_000, "\\" * 90_000, "rgb(" * 20_000, "a:" * 40_000):
        assert said(f'<p style="color:{style}">approve</p>') == "unclear"


def said(html: str) -> str:
    found = vet(mail(html=html), DESK)
    assert not isinstance(found, Refusal)
    assert isinstance(found, Reply)
    return found.said.kind
