# Everything needed to build, then only what runs: Node, the production dependencies, dist/ and a redis-server for when
# no REDIS_URL is given. Listening beyond loopback needs a token, so a container is started with SIGNALBOX_TOKEN:
#   docker run -e SIGNALBOX_TOKEN=… -p 127.0.0.1:7171:7171 -v signalbox:/var/lib/signalbox signalbox

FROM node:20-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --include=dev
COPY tsconfig.json tsconfig.build.json ./
COPY bin bin
COPY src src
COPY streams streams
RUN npm run build

FROM node:20-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev

FROM node:20-bookworm-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends redis-server \
 && rm -rf /var/lib/apt/lists/* \
 && install -d -o node -g node -m 0700 /var/lib/signalbox
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY package.json ./
COPY bin bin
COPY config config
USER node
ENV NODE_ENV=production \
    SIGNALBOX_HOST=0.0.0.0 \
    SIGNALBOX_STATE_DIR=/var/lib/signalbox
VOLUME /var/lib/signalbox
EXPOSE 7171
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 CMD ["node", "bin/healthcheck.js"]
ENTRYPOINT ["node", "bin/signalbox.js"]
CMD ["up", "--config", "config/production.json"]
