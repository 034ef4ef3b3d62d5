"""TLS on Ignite's thin-client port: the server's key store, and the clients' options."""

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
    """The files and the password with which Ignite's server uses TLS.

    ``key_store``: the server's key and certificate (PKCS12). ``password``: the password of the key
    store. ``ca``: the CA certificates (PEM).
    """

    key_store: Path
    password: str = field(repr=False)
    ca: Path

    def xml(self) -> str:
        """Return, as Spring XML, the TLS properties that Ignite's client connector requires."""
        return _SERVER.format(factory=self._factory())

    def control_flags(self, folder: Path) -> list[str]:
        """Return the command-line flags with which Ignite's control utility uses TLS.

        The flags name a configuration file, which this method writes into ``folder``.
        """
        # A file, because all users of a machine see the arguments of its processes.
        path = folder / "control.xml"
        path.touch(mode=0o600)
        path.write_text(_CONTROL.format(factory=self._factory()))
        return ["--ssl-factory", str(path.absolute())]

    def _factory(self) -> str:
        path = quoteattr(str(self.key_store.absolute()))
        return _FACTORY.format(path=path, password=quoteattr(self.password))


def client_tls(ca: Path | None, *, named: bool = True) -> dict[str, Any]:
    """Return the options of pyignite with which a client verifies the server's certificate.

    ``ca``: the CA certificates; None: TLS is off, and the result is empty. ``named``: also verify
    the host name, which only pyignite's ``AioClient`` supports.
    """
    if ca is None:
        return {}
    return {
        "use_ssl": True,
        "ssl_version": ssl.PROTOCOL_TLS_CLIENT if named else ssl.PROTOCOL_TLSv1_2,
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
        "ssl_ca_certfile": str(ca),
    }
