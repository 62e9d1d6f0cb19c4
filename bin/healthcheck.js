/**
 * For HEALTHCHECK of the container: exit code 0 when the daemon of this container answers /healthz with 200. The image
 * has no curl, and needs none.
 */
const port = process.env.SIGNALBOX_PORT || process.env.SIGNALBOX_GATEWAY_PORT || '7171';

try {
  const response = await fetch(`http://127.0.0.1:${port}/healthz`, { signal: AbortSignal.timeout(4000) });
  console.log(`${response.status} ${await response.text()}`);
  process.exitCode = response.ok ? 0 : 1;
} catch (error) {
  console.log(`no answer on port ${port}: ${error.cause?.code ?? error.message}`);
  process.exitCode = 1;
}
