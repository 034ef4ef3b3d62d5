"""Operators over attributes of points: an example of a package of operators."""

COUNTRIES = {0: "CY", 1: "GR", 2: "FR", 3: "IT"}
"""The second number of an IP address -> the country."""

LEGAL = {"Zorba": ("CY", "GR"), "Amelie": ("FR",), "Cinema Paradiso": ("IT", "FR")}
"""Movie -> the countries in which it may be shown."""

ACCEPTED = {"east": (5, 7), "west": (6.0,)}
"""Region -> the costs of data centres that it accepts."""


class IpToCountry:
    """The country of an IP address; no country for an unknown address."""

    name = "ipToCountry"
    version = "1.0"

    def derive(self, ip):
        parts = str(ip).split(".")
        second = parts[1] if len(parts) == 4 else ""
        return COUNTRIES.get(int(second)) if second.isdigit() else None


class LegalCountries:
    """The countries in which a movie may be shown, as a set."""

    name = "legalCountries"
    version = "1.0"

    def derive(self, movie):
        return set(LEGAL.get(movie, ()))


class Letters:
    """The letters of a text, as a list; the list of another value is empty."""

    name = "letters"
    version = "1.0"

    def derive(self, text):
        return list(text) if isinstance(text, str) else []


class AcceptedCosts:
    """The costs of data centres that a region accepts, as a list of numbers."""

    name = "acceptedCosts"
    version = "1.0"

    def derive(self, region):
        return list(ACCEPTED.get(region, ()))
