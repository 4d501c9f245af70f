# A client, and the evaluator: the user's app is mounted at /app, or copied there by an
# image built on this one. See deploy/README.md.
ARG BASE=docker.io/library/python:3.11-slim

FROM ${BASE} AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_CERT
# Extras of the package, separated by commas: torch, huggingface.
ARG EXTRAS
# A compiler for the kernels, which stays in this stage; without one NumPy does their work.
RUN headers=$(python -c "import sysconfig; print(sysconfig.get_path('include'))") \
    && { apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
        $([ -f "$headers/Python.h" ] || echo python3-dev) \
    || echo "no compiler can be installed: the kernels will be NumPy's" >&2; }
RUN python -m venv /opt/pip && python -m venv --without-pip /opt/latecomer
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/pip-cache \
    /opt/pip/bin/pip --python /opt/latecomer/bin/python --cache-dir /pip-cache \
    install -c constraints.txt \
    ".${EXTRAS:+[${EXTRAS}]}"
# No plots, which no device draws, and no tests of other packages: half of the bytes.
RUN /opt/pip/bin/pip --python /opt/latecomer/bin/python uninstall -y plotly narwhals \
    && find /opt/latecomer -depth -type d -name tests -exec rm -r {} +

FROM ${BASE}
RUN groupadd --gid 10001 latecomer \
    && useradd --uid 10001 --gid 10001 --no-log-init --home-dir /tmp latecomer \
    && install -d -o 10001 -g 10001 /data
COPY --from=build /opt/latecomer /opt/latecomer
ENV PATH=/opt/latecomer/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /app
VOLUME /data
ENTRYPOINT ["fedclient"]
CMD ["--help"]
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="latecomer client" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
