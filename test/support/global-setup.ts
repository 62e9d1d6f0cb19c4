/**
 * Tests that start real processes run dist/, so it has to be as new as the sources. `npm test` has built it strictly
 * before; here type errors elsewhere must not keep someone from running a single file, as long as tsc wrote its output.
 */
export default async function setup(): Promise<void> {
  const { build } = await import(new URL('../../bin/build.js', import.meta.url).href);
  await build({ tolerant: true });
}
