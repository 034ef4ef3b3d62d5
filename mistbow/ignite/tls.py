"""TLS on Ignite's thin-client port: what the server shows, and what clients check it by."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

_FACTORY = """
          <bean class="org.apache.ignite.ssl.SslContextFactory">
            <property name="keyStoreType" value="PKCS12"/>
            <property name="keyStoreFilePath" value={path}/>
            <property name="keyStorePassword" value={password}/>
            <property name="trustStoreType" value="PKCS12"/>
            <property name="trustStoreFilePath" value={path}/>
            <property name="trustStorePassword" value={password}/>
          </bean>"""
_SERVER = """
        <property name="sslEnabled" value="true"/>
        <property name="useIgniteSslContextFactory" value="false"/>
        <property name="sslContextFactory">{factory}
        </property>"""
_CONTROL = """<?xml version="1.0" encoding="UTF-8"?>
<beans xmlns="http://www.springframework.org/schema/beans"
       xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="http://www.springframework.org/schema/beans
                           http://www.springframework.org/schema/beans/spring-beans.xsd">{factory}
</beans>"""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """A key store (PKCS12) with its password, and the authorities (PEM) that vouch for it."""

    key_store: Path
    password: str = field(repr=False)
    ca: Path

    def xml(self) -> str:
        """Return the properties of the client connector."""
        return _SERVER.format(factory=self._factory())

    def control_flags(self, folder: Path) -> list[str]:
        """Return what tells Ignite's control utility to speak TLS; ``folder`` is for a file."""
        # In a file, for all users of a machine see the arguments of its processes.
        path = folder / "control.xml"
        path.touch(mode=0o600)
        path.write_text(_CONTROL.format(factory=self._factory()))
        return ["--ssl-factory", str(path.absolute())]

    def _factory(self) -> str:
        path = quoteattr(str(self.key_store.absolute()))
        return _FACTORY.format(path=path, password=quoteattr(self.password))


def client_tls(ca: Path | None, *, named: bool = True) -> dict[str, Any]:
    """Return pyignite's options, which checks no certificate unless it is told to.

    ``named``: the certificate has to be one for the host that is dialled, which only pyignite's
    ``AioClient`` can check.
    """
    if ca is None:
        return {}
    return {
        "use_ssl": True,
        "ssl_version": ssl.PROTOCOL_TLS_CLIENT if named else ssl.PROTOCOL_TLSv1_2,
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
        "ssl_ca_certfile": str(ca),
    }
