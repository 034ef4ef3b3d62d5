from analytics.plan.expressions import Attribute, Comparison, Literal, Membership, Not


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
