# Unattended: one image for all five roles; MongoDB and Redis are yours.
#
#   docker build -t unattended .
#   docker build -t unattended --build-arg EXTRAS=anthropic,bedrock .      # with libraries of more providers
#
# The tag of the base moves with its security updates. To build the same image again, name the base by its digest
# (docker buildx imagetools inspect python:3.11-slim-bookworm shows it) and let BuildKit set the layers' times:
#
#   SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) docker buildx build -t unattended \
#     --build-arg PYTHON=python:3.11-slim-bookworm@sha256:… --output type=image,rewrite-timestamp=true .
ARG PYTHON=python:3.11-slim-bookworm

FROM ${PYTHON} AS build
ARG EXTRAS=""
ARG SOURCE_DATE_EPOCH=1704067200
# Versions of everything, also of what builds the wheel.
ENV PIP_CONSTRAINT=/source/constraints.txt PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /source
RUN python -m venv --without-pip /opt/unattended
# Libraries before the source: a change of the source builds one small step anew.
COPY pyproject.toml constraints.txt ./
RUN python -c 'import sys, tomllib; \
project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
extras = [each.strip() for each in sys.argv[1].split(",") if each.strip()]; \
print(*project["dependencies"], *(line for each in extras for line in project["optional-dependencies"][each]), sep="\n")' \
    "$EXTRAS" > /tmp/requirements.txt \
 && pip --python /opt/unattended/bin/python install --no-compile -r /tmp/requirements.txt
COPY . .
# Bytecode that is never compared with its source, since nobody edits an image; files of one time and one user, which
# are the same whenever they are built. pip notes in RECORD what it has compiled: nothing.
RUN pip --python /opt/unattended/bin/python install --no-compile --no-deps . \
 && PYTHONHASHSEED=0 python -m compileall -q --invalidation-mode unchecked-hash /opt/unattended/lib \
 && mkdir -p /image/etc /image/flows /image/opt \
 && mv /opt/unattended /image/opt/unattended \
 && { cat /etc/passwd; echo 'unattended:x:10001:10001:Unattended:/flows:/usr/sbin/nologin'; } > /image/etc/passwd \
 && { cat /etc/group; echo 'unattended:x:10001:'; } > /image/etc/group \
 && find /image -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

FROM ${PYTHON}
LABEL org.opencontainers.image.title="Unattended" \
      org.opencontainers.image.description="Runs AG2 multi-agent workflows with nobody in the chat" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /image/ /
# A root file system that is mounted read-only is enough; MongoDB keeps everything.
ENV PATH=/opt/unattended/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# Packages are found in /flows/workflows, models in /flows/models.yaml, the operator's file in /flows/unattended.yaml;
# without them the shipped examples run.
WORKDIR /flows
USER 10001:10001
EXPOSE 8400 9400 9401
STOPSIGNAL SIGTERM
ENTRYPOINT ["unattended"]
CMD ["--help"]
