import { startRemote } from '../support/remote.js';
import { check, percentile, scenario } from './scenario.js';
import { onStage, positionOf, rssOf, type Stage, sleep, watchAll } from './support.js';

interface Lengths {
  readonly clients: number;
  readonly perSecond: number;
  readonly forMs: number;
  /** The same load before: what the feed itself needs is there only after a while of it. */
  readonly warmMs: number;
  readonly stallMs: number;
  /** The others may be slower by so much at their worst hundredth. */
  readonly slackMs: number;
  readonly grownMiB: number;
}

type Watcher = Awaited<ReturnType<typeof watchAll>>;

interface Loaded {
  /** With which the others received, in milliseconds. */
  readonly delays: number[];
  /** Resident memory of the daemon in the middle of the second half: it goes up and down. */
  readonly rss: number;
}

/** Publishes at a fixed rate for a while. */
async function load(
  pid: number,
  wire: Awaited<ReturnType<Awaited<ReturnType<Stage['daemon']>>['session']>>,
  others: readonly Watcher[],
  { perSecond, forMs }: Pick<Lengths, 'perSecond' | 'forMs'>,
): Promise<Loaded> {
  const pad = 'x'.repeat(900);
  const sizes: number[] = [];
  const delays: number[] = [];
  // Looked at as it comes and not kept: the test process must not be what is slow.
  const listen =
    (other: Watcher) =>
    (data: unknown): void => {
      const receivedAt = Date.now();
      for (const [, sentAt] of String(data).matchAll(/"sentAt":(\d+)/g)) delays.push(receivedAt - Number(sentAt));
      other.lines.length = 0;
    };
  const listeners = others.map((other) => [other, listen(other)] as const);
  for (const [{ socket }, listener] of listeners) socket.on('message', listener);
  const until = Date.now() + forMs;
  while (Date.now() < until) {
    const events = Array.from({ length: perSecond / 20 }, (_, n) => ({
      type: 'x.y',
      data: { n, pad, sentAt: Date.now() },
    }));
    void wire.call('feed.publish', { events });
    sizes.push(rssOf(pid));
    await sleep(50);
  }
  await sleep(500);
  for (const [{ socket }, listener] of listeners) socket.off('message', listener);
  return { delays, rss: percentile(sizes.slice(sizes.length >> 1), 0.5) };
}

export const stoppedReader = scenario<Lengths>({
  id: 'F26',
  title: 'one of many readers stops reading: nobody else notices, memory stays, it is cut and resumes without loss',
  short: { clients: 20, perSecond: 400, forMs: 4000, warmMs: 2000, stallMs: 1500, slackMs: 250, grownMiB: 40 },
  full: {
    clients: 100,
    perSecond: 2000,
    forMs: 300_000,
    warmMs: 120_000,
    stallMs: 30_000,
    slackMs: 250,
    grownMiB: 5,
  },
  run: (lengths) =>
    onStage(async ({ daemon, tap }) => {
      const one = await daemon({ 'gateway.stallMs': lengths.stallMs, 'log.bytesMax': 1024 * 1024 * 1024 });
      const others = await Promise.all(
        Array.from({ length: lengths.clients - 1 }, () => watchAll(one, 'new', ['x.>'])),
      );
      const publisher = await one.session({ agent: 'p', ttlMs: 600_000 });
      const { perSecond, warmMs, forMs } = lengths;
      const warm = await load(one.pid, publisher, others, { perSecond, forMs: warmMs });
      const stopped = await startRemote(one.url);
      await stopped.wire.call('session.open', { agent: 'stopped', ttlMs: 600_000 });
      const { from } = await stopped.wire.call('feed.subscribe', { types: ['x.>'] });
      const watcher = Object.assign(stopped.wire, { from: from as string });
      stopped.freeze();
      const loaded = await load(one.pid, publisher, others, { perSecond, forMs });
      const grown = Math.round((loaded.rss - warm.rss) / 1024 / 1024);
      stopped.thaw();
      // Cut or not depends on how much the kernel took; either way it gets everything.
      await sleep(1500);
      const record = [watcher];
      if (watcher.closed) record.push(await watchAll(one, positionOf(watcher), ['x.>']));
      await tap.poll();
      const wanted = tap.standing.filter(({ type, offset }) => type === 'x.y' && offset > Number(from.split(':')[1]));
      const offsets = (): Set<number> => new Set(record.flatMap((wire) => wire.events().map(({ offset }) => offset)));
      // Looked at now and then, and given time by what there is to catch up with.
      const untilAt = performance.now() + 20_000 + wanted.length / 4;
      while (offsets().size < wanted.length && performance.now() < untilAt) await sleep(500);
      const got = offsets();
      check(
        wanted.every(({ offset }) => got.has(offset)),
        `${wanted.length - got.size} of ${wanted.length} events did not reach the stopped reader`,
      );
      const [before, after] = [percentile(warm.delays, 0.99), percentile(loaded.delays, 0.99)];
      check(
        after <= before + lengths.slackMs,
        `p99 of the others ${before} ms before, ${after} ms beside the stopped reader`,
      );
      check(grown < lengths.grownMiB, `the daemon grew by ${grown} MiB`);
      stopped.kill();
      const how = watcher.closed ? `cut (${watcher.closed.code}), resumed` : 'not cut';
      return `${how}, nothing missed of ${wanted.length}; p99 of the others ${before} → ${after} ms, ${grown} MiB more`;
    }),
});
