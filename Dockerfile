# diskoop in a container, with video, sound, tables and HDF5.
#
#     docker build -t diskoop .
#     docker run --rm -v "$PWD:/work" diskoop                      # diskoop demo
#     docker run --rm -v "$PWD:/work" diskoop train data.path=clips
#
# Without --build-arg PIP_EXTRA_INDEX_URL=... pip takes torch's usual build. tools/bare_root.py takes the same steps where
# there is no Docker.
FROM python:3.11-slim-bookworm

ARG PIP_EXTRA_INDEX_URL
WORKDIR /opt/diskoop/source
COPY constraints.txt hatch_build.py pyproject.toml LICENSE README.md ./
COPY src src
RUN python3 -m venv /opt/diskoop/venv
RUN /opt/diskoop/venv/bin/python -m pip install --no-cache-dir -c constraints.txt ".[video,audio,hdf5,parquet]"

ENV PATH=/opt/diskoop/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
WORKDIR /work
ENTRYPOINT ["diskoop"]
CMD ["demo"]
