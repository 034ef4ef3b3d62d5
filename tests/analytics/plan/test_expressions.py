import msgspec

from analytics.plan.expressions import (
    Attribute,
    Comparison,
    Label,
    Literal,
    Membership,
    Not,
    Value,
    is_text,
)


def test_a_number_is_not_the_boolean_that_python_considers_equal() -> None:
    assert Literal(1.0) != Literal(True)
    assert Literal(0.0) == Literal(0.0)
    spare = Attribute("spare")
    conditions = {
        Comparison("==", spare, Literal(1.0)),
        Comparison("==", spare, Literal(True)),
        Membership(spare, (1.0,)),
        Membership(spare, (True,)),
    }
    assert len(conditions) == 4
    assert Not(Membership(spare, (0.0, "a"))) == Not(Membership(spare, (0.0, "a")))
    assert Not(Membership(spare, (0.0,))) != Not(Membership(spare, (False,)))


def test_label_of_a_plan_of_an_earlier_version_is_a_number() -> None:
    former = b'{"type":"label","attribute":"price","latest":{"type":"value"},"is_number":true}'
    label = msgspec.json.decode(former, type=Label)
    assert (label.value_kind, is_text(label)) == ("number", False)
    assert b"is_number" not in msgspec.json.encode(Label("price", Value(), kind="number"))
