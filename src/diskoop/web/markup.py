"""HTML elements from Python, whose text is escaped unless it is HTML already"""

from html import escape

# Elements without an end tag.
VOID = {"img", "meta", "br", "col"}


class Html(str):
    """Text that is HTML already: `element` does not escape it."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: str | bool | None) -> Html:
    """One element.

    Args:
        tag: its name.
        children: what it contains; those that are not `Html` are escaped.
        attributes: by name, with an underscore behind words of Python such as `class_`; True is an attribute without a
            value, and False and None leave it out.

    Example:
        >>> element("p", "a <script>", element("b", "c"), class_="note")
        '<p class="note">a &lt;script&gt;<b>c</b></p>'
    """
    start = tag
    for name, value in attributes.items():
        if value is True:
            start += f" {name.rstrip('_')}"
        elif value not in (None, False):
            start += f' {name.rstrip("_")}="{escape(str(value))}"'
    return Html(f"<{start}>" if tag in VOID else f"<{start}>{join(*children)}</{tag}>")


def join(*children: str, separator: str = "") -> Html:
    """Several pieces as one; those that are not `Html` are escaped."""
    return Html(separator.join(child if isinstance(child, Html) else escape(child, quote=False) for child in children))
