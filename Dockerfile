# docker build -t pipesim . ; docker run --rm -v "$PWD:/work" pipesim simulate bert-large dgx1_v100 --gantt gantt.png
# With other extras: docker build --build-arg EXTRAS='[dask,parquet]' -t pipesim .
FROM python:3.12-slim
ARG EXTRAS=""
COPY . /source
RUN pip install --no-cache-dir --constraint /source/constraints.txt "/source${EXTRAS}" && rm -rf /source
# Kernels are compiled once, into a folder that any user of the container may read and write.
ENV XDG_CACHE_HOME=/cache
RUN mkdir -m 777 /cache
WORKDIR /work
ENTRYPOINT ["pipesim"]
CMD ["--help"]
