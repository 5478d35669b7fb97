# docker build -t pipesim .
# docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" -v pipesim-cache:/cache pipesim simulate bert-large dgx1_v100 --gantt gantt.png
# Files are read from and written to the current folder, as its user. Compiled kernels stay in the volume pipesim-cache.
# With other extras: docker build --build-arg EXTRAS='[dask,parquet]' -t pipesim .
FROM python:3.12-slim
ARG EXTRAS=""
COPY . /source
RUN PIP_BUILD_CONSTRAINT=/source/constraints.txt \
    pip install --no-cache-dir --constraint /source/constraints.txt "/source${EXTRAS}" && rm -rf /source
# Any user of the container may write there; a new volume begins with these permissions.
ENV XDG_CACHE_HOME=/cache MPLCONFIGDIR=/cache/matplotlib
RUN mkdir -m 777 /cache
WORKDIR /work
ENTRYPOINT ["pipesim"]
CMD ["--help"]
