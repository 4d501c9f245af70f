# The server: no torch, no user code, no root. See deploy/README.md.
ARG BASE=docker.io/library/python:3.11-slim

FROM ${BASE} AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_CERT
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
    install -c constraints.txt ".[web]"
# No plots, which only `fedserver report` needs, no colours for source code, and nothing
# that only compilers and type checkers read: half of the bytes. REPORT=yes keeps the plots.
ARG REPORT
RUN [ -n "${REPORT}" ] || /opt/pip/bin/pip --python /opt/latecomer/bin/python \
        uninstall -y plotly narwhals \
    && /opt/pip/bin/pip --python /opt/latecomer/bin/python uninstall -y pygments \
    && cd /opt/latecomer/lib/python3*/site-packages \
    && rm -r numpy/f2py numpy/distutils numpy/_core/include numpy/_core/lib \
    && find /opt/latecomer -depth -type d -name tests -exec rm -r {} + \
    && find . -name '*.py[ix]' -delete -o -name '*.pxd' -delete

FROM ${BASE}
RUN groupadd --gid 10001 latecomer \
    && useradd --uid 10001 --gid 10001 --no-log-init --home-dir /tmp latecomer \
    && install -d -o 10001 -g 10001 /data
COPY --from=build /opt/latecomer /opt/latecomer
# The allocator keeps large blocks instead of returning them, which saves the page
# faults of large uploads.
ENV PATH=/opt/latecomer/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MALLOC_MMAP_THRESHOLD_=1073741824 \
    MALLOC_TRIM_THRESHOLD_=2147483648 \
    MALLOC_TOP_PAD_=67108864
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8443
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s \
    CMD ["fedserver", "healthcheck", "127.0.0.1:8443"]
ENTRYPOINT ["fedserver"]
CMD ["run", "/config/federation.yaml"]
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="latecomer server" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
