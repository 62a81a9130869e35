# syntax=docker/dockerfile:1
# counsel for a team: `docker build -t counsel .` (docs/use/team.md). Node is needed to build the console, not to run it.
FROM python:3.13-slim AS build
WORKDIR /src
COPY requirements-team.lock ./
RUN python -m venv /opt/counsel \
 && /opt/counsel/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --require-hashes -r requirements-team.lock
COPY . .
RUN COUNSEL_REQUIRE_CONSOLE=1 pip wheel --no-cache-dir --disable-pip-version-check --no-deps --wheel-dir /wheels . \
 && /opt/counsel/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps /wheels/counsel-*.whl \
 && /opt/counsel/bin/counsel --version

FROM python:3.13-slim
RUN groupadd --gid 10001 counsel \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/counsel --create-home --shell /usr/sbin/nologin counsel
COPY --from=build /opt/counsel /opt/counsel
ENV PATH=/opt/counsel/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    COUNSEL_HOME=/var/lib/counsel \
    COUNSEL_HOST=0.0.0.0 \
    COUNSEL_LOG_FORMAT=json
USER 10001:10001
WORKDIR /var/lib/counsel
EXPOSE 3157
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:3157/health', timeout=2)"]
ENTRYPOINT ["counsel"]
CMD ["serve"]
