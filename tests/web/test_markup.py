"""Text is escaped unless it is HTML already."""

from diskoop.web.markup import Html, element, join


def test_text_and_attributes_are_escaped() -> None:
    made = element("p", "<script>&", element("b", "'x'"), title='a "b" <c>')
    assert made == "<p title=\"a &quot;b&quot; &lt;c&gt;\">&lt;script&gt;&amp;<b>'x'</b></p>"
    assert join("<", Html("<i>"), separator=" ") == "&lt; <i>"


def test_attributes_without_a_value_and_without_effect() -> None:
    assert element("audio", controls=True, muted=False, src=None, class_="a") == '<audio controls class="a"></audio>'
    assert element("img", alt="") == '<img alt="">'
