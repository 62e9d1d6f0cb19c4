import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files of more than about 8 s, the longest first. */
const long = [
  'simulation/simulation',
  'faults/feed',
  'cli/up',
  'faults/agents',
  'faults/bulk',
  'demo',
  'queue/order',
  'lease/keeping',
  'client/process',
  'ops/health',
  'redis/event-log',
  'faults/queue',
  'lease/redis-link',
  'cli/queue',
  'lease/namespaces',
  'cli/observe',
  'queue/flow',
  'queue/pause',
  'bin/build',
  'ops/metrics',
  'lease/drain',
  'lease/ownership-daemon',
  'client/daemon-faults',
].map((name) => `test/${name}.test.ts`);

for (const file of long)
  if (!existsSync(fileURLToPath(new URL(`../../${file}`, import.meta.url))))
    throw new Error(`${file} does not exist any more: take it out of test/support/longest-first.ts, or name it anew`);

/**
 * The order in which files start. A long file that starts last keeps one worker busy while the others have nothing left
 * to do; by itself a fresh clone would start the largest files first, and the longest ones are small.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId, project }: TestSpecification): number => {
      const at = long.indexOf(relative(project.config.root, moduleId));
      return at < 0 ? long.length : at;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}
