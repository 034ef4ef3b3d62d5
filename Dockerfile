# One image for every service. `make images` puts its parts together in .mistbow/image and builds
# it; the build itself needs no network, unless the base lacks Java.
ARG BASE=python:3.12-slim-bookworm

FROM ${BASE} AS java
LABEL mistbow.image=""
RUN if ! command -v java; then \
      apt-get update \
      && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
      && rm -rf /var/lib/apt/lists/*; \
    fi
RUN groupadd --gid 10001 mistbow \
    && useradd --uid 10001 --gid 10001 --home-dir /var/lib/mistbow --shell /usr/sbin/nologin mistbow \
    && install -d -o mistbow -g mistbow -m 0700 /var/lib/mistbow

FROM java AS build
COPY .mistbow/image/requirements.txt /build/
COPY .mistbow/image/wheels /build/wheels
RUN python3 -m venv /opt/mistbow/venv \
    && /opt/mistbow/venv/bin/pip install --disable-pip-version-check --no-cache-dir --no-index \
      --find-links /build/wheels --require-hashes -r /build/requirements.txt
COPY .mistbow/image/jars /opt/mistbow/jars
COPY .mistbow/image/entrypoint.py .mistbow/image/health.py /opt/mistbow/
COPY .mistbow/image/app /build/app
RUN /opt/mistbow/venv/bin/pip install --disable-pip-version-check --no-cache-dir --no-index \
      --no-deps /build/app/*.whl \
    && MISTBOW_JARS=/opt/mistbow/jars /opt/mistbow/venv/bin/mistbow setup \
    && chmod -R a+rX /opt/mistbow

FROM java
# For the identities and tokens of a container, which only root may change.
RUN install -d -m 0755 /run/mistbow
COPY --from=build /opt/mistbow /opt/mistbow
ENV PATH=/opt/mistbow/venv/bin:$PATH \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MISTBOW_HOME=/var/lib/mistbow \
    MISTBOW_JARS=/opt/mistbow/jars \
    MISTBOW_HOST=0.0.0.0
USER mistbow
WORKDIR /var/lib/mistbow
ENTRYPOINT ["python3", "-IS", "/opt/mistbow/entrypoint.py"]
