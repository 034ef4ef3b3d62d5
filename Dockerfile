# `make images` assembles the build context in .mistbow/image, and builds the target `all`: one image
# for every service. `make role-images` builds the targets `storage`, `worker` and `enabler` (with the
# monitoring agent), each without the packages that only other roles need. A build needs no network,
# unless the base lacks Java.
ARG BASE=python:3.12-slim-bookworm

FROM ${BASE} AS plain
LABEL mistbow.image=""
RUN groupadd --gid 10001 mistbow \
    && useradd --uid 10001 --gid 10001 --home-dir /var/lib/mistbow --shell /usr/sbin/nologin mistbow \
    && install -d -o mistbow -g mistbow -m 0700 /var/lib/mistbow \
    # For the identities and tokens of a container, which only root may change.
    && install -d -m 0755 /run/mistbow
ENV PATH=/opt/mistbow/venv/bin:$PATH \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MISTBOW_HOME=/var/lib/mistbow \
    MISTBOW_JARS=/opt/mistbow/jars \
    MISTBOW_HOST=0.0.0.0
WORKDIR /var/lib/mistbow
ENTRYPOINT ["python3", "-IS", "/opt/mistbow/entrypoint.py"]

FROM plain AS java
RUN if ! command -v java; then \
      apt-get update \
      && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
      && rm -rf /var/lib/apt/lists/*; \
    fi

FROM java AS build
ENV PYTHONDONTWRITEBYTECODE="" MISTBOW_HOME=/build/home
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
    && mistbow setup \
    && chmod -R a+rX /opt/mistbow

FROM java AS all
COPY --from=build /opt/mistbow /opt/mistbow
USER mistbow

# WITHOUT lists the packages that a role does not need; a test starts its services without them.
# The class archive of Spark is in share/mistbow; the class archive of Ignite is beside its jars.
FROM build AS storage-parts
ARG STORAGE_WITHOUT="pyspark py4j pandas pytz scipy statsmodels patsy formulaic narwhals docker"
RUN pip uninstall --quiet --yes $STORAGE_WITHOUT && rm -rf /opt/mistbow/venv/share/mistbow

FROM java AS storage
COPY --from=storage-parts /opt/mistbow /opt/mistbow
USER mistbow

FROM build AS worker-parts
ARG WORKER_WITHOUT="duckdb docker pyignite promql-parser aiomqtt paho-mqtt"
RUN pip uninstall --quiet --yes $WORKER_WITHOUT && rm -r /opt/mistbow/jars

FROM java AS worker
COPY --from=worker-parts /opt/mistbow /opt/mistbow
USER mistbow

FROM build AS enabler-parts
ARG ENABLER_WITHOUT="pyspark py4j pandas pytz statsmodels patsy formulaic narwhals docker duckdb pyignite promql-parser aiomqtt paho-mqtt"
RUN pip uninstall --quiet --yes $ENABLER_WITHOUT \
    && rm -rf /opt/mistbow/jars /opt/mistbow/venv/share/mistbow

FROM plain AS enabler
COPY --from=enabler-parts /opt/mistbow /opt/mistbow
USER mistbow
