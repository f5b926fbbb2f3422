# Two images: `service` answers and remembers, without torch; `worker` also runs things on hardware.
#
#   docker build --target service --tag chimera-tuner:service .
#   docker build --target worker  --tag chimera-tuner:worker .
#
# Without API keys the service listens on loopback only, so give its container the host's network:
#
#   docker run --network host --volume chimera:/var/lib/chimera chimera-tuner:service

ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /source
RUN python -m venv /opt/chimera
ENV PATH=/opt/chimera/bin:$PATH
COPY constraints.txt ./
RUN pip install --constraint constraints.txt hatchling
COPY pyproject.toml README.md LICENSE ./
COPY profiles profiles
COPY tuner tuner
COPY executor executor
COPY api api
COPY cli cli
COPY migrations migrations
RUN pip install --constraint constraints.txt --no-build-isolation '.[postgres]'

FROM build AS build-worker
RUN pip install --constraint constraints.txt --no-build-isolation '.[postgres,executor]'

FROM ${PYTHON_IMAGE} AS runtime
RUN useradd --system --uid 10001 --user-group --create-home --home-dir /var/lib/chimera chimera
ENV PATH=/opt/chimera/bin:$PATH PYTHONUNBUFFERED=1 PYTHONSAFEPATH=1
USER 10001:10001
WORKDIR /var/lib/chimera
VOLUME /var/lib/chimera
ENTRYPOINT ["chimera"]

FROM runtime AS worker
COPY --from=build-worker /opt/chimera /opt/chimera
CMD ["--help"]

# Last, so that a build without --target makes the service.
FROM runtime AS service
COPY --from=build /opt/chimera /opt/chimera
EXPOSE 8000
# /readyz answers within 5 s, whatever the database does. No proxy of the environment leads there.
HEALTHCHECK --interval=10s --timeout=8s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:8000/readyz', timeout=6)"]
CMD ["serve", "--host", "127.0.0.1", "--port", "8000"]
